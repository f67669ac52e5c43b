/* text.c: texts made, measured, cut and joined. */
#include "data/jinja/text.h"

#include "base/hash.h"
#include "base/integer.h"
#include "data/jinja/origin.h"

enum { WORTH_GROWING = 64 };

jinja_text *sw_jinja_view(jinja_run *run, const char *bytes, int64_t n_bytes) {
    jinja_text *text = sw_jinja_take(run, sizeof *text);
    if (text)
        *text = (jinja_text){.bytes = bytes, .n_bytes = n_bytes, .n_characters = -1};
    return text;
}

jinja_text *sw_jinja_text(jinja_run *run, const char *bytes, int64_t n_bytes) {
    jinja_text *text = sw_jinja_take(run, (int64_t)sizeof *text + n_bytes);
    if (!text)
        return NULL;
    char *copy = (char *)(text + 1);
    if (n_bytes)
        memcpy(copy, bytes, (size_t)n_bytes);
    if (sw_jinja_traces(run))
        sw_jinja_copy_origins(run, copy, bytes, n_bytes);
    *text = (jinja_text){.bytes = copy, .n_bytes = n_bytes, .n_characters = -1};
    return text;
}

bool sw_jinja_give_text(jinja_text *text, jinja_value *out) {
    if (text)
        *out = sw_jinja_of_text(text);
    return text != NULL;
}

int64_t sw_jinja_count(const char *bytes, int64_t n_bytes) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_bytes; i++)
        n += (bytes[i] & 0xC0) != 0x80;
    return n;
}

void sw_jinja_text_settle(jinja_text *text) {
    text->n_characters = sw_jinja_count(text->bytes, text->n_bytes);
    sw_jinja_text_hash(text);
}

int64_t sw_jinja_length(const jinja_text *text) {
    if (text->n_characters < 0)
        ((jinja_text *)text)->n_characters =
            sw_jinja_count(text->bytes, text->n_bytes); /* texts that are shared are settled */
    return text->n_characters;
}

const char *sw_jinja_at(const jinja_text *text, int64_t i) {
    if (sw_jinja_length(text) == text->n_bytes)
        return text->bytes + i;
    const char *at = text->bytes;
    for (; i > 0; i--)
        at += sw_utf8_length(*at);
    return at;
}

uint64_t sw_jinja_text_hash(jinja_text *text) {
    if (text->hash == 0)
        text->hash = sw_hash_bytes(SW_HASH_START, text->bytes, (size_t)text->n_bytes) | 1;
    return text->hash;
}

bool sw_jinja_is_word(const jinja_text *text, const char *word) {
    return (size_t)text->n_bytes == strlen(word) &&
           memcmp(text->bytes, word, (size_t)text->n_bytes) == 0;
}

int sw_jinja_text_order(const jinja_text *a, const jinja_text *b) {
    int64_t n = smaller(a->n_bytes, b->n_bytes);
    int order = n ? memcmp(a->bytes, b->bytes, (size_t)n)
                  : 0; /* the order of UTF-8 is that of code points */
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

jinja_text *sw_jinja_part(jinja_run *run, const jinja_text *text, const char *first,
                          const char *end) {
    if (first == text->bytes && end == sw_jinja_end_of(text))
        return (jinja_text *)text;
    jinja_text *part = sw_jinja_view(run, first, end - first);
    if (part) {
        part->is_markup = text->is_markup;
        if (text->n_characters == text->n_bytes)
            part->n_characters = part->n_bytes;
    }
    return part;
}

static bool join_marks(jinja_run *run, const jinja_text *a, const jinja_text *b,
                       jinja_text *joined) {
    if (a->n_marks + b->n_marks == 0)
        return true;
    jinja_mark *marks =
        sw_jinja_take(run, ((int64_t)a->n_marks + b->n_marks) * (int64_t)sizeof *marks);
    if (!marks)
        return false;
    for (int i = 0; i < a->n_marks; i++)
        marks[i] = a->marks[i];
    for (int i = 0; i < b->n_marks; i++) {
        marks[a->n_marks + i] = b->marks[i];
        marks[a->n_marks + i].first += a->n_bytes;
        marks[a->n_marks + i].end += a->n_bytes;
    }
    joined->marks = marks;
    joined->n_marks = a->n_marks + b->n_marks;
    return sw_jinja_spend(run, joined->n_marks);
}

jinja_text *sw_jinja_join(jinja_run *run, jinja_text *a, jinja_text *b) {
    if (b->n_bytes == 0 && b->n_marks == 0)
        return a;
    if (a->n_bytes == 0 && a->n_marks == 0)
        return b;
    int64_t n_bytes = a->n_bytes + b->n_bytes;
    if (n_bytes > run->options.max_output) {
        sw_jinja_fail(run, "a text of more than %lld MiB",
                      (long long)(run->options.max_output >> 20));
        return NULL;
    }
    jinja_text *joined = sw_jinja_view(run, a->bytes, n_bytes);
    if (!joined || !sw_jinja_spend_bytes(run, b->n_bytes) || !join_marks(run, a, b, joined))
        return NULL;
    jinja_growth *growth = a->growth;
    if (!growth || growth->end != sw_jinja_end_of(a) || growth->room < b->n_bytes) {
        int64_t room = n_bytes < WORTH_GROWING ? 0 : n_bytes;
        growth = sw_jinja_take(run, (int64_t)sizeof *growth + n_bytes + room);
        if (!growth || !sw_jinja_spend_bytes(run, a->n_bytes))
            return NULL;
        char *bytes = (char *)(growth + 1);
        memcpy(bytes, a->bytes, (size_t)a->n_bytes);
        if (sw_jinja_traces(run))
            sw_jinja_copy_origins(run, bytes, a->bytes, a->n_bytes);
        *growth = (jinja_growth){bytes + a->n_bytes, b->n_bytes + room};
        joined->bytes = bytes;
    }
    memcpy((char *)(uintptr_t)growth->end, b->bytes, (size_t)b->n_bytes);
    if (sw_jinja_traces(run))
        sw_jinja_copy_origins(run, growth->end, b->bytes, b->n_bytes);
    growth->end = (const char *)growth->end + b->n_bytes;
    growth->room -= b->n_bytes;
    joined->growth = growth;
    if (a->n_characters >= 0 && b->n_characters >= 0)
        joined->n_characters = a->n_characters + b->n_characters;
    return joined;
}

const char *sw_jinja_find(const char *first, const char *end, const jinja_text *needle) {
    return end - first < needle->n_bytes
               ? NULL
               : memmem(first, (size_t)(end - first), needle->bytes, (size_t)needle->n_bytes);
}

bool sw_jinja_find_last(jinja_run *run, const char *first, const char *end,
                        const jinja_text *needle, const char **place) {
    *place = needle->n_bytes == 0 ? end : NULL;
    if (needle->n_bytes == 0 || end - first < needle->n_bytes)
        return true;
    for (const char *at = end - needle->n_bytes; at >= first; at--) {
        at = memrchr(first, needle->bytes[0], (size_t)(at - first) + 1);
        if (!at || !sw_jinja_spend_bytes(run, needle->n_bytes))
            return at == NULL;
        if (memcmp(at, needle->bytes, (size_t)needle->n_bytes) == 0) {
            *place = at;
            return true;
        }
    }
    return true;
}

const char *sw_jinja_skip_spaces(const char *at, const char *end) {
    while (at < end) {
        const char *next = at;
        if (!sw_python_is_space(sw_utf8_next(&next)))
            break;
        at = next;
    }
    return at;
}

const char *sw_jinja_skip_spaces_back(const char *first, const char *end) {
    while (end > first) {
        const char *before = end;
        if (!sw_python_is_space(sw_jinja_previous(&before)))
            break;
        end = before;
    }
    return end;
}
