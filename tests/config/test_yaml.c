/* YAML as a tree: what is read, with which lines, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/yaml.h"

static sw_status parse(const char *text, sw_arena *arena, sw_yaml **root, sw_error *err) {
    return sw_yaml_parse("a.yaml", text, strlen(text), arena, root, err);
}

static void maps_lists_and_scalars_keep_their_lines(void **state) {
    (void)state;
    sw_arena arena = {0};
    sw_error err;
    sw_yaml *root;
    assert_int_equal(
        parse("a: 1\nb:\n  - x\n  - {c: \"2\", d: [3,\n      4]}\n", &arena, &root, &err), SW_OK);
    assert_int_equal(root->kind, SW_YAML_MAP);
    assert_int_equal(root->n, 2);
    assert_int_equal(root->key_line[1], 2);
    const sw_yaml *b = sw_yaml_get(root, "b");
    assert_int_equal(b->kind, SW_YAML_LIST);
    assert_int_equal(b->item[1]->line, 4);
    assert_false(sw_yaml_get(b->item[1], "c")->is_plain);
    assert_int_equal(sw_yaml_get(b->item[1], "d")->item[1]->line, 5);
    assert_null(sw_yaml_get(root, "x"));
    sw_arena_free(&arena);
}

static void numbers_are_decimal_and_plain(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_integer, is_real;
        int64_t integer;
        double real;
    } cases[] = {
        {"1e-5", false, true, 0, 1e-5},
        {"3e-4", false, true, 0, 3e-4},
        {"1.0e-06", false, true, 0, 1e-6},
        {"1e9", true, true, 1000000000, 1e9},
        {"+7", true, true, 7, 7},
        {"-0", true, true, 0, 0},
        {".5", false, true, 0, 0.5},
        {"5.", true, true, 5, 5},
        {"012", false, false, 0, 0}, /* 10 in YAML 1.1, 12 in 1.2 */
        {"0", true, true, 0, 0},
        {"9223372036854775807", true, true, INT64_MAX, 9223372036854775807.0},
        {"9223372036854775808", false, true, 0, 9223372036854775808.0},
        {"1e16", true, true, 10000000000000000, 1e16},
        {"1e999", false, false, 0, 0},
        {".inf", false, false, 0, 0},
        {"nan", false, false, 0, 0},
        {"0x10", false, false, 0, 0},
        {"1_000", false, false, 0, 0},
        {"\"5\"", false, false, 0, 0},
        {"1e", false, false, 0, 0},
        {"1 2", false, false, 0, 0},
        {"-", false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_arena arena = {0};
        sw_error err = {0};
        sw_yaml *root;
        int64_t integer = 0;
        double real = 0;
        char text[64];
        snprintf(text, sizeof text, "[%s]", cases[i].text);
        sw_status status = parse(text, &arena, &root, &err);
        if (!strcmp(cases[i].text, "-") &&
            status) { /* a lone dash is not a scalar in a flow list */
            sw_arena_free(&arena);
            continue;
        }
        assert_int_equal(status, SW_OK);
        bool is_integer = sw_yaml_integer(root->item[0], &integer),
             is_real = sw_yaml_real(root->item[0], &real);
        if (is_integer != cases[i].is_integer || is_real != cases[i].is_real)
            fail_msg("%s: integer %d, real %d", cases[i].text, is_integer, is_real);
        if (is_integer)
            assert_true(integer == cases[i].integer);
        if (is_real)
            assert_true(real == cases[i].real);
        sw_arena_free(&arena);
    }
}

static void only_true_and_false_are_booleans(void **state) {
    (void)state;
    static const char *const others[] = {"yes",  "no", "on",       "off", "True",
                                         "TRUE", "1",  "\"true\"", "y"};
    sw_arena arena = {0};
    sw_error err;
    sw_yaml *root;
    bool value;
    assert_int_equal(parse("true", &arena, &root, &err), SW_OK);
    assert_true(sw_yaml_boolean(root, &value) && value);
    assert_int_equal(parse("false", &arena, &root, &err), SW_OK);
    assert_true(sw_yaml_boolean(root, &value) && !value);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(parse(others[i], &arena, &root, &err), SW_OK);
        assert_false(sw_yaml_boolean(root, &value));
    }
    sw_arena_free(&arena);
}

static void nothing_a_tilde_and_null_are_null(void **state) {
    (void)state;
    sw_arena arena = {0};
    sw_error err;
    sw_yaml *root;
    assert_int_equal(parse("a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: \"\"\ng: \"null\"\nh: nUll\n",
                           &arena, &root, &err),
                     SW_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(sw_yaml_is_null(root->item[i]), i < 5);
    assert_int_equal(parse("", &arena, &root, &err), SW_OK);
    assert_true(sw_yaml_is_null(root));
    assert_int_equal(parse("# a comment\n", &arena, &root, &err), SW_OK);
    assert_true(sw_yaml_is_null(root));
    sw_arena_free(&arena);
}

static void what_is_left_out_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *line, *words;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "a.yaml:3", "first in line 1"},
        {"a: {b: 1,\n b: 2}", "a.yaml:2", "twice"},
        {"a: &x 1\nb: *x\n", "a.yaml:1", "anchor"},
        {"a: 1\nb: *x\n", "a.yaml:2", "alias"},
        {"a: *.txt\n", "a.yaml:1", "quotes"},
        {"a: !!str 1\n", "a.yaml:1", "tag"},
        {"a: !!python/object [1]\n", "a.yaml:1", "tag"},
        {"a: 1\n---\nb: 2\n", "a.yaml:2", "second document"},
        {"a: 1\n\tb: 2\n", "a.yaml:2", "not YAML"},
        {"a: [1, 2\nb: 3\n", "a.yaml:", "not YAML"},
        {"a: 1\nb: \xff\n", "a.yaml:2", "not YAML"},
        {"a: \"\\0\"\n", "a.yaml:1", "zero byte"},
        {"? [x]\n: 1\n", "a.yaml:1", "a key must be a word"},
        {"a: \"x\n", "a.yaml:", "not YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_arena arena = {0};
        sw_error err = {0};
        sw_yaml *root;
        assert_int_equal(parse(cases[i].text, &arena, &root, &err), SW_BAD_CONFIG);
        if (!strstr(err.message, cases[i].line) || !strstr(err.message, cases[i].words))
            fail_msg("case %zu: \"%s\" lacks \"%s\" or \"%s\"", i, err.message, cases[i].line,
                     cases[i].words);
        sw_arena_free(&arena);
    }
}

/* Depth, keys and bytes are bounded, so that a small file cannot ask for much. */
static void sizes_are_bounded(void **state) {
    (void)state;
    sw_arena arena = {0};
    sw_error err = {0};
    sw_yaml *root;
    char text[4 * SW_YAML_MAX_DEPTH + 1] = "";
    for (int depth = SW_YAML_MAX_DEPTH - 1; depth <= SW_YAML_MAX_DEPTH;
         depth++) { /* lists around one scalar */
        memset(text, 0, sizeof text);
        memset(text, '[', (size_t)depth);
        text[depth] = '1';
        memset(text + depth + 1, ']', (size_t)depth);
        assert_int_equal(parse(text, &arena, &root, &err),
                         depth < SW_YAML_MAX_DEPTH ? SW_OK : SW_BAD_CONFIG);
    }
    assert_non_null(strstr(err.message, "deep"));
    char *wide = malloc(SW_YAML_MAX_BYTES + 2);
    size_t used = 0;
    for (int i = 0; i <= SW_YAML_MAX_KEYS; i++)
        used += (size_t)sprintf(wide + used, "k%d: 1\n", i);
    assert_int_equal(parse(wide, &arena, &root, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "a.yaml:1001"));
    memset(wide, ' ', SW_YAML_MAX_BYTES + 1);
    wide[SW_YAML_MAX_BYTES + 1] = 0;
    assert_int_equal(parse(wide, &arena, &root, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "too many"));
    free(wide);
    sw_arena_free(&arena);
}

/* ---- random trees, written out as text and read again ---- */

typedef struct writer {
    char text[1 << 16];
    size_t used;
    uint32_t seed;
} writer;

static uint32_t draw(writer *to, uint32_t below) {
    to->seed = to->seed * 1664525u + 1013904223u;
    return (to->seed >> 8) % below;
}

static void put(writer *to, const char *text) {
    size_t n = strlen(text);
    assert_true(to->used + n < sizeof to->text);
    memcpy(to->text + to->used, text, n + 1);
    to->used += n;
}

/* Text with everything that quoting must get right. */
static const char *random_text(writer *to, sw_arena *arena) {
    static const char *const pieces[] = {"a",
                                         "B",
                                         " ",
                                         "\"",
                                         "\\",
                                         "\n",
                                         "\t",
                                         ":",
                                         "#",
                                         "'",
                                         "- ",
                                         "\x01",
                                         "\x7f",
                                         "\xc3\xa9",
                                         "\xc2\x85",
                                         "\xe2\x80\xa8",
                                         "null",
                                         "true",
                                         "3e-4",
                                         "\xef\xbb\xbf",
                                         "\xf0\x9f\x98\x80",
                                         "{",
                                         "*",
                                         "&",
                                         "/",
                                         ".",
                                         "%",
                                         "@",
                                         ",",
                                         "]",
                                         "!",
                                         "yes"};
    char *text = sw_arena_take(arena, 128);
    int n = (int)draw(to, 8);
    for (int i = 0; i < n; i++)
        strcat(text, pieces[draw(to, sizeof pieces / sizeof *pieces)]);
    return text;
}

static sw_yaml *random_tree(writer *to, sw_arena *arena, int depth) {
    sw_yaml *node = sw_arena_take(arena, sizeof *node);
    node->kind = depth > 3 ? SW_YAML_SCALAR : (sw_yaml_kind)draw(to, 3);
    if (node->kind == SW_YAML_SCALAR) {
        node->text = random_text(to, arena);
        char *quoted = sw_yaml_quote(node->text, arena);
        assert_non_null(quoted);
        put(to, quoted);
        return node;
    }
    bool is_map = node->kind == SW_YAML_MAP;
    node->n = (int)draw(to, 5);
    node->item = sw_arena_take(arena, 5 * sizeof *node->item);
    node->key = sw_arena_take(arena, 5 * sizeof *node->key);
    put(to, is_map ? "{" : "[");
    for (int i = 0; i < node->n; i++) {
        put(to, i ? draw(to, 2) ? ",\n " : ", " : "");
        if (is_map) {
            node->key[i] = sw_arena_format(arena, "%s%d", random_text(to, arena), i);
            put(to, sw_yaml_quote(node->key[i], arena));
            put(to, ": ");
        }
        node->item[i] = random_tree(to, arena, depth + 1);
    }
    put(to, is_map ? "}" : "]");
    return node;
}

static void assert_same(const sw_yaml *written, const sw_yaml *read) {
    assert_int_equal(written->kind, read->kind);
    assert_int_equal(written->n, read->n);
    if (written->kind == SW_YAML_SCALAR)
        assert_string_equal(written->text, read->text);
    for (int i = 0; i < written->n; i++) {
        if (written->kind == SW_YAML_MAP)
            assert_string_equal(written->key[i], read->key[i]);
        assert_same(written->item[i], read->item[i]);
    }
}

static void random_trees_read_back_as_they_were_written(void **state) {
    (void)state;
    writer *to = calloc(1, sizeof *to);
    for (uint32_t seed = 1; seed <= 2000; seed++) {
        sw_arena arena = {0};
        sw_error err = {0};
        sw_yaml *read;
        to->used = 0;
        to->seed = seed;
        sw_yaml *written = random_tree(to, &arena, 0);
        if (parse(to->text, &arena, &read, &err))
            fail_msg("seed %u: %s\n%s", seed, err.message, to->text);
        assert_same(written, read);
        sw_arena_free(&arena);
    }
    free(to);
}

/* Text that would read as a number, a boolean or null stays text. */
static void quoted_text_is_never_another_type(void **state) {
    (void)state;
    static const char *const texts[] = {"null", "true", "off", "1",  "1e5", "",
                                        "~",    "-",    ".5",  "No", "y",   "NULL"};
    sw_arena arena = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(sw_yaml_quote(texts[i], &arena)[0], '"');
    assert_string_equal(sw_yaml_quote("/data/a-b_c.txt", &arena), "/data/a-b_c.txt");
    sw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_lists_and_scalars_keep_their_lines),
        cmocka_unit_test(numbers_are_decimal_and_plain),
        cmocka_unit_test(only_true_and_false_are_booleans),
        cmocka_unit_test(nothing_a_tilde_and_null_are_null),
        cmocka_unit_test(what_is_left_out_is_refused_with_its_line),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(random_trees_read_back_as_they_were_written),
        cmocka_unit_test(quoted_text_is_never_another_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
