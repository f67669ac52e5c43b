/* render.h: rows as the text that a model would see. */
#ifndef SW_CLI_RENDER_H
#define SW_CLI_RENDER_H

#include "base/columns.h"
#include "data/chat.h"

/* Print one JSON object for each row of a .jsonl file: "text", and "assistant_spans_bytes", the
 * bytes [begin, end) of it that are learned; null where they are not certain, with the reason as
 * "uncertain". Errors: those of data/jsonl.h and data/chat.h, with file and line; rows before the
 * faulty one are printed. */
sw_status sw_render_rows(const char *path, const sw_chat *chat, const sw_columns *columns,
                         sw_error *err);

#endif
