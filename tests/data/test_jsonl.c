/* test_jsonl.c: every file of tests/data/jsonl has the verdict that verdicts.jsonl gives, with a message that names what it
 * should.
 *
 * The files and verdicts were written for this purpose, with Python's json as a second opinion on their syntax.
 */
#include "scratch.h"

#include <jansson.h>

#include "base/file.h"
#include "data/jsonl.h"

#define FOLDER SW_SOURCE_FOLDER "/tests/data/jsonl/"

/* Rows of a text until its end or its first fault. */
static sw_status read_all(const char *name, const char *text, int64_t bytes, int64_t *n_rows, sw_error *err) {
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end = false;
    sw_status status = sw_jsonl_begin(&rows, name, text, bytes, err);
    while (status == SW_OK && !is_end)
        status = sw_jsonl_next(&rows, &row, &is_end, err);
    if (status == SW_OK)
        status = sw_jsonl_check_rows(&rows, err);
    *n_rows = rows.n_rows;
    sw_jsonl_end(&rows);
    return status;
}

static void check_verdict(const json_t *verdict) {
    char path[SW_PATH_BYTES], *text;
    int64_t bytes, n_rows;
    sw_error err = {0};
    const char *file = json_string_value(json_object_get(verdict, "file"));
    assert_int_equal(sw_path_join(path, FOLDER, file, &err), SW_OK);
    if (sw_file_read(path, INT64_C(1) << 30, &text, &bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_status status = read_all(file, text, bytes, &n_rows, &err);
    free(text);
    if (strcmp(json_string_value(json_object_get(verdict, "verdict")), "accept") == 0) {
        if (status != SW_OK)
            fail_msg("%s", err.message);
        if (n_rows != json_integer_value(json_object_get(verdict, "rows")))
            fail_msg("%s: %lld rows", file, (long long)n_rows);
        return;
    }
    if (status != SW_BAD_FILE)
        fail_msg("%s was not refused", file);
    char line[32];
    const json_t *number = json_object_get(verdict, "line"), *names = json_object_get(verdict, "message_names");
    snprintf(line, sizeof line, "line %lld", (long long)json_integer_value(number));
    if (json_is_integer(number) && !strstr(err.message, line))
        fail_msg("\"%s\" lacks \"%s\"", err.message, line);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = strrchr(json_string_value(json_array_get(names, i)), '/');
        name = name ? name + 1 : json_string_value(json_array_get(names, i));
        if (!strstr(err.message, name))
            fail_msg("\"%s\" lacks \"%s\"", err.message, name);
    }
}

static void every_file_has_its_verdict(void **state) {
    (void)state;
    FILE *file = fopen(FOLDER "verdicts.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    int n = 0;
    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *verdict = json_loads(line, 0, NULL);
        assert_non_null(verdict);
        check_verdict(verdict);
        json_decref(verdict);
        n++;
    }
    assert_int_equal(n, 78);
    free(line);
    fclose(file);
}

static void strings_mean_what_json_says(void **state) {
    (void)state;
    static const char text[] =
        "{\"x\":[{\"a\":[1,2,{}]},[],-0.5e+3,null], \"te\\u0078t\":\"a\\u00e9\\ud83d\\ude00\\u0000\\/\\\"\\n\"} \r\n";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    sw_error err = {0};
    assert_int_equal(sw_jsonl_begin(&rows, "t", text, sizeof text - 1, &err), SW_OK);
    if (sw_jsonl_next(&rows, &row, &is_end, &err) != SW_OK)
        fail_msg("%s", err.message);
    static const char meant[] = "a\xC3\xA9\xF0\x9F\x98\x80\0/\"\n";
    assert_false(is_end);
    assert_int_equal(row.form, SW_JSONL_TEXT);
    assert_int_equal(row.text.bytes, sizeof meant - 1);
    assert_memory_equal(row.text.text, meant, sizeof meant - 1);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, &err), SW_OK);
    assert_true(is_end);
    sw_jsonl_end(&rows);
}

static void a_conversation_is_read_in_order(void **state) {
    (void)state;
    static const char text[] =
        "\n{\"messages\": [{\"content\": \"hi\", \"role\": \"user\", \"weight\": 0}, {\"role\":\"assistant\",\"content\":\"\"}]}";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    assert_int_equal(sw_jsonl_begin(&rows, "t", text, sizeof text - 1, NULL), SW_OK);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, NULL), SW_OK);
    assert_int_equal(row.form, SW_JSONL_MESSAGES);
    assert_int_equal(row.line, 2);
    assert_int_equal(row.n_messages, 2);
    assert_int_equal(row.messages[0].role, SW_ROLE_USER);
    assert_int_equal(row.messages[0].content.bytes, 2);
    assert_memory_equal(row.messages[0].content.text, "hi", 2);
    assert_int_equal(row.messages[1].role, SW_ROLE_ASSISTANT);
    assert_int_equal(row.messages[1].content.bytes, 0);
    sw_jsonl_end(&rows);
}

/* Parts of a file that are read apart give the rows and line numbers of the whole. */
static void a_part_counts_its_lines_from_where_it_begins(void **state) {
    (void)state;
    static const char text[] = "{\"text\": \"a\"}\n{\"txt\": 1}\n";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    sw_error err = {0};
    sw_jsonl_begin_part(&rows, "t.jsonl", text, sizeof text - 1, 41, 1000);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, &err), SW_OK);
    assert_int_equal(row.line, 42);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "t.jsonl: line 43"));
    sw_jsonl_end(&rows);
}

/* Every cut of a good row is refused: no prefix of an object is one. */
static void every_cut_of_a_row_is_refused(void **state) {
    (void)state;
    static const char text[] = "{\"k\":[true,{\"a\":-1.5e3}],\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\\\\x\"}]}";
    for (int64_t n = 1; n < (int64_t)sizeof text - 1; n++) {
        char *cut = malloc((size_t)n); /* so that a checker sees a read beyond */
        memcpy(cut, text, (size_t)n);
        int64_t n_rows;
        sw_error err = {0};
        assert_int_equal(read_all("t", cut, n, &n_rows, &err), SW_BAD_FILE);
        free(cut);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_has_its_verdict),      cmocka_unit_test(strings_mean_what_json_says),
        cmocka_unit_test(a_conversation_is_read_in_order), cmocka_unit_test(a_part_counts_its_lines_from_where_it_begins),
        cmocka_unit_test(every_cut_of_a_row_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
