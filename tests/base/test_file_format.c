/* What a file is by its first bytes: the usual wrong files are called by their names, and no good
 * one is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/file_format.h"

#define BYTES(text) text, sizeof(text) - 1

static const struct {
    const char *bytes;
    int64_t n;
    sw_file_format kind;
} known[] = {
    {BYTES(""), SW_FILE_EMPTY},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid "
           "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
           "size 12345\n"),
     SW_FILE_LFS_POINTER},
    {BYTES("version https://git-lfs.github.com/spec/v1 is what a pointer begins with."),
     SW_FILE_TEXT},
    {BYTES("<!DOCTYPE html>\n<html class=\"\">"), SW_FILE_WEB_PAGE},
    {BYTES("\n\xEF\xBB\xBF<p>"), SW_FILE_TEXT},
    {BYTES("\xEF\xBB\xBF \r\n<HTML>"), SW_FILE_WEB_PAGE},
    {BYTES("Entry not found"), SW_FILE_SERVER_ANSWER},
    {BYTES("{\"error\":\"Repository not found\"}"), SW_FILE_SERVER_ANSWER},
    {BYTES("{\"error\": \"a \\\" b\"} \n"), SW_FILE_SERVER_ANSWER},
    {BYTES("{\"error\":\"none\",\"text\":\"a\"}"), SW_FILE_JSON},
    {BYTES("{\"error\":\"none"), SW_FILE_JSON},
    {BYTES("{\"error\":\"none\\"), SW_FILE_JSON},
    {BYTES("Access to model meta-llama/X is restricted."), SW_FILE_SERVER_ANSWER},
    {BYTES("{}"), SW_FILE_JSON},
    {BYTES("\xEF\xBB\xBF\n [1"), SW_FILE_JSON},
    {BYTES("plain"), SW_FILE_TEXT},
    {BYTES("GGUF is a format, PAR1 another"), SW_FILE_TEXT},
    {BYTES("GGUF\3\0\0\0"), SW_FILE_GGUF},
    {BYTES("\x93NUMPY\1\0"), SW_FILE_NPY},
    {BYTES("\x02\0\0\0\0\0\0\0{}"), SW_FILE_SAFETENSORS},
    {BYTES("\x02\0\0\0\0\0\0\1{}"), SW_FILE_UNKNOWN}, /* no header is so long */
    {BYTES("PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.txt"), SW_FILE_ZIP},
    {BYTES("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\x0E\0archive/data.pklFB"),
     SW_FILE_TORCH},
    {BYTES("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\x0E\0token.npy\x93NUMPY"),
     SW_FILE_NPZ},
    {BYTES("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xFF\xFF\x0E\0a"), SW_FILE_ZIP},
    {BYTES("PK\3\4"), SW_FILE_ZIP},
    {BYTES("\x80\2\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\2M"), SW_FILE_TORCH},
    {BYTES("\x80\4\x95\x10\0\0\0"), SW_FILE_PICKLE},
    {BYTES("\x1F\x8B\x08\0\0"), SW_FILE_GZIP},
    {BYTES("BZh91AY&SY\xA5\0"), SW_FILE_BZIP2},
    {BYTES("\xFD"
           "7zXZ\0\0"),
     SW_FILE_XZ},
    {BYTES("\x28\xB5\x2F\xFD\0"), SW_FILE_ZSTD},
    {BYTES("\x89HDF\r\n\x1A\n\0"), SW_FILE_HDF5},
    {BYTES("PAR1\x15\0\x15"), SW_FILE_PARQUET},
    {BYTES("\xFF\xFE{\0"), SW_FILE_UTF16},
    {BYTES("{\0\"\0a\0\"\0:\0"), SW_FILE_UTF16},
    {BYTES("\0{\0\"\0a\0\"\0:"), SW_FILE_UTF16},
    {BYTES("\xFF\xFE\0\0{\0\0\0"), SW_FILE_UTF32},
    {BYTES("\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\2"), SW_FILE_SENTENCEPIECE},
    {BYTES("IQ== 0\nIg== 1\nIw== 2\nJA== 3\n"), SW_FILE_TIKTOKEN},
    {BYTES("\x7F"
           "ELF\2\1\1"),
     SW_FILE_PROGRAM},
    {BYTES("\0\1\2\3"), SW_FILE_UNKNOWN},
};

static void the_first_bytes_tell_the_kind(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sw_file_format kind = sw_file_format_of(known[i].bytes, known[i].n, known[i].n);
        if (kind != known[i].kind)
            fail_msg("input %zu (%.20s): %s, not %s", i, known[i].bytes, sw_file_format_words(kind),
                     sw_file_format_words(known[i].kind));
    }
}

/* A long text is looked at up to the middle of a character. */
static void a_cut_character_is_no_damage(void **state) {
    (void)state;
    char text[SW_FILE_HEAD_BYTES + 8];
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        memcpy(text + SW_FILE_HEAD_BYTES - shift, "\xF0\x9F\x98\x80", 4);
        assert_int_equal(sw_file_format_of(text, sizeof text, sizeof text), SW_FILE_TEXT);
    }
    memset(text, 'x', sizeof text);
    memcpy(text + SW_FILE_HEAD_BYTES - 1, "\x80", 1);
    assert_int_equal(sw_file_format_of(text, sizeof text, sizeof text), SW_FILE_UNKNOWN);
}

/* Each kind in the place of each that readers want: refused with both names, but where a reader
 * must see for itself. */
static void what_is_wanted_passes_and_the_rest_is_named(void **state) {
    static const sw_file_format wanted[] = {SW_FILE_TEXT, SW_FILE_JSON,     SW_FILE_JSON_LINES,
                                            SW_FILE_YAML, SW_FILE_TEMPLATE, SW_FILE_SAFETENSORS,
                                            SW_FILE_GGUF, SW_FILE_NPY};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
            sw_error err = {0};
            sw_file_format kind = known[i].kind;
            bool is_text = kind == SW_FILE_TEXT || kind == SW_FILE_JSON, wants_text = k < 5;
            bool passes = kind == wanted[k] || kind == SW_FILE_UNKNOWN || (is_text && wants_text) ||
                          (kind == SW_FILE_EMPTY && wants_text && wanted[k] != SW_FILE_JSON) ||
                          (wanted[k] == SW_FILE_TEXT &&
                           (kind == SW_FILE_WEB_PAGE || kind == SW_FILE_SERVER_ANSWER ||
                            kind == SW_FILE_TIKTOKEN)) ||
                          (kind == SW_FILE_UTF16 && !wants_text && (known[i].bytes[0] & 0x80) == 0);
            sw_status status =
                sw_file_expect("dir/file", known[i].bytes, known[i].n, known[i].n, wanted[k], &err);
            if (status != (passes ? SW_OK : SW_BAD_FILE))
                fail_msg("input %zu for %s: %s %s", i, sw_file_format_words(wanted[k]),
                         sw_status_name(status), err.message);
            if (!passes && (strncmp(err.message, "dir/file: is ", 13) != 0 ||
                            !strstr(err.message, sw_file_format_words(kind)) ||
                            !strstr(err.message, sw_file_format_words(wanted[k])) ||
                            strlen(err.message) > 400))
                fail_msg("input %zu for %s: %s", i, sw_file_format_words(wanted[k]), err.message);
        }
}

static void a_byte_order_mark_is_skipped_once(void **state) {
    (void)state;
    const char *text = "\xEF\xBB\xBF\xEF\xBB\xBF{}";
    int64_t n = 8;
    sw_text_skip_mark(&text, &n);
    assert_int_equal(n, 5);
    text = "\xEF\xBB", n = 2;
    sw_text_skip_mark(&text, &n);
    assert_int_equal(n, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_bytes_tell_the_kind),
        cmocka_unit_test(a_cut_character_is_no_damage),
        cmocka_unit_test(what_is_wanted_passes_and_the_rest_is_named),
        cmocka_unit_test(a_byte_order_mark_is_skipped_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
