/* test_chat.c: conversations as transformers renders them.
 *
 * chat/cases.jsonl was made by Jinja from chat/templates and compared with code of another author; the templates are those of
 * chat/formats.json. A case is rendered by the format that is recognised in the template's text, so each is a test of that too.
 */
#include "scratch.h"

#include <jansson.h>

#include "base/file.h"
#include "data/chat.h"

#define FOLDER SW_SOURCE_FOLDER "/tests/data/chat/"

static void copy_token(const json_t *format, const char *key, char *token) {
    snprintf(token, SW_CHAT_TEXT_BYTES, "%s", json_string_value(json_object_get(format, key)));
}

static void recognise(const json_t *format, sw_chat *chat) {
    char path[SW_PATH_BYTES], *text;
    sw_error err = {0};
    *chat = (sw_chat){0};
    assert_int_equal(sw_path_join(path, FOLDER, json_string_value(json_object_get(format, "template")), &err), SW_OK);
    if (sw_file_read(path, 1 << 20, &text, NULL, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_chat_recognise(text, chat);
    free(text);
    copy_token(format, "bos_token", chat->bos);
    copy_token(format, "eos_token", chat->eos);
}

static int read_messages(const json_t *list, sw_message *messages) {
    static const char *const roles[] = {"system", "user", "assistant"};
    int n = (int)json_array_size(list);
    assert_true(n <= 16);
    for (int i = 0; i < n; i++) {
        const json_t *content = json_object_get(json_array_get(list, (size_t)i), "content");
        const char *role = json_string_value(json_object_get(json_array_get(list, (size_t)i), "role"));
        messages[i].content = (sw_slice){json_string_value(content), (int64_t)json_string_length(content)};
        for (int k = 0; k < 3; k++)
            if (strcmp(role, roles[k]) == 0)
                messages[i].role = (sw_role)k;
    }
    return n;
}

static void check_case(const json_t *formats, const json_t *one) {
    sw_chat chat;
    sw_chat_text out = {0};
    sw_message messages[16];
    sw_error err = {0};
    const char *format = json_string_value(json_object_get(one, "format"));
    const char *conversation = json_string_value(json_object_get(one, "conversation"));
    recognise(json_object_get(formats, format), &chat);
    int n = read_messages(json_object_get(one, "messages"), messages);
    sw_status status =
        sw_chat_render(&chat, messages, n, json_is_true(json_object_get(one, "add_generation_prompt")), &out, &err);
    const json_t *text = json_object_get(one, "text"), *spans = json_object_get(one, "assistant_spans_bytes");
    if (!text) {
        if (status != SW_BAD_FILE)
            fail_msg("%s, %s: was not refused", format, conversation);
        if (!strstr(err.message, json_string_value(json_object_get(one, "error"))))
            fail_msg("%s, %s: %s", format, conversation, err.message);
        sw_chat_text_free(&out);
        return;
    }
    if (status != SW_OK)
        fail_msg("%s, %s: %s", format, conversation, err.message);
    if (out.bytes != (int64_t)json_string_length(text) || memcmp(out.text, json_string_value(text), (size_t)out.bytes) != 0)
        fail_msg("%s, %s: \"%.*s\" instead of \"%s\"", format, conversation, (int)out.bytes, out.text, json_string_value(text));
    if (out.n_supervised != (int)json_array_size(spans))
        fail_msg("%s, %s: %d spans", format, conversation, out.n_supervised);
    for (int i = 0; i < out.n_supervised; i++) {
        const json_t *span = json_array_get(spans, (size_t)i);
        assert_int_equal(out.supervised[i].first, json_integer_value(json_array_get(span, 0)));
        assert_int_equal(out.supervised[i].end, json_integer_value(json_array_get(span, 1)));
    }
    int64_t at = 0;
    for (int i = 0; i < out.n_literal; i++) {
        assert_true(out.literal[i].first >= at && out.literal[i].first < out.literal[i].end);
        at = out.literal[i].end;
    }
    assert_true(at <= out.bytes);
    sw_chat_text_free(&out);
}

static void every_conversation_is_rendered_as_its_template_does(void **state) {
    (void)state;
    json_t *formats = json_load_file(FOLDER "formats.json", 0, NULL);
    FILE *file = fopen(FOLDER "cases.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    int n = 0;
    assert_non_null(formats);
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *one = json_loads(line, 0, NULL);
        assert_non_null(one);
        check_case(formats, one);
        json_decref(one);
        n++;
    }
    assert_int_equal(n, 480);
    free(line);
    fclose(file);
    json_decref(formats);
}

/* ---- which format ---- */

static void an_unknown_template_is_no_error_until_a_conversation_comes(void **state) {
    sw_chat chat;
    sw_chat_text out = {0};
    sw_message message = {SW_ROLE_USER, sw_slice_of("hi")};
    sw_error err = {0};
    write_text(*state, "chat_template.jinja", "{% for m in messages %}### {{ m.role }}: {{ m.content }}{% endfor %}");
    assert_int_equal(sw_chat_open(((scratch *)*state)->folder, "auto", &chat, &err), SW_OK);
    assert_int_equal(chat.family, SW_CHAT_NONE);
    assert_int_equal(sw_chat_render(&chat, &message, 1, false, &out, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "chat template"));
    assert_non_null(strstr(err.message, "data.chat_format"));
    sw_chat_text_free(&out);
}

/* A template of a known look that does more is not taken for the one it looks like. */
static void a_template_that_also_thinks_is_not_chatml(void **state) {
    (void)state;
    sw_chat chat = {0};
    sw_chat_recognise("{{ '<|im_start|>' + m.role + '\\n<think>' + m.content + '<|im_end|>' }}", &chat);
    assert_int_equal(chat.family, SW_CHAT_NONE);
    assert_non_null(strstr(chat.reason, "think"));
}

static void the_newer_file_wins_and_tokens_come_from_the_configuration(void **state) {
    sw_chat chat;
    sw_error err = {0};
    write_text(
        *state, "tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", \"chat_template\": \"<|im_start|> <|im_end|>\"}");
    if (sw_chat_open(((scratch *)*state)->folder, "auto", &chat, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(chat.family, SW_CHAT_CHATML);
    assert_string_equal(chat.bos, "<s>");
    assert_string_equal(chat.eos, "</s>");
    write_text(*state, "chat_template.jinja", "{{ '<start_of_turn>' + prefix + '<end_of_turn>' }}");
    assert_int_equal(sw_chat_open(((scratch *)*state)->folder, "auto", &chat, &err), SW_OK);
    assert_int_equal(chat.family, SW_CHAT_GEMMA3);
}

static void a_named_format_needs_no_template(void **state) {
    (void)state;
    sw_chat chat;
    sw_chat_text out = {0};
    sw_message messages[] = {{SW_ROLE_USER, sw_slice_of("a")}, {SW_ROLE_ASSISTANT, sw_slice_of("b")}};
    sw_error err = {0};
    assert_int_equal(sw_chat_open(NULL, "mistral", &chat, &err), SW_OK);
    assert_int_equal(sw_chat_render(&chat, messages, 2, false, &out, &err), SW_OK);
    assert_int_equal(out.bytes, strlen("<s>[INST] a[/INST] b</s>"));
    assert_memory_equal(out.text, "<s>[INST] a[/INST] b</s>", (size_t)out.bytes);
    assert_int_equal(sw_chat_open(NULL, "mistrall", &chat, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "mistrall"));
    sw_chat_text_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_conversation_is_rendered_as_its_template_does),
        cmocka_unit_test_setup_teardown(an_unknown_template_is_no_error_until_a_conversation_comes, make_scratch, remove_scratch),
        cmocka_unit_test(a_template_that_also_thinks_is_not_chatml),
        cmocka_unit_test_setup_teardown(the_newer_file_wins_and_tokens_come_from_the_configuration, make_scratch, remove_scratch),
        cmocka_unit_test(a_named_format_needs_no_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
