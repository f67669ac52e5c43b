/* gguf_model.h: what Hugging Face and GGUF call the same things: settings, tensors, and the order
 * of rotary rows. */
#ifndef SW_HF_GGUF_MODEL_H
#define SW_HF_GGUF_MODEL_H

#include "formats/gguf.h"
#include "model/model.h"

/* The config.json that a file's metadata mean, for weights of `dtype`. A setting that changes the
 * arithmetic and has no place in it, and one that is unknown, is refused by name. Ownership:
 * free(*json_text). */
sw_status sw_gguf_config(sw_gguf *file, sw_dtype dtype, char **json_text, sw_error *err);

/* GGUF's name of a Hugging Face tensor, into `buffer`; NULL: it has none. */
const char *sw_gguf_tensor_name(const char *parameter, char *buffer, size_t bytes);

/* The tensor that holds a scaling of rotary frequencies: sw_gguf_config turns it into a setting, it
 * is no parameter. */
#define SW_GGUF_ROPE_TENSOR "rope_freqs.weight"

/* Channels of a head, if the tensor's rows are reordered in GGUF; else 0. Files of architecture
 * `llama` hold the rows of q and k of each head with the two halves of every rotary pair side by
 * side: row 2 i + j there is row j D/2 + i of Hugging Face's. */
int64_t sw_gguf_rotary_channels(const char *architecture, int64_t head_channels,
                                const char *parameter);

/* The row of GGUF's tensor that is Hugging Face's row `row`, and the other way round. */
int64_t sw_gguf_row_from_hf(int64_t row, int64_t head_channels);
int64_t sw_gguf_row_to_hf(int64_t row, int64_t head_channels);

#endif
