/* scanner.c: see scanner.h. */
#include "formats/scanner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How a message calls what is being read. Names from a file may be long: the message has room for
 * its reason. */
sw_status sw_scan_fail(const sw_scanner *s, const char *reason) {
    int64_t byte = s->at - s->text;
    if (s->key)
        return sw_fail(
            s->err, SW_BAD_FILE, "%s: %s \"%.200s\": %s (byte %" PRId64 " of the header)", s->path,
            strcmp(s->key, "__metadata__") == 0 ? "key" : "tensor", s->key, reason, byte);
    return sw_fail(s->err, SW_BAD_FILE,
                   "%s: the header %s (byte %" PRId64 "); is it a safetensors file, and complete?",
                   s->path, reason, byte);
}

sw_status sw_scan_fail_about(const sw_scanner *s, const char *format, const char *quoted) {
    char reason[160];
    snprintf(reason, sizeof reason, format, quoted);
    return sw_scan_fail(s, reason);
}

void sw_scan_blanks(sw_scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

bool sw_scan_pass(sw_scanner *s, char c) {
    sw_scan_blanks(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hex digits at s->at; -1 if they are not. */
static int32_t hex4(sw_scanner *s) {
    if (s->end - s->at < 4)
        return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(s->at[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    s->at += 4;
    return value;
}

static char *put_utf8(char *to, int32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* The escape after a backslash, as UTF-8 to *to; it is never longer than what it stands for. */
static sw_status scan_escape(sw_scanner *s, char **to) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (s->at == s->end)
        return sw_scan_fail(s, "ends inside a string");
    char c = *s->at++;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        *(*to)++ = meanings[letter - letters];
        return SW_OK;
    }
    if (c != 'u')
        return sw_scan_fail(s, "has an unknown escape in a string");
    int32_t code = hex4(s);
    if (code < 0)
        return sw_scan_fail(s, "has a \\u without four hex digits");
    if (code == 0)
        return sw_scan_fail(s, "has a NUL in a string, which no name can hold here");
    if (code >= 0xdc00 && code <= 0xdfff)
        return sw_scan_fail(s, "has half a surrogate pair");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
            return sw_scan_fail(s, "has half a surrogate pair");
        s->at += 2;
        int32_t low = hex4(s);
        if (low < 0xdc00 || low > 0xdfff)
            return sw_scan_fail(s, "has half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return SW_OK;
}

/* The NUL stands where the closing quote was, or before it. */
sw_status sw_scan_string(sw_scanner *s, const char *otherwise, char **string) {
    if (!sw_scan_pass(s, '"'))
        return sw_scan_fail(s, otherwise);
    char *to = s->at;
    *string = to;
    for (;;) {
        if (s->at == s->end)
            return sw_scan_fail(s, "ends inside a string");
        char c = *s->at++;
        if (c == '"')
            break;
        if ((unsigned char)c < 0x20)
            return sw_scan_fail(s, "has a control character in a string");
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        sw_status status = scan_escape(s, &to);
        if (status != SW_OK)
            return status;
    }
    *to = 0;
    return SW_OK;
}

sw_status sw_scan_integer(sw_scanner *s, const char *what, int64_t *value) {
    sw_scan_blanks(s);
    char *start = s->at;
    int64_t sum = 0;
    bool too_big = false;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        too_big |= __builtin_mul_overflow(sum, 10, &sum) ||
                   __builtin_add_overflow(sum, *s->at - '0', &sum);
    if (s->at == start && s->at < s->end && *s->at == '-')
        return sw_scan_fail_about(s, "%s: a number is negative", what);
    if (s->at == start)
        return sw_scan_fail_about(s, "%s: a non-negative integer is needed", what);
    if (s->at < s->end && (*s->at == '.' || *s->at == 'e' || *s->at == 'E'))
        return sw_scan_fail_about(s, "%s: a number is not written as an integer", what);
    if (*start == '0' && s->at - start > 1)
        return sw_scan_fail_about(s, "%s: a number has a leading zero", what);
    if (too_big)
        return sw_scan_fail_about(s, "%s: a number is 2^63 or more", what);
    *value = sum;
    return SW_OK;
}
