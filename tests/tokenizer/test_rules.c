/* test_rules.c: the rules that readers of tokenizer.json trip over, one small tokenizer each. Ids
 * of bytes are their place in the byte alphabet's order: 0-255, as byte b has id b here. */
#include <pthread.h>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/support.h"
#include "tokenizer/unicode.h"

/* A byte-level BPE with the byte b as token b, further tokens and merges, and the rest of the
 * file. */
static sw_tokenizer *byte_tokenizer(const char *tokens, const char *merges, const char *model_flags,
                                    const char *rest) {
    static char json[32768];
    size_t n = (size_t)snprintf(
        json, sizeof json, "{%s\"model\": {\"type\": \"BPE\", %s\"vocab\": {", rest, model_flags);
    for (int byte = 0; byte < 256; byte++)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"\\u%04x\": %d", byte ? ", " : "",
                              sw_byte_character((unsigned char)byte), byte);
    snprintf(json + n, sizeof json - n, "%s}, \"merges\": [%s]}}", tokens, merges);
    return parse_tokenizer(json);
}

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"
#define BYTES_ONLY "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(kind, pattern)                                       \
    "{\"type\": \"Split\", \"pattern\": {\"" kind "\": \"" pattern \
    "\"}, \"behavior\": \"Isolated\"}"
#define CHAIN(steps) "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" steps "]}, "

static void gives(const char *tokens, const char *merges, const char *model_flags, const char *rest,
                  const char *text, const char *wanted) {
    sw_tokenizer *tokenizer = byte_tokenizer(tokens, merges, model_flags, rest);
    encodes_to(tokenizer, text, SW_ENCODE_PLAIN, wanted);
    sw_tokenizer_free(tokenizer);
}

/* A piece that is in the vocabulary is taken whole with ignore_merges, and never without. */
static void ignore_merges_takes_whole_pieces(void **state) {
    static const char tokens[] = ", \"\\u0120a\": 256, \"bc\": 257, \"\\u0120abc\": 258",
                      merges[] = "\"\\u0120 a\", \"b c\"";
    (void)state;
    gives(tokens, merges, "\"ignore_merges\": true, ", CHAIN(BYTE_LEVEL), " abc", "258");
    gives(tokens, merges, "\"ignore_merges\": false, ", CHAIN(BYTE_LEVEL), " abc", "256 257");
}

/* The file's own chain splits numbers, whatever other models do. */
static void the_chain_of_the_file_splits_numbers(void **state) {
    static const char tokens[] = ", \"12\": 256, \"34\": 257", merges[] = "\"1 2\", \"3 4\"";
    (void)state;
    gives(tokens, merges, "", CHAIN(BYTE_LEVEL), "12345", "256 257 53");
    gives(tokens, merges, "", CHAIN(SPLIT("Regex", "\\\\p{N}{1,3}") ", " BYTES_ONLY), "12345",
          "256 51 52 53");
    gives(tokens, merges, "", CHAIN(SPLIT("Regex", "\\\\p{N}") ", " BYTES_ONLY), "12345",
          "49 50 51 52 53");
    /* Bytes become characters before Digits and Split see them. */
    gives(tokens, merges, "",
          CHAIN("{\"type\": \"Punctuation\"}, " BYTE_LEVEL
                ", {\"type\": \"Digits\"}, " SPLIT("Regex", "[0-9][0-9][0-9]")),
          "12345", "256 51 52 53");
}

/* A pattern that is a String is literal text. */
static void string_patterns_are_literal(void **state) {
    static const char tokens[] = ", \"a1\": 256, \"a1b\": 257, \"xa\": 258, \"ab\": 259",
                      merges[] = "\"a 1\", \"a1 b\", \"x a\", \"a b\"";
    (void)state;
    gives(tokens, merges, "", CHAIN(SPLIT("String", "\\\\p{N}") ", " BYTES_ONLY), "a1b", "257");
    gives(tokens, merges, "", CHAIN(SPLIT("Regex", "\\\\p{N}") ", " BYTES_ONLY), "a1b", "97 49 98");
    gives(tokens, merges, "", CHAIN(SPLIT("String", "ab") ", " BYTES_ONLY), "xabx", "120 259 120");
}

/* lstrip and rstrip eat white space beside the token; they are no condition. */
static void flags_of_added_tokens_eat_blanks(void **state) {
    static const struct {
        const char *flags, *wanted;
    } cases[] = {{"", "97 256 300 32 257"},
                 {", \"lstrip\": true", "97 300 32 257"},
                 {", \"rstrip\": true", "97 256 300 98"},
                 {", \"lstrip\": true, \"rstrip\": true", "97 300 98"}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char rest[512];
        snprintf(rest, sizeof rest,
                 CHAIN(BYTE_LEVEL) "\"added_tokens\": [{\"id\": 300, \"content\": \"<m>\", "
                                   "\"normalized\": false%s}], ",
                 cases[i].flags);
        sw_tokenizer *tokenizer = byte_tokenizer(", \"\\u0120\\u0120\": 256, \"\\u0120b\": 257",
                                                 "\"\\u0120 \\u0120\", \"\\u0120 b\"", "", rest);
        encodes_to(tokenizer, "a  <m>  b", 0, cases[i].wanted);
        encodes_to(tokenizer, "a<m>b", 0, "97 300 98");
        sw_tokenizer_free(tokenizer);
    }
}

/* A token of white space that the one before has eaten whole is none, if it eats to the left; else
 * it comes all the same. */
static void eaten_tokens_are_none(void **state) {
    static const struct {
        const char *flags, *wanted;
    } cases[] = {{"", "97 300 300 98"},
                 {", \"lstrip\": true", "97 300 300 98"},
                 {", \"rstrip\": true", "97 300 300 98"},
                 {", \"lstrip\": true, \"rstrip\": true", "97 300 98"}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char rest[512];
        snprintf(rest, sizeof rest,
                 CHAIN(BYTE_LEVEL) "\"added_tokens\": [{\"id\": 300, \"content\": \"\\n\\n\", "
                                   "\"normalized\": false%s}], ",
                 cases[i].flags);
        sw_tokenizer *tokenizer = byte_tokenizer("", "", "", rest);
        encodes_to(tokenizer, "a\n\n\n\nb", 0, cases[i].wanted);
        sw_tokenizer_free(tokenizer);
    }
}

/* Metaspace puts its mark before the first piece, unless that does not begin where the text does:
 * what stands for several characters stands where the last of them did. */
static void a_replaced_beginning_is_none(void **state) {
    static const struct {
        const char *pattern, *content, *text, *wanted;
    } cases[] = {{"\"Regex\": \"a+\"", "x", "ab", "256 120 98"},
                 {"\"Regex\": \"a+\"", "x", "aab", "120 98"},
                 {"\"Regex\": \"a+\"", "", "aab", "98"},
                 {"\"Regex\": \"b+\"", "x", "abb", "256 97 120"},
                 {"\"String\": \"aa\"", "xyz", "aab", "120 121 122 98"},
                 {"\"String\": \"a\"", "xyz", "aab", "256 120 121 122 120 121 122 98"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[512];
        snprintf(rest, sizeof rest,
                 "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {%s}, "
                 "\"content\": \"%s\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
                 "\"replacement\": \"\\u2581\", \"prepend_scheme\": \"first\"}, ",
                 cases[i].pattern, cases[i].content);
        gives(", \"\\u2581\": 256", "", "", rest, cases[i].text, cases[i].wanted);
    }
    static const char metaspace[] = ", {\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", "
                                    "\"prepend_scheme\": \"first\"}]}, ";
    for (int splits = 0; splits < 2;
         splits++) { /* bytes written as characters stay where they were */
        char rest[512];
        snprintf(rest, sizeof rest,
                 "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s%s",
                 splits ? BYTE_LEVEL : BYTES_ONLY, metaspace);
        gives(", \"\\u2581\": 256", "", "", rest, "a b", "256 97 32 98");
    }
}

static void single_words_have_no_word_beside_them(void **state) {
    sw_tokenizer *tokenizer =
        byte_tokenizer("", "", "",
                       CHAIN(BYTE_LEVEL) "\"added_tokens\": [{\"id\": 300, \"content\": \"cat\", "
                                         "\"normalized\": false, \"single_word\": true}], ");
    (void)state;
    encodes_to(tokenizer, "cat cats cat.", 0, "300 32 99 97 116 115 32 300 46");
    encodes_to(tokenizer, "concat", 0, "99 111 110 99 97 116");
    sw_tokenizer_free(tokenizer);
}

/* Beginnings come from the post-processor, once for each time they are asked for or spelled. */
static void beginnings_come_from_the_post_processor(void **state) {
    sw_tokenizer *tokenizer =
        byte_tokenizer("", "", "",
                       CHAIN(BYTE_LEVEL) "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", "
                                         "\"special\": true}], "
                                         "\"post_processor\": {\"type\": \"TemplateProcessing\", "
                                         "\"single\": [{\"SpecialToken\": "
                                         "{\"id\": \"<s>\", \"type_id\": 0}}, "
                                         "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
                                         "\"special_tokens\": {\"<s>\": "
                                         "{\"id\": \"<s>\", \"ids\": [256], "
                                         "\"tokens\": [\"<s>\"]}}}, ");
    (void)state;
    encodes_to(tokenizer, "hi", SW_ENCODE_SPECIALS, "256 104 105");
    encodes_to(tokenizer, "<s>hi", SW_ENCODE_SPECIALS, "256 256 104 105");
    encodes_to(tokenizer, "<s>hi", SW_ENCODE_PLAIN, "256 104 105");
    encodes_to(tokenizer, "<s>hi", SW_ENCODE_LITERAL, "60 115 62 104 105");
    assert_int_equal(sw_tokenizer_token_id(tokenizer, "<s>"), 256);
    assert_int_equal(sw_tokenizer_n_ids(tokenizer), 257);
    assert_true(sw_tokenizer_is_special(tokenizer, 256) &&
                !sw_tokenizer_is_special(tokenizer, 104));
    sw_tokenizer_free(tokenizer);
}

/* \s is the property White_Space: 25 characters, U+0085 among them, U+180E, U+200B and U+FEFF not.
 * A splitter on runs of non-blanks tells: "!" + c is one piece, or two. */
static void blanks_are_the_white_space_property(void **state) {
    static const uint32_t blanks[] = {0x85,   0xA0,   0x1680, 0x2000, 0x2005, 0x200A,
                                      0x2028, 0x2029, 0x202F, 0x205F, 0x3000},
                          others[] = {0x180E, 0x200B, 0xFEFF, 0x1C, 0x1F};
    sw_tokenizer *tokenizer = parse_tokenizer(
        "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\s\"}, "
        "\"behavior\": \"Removed\"}, "
        "\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"[UNK]\": 0, \"!\": 1}}}");
    (void)state;
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        char text[8] = "!";
        text[1 + sw_utf8_put(blanks[i], text + 1)] = 0;
        encodes_to(tokenizer, text, 0, "1");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[8] = "!";
        text[1 + sw_utf8_put(others[i], text + 1)] = 0;
        encodes_to(tokenizer, text, 0, "0");
    }
    sw_tokenizer_free(tokenizer);
}

/* Oniguruma's syntax where PCRE2's differs. */
static void expressions_mean_what_oniguruma_means(void **state) {
    static const struct {
        const char *pattern, *text,
            *wanted; /* the vocabulary has a 1, b 2, ab 3, aba 4, [ 5 and ( 6; cut at matches */
    } cases[] = {
        {"[^b[,.]]+", "ab", "1 2"},  /* a class within a class is a union */
        {"\\\\h+", "ab[", "3 5"},    /* hexadecimal digits */
        {"a{,2}b", "ab[", "3 5"},    /* {0,2} */
        {"(?:ab?){1}+", "aba", "4"}, /* repeats greedily: not possessive */
        {"\\\\w+", "ab[", "3 5"},        {"[\\\\w(]+", "ab(", "0"},
        {"[[:punct:]]", "a(b", "1 6 2"}, {"(?i:AB)", "aba", "3 1"},
        {"a(?!b)", "aba", "3 1"},        {"[^(\\\\s|[.,])]+", "a(b", "1 6 2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, "
                 "\"behavior\": \"Isolated\"}, "
                 "\"model\": {\"type\": "
                 "\"WordPiece\", \"continuing_subword_prefix\": \"#\", \"vocab\": {\"[UNK]\": 0, "
                 "\"a\": 1, \"b\": 2, \"ab\": 3, "
                 "\"aba\": 4, "
                 "\"[\": 5, \"(\": 6}}}",
                 cases[i].pattern);
        sw_tokenizer *tokenizer = parse_tokenizer(json);
        encodes_to(tokenizer, cases[i].text, 0, cases[i].wanted);
        sw_tokenizer_free(tokenizer);
    }
}

/* Composition is asked for by the file: e and an accent are one token with NFC, three bytes
 * without. */
static void composition_is_the_files_wish(void **state) {
    static const char tokens[] = ", \"\\u00c3\\u00a9\": 256", merges[] = "\"\\u00c3 \\u00a9\"";
    (void)state;
    gives(tokens, merges, "", "\"normalizer\": {\"type\": \"NFC\"}, " CHAIN(BYTE_LEVEL),
          "e\xCC\x81", "256");
    gives(tokens, merges, "", CHAIN(BYTE_LEVEL), "e\xCC\x81", "101 204 129");
}

/* Long pieces are merged by other code than short ones; both take the lowest rank, the leftmost of
 * equals. */
static void long_pieces_merge_like_short_ones(void **state) {
    sw_tokenizer *tokenizer = byte_tokenizer(", \"aa\": 256, \"aaaa\": 257, \"aab\": 258",
                                             "\"a a\", \"aa aa\", \"aa b\"", "", CHAIN(BYTES_ONLY));
    sw_tokenizer_scratch *scratch;
    sw_token_list ids = {0};
    sw_error err = {0};
    char text[2001];
    (void)state;
    encodes_to(tokenizer, "aaaaaaab", 0,
               "257 256 97 98"); /* 2 + 2 + 2 + 1 of the 7, then 4 + 2 + 1 */
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
    memset(text, 'a', 2000);
    for (size_t n = 40; n <= 2000; n += 7) {
        ids.n = 0;
        assert_int_equal(sw_tokenizer_encode(tokenizer, scratch, text, n, 0, &ids, &err), SW_OK);
        assert_int_equal(ids.n, n / 4 + (n % 4 >= 2) + n % 2);
        for (size_t i = 0; i < n / 4; i++)
            assert_int_equal(ids.ids[i], 257);
    }
    sw_token_list_free(&ids);
    sw_tokenizer_scratch_free(scratch);
    sw_tokenizer_free(tokenizer);
}

typedef struct thread_case {
    const sw_tokenizer *tokenizer;
    sw_token_list ids;
    sw_status status;
} thread_case;

static void *encode_as_threads(void *argument) {
    thread_case *c = argument;
    sw_tokenizer_scratch *scratch;
    sw_error err = {0};
    c->status = sw_tokenizer_scratch_create(c->tokenizer, &scratch, &err);
    for (int i = 0; !c->status && i < 200; i++) {
        char text[64];
        snprintf(text, sizeof text, "The %dth text isn't like the others.", i);
        c->status = sw_tokenizer_encode(c->tokenizer, scratch, text, strlen(text),
                                        SW_ENCODE_SPECIALS, &c->ids, &err);
    }
    sw_tokenizer_scratch_free(scratch);
    return NULL;
}

/* One tokenizer, several threads, the same ids. */
static void threads_share_a_tokenizer(void **state) {
    enum { N = 4 };
    sw_tokenizer *tokenizer = read_tokenizer(GOLDEN "golden/qwen2-style");
    thread_case cases[N] = {{0}};
    pthread_t threads[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        cases[i].tokenizer = tokenizer;
        assert_int_equal(pthread_create(&threads[i], NULL, encode_as_threads, &cases[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(cases[i].status, SW_OK);
        assert_int_equal(cases[i].ids.n, cases[0].ids.n);
        assert_memory_equal(cases[i].ids.ids, cases[0].ids.ids,
                            (size_t)cases[0].ids.n * sizeof(int32_t));
    }
    for (int i = 0; i < N; i++)
        sw_token_list_free(&cases[i].ids);
    sw_tokenizer_free(tokenizer);
}

/* Beginning and end are named by the configuration beside the file. */
static void beginning_and_end_are_named(void **state) {
    sw_tokenizer *llama = read_tokenizer(GOLDEN "golden/llama3-style"),
                 *qwen = read_tokenizer(GOLDEN "golden/qwen2-style/tokenizer.json");
    (void)state;
    assert_int_equal(sw_tokenizer_bos_id(llama), 2016);
    assert_int_equal(sw_tokenizer_eos_id(llama), sw_tokenizer_token_id(llama, "<|eot_id|>"));
    assert_int_equal(sw_tokenizer_bos_id(qwen), -1);
    sw_tokenizer_free(llama);
    sw_tokenizer_free(qwen);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ignore_merges_takes_whole_pieces),
                                       cmocka_unit_test(the_chain_of_the_file_splits_numbers),
                                       cmocka_unit_test(string_patterns_are_literal),
                                       cmocka_unit_test(flags_of_added_tokens_eat_blanks),
                                       cmocka_unit_test(eaten_tokens_are_none),
                                       cmocka_unit_test(a_replaced_beginning_is_none),
                                       cmocka_unit_test(single_words_have_no_word_beside_them),
                                       cmocka_unit_test(beginnings_come_from_the_post_processor),
                                       cmocka_unit_test(blanks_are_the_white_space_property),
                                       cmocka_unit_test(expressions_mean_what_oniguruma_means),
                                       cmocka_unit_test(composition_is_the_files_wish),
                                       cmocka_unit_test(long_pieces_merge_like_short_ones),
                                       cmocka_unit_test(threads_share_a_tokenizer),
                                       cmocka_unit_test(beginning_and_end_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
