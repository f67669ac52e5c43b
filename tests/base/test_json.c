/* test_json.c: JSON is taken strictly, and its errors say where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

static sw_json *parse(const char *text) {
    sw_json *document = NULL;
    sw_error err = {0};
    if (sw_json_parse("x.json", text, (int64_t)strlen(text), &document, &err) != SW_OK)
        fail_msg("%s: %s", text, err.message);
    return document;
}

static void refused(const char *text, size_t bytes, const char *words) {
    sw_json *document;
    sw_error err = {0};
    sw_status status = sw_json_parse("x.json", text, (int64_t)bytes, &document, &err);
    if (status != SW_BAD_FILE || strncmp(err.message, "x.json: ", 8) != 0 ||
        !strstr(err.message, words))
        fail_msg("%s: expected \"%s\", got %s: %s", text, words, sw_status_name(status),
                 err.message);
}

static void text_that_is_not_strictly_json_is_refused_with_its_place(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"", "is empty"},
        {"[]", "no JSON object"},
        {"1", "no JSON object"},
        {"{\n\"a\": 1,\n \"a\": 1}", "line 3, column "},
        {"{\"a\": NaN}", "line 1, column "},
        {"{\"a\": Infinity}", "line 1, column "},
        {"{\"a\": -Infinity}", "line 1, column "},
        {"{\"a\": 1e999}", "line 1, column "},
        {"{\"a\": 9223372036854775808}", "line 1, column "},
        {"{\"a\": -9223372036854775809}", "line 1, column "},
        {"{\"a\": 01}", "line 1, column "},
        {"{\"a\": .5}", "line 1, column "},
        {"{\"a\": 'b'}", "line 1, column "},
        {"{\"a\": 1,}", "line 1, column "},
        {"{\"a\": 1} x", "line 1, column "},
        {"{} {}", "line 1, column "},
        {"{\"a\": \"\xff\"}", "line 1, column "},
        {"{\"a\": \"\xed\xa0\x80\"}", "line 1, column "},
        {"{\"a\": \"\xc0\x80\"}", "line 1, column "},
        {"{\"a\": \"\\u0000\"}", "line 1, column "},
        {"// a\n{}", "line 1, column "},
        {"{\"a\": {\"b\": 1, \"b\": 1}}", "duplicate"},
        {"{\"\xc3\xa9\": 1, \"\\u00e9\": 1}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(texts[i][0], strlen(texts[i][0]), texts[i][1]);
    refused("{}\0", 3, "line 1, column ");
}

/* 10,000 levels are an error like any other; a million too. */
static void depth_is_limited(void **state) {
    (void)state;
    for (int depth = 10000; depth <= 1000000; depth *= 100) {
        char *text = malloc((size_t)depth + 8);
        assert_non_null(text);
        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', (size_t)depth);
        refused(text, (size_t)depth + 5, "depth");
        free(text);
    }
}

static void a_getter_takes_its_type_and_no_other(void **state) {
    (void)state;
    static const char *const values[] = {"7", "7.0", "\"7\"", "true", "[7]", "{}"};
    static const char *const words[] = {"an integer",    "a fraction", "a string",
                                        "true or false", "a list",     "an object"};
    for (int v = 0; v < 6; v++) {
        char text[64], expected[128];
        sw_error err = {0};
        int64_t integer = 0, list[2] = {0};
        double real = 0;
        bool truth = false;
        const char *string = NULL;
        int n = 0;
        sw_json_object child;
        snprintf(text, sizeof text, "{\"k\": %s}", values[v]);
        sw_json *document = parse(text);
        sw_json_object root = sw_json_root(document);
        assert_int_equal(sw_json_integer(&root, "k", SW_JSON_OPTIONAL, &integer, &err),
                         v == 0 ? SW_OK : SW_BAD_FILE);
        snprintf(expected, sizeof expected, "x.json: k is %s, an integer is needed", words[v]);
        assert_true(v == 0 ? integer == 7 : strcmp(err.message, expected) == 0);
        assert_int_equal(sw_json_real(&root, "k", SW_JSON_OPTIONAL, &real, &err),
                         v <= 1 ? SW_OK : SW_BAD_FILE);
        assert_true(v <= 1 ? real == 7 : real == 0);
        assert_int_equal(sw_json_text(&root, "k", SW_JSON_OPTIONAL, &string, &err),
                         v == 2 ? SW_OK : SW_BAD_FILE);
        assert_int_equal(sw_json_bool(&root, "k", SW_JSON_OPTIONAL, &truth, &err),
                         v == 3 ? SW_OK : SW_BAD_FILE);
        assert_int_equal(sw_json_integers(&root, "k", list, 2, &n, &err),
                         v == 4 ? SW_OK : SW_BAD_FILE);
        assert_true(v != 4 || (n == 1 && list[0] == 7 && sw_json_is_list(&root, "k")));
        assert_int_equal(sw_json_child(&root, "k", &child, &err), v == 5 ? SW_OK : SW_BAD_FILE);
        sw_json_free(document);
    }
}

static void null_and_absent_are_the_same_but_can_be_told_apart(void **state) {
    (void)state;
    sw_json *document = parse("{\"a\": null, \"b\": {\"c\": null, \"d\": 3}}");
    sw_json_object root = sw_json_root(document), b;
    sw_error err = {0};
    int64_t value = 5;
    static const char *const keys[] = {"a", "absent"};
    for (int i = 0; i < 2; i++) {
        assert_false(sw_json_has(&root, keys[i]));
        assert_int_equal(sw_json_integer(&root, keys[i], SW_JSON_OPTIONAL, &value, &err), SW_OK);
        assert_int_equal(value, 5);
        assert_int_equal(sw_json_integer(&root, keys[i], SW_JSON_REQUIRED, &value, &err),
                         SW_BAD_FILE);
    }
    assert_string_equal(err.message, "x.json: absent is missing");
    assert_true(sw_json_is_null(&root, "a"));
    assert_false(sw_json_is_null(&root, "absent"));
    assert_int_equal(sw_json_child(&root, "b", &b, &err), SW_OK);
    assert_int_equal(sw_json_integer(&b, "c", SW_JSON_REQUIRED, &value, &err), SW_BAD_FILE);
    assert_string_equal(err.message, "x.json: b.c is missing");
    assert_int_equal(sw_json_integer(&b, "d", SW_JSON_REQUIRED, &value, &err), SW_OK);
    assert_int_equal(value, 3);
    sw_json_free(document);
}

static void the_ends_of_64_bits_are_read_exactly(void **state) {
    (void)state;
    sw_json *document = parse("{\"most\": 9223372036854775807, \"least\": -9223372036854775808}");
    sw_json_object root = sw_json_root(document);
    sw_error err = {0};
    int64_t most, least;
    assert_int_equal(sw_json_integer(&root, "most", SW_JSON_REQUIRED, &most, &err), SW_OK);
    assert_int_equal(sw_json_integer(&root, "least", SW_JSON_REQUIRED, &least, &err), SW_OK);
    assert_true(most == INT64_MAX && least == INT64_MIN);
    sw_json_free(document);
}

static void keys_are_walked_in_the_order_of_the_file(void **state) {
    (void)state;
    sw_json *document = parse("{\"z\": 1, \"a\": 2, \"\": 3}");
    sw_json_object root = sw_json_root(document);
    void *at = NULL;
    assert_string_equal(sw_json_next_key(&root, &at), "z");
    assert_string_equal(sw_json_next_key(&root, &at), "a");
    assert_string_equal(sw_json_next_key(&root, &at), "");
    assert_null(sw_json_next_key(&root, &at));
    sw_json_free(document);
}

/* Whatever is quoted reads back. */
static void quoted_text_reads_back(void **state) {
    (void)state;
    char text[300] = "\"\\/\b\f\n\r\t\x7f naïve 漢字 😀", quoted[6 * sizeof text + 3],
         whole[7 * sizeof text];
    size_t length = strlen(text);
    for (int c = 1; c < 0x20; c++)
        text[length++] = (char)c;
    size_t quoted_length = sw_json_quote(text, quoted);
    assert_int_equal(quoted_length, strlen(quoted));
    snprintf(whole, sizeof whole, "{\"k\": %s}", quoted);
    sw_json *document = parse(whole);
    sw_json_object root = sw_json_root(document);
    const char *back = NULL;
    sw_error err = {0};
    assert_int_equal(sw_json_text(&root, "k", SW_JSON_REQUIRED, &back, &err), SW_OK);
    assert_string_equal(back, text);
    sw_json_free(document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_not_strictly_json_is_refused_with_its_place),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(a_getter_takes_its_type_and_no_other),
        cmocka_unit_test(null_and_absent_are_the_same_but_can_be_told_apart),
        cmocka_unit_test(the_ends_of_64_bits_are_read_exactly),
        cmocka_unit_test(keys_are_walked_in_the_order_of_the_file),
        cmocka_unit_test(quoted_text_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
