/* codec.c: a tokenizer, and an encoder of conversations beside it. */
#include "data/codec.h"

#include <inttypes.h>

sw_status sw_codec_open(const char *folder, int64_t vocabulary, sw_codec *codec, sw_error *err) {
    *codec = (sw_codec){.chat = NULL};
    sw_status status = sw_tokenizer_read(folder, &codec->tokenizer, err);
    if (!status && sw_tokenizer_n_ids(codec->tokenizer) > vocabulary)
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: its tokenizer has ids up to %" PRId64
                    ", and the model's vocabulary has %" PRId64 " ids; they do not belong together",
                    folder, sw_tokenizer_n_ids(codec->tokenizer) - 1, vocabulary);
    return status ? status : sw_tokenizer_scratch_create(codec->tokenizer, &codec->scratch, err);
}

void sw_codec_free(sw_codec *codec) {
    sw_encoder_free(&codec->encoder);
    sw_chat_free(codec->chat);
    sw_tokenizer_scratch_free(codec->scratch);
    sw_tokenizer_free(codec->tokenizer);
    *codec = (sw_codec){.chat = NULL};
}

sw_status sw_codec_open_chat(sw_codec *codec, const sw_chat_options *options, sw_error *err) {
    sw_status status = sw_chat_open(options, &codec->chat, err);
    if (!status && (status = sw_chat_check(codec->chat, err)) == SW_BAD_FILE &&
        !sw_chat_source(codec->chat) && err)
        status = err->status =
            SW_BAD_CONFIG; /* nothing is wrong with the folder: a format is to be named */
    const sw_text_options text = {.tokenizer = codec->tokenizer, .chat = codec->chat};
    return status ? status : sw_encoder_create(&text, &codec->encoder, err);
}

sw_status sw_codec_encode(sw_codec *codec, sw_slice text, sw_token_list *ids, sw_error *err) {
    return sw_tokenizer_encode(codec->tokenizer, codec->scratch, text.text, (size_t)text.bytes,
                               SW_ENCODE_SPECIALS, ids, err);
}

sw_status sw_codec_encode_chat(sw_codec *codec, const char *system, sw_slice user,
                               sw_token_list *ids, sw_error *err) {
    sw_encoder *e = &codec->encoder;
    sw_conversation c = {.adds_prompt = true};
    json_t *message =
        json_pack("{s:s, s:s%}", "role", "user", "content", user.text, (size_t)user.bytes);
    c.messages =
        system ? json_pack("[{s:s, s:s}]", "role", "system", "content", system) : json_array();
    sw_status status = SW_OK;
    if (!message || !c.messages || json_array_append(c.messages, message) != 0)
        status = sw_fail(err, SW_BAD_CONFIG, "a prompt is not UTF-8, or memory is short");
    if (!status)
        status = sw_chat_render(codec->chat, &c, SW_SPANS_NONE, NULL, &e->conversation, err);
    if (!status)
        status = sw_chat_check_text(codec->chat, &c, &e->conversation, err);
    if (!status)
        status = sw_encode_conversation(e, &e->conversation, err);
    for (int64_t i = 0; i < e->ids.n && !status; i++)
        if (!sw_token_list_put(ids, e->ids.ids[i]))
            status = sw_fail(err, SW_NO_MEMORY,
                             "no memory for the %" PRId64 " tokens of a conversation", e->ids.n);
    json_decref(message);
    json_decref(c.messages);
    return status;
}

sw_status sw_codec_turn_end(const sw_codec *codec, int32_t *id, sw_error *err) {
    char end[SW_CHAT_TEXT_BYTES];
    *id = -1;
    if (!codec->chat)
        return SW_OK;
    sw_status status = sw_chat_turn_end(codec->chat, end, err);
    if (!status && end[0])
        *id = sw_tokenizer_token_id(codec->tokenizer, end);
    if (*id >= 0 && !sw_tokenizer_is_special(codec->tokenizer, *id))
        *id = -1;
    return status;
}
