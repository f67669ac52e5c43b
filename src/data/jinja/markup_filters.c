/* markup_filters.c: filters for HTML and addresses. Nothing is escaped by itself. */
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/filters.h"
#include "data/jinja/iterate.h"
#include "data/jinja/markup.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

static bool filter_escape(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)values;
    jinja_text *text = sw_jinja_soft_text(run, self);
    return text && sw_jinja_give_text(sw_jinja_escape(run, text), out);
}

static bool filter_forceescape(jinja_run *run, const jinja_value *self, const jinja_value *values,
                               jinja_value *out) {
    (void)values;
    jinja_text *text = sw_jinja_str(run, self);
    return text && sw_jinja_give_text(sw_jinja_escape(run, text), out);
}

static bool filter_safe(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)values;
    jinja_text *text = sw_jinja_str(run, self);
    return text && sw_jinja_give_text(sw_jinja_as_markup(run, text, true), out);
}

/* Write text without what stands from each `begin` to the next `end`. */
static bool write_without(jinja_run *run, const jinja_text *text, const char *begin,
                          const char *end_mark) {
    const char *at = text->bytes, *end = sw_jinja_end_of(text);
    size_t n_end = strlen(end_mark);
    for (;;) {
        const char *first = memmem(at, (size_t)(end - at), begin, strlen(begin));
        const char *last = first ? memmem(first, (size_t)(end - first), end_mark, n_end) : NULL;
        if (!last)
            return sw_jinja_write(run, at, end - at);
        if (!sw_jinja_write(run, at, first - at) || !sw_jinja_spend(run, 1))
            return false;
        at = last + n_end;
    }
}

static bool write_unescaped(jinja_run *run, const char *first, const char *end) {
    static const struct {
        const char *spelling, *meant;
    } known[] = {{"&amp;", "&"},  {"&lt;", "<"},    {"&gt;", ">"},         {"&#39;", "'"},
                 {"&#34;", "\""}, {"&quot;", "\""}, {"&nbsp;", "\xC2\xA0"}};
    for (const char *at = first; at < end;) {
        size_t i = 0, n_known = sizeof known / sizeof *known;
        while (i < n_known && ((size_t)(end - at) < strlen(known[i].spelling) ||
                               memcmp(at, known[i].spelling, strlen(known[i].spelling)) != 0))
            i++;
        if (i < n_known ? !sw_jinja_write_words(run, known[i].meant) : !sw_jinja_write(run, at, 1))
            return false;
        at += i < n_known ? strlen(known[i].spelling) : 1;
    }
    return true;
}

static bool filter_striptags(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    (void)values;
    const jinja_text *text = sw_jinja_str(run, self);
    jinja_start start = sw_jinja_start(run);
    if (!text || !sw_jinja_spend(run, text->n_bytes))
        return false;
    text = text && write_without(run, text, "<!--", "-->") ? sw_jinja_collect(run, start) : NULL;
    text = text && write_without(run, text, "<", ">") ? sw_jinja_collect(run, start) : NULL;
    if (!text || !sw_jinja_spend_characters(run, text->n_bytes))
        return false;
    const char *end = sw_jinja_end_of(text);
    for (const char *at = sw_jinja_skip_spaces(text->bytes, end); at < end;) {
        const char *word = at;
        while (at < end && sw_jinja_skip_spaces(at, end) == at)
            at += sw_utf8_length(*at);
        if ((run->n_output > start.n_output && !sw_jinja_write(run, " ", 1)) ||
            !write_unescaped(run, word, at))
            return false;
        at = sw_jinja_skip_spaces(at, end);
    }
    return sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool filter_xmlattr(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, self);
    if (self->kind != JINJA_DICT)
        return sw_jinja_fail(run, "xmlattr needs a mapping, not %s", sw_jinja_type_name(self));
    jinja_start start = sw_jinja_start(run);
    bool has_blank = values[0].kind == JINJA_MISSING || sw_jinja_truth(&values[0]);
    for (int64_t i = 0; i < self->as.dict->n; i++) {
        const jinja_entry *entry = &self->as.dict->entries[i];
        if (entry->value.kind == JINJA_NONE || entry->value.kind == JINJA_UNDEFINED)
            continue;
        const jinja_text *key = sw_jinja_text_argument(run, "xmlattr", &entry->key);
        jinja_text *value = key ? sw_jinja_soft_text(run, &entry->value) : NULL,
                   *escaped = value ? sw_jinja_escape(run, value) : NULL;
        if (!escaped)
            return false;
        for (int64_t j = 0; j < key->n_bytes; j++)
            if (key->bytes[j] && strchr(" \t\n\r\f\v/>=", key->bytes[j]))
                return sw_jinja_fail(run, "Invalid character in attribute name");
        bool has_some = run->n_output > start.n_output;
        if (((has_some || has_blank) && !sw_jinja_write(run, " ", 1)) ||
            !sw_jinja_write_escaped(run, key) || !sw_jinja_write_words(run, "=\"") ||
            !sw_jinja_write(run, escaped->bytes, escaped->n_bytes) || !sw_jinja_write(run, "\"", 1))
            return false;
    }
    return sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

/* As a part of an address: in a query, / is quoted too and a blank is a plus. */
static bool write_quoted(jinja_run *run, const jinja_value *value, bool is_query) {
    const jinja_text *text = sw_jinja_str(run, value);
    if (!text || !sw_jinja_spend_characters(run, text->n_bytes))
        return false;
    for (int64_t i = 0; i < text->n_bytes; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        bool is_safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       (c && strchr("_.-~", c)) || (c == '/' && !is_query);
        if (is_safe                ? !sw_jinja_write(run, &text->bytes[i], 1)
            : c == ' ' && is_query ? !sw_jinja_write(run, "+", 1)
                                   : !sw_jinja_write_format(run, "%%%02X", c))
            return false;
    }
    return true;
}

static bool filter_urlencode(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    (void)values;
    jinja_start start = sw_jinja_start(run);
    jinja_value items = *self;
    if (self->kind == JINJA_TEXT || !sw_jinja_is_iterable(self))
        return write_quoted(run, self, false) &&
               sw_jinja_give_text(sw_jinja_collect(run, start), out);
    if (self->kind == JINJA_DICT)
        items.kind = JINJA_ITEMS;
    jinja_iterator iterator;
    jinja_value item;
    bool is_end = false;
    if (!sw_jinja_iterate(run, &items, &iterator))
        return false;
    for (int64_t i = 0; sw_jinja_next(run, &iterator, &item, &is_end) && !is_end; i++) {
        const jinja_value *pair;
        int64_t n;
        if (!sw_jinja_items_of(run, &item, &pair, &n))
            return false;
        if (n != 2)
            return sw_jinja_fail(run, "urlencode needs pairs; one has %lld items", (long long)n);
        if ((i > 0 && !sw_jinja_write(run, "&", 1)) || !write_quoted(run, &pair[0], true) ||
            !sw_jinja_write(run, "=", 1) || !write_quoted(run, &pair[1], true))
            return false;
    }
    return is_end && sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

const jinja_builtin sw_jinja_markup_filters[] = {
    {.name = "safe", .call = filter_safe},
    {.name = "e", .call = filter_escape},
    {.name = "escape", .call = filter_escape},
    {.name = "forceescape", .call = filter_forceescape},
    {.name = "striptags", .call = filter_striptags},
    {.name = "xmlattr", .call = filter_xmlattr, .parameters = {"autospace"}},
    {.name = "urlencode", .call = filter_urlencode},
    {0}};
