/* test_jsonl.c: every file of tests/data/jsonl has the verdict that verdicts.jsonl gives, with a
 * message that names what it should.
 *
 * The files and verdicts were written for this purpose, with Python's json as a second opinion on
 * their syntax.
 */
#include "scratch.h"

#include <jansson.h>

#include "base/file.h"
#include "data/jsonl.h"

#define FOLDER SW_SOURCE_FOLDER "/tests/data/jsonl/"

/* Rows of a text until its end or its first fault. */
static sw_status read_all(const char *name, const char *text, int64_t bytes, int64_t *n_rows,
                          sw_error *err) {
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end = false;
    sw_status status = sw_jsonl_begin(&rows, name, text, bytes, NULL, err);
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
    const json_t *number = json_object_get(verdict, "line"),
                 *names = json_object_get(verdict, "message_names");
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
    assert_int_equal(n, 79);
    free(line);
    fclose(file);
}

static void strings_mean_what_json_says(void **state) {
    (void)state;
    static const char text[] = "{\"x\":[{\"a\":[1,2,{}]},[],-0.5e+3,null], "
                               "\"te\\u0078t\":\"a\\u00e9\\ud83d\\ude00\\u0000\\/\\\"\\n\"} \r\n";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    sw_error err = {0};
    assert_int_equal(sw_jsonl_begin(&rows, "t", text, sizeof text - 1, NULL, &err), SW_OK);
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
    static const char text[] = "\n{\"messages\": [{\"content\": \"hi\", \"role\": \"user\", "
                               "\"weight\": 0}, {\"role\":\"assistant\",\"content\":\"\"}]}";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    assert_int_equal(sw_jsonl_begin(&rows, "t", text, sizeof text - 1, NULL, NULL), SW_OK);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, NULL), SW_OK);
    assert_int_equal(row.form, SW_JSONL_MESSAGES);
    assert_int_equal(row.line, 2);
    assert_int_equal(row.n_bytes, 2);
    char *messages = json_dumps(row.conversation->messages, 0);
    assert_string_equal(messages, "[{\"content\": \"hi\", \"role\": \"user\", \"weight\": 0}, "
                                  "{\"role\": \"assistant\", \"content\": \"\"}]");
    free(messages);
    assert_false(row.conversation->gives_targets[0]);
    assert_true(row.conversation->gives_targets[1]);
    sw_jsonl_end(&rows);
}

/* ---- the forms that data come in ---- */

/* Read one line; what it is as text: "form: prompt | completion" or the messages, with * where
 * targets are. */
static sw_status read_one(const char *line, const sw_columns *columns, char *shown, size_t n_shown,
                          sw_error *err) {
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    sw_jsonl_begin_part(&rows, "t.jsonl", line, (int64_t)strlen(line), 0, 0, columns);
    sw_status status = sw_jsonl_next(&rows, &row, &is_end, err);
    *shown = 0;
    if (!status && row.form == SW_JSONL_MESSAGES) {
        size_t i, n = 0;
        json_t *message;
        json_array_foreach(row.conversation->messages, i, message) {
            char *content = json_dumps(json_object_get(message, "content"), JSON_ENCODE_ANY),
                 *calls = json_dumps(json_object_get(message, "tool_calls"), 0);
            n += (size_t)snprintf(shown + n, n_shown - n, "%s%s%s %s%s", i ? "; " : "",
                                  json_string_value(json_object_get(message, "role")),
                                  row.conversation->gives_targets[i] ? "*" : "",
                                  content ? content : "-", calls ? calls : "");
            free(content);
            free(calls);
        }
    } else if (!status) {
        snprintf(shown, n_shown, "%.*s|%.*s|%.*s%s", (int)row.text.bytes,
                 row.text.text ? row.text.text : "", (int)row.prompt.bytes,
                 row.prompt.text ? row.prompt.text : "", (int)row.completion.bytes,
                 row.completion.text ? row.completion.text : "",
                 row.gives_targets ? "" : " (weight 0)");
    }
    sw_jsonl_end(&rows);
    return status;
}

static void reads_as(const char *line, const sw_columns *columns, const char *wanted) {
    char shown[2048];
    sw_error err = {0};
    if (read_one(line, columns, shown, sizeof shown, &err) != SW_OK)
        fail_msg("%s: %s", line, err.message);
    if (strcmp(shown, wanted) != 0)
        fail_msg("%s: %s instead of %s", line, shown, wanted);
}

static void is_refused(const char *line, const sw_columns *columns, const char *word) {
    char shown[2048];
    sw_error err = {0};
    if (read_one(line, columns, shown, sizeof shown, &err) != SW_BAD_FILE)
        fail_msg("%s: was not refused: %s", line, shown);
    if (!strstr(err.message, word) || !strstr(err.message, "t.jsonl: line 1"))
        fail_msg("%s: \"%s\" lacks \"%s\" or its place", line, err.message, word);
}

static void sharegpt_is_read(void **state) {
    (void)state;
    reads_as("{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"human\", "
             "\"value\": \"q\"}, {\"from\": "
             "\"gpt\", "
             "\"value\": \"a\"}]}",
             NULL, "system \"s\"; user \"q\"; assistant* \"a\"");
    reads_as("{\"conversations\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
             "\"assistant\", \"content\": \"a\"}], "
             "\"system\": "
             "\"s\"}",
             NULL, "system \"s\"; user \"q\"; assistant* \"a\"");
    reads_as(
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
        "\"function_call\", \"value\": "
        "\"{\\\"name\\\": \\\"f\\\", "
        "\\\"arguments\\\": {\\\"x\\\": 1}}\"}, {\"from\": \"observation\", \"value\": \"2\"}]}",
        NULL,
        "user \"q\"; assistant* \"\"[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
        "\"arguments\": {\"x\": 1}}}]; "
        "tool \"2\"");
    is_refused("{\"conversations\": [{\"from\": \"humann\", \"value\": \"q\"}]}", NULL, "humann");
    is_refused("{\"messages\": [{\"role\": \"gpt\", \"content\": \"q\"}]}", NULL, "conversations");
    is_refused("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"f(1)\"}]}", NULL,
               "function_call");
}

static void alpaca_is_read(void **state) {
    (void)state;
    reads_as("{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"}", NULL,
             "|Below is an instruction that describes a task, paired with an input that provides "
             "further context. Write a "
             "response that "
             "appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 "
             "2\n\n### Response:\n|3");
    reads_as("{\"instruction\": \"Sing.\", \"input\": \"\", \"output\": \"La\"}", NULL,
             "|Below is an instruction that describes a task. Write a response that appropriately "
             "completes the request.\n\n### "
             "Instruction:\nSing.\n\n### Response:\n|La");
    is_refused("{\"instruction\": \"Sing.\"}", NULL, "output");
    is_refused("{\"input\": \"a\", \"output\": \"b\"}", NULL, "instruction");
    is_refused("{\"instruction\": \"a\", \"output\": \"b\", \"text\": \"a b\"}", NULL,
               "data.columns: {text: null}");
    is_refused("{\"instruction\": \"a\", \"output\": \"b\", \"system\": \"s\"}", NULL, "system");
    is_refused("{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}", NULL,
               "history");
    reads_as("{\"instruction\": \"a\", \"output\": \"b\", \"history\": []}", NULL,
             "|Below is an instruction that describes a task. Write a response that appropriately "
             "completes the request.\n\n### "
             "Instruction:\na\n\n### Response:\n|b");
}

static void prompts_and_completions_may_be_messages(void **state) {
    (void)state;
    reads_as(
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
        "\"content\": \"no\"}, {\"role\": "
        "\"user\", "
        "\"content\": \"r\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
        NULL, "user \"q\"; assistant \"no\"; user \"r\"; assistant* \"a\"");
    is_refused(
        "{\"prompt\": \"q\", \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
        NULL, "one is a string");
    is_refused(
        "{\"prompt\": [\"q\"], \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
        NULL, "message 1 of `prompt`");
    is_refused("{\"prompt\": \"q\", \"completion\": \"a\", \"system\": \"s\"}", NULL, "`system`");
    is_refused("{\"prompt\": \"q\", \"completion\": \"a\", \"rejected\": \"b\"}", NULL,
               "`rejected`");
    is_refused("{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}", NULL, "preferences");
    is_refused("{\"prompt\": \"q\", \"completion\": \"a\", \"label\": false}", NULL, "`label`");
    reads_as("{\"prompt\": \"q\", \"completion\": \"a\", \"label\": true, \"rejected\": null}",
             NULL, "|q|a");
}

static void weights_are_honoured_or_refused(void **state) {
    (void)state;
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"weight\": 0}, {\"role\": "
             "\"assistant\", \"content\": \"a\", "
             "\"weight\": 0}, {\"role\": \"assistant\", \"content\": \"b\", \"train\": false}, "
             "{\"role\": \"assistant\", \"content\": "
             "\"c\", "
             "\"weight\": 1.0, \"train\": true}]}",
             NULL, "user \"q\"; assistant \"a\"; assistant \"b\"; assistant* \"c\"");
    is_refused("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0.5}]}",
               NULL, "`weight`");
    is_refused("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": \"0\"}]}",
               NULL, "`weight`");
    is_refused("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"train\": 0}]}",
               NULL, "`train`");
    is_refused("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0, "
               "\"train\": true}]}",
               NULL, "contradict");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"train\": true}]}", NULL,
               "only messages of the assistant");
    reads_as("{\"text\": \"a\", \"weight\": 0}", NULL, "a|| (weight 0)");
    reads_as("{\"text\": \"a\", \"train\": false}", NULL, "a|| (weight 0)");
    reads_as("{\"text\": \"a\", \"weight\": 0.5}", NULL, "a||");
    is_refused("{\"text\": \"a\", \"weight\": \"x\"}", NULL, "`weight`");
}

static void keys_that_are_nearly_known_are_refused(void **state) {
    (void)state;
    is_refused("{\"messages\": [{\"role\": \"user\", \"contnet\": \"a\"}]}", NULL, "`contnet`");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tool\": [{}]}", NULL,
               "did you mean `tools`");
    is_refused("{\"prompt\": \"q\", \"completion\": \"a\", \"systm\": \"s\"}", NULL,
               "did you mean `system`");
    is_refused("{\"text\": \"q\", \"wieght\": 0}", NULL, "did you mean `weight`");
    is_refused(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"system_prompt\": \"s\"}",
        NULL, "system");
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"id\": 3, \"source\": "
             "\"x\", \"score\": 0.5}",
             NULL, "user \"a\"");
}

static void what_goes_with_messages_is_checked(void **state) {
    (void)state;
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [], "
             "\"documents\": null, "
             "\"chat_template_kwargs\": {}}",
             NULL, "user \"a\"");
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": "
             "\"[{\\\"name\\\": \\\"f\\\"}]\"}",
             NULL, "user \"a\"");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [1]}", NULL,
               "`tools`");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": \"f\"}", NULL,
               "`tools`");
    is_refused(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{\"n\": 1e999}]}",
        NULL, "number");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{\"n\": "
               "12345678901234567890}]}",
               NULL, "64 bits");
    is_refused(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"x\": {\"y\": 1, \"y\": 2}}]}",
        NULL, "twice");
    is_refused("{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}], \"system\": \"s\"}",
               NULL, "keep one of them");
    is_refused(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"chat_template_kwargs\": [1]}",
        NULL, "an object");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
               "\"chat_template_kwargs\": {\"tools\": []}}",
               NULL, "tools");
    reads_as("{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}]}",
             NULL, "assistant* -[{}]");
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": null}]}", NULL, "user -");
    reads_as("{\"messages\": [{\"role\": \"tool\", \"content\": {\"x\": 1}}]}", NULL,
             "tool {\"x\": 1}");
    is_refused("{\"messages\": [{\"role\": \"user\", \"content\": {\"x\": 1}}]}", NULL,
               "`content`");
}

static void columns_have_other_names(void **state) {
    (void)state;
    sw_columns columns = SW_USUAL_COLUMNS;
    columns.text = "body";
    columns.messages = "dialog";
    columns.role = "speaker";
    columns.content = "says";
    reads_as("{\"body\": \"a\"}", &columns, "a||");
    reads_as("{\"dialog\": [{\"speaker\": \"user\", \"says\": \"q\"}, {\"speaker\": \"assistant\", "
             "\"says\": \"a\"}]}",
             &columns, "user \"q\"; assistant* \"a\"");
    is_refused("{\"text\": \"a\"}", &columns, "`text`");
    columns = SW_USUAL_COLUMNS;
    columns.text = NULL;
    columns.prompt = "question";
    columns.completion = "text"; /* not the column text */
    reads_as("{\"question\": \"q\", \"text\": \"a\"}", &columns, "|q|a");
    columns.text = "text";
    reads_as("{\"question\": \"q\", \"text\": \"a\"}", &columns, "|q|a");
    columns = SW_USUAL_COLUMNS;
    columns.prompt = NULL;
    reads_as("{\"prompt\": \"the first question\", \"messages\": [{\"role\": \"user\", "
             "\"content\": \"q\"}]}",
             &columns, "user \"q\"");
}

/* Whatever is there besides and says nothing is handed out, to be told. */
static void unread_keys_are_handed_out(void **state) {
    (void)state;
    static const char text[] =
        "{\"id\": 1, \"text\": \"a\", \"source\": {\"x\": []}}\n{\"text\": \"b\"}\n";
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end;
    assert_int_equal(sw_jsonl_begin(&rows, "t", text, sizeof text - 1, NULL, NULL), SW_OK);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, NULL), SW_OK);
    assert_int_equal(row.n_unread, 2);
    assert_memory_equal(row.unread[0].text, "id", 2);
    assert_memory_equal(row.unread[1].text, "source", 6);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, NULL), SW_OK);
    assert_int_equal(row.n_unread, 0);
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
    sw_jsonl_begin_part(&rows, "t.jsonl", text, sizeof text - 1, 41, 1000, NULL);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, &err), SW_OK);
    assert_int_equal(row.line, 42);
    assert_int_equal(sw_jsonl_next(&rows, &row, &is_end, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "t.jsonl: line 43"));
    sw_jsonl_end(&rows);
}

/* Every cut of a good row is refused: no prefix of an object is one. */
static void every_cut_of_a_row_is_refused(void **state) {
    (void)state;
    static const char text[] = "{\"k\":[true,{\"a\":-1.5e3}],\"messages\":[{\"role\":\"user\","
                               "\"content\":\"\\u00e9\\\\x\"}]}";
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
        cmocka_unit_test(every_file_has_its_verdict),
        cmocka_unit_test(strings_mean_what_json_says),
        cmocka_unit_test(a_conversation_is_read_in_order),
        cmocka_unit_test(sharegpt_is_read),
        cmocka_unit_test(alpaca_is_read),
        cmocka_unit_test(prompts_and_completions_may_be_messages),
        cmocka_unit_test(weights_are_honoured_or_refused),
        cmocka_unit_test(keys_that_are_nearly_known_are_refused),
        cmocka_unit_test(what_goes_with_messages_is_checked),
        cmocka_unit_test(columns_have_other_names),
        cmocka_unit_test(unread_keys_are_handed_out),
        cmocka_unit_test(a_part_counts_its_lines_from_where_it_begins),
        cmocka_unit_test(every_cut_of_a_row_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
