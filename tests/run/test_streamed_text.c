/* A text ends before the first stop text, however its bytes arrive, and nothing of a stop text is
 * shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hf/bytes_tokenizer.h"
#include "infer/streamed_text.h"
#include "support/folder.h"

static char shown[256];
static int n_ends;
static int64_t n_tokens;
static sw_text_end end;

static sw_status show_text(void *to, int64_t prompt, const char *bytes, size_t n_bytes,
                           sw_error *err) {
    (void)err;
    (void)to;
    (void)prompt;
    strncat(shown, bytes, n_bytes);
    return SW_OK;
}

static sw_status show_end(void *to, int64_t text, const sw_text_result *result, sw_error *err) {
    (void)to;
    (void)err;
    assert_int_equal(text, 0);
    assert_int_equal(result->n_prompt_tokens, 7);
    n_ends++;
    end = result->end;
    n_tokens = result->n_tokens;
    return SW_OK;
}

static sw_tokenizer *bytes_tokenizer(void) {
    char folder[FOLDER_BYTES];
    sw_tokenizer *tokenizer;
    sw_error err;
    assert_true(folder_make(folder));
    assert_int_equal(sw_bytes_tokenizer_write(folder, &err), SW_OK);
    assert_int_equal(sw_tokenizer_read(folder, &tokenizer, &err), SW_OK);
    assert_int_equal(folder_remove(folder), 0);
    return tokenizer;
}

static void a_text_ends_before_the_first_stop_text(void **state) {
    (void)state;
    enum { NO_END = 100 };
    static const struct {
        const char *said;
        const char *stops[3];
        int64_t max_tokens;
        int end_at; /* this byte's token ends the text */
        const char *expected;
        sw_text_end end;
    } cases[] = {
        {"abcdef", {"cd"}, 99, NO_END, "ab", SW_END_STOP},
        {"abcabcabd", {"abcabd"}, 99, NO_END, "abc", SW_END_STOP}, /* begins again inside itself */
        {"aaab", {"aab"}, 99, NO_END, "a", SW_END_STOP},
        {"abcdef", {"ef", "cde", "x"}, 99, NO_END, "ab", SW_END_STOP}, /* the one that is whole
                                                                          first */
        {"abcdef", {"abcdef"}, 99, NO_END, "", SW_END_STOP},
        {"abcdef", {"defg"}, 6, NO_END, "abcdef", SW_END_TOKENS}, /* what was held back is shown in
                                                                     the end */
        {"abcdef", {"cd"}, 3, NO_END, "abc", SW_END_TOKENS},
        {"abcdef", {"x"}, 99, 4, "abcd", SW_END_OF_TEXT},
        {"abcdef", {"de"}, 99, 4, "abcd", SW_END_OF_TEXT},
        {"caf\xC3\xA9 au lait", {" au"}, 99, NO_END, "caf\xC3\xA9", SW_END_STOP},
    };
    sw_tokenizer *tokenizer = bytes_tokenizer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_streamed_text text;
        sw_error err;
        int n_stops = 0;
        while (n_stops < 3 && cases[i].stops[n_stops])
            n_stops++;
        const sw_generate_options options = {.stops = cases[i].stops,
                                             .n_stops = n_stops,
                                             .max_tokens = cases[i].max_tokens,
                                             .sink = {.text = show_text, .end = show_end}};
        shown[0] = 0;
        n_ends = 0;
        assert_int_equal(sw_streamed_text_create(&options, 0, 7, tokenizer, &text, &err), SW_OK);
        for (int t = 0; cases[i].said[t] && !text.is_over; t++) {
            assert_int_equal(sw_streamed_text_push(&text, (unsigned char)cases[i].said[t],
                                                   t == cases[i].end_at, &err),
                             SW_OK);
            assert_int_equal(sw_streamed_text_show(&text, &err), SW_OK);
            assert_int_equal(strncmp(cases[i].expected, shown, strlen(shown)),
                             0); /* nothing is taken back */
        }
        assert_true(text.is_over);
        assert_int_equal(n_ends, 1);
        assert_int_equal(end, cases[i].end);
        assert_string_equal(shown, cases[i].expected);
        sw_streamed_text_free(&text);
    }
    sw_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_ends_before_the_first_stop_text),
    };
    return cmocka_run_group_tests_name("streamed_text", tests, NULL, NULL);
}
