/* test_chat_spans.c: what the assistant says, in templates that do not mark it:
 * tests/golden/templates/spans.jsonl, whose README says where the values come from. A span is
 * right, or the conversation is refused with the way out; the few that may be are listed.
 */
#include "chats.h"

#define GOLDEN SW_SOURCE_FOLDER "/tests/golden/templates/"

/* Templates whose turns say nothing that another rendering could be compared by: of no byte, or
 * with data that comes and goes. */
static const char *const may_be_refused[][2] = {{"command-r", "multi-D"},
                                                {"vicuna-like", NULL},
                                                {"mistral-v3-tools", NULL},
                                                {"functionary-ts", NULL}};

static bool may_refuse(const char *name, const char *label) {
    for (size_t i = 0; i < sizeof may_be_refused / sizeof *may_be_refused; i++)
        if (!strcmp(name, may_be_refused[i][0]) &&
            (may_be_refused[i][1] ? !strcmp(label, may_be_refused[i][1])
                                  : !strncmp(label, "drawn", 5) || !strcmp(label, "empty")))
            return true;
    return false;
}

/* The cases of cases.jsonl, by template and label. */
static json_t *read_cases(void) {
    json_t *cases = json_object();
    FILE *file = fopen(GOLDEN "cases.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        char key[96];
        json_t *one = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(one);
        snprintf(key, sizeof key, "%s/%s", json_string_value(json_object_get(one, "template")),
                 json_string_value(json_object_get(one, "case")));
        json_object_set_new(cases, key, one);
    }
    free(line);
    fclose(file);
    return cases;
}

/* Null keys are dropped, thoughts get both of their names: as rows are read. */
static sw_conversation read_conversation(const json_t *one) {
    static const sw_columns columns = {.role = "role", .content = "content"};
    sw_conversation c = {.tools = json_incref(json_object_get(one, "tools")),
                         .documents = json_incref(json_object_get(one, "documents")),
                         .variables = json_incref(json_object_get(one, "variables")),
                         .adds_prompt =
                             json_is_true(json_object_get(one, "add_generation_prompt"))};
    sw_error err = {0};
    if (sw_conversation_add(&c, json_object_get(one, "messages"), "messages", &columns, false, true,
                            &err) != SW_OK)
        fail_msg("%s", err.message);
    return c;
}

static sw_chat *open_golden(const json_t *one) {
    char path[SW_PATH_BYTES], *tokens = json_dumps(json_object_get(one, "special_tokens"), 0);
    snprintf(path, sizeof path, GOLDEN "%s.jinja",
             json_string_value(json_object_get(one, "template")));
    sw_chat *chat = open_chat_with(&(sw_chat_options){
        .template_path = path, .special_tokens = tokens, .now = "2026-11-30 12:00:00"});
    free(tokens);
    return chat;
}

/* 1: right; 0: refused. */
static int check(const json_t *one, const json_t *spans, const char *label, sw_chat_text *out) {
    const char *name = json_string_value(json_object_get(one, "template"));
    const json_t *text = json_object_get(one, "text");
    sw_chat *chat = open_golden(one);
    sw_conversation c = read_conversation(one);
    sw_error err = {0};
    bool is_certain;
    if (sw_chat_render(chat, &c, SW_SPANS_ALL, &is_certain, out, &err) != SW_OK)
        fail_msg("%s, %s: %s", name, label, err.message);
    if (out->bytes != (int64_t)json_string_length(text) ||
        memcmp(out->text, json_string_value(text), (size_t)out->bytes) != 0)
        fail_msg("%s, %s: another text", name, label);
    if (!is_certain && !may_refuse(name, label))
        fail_msg("%s, %s: %s", name, label, err.message);
    if (!is_certain)
        assert_non_null(strstr(err.message, "generation marks"));
    if (is_certain && out->n_supervised != (int)json_array_size(spans))
        fail_msg("%s, %s: %d spans instead of %zu", name, label, out->n_supervised,
                 json_array_size(spans));
    for (int i = 0; is_certain && i < out->n_supervised; i++) {
        const json_t *span = json_array_get(spans, (size_t)i);
        if (out->supervised[i].first != json_integer_value(json_array_get(span, 0)) ||
            out->supervised[i].end != json_integer_value(json_array_get(span, 1)))
            fail_msg("%s, %s: span %d is \"%.*s\"", name, label, i,
                     (int)(out->supervised[i].end - out->supervised[i].first),
                     out->text + out->supervised[i].first);
    }
    sw_conversation_free(&c);
    sw_chat_free(chat);
    return is_certain;
}

static void spans_without_marks_are_right_or_refused(void **state) {
    (void)state;
    json_t *cases = read_cases();
    FILE *file = fopen(GOLDEN "spans.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    int n = 0, n_right = 0;
    sw_chat_text out = {.text = NULL};
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        char key[96];
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        const char *label = json_string_value(json_object_get(row, "case"));
        snprintf(key, sizeof key, "%s/%s", json_string_value(json_object_get(row, "template")),
                 label);
        n_right += check(json_object_get(row, "messages") ? row : json_object_get(cases, key),
                         json_object_get(row, "spans"), label, &out);
        n++;
        json_decref(row);
    }
    assert_true(n > 450);
    assert_true(n_right * 100 > n * 96);
    sw_chat_text_free(&out);
    free(line);
    fclose(file);
    json_decref(cases);
}

/* ---- one by one ---- */

/* The spans of a conversation "user: q, assistant: a, user: r, assistant: b" by a template, as
 * "said|said"; "?": refused. */
static void said(void *state, const char *text, const char *row, const char *wanted) {
    sw_chat *chat =
        open_chat_with(&(sw_chat_options){.template_path = write_text(state, "t.jinja", text),
                                          .special_tokens = "{\"eos_token\": \"</s>\"}"});
    json_t *one = json_loads(row ? row
                                 : "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                   "{\"role\": \"assistant\", \"content\": "
                                   "\"a\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": "
                                   "\"assistant\", \"content\": \"b\"}]}",
                             0, NULL);
    assert_non_null(one);
    sw_conversation c = read_conversation(one);
    sw_chat_text out = {.text = NULL};
    sw_error err = {0};
    bool is_certain;
    char shown[512] = "";
    assert_int_equal(sw_chat_render(chat, &c, SW_SPANS_LEARNED, &is_certain, &out, &err), SW_OK);
    for (int i = 0; i < out.n_supervised; i++) {
        size_t n = strlen(shown);
        snprintf(shown + n, sizeof shown - n, "%s%.*s", i ? "|" : "",
                 (int)(out.supervised[i].end - out.supervised[i].first),
                 out.text + out.supervised[i].first);
    }
    if (strcmp(is_certain ? shown : "?", wanted) != 0)
        fail_msg("%s: \"%s\" (%s) instead of \"%s\"", text, is_certain ? shown : "?", err.message,
                 wanted);
    sw_chat_text_free(&out);
    sw_conversation_free(&c);
    json_decref(one);
    sw_chat_free(chat);
}

#define TURNS "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"

static void a_header_without_a_prompt_is_told_from_what_is_said(void **state) {
    said(*state, TURNS "{% if add_generation_prompt %}<|assistant|>{% endif %}", NULL,
         "a<|end|>|b<|end|>");
    said(*state, TURNS, NULL, "a<|end|>|b<|end|>"); /* no prompt at all */
    said(*state, "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}", NULL,
         " a</s>| b</s>");
    said(*state, "{% for m in messages %}[{{ m.content }}]{% endfor %}", NULL,
         "?"); /* nothing says who speaks */
    said(*state,
         "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} "
         "{{ m.content }}</s>{% endif "
         "%}{% endfor %}",
         NULL, " a</s>| b</s>");
    said(*state,
         "{% for m in messages %}{% if m.role == 'user' %}[I]{{ m.content }}[/I]{% else %}(thinks) "
         "{{ m.content }}</s>{% endif "
         "%}{% endfor %}",
         NULL, "?"); /* a header, or the beginning of what is said? */
}

static void ends_that_only_the_last_turn_has_are_matched(void **state) {
    said(*state,
         "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ '</s>' if loop.last "
         "else '<|im_end|>\n' }}{% endfor "
         "%}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
         NULL, "a<|im_end|>|b</s>");
    said(*state,
         "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}{{ eos_token if m.role == "
         "'assistant' and not loop.last "
         "}}\n{% endfor %}"
         "{% if add_generation_prompt %}### assistant:\n{% endif %}",
         NULL, "a</s>|b");
    said(*state,
         TURNS "{% if add_generation_prompt %}<|assistant|>{% else %}That was all: {{ messages | "
               "length }}.{% endif %}",
         NULL, "a<|end|>|b<|end|>"); /* what stands behind everything is none of an answer */
    said(*state, "{% for m in messages %}{{ m.content }} ({{ loop.revindex }} more)\n{% endfor %}",
         NULL, "?");
}

/* A token behind the whole conversation, where nobody is asked to go on, ends no turn. */
static void a_token_behind_everything_is_none_of_the_last_turn(void **state) {
    static const char empty[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                "{\"role\": \"assistant\", \"content\": \"\"}]}";
    static const char *const footed =
        TURNS "{% if add_generation_prompt %}<|assistant|>{% else %}{{ eos_token }}{% endif %}";
    static const char *const close =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if "
        "add_generation_prompt %}<|assistant|>"
        "{% else %}{{ eos_token }}{% endif %}";
    said(*state, footed, NULL, "a<|end|>|b<|end|>");
    said(*state, footed, empty, "<|end|>");
    said(*state, close, NULL, "a<|end|>|b<|end|>");
    said(*state, close, empty, "<|end|>");
    /* whoever is asked: a header behind everything */
    said(*state,
         "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}{{ "
         "'<|start|>assistant\n' }}",
         NULL, "a<|end|>|b<|end|>");
    said(*state,
         "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>",
         NULL, "a<|end|>|b<|end|>");
}

/* The next turn's header is no end of this one, whatever that turn's words look like. */
static void marks_in_the_next_turn_end_none(void **state) {
    static const char *const bare =
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think></think>{% "
        "endif "
        "%}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
    static const char *const words[] = {"r", "[1] r", "<b> r"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        char row[320];
        snprintf(row, sizeof row,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                 "\"assistant\", \"content\": \"a\"}, "
                 "{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", "
                 "\"content\": \"b\"}]}",
                 words[k]);
        said(*state, bare, row, "<think></think>a|<think></think>b");
    }
    said(*state, bare,
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
         "\"content\": \"a\"}, "
         "{\"role\": \"assistant\", \"content\": \"b\"}]}",
         "<think></think>a|<think></think>b");
}

/* A prompt says more than a turn does: words of a variable. */
static void a_variable_in_the_prompt_is_no_messages_word(void **state) {
    said(*state,
         "{% for m in messages %}<|role|>{{ m.role }}<|says|>{{ m.content }}<|end|>\n{% endfor "
         "%}{% if add_generation_prompt %}"
         "<|role|>assistant {{ controls }}<|says|>{% endif %}",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
         "\"content\": \"a\"}], "
         "\"variables\": {\"controls\": \"brief\"}}",
         "a<|end|>");
}

/* Thoughts that are left out of earlier turns; a prompt that begins one. */
static void thoughts_come_and_go(void **state) {
    static const char row[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                              "{\"role\": \"assistant\", \"content\": \"a\", "
                              "\"reasoning_content\": \"t\"}, {\"role\": \"user\", \"content\": "
                              "\"r\"}, {\"role\": \"assistant\", "
                              "\"content\": \"b\", \"reasoning_content\": \"u\"}]}";
    said(*state,
         "{% for m in messages %}<|{{ m.role }}|>{% if loop.last and m.reasoning_content "
         "%}<think>{{ m.reasoning_content "
         "}}</think>{% endif %}"
         "{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif "
         "%}",
         row, "a<|end|>|<think>u</think>b<|end|>");
    said(*state, TURNS "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}", row,
         "a<|end|>|b<|end|>");
}

#define SAYS(role, content) "{\"role\": \"" role "\", \"content\": \"" content "\"}"
#define ROW(messages) "{\"messages\": [" messages "]}"

/* The prompt begins a thought that a turn without words has not; a turn that is left out has no
 * span. */
static void an_empty_answer_stands_behind_its_header(void **state) {
    static const char row[] = ROW(SAYS("user", "q") ", " SAYS("assistant", "") ", " SAYS(
        "user", "r") ", " SAYS("assistant", "b")),
                      last[] = ROW(SAYS("user", "q") ", " SAYS("assistant", ""));
    static const char thinks[] =
        TURNS "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}";
    said(*state, thinks, row, "<|end|>|b<|end|>");
    said(*state, thinks, last, "<|end|>");
    said(*state, TURNS "{% if add_generation_prompt %}<|assistant|>Well, {% endif %}", last, "?");
    said(*state,
         "{% for m in messages %}{% if m.content %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% "
         "endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}",
         row, "?");
}

/* The last turn ends in another token, so behind an answer nobody sees what the prompt adds. */
static void answers_in_a_row_have_a_header_each(void **state) {
    static const char turns[] =
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' "
        "%}<|channel|>final{% endif %}<|message|>{{ m.content }}{% if loop.last and m.role == "
        "'assistant' and not add_generation_prompt %}<|return|>{% else %}<|end|>{% endif %}{% "
        "endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
    said(*state, turns,
         ROW(SAYS("user", "q") ", " SAYS("assistant", "a") ", " SAYS("assistant", "b")),
         "<|channel|>final<|message|>a<|end|>|<|channel|>final<|message|>b<|return|>");
    said(*state, turns,
         ROW(SAYS("user", "q") ", " SAYS("assistant", "a") ", " SAYS("assistant", "b") ", " SAYS(
             "user", "r") ", " SAYS("assistant", "c")),
         "<|channel|>final<|message|>a<|end|>|<|channel|>final<|message|>b<|end|>|"
         "<|channel|>final<|message|>c<|return|>");
}

/* A template whose answers have no header, and a conversation that one of them begins. */
static void a_first_answer_needs_no_more_header_than_others(void **state) {
    static const char turns[] =
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} "
        "{{ m.content }}</s>{% endif %}{% endfor %}";
    said(*state, turns,
         ROW(SAYS("assistant", "a") ", " SAYS("user", "q") ", " SAYS("assistant", "b")),
         " a</s>| b</s>");
    said(*state, turns, ROW(SAYS("assistant", "a")), " a</s>");
    said(*state,
         "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt "
         "%}<|assistant|>{% endif %}",
         ROW(SAYS("assistant", "a")), "?"); /* where others have a header, this one lacks it */
}

static void weights_choose_among_spans(void **state) {
    static const char row[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                              "{\"role\": \"assistant\", \"content\": \"a\", "
                              "\"weight\": 0}, {\"role\": \"user\", \"content\": \"r\"}, "
                              "{\"role\": \"assistant\", \"content\": \"b\"}]}";
    static const char empty[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                "{\"role\": \"assistant\", \"content\": \"\", "
                                "\"train\": false}, {\"role\": \"user\", \"content\": \"r\"}, "
                                "{\"role\": \"assistant\", \"content\": \"\"}]}";
    static const char marked[] =
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ "
        "m.content }}<|end|>"
        "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}\n{% endfor %}";
    said(*state, TURNS, row, "b<|end|>");
    said(*state, marked, row, "b<|end|>");
    said(*state, marked, empty, "<|end|>");
    said(*state,
         "{% for m in messages %}{% generation %}x{% endgeneration %}{{ m.content }}{% endfor %}",
         row, "?"); /* whose is which? */
}

/* The same words of a template around another row's answer: what was found for one holds for the
 * next, not one that differs. */
static void what_was_found_is_not_taken_for_something_else(void **state) {
    static const char text[] = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% "
                               "endfor %}{% if add_generation_prompt %}"
                               "<|assistant|>{{ opening }}{% endif %}";
    sw_chat *chat =
        open_chat_with(&(sw_chat_options){.template_path = write_text(*state, "t.jinja", text)});
    sw_chat_text out = {.text = NULL};
    static const struct {
        const char *row;
        int first, end;
    } rows[] = {{"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                 "\"assistant\", \"content\": \"<b>a\"}]}",
                 30, 41},
                {"{\"messages\": [{\"role\": \"user\", \"content\": \"qq\"}, {\"role\": "
                 "\"assistant\", \"content\": \"<b>\"}]}",
                 31, 41},
                {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                 "\"assistant\", \"content\": \"<b>a\"}], "
                 "\"variables\": "
                 "{\"opening\": \"<b>\"}}",
                 33, 41}};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 3; i++) {
            json_t *one = json_loads(rows[i].row, 0, NULL);
            sw_conversation c = read_conversation(one);
            sw_error err = {0};
            assert_int_equal(sw_chat_render(chat, &c, SW_SPANS_ALL, NULL, &out, &err), SW_OK);
            assert_int_equal(out.n_supervised, 1);
            assert_int_equal(out.supervised[0].first, rows[i].first);
            assert_int_equal(out.supervised[0].end, rows[i].end);
            sw_conversation_free(&c);
            json_decref(one);
        }
    sw_chat_text_free(&out);
    sw_chat_free(chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_without_marks_are_right_or_refused),
        cmocka_unit_test_setup_teardown(a_header_without_a_prompt_is_told_from_what_is_said,
                                        make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(ends_that_only_the_last_turn_has_are_matched, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_token_behind_everything_is_none_of_the_last_turn,
                                        make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(marks_in_the_next_turn_end_none, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_variable_in_the_prompt_is_no_messages_word, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(thoughts_come_and_go, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(an_empty_answer_stands_behind_its_header, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(answers_in_a_row_have_a_header_each, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_first_answer_needs_no_more_header_than_others,
                                        make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(weights_choose_among_spans, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(what_was_found_is_not_taken_for_something_else,
                                        make_scratch, remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
