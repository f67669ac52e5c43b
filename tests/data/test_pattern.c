/* test_pattern.c: what is a name and what a pattern, in folders of every kind of name. */
#include "scratch.h"

#include "data/pattern.h"

/* Names with what patterns, shells, formats and YAML are made of. */
static const char *const odd[] = {
    "notes [2031]", "a*b",       "q?",        "[",     "[!a]",  "[]",    "back\\slash",
    "\\*",          "quo'te\"s", "new\nline", "~",     "~root", "$HOME", "%s%n%d",
    "{x,y}",        "a: b",      "#x",        " lead", "end ",  "-dash", "\xC3\xA9",
    "\xFF\xFE",     "a%20b",     "`id`",      ";rm",   "a\tb",  "...",   "a\\"};
enum { N_ODD = sizeof odd / sizeof *odd };

static void join(char path[512], const char *folder, const char *name) {
    assert_true(snprintf(path, 512, "%s/%s", folder, name) < 512);
}

static void put(const char *folder, const char *name) {
    char path[512];
    join(path, folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* The pattern finds these files of the folder, in this order. */
static void assert_found(const char *folder, const char *pattern, const char *const *names,
                         size_t n) {
    char text[512], path[512];
    sw_matches matches;
    sw_error err = {0};
    join(text, folder, pattern);
    if (sw_pattern_find(text, &matches, &err) != SW_OK)
        fail_msg("%s: %s", text, err.message);
    if (matches.n != n)
        fail_msg("%s: %zu matches", text, matches.n);
    for (size_t i = 0; i < n; i++) {
        join(path, folder, names[i]);
        assert_string_equal(matches.path[i], path);
    }
    sw_matches_free(&matches);
}

/* Beside each folder stands one that its name would match as a pattern. */
static void a_folder_that_is_there_is_no_pattern(void **state) {
    scratch *s = *state;
    for (int i = 0; i < N_ODD; i++) {
        char folder[512], corpus[512];
        join(folder, s->folder, odd[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        join(corpus, folder, odd[N_ODD - 1 - i]);
        assert_int_equal(mkdir(corpus, 0700), 0);
        put(corpus, "b.txt");
        put(corpus, "a.txt");
        put(corpus, "c.npy");
    }
    static const char *const neighbours[] = {"notes 2", "aXb", "qX", "2", "!", "a"};
    for (int i = 0; i < 6; i++) {
        char folder[512];
        join(folder, s->folder, neighbours[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        put(folder, "stranger.txt");
    }
    for (int i = 0; i < N_ODD; i++) {
        char folder[512], corpus[512];
        join(folder, s->folder, odd[i]);
        join(corpus, folder, odd[N_ODD - 1 - i]);
        assert_found(corpus, "*.txt", (const char *const[]){"a.txt", "b.txt"}, 2);
        assert_found(corpus, "[bc].*", (const char *const[]){"b.txt", "c.npy"}, 2);
        assert_found(corpus, "?.npy", (const char *const[]){"c.npy"}, 1);
        assert_found(corpus, "a.txt", (const char *const[]){"a.txt"}, 1);
        assert_found(corpus, "stranger.txt", (const char *const[]){"stranger.txt"},
                     1); /* a name, though nothing has it */
        char none[512];
        sw_matches matches;
        sw_error err = {0};
        join(none, folder, "s*.txt");
        assert_int_equal(sw_pattern_find(none, &matches, &err), SW_BAD_FILE);
        assert_non_null(strstr(err.message, "s*.txt: the pattern matches no file"));
        sw_matches_free(&matches);
    }
}

static void names_that_look_like_patterns_are_names(void **state) {
    scratch *s = *state;
    for (int i = 0; i < N_ODD; i++)
        put(s->folder, odd[i]);
    put(s->folder, "axb");
    for (int i = 0; i < N_ODD; i++)
        assert_found(s->folder, odd[i], &odd[i], 1);
}

/* What follows the first part that is not there is a pattern as a whole; a backslash takes what it
 * says from a character. */
static void the_rest_is_a_pattern(void **state) {
    scratch *s = *state;
    char folder[512], deeper[512];
    static const char *const folders[] = {"x [1]", "x [1]/y1", "x [1]/y2", "x [1]/[y]"};
    for (int i = 0; i < 4; i++) {
        join(folder, s->folder, folders[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        put(folder, "t.txt");
    }
    join(deeper, s->folder, "x [1]");
    assert_found(deeper, "y*/t.txt", (const char *const[]){"y1/t.txt", "y2/t.txt"}, 2);
    assert_found(deeper, "*/t.txt", (const char *const[]){"[y]/t.txt", "y1/t.txt", "y2/t.txt"}, 3);
    assert_found(deeper, "[y]/*.txt", (const char *const[]){"[y]/t.txt"}, 1);
    assert_found(deeper, "\\[*/t.txt", (const char *const[]){"[y]/t.txt"}, 1);
    assert_found(s->folder, "x*/y1/*", (const char *const[]){"x [1]/y1/t.txt"}, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_folder_that_is_there_is_no_pattern),
        TEST(names_that_look_like_patterns_are_names),
        TEST(the_rest_is_a_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
