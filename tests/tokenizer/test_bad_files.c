/* test_bad_files.c: a damaged tokenizer.json is refused with its file and the reason; a good one is
 * taken. */
#include "tokenizer/support.h"

static void verdicts_are_kept(void **state) {
    char line[128], path[512];
    int n = 0;
    (void)state;
    FILE *file = fopen(GOLDEN "bad/verdicts.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char name[64], verdict[16];
        sw_tokenizer *tokenizer;
        sw_error err = {0};
        assert_int_equal(sscanf(line, "%63s %15s", name, verdict), 2);
        snprintf(path, sizeof path, GOLDEN "bad/%s", name);
        sw_status status = sw_tokenizer_read(path, &tokenizer, &err);
        if (!strcmp(verdict, "accept") ? status != SW_OK : status != SW_BAD_FILE)
            fail_msg("%s: %s, but status %s: %s", name, verdict, sw_status_name(status),
                     err.message);
        if (status && !strstr(err.message, path))
            fail_msg("%s: the message does not name the file: %s", name, err.message);
        sw_tokenizer_free(tokenizer);
        n++;
    }
    fclose(file);
    assert_int_equal(n, 28);
}

/* The message says what is wrong, by its name or place. */
static void the_reason_is_named(void **state) {
    static const char *const words[][2] = {{"model-unknown", "Bpe2"},
                                           {"pre-tokenizer-unknown", "Nope"},
                                           {"normalizer-unknown", "Upper"},
                                           {"decoder-unknown", "Morse"},
                                           {"post-processor-unknown", "Chain"},
                                           {"merge-one-part", "merges[1]"},
                                           {"merge-result-unknown", "xy"},
                                           {"regex-broken", "parenthesis"},
                                           {"split-behaviour-unknown", "Torn"},
                                           {"vocab-huge-id", "4294967296"},
                                           {"duplicate-vocab-key", "duplicate"},
                                           {"template-unknown-token", "<s>"}};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char path[512];
        sw_tokenizer *tokenizer;
        sw_error err = {0};
        snprintf(path, sizeof path, GOLDEN "bad/%s/tokenizer.json", words[i][0]);
        assert_int_equal(sw_tokenizer_read(path, &tokenizer, &err), SW_BAD_FILE);
        if (!strstr(err.message, words[i][1]))
            fail_msg("%s: no \"%s\" in: %s", words[i][0], words[i][1], err.message);
    }
}

static void refused(const char *json, const char *word) {
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    assert_int_equal(sw_tokenizer_parse("x.json", json, (int64_t)strlen(json), &tokenizer, &err),
                     SW_BAD_FILE);
    assert_null(tokenizer);
    if (!strstr(err.message, word) || strncmp(err.message, "x.json: ", 8))
        fail_msg("no \"%s\" in: %s", word, err.message);
}

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}"

/* What would change ids and cannot be honoured is refused, not ignored. */
static void what_cannot_be_honoured_is_refused(void **state) {
    (void)state;
    refused(
        "{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {\"a\": 0}, \"merges\": []}}",
        "dropout");
    refused("{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " MODEL "}", "UnicodeScripts");
    refused("{\"normalizer\": {\"type\": \"Strip\"}, \"added_tokens\": [{\"id\": 1, \"content\": "
            "\"  \", \"normalized\": true}], " MODEL "}",
            "leaves nothing of the added token 1");
    refused("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a&&b]\"}, "
            "\"behavior\": \"Isolated\"}, " MODEL "}",
            "intersection");
    refused("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, "
            "\"behavior\": \"Isolated\"}, " MODEL "}",
            "empty");
    refused(
        "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}, " MODEL
        "}",
        "precompiled_charsmap");
    refused("{\"decoder\": {\"type\": \"CTC\"}, " MODEL "}", "CTC");
    refused("{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}", "[UNK]");
    refused("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "empty");
    refused("{\"model\": {\"type\": \"Unigram\", \"unk_id\": 1, \"vocab\": [[\"a\", 0]]}}",
            "unk_id");
    refused("{\"version\": \"2.0\", " MODEL "}", "version is \"2.0\"");
    refused("{\"version\": 1.0, " MODEL "}", "version is a fraction");
    refused("{\"version\": null, " MODEL "}", "version is null");
    refused("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaa\": 2}, "
            "\"merges\": [[\"a\", \"a\"], \"a aa\"]}}",
            "merges[1] is a string and merges[0] is a list");
    refused("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaa\": 2}, "
            "\"merges\": [\"a a\", [\"a\", \"aa\"]]}}",
            "merges[1] is a list and merges[0] is a string");
    refused("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}", "WordLevel");
}

/* A text that is not UTF-8 is refused with its byte. */
static void text_that_is_not_utf8_is_refused(void **state) {
    sw_tokenizer *tokenizer = parse_tokenizer("{" MODEL "}");
    sw_tokenizer_scratch *scratch;
    sw_token_list ids = {0};
    sw_error err = {0};
    (void)state;
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
    assert_int_equal(
        sw_tokenizer_encode(tokenizer, scratch, "aa\xC3\xA9\xE4\xB8", 6, 0, &ids, &err),
        SW_BAD_FILE);
    assert_non_null(strstr(err.message, "byte 4"));
    sw_token_list_free(&ids);
    sw_tokenizer_scratch_free(scratch);
    sw_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts_are_kept),
                                       cmocka_unit_test(the_reason_is_named),
                                       cmocka_unit_test(what_cannot_be_honoured_is_refused),
                                       cmocka_unit_test(text_that_is_not_utf8_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
