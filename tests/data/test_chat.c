/* test_chat.c: conversations as transformers renders them.
 *
 * chat/cases.jsonl was made by Jinja from chat/templates and compared with code of another author;
 * the templates, which have no generation marks, are those of chat/formats.json. A case is rendered
 * by the template's text, and where data.chat_format has a format of that name by that too: both
 * give the text and the spans of the case.
 */
#include "chats.h"

static void check_spans(const sw_chat_text *out, const json_t *spans, const char *name) {
    if (out->n_supervised != (int)json_array_size(spans))
        fail_msg("%s: %d spans instead of %zu", name, out->n_supervised, json_array_size(spans));
    for (int i = 0; i < out->n_supervised; i++) {
        const json_t *span = json_array_get(spans, (size_t)i);
        if (out->supervised[i].first != json_integer_value(json_array_get(span, 0)) ||
            out->supervised[i].end != json_integer_value(json_array_get(span, 1)))
            fail_msg("%s: span %d is [%d, %d)", name, i, (int)out->supervised[i].first,
                     (int)out->supervised[i].end);
    }
    int64_t at = 0;
    for (int64_t i = 0; i < out->n_literal; i++) {
        assert_true(out->literal[i].first >= at && out->literal[i].first < out->literal[i].end);
        at = out->literal[i].end;
    }
    assert_true(at <= out->bytes);
}

static void check_case(const sw_chat *chat, const json_t *one, const char *how, sw_chat_text *out) {
    sw_error err = {0};
    char name[160];
    const sw_conversation conversation = conversation_of(one);
    snprintf(name, sizeof name, "%s, %s (%s)", json_string_value(json_object_get(one, "format")),
             json_string_value(json_object_get(one, "conversation")), how);
    sw_status status = sw_chat_render(chat, &conversation, SW_SPANS_ALL, NULL, out, &err);
    const json_t *text = json_object_get(one, "text");
    if (!text) {
        if (status != SW_BAD_FILE ||
            !strstr(err.message, json_string_value(json_object_get(one, "error"))))
            fail_msg("%s: %s", name, status ? err.message : "was not refused");
        return;
    }
    if (status != SW_OK)
        fail_msg("%s: %s", name, err.message);
    if (out->bytes != (int64_t)json_string_length(text) ||
        memcmp(out->text, json_string_value(text), (size_t)out->bytes) != 0)
        fail_msg("%s: \"%.*s\" instead of \"%s\"", name, (int)out->bytes, out->text,
                 json_string_value(text));
    check_spans(out, json_object_get(one, "assistant_spans_bytes"), name);
}

/* Every case, each with the chat that `open` gives for its format (NULL: it is passed over).
 * Returns how many. */
static int check_cases(sw_chat *(*open)(const char *name, const json_t *format), const char *how) {
    json_t *formats = json_load_file(CHAT_FOLDER "formats.json", 0, NULL);
    FILE *file = fopen(CHAT_FOLDER "cases.jsonl", "r");
    char *line = NULL, last[32] = "";
    size_t capacity = 0;
    int n = 0;
    sw_chat *chat = NULL;
    sw_chat_text out = {.text = NULL};
    assert_non_null(formats);
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *one = json_loads(line, 0, NULL);
        assert_non_null(one);
        const char *format = json_string_value(json_object_get(one, "format"));
        if (strcmp(format, last) != 0) {
            sw_chat_free(chat);
            chat = open(format, json_object_get(formats, format));
            snprintf(last, sizeof last, "%s", format);
        }
        if (chat) {
            check_case(chat, one, how, &out);
            n++;
        }
        json_decref(one);
    }
    sw_chat_free(chat);
    sw_chat_text_free(&out);
    free(line);
    fclose(file);
    json_decref(formats);
    return n;
}

static sw_chat *by_template(const char *name, const json_t *format) {
    (void)name;
    return open_template(format);
}

static sw_chat *by_name(const char *name, const json_t *format) {
    static const char *const names[] = {"chatml",     "llama2", "llama3", "mistral-v1",
                                        "mistral-v3", "zephyr", "gemma"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            char *tokens = tokens_of(format);
            sw_chat *chat =
                open_chat_with(&(sw_chat_options){.format = name, .special_tokens = tokens});
            free(tokens);
            return chat;
        }
    return NULL;
}

static void every_conversation_is_rendered_as_its_template_does(void **state) {
    (void)state;
    assert_int_equal(check_cases(by_template, "template"), 480);
}

static void formats_by_name_are_the_same(void **state) {
    (void)state;
    assert_int_equal(check_cases(by_name, "format"), 280);
}

/* ---- where templates come from ---- */

/* A conversation of one message, rendered; NULL: it is refused, with the reason in *err. */
static const char *rendered(const sw_chat *chat, const char *row, sw_error *err) {
    static char text[1024];
    json_t *one = json_loads(row, 0, NULL);
    sw_chat_text out = {.text = NULL};
    assert_non_null(one);
    const sw_conversation conversation = conversation_of(one);
    sw_status status = sw_chat_render(chat, &conversation, SW_SPANS_NONE, NULL, &out, err);
    if (!status)
        snprintf(text, sizeof text, "%.*s", (int)out.bytes, out.text);
    sw_chat_text_free(&out);
    json_decref(one);
    return status ? NULL : text;
}

#define HI "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}"
#define HI_WITH_TOOLS "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": []}"

static void renders(const sw_chat *chat, const char *row, const char *wanted) {
    sw_error err = {0};
    const char *text = rendered(chat, row, &err);
    if (!text)
        fail_msg("%s", err.message);
    assert_string_equal(text, wanted);
}

static void renders_by_options(const sw_chat_options *options, const char *row,
                               const char *wanted) {
    sw_chat *chat = open_chat_with(options);
    renders(chat, row, wanted);
    sw_chat_free(chat);
}

static const char *folder_of(void *state) {
    return ((scratch *)state)->folder;
}

static void the_folders_template_is_run_with_its_tokens(void **state) {
    write_text(*state, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", \"pad_token\": "
               "null, \"extra_special_tokens\": "
               "{\"image_token\": \"<i>\"}, \"model_max_length\": 1000000000000000019884624838656, "
               "\"chat_template\": \"{{ bos_token }}"
               "{{ messages[0].content }}{{ eos_token }}{{ image_token }}{{ pad_token is defined "
               "}}{{ unk_token }}\"}");
    write_text(*state, "special_tokens_map.json",
               "{\"unk_token\": {\"content\": \"<unk>\"}, \"eos_token\": \"<other>\"}");
    const sw_chat_options options = {.folder = folder_of(*state)};
    renders_by_options(&options, HI,
                       "<s>hi<other><i>False<unk>"); /* the map wins, as in transformers */
    /* a file of its own wins */
    write_text(*state, "chat_template.jinja", "{{ messages[0].role }}{{ eos_token }}\n");
    renders_by_options(&options, HI, "user<other>");
    /* a tokenizer_config.json that lists the added tokens has the whole of it; tokens of the
     * model's own are named at top level too */
    write_text(*state, "chat_template.jinja",
               "{{ eos_token }}{{ unk_token }}{{ image_token }}{{ boi_token }}{{ "
               "additional_special_tokens }}");
    write_text(*state, "tokenizer_config.json",
               "{\"added_tokens_decoder\": {}, \"eos_token\": \"</s>\", \"image_token\": \"<i>\", "
               "\"add_bos_token\": true, "
               "\"additional_special_tokens\": [\"<x>\"], \"model_specific_special_tokens\": "
               "{\"boi_token\": \"<b>\"}}");
    renders_by_options(&options, HI, "</s><i><b>");
}

static void of_several_templates_tools_choose(void **state) {
    write_text(*state, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}, {\"name\": "
               "\"default\", \"template\": \"first\"}, "
               "{\"name\": \"default\", \"template\": \"d\"}, {\"name\": "
               "\"tool_use\", \"template\": \"t\"}]}");
    const sw_chat_options options = {.folder = folder_of(*state)};
    renders_by_options(&options, HI, "d");
    renders_by_options(&options, HI_WITH_TOOLS, "t");
    assert_int_equal(mkdir(scratch_path(*state, "additional_chat_templates"), 0777), 0);
    write_text(*state, "additional_chat_templates/tool_use.jinja", "T");
    write_text(*state, "chat_template.jinja", "D");
    renders_by_options(&options, HI, "D");
    renders_by_options(&options, HI_WITH_TOOLS, "T");
}

static void is_refused(const sw_chat_options *options, const char *word, const char *word_too) {
    sw_chat *chat = open_chat_with(options);
    sw_error err = {0};
    assert_null(rendered(chat, HI, &err));
    if (!strstr(err.message, word) || !strstr(err.message, word_too))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.message, word, word_too);
    sw_chat_free(chat);
}

/* Training on plain text must not fail by a template that it does not need. */
static void a_template_that_cannot_be_read_is_no_error_until_a_conversation_comes(void **state) {
    const sw_chat_options options = {.folder = folder_of(*state)};
    is_refused(&options, "the model's folder has no chat template", "data.chat_format");
    is_refused(&(sw_chat_options){.format = "auto"}, "chat template", "data.chat_template");
    write_text(*state, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}]}");
    is_refused(&options, "`default`", "data.chat_format");
    write_text(*state, "chat_template.jinja", "a\n{% if messages %}\nb");
    is_refused(&options, "chat_template.jinja", "line 3");
    sw_chat *chat;
    sw_error err = {0};
    const sw_chat_options given = {.template_path = scratch_path(*state, "chat_template.jinja")};
    assert_int_equal(sw_chat_open(&given, &chat, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "line 3"));
    write_text(*state, "tokenizer_config.json", "{\"chat_template\": 3}");
    unlink(scratch_path(*state, "chat_template.jinja"));
    assert_int_equal(sw_chat_open(&options, &chat, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "chat_template must be"));
    assert_non_null(strstr(err.message, "is a number"));
}

static void a_named_format_needs_no_template(void **state) {
    (void)state;
    sw_chat *chat;
    sw_error err = {0};
    renders_by_options(&(sw_chat_options){.format = "mistral"},
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                       "\"assistant\", \"content\": \"b\"}]}",
                       "<s>[INST] a[/INST] b</s>");
    assert_int_equal(sw_chat_open(&(sw_chat_options){.format = "mistrall"}, &chat, &err),
                     SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "mistrall"));
    assert_int_equal(
        sw_chat_open(&(sw_chat_options){.format = "chatml", .template_path = "x"}, &chat, &err),
        SW_BAD_CONFIG);
}

static void what_is_set_reaches_the_template(void **state) {
    static const char *const set[] = {"thinks=false", "who=me", "add_generation_prompt=true",
                                      "n={\"a\": [1]}"};
    const char *path =
        write_text(*state, "t.jinja",
                   "{{ thinks is false }} {{ who }} {{ add_generation_prompt }} {{ n.a[0] + 1 }} "
                   "{{ strftime_now('%d.%m.%Y %H:%M') }} {{ bos_token }} {{ tools is none }} {{ "
                   "documents is none }}");
    const sw_chat_options options = {.template_path = path,
                                     .now = "2025-06-30 12:05:00",
                                     .set = set,
                                     .n_set = 4,
                                     .special_tokens = "{\"bos_token\": \"<b>\"}"};
    renders_by_options(&options, HI, "True me True 2 30.06.2025 12:05 <b> True True");
    /* what the row says counts more */
    renders_by_options(&options,
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"variables\": "
                       "{\"who\": \"row\"}}",
                       "True row True 2 30.06.2025 12:05 <b> True True");
    static const char *const bad_times[] = {"yesterday", "2025-02-30", "2025-06-30 25:00:00",
                                            "2025-06-30x", "2025-06-30 12:00"};
    sw_chat *chat;
    for (size_t i = 0; i < sizeof bad_times / sizeof *bad_times; i++) {
        const sw_chat_options at = {.template_path = path, .now = bad_times[i]};
        assert_int_equal(sw_chat_open(&at, &chat, NULL), SW_BAD_CONFIG);
    }
    static const char *const bad_sets[] = {"novalue", "=3", "messages=[]",
                                           "add_generation_prompt=3"};
    for (size_t i = 0; i < sizeof bad_sets / sizeof *bad_sets; i++) {
        const sw_chat_options with = {.template_path = path, .set = &bad_sets[i], .n_set = 1};
        assert_int_equal(sw_chat_open(&with, &chat, NULL), SW_BAD_CONFIG);
    }
    const sw_chat_options tokens = {.template_path = path, .special_tokens = "[1]"};
    assert_int_equal(sw_chat_open(&tokens, &chat, NULL), SW_BAD_CONFIG);
}

static void the_end_of_a_turn_is_found(void **state) {
    static const char *const formats[][2] = {{"chatml", "<|im_end|>"}, {"llama3", "<|eot_id|>"},
                                             {"llama2", "</s>"},       {"mistral", "</s>"},
                                             {"zephyr", "</s>"},       {"gemma", "<end_of_turn>"}};
    char end[SW_CHAT_TEXT_BYTES];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        sw_chat *chat = open_chat(NULL, formats[i][0]);
        assert_int_equal(sw_chat_turn_end(chat, end, NULL), SW_OK);
        assert_string_equal(end, formats[i][1]);
        sw_chat_free(chat);
    }
    sw_chat *chat = open_chat_with(&(sw_chat_options){
        .template_path =
            write_text(*state, "t.jinja",
                       "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")});
    assert_int_equal(sw_chat_turn_end(chat, end, NULL), SW_OK);
    assert_string_equal(end, "");
    sw_chat_free(chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_conversation_is_rendered_as_its_template_does),
        cmocka_unit_test(formats_by_name_are_the_same),
        cmocka_unit_test_setup_teardown(the_folders_template_is_run_with_its_tokens, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(of_several_templates_tools_choose, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(
            a_template_that_cannot_be_read_is_no_error_until_a_conversation_comes, make_scratch,
            remove_scratch),
        cmocka_unit_test(a_named_format_needs_no_template),
        cmocka_unit_test_setup_teardown(what_is_set_reaches_the_template, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(the_end_of_a_turn_is_found, make_scratch, remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
