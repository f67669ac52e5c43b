/* jsonl.c: a strict JSON reader for one line at a time.
 *
 * The line is first checked to be UTF-8 without raw control characters (other than white space), so that strings are copied
 * without looking again. Objects that are read keep a list of their keys, sorted at the end to find one that came twice. Values
 * that nobody asked for are passed over without recursion: one bit for each open bracket.
 */
#include "data/jsonl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MAX_DEPTH = 2048 }; /* as json.h */

typedef struct line_reader {
    sw_jsonl *rows;
    const char *first, *at, *end; /* of the line */
    sw_error *err;
} line_reader;

/* ---- messages ---- */

static sw_status refuse(const line_reader *r, const char *reason) {
    return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ", byte %" PRId64 ": %s", r->rows->name, r->rows->line,
                   (int64_t)(r->at - r->first) + 1, reason);
}

static sw_status refuse_line(const line_reader *r, const char *reason) {
    return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": %s", r->rows->name, r->rows->line, reason);
}

static sw_status no_memory(const sw_jsonl *rows, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "%s: line %" PRId64 ": no memory for the row", rows->name, rows->line);
}

/* What kind of value begins here, for messages. */
static const char *value_words(const line_reader *r) {
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

static sw_status wrong_type(const line_reader *r, const char *key, const char *needed) {
    return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": `%s` must be %s, is %s", r->rows->name, r->rows->line, key, needed,
                   value_words(r));
}

/* ---- UTF-8 ---- */

/* The offset of the first byte that does not belong to UTF-8 text; n if all do (Unicode 15, table 3-7). */
static int64_t utf8_prefix(const uint8_t *s, int64_t n) {
    for (int64_t i = 0; i < n;) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, s + i, 8), !(eight & UINT64_C(0x8080808080808080)))) {
            i += 8;
            continue;
        }
        uint8_t c = s[i], low = 0x80, high = 0xBF;
        int n_more = c < 0x80 ? 0 : c >= 0xC2 && c <= 0xDF ? 1 : c >= 0xE0 && c <= 0xEF ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : -1;
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

static sw_status check_bytes(line_reader *r) {
    int64_t n = r->end - r->first, good = utf8_prefix((const uint8_t *)r->first, n);
    if (good < n) {
        r->at = r->first + good;
        return sw_fail(r->err, SW_BAD_FILE,
                       "%s: line %" PRId64 ", byte %" PRId64 " (%" PRId64 " of the file): 0x%02X is not UTF-8; convert the file, "
                       "for example with iconv",
                       r->rows->name, r->rows->line, good + 1, r->rows->offset + (r->at - r->rows->text) + 1,
                       (unsigned)(uint8_t)*r->at);
    }
    r->at = memchr(r->first, 0, (size_t)n);
    if (r->at)
        return refuse(r, "a NUL byte; was the file cut off while it was written?");
    r->at = r->first;
    return SW_OK;
}

/* ---- the pieces of JSON ---- */

static void skip_blanks(line_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool pass(line_reader *r, char c) {
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static int hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hex digits at `from`; -1 if they are not. */
static int32_t hex4(const line_reader *r, const char *from) {
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
static sw_status unescape(line_reader *r, char **to) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = r->end - r->at >= 2 && r->at[1] ? strchr(names, r->at[1]) : NULL;
    if (found) {
        *(*to)++ = meanings[found - names];
        r->at += 2;
        return SW_OK;
    }
    if (r->end - r->at < 2 || r->at[1] != 'u')
        return refuse(r, "not JSON: this is no escape; a backslash itself is \\\\");
    int32_t code = hex4(r, r->at + 2);
    if (code < 0)
        return refuse(r, "not JSON: \\u needs four hexadecimal digits");
    if (code >= 0xD800 && code <= 0xDFFF) {
        int32_t low = r->end - r->at >= 12 && r->at[6] == '\\' && r->at[7] == 'u' ? hex4(r, r->at + 8) : -1;
        if (code >= 0xDC00 || low < 0xDC00 || low > 0xDFFF)
            return refuse(r, "half a surrogate pair, which is no character");
        *to = put_code(*to, 0x10000 + (((uint32_t)code - 0xD800) << 10) + ((uint32_t)low - 0xDC00));
        r->at += 12;
        return SW_OK;
    }
    *to = put_code(*to, (uint32_t)code);
    r->at += 6;
    return SW_OK;
}

/* A string, decoded behind those before it. */
static sw_status read_string(line_reader *r, sw_slice *string) {
    char *const first = r->rows->decoded + r->rows->n_decoded, *to = first;
    if (!pass(r, '"'))
        return refuse(r, "not JSON: a string is needed here");
    for (;;) {
        const char *run = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (uint8_t)*r->at >= 0x20)
            r->at++;
        memcpy(to, run, (size_t)(r->at - run));
        to += r->at - run;
        if (r->at == r->end)
            return refuse(r, "not JSON: the line ends inside a string; a row is one line, with line breaks spelled \\n");
        if (*r->at == '"')
            break;
        if (*r->at != '\\')
            return refuse(r, "not JSON: control characters must be escaped inside strings (\\t, \\n)");
        sw_status status = unescape(r, &to);
        if (status != SW_OK)
            return status;
    }
    r->at++;
    *string = (sw_slice){first, to - first};
    r->rows->n_decoded += to - first;
    return SW_OK;
}

static sw_status skip_digits(line_reader *r) {
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return refuse(r, "not JSON: a digit is needed here");
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return SW_OK;
}

static sw_status skip_number(line_reader *r) {
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

static sw_status skip_scalar(line_reader *r) {
    static const char *const words[] = {"true", "false", "null"};
    if (*r->at == '"') {
        int64_t kept = r->rows->n_decoded;
        sw_slice ignored;
        sw_status status = read_string(r, &ignored);
        r->rows->n_decoded = kept;
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
    return refuse(r, "not JSON: a value is needed here (a string in double quotes, a number, true, false, null, {...} or [...])");
}

/* A key and its colon, for its side effects on `at` alone. */
static sw_status skip_key(line_reader *r) {
    int64_t kept = r->rows->n_decoded;
    sw_slice ignored;
    sw_status status = read_string(r, &ignored);
    r->rows->n_decoded = kept;
    if (status == SW_OK && !pass(r, ':'))
        status = refuse(r, "not JSON: a colon is needed after a key");
    return status;
}

/* Any value. The stack has a bit for each open bracket: 1 for an object. */
static sw_status skip_value(line_reader *r) {
    uint8_t is_object[MAX_DEPTH / 8];
    int depth = 0;
    for (;;) {
        sw_status status = SW_OK;
        skip_blanks(r);
        if (r->at == r->end)
            return refuse(r, "not JSON: the line ends before the object does; a row is one line");
        if (*r->at == '{' || *r->at == '[') {
            bool opens_object = *r->at++ == '{';
            if (depth == MAX_DEPTH - 1)
                return refuse(r, "brackets are nested too deep");
            if (!pass(r, opens_object ? '}' : ']')) {
                uint8_t bit = (uint8_t)(1 << (depth & 7));
                is_object[depth / 8] = (uint8_t)(opens_object ? is_object[depth / 8] | bit : is_object[depth / 8] & ~bit);
                depth++;
                if (opens_object && (status = skip_key(r)) != SW_OK)
                    return status;
                continue;
            }
        } else if ((status = skip_scalar(r)) != SW_OK) {
            return status;
        }
        for (;;) { /* a value has ended: close brackets until another one is due */
            if (depth == 0)
                return SW_OK;
            bool within_object = is_object[(depth - 1) / 8] >> ((depth - 1) & 7) & 1;
            if (pass(r, ',')) {
                if (within_object && (status = skip_key(r)) != SW_OK)
                    return status;
                break;
            }
            if (!pass(r, within_object ? '}' : ']'))
                return refuse(r,
                              within_object ? "not JSON: a comma or } is needed here" : "not JSON: a comma or ] is needed here");
            depth--;
        }
    }
}

/* ---- keys ---- */

static bool is_text(sw_slice slice, const char *text) {
    return (size_t)slice.bytes == strlen(text) && memcmp(slice.text, text, (size_t)slice.bytes) == 0;
}

static int by_bytes(const void *a, const void *b) {
    const sw_slice *x = a, *y = b;
    int order = memcmp(x->text, y->text, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Note a key of the object being read, after `first_key` others. */
static sw_status read_key(line_reader *r, sw_slice *key) {
    sw_jsonl *rows = r->rows;
    sw_status status = read_string(r, key);
    if (status != SW_OK)
        return status;
    if (rows->n_keys == rows->key_capacity) {
        int capacity = rows->key_capacity ? 2 * rows->key_capacity : 16;
        sw_slice *keys = realloc(rows->keys, (size_t)capacity * sizeof *keys);
        if (!keys)
            return no_memory(rows, r->err);
        rows->keys = keys;
        rows->key_capacity = capacity;
    }
    rows->keys[rows->n_keys++] = *key;
    return pass(r, ':') ? (skip_blanks(r), SW_OK) : refuse(r, "not JSON: a colon is needed after a key");
}

static sw_status check_keys(line_reader *r, int first_key) {
    sw_slice *keys = r->rows->keys;
    int n = r->rows->n_keys - first_key;
    if (n > 1) {
        qsort(keys + first_key, (size_t)n, sizeof *keys, by_bytes);
        for (int i = first_key + 1; i < r->rows->n_keys; i++)
            if (by_bytes(&keys[i - 1], &keys[i]) == 0)
                return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": the key `%.*s` comes twice; which is meant?",
                               r->rows->name, r->rows->line, keys[i].bytes > 40 ? 40 : (int)keys[i].bytes, keys[i].text);
    }
    return SW_OK;
}

static sw_status read_text_value(line_reader *r, const char *key, sw_slice *value) {
    if (r->at < r->end && *r->at != '"')
        return strchr("{[tfn-0123456789", *r->at) ? wrong_type(r, key, "a string") : skip_scalar(r);
    return read_string(r, value);
}

/* ---- messages of a conversation ---- */

static const char *const role_names[SW_N_ROLES] = {"system", "user", "assistant"};

static sw_status role_of(line_reader *r, sw_slice name, sw_role *role) {
    for (int i = 0; i < SW_N_ROLES; i++)
        if (is_text(name, role_names[i])) {
            *role = (sw_role)i;
            return SW_OK;
        }
    char word[48];
    int n = name.bytes < (int64_t)sizeof word ? (int)name.bytes : (int)sizeof word - 1;
    memcpy(word, name.text, (size_t)n);
    word[n] = 0;
    const char *nearest = sw_text_nearest(word, role_names, SW_N_ROLES);
    return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": the role `%s` is unknown; %s%s", r->rows->name, r->rows->line,
                   word, nearest ? "did you mean " : "known are system, user and assistant", nearest ? nearest : "");
}

static sw_status read_message(line_reader *r, int number, sw_message *message) {
    int first_key = r->rows->n_keys;
    bool has_role = false, has_content = false;
    skip_blanks(r);
    if (r->at < r->end && *r->at != '{')
        return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": message %d of `messages` must be an object, is %s",
                       r->rows->name, r->rows->line, number, value_words(r));
    if (!pass(r, '{'))
        return refuse(r, "not JSON: a message is needed here");
    if (!pass(r, '}')) {
        do {
            sw_slice key, role;
            sw_status status = read_key(r, &key);
            if (status != SW_OK)
                return status;
            if (is_text(key, "role")) {
                has_role = true;
                if ((status = read_text_value(r, "role", &role)) == SW_OK)
                    status = role_of(r, role, &message->role);
            } else if (is_text(key, "content")) {
                has_content = true;
                status = read_text_value(r, "content", &message->content);
            } else {
                status = skip_value(r);
            }
            if (status != SW_OK)
                return status;
        } while (pass(r, ','));
        if (!pass(r, '}'))
            return refuse(r, "not JSON: a comma or } is needed here");
    }
    sw_status status = check_keys(r, first_key);
    if (status == SW_OK && (!has_role || !has_content))
        status = sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": message %d has no `%s`", r->rows->name, r->rows->line,
                         number, has_role ? "content" : "role");
    r->rows->n_keys = first_key;
    return status;
}

static sw_status read_messages(line_reader *r, sw_jsonl_row *row) {
    sw_jsonl *rows = r->rows;
    if (r->at < r->end && *r->at != '[')
        return strchr("{\"tfn-0123456789", *r->at) ? wrong_type(r, "messages", "a list") : skip_scalar(r);
    if (!pass(r, '['))
        return refuse(r, "not JSON: a list is needed here");
    if (pass(r, ']'))
        return refuse_line(r, "`messages` is empty; a conversation has at least one message");
    row->n_messages = 0;
    do {
        if (row->n_messages == rows->message_capacity) {
            int capacity = rows->message_capacity ? 2 * rows->message_capacity : 16;
            sw_message *messages = realloc(rows->messages, (size_t)capacity * sizeof *messages);
            if (!messages)
                return no_memory(rows, r->err);
            rows->messages = messages;
            rows->message_capacity = capacity;
        }
        sw_status status = read_message(r, row->n_messages + 1, &rows->messages[row->n_messages]);
        if (status != SW_OK)
            return status;
        row->n_messages++;
    } while (pass(r, ','));
    row->messages = rows->messages;
    return pass(r, ']') ? SW_OK : refuse(r, "not JSON: a comma or ] is needed here");
}

/* ---- a row ---- */

enum { HAS_TEXT = 1, HAS_PROMPT = 2, HAS_COMPLETION = 4, HAS_MESSAGES = 8 };

static sw_status name_unknown_keys(line_reader *r) {
    static const char *const names[] = {"text", "prompt", "completion", "messages"};
    sw_jsonl *rows = r->rows;
    for (int i = 0; i < rows->n_keys; i++) {
        char word[48];
        if (rows->keys[i].bytes >= (int64_t)sizeof word || memchr(rows->keys[i].text, 0, (size_t)rows->keys[i].bytes))
            continue;
        memcpy(word, rows->keys[i].text, (size_t)rows->keys[i].bytes);
        word[rows->keys[i].bytes] = 0;
        const char *nearest = sw_text_nearest(word, names, 4);
        if (nearest)
            return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": the key `%s` is unknown; did you mean `%s`?", rows->name,
                           rows->line, word, nearest);
    }
    return refuse_line(r, rows->n_keys ? "no known key; a row has `text`, or `prompt` and `completion`, or `messages`"
                                       : "the object is empty; a row has `text`, or `prompt` and `completion`, or `messages`");
}

static sw_status form_of(line_reader *r, int has, sw_jsonl_row *row) {
    switch (has) {
    case HAS_TEXT:
        row->form = SW_JSONL_TEXT;
        return SW_OK;
    case HAS_PROMPT | HAS_COMPLETION:
        row->form = SW_JSONL_COMPLETION;
        return SW_OK;
    case HAS_MESSAGES:
        row->form = SW_JSONL_MESSAGES;
        return SW_OK;
    case HAS_PROMPT:
        return refuse_line(r, "`prompt` without `completion`");
    case HAS_COMPLETION:
        return refuse_line(r, "`completion` without `prompt`");
    case 0:
        return name_unknown_keys(r);
    default:
        return sw_fail(r->err, SW_BAD_FILE,
                       "%s: line %" PRId64 ": two forms in one row (%s%s%s%s); it is not clear what to train on", r->rows->name,
                       r->rows->line, has & HAS_TEXT ? "`text` " : "", has & HAS_PROMPT ? "`prompt` " : "",
                       has & HAS_COMPLETION ? "`completion` " : "", has & HAS_MESSAGES ? "`messages` " : "");
    }
}

static sw_status read_member(line_reader *r, sw_jsonl_row *row, int *has) {
    sw_slice key;
    sw_status status = read_key(r, &key);
    if (status != SW_OK)
        return status;
    if (is_text(key, "text")) {
        *has |= HAS_TEXT;
        return read_text_value(r, "text", &row->text);
    }
    if (is_text(key, "prompt")) {
        *has |= HAS_PROMPT;
        return read_text_value(r, "prompt", &row->prompt);
    }
    if (is_text(key, "completion")) {
        *has |= HAS_COMPLETION;
        return read_text_value(r, "completion", &row->completion);
    }
    /* A second list of messages is passed over like any value: check_keys refuses it, and the first stays whole. */
    if (is_text(key, "messages") && !(*has & HAS_MESSAGES)) {
        *has |= HAS_MESSAGES;
        return read_messages(r, row);
    }
    return skip_value(r);
}

static sw_status begin_object(line_reader *r) {
    skip_blanks(r);
    if (*r->at == '{') {
        r->at++;
        return SW_OK;
    }
    if (*r->at == '<')
        return refuse(r, "not JSON; it looks like a web page: is it an error page saved as data?");
    if (r->end - r->at >= 3 && memcmp(r->at, "\xEF\xBB\xBF", 3) == 0)
        return refuse(r, "a byte order mark where a row should begin; were two files joined?");
    if (strchr("\"[tfn-0123456789", *r->at)) {
        const char *kind = value_words(r);
        return sw_fail(r->err, SW_BAD_FILE, "%s: line %" PRId64 ": a row must be an object ({...}), this is %s", r->rows->name,
                       r->rows->line, kind);
    }
    return refuse(r, "not JSON: a row is an object ({...})");
}

static sw_status read_row(line_reader *r, sw_jsonl_row *row) {
    int has = 0;
    sw_status status = check_bytes(r);
    if (status == SW_OK)
        status = begin_object(r);
    if (status != SW_OK)
        return status;
    if (!pass(r, '}')) {
        do
            if ((status = read_member(r, row, &has)) != SW_OK)
                return status;
        while (pass(r, ','));
        if (!pass(r, '}'))
            return refuse(r, r->at == r->end ? "not JSON: the line ends before the object does; a row is one line"
                                             : "not JSON: a comma or } is needed here");
    }
    skip_blanks(r);
    if (r->at < r->end)
        return refuse(r, "something stands after the object; a line holds one row and nothing else");
    if ((status = check_keys(r, 0)) != SW_OK)
        return status;
    return form_of(r, has, row);
}

/* ---- the file ---- */

void sw_jsonl_begin_part(sw_jsonl *rows, const char *name, const char *text, int64_t bytes, int64_t n_lines_before,
                         int64_t n_bytes_before) {
    *rows =
        (sw_jsonl){.name = name, .text = text, .at = text, .end = text + bytes, .line = n_lines_before, .offset = n_bytes_before};
}

sw_status sw_jsonl_begin(sw_jsonl *rows, const char *name, const char *text, int64_t bytes, sw_error *err) {
    static const char lfs[] = "version https://git-lfs";
    sw_jsonl_begin_part(rows, name, text, bytes, 0, 0);
    if (bytes == 0)
        return sw_fail(err, SW_BAD_FILE, "%s: is empty; it has no rows", name);
    if (bytes >= 2 && memcmp(text, "\x1F\x8B", 2) == 0)
        return sw_fail(err, SW_BAD_FILE, "%s: line 1: is compressed by gzip; unpack it with gzip -d", name);
    if (bytes >= 2 &&
        (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0 || (text[0] && !text[1]) || (!text[0] && text[1])))
        return sw_fail(err, SW_BAD_FILE, "%s: line 1: is UTF-16; convert it with iconv -f UTF-16 -t UTF-8", name);
    if ((size_t)bytes >= sizeof lfs - 1 && memcmp(text, lfs, sizeof lfs - 1) == 0)
        return sw_fail(err, SW_BAD_FILE, "%s: line 1: is a Git LFS pointer, the data was never fetched; try git lfs pull", name);
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        rows->at += 3;
    return SW_OK;
}

sw_status sw_jsonl_next(sw_jsonl *rows, sw_jsonl_row *row, bool *is_end, sw_error *err) {
    *is_end = false;
    for (;;) {
        if (rows->at == rows->end) {
            *is_end = true;
            return SW_OK;
        }
        const char *end = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
        line_reader r = {rows, rows->at, rows->at, end ? end : rows->end, err};
        rows->at = end ? end + 1 : rows->end;
        rows->line++;
        skip_blanks(&r);
        if (r.at == r.end)
            continue;

        int64_t needed = r.end - r.first;
        if (needed > rows->decoded_capacity) {
            char *decoded = realloc(rows->decoded, (size_t)needed + (size_t)needed / 2);
            if (!decoded)
                return no_memory(rows, err);
            rows->decoded = decoded;
            rows->decoded_capacity = needed + needed / 2;
        }
        rows->n_decoded = 0;
        rows->n_keys = 0;
        *row = (sw_jsonl_row){.line = rows->line};
        sw_status status = read_row(&r, row);
        rows->n_rows += status == SW_OK;
        return status;
    }
}

sw_status sw_jsonl_check_rows(const sw_jsonl *rows, sw_error *err) {
    return rows->n_rows > 0 ? SW_OK : sw_fail(err, SW_BAD_FILE, "%s: has no rows (every line is blank)", rows->name);
}

void sw_jsonl_end(sw_jsonl *rows) {
    free(rows->decoded);
    free(rows->messages);
    free(rows->keys);
    *rows = (sw_jsonl){0};
}
