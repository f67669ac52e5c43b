/* test_mixed.c: texts of which some ranges are plain text whatever they spell. Byte b has the id
 * b. */
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/support.h"

#define ADDED(normalized)                                                                 \
    "\"added_tokens\": [{\"id\": 300, \"content\": \"<s>\", \"special\": true, "          \
    "\"normalized\": " normalized "}, "                                                   \
    "{\"id\": 301, \"content\": \"<<s>\", \"special\": true, \"normalized\": " normalized \
    ", \"rstrip\": true}, "                                                               \
    "{\"id\": 302, \"content\": \"TT\", \"special\": false, \"normalized\": false}], "
#define LOWER "\"normalizer\": {\"type\": \"Lowercase\"}, "

static sw_tokenizer *byte_tokenizer(const char *rest) {
    static char json[32768];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{%s\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"use_regex\": false}, \"model\": {\"type\": \"BPE\", \"vocab\": {",
        rest);
    for (int byte = 0; byte < 256; byte++)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"\\u%04x\": %d", byte ? ", " : "",
                              sw_byte_character((unsigned char)byte), byte);
    snprintf(json + n, sizeof json - n, "}, \"merges\": []}}");
    return parse_tokenizer(json);
}

/* `text` with a range in {braces} that is literal gives the ids and the edges ("byte:id"). NULL: it
 * is refused. */
static void gives(const char *rest, const char *text, const char *wanted,
                  const char *wanted_edges) {
    sw_tokenizer *tokenizer = byte_tokenizer(rest);
    sw_tokenizer_scratch *scratch;
    sw_token_list ids = {0};
    sw_token_edges edges = {0};
    sw_error err = {0};
    char plain[256], given[1024], edge_text[256] = "";
    sw_span literal[8];
    int64_t n = 0, n_literal = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '{')
            literal[n_literal].first = n;
        else if (*at == '}')
            literal[n_literal++].end = n;
        else
            plain[n++] = *at;
    }
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
    sw_status status = sw_tokenizer_encode_mixed(tokenizer, scratch, plain, (size_t)n, literal,
                                                 n_literal, &edges, &ids, &err);
    if (!wanted) {
        assert_int_equal(status, SW_BAD_FILE);
        assert_non_null(strstr(err.message, "<s>"));
    } else {
        if (status)
            fail_msg("%s: %s", text, err.message);
        for (int64_t i = 0; i < edges.n; i++)
            snprintf(edge_text + strlen(edge_text), sizeof edge_text - strlen(edge_text), "%s%d:%d",
                     i ? " " : "", (int)edges.edge[i].byte, (int)edges.edge[i].id);
        if (strcmp(ids_text(&ids, given, sizeof given), wanted) || strcmp(edge_text, wanted_edges))
            fail_msg("%s: %s, edges %s", text, given, edge_text);
    }
    sw_token_edges_free(&edges);
    sw_token_list_free(&ids);
    sw_tokenizer_scratch_free(scratch);
    sw_tokenizer_free(tokenizer);
}

static void special_tokens_come_from_outside_of_literal_ranges(void **state) {
    (void)state;
    gives(ADDED("false"), "<s>a<s>", "300 97 300", "0:0 3:1 4:2 7:3");
    gives(ADDED("false"), "<s>{a<s>}<s>", "300 97 60 115 62 300", "0:0 3:1 7:5 10:6");
    gives(ADDED("false"), "{<s>}", "60 115 62", "0:0 3:3");
    gives(ADDED("false"), "", "", "0:0");
}

/* A byte of a message makes no control token together with the format's bytes, and hides none of
 * the format's. */
static void a_token_that_reaches_into_a_literal_range_is_none(void **state) {
    (void)state;
    gives(ADDED("false"), "{<}s>", "60 115 62", "0:0 3:3");
    gives(ADDED("false"), "<s{>}", "60 115 62", "0:0 3:3");
    gives(ADDED("false"), "{<}<s>", "60 300", "0:0 1:1 4:2");
    gives(ADDED("false"), "{x<}<s>{<s>}", "120 60 300 60 115 62", "0:0 2:2 5:3 8:6");
}

/* What is no special token is found everywhere; blanks that a token eats may be a message's. */
static void plain_added_tokens_are_found_in_messages(void **state) {
    (void)state;
    gives(ADDED("false"), "{aTT}<s>", "97 302 300", "0:0 1:1 3:2 6:3");
    gives(ADDED("false"), "<<s>{  a}", "301 97", "0:0 6:1 7:2");
}

static void tokens_that_are_looked_for_after_normalizing_are_kept_apart_too(void **state) {
    (void)state;
    gives(ADDED("true"), "<s>{a<s>}<s>{<s>}", "300 97 60 115 62 300 60 115 62", "0:0 13:9");
    /* normalizing moves bytes: where a message spells one it cannot be told apart */
    gives(ADDED("true") LOWER, "<S>{A}", "300 97", "0:0 4:2");
    gives(ADDED("true") LOWER, "<s>{A<S>}", NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_come_from_outside_of_literal_ranges),
        cmocka_unit_test(a_token_that_reaches_into_a_literal_range_is_none),
        cmocka_unit_test(plain_added_tokens_are_found_in_messages),
        cmocka_unit_test(tokens_that_are_looked_for_after_normalizing_are_kept_apart_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
