/* fuzz_jsonl.c: any bytes as rows. What is accepted lies within the reader's memory, and conversations can be rendered. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "data/jsonl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void touch(sw_slice slice, volatile uint8_t *sink) {
    for (int64_t i = 0; i < slice.bytes; i++)
        *sink = (uint8_t)slice.text[i];
}

static void render(const sw_jsonl_row *row) {
    sw_chat_text out = {0};
    for (int family = SW_CHAT_NONE; family <= SW_CHAT_GEMMA3; family++) {
        sw_chat chat = {.family = (sw_chat_family)family, .bos = "<s>", .eos = "</s>", .date = "1 Jan 2024"};
        sw_error err;
        if (sw_chat_render(&chat, row->messages, row->n_messages, true, &out, &err) != SW_OK)
            continue;
        for (int i = 0; i < out.n_literal; i++)
            assert(out.literal[i].first < out.literal[i].end && out.literal[i].end <= out.bytes);
        for (int i = 0; i < out.n_supervised; i++)
            assert(out.supervised[i].first < out.supervised[i].end && out.supervised[i].end <= out.bytes);
    }
    sw_chat_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_jsonl rows;
    sw_jsonl_row row;
    sw_error err = {0};
    bool is_end = false;
    volatile uint8_t sink = 0;
    sw_status status = sw_jsonl_begin(&rows, "input", (const char *)data, (int64_t)n_bytes, &err);
    while (status == SW_OK && (status = sw_jsonl_next(&rows, &row, &is_end, &err)) == SW_OK && !is_end) {
        touch(row.text, &sink);
        touch(row.prompt, &sink);
        touch(row.completion, &sink);
        for (int i = 0; i < row.n_messages; i++)
            touch(row.messages[i].content, &sink);
        if (row.form == SW_JSONL_MESSAGES)
            render(&row);
    }
    assert(status == SW_OK || (status == SW_BAD_FILE && err.message[0]));
    sw_jsonl_end(&rows);
    return 0;
}
