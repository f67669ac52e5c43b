/* Words and numbers between people and the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

static void distance_counts_the_fewest_edits(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int distance;
    } cases[] = {
        {"", "", 0},
        {"abc", "", 3},
        {"steps", "steps", 0},
        {"stpes", "steps", 1}, /* a swap is one edit */
        {"learing_rate", "learning_rate", 1},
        {"num-epochs", "num_epochs", 0},
        {"Steps", "steps", 0},
        {"kitten", "sitting", 3},
        {"ca", "abc", 3},
        {"a", "b", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sw_text_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(sw_text_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(sw_text_distance(longer, "x"), 199);
}

static void only_near_words_are_suggested(void **state) {
    (void)state;
    static const char *const words[] = {"steps", "epochs", "batch_size", "micro_batch_size"};
    assert_string_equal(sw_text_nearest("stepz", words, 4), "steps");
    assert_string_equal(sw_text_nearest("batchsize", words, 4), "batch_size");
    assert_null(sw_text_nearest("xyz", words, 4));
    assert_null(sw_text_nearest("", words, 4));
    assert_null(sw_text_nearest("steps", words, 0));
}

static void bytes_have_three_digits_and_a_unit(void **state) {
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {1610612736, "1.5 GiB"},
        {5LL << 30, "5 GiB"},
        {1023LL << 20, "1 GiB"},
        {INT64_MAX, "8 EiB"},
        {123LL << 20, "123 MiB"},
        {(1LL << 30) / 3, "341 MiB"},
        {-2048, "-2 KiB"},
    };
    char buffer[SW_TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(sw_text_bytes(cases[i].bytes, buffer, sizeof buffer), cases[i].text);
}

static void counts_and_times_are_short(void **state) {
    (void)state;
    char buffer[SW_TEXT_NUMBER_BYTES];
    assert_string_equal(sw_text_count(950, buffer, sizeof buffer), "950");
    assert_string_equal(sw_text_count(12345, buffer, sizeof buffer), "12.3 k");
    assert_string_equal(sw_text_count(1250000, buffer, sizeof buffer), "1.25 M");
    assert_string_equal(sw_text_count(0, buffer, sizeof buffer), "0");
    assert_string_equal(sw_text_duration(4.2, buffer, sizeof buffer), "4.2 s");
    assert_string_equal(sw_text_duration(59.97, buffer, sizeof buffer), "1 min 00 s");
    assert_string_equal(sw_text_duration(187, buffer, sizeof buffer), "3 min 07 s");
    assert_string_equal(sw_text_duration(7500, buffer, sizeof buffer), "2 h 05 min");
    assert_string_equal(sw_text_duration(3 * 86400 + 4 * 3600, buffer, sizeof buffer), "3 d 04 h");
    assert_string_equal(sw_text_duration(-1, buffer, sizeof buffer), "?");
}

static void bytes_are_read_as_people_write_them(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {
        {"1000", 1000},
        {"2GiB", 2147483648},
        {"1.5 GiB", 1610612736},
        {"10 GB", 10000000000},
        {"512MiB", 536870912},
        {"0", 0},
        {"7 B", 7},
        {"1kB", 1000},
        {"1KiB", 1024},
        {"8EiB", -1},
        {"9999999EiB", -1},
        {"1.5", -1},
        {"-1GiB", -1},
        {"", -1},
        {"GiB", -1},
        {"2 Gib", -1},
        {"2G", -1},
        {"2GiBs", -1},
        {"1..5GiB", -1},
        {"0.3KiB", -1}, /* 307.2 bytes */
        {"1e3GiB", -1},
        {"5000000000000000000000", -1},
        {"2 XiB", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = -1;
        if (!sw_text_parse_bytes(cases[i].text, &bytes))
            bytes = -1;
        if (bytes != cases[i].bytes)
            fail_msg("%s: %lld", cases[i].text, (long long)bytes);
    }
}

static void exact_bytes_read_back(void **state) {
    (void)state;
    char buffer[SW_TEXT_NUMBER_BYTES];
    assert_string_equal(sw_text_exact_bytes(5LL << 30, buffer, sizeof buffer), "5GiB");
    assert_string_equal(sw_text_exact_bytes(1536LL << 20, buffer, sizeof buffer), "1536MiB");
    assert_string_equal(sw_text_exact_bytes(1000, buffer, sizeof buffer), "1000");
    for (int64_t bytes = 1; bytes < INT64_MAX / 7; bytes = bytes * 5 + bytes / 3) {
        int64_t read = 0;
        assert_true(sw_text_parse_bytes(sw_text_exact_bytes(bytes, buffer, sizeof buffer), &read));
        assert_true(read == bytes);
    }
}

static void exact_reals_are_short_and_read_back(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{3e-4, "0.0003"},
                 {1e-5, "1e-05"},
                 {0.1, "0.1"},
                 {10000, "10000"},
                 {60, "60"},
                 {0, "0"},
                 {1.0 / 3, "0.3333333333333333"}};
    char buffer[SW_TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(sw_text_exact_real(cases[i].value, buffer, sizeof buffer),
                            cases[i].text);
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value, read;
        memcpy(&value, &bits, sizeof value);
        if (!(value - value == 0)) /* not finite */
            continue;
        assert_true(sw_text_parse_real(sw_text_exact_real(value, buffer, sizeof buffer), &read));
        assert_memory_equal(&read, &value, sizeof value);
    }
}

static void utf8_is_told_from_other_bytes(void **state) {
    (void)state;
    static const char *const good[] = {
        "", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\xff",         "\xc3",         "\xc0\xaf",
                                      "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\x80",         "\xf0\x9f\x98"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(sw_text_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(sw_text_is_utf8(bad[i], strlen(bad[i])));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_the_fewest_edits),
        cmocka_unit_test(only_near_words_are_suggested),
        cmocka_unit_test(bytes_have_three_digits_and_a_unit),
        cmocka_unit_test(counts_and_times_are_short),
        cmocka_unit_test(bytes_are_read_as_people_write_them),
        cmocka_unit_test(exact_bytes_read_back),
        cmocka_unit_test(exact_reals_are_short_and_read_back),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
