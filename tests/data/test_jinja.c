/* test_jinja.c: chat templates as transformers runs them: tests/golden/templates, whose README says where the values come from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
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
    json_array_foreach(json_object_get(one, "messages"), i, message) json_array_append_new(messages, settle_message(message));
    json_object_set_new(variables, "messages", messages);
    static const char *const optional[] = {"tools", "documents"};
    for (i = 0; i < 2; i++) {
        json_t *value = json_object_get(one, optional[i]);
        json_object_set_new(variables, optional[i], value ? json_incref(value) : json_null());
    }
    json_t *prompt = json_object_get(one, "add_generation_prompt");
    json_object_set_new(variables, "add_generation_prompt", prompt ? json_incref(prompt) : json_false());
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

static void check_case(const json_t *one, const char *label, const char *text, int64_t bytes, sw_jinja_rendering *out) {
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
        fail_msg("%s:\nwanted %s\ngot    %.*s", label, json_string_value(wanted), (int)out->bytes, out->text);
    if (wanted)
        check_spans(label, json_object_get(one, "assistant_spans_bytes"), out);
    if (error && status == SW_OK)
        fail_msg("%s: an error is wanted, this came: %.*s", label, (int)out->bytes, out->text);
    if (error) {
        assert_true(strncmp(err.message, "template", 8) == 0);
        assert_int_equal(out->bytes, 0);
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
        snprintf(file, sizeof file, "%s.jinja", json_string_value(json_object_get(one, "template")));
        snprintf(label, sizeof label, "%s, %s", file, json_string_value(json_object_get(one, "case")));
        char *text = read_file(file, &bytes);
        check_case(one, label, text, bytes, &out);
        free(text);
    }
    assert_true(i > 300);
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
        snprintf(line, sizeof line, "template, line %d: ", (int)json_integer_value(json_object_get(one, "line")));
        if (json_object_get(one, "line") ? !strstr(err.message, line) : !strstr(err.message, "template, line 1: "))
            fail_msg("%s: %s has not %s", label, err.message, line);
        json_decref(variables);
        sw_jinja_free(template);
        free(text);
    }
    sw_jinja_rendering_free(&out);
    json_decref(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_the_reference_does),
        cmocka_unit_test(bad_templates_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
