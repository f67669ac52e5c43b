/* test_npy.c: what a .npy header may say, and what is refused. */
#include "scratch.h"

#include "formats/npy.h"

/* Parse a file of one header and n_data bytes after it. */
static sw_status parse(int major, const char *dict, size_t n_data, sw_npy *npy, sw_error *err) {
    uint8_t bytes[1024] = {0};
    size_t first = npy_header(bytes, major, dict);
    return sw_npy_parse("x.npy", bytes, (int64_t)(first + n_data), (int64_t)(first + n_data), npy,
                        err);
}

static void every_version_and_type_is_read(void **state) {
    static const struct {
        const char *descr;
        sw_dtype dtype;
        size_t width;
    } types[] = {{"|u1", SW_U8, 1},
                 {"<u2", SW_U16, 2},
                 {"<i4", SW_I32, 4},
                 {"<u4", SW_U32, 4},
                 {"<i8", SW_I64, 8}};
    (void)state;
    for (int major = 1; major <= 3; major++)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            char dict[128];
            sw_npy npy;
            sw_error err;
            snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (7,), }",
                     types[i].descr);
            assert_int_equal(parse(major, dict, 7 * types[i].width, &npy, &err), SW_OK);
            assert_int_equal(npy.dtype, types[i].dtype);
            assert_int_equal(npy.n, 7);
            assert_int_equal(npy.first, 128);
        }
}

static void keys_come_in_any_order_and_either_quotes(void **state) {
    (void)state;
    sw_npy npy;
    sw_error err;
    assert_int_equal(
        parse(1, "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<u2\"}", 6, &npy, &err),
        SW_OK);
    assert_int_equal(npy.n, 3);
    assert_int_equal(npy.dtype, SW_U16);
}

/* Each line is one way to be wrong, and a word that the message must have. */
static void what_is_not_a_plain_list_of_integers_is_refused_with_the_reason(void **state) {
    static const struct {
        const char *dict, *says;
    } cases[] = {
        {"{'descr': '>u2', 'fortran_order': False, 'shape': (3,), }", "big-endian"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "'<f4'"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "'|b1'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "'|O'"},
        {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,), }", "records"},
        {"{'descr': '<u2', 'fortran_order': True, 'shape': (3,), }", "Fortran"},
        {"{'descr': '<u2', 'fortran_order': false, 'shape': (3,), }", "fortran_order"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (), }", "0 dimensions"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 1), }", "2 dimensions"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 1, 1,), }", "3 dimensions"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3), }", "','"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (-3,), }", "number"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "more elements"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (9223372036854775807,), }",
         "9223372036854775807 elements"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }", "claims 4 elements"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", "2 bytes after"},
        {"{'descr': '<u2', 'fortran_order': False, }", "'shape' is missing"},
        {"{'fortran_order': False, 'shape': (3,), }", "'descr' is missing"},
        {"{'descr': '<u2', 'shape': (3,), }", "'fortran_order' is missing"},
        {"{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (3,), }",
         "repeated key"},
        {"{'descr': '<u2', 'colour': 1, 'fortran_order': False, 'shape': (3,), }",
         "unknown key 'colour'"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), } x", "damaged"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,", "damaged"},
        {"{'descr': '<u2", "damaged"},
        {"", "damaged"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_npy npy;
        sw_error err = {0};
        assert_int_equal(parse(1, cases[i].dict, 6, &npy, &err), SW_BAD_FILE);
        if (!strstr(err.message, cases[i].says) || strncmp(err.message, "x.npy: ", 7) != 0)
            fail_msg("%s\n  gave \"%s\", which lacks \"%s\"", cases[i].dict, err.message,
                     cases[i].says);
    }
}

/* Any prefix of a good file is refused, never read beyond. Each is copied to its own allocation so
 * that a checker sees an overrun. */
static void every_truncation_is_refused(void **state) {
    (void)state;
    uint8_t whole[1024] = {0};
    size_t n =
        npy_header(whole, 2, "{'descr': '<u4', 'fortran_order': False, 'shape': (5,), }") + 20;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *bytes = malloc(cut + 1);
        memcpy(bytes, whole, cut);
        sw_npy npy;
        sw_error err;
        assert_int_equal(sw_npy_parse("x", bytes, (int64_t)cut, (int64_t)cut, &npy, &err),
                         SW_BAD_FILE);
        free(bytes);
    }
    sw_npy npy;
    assert_int_equal(sw_npy_parse("x", whole, (int64_t)n, (int64_t)n, &npy, NULL), SW_OK);
}

static void a_header_length_that_lies_is_refused(void **state) {
    (void)state;
    uint8_t bytes[256] = "\x93NUMPY\x02\x00\xff\xff\xff\xff";
    sw_npy npy;
    sw_error err;
    assert_int_equal(sw_npy_parse("x", bytes, sizeof bytes, sizeof bytes, &npy, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "claims 4294967295 bytes"));
    /* A file that is large enough for such a header still does not get it. */
    assert_int_equal(sw_npy_parse("x", bytes, sizeof bytes, INT64_C(1) << 40, &npy, &err),
                     SW_BAD_FILE);
    bytes[6] = 4;
    assert_int_equal(sw_npy_parse("x", bytes, sizeof bytes, sizeof bytes, &npy, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "version 4.0"));
}

static void elements_are_little_endian_and_keep_their_sign(void **state) {
    (void)state;
    const uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff};
    assert_true(sw_npy_element(SW_U8, bytes, 0) == 255);
    assert_true(sw_npy_element(SW_U16, bytes, 2) == 65534);
    assert_true(sw_npy_element(SW_I32, bytes, 1) == -2);
    assert_true(sw_npy_element(SW_U32, bytes, 1) == INT64_C(4294967294));
    assert_true(sw_npy_element(SW_I64, bytes, 0) == INT64_C(-4294967297));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_and_type_is_read),
        cmocka_unit_test(keys_come_in_any_order_and_either_quotes),
        cmocka_unit_test(what_is_not_a_plain_list_of_integers_is_refused_with_the_reason),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_header_length_that_lies_is_refused),
        cmocka_unit_test(elements_are_little_endian_and_keep_their_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
