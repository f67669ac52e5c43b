/* convert.h: models between Hugging Face folders and GGUF files, by one process, tensor by
 * tensor. */
#ifndef SW_HF_CONVERT_H
#define SW_HF_CONVERT_H

#include <stdbool.h>

#include <shardwise/status.h>

#include "base/dtype.h"

/* Make the Hugging Face folder `to`, which must not exist yet, of `from`: a GGUF file, or a Hugging
 * Face folder in another dtype. Weights are written as `dtype` in files of at most max_shard_size
 * data bytes (0: no limit). Memory: the header and one slice. The folder is there whole or not at
 * all. Errors: SW_BAD_FILE (`from` cannot be read, by name and reason), SW_BAD_CONFIG (`to` exists;
 * a value beyond fp16), SW_NO_SPACE. */
sw_status sw_checkpoint_import(const char *from, const char *to, sw_dtype dtype,
                               int64_t max_shard_size, sw_error *err);

/* Make the GGUF file `to`, which must not exist yet, of a Hugging Face folder: matrices as `dtype`,
 * vectors as fp32, with the tokenizer and the chat template of the folder if it has one and
 * `with_tokenizer`. */
sw_status sw_checkpoint_export_gguf(const char *from, const char *to, sw_dtype dtype,
                                    bool with_tokenizer, sw_error *err);

#endif
