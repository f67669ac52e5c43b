/* codec.c: a tokenizer, and an encoder of conversations beside it. */
#include "data/codec.h"

#include <inttypes.h>

sw_status sw_codec_open(const char *folder, int64_t vocabulary, sw_codec *codec, sw_error *err) {
    *codec = (sw_codec){.has_chat = false};
    sw_status status = sw_tokenizer_read(folder, &codec->tokenizer, err);
    if (!status && sw_tokenizer_n_ids(codec->tokenizer) > vocabulary)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: its tokenizer has ids up to %" PRId64 ", and the model's vocabulary has %" PRId64
                         " ids; they do not belong together",
                         folder, sw_tokenizer_n_ids(codec->tokenizer) - 1, vocabulary);
    return status ? status : sw_tokenizer_scratch_create(codec->tokenizer, &codec->scratch, err);
}

void sw_codec_free(sw_codec *codec) {
    if (codec->has_chat)
        sw_encoder_free(&codec->encoder);
    sw_tokenizer_scratch_free(codec->scratch);
    sw_tokenizer_free(codec->tokenizer);
    *codec = (sw_codec){.has_chat = false};
}

sw_status sw_codec_open_chat(sw_codec *codec, const char *folder, const char *format, sw_error *err) {
    sw_status status = sw_chat_open(folder, format, &codec->chat, err);
    if (status)
        return status;
    if (codec->chat.family == SW_CHAT_NONE)
        return sw_fail(err, SW_BAD_CONFIG, "%s: its chat format is not known: %s; name one with --chat-format", folder,
                       codec->chat.reason);
    const sw_text_options options = {.tokenizer = codec->tokenizer, .chat = &codec->chat};
    status = sw_encoder_create(&options, &codec->encoder, err);
    codec->has_chat = !status;
    return status;
}

sw_status sw_codec_encode(sw_codec *codec, sw_slice text, sw_token_list *ids, sw_error *err) {
    return sw_tokenizer_encode(codec->tokenizer, codec->scratch, text.text, (size_t)text.bytes, SW_ENCODE_SPECIALS, ids, err);
}

sw_status sw_codec_encode_rest(sw_codec *codec, sw_slice text, sw_token_list *ids, sw_error *err) {
    return sw_tokenizer_encode(codec->tokenizer, codec->scratch, text.text, (size_t)text.bytes, SW_ENCODE_PLAIN, ids, err);
}

sw_status sw_codec_encode_chat(sw_codec *codec, const sw_message *messages, int n_messages, sw_token_list *ids, sw_error *err) {
    sw_chat_text text = {0};
    sw_status status = sw_chat_render(&codec->chat, messages, n_messages, true, &text, err);
    if (!status)
        status = sw_encode_conversation(&codec->encoder, &text, err);
    for (int64_t i = 0; i < codec->encoder.ids.n && !status; i++)
        if (!sw_token_list_put(ids, codec->encoder.ids.ids[i]))
            status = sw_fail(err, SW_NO_MEMORY, "no memory for the %" PRId64 " tokens of a conversation", codec->encoder.ids.n);
    sw_chat_text_free(&text);
    return status;
}

int32_t sw_codec_turn_end(const sw_codec *codec) {
    return codec->has_chat ? codec->encoder.turn_end : -1;
}
