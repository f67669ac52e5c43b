/* test_unicode.c: every code point is in the classes that the reference puts it in. */
#include <jansson.h>

#include "tokenizer/normal_form.h"
#include "tokenizer/pattern.h"
#include "tokenizer/support.h"
#include "tokenizer/unicode.h"

static json_t *read_json(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, GOLDEN "unicode/%s", name);
    json_t *json = json_load_file(path, 0, &error);
    if (!json)
        fail_msg("%s: %s", path, error.text);
    return json;
}

static bool *members_of(json_t *ranges) {
    bool *members = calloc(0x110000, sizeof *members);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        json_t *range = json_array_get(ranges, i);
        for (json_int_t c = json_integer_value(json_array_get(range, 0));
             c <= json_integer_value(json_array_get(range, 1)); c++)
            members[c] = true;
    }
    return members;
}

/* All code points in one text, matched one by one. */
static void expressions_see_the_references_classes(void **state) {
    json_t *classes = read_json("classes.json"), *ranges;
    const char *name;
    sw_pattern_scratch scratch = {0};
    sw_bytes text = {0}, copy = {0};
    (void)state;
    assert_true(sw_pattern_scratch_create(&scratch));
    for (uint32_t c = 0; c < 0x110000; c++)
        if (c < 0xD800 || c >= 0xE000)
            sw_bytes_put_code(&text, c);
    json_object_foreach(classes, name, ranges) {
        if (name[0] != '\\')
            continue;
        bool *members = members_of(ranges);
        sw_pattern pattern = {0};
        sw_matcher matcher;
        sw_error err = {0};
        bool is_found;
        size_t start, end;
        int n_wrong = 0;
        assert_int_equal(sw_pattern_compile("x", "y", name, strlen(name), &pattern, &err), SW_OK);
        assert_int_equal(
            sw_matcher_begin(&matcher, &pattern, &scratch, &copy, text.data, text.n, &err), SW_OK);
        while (!sw_matcher_next(&matcher, &is_found, &start, &end, &err) && is_found) {
            const char *at = text.data + start;
            uint32_t code = sw_utf8_next(&at);
            n_wrong += !members[code];
            members[code] = false;
        }
        for (uint32_t c = 0; c < 0x110000; c++)
            n_wrong += members[c];
        if (n_wrong)
            fail_msg("%s: %d code points differ", name, n_wrong);
        sw_pattern_free(&pattern);
        free(members);
    }
    sw_bytes_free(&text);
    sw_bytes_free(&copy);
    sw_pattern_scratch_free(&scratch);
    json_decref(classes);
}

static void white_space_is_the_property(void **state) {
    json_t *classes = read_json("classes.json");
    bool *members = members_of(json_object_get(classes, "WhitespaceSplit"));
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++)
        assert_int_equal(sw_unicode_is_space(c), members[c]);
    free(members);
    json_decref(classes);
}

/* Single characters under NFC are those of the list, and all others stay. */
static void nfc_changes_what_the_reference_changes(void **state) {
    json_t *changes = read_json("nfc.json");
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char key[16], text[4], wanted[64];
        size_t n_wanted = 0;
        sw_bytes out = {0};
        if (c >= 0xD800 && c < 0xE000)
            continue;
        snprintf(key, sizeof key, "%04X", c);
        size_t n = (size_t)sw_utf8_put(c, text);
        json_t *change = json_object_get(changes, key);
        for (size_t i = 0; i < json_array_size(change); i++)
            n_wanted += (size_t)sw_utf8_put((uint32_t)json_integer_value(json_array_get(change, i)),
                                            wanted + n_wanted);
        sw_normal_form_append(SW_NFC, text, n, &out);
        if (out.n != (change ? n_wanted : n) || memcmp(out.data, change ? wanted : text, out.n))
            fail_msg("U+%s", key);
        sw_bytes_free(&out);
    }
    json_decref(changes);
}

static void form_is(sw_normal_form form, const char *text, const char *wanted) {
    sw_bytes out = {0};
    sw_normal_form_append(form, text, strlen(text), &out);
    sw_bytes_put(&out, 0);
    assert_string_equal(out.data, wanted);
    sw_bytes_free(&out);
}

/* Examples of Unicode Standard Annex 15. */
static void forms_order_and_compose_marks(void **state) {
    (void)state;
    form_is(SW_NFD, "\xE1\xB8\x8D\xCC\x87", "d\xCC\xA3\xCC\x87"); /* d with dot below, dot above */
    form_is(SW_NFC, "d\xCC\x87\xCC\xA3", "\xE1\xB8\x8D\xCC\x87"); /* marks in the other order */
    form_is(SW_NFD, "\xE1\xB8\x8B\xCC\xA3", "d\xCC\xA3\xCC\x87");
    form_is(SW_NFC, "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); /* Hangul */
    form_is(SW_NFD, "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
    form_is(SW_NFKC,
            "\xEF\xAC\x81"
            "2\xE2\x81\xB5",
            "fi25"); /* fi ligature, superscript 5 */
    form_is(SW_NFC, "\xEF\xAC\x81", "\xEF\xAC\x81");
    form_is(SW_NFC, "e\xCC\x81x", "\xC3\xA9x");
    form_is(SW_NFC, "ab\xCC\x81", "ab\xCC\x81");
    form_is(SW_NFC,
            "\xCC\x81"
            "a",
            "\xCC\x81"
            "a");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(expressions_see_the_references_classes),
                                       cmocka_unit_test(white_space_is_the_property),
                                       cmocka_unit_test(nfc_changes_what_the_reference_changes),
                                       cmocka_unit_test(forms_order_and_compose_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
