/* test_encode.c: conversations as the ids and supervised runs that the reference library gives.
 *
 * chat/cases.jsonl has them for formats whose tokenizer lies in tests/tokenizer/golden: the ids of
 * the whole text, and as supervised every token that shares a character with what the assistant
 * says. Where a message spells a control token the reference emits that token; we do not, and check
 * that instead.
 */
#include "chats.h"

#include "data/encode.h"

#define FOLDER CHAT_FOLDER
#define TOKENIZERS SW_SOURCE_FOLDER "/tests/tokenizer/golden/"

/* The runs of marks as [first, end) pairs must be those of the case. */
static void check_marks(const json_t *one, const sw_encoder *e, const char *name) {
    const json_t *runs = json_object_get(json_object_get(one, "tokens"), "supervised");
    uint8_t *marks = calloc((size_t)e->ids.n + 1, 1);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        int64_t first = json_integer_value(json_array_get(json_array_get(runs, i), 0));
        int64_t end = json_integer_value(json_array_get(json_array_get(runs, i), 1));
        assert_true(first < end && end <= e->ids.n);
        memset(marks + first, 1, (size_t)(end - first));
    }
    for (int64_t i = 0; i < e->ids.n; i++)
        if (marks[i] != e->marks[i])
            fail_msg("%s: token %lld has mark %d", name, (long long)i, e->marks[i]);
    free(marks);
}

static void check_ids(const json_t *one, const sw_encoder *e, const char *name) {
    const json_t *ids = json_object_get(json_object_get(one, "tokens"), "ids");
    for (size_t i = 0; i < json_array_size(ids) && (int64_t)i < e->ids.n; i++)
        if (e->ids.ids[i] != json_integer_value(json_array_get(ids, i)))
            fail_msg("%s: token %zu is %d instead of %lld", name, i, e->ids.ids[i],
                     (long long)json_integer_value(json_array_get(ids, i)));
    if (e->ids.n != (int64_t)json_array_size(ids))
        fail_msg("%s: %lld tokens instead of %zu", name, (long long)e->ids.n, json_array_size(ids));
}

static int n_of(const sw_encoder *e, int32_t id) {
    int n = 0;
    for (int64_t i = 0; i < e->ids.n; i++)
        n += e->ids.ids[i] == id;
    return n;
}

static void check_case(const json_t *one, sw_encoder *e) {
    sw_chat_text text = {.text = NULL};
    sw_error err = {0};
    char name[96];
    const json_t *tokens = json_object_get(one, "tokens");
    const sw_conversation conversation = conversation_of(one);
    snprintf(name, sizeof name, "%s, %s%s", json_string_value(json_object_get(one, "format")),
             json_string_value(json_object_get(one, "conversation")),
             conversation.adds_prompt ? ", prompt" : "");
    if (sw_chat_render(e->chat, &conversation, SW_SPANS_ALL, NULL, &text, &err) != SW_OK ||
        sw_encode_conversation(e, &text, &err) != SW_OK)
        fail_msg("%s: %s", name, err.message);
    if (json_is_true(json_object_get(tokens, "content_spells_tokens"))) {
        /* as many ends of turns as the template prints, and none of a message's */
        char end[SW_CHAT_TEXT_BYTES];
        assert_int_equal(sw_chat_turn_end(e->chat, end, &err), SW_OK);
        int n_own = 0;
        for (const char *at = text.text;
             (at = memmem(at, (size_t)(text.text + text.bytes - at), end, strlen(end))); at++) {
            bool is_literal = false;
            for (int64_t i = 0; i < text.n_literal; i++)
                is_literal = is_literal || (text.literal[i].first <= at - text.text &&
                                            at - text.text < text.literal[i].end);
            n_own += !is_literal;
        }
        assert_true(n_own > 0);
        assert_int_equal(n_of(e, sw_tokenizer_token_id(e->tokenizer, end)), n_own);
    } else {
        check_ids(one, e, name);
        check_marks(one, e, name);
    }
    sw_chat_text_free(&text);
}

/* All cases of a format, with the tokenizer that formats.json names. Returns their number. */
static int check_format(const char *tokenizers, const char *name) {
    json_t *formats = json_load_file(FOLDER "formats.json", 0, NULL);
    char path[SW_PATH_BYTES], *line = NULL;
    size_t capacity = 0;
    int n = 0;
    sw_tokenizer *tokenizer;
    sw_encoder encoder;
    sw_error err = {0};
    assert_non_null(formats);
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", tokenizers,
             json_string_value(json_object_get(json_object_get(formats, name), "tokenizer")));
    sw_chat *chat = open_template(json_object_get(formats, name));
    if (sw_tokenizer_read(path, &tokenizer, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_text_options options = {.tokenizer = tokenizer, .tokenizer_file = path, .chat = chat};
    assert_int_equal(sw_encoder_create(&options, &encoder, &err), SW_OK);
    FILE *file = fopen(FOLDER "cases.jsonl", "r");
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *one = json_loads(line, 0, NULL);
        if (strcmp(json_string_value(json_object_get(one, "format")), name) == 0 &&
            json_is_object(json_object_get(one, "tokens"))) {
            check_case(one, &encoder);
            n++;
        }
        json_decref(one);
    }
    free(line);
    fclose(file);
    sw_encoder_free(&encoder);
    sw_tokenizer_free(tokenizer);
    sw_chat_free(chat);
    json_decref(formats);
    return n;
}

static void llama3_ids_and_marks_are_the_references(void **state) {
    (void)state;
    assert_int_equal(check_format(TOKENIZERS, "llama3"), 40);
    assert_int_equal(check_format(TOKENIZERS, "llama3.1"), 40);
}

static void qwen2_ids_and_marks_are_the_references(void **state) {
    (void)state;
    assert_int_equal(check_format(TOKENIZERS, "qwen2"), 40);
}

static void gemma_ids_and_marks_are_the_references(void **state) {
    (void)state;
    assert_int_equal(check_format(TOKENIZERS, "gemma"), 24);
    assert_int_equal(check_format(TOKENIZERS, "gemma3"), 34);
}

/* Larger ones: SW_GOLDEN_TEXT names a folder that has them, as for the tests of the tokenizers. */
static void smollm2_and_mistral_ids_and_marks_are_the_references(void **state) {
    (void)state;
    const char *tokenizers = getenv("SW_GOLDEN_TEXT");
    if (!tokenizers)
        skip();
    assert_int_equal(check_format(tokenizers, "smollm2"), 40);
    assert_int_equal(check_format(tokenizers, "chatml"), 40);
    assert_int_equal(check_format(tokenizers, "mistral-v3"), 34);
}

/* ---- what is supervised ---- */

static void encode_one(const char *line, sw_encoder *e) {
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    sw_error err = {0};
    sw_jsonl_begin_part(&rows, "t", line, (int64_t)strlen(line), 0, 0, NULL);
    if (sw_jsonl_next(&rows, &row, &is_end, &err) != SW_OK || sw_encode_row(e, &row, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_jsonl_end(&rows);
}

static void bytes_of_the_completion_alone_are_supervised(void **state) {
    (void)state;
    sw_encoder e;
    sw_text_options options = {0};
    assert_int_equal(sw_encoder_create(&options, &e, NULL), SW_OK);
    encode_one("{\"prompt\": \"abc\", \"completion\": \"de\"}", &e);
    assert_int_equal(e.ids.n, 5);
    assert_memory_equal(e.marks, "\0\0\0\1\1", 5);
    encode_one("{\"text\": \"abc\"}", &e);
    assert_memory_equal(e.marks, "\1\1\1", 3);
    encode_one("{\"prompt\": \"\", \"completion\": \"\"}", &e);
    assert_int_equal(e.ids.n, 0);
    sw_encoder_free(&e);
}

/* With a tokenizer: begin-of-text in front, end-of-text behind, both once; the latter is
 * learned. */
static void a_sample_begins_once_and_ends_in_a_supervised_end_of_text(void **state) {
    (void)state;
    sw_encoder e;
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    if (sw_tokenizer_read(TOKENIZERS "llama3-style", &tokenizer, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_text_options options = {.tokenizer = tokenizer, .tokenizer_file = TOKENIZERS "llama3-style"};
    int32_t begin = sw_tokenizer_bos_id(tokenizer), end = sw_tokenizer_eos_id(tokenizer);
    assert_true(begin >= 0 && end >= 0);
    assert_int_equal(sw_encoder_create(&options, &e, &err), SW_OK);
    static const char *const lines[] = {"{\"text\": \"One rank reads.\"}",
                                        "{\"prompt\": \"One rank\", \"completion\": \" reads.\"}"};
    for (int i = 0; i < 2; i++) {
        encode_one(lines[i], &e);
        assert_int_equal(e.ids.ids[0], begin);
        assert_int_not_equal(e.ids.ids[1], begin);
        assert_int_equal(e.ids.ids[e.ids.n - 1], end);
        assert_int_equal(e.marks[e.ids.n - 1], 1);
        assert_int_equal(n_of(&e, end), 1);
        assert_true(sw_encoded_ends(&e));
        assert_int_equal(e.marks[1], i == 0);
    }
    sw_encoder_free(&e);
    sw_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3_ids_and_marks_are_the_references),
        cmocka_unit_test(qwen2_ids_and_marks_are_the_references),
        cmocka_unit_test(gemma_ids_and_marks_are_the_references),
        cmocka_unit_test(smollm2_and_mistral_ids_and_marks_are_the_references),
        cmocka_unit_test(bytes_of_the_completion_alone_are_supervised),
        cmocka_unit_test(a_sample_begins_once_and_ends_in_a_supervised_end_of_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
