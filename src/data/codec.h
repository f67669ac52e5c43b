/* codec.h: text to token ids and back, for what generates and evaluates text: one face for every tokenizer. */
#ifndef SW_DATA_CODEC_H
#define SW_DATA_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_codec sw_codec;
typedef struct sw_codec_stream sw_codec_stream;

/* The tokenizer in a model's folder, whose vocabulary has n_ids ids. Ownership: sw_codec_free. Errors: SW_BAD_FILE. */
sw_status sw_codec_open(const char *folder, int64_t n_ids, sw_codec **codec, sw_error *err);
void sw_codec_free(sw_codec *codec);

/* The ids of text [n_bytes], with what the tokenizer itself puts around a text and nothing else. Ownership: free(*ids). */
sw_status sw_codec_encode(const sw_codec *codec, const char *text, size_t n_bytes, int32_t **ids, int64_t *n_ids, sw_error *err);

/* Ids become text as they arrive. `push` gives what may be shown now: *text lives until the next call and may be empty; `end`
 * gives what was held back because it was no whole character. */
sw_status sw_codec_stream_create(const sw_codec *codec, sw_codec_stream **stream, sw_error *err);
void sw_codec_stream_free(sw_codec_stream *stream);
sw_status sw_codec_stream_push(sw_codec_stream *stream, int32_t id, const char **text, size_t *n_bytes, sw_error *err);
sw_status sw_codec_stream_end(sw_codec_stream *stream, const char **text, size_t *n_bytes, sw_error *err);

#endif
