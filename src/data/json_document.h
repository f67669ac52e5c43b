/* json_document.h: data sets that are one JSON document, where rows on lines of their own are
 * read. */
#ifndef SW_DATA_JSON_DOCUMENT_H
#define SW_DATA_JSON_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

/* Is the first thing that is no blank a [? No row begins so. */
bool sw_is_json_list(const char *text, int64_t bytes);

/* SW_BAD_FILE: the file is one JSON document, with the command that writes its rows to a .jsonl; or
 * its rows are on lines of their own and only its name is another. `text` [bytes] is its
 * beginning. */
sw_status sw_json_document_refuse(const char *path, const char *text, int64_t bytes, sw_error *err);

/* The same of a file that is not read yet, which may turn out to be no JSON at all. */
sw_status sw_json_document_refuse_file(const char *path, sw_error *err);

#endif
