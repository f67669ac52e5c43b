/* missing.h: a folder in which a tokenizer.json is wanted and not there. */
#ifndef SW_TOKENIZER_MISSING_H
#define SW_TOKENIZER_MISSING_H

#include <shardwise/status.h>

/* SW_BAD_FILE: which other tokenizer the folder has, and the command that writes a tokenizer.json
 * of it, or how to fetch one. */
sw_status sw_tokenizer_refuse_folder(const char *folder, sw_error *err);

#endif
