/* bytes_tokenizer.h: the tokenizer of raw bytes, told to other tools. */
#ifndef SW_CHECKPOINT_BYTES_TOKENIZER_H
#define SW_CHECKPOINT_BYTES_TOKENIZER_H

#include <shardwise/status.h>

/* Write tokenizer.json and tokenizer_config.json into `directory`: each byte of UTF-8 text is the id of its value, 0 to 255. */
sw_status sw_bytes_tokenizer_write(const char *directory, sw_error *err);

#endif
