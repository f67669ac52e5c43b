/* jsonl.h: rows of training text, one JSON object a line.
 *
 *   {"text": "..."}                                           all of it is learned
 *   {"prompt": "...", "completion": "..."}                    the completion is; both may be lists
 *                                                             of messages
 *   {"messages": [{"role": "user", "content": "..."}, ...]}   what the assistant says is
 *   {"conversations": [{"from": "human", "value": "..."}]}    the same as ShareGPT spells it
 *   {"instruction": "...", "input": "...", "output": "..."}   the output is, after Alpaca's prompt
 *
 * Beside messages may stand `system`, `tools`, `documents`, `chat_template_kwargs` and
 * `add_generation_prompt`, for the template. `weight: 0` and `train: false`, in a row or in a
 * message, keep it from being learned. data.columns says what a file calls these keys.
 *
 * Read strictly and by hand rather than through json.h: rows are many and are read once, one after
 * the other; strings may hold U+0000; numbers that no one reads may have any size; and a fault is
 * named by its line and its byte. Only LF ends a line (a CR before it is white space); blank lines
 * are skipped and counted; a byte order mark may begin the file. No key may come twice in an object
 * that is read. Keys that would change what is learned if someone read them (`rejected`, `history`,
 * one that is nearly a known name) are refused; others are handed out as unread, to be told once.
 */
#ifndef SW_DATA_JSONL_H
#define SW_DATA_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/columns.h"
#include "base/slice.h"
#include "data/conversation.h"

typedef enum sw_jsonl_form { SW_JSONL_TEXT, SW_JSONL_COMPLETION, SW_JSONL_MESSAGES } sw_jsonl_form;

typedef struct sw_jsonl_row {
    int64_t line; /* from 1 */
    sw_jsonl_form form;
    sw_slice text, prompt, completion;
    const sw_conversation *conversation; /* of messages */
    bool gives_targets;                  /* false: weight 0; nothing of the row is learned */
    int64_t n_bytes;                     /* of the texts in it */
    const sw_slice *unread;              /* keys that are there and have no effect */
    int n_unread;
} sw_jsonl_row;

typedef struct sw_jsonl {
    const char *name;            /* of the file, for messages */
    sw_columns columns;          /* what the file calls its keys */
    const char *text, *at, *end; /* the whole file, the next line */
    int64_t line;                /* lines before `at` */
    int64_t offset;              /* bytes of the file before `text` */
    int64_t n_rows;
    char *decoded; /* strings of the row, unescaped: never longer than the line */
    int64_t decoded_capacity;
    sw_slice *keys; /* of the row, sorted once it is read */
    int n_keys, key_capacity;
    sw_slice *unread;
    int n_unread, unread_capacity;
    sw_conversation conversation;
    char *prompt; /* Alpaca's */
    int64_t prompt_capacity;
} sw_jsonl;

/* Begin to read a file's text [bytes], which stays as it is and where it is until sw_jsonl_end.
 * `columns`: what the file calls its keys, whose texts live as long; NULL: their own names. Errors:
 * SW_BAD_FILE for what is no such file at all: empty, compressed, UTF-16, a Git LFS pointer. */
sw_status sw_jsonl_begin(sw_jsonl *rows, const char *name, const char *text, int64_t bytes,
                         const sw_columns *columns, sw_error *err);

/* The same for a part of a file, behind so many of its lines and bytes, for readers that share a
 * file. */
void sw_jsonl_begin_part(sw_jsonl *rows, const char *name, const char *text, int64_t bytes,
                         int64_t n_lines_before, int64_t n_bytes_before, const sw_columns *columns);

/* The next line that is not blank, for rows of other forms; its number is `rows->line`. False:
 * there is none. */
bool sw_jsonl_next_line(sw_jsonl *rows, sw_slice *line);

/* The next row; *is_end when there is none. It lives until the next call. Errors: SW_BAD_FILE with
 * file, line and what is wrong; SW_NO_MEMORY. */
sw_status sw_jsonl_next(sw_jsonl *rows, sw_jsonl_row *row, bool *is_end, sw_error *err);

/* After the end of a whole file: a file of blank lines alone is SW_BAD_FILE. */
sw_status sw_jsonl_check_rows(const sw_jsonl *rows, sw_error *err);
void sw_jsonl_end(sw_jsonl *rows);

#endif
