/* string_literal.c: escapes. Jinja first writes what is beyond ASCII as an escape and then reads
 * all escapes; so a backslash before such a character is a backslash and the escape's letters, and
 * that is kept here. */
#include "data/jinja/string_literal.h"

#include <stdio.h>

#include "data/jinja/text.h"

/* Hexadecimal digits, exactly n; -1: they are not there. */
static int64_t read_digits(const char *at, const char *end, int n) {
    int64_t code = 0;
    for (int i = 0; i < n; i++, at++) {
        if (at >= end)
            return -1;
        int digit = *at >= '0' && *at <= '9'                 ? *at - '0'
                    : (*at | 32) >= 'a' && (*at | 32) <= 'f' ? (*at | 32) - 'a' + 10
                                                             : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

static bool write_numbered(jinja_run *run, const char **at, const char *end, int n,
                           const char **problem) {
    int64_t code = read_digits(*at, end, n);
    if (code < 0)
        *problem = n == 2   ? "truncated \\xXX escape"
                   : n == 4 ? "truncated \\uXXXX escape"
                            : "truncated \\UXXXXXXXX escape";
    else if (code > 0x10FFFF)
        *problem = "illegal Unicode character";
    else if (code >= 0xD800 && code < 0xE000)
        *problem = "half a surrogate pair (\\ud800 to \\udfff) is no character; write the "
                   "character itself, or \\U and eight digits";
    *at += n;
    return *problem || sw_jinja_write_code(run, (uint32_t)code);
}

/* Behind a backslash. */
static bool write_escape(jinja_run *run, const char **at, const char *end, const char **problem) {
    static const char letters[] = "abfnrtv\\'\"", meant[] = "\a\b\f\n\r\t\v\\'\"";
    char c = *(*at)++;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter)
        return sw_jinja_write(run, &meant[letter - letters], 1);
    if (c == '\n')
        return true;
    if (c == 'x' || c == 'u' || c == 'U')
        return write_numbered(run, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, problem);
    if (c == 'N') {
        *problem = "characters by name (\\N{...}) are not known here; write the character itself, "
                   "or \\u and four digits";
        return true;
    }
    if (c >= '0' && c <= '7') {
        uint32_t code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
            code = code * 8 + (uint32_t)(*(*at)++ - '0');
        return sw_jinja_write_code(run, code);
    }
    if ((unsigned char)c < 0x80)
        return sw_jinja_write(run, "\\", 1) && sw_jinja_write(run, &c, 1);
    char escape[12];
    (*at)--;
    uint32_t code = sw_utf8_next(at);
    snprintf(escape, sizeof escape,
             code < 0x100     ? "\\x%02x"
             : code < 0x10000 ? "\\u%04x"
                              : "\\U%08x",
             code);
    return sw_jinja_write_words(run, escape);
}

jinja_text *sw_jinja_read_string(jinja_run *run, const char *first, const char *end,
                                 const char **problem) {
    if (!memchr(first, '\\', (size_t)(end - first)))
        return sw_jinja_view(run, first, end - first);
    jinja_start start = sw_jinja_start(run);
    for (const char *at = first; at < end;) {
        bool is_done;
        if (*at == '\\') {
            at++;
            is_done = write_escape(run, &at, end, problem);
        } else {
            is_done = sw_jinja_write(run, at++, 1);
        }
        if (!is_done || *problem) {
            sw_jinja_drop(run, start);
            return NULL;
        }
    }
    return sw_jinja_collect(run, start);
}
