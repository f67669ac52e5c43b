/* test_jinja.c: chat templates as transformers runs them: tests/golden/templates, whose README says
 * where values come from. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "data/jinja/jinja.h"

#define FOLDER SW_SOURCE_FOLDER "/tests/golden/templates/"

static char *read_file(const char *name, int64_t *bytes) {
    char path[SW_PATH_BYTES], *text;
    sw_error err = {0};
    assert_int_equal(sw_path_join(path, FOLDER, name, &err), SW_OK);
    if (sw_file_read(path, 8 << 20, &text, bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    return text;
}

/* The rows of a file, each an object. */
static json_t *read_rows(const char *name) {
    int64_t bytes;
    char *text = read_file(name, &bytes);
    json_t *rows = json_array();
    for (char *line = text, *end; line < text + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        end = end ? end : text + bytes;
        json_error_t error;
        json_t *row = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &error);
        if (!row)
            fail_msg("%s: %s", name, error.text);
        json_array_append_new(rows, row);
    }
    free(text);
    return rows;
}

/* What the reference does to a message before the template sees it. */
static json_t *settle_message(json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *settled = json_object(), *reasoning = NULL;
    for (int i = 0; i < 3 && !reasoning; i++)
        if (!json_is_null(json_object_get(message, names[i])))
            reasoning = json_object_get(message, names[i]);
    if (reasoning)
        json_object_set(settled, "thinking", reasoning);
    const char *key;
    json_t *value;
    json_object_foreach(message, key, value) {
        if (!json_is_null(value))
            json_object_set(settled, key, value);
    }
    if (reasoning)
        json_object_set(settled, "reasoning_content", reasoning);
    return settled;
}

/* What the template of a case sees. */
static json_t *variables_of(const json_t *one) {
    json_t *variables = json_object(), *messages = json_array(), *message;
    size_t i;
    json_array_foreach(json_object_get(one, "messages"), i, message)
        json_array_append_new(messages, settle_message(message));
    json_object_set_new(variables, "messages", messages);
    static const char *const optional[] = {"tools", "documents"};
    for (i = 0; i < 2; i++) {
        json_t *value = json_object_get(one, optional[i]);
        json_object_set_new(variables, optional[i], value ? json_incref(value) : json_null());
    }
    json_t *prompt = json_object_get(one, "add_generation_prompt");
    json_object_set_new(variables, "add_generation_prompt",
                        prompt ? json_incref(prompt) : json_false());
    json_object_update(variables, json_object_get(one, "special_tokens"));
    json_object_update(variables, json_object_get(one, "variables"));
    return variables;
}

static void check_spans(const char *label, const json_t *wanted, const sw_jinja_rendering *got) {
    if (!wanted)
        return;
    if ((int)json_array_size(wanted) != got->n_generation)
        fail_msg("%s: %d spans for %zu", label, got->n_generation, json_array_size(wanted));
    for (int i = 0; i < got->n_generation; i++) {
        const json_t *span = json_array_get(wanted, (size_t)i);
        assert_int_equal(got->generation[i].first, json_integer_value(json_array_get(span, 0)));
        assert_int_equal(got->generation[i].end, json_integer_value(json_array_get(span, 1)));
    }
}

static void check_case(const json_t *one, const char *label, const char *text, int64_t bytes,
                       sw_jinja_rendering *out) {
    sw_error err = {0};
    sw_jinja *template = NULL;
    sw_jinja_options options = {0};
    struct tm now = {0};
    const char *time = json_string_value(json_object_get(one, "now"));
    if (time && strptime(time, "%Y-%m-%dT%H:%M:%S", &now))
        options.now = &now;
    json_t *variables = variables_of(one);
    const json_t *wanted = json_object_get(one, "text"), *error = json_object_get(one, "error");
    sw_status status = sw_jinja_parse("template", text, bytes, &template, &err);
    if (status == SW_OK)
        status = sw_jinja_render(template, variables, &options, out, &err);
    if (wanted && status != SW_OK)
        fail_msg("%s: %s", label, err.message);
    if (wanted && ((size_t)out->bytes != json_string_length(wanted) ||
                   memcmp(out->text, json_string_value(wanted), (size_t)out->bytes) != 0))
        fail_msg("%s:\nwanted %s\ngot    %.*s", label, json_string_value(wanted), (int)out->bytes,
                 out->text);
    if (wanted)
        check_spans(label, json_object_get(one, "assistant_spans_bytes"), out);
    if (error && status == SW_OK)
        fail_msg("%s: an error is wanted, this came: %.*s", label, (int)out->bytes, out->text);
    if (error) {
        if (strncmp(err.message, "template, line ", 15) != 0 || (template && out->bytes != 0))
            fail_msg("%s: %s", label, err.message);
        const char *kind = json_string_value(json_object_get(one, "kind")),
                   *message = json_string_value(json_object_get(one, "message"));
        if (kind && strcmp(kind, "raise_exception") == 0 && !strstr(err.message, message))
            fail_msg("%s: %s lacks %s", label, err.message, message);
    }
    json_decref(variables);
    sw_jinja_free(template);
}

static void templates_render_as_the_reference_does(void **state) {
    (void)state;
    json_t *rows = read_rows("cases.jsonl"), *one;
    sw_jinja_rendering out = {0};
    size_t i;
    json_array_foreach(rows, i, one) {
        char file[128], label[256];
        int64_t bytes;
        snprintf(file, sizeof file, "%s.jinja",
                 json_string_value(json_object_get(one, "template")));
        snprintf(label, sizeof label, "%s, %s", file,
                 json_string_value(json_object_get(one, "case")));
        char *text = read_file(file, &bytes);
        check_case(one, label, text, bytes, &out);
        free(text);
    }
    assert_true(i > 300);
    sw_jinja_rendering_free(&out);
    json_decref(rows);
}

/* A template for each rule of the language, on the values of the first row. */
static void rules_hold(void **state) {
    (void)state;
    json_t *rows = read_rows("rules.jsonl"), *one;
    sw_jinja_rendering out = {0};
    size_t i;
    json_array_foreach(rows, i, one) {
        const json_t *template = json_object_get(one, "template");
        if (i == 0)
            continue;
        json_object_set(one, "variables", json_object_get(json_array_get(rows, 0), "variables"));
        check_case(one, json_string_value(template), json_string_value(template),
                   (int64_t)json_string_length(template), &out);
    }
    assert_true(i > 500);
    sw_jinja_rendering_free(&out);
    json_decref(rows);
}

/* The template of a row, which may be put together from parts that are repeated. */
static char *put_together(const json_t *row, size_t *bytes) {
    json_t *parts = json_object_get(row, "parts"), *part;
    size_t i;
    if (!parts) {
        *bytes = json_string_length(json_object_get(row, "template"));
        return strdup(json_string_value(json_object_get(row, "template")));
    }
    char *text = calloc(1, 8 << 20), *at = text;
    json_array_foreach(parts, i, part) {
        const char *piece = json_string_value(json_array_get(part, 0));
        for (json_int_t n = json_integer_value(json_array_get(part, 1)); n > 0; n--)
            at = stpcpy(at, piece);
    }
    *bytes = (size_t)(at - text);
    return text;
}

static void bad_templates_are_refused(void **state) {
    (void)state;
    json_t *rows = read_rows("bad.jsonl"), *one;
    sw_jinja_rendering out = {0};
    size_t i, bytes;
    json_array_foreach(rows, i, one) {
        const char *label = json_string_value(json_object_get(one, "case"));
        char *text = put_together(one, &bytes), line[32];
        sw_error err = {0};
        sw_jinja *template = NULL;
        json_t *variables = variables_of(one);
        sw_status status = sw_jinja_parse("template", text, (int64_t)bytes, &template, &err);
        if (status == SW_OK)
            status = sw_jinja_render(template, variables, NULL, &out, &err);
        if (status == SW_OK)
            fail_msg("%s is rendered", label);
        snprintf(line, sizeof line,
                 "template, line %d: ", (int)json_integer_value(json_object_get(one, "line")));
        if (json_object_get(one, "line") ? !strstr(err.message, line)
                                         : !strstr(err.message, "template, line 1: "))
            fail_msg("%s: %s has not %s", label, err.message, line);
        json_decref(variables);
        sw_jinja_free(template);
        free(text);
    }
    sw_jinja_rendering_free(&out);
    json_decref(rows);
}

/* What a template gives of some JSON; the message where it fails. */
static const char *give(const char *text, const char *json, const sw_jinja_options *options) {
    static char given[2048];
    sw_error err = {0};
    sw_jinja *template;
    sw_jinja_rendering out = {0};
    json_t *variables = json_loads(json, 0, NULL);
    assert_non_null(variables);
    sw_status status = sw_jinja_parse("x.jinja", text, (int64_t)strlen(text), &template, &err);
    if (status == SW_OK)
        status = sw_jinja_render(template, variables, options, &out, &err);
    assert_int_equal(status == SW_OK, err.message[0] == '\0');
    if (status == SW_OK)
        snprintf(given, sizeof given, "%.*s", (int)out.bytes, out.text);
    else
        snprintf(given, sizeof given, "%s", err.message);
    json_decref(variables);
    sw_jinja_rendering_free(&out);
    sw_jinja_free(template);
    return given;
}

/* A message names the template, the line and what is wrong; the template's own words come last, as
 * they are. */
static void messages_say_where_and_why(void **state) {
    (void)state;
    assert_string_equal(give("a\n{{ m.x.y }}", "{\"m\": {}}", NULL),
                        "x.jinja, line 2: 'dict object' has no attribute 'x'");
    assert_string_equal(give("{% if a %}\n{{ b() }}{% endif %}", "{\"a\": 1}", NULL),
                        "x.jinja, line 2: 'b' is undefined");
    assert_string_equal(give("\n{{ raise_exception('Turns:\\nmust alternate!') }}", "{}", NULL),
                        "x.jinja, line 2: Turns:\nmust alternate!");
    assert_string_equal(
        give("{% macro f(x) %}\n{{ x + 1 }}{% endmacro %}\n\n{{ f('a') }}", "{}", NULL),
        "x.jinja, line 2: can only concatenate str (not \"int\") to str; `~` joins anything");
    assert_string_equal(give("{% for a in [1] %}\n\n{% if a %}", "{}", NULL),
                        "x.jinja, line 3: unexpected end of template: 'elif', 'else' or 'endif' is "
                        "missing for the 'if' of line 3");
    assert_string_equal(give("{{ [1] | map('upper') }}", "{}", NULL),
                        "x.jinja, line 1: what a filter lets through one by one (a generator) has "
                        "no text: put `| list` or `| join` "
                        "behind it");
}

/* What Python has and templates here do not is refused by name. */
static void what_is_not_built_is_refused(void **state) {
    (void)state;
    static const char *const expressions[] = {
        "s.encode()", "s | wordwrap(5)", "s | urlize", "[1] | random", "s | pprint",
        "lipsum()",   "(-8) ** 0.5",     "2 ** 99999", "'\\ud800'",    "'\\N{DEGREE SIGN}'"};
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        char text[64];
        snprintf(text, sizeof text, "{{ %s }}", expressions[i]);
        assert_true(strncmp(give(text, "{\"s\": \"abc\"}", NULL), "x.jinja, line 1: ", 17) == 0);
    }
    assert_true(strstr(give("{% autoescape true %}{% endautoescape %}", "{}", NULL),
                       "autoescape is not built"));
}

/* The bounds are options; each is met before anything grows beyond it. */
static void bounds_are_kept(void **state) {
    (void)state;
    sw_jinja_options few_steps = {.max_steps = 1000}, little_text = {.max_output = 100},
                     little_memory = {.max_memory = 1 << 20};
    const char *loop = "{% for i in range(1000) %}{{ i }}{% endfor %}";
    assert_true(strstr(give(loop, "{}", &few_steps), "more than 1000 steps"));
    assert_true(strstr(give(loop, "{}", &little_text), "MiB of text"));
    assert_true(strstr(give("{% for i in range(9999) %}{% set x = [i] * 1000 %}{% endfor %}", "{}",
                            &little_memory),
                       "1 MiB of memory"));
    assert_string_equal(give("{{ 'x' * 90 }}", "{}", &little_text),
                        give("{{ 'x' * 90 }}", "{}", NULL));
}

/* A text or list that grows in a loop costs its length, not its square. */
static void gathering_is_linear(void **state) {
    (void)state;
    const char *text =
        "{% set ns = namespace(s='', l=[]) %}{% for i in range(50000) %}{% set ns.s = ns.s + 'a "
        "line of thirty characters.' %}"
        "{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.s | length }} {{ ns.l | length }}";
    sw_jinja_options options = {.max_memory = 40 << 20, .max_steps = 2000000};
    assert_string_equal(give(text, "{}", &options), "1400000 50000");
}

/* What was joined to a text in place is not seen by those that had it before. */
static void texts_that_share_memory_stay_apart(void **state) {
    (void)state;
    const char *text = "{% set long = 'x' * 70 %}{% set a = long ~ '1' %}{% set b = a ~ '2' %}{% "
                       "set c = a ~ '3' %}{% set d = b ~ '4' %}"
                       "{{ a[69:] }} {{ b[69:] }} {{ c[69:] }} {{ d[69:] }}{% set l = "
                       "range(9)|list + [1] %}{% set m = l + [2] %}"
                       "{% set n = l + [3] %} {{ l[9:] }}{{ m[9:] }}{{ n[9:] }}";
    assert_string_equal(give(text, "{}", NULL), "x1 x12 x13 x124 [1][1, 2][1, 3]");
}

static void the_time_is_the_given_one(void **state) {
    (void)state;
    struct tm now = {.tm_year = 124,
                     .tm_mon = 6,
                     .tm_mday = 4,
                     .tm_hour = 9,
                     .tm_min = 5,
                     .tm_wday = 4,
                     .tm_yday = 185};
    sw_jinja_options options = {.now = &now, .microsecond = 42};
    assert_string_equal(
        give("{{ strftime_now('%d %b %Y, %A %H:%M:%S.%f|%z%Z|%%|%-d|é') }}", "{}", &options),
        "04 Jul 2024, Thursday 09:05:00.000042||%|4|é");
    assert_string_equal(give("[{{ strftime_now('') }}]", "{}", &options), "[]");
    assert_true(strstr(give("{{ strftime_now('%9999999d') }}", "{}", &options), "strftime_now"));
}

static void a_template_knows_what_it_speaks_of(void **state) {
    (void)state;
    sw_jinja *template;
    sw_error err;
    const char *text = "tool_calls {# tools #}{% for m in messages %}{{ m.content or "
                       "m['reasoning_content'] }}{{ m.get('name') }}{% endfor %}";
    assert_int_equal(sw_jinja_parse("t", text, (int64_t)strlen(text), &template, &err), SW_OK);
    assert_true(sw_jinja_mentions(template, "messages") && sw_jinja_mentions(template, "content"));
    assert_true(sw_jinja_mentions(template, "reasoning_content") &&
                sw_jinja_mentions(template, "name"));
    assert_false(sw_jinja_mentions(template, "tool_calls") ||
                 sw_jinja_mentions(template, "tools") || sw_jinja_has_generation(template));
    sw_jinja_free(template);
}

/* A generation mark goes with what a macro, a set block or a call gives, also when that is joined
 * and printed twice; what changes the text loses it, and that is told. */
static void marks_follow_their_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int n;
        sw_span spans[3];
        int lost;
    } cases[] = {
        {"a{% macro f() %}bc{% generation %}de{% endgeneration %}f{% endmacro %}{{ f() }}g",
         1,
         {{3, 5}},
         0},
        {"{% set x %}a{% generation %}bc{% endgeneration %}{% endset %}{{ x ~ 'd' ~ x }}{{ x }}",
         3,
         {{1, 3}, {5, 7}, {8, 10}},
         0},
        {"é{% generation %}ü{% generation %}x{% endgeneration %}{% endgeneration %}",
         1,
         {{2, 5}},
         0},
        {"{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}{% generation %}a{% "
         "endgeneration %}{% endcall %}",
         1,
         {{1, 2}},
         0},
        {"{% generation %}{% endgeneration %}{% generation %}a{% endgeneration %}",
         2,
         {{0, 0}, {0, 1}},
         0},
        {"a\n{% filter upper %}{% generation %}b{% endgeneration %}{% endfilter %}",
         0,
         {{0, 0}},
         2},
        {"{% set x %}{% generation %}b{% endgeneration %}{% endset %}", 0, {{0, 0}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_jinja *template;
        sw_error err;
        sw_jinja_rendering out = {0};
        json_t *variables = json_object();
        assert_int_equal(
            sw_jinja_parse("t", cases[i].text, (int64_t)strlen(cases[i].text), &template, &err),
            SW_OK);
        assert_int_equal(sw_jinja_render(template, variables, NULL, &out, &err), SW_OK);
        assert_int_equal(out.n_generation, cases[i].n);
        for (int k = 0; k < out.n_generation; k++) {
            assert_int_equal(out.generation[k].first, cases[i].spans[k].first);
            assert_int_equal(out.generation[k].end, cases[i].spans[k].end);
        }
        assert_int_equal(out.lost_generation_line, cases[i].lost);
        sw_jinja_rendering_free(&out);
        sw_jinja_free(template);
        json_decref(variables);
    }
}

typedef struct shared {
    const sw_jinja *template;
    const json_t *variables;
} shared;

static void *render_often(void *argument) {
    const shared *with = argument;
    sw_jinja_rendering out = {0};
    sw_error err;
    void *failed = NULL;
    for (int i = 0; i < 200 && !failed; i++) {
        sw_status status = sw_jinja_render(with->template, with->variables, NULL, &out, &err);
        failed =
            status == SW_OK && out.bytes == 17 && memcmp(out.text, "user:hi|bot:[3]|\n", 17) == 0
                ? NULL
                : (void *)1;
    }
    sw_jinja_rendering_free(&out);
    return failed;
}

/* One template, several threads. */
static void threads_share_a_template(void **state) {
    (void)state;
    const char *text =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}{{ '\\n' }}";
    sw_jinja *template;
    sw_error err;
    assert_int_equal(sw_jinja_parse("t", text, (int64_t)strlen(text), &template, &err), SW_OK);
    json_t *variables = json_loads("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
                                   "{\"role\": \"bot\", \"content\": [3]}]}",
                                   0, NULL);
    shared with = {template, variables};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, &with), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    json_decref(variables);
    sw_jinja_free(template);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_the_reference_does),
        cmocka_unit_test(rules_hold),
        cmocka_unit_test(bad_templates_are_refused),
        cmocka_unit_test(messages_say_where_and_why),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(gathering_is_linear),
        cmocka_unit_test(texts_that_share_memory_stay_apart),
        cmocka_unit_test(the_time_is_the_given_one),
        cmocka_unit_test(a_template_knows_what_it_speaks_of),
        cmocka_unit_test(marks_follow_their_text),
        cmocka_unit_test(threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
