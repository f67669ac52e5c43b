/* codec.h: text to token ids and back for generating and scoring: the tokenizer of a model's
 * folder, and its chat format. */
#ifndef SW_DATA_CODEC_H
#define SW_DATA_CODEC_H

#include <shardwise/status.h>

#include "data/chat.h"
#include "data/encode.h"
#include "tokenizer/tokenizer.h"

typedef struct sw_codec {
    sw_tokenizer *tokenizer;
    sw_tokenizer_scratch *scratch;
    sw_chat *chat; /* NULL: none is opened */
    sw_encoder encoder;
} sw_codec;

/* The tokenizer of `folder`; each of its ids is below `vocabulary`. Ownership: sw_codec_free, also
 * after an error and on {0}. Errors: SW_BAD_FILE. */
sw_status sw_codec_open(const char *folder, int64_t vocabulary, sw_codec *codec, sw_error *err);
void sw_codec_free(sw_codec *codec);

/* From now on conversations can be encoded too. Errors: as of sw_chat_open; SW_BAD_CONFIG where
 * there is no template. */
sw_status sw_codec_open_chat(sw_codec *codec, const sw_chat_options *options, sw_error *err);

/* Append the ids of a text, with what the tokenizer's post-processor puts around it and nothing
 * else. */
sw_status sw_codec_encode(sw_codec *codec, sw_slice text, sw_token_list *ids, sw_error *err);

/* Append the ids of what a user says, up to where the assistant's answer begins. `system`: what the
 * assistant is told before; NULL: nothing. */
sw_status sw_codec_encode_chat(sw_codec *codec, const char *system, sw_slice user,
                               sw_token_list *ids, sw_error *err);

/* The id that ends an answer; -1: none. */
sw_status sw_codec_turn_end(const sw_codec *codec, int32_t *id, sw_error *err);

#endif
