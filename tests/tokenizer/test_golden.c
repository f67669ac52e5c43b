/* test_golden.c: ids and texts are the reference's, case by case. */
#include <dirent.h>
#include <jansson.h>

#include "base/file.h"
#include "tokenizer/support.h"

typedef struct tally {
    const char *folder;
    int n_cases, n_wrong;
    int64_t line;
} tally;

static void complain(tally *t, const char *what, const char *text) {
    if (++t->n_wrong <= 5)
        print_error("%s, line %lld: %s differs: %.80s\n", t->folder, (long long)t->line, what,
                    text);
}

static sw_token_list take_ids(json_t *array) {
    sw_token_list ids = {0};
    for (size_t i = 0; i < json_array_size(array); i++)
        sw_token_list_put(&ids, (int32_t)json_integer_value(json_array_get(array, i)));
    return ids;
}

static void check_ids(tally *t, const sw_tokenizer *tokenizer, sw_tokenizer_scratch *scratch,
                      json_t *text, json_t *wanted, int flags, const char *what) {
    sw_token_list given = {0}, expected = take_ids(wanted);
    sw_error err = {0};
    sw_status status = sw_tokenizer_encode(tokenizer, scratch, json_string_value(text),
                                           json_string_length(text), flags, &given, &err);
    t->n_cases++;
    if (status || given.n != expected.n ||
        (given.n && memcmp(given.ids, expected.ids, (size_t)given.n * sizeof *given.ids)))
        complain(t, what, status ? err.message : json_string_value(text));
    sw_token_list_free(&given);
    sw_token_list_free(&expected);
}

static void check_text(tally *t, const sw_tokenizer *tokenizer, json_t *ids, json_t *wanted,
                       bool skip_special) {
    sw_token_list list = take_ids(ids);
    sw_error err = {0};
    char *text = NULL;
    size_t n_bytes = 0;
    sw_status status =
        sw_tokenizer_decode(tokenizer, list.ids, list.n, skip_special, &text, &n_bytes, &err);
    t->n_cases++;
    if (status || n_bytes != json_string_length(wanted) ||
        memcmp(text, json_string_value(wanted), n_bytes))
        complain(t, "decoding", status ? err.message : text);
    free(text);
    sw_token_list_free(&list);
}

static void check_case(tally *t, const sw_tokenizer *tokenizer, sw_tokenizer_scratch *scratch,
                       json_t *row) {
    json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids"),
           *plain = json_object_get(row, "ids_no_special");
    json_t *literal = json_object_get(row, "ids_literal"),
           *decoded = json_object_get(row, "decoded");
    json_t *skipped = json_object_get(row, "decoded_skip_special");
    if (text) {
        check_ids(t, tokenizer, scratch, text, ids, SW_ENCODE_SPECIALS, "ids");
        check_ids(t, tokenizer, scratch, text, plain, SW_ENCODE_PLAIN, "ids_no_special");
        if (!json_is_null(literal))
            check_ids(t, tokenizer, scratch, text, literal ? literal : plain, SW_ENCODE_LITERAL,
                      "ids_literal");
    }
    check_text(t, tokenizer, text ? plain : ids, decoded, false);
    check_text(t, tokenizer, ids, skipped ? skipped : decoded, true);
}

static void check_file(tally *t, const sw_tokenizer *tokenizer, sw_tokenizer_scratch *scratch,
                       const char *name) {
    char path[SW_PATH_BYTES];
    char *text;
    int64_t n_bytes;
    sw_error err = {0};
    assert_int_equal(sw_path_join(path, t->folder, name, &err), SW_OK);
    if (sw_file_read(path, INT32_MAX, &text, &n_bytes, &err))
        fail_msg("%s", err.message);
    t->line = 0;
    for (char *line = text, *stop; line < text + n_bytes; line = stop + 1) {
        json_error_t error;
        t->line++;
        stop = memchr(line, '\n', (size_t)(text + n_bytes - line));
        assert_non_null(stop);
        json_t *row = json_loadb(line, (size_t)(stop - line), JSON_ALLOW_NUL, &error);
        assert_non_null(row);
        check_case(t, tokenizer, scratch, row);
        json_decref(row);
    }
    free(text);
}

/* Returns how many cases there were. */
static int check_folder(const char *folder) {
    tally t = {.folder = folder};
    sw_error err = {0};
    sw_tokenizer_scratch *scratch;
    sw_tokenizer *tokenizer = read_tokenizer(folder);
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
    check_file(&t, tokenizer, scratch, "cases.jsonl");
    check_file(&t, tokenizer, scratch, "decode.jsonl");
    sw_tokenizer_scratch_free(scratch);
    sw_tokenizer_free(tokenizer);
    if (t.n_wrong)
        fail_msg("%s: %d of %d differ", folder, t.n_wrong, t.n_cases);
    return t.n_cases;
}

static int check_folders(const char *parent) {
    int n_cases = 0;
    DIR *folder = opendir(parent);
    if (!folder)
        fail_msg("%s cannot be read", parent);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[SW_PATH_BYTES], cases[SW_PATH_BYTES], tokenizer[SW_PATH_BYTES];
        if (entry->d_name[0] == '.' || sw_path_join(path, parent, entry->d_name, NULL) ||
            sw_path_join(cases, path, "cases.jsonl", NULL) ||
            sw_path_join(tokenizer, path, "tokenizer.json", NULL))
            continue;
        if (sw_file_exists(cases) && sw_file_exists(tokenizer))
            n_cases += check_folder(path);
    }
    closedir(folder);
    return n_cases;
}

static void every_case_is_the_references(void **state) {
    (void)state;
    assert_true(check_folders(GOLDEN "golden") > 15000);
}

static void so_is_every_case_of_further_folders(void **state) {
    const char *folder = getenv("SW_GOLDEN_TEXT");
    (void)state;
    if (!folder) {
        print_message("SW_GOLDEN_TEXT names no folder of further cases\n");
        skip();
    }
    assert_true(check_folders(folder) > 0);
}

/* A stream shows what decoding all at once shows, and never half a character. */
static void a_stream_shows_the_same_text(void **state) {
    static const char *const names[] = {"added-flags",  "bert-wordpiece", "gemma-style",
                                        "llama3-style", "qwen2-style",    "unigram"};
    static const char text[] = "Grüße, 世界! \xF0\x9F\x8E\x89 two  blanks, "
                               "\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7 and an end.\n\n1234 it's";
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[SW_PATH_BYTES];
        sw_error err = {0};
        sw_tokenizer_scratch *scratch;
        sw_token_stream *stream;
        sw_token_list ids = {0};
        const char *part;
        char *whole, shown[1024] = "";
        size_t n_part, n_whole;
        snprintf(path, sizeof path, GOLDEN "golden/%s", names[k]);
        sw_tokenizer *tokenizer = read_tokenizer(path);
        assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
        assert_int_equal(sw_tokenizer_encode(tokenizer, scratch, text, strlen(text),
                                             SW_ENCODE_SPECIALS, &ids, &err),
                         SW_OK);
        assert_int_equal(
            sw_tokenizer_decode(tokenizer, ids.ids, ids.n, true, &whole, &n_whole, &err), SW_OK);
        assert_int_equal(sw_token_stream_create(tokenizer, true, &stream, &err), SW_OK);
        for (int64_t i = 0; i <= ids.n; i++) {
            if (i < ids.n)
                assert_int_equal(sw_token_stream_push(stream, ids.ids[i], &part, &n_part, &err),
                                 SW_OK);
            else
                assert_int_equal(sw_token_stream_end(stream, &part, &n_part, &err), SW_OK);
            assert_true(n_part == 0 || ((unsigned char)part[0] & 0xC0) != 0x80);
            strncat(shown, part, n_part);
        }
        assert_string_equal(shown, whole);
        free(whole);
        sw_token_list_free(&ids);
        sw_token_stream_free(stream);
        sw_tokenizer_scratch_free(scratch);
        sw_tokenizer_free(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_is_the_references),
                                       cmocka_unit_test(so_is_every_case_of_further_folders),
                                       cmocka_unit_test(a_stream_shows_the_same_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
