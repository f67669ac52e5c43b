/* Numbers as people write them: each is one clear thing, or refused with what to write instead. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"

/* What is read as a whole number and as any; NULL for a number that is not read. */
static const struct {
    const char *text, *whole, *real;
} numbers[] = {
    {"0", "0", "0"},
    {"-0", "0", "-0"},
    {"7", "7", "7"},
    {"+7", "7", "7"},
    {"-7", "-7", "-7"},
    {"5.", "5", "5"},
    {".5", NULL, "0.5"},
    {"-.5e1", "-5", "-5"},
    {"0.5", NULL, "0.5"},
    {"0.0", "0", "0"},
    {"1e3", "1000", "1000"},
    {"1E+3", "1000", "1000"},
    {"1e05", "100000", "100000"},
    {"1.5e3", "1500", "1500"},
    {"1500e-2", "15", "15"},
    {"15e-1", NULL, "1.5"},
    {"1e18", "1000000000000000000", "1e+18"},
    {"9007199254740993", "9007199254740993",
     "9007199254740992"}, /* more digits than a double has */
    {"9007199254740993.0", "9007199254740993", "9007199254740992"},
    {"9.223372036854775807e18", "9223372036854775807", "9.2233720368547758e+18"},
    {"9223372036854775807", "9223372036854775807", "9.2233720368547758e+18"},
    {"9223372036854775808", NULL, "9.2233720368547758e+18"},
    {"-9223372036854775807", "-9223372036854775807", "-9.2233720368547758e+18"},
    {"1e19", NULL, "1e+19"},
    {"0e999999999999", "0", "0"},
    {"1e-400", NULL, NULL}, /* not 0 */
    {"5e-324", NULL, "4.9406564584124654e-324"},
    {"1e309", NULL, NULL},
    {"1e99999999999999999999", NULL, NULL},
    {"0.10000000000000000000000000000000000000000000000000000000000000000000000000000000", NULL,
     "0.10000000000000001"},
    {"1000000000000000000000000000000000000000000000e-45", "1", "1"},
    {"", NULL, NULL},
    {"-", NULL, NULL},
    {".", NULL, NULL},
    {"1e", NULL, NULL},
    {"e5", NULL, NULL},
    {"--5", NULL, NULL},
    {"+-5", NULL, NULL},
    {" 5", NULL, NULL},
    {"5 ", NULL, NULL},
    {"5\n", NULL, NULL},
    {"5..", NULL, NULL},
    {"1.2.3", NULL, NULL},
    {"010", NULL, NULL},
    {"00", NULL, NULL},
    {"-010", NULL, NULL},
    {"00.5", NULL, NULL},
    {"010e3", NULL, NULL},
    {"0x10", NULL, NULL},
    {"0x1p3", NULL, NULL},
    {"0o10", NULL, NULL},
    {"0b1", NULL, NULL},
    {"1_000", NULL, NULL},
    {"1,000", NULL, NULL},
    {"0,5", NULL, NULL},
    {"1:30", NULL, NULL},
    {"nan", NULL, NULL},
    {"NaN", NULL, NULL},
    {".nan", NULL, NULL},
    {"inf", NULL, NULL},
    {"-.INF", NULL, NULL},
    {"Infinity", NULL, NULL},
    {"5 steps", NULL, NULL},
    {"5d", NULL, NULL},
    {"5f", NULL, NULL},
    {"50%", NULL, NULL},
    {"true", NULL, NULL},
    {"\xd9\xa1\xd9\xa0", NULL, NULL},         /* Arabic-Indic 10 */
    {"\xef\xbc\x91\xef\xbc\x90", NULL, NULL}, /* fullwidth 10 */
    {"\xe2\x88\x92"
     "5",
     NULL, NULL}, /* a minus sign */
    {"1\xc2\xa0"
     "000",
     NULL, NULL}, /* a space that does not break */
};

static void each_number_is_one_thing_or_none(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t whole;
        double real;
        char shown[64];
        bool is_whole = sw_text_parse_integer(numbers[i].text, &whole);
        snprintf(shown, sizeof shown, "%lld", is_whole ? (long long)whole : 0);
        if (is_whole != (numbers[i].whole != NULL) || (is_whole && strcmp(shown, numbers[i].whole)))
            fail_msg("%s: %s", numbers[i].text, is_whole ? shown : "no whole number");
        bool is_real = sw_text_parse_real(numbers[i].text, &real);
        snprintf(shown, sizeof shown, "%.17g", is_real ? real : 0);
        if (is_real != (numbers[i].real != NULL) || (is_real && strcmp(shown, numbers[i].real)))
            fail_msg("%s: %s", numbers[i].text, is_real ? shown : "no number");
    }
}

static void what_to_write_instead_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text, *remedy; /* NULL: nothing is said */
        sw_numeral kind;
    } cases[] = {
        {"010", "write 10, or 8 if that was octal", SW_NUMERAL_INTEGER},
        {"-017", "write -17, or -15 if that was octal", SW_NUMERAL_INTEGER},
        {"08", "write 8", SW_NUMERAL_INTEGER},
        {"00", "write 0", SW_NUMERAL_INTEGER},
        {"007.5", "write 7.5", SW_NUMERAL_REAL},
        {"0x10", "write 16", SW_NUMERAL_INTEGER},
        {"-0xff", "write -255", SW_NUMERAL_INTEGER},
        {"0o10", "write 8", SW_NUMERAL_INTEGER},
        {"0b11", "write 3", SW_NUMERAL_REAL},
        {"1_000", "write 1000", SW_NUMERAL_INTEGER},
        {"1,000", "write 1000", SW_NUMERAL_INTEGER},
        {"1 000 000", "write 1000000", SW_NUMERAL_INTEGER},
        {"1.000.000", "write 1000000", SW_NUMERAL_INTEGER},
        {"0,5", "write 0.5", SW_NUMERAL_REAL},
        {"1:30", "write 90 if that is meant; a number has no colon", SW_NUMERAL_INTEGER},
        {"1:00:00", "write 3600 if that is meant; a number has no colon", SW_NUMERAL_REAL},
        {"NaN", "a finite number is needed", SW_NUMERAL_REAL},
        {"-.inf", "a finite number is needed", SW_NUMERAL_INTEGER},
        {"10k", "write 10e3", SW_NUMERAL_INTEGER},
        {"1.5M", "write 1.5e6", SW_NUMERAL_INTEGER},
        {"50%", "write 50e-2", SW_NUMERAL_REAL},
        {"5 steps", "write the number alone", SW_NUMERAL_INTEGER},
        {"5.5", "write 5 or 6", SW_NUMERAL_INTEGER},
        {"1e19", "at most 9223372036854775807 is known", SW_NUMERAL_INTEGER},
        {"1e-400", "numbers from 5e-324 to 1.7e308 are known", SW_NUMERAL_REAL},
        {"\xd9\xa1", "a number is written with the digits 0 to 9, a minus and a dot",
         SW_NUMERAL_INTEGER},
        {"2G", "write 2GiB, or 2GB for powers of 1000", SW_NUMERAL_BYTES},
        {"2gb", "write 2GiB, or 2GB for powers of 1000", SW_NUMERAL_BYTES},
        {"1.5tib", "write 1.5TiB", SW_NUMERAL_BYTES},
        {"010MiB", "write 10MiB", SW_NUMERAL_BYTES},
        {"1.1GiB", "that is no whole number of bytes: write 1181116006", SW_NUMERAL_BYTES},
        {"0x10", "write 16", SW_NUMERAL_BYTES},
        {"many", NULL, SW_NUMERAL_INTEGER},
        {"", NULL, SW_NUMERAL_REAL},
        {"-", NULL, SW_NUMERAL_REAL},
        {"a:b", NULL, SW_NUMERAL_REAL},
        {"999999999999999999999999999999999GiB", NULL, SW_NUMERAL_BYTES},
        {"99999999999GiB", NULL, SW_NUMERAL_BYTES},
        {"-1GiB", NULL, SW_NUMERAL_BYTES},
        {"5 steps", "write the number alone", SW_NUMERAL_BYTES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char remedy[128] = "";
        bool is_said = sw_numeral_remedy(cases[i].text, cases[i].kind, remedy, sizeof remedy);
        if (is_said != (cases[i].remedy != NULL) || (is_said && strcmp(remedy, cases[i].remedy)))
            fail_msg("%s: %s", cases[i].text, is_said ? remedy : "nothing");
    }
}

/* Whatever is written: what is advised is read, nothing else is, and no buffer is left. */
static void advice_is_a_number(void **state) {
    (void)state;
    static const char letters[] = "0017.9eE+-_,':xXobkKMGiB% \xd9";
    uint64_t random = 1;
    for (int i = 0; i < 200000; i++) {
        char text[16], remedy[64], advised[64];
        int64_t whole;
        double real;
        size_t n = 0;
        do {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[n++] = letters[(random >> 33) % (sizeof letters - 1)];
        } while (n < sizeof text - 1 && (random >> 50) % 6);
        text[n] = 0;
        for (sw_numeral kind = SW_NUMERAL_REAL; kind <= SW_NUMERAL_BYTES; kind++) {
            if (!sw_numeral_remedy(text, kind, remedy, sizeof remedy) ||
                sscanf(remedy, "write %63[0-9.eE+KMGTPEiB-]", advised) != 1)
                continue;
            bool is_read = kind == SW_NUMERAL_REAL ? sw_text_parse_real(advised, &real)
                           : kind == SW_NUMERAL_INTEGER
                               ? sw_text_parse_integer(advised, &whole)
                               : sw_text_parse_bytes(advised, &whole) ||
                                     sw_text_parse_integer(advised, &whole);
            if (!is_read)
                fail_msg("'%s' for '%s' is not read", advised, text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_one_thing_or_none),
        cmocka_unit_test(what_to_write_instead_is_said),
        cmocka_unit_test(advice_is_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
