/* bytes_tokenizer.h: the tokenizer of raw bytes, told to other tools. */
#ifndef SW_HF_BYTES_TOKENIZER_H
#define SW_HF_BYTES_TOKENIZER_H

#include <shardwise/status.h>

/* The text of a tokenizer.json: each byte of UTF-8 text is the id of its value, 0 to 255.
 * Ownership: free(*text). Errors: SW_NO_MEMORY. */
sw_status sw_bytes_tokenizer_text(char **text, sw_error *err);

/* Write that tokenizer.json and tokenizer_config.json into `directory`. Errors: those, and of
 * sw_file_write. */
sw_status sw_bytes_tokenizer_write(const char *directory, sw_error *err);

#endif
