/* json_cursor.c: strings, numbers, brackets.
 *
 * The line is first checked to be UTF-8 without NULs, so that strings are copied without looking
 * again. Values that nobody asked for are passed over without recursion: one bit for each open
 * bracket.
 */
#include "data/json_cursor.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_DEPTH = 2048 }; /* as json.h */

/* ---- messages ---- */

sw_status sw_json_cursor_refuse(const sw_json_cursor *r, const char *reason) {
    return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ", byte %" PRId64 ": %s", r->name,
                   r->line, (int64_t)(r->at - r->first) + 1, reason);
}

/* What kind of value begins here, for messages. */
const char *sw_json_cursor_value(const sw_json_cursor *r) {
    switch (r->at < r->end ? *r->at : 0) {
    case '"':
        return "a string";
    case '{':
        return "an object";
    case '[':
        return "a list";
    case 't':
    case 'f':
        return "a boolean";
    case 'n':
        return "null";
    default:
        return "a number";
    }
}

/* ---- UTF-8 ---- */

/* The offset of the first byte that does not belong to UTF-8 text; n if all do (Unicode 15, table
 * 3-7). */
static int64_t utf8_prefix(const uint8_t *s, int64_t n) {
    for (int64_t i = 0; i < n;) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, s + i, 8), !(eight & UINT64_C(0x8080808080808080)))) {
            i += 8;
            continue;
        }
        uint8_t c = s[i], low = 0x80, high = 0xBF;
        int n_more = c < 0x80                 ? 0
                     : c >= 0xC2 && c <= 0xDF ? 1
                     : c >= 0xE0 && c <= 0xEF ? 2
                     : c >= 0xF0 && c <= 0xF4 ? 3
                                              : -1;
        if (n_more < 0 || n - i <= n_more)
            return i;
        if (c == 0xE0)
            low = 0xA0;
        else if (c == 0xED)
            high = 0x9F;
        else if (c == 0xF0)
            low = 0x90;
        else if (c == 0xF4)
            high = 0x8F;
        for (int k = 1; k <= n_more; k++, low = 0x80, high = 0xBF)
            if (s[i + k] < low || s[i + k] > high)
                return i;
        i += 1 + n_more;
    }
    return n;
}

sw_status sw_json_cursor_check(sw_json_cursor *r) {
    int64_t n = r->end - r->first, good = utf8_prefix((const uint8_t *)r->first, n);
    if (good < n) {
        r->at = r->first + good;
        return sw_fail(r->err, SW_BAD_FILE,
                       "%s: line %" PRId64 ", byte %" PRId64 " (%" PRId64
                       " of the file): 0x%02X is not UTF-8; convert the file, "
                       "for example with iconv",
                       r->name, r->line, good + 1, r->offset + good + 1, (unsigned)(uint8_t)*r->at);
    }
    r->at = memchr(r->first, 0, (size_t)n);
    if (r->at)
        return sw_json_cursor_refuse(r, "a NUL byte; was the file cut off while it was written?");
    r->at = r->first;
    return SW_OK;
}

/* ---- the pieces of JSON ---- */

void sw_json_cursor_blanks(sw_json_cursor *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

bool sw_json_cursor_pass(sw_json_cursor *r, char c) {
    sw_json_cursor_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static int hex_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hex digits at `from`; -1 if they are not. */
static int32_t hex4(const sw_json_cursor *r, const char *from) {
    int32_t value = 0;
    if (r->end - from < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_of(from[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static char *put_code(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* The escape that begins at the backslash; *to moves on behind what it means. */
static sw_status unescape(sw_json_cursor *r, char **to) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = r->end - r->at >= 2 && r->at[1] ? strchr(names, r->at[1]) : NULL;
    if (found) {
        *(*to)++ = meanings[found - names];
        r->at += 2;
        return SW_OK;
    }
    if (r->end - r->at < 2 || r->at[1] != 'u')
        return sw_json_cursor_refuse(r, "not JSON: this is no escape; a backslash itself is \\\\");
    int32_t code = hex4(r, r->at + 2);
    if (code < 0)
        return sw_json_cursor_refuse(r, "not JSON: \\u needs four hexadecimal digits");
    if (code >= 0xD800 && code <= 0xDFFF) {
        int32_t low =
            r->end - r->at >= 12 && r->at[6] == '\\' && r->at[7] == 'u' ? hex4(r, r->at + 8) : -1;
        if (code >= 0xDC00 || low < 0xDC00 || low > 0xDFFF)
            return sw_json_cursor_refuse(r, "half a surrogate pair, which is no character");
        *to = put_code(*to, 0x10000 + (((uint32_t)code - 0xD800) << 10) + ((uint32_t)low - 0xDC00));
        r->at += 12;
        return SW_OK;
    }
    *to = put_code(*to, (uint32_t)code);
    r->at += 6;
    return SW_OK;
}

/* A string, decoded behind those before it. */
sw_status sw_json_cursor_string(sw_json_cursor *r, sw_slice *string) {
    char *const first = r->decoded + r->n_decoded, *to = first;
    if (!sw_json_cursor_pass(r, '"'))
        return sw_json_cursor_refuse(
            r, r->at == r->end ? "not JSON: the line ends inside an object; a row is one line"
                               : "not JSON: a string is needed here");
    for (;;) {
        const char *run = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (uint8_t)*r->at >= 0x20)
            r->at++;
        memcpy(to, run, (size_t)(r->at - run));
        to += r->at - run;
        if (r->at == r->end)
            return sw_json_cursor_refuse(r, "not JSON: the line ends inside a string; a row is one "
                                            "line, with line breaks spelled \\n");
        if (*r->at == '"')
            break;
        if (*r->at != '\\')
            return sw_json_cursor_refuse(
                r, "not JSON: control characters must be escaped inside strings (\\t, \\n)");
        sw_status status = unescape(r, &to);
        if (status != SW_OK)
            return status;
    }
    r->at++;
    *string = (sw_slice){first, to - first};
    r->n_decoded += to - first;
    return SW_OK;
}

static sw_status skip_digits(sw_json_cursor *r) {
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return sw_json_cursor_refuse(r, "not JSON: a digit is needed here");
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return SW_OK;
}

static sw_status skip_number(sw_json_cursor *r) {
    sw_status status;
    if (*r->at == '-')
        r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++;
    else if ((status = skip_digits(r)) != SW_OK)
        return status;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if ((status = skip_digits(r)) != SW_OK)
            return status;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        return skip_digits(r);
    }
    return SW_OK;
}

sw_status sw_json_cursor_scalar(sw_json_cursor *r) {
    static const char *const words[] = {"true", "false", "null"};
    if (*r->at == '"') {
        int64_t kept = r->n_decoded;
        sw_slice ignored;
        sw_status status = sw_json_cursor_string(r, &ignored);
        r->n_decoded = kept;
        return status;
    }
    if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))
        return skip_number(r);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
            r->at += n;
            return SW_OK;
        }
    }
    return sw_json_cursor_refuse(r, "not JSON: a value is needed here (a string in double quotes, "
                                    "a number, true, false, null, {...} or [...])");
}

/* A key and its colon, for its side effects on `at` alone. */
static sw_status skip_key(sw_json_cursor *r) {
    int64_t kept = r->n_decoded;
    sw_slice ignored;
    sw_status status = sw_json_cursor_string(r, &ignored);
    r->n_decoded = kept;
    if (status == SW_OK && !sw_json_cursor_pass(r, ':'))
        status = sw_json_cursor_refuse(r, "not JSON: a colon is needed after a key");
    return status;
}

/* Any value. The stack has a bit for each open bracket: 1 for an object. */
sw_status sw_json_cursor_skip(sw_json_cursor *r) {
    uint8_t is_object[MAX_DEPTH / 8] = {0};
    int depth = 0;
    for (;;) {
        sw_status status = SW_OK;
        sw_json_cursor_blanks(r);
        if (r->at == r->end)
            return sw_json_cursor_refuse(
                r, "not JSON: the line ends before the object does; a row is one line");
        if (*r->at == '{' || *r->at == '[') {
            bool opens_object = *r->at++ == '{';
            if (depth == MAX_DEPTH - 1)
                return sw_json_cursor_refuse(r, "brackets are nested too deep");
            if (!sw_json_cursor_pass(r, opens_object ? '}' : ']')) {
                uint8_t bit = (uint8_t)(1 << (depth & 7));
                is_object[depth / 8] = (uint8_t)(opens_object ? is_object[depth / 8] | bit
                                                              : is_object[depth / 8] & ~bit);
                depth++;
                if (opens_object && (status = skip_key(r)) != SW_OK)
                    return status;
                continue;
            }
        } else if ((status = sw_json_cursor_scalar(r)) != SW_OK) {
            return status;
        }
        for (;;) { /* a value has ended: close brackets until another one is due */
            if (depth == 0)
                return SW_OK;
            bool within_object = is_object[(depth - 1) / 8] >> ((depth - 1) & 7) & 1;
            if (sw_json_cursor_pass(r, ',')) {
                if (within_object && (status = skip_key(r)) != SW_OK)
                    return status;
                break;
            }
            if (!sw_json_cursor_pass(r, within_object ? '}' : ']'))
                return sw_json_cursor_refuse(r, within_object
                                                    ? "not JSON: a comma or } is needed here"
                                                    : "not JSON: a comma or ] is needed here");
            depth--;
        }
    }
}
