/* json_cursor.h: the words of JSON on one line, one after the other.
 *
 * Nothing is allocated but by sw_json_cursor_tree: strings are decoded, one behind the other, into
 * memory of the caller, which is enough when it has as many bytes as the line. Every error names
 * file, line and byte.
 */
#ifndef SW_DATA_JSON_CURSOR_H
#define SW_DATA_JSON_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <shardwise/status.h>

#include "base/slice.h"

typedef struct sw_json_cursor {
    const char *name; /* of the file */
    int64_t line;     /* from 1 */
    int64_t offset;   /* bytes of the file before the line */
    const char *first, *at, *end;
    char *decoded; /* [end - first] */
    int64_t n_decoded;
    sw_error *err;
} sw_json_cursor;

/* Refuse what stands at `at`. Returns SW_BAD_FILE. */
sw_status sw_json_cursor_refuse(const sw_json_cursor *line, const char *reason);

/* Is the whole line UTF-8 without NULs? To be asked before anything else. */
sw_status sw_json_cursor_check(sw_json_cursor *line);

void sw_json_cursor_blanks(sw_json_cursor *line);

/* Is `c` next, blanks apart? Then it is passed over. */
bool sw_json_cursor_pass(sw_json_cursor *line, char c);

/* A string; it stays until n_decoded is set back. */
sw_status sw_json_cursor_string(sw_json_cursor *line, sw_slice *string);

/* Pass over a value: any; or one that is no object and no list, of which at least one byte is
 * there. */
sw_status sw_json_cursor_skip(sw_json_cursor *line);
sw_status sw_json_cursor_scalar(sw_json_cursor *line);

/* A value of any kind as a tree, in the order of the line. Within it no key may come twice or hold
 * U+0000, numbers must fit into 64 bits, and brackets are at most 256 deep. Ownership:
 * json_decref(*value). */
sw_status sw_json_cursor_tree(sw_json_cursor *line, json_t **value);

/* What kind of value begins here, for messages: "a string", "null". */
const char *sw_json_cursor_value(const sw_json_cursor *line);

#endif
