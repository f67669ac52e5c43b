/* jsonl_row.h: what stands under the keys of a row that are read, and the row that they make. */
#ifndef SW_DATA_JSONL_ROW_H
#define SW_DATA_JSONL_ROW_H

#include "data/json_cursor.h"
#include "data/jsonl.h"

/* The keys of a row: columns (role and content are none of a row's), and those whose names are
 * fixed. */
enum {
    SW_ROW_VARIABLES = SW_N_COLUMNS,
    SW_ROW_ADDS_PROMPT,
    SW_ROW_WEIGHT,
    SW_ROW_TRAIN,
    SW_N_ROW_KEYS
};

/* What kinds of value a key takes. null is the same as absent where another form is there. */
enum {
    SW_TAKES_TEXT = 1,
    SW_TAKES_LIST = 2,
    SW_TAKES_OBJECT = 4,
    SW_TAKES_BOOLEAN = 8,
    SW_TAKES_NUMBER = 16
};

typedef struct sw_row_value {
    const char *key; /* as the file calls it */
    bool is_there, is_null;
    sw_slice text; /* NULL: it is no string */
    json_t *tree;  /* of all else; NULL: it is a string */
} sw_row_value;

typedef struct sw_row_reader {
    sw_json_cursor json;
    sw_jsonl *rows;
    sw_row_value values[SW_N_ROW_KEYS];
} sw_row_reader;

/* Which key this is; -1: none that is read. */
int sw_row_key(const sw_columns *columns, sw_slice key);

/* What the key takes. */
int sw_row_takes(int key);

/* Is this unread key one that would change what is learned? Errors: SW_BAD_FILE, which says so. The
 * value is the one that begins at `json.at`. */
sw_status sw_row_check_unread(const sw_row_reader *reader, sw_slice key);

/* Make the row of the values, which are all read. Errors: SW_BAD_FILE, SW_NO_MEMORY. */
sw_status sw_row_make(sw_row_reader *reader, sw_jsonl_row *row);

/* "FILE: line N: reason". Returns SW_BAD_FILE. */
sw_status sw_row_refuse(const sw_row_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
