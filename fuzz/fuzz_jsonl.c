/* fuzz_jsonl.c: any bytes as rows. What is accepted lies within the reader's memory, and
 * conversations can be rendered. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/chat_check.h"
#include "data/chat_internal.h"
#include "data/jsonl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void touch(sw_slice slice, volatile uint8_t *sink) {
    for (int64_t i = 0; i < slice.bytes; i++)
        *sink = (uint8_t)slice.text[i];
}

static void render(const sw_chat *chat, const sw_conversation *conversation) {
    sw_chat_text out = {.text = NULL};
    sw_chat_keys keys = {.n = 0};
    sw_unread_keys unread = {.n_more = 0};
    sw_error err;
    (void)sw_chat_check_keys(chat, &keys, conversation, &unread, &err);
    if (sw_chat_render(chat, conversation, SW_SPANS_LEARNED, NULL, &out, &err) == SW_OK) {
        for (int64_t i = 0; i < out.n_literal; i++)
            assert(out.literal[i].first < out.literal[i].end && out.literal[i].end <= out.bytes);
        for (int i = 0; i < out.n_supervised; i++)
            assert(out.supervised[i].first <= out.supervised[i].end &&
                   out.supervised[i].end <= out.bytes);
        (void)sw_chat_check_text(chat, conversation, &out, &err);
    }
    sw_chat_keys_free(&keys);
    sw_chat_text_free(&out);
}

/* Formats with marks, and a template without, for which renderings are compared. */
static void render_all(const sw_conversation *conversation) {
    static const char *const formats[] = {"chatml", "llama2", "mistral-v3", "gemma"};
    static const char unmarked[] =
        "{%- for m in messages %}{{- '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ ('<|end|>' if "
        "loop.last else '<|im_end|>\n') }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";
    sw_error err;
    for (int i = 0; i < 4; i++) {
        const sw_chat_options options = {.format = formats[i]};
        sw_chat *chat;
        if (sw_chat_open(&options, &chat, &err) == SW_OK)
            render(chat, conversation);
        sw_chat_free(chat);
    }
    sw_chat own = {.own = json_object()};
    if (own.own &&
        sw_chat_take_template("unmarked", unmarked, sizeof unmarked - 1, &own.usual, &err) == SW_OK)
        render(&own, conversation);
    sw_jinja_free(own.usual.program);
    free(own.usual.source);
    free(own.usual.text);
    json_decref(own.own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_jsonl rows;
    sw_jsonl_row row;
    sw_error err = {0};
    bool is_end = false;
    volatile uint8_t sink = 0;
    sw_status status =
        sw_jsonl_begin(&rows, "input", (const char *)data, (int64_t)n_bytes, NULL, &err);
    while (status == SW_OK && (status = sw_jsonl_next(&rows, &row, &is_end, &err)) == SW_OK &&
           !is_end) {
        touch(row.text, &sink);
        touch(row.prompt, &sink);
        touch(row.completion, &sink);
        for (int i = 0; i < row.n_unread; i++)
            touch(row.unread[i], &sink);
        if (row.form == SW_JSONL_MESSAGES)
            render_all(row.conversation);
    }
    assert(status == SW_OK || (status == SW_BAD_FILE && err.message[0]));
    sw_jsonl_end(&rows);
    return 0;
}
