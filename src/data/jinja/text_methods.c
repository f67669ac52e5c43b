/* text_methods.c: methods of texts that cut, join and fill them. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/edit.h"
#include "data/jinja/filters.h"
#include "data/jinja/format.h"
#include "data/jinja/iterate.h"
#include "data/jinja/markup.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

static const char *first_of(const jinja_value *self) {
    return self->as.text->bytes;
}
static const char *end_of(const jinja_value *self) {
    return sw_jinja_end_of(self->as.text);
}

static bool give_part(jinja_run *run, const jinja_value *self, const char *first, const char *end,
                      jinja_value *out) {
    return sw_jinja_give_text(sw_jinja_part(run, self->as.text, first, end), out);
}

static bool add_part(jinja_run *run, jinja_items *items, const jinja_value *self, const char *first,
                     const char *end) {
    jinja_value part;
    return give_part(run, self, first, end, &part) && sw_jinja_add(run, items, &part);
}

static bool split_spaces(jinja_run *run, const jinja_value *self, int64_t most,
                         jinja_items *items) {
    const char *end = end_of(self), *at = sw_jinja_skip_spaces(first_of(self), end);
    while (at < end) {
        const char *word_end = at;
        if (items->n == most)
            return add_part(run, items, self, at, end);
        while (word_end < end) {
            const char *next = word_end;
            if (sw_python_is_space(sw_utf8_next(&next)))
                break;
            word_end = next;
        }
        if (!add_part(run, items, self, at, word_end))
            return false;
        at = sw_jinja_skip_spaces(word_end, end);
    }
    return true;
}

static bool split_at(jinja_run *run, const jinja_value *self, const jinja_text *separator,
                     int64_t most, jinja_items *items) {
    const char *at = first_of(self), *end = end_of(self), *found;
    while (items->n != most && (found = sw_jinja_find(at, end, separator))) {
        if (!add_part(run, items, self, at, found))
            return false;
        at = found + separator->n_bytes;
    }
    return add_part(run, items, self, at, end);
}

static bool split_spaces_back(jinja_run *run, const jinja_value *self, int64_t most,
                              jinja_items *items) {
    const char *first = first_of(self), *at = sw_jinja_skip_spaces_back(first, end_of(self));
    while (at > first) {
        const char *word = at;
        if (items->n == most)
            return add_part(run, items, self, first, at);
        while (word > first) {
            const char *before = word;
            if (sw_python_is_space(sw_jinja_previous(&before)))
                break;
            word = before;
        }
        if (!add_part(run, items, self, word, at))
            return false;
        at = sw_jinja_skip_spaces_back(first, word);
    }
    return true;
}

static bool split_at_back(jinja_run *run, const jinja_value *self, const jinja_text *separator,
                          int64_t most, jinja_items *items) {
    const char *first = first_of(self), *at = end_of(self), *found = NULL;
    while (items->n != most) {
        if (!sw_jinja_find_last(run, first, at, separator, &found))
            return false;
        if (!found)
            break;
        if (!add_part(run, items, self, found + separator->n_bytes, at))
            return false;
        at = found;
    }
    return add_part(run, items, self, first, at);
}

static bool split(jinja_run *run, const jinja_value *self, const jinja_value *values, bool is_back,
                  jinja_value *out) {
    int64_t most;
    jinja_items items = {0};
    const jinja_text *separator = NULL;
    bool at_spaces = values[0].kind == JINJA_MISSING || values[0].kind == JINJA_NONE;
    if (!at_spaces && !(separator = sw_jinja_text_argument(run, "split", &values[0])))
        return false;
    if (separator && separator->n_bytes == 0)
        return sw_jinja_fail(run, "empty separator");
    int64_t looked_at = self->as.text->n_bytes / (at_spaces ? 1 : 8);
    if (!sw_jinja_whole_argument(run, "split", &values[1], -1, &most) ||
        !sw_jinja_spend_characters(run, looked_at))
        return false;
    most = most < 0 ? -1 : most;
    if (!is_back)
        return (at_spaces ? split_spaces(run, self, most, &items)
                          : split_at(run, self, separator, most, &items)) &&
               sw_jinja_give_items(run, &items, JINJA_LIST, out);
    if (!(at_spaces ? split_spaces_back(run, self, most, &items)
                    : split_at_back(run, self, separator, most, &items)))
        return false;
    for (int64_t i = 0; i < items.n / 2; i++) {
        jinja_value other = items.items[i];
        items.items[i] = items.items[items.n - 1 - i];
        items.items[items.n - 1 - i] = other;
    }
    return sw_jinja_give_items(run, &items, JINJA_LIST, out);
}

static bool text_split(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return split(run, self, values, false, out);
}

static bool text_rsplit(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    return split(run, self, values, true, out);
}

static bool text_splitlines(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    jinja_items items = {0};
    const char *end = end_of(self);
    int64_t keeps_ends;
    if (!sw_jinja_whole_argument(run, "splitlines", &values[0], 0, &keeps_ends) ||
        !sw_jinja_spend_characters(run, self->as.text->n_bytes))
        return false;
    for (const char *at = first_of(self); at < end;) {
        const char *line_end = sw_jinja_line_end(at, end),
                   *next = sw_jinja_next_line(line_end, end);
        if (!add_part(run, &items, self, at, keeps_ends ? next : line_end))
            return false;
        at = next;
    }
    return sw_jinja_give_items(run, &items, JINJA_LIST, out);
}

static bool strip(jinja_run *run, const jinja_value *self, const jinja_value *values,
                  bool from_left, bool from_right, jinja_value *out) {
    const jinja_text *characters = NULL;
    if (values[0].kind != JINJA_MISSING && values[0].kind != JINJA_NONE &&
        !(characters = sw_jinja_text_argument(run, "strip", &values[0])))
        return false;
    return sw_jinja_give_text(sw_jinja_strip(run, self->as.text, characters, from_left, from_right),
                              out);
}

static bool text_strip(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return strip(run, self, values, true, true, out);
}

static bool text_lstrip(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    return strip(run, self, values, true, false, out);
}

static bool text_rstrip(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    return strip(run, self, values, false, true, out);
}

static bool text_join(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      jinja_value *out) {
    jinja_iterator iterator;
    jinja_value item;
    bool is_end = false, is_markup = self->as.text->is_markup;
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_iterate(run, &values[0], &iterator))
        return false;
    for (int64_t i = 0; sw_jinja_next(run, &iterator, &item, &is_end) && !is_end; i++) {
        if (item.kind != JINJA_TEXT && !is_markup)
            return sw_jinja_fail(run, "sequence item %lld: expected str instance, %s found",
                                 (long long)i, sw_jinja_type_name(&item));
        jinja_text *text = item.kind == JINJA_TEXT ? item.as.text : sw_jinja_str(run, &item);
        if (!text || (i > 0 && !sw_jinja_write(run, first_of(self), self->as.text->n_bytes)) ||
            !(is_markup && !text->is_markup ? sw_jinja_write_escaped(run, text)
                                            : sw_jinja_write(run, text->bytes, text->n_bytes)))
            return false;
    }
    if (!is_end)
        return false;
    jinja_text *joined = sw_jinja_collect(run, start);
    if (joined)
        joined->is_markup = is_markup;
    return sw_jinja_give_text(joined, out);
}

static bool text_replace(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    int64_t most;
    jinja_text *old = sw_jinja_text_argument(run, "replace", &values[0]);
    jinja_text *with = old ? sw_jinja_text_argument(run, "replace", &values[1]) : NULL;
    if (!with || !sw_jinja_whole_argument(run, "replace", &values[2], -1, &most))
        return false;
    if (self->as.text->is_markup && !(with = sw_jinja_escape(run, with)))
        return false;
    return sw_jinja_give_text(sw_jinja_replace(run, self->as.text, old, with, most), out);
}

static bool partition(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      bool is_last, jinja_value *out) {
    jinja_text *separator = sw_jinja_text_argument(run, "partition", &values[0]);
    if (!separator || !sw_jinja_spend_bytes(run, self->as.text->n_bytes))
        return false;
    if (separator->n_bytes == 0)
        return sw_jinja_fail(run, "empty separator");
    const char *first = first_of(self), *end = end_of(self), *found = NULL;
    if (!is_last)
        found = sw_jinja_find(first, end, separator);
    else if (!sw_jinja_find_last(run, first, end, separator, &found))
        return false;
    const char *cuts[4] = {first, found, found ? found + separator->n_bytes : NULL, end};
    if (!found)
        cuts[1] = cuts[2] = is_last ? first : end;
    jinja_items items = {0};
    return add_part(run, &items, self, cuts[0], cuts[1]) &&
           add_part(run, &items, self, cuts[1], cuts[2]) &&
           add_part(run, &items, self, cuts[2], cuts[3]) &&
           sw_jinja_give_items(run, &items, JINJA_TUPLE, out);
}

static bool text_partition(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    return partition(run, self, values, false, out);
}

static bool text_rpartition(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    return partition(run, self, values, true, out);
}

static bool text_removeprefix(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    const jinja_text *prefix = sw_jinja_text_argument(run, "removeprefix", &values[0]),
                     *text = self->as.text;
    if (!prefix)
        return false;
    bool is_there = prefix->n_bytes <= text->n_bytes &&
                    memcmp(text->bytes, prefix->bytes, (size_t)prefix->n_bytes) == 0;
    return give_part(run, self, first_of(self) + (is_there ? prefix->n_bytes : 0), end_of(self),
                     out);
}

static bool text_removesuffix(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    const jinja_text *suffix = sw_jinja_text_argument(run, "removesuffix", &values[0]),
                     *text = self->as.text;
    if (!suffix)
        return false;
    bool is_there =
        suffix->n_bytes <= text->n_bytes && memcmp(sw_jinja_end_of(text) - suffix->n_bytes,
                                                   suffix->bytes, (size_t)suffix->n_bytes) == 0;
    return give_part(run, self, first_of(self), end_of(self) - (is_there ? suffix->n_bytes : 0),
                     out);
}

/* Fill up to a width: `before` of what is missing goes to the left. */
static bool pad(jinja_run *run, const jinja_value *self, const jinja_value *values, int side,
                jinja_value *out) {
    int64_t width;
    const jinja_text *text = self->as.text, *fill = NULL;
    if (!sw_jinja_whole_argument(run, "a width", &values[0], 0, &width))
        return false;
    if (values[1].kind != JINJA_MISSING &&
        !(fill = sw_jinja_text_argument(run, "a fill", &values[1])))
        return false;
    if (fill && sw_jinja_length(fill) != 1)
        return sw_jinja_fail(run, "the fill character must be exactly one character long");
    int64_t missing = larger(0, width - sw_jinja_length(text));
    if (missing == 0)
        return give_part(run, self, first_of(self), end_of(self), out);
    int64_t before = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    jinja_start start = sw_jinja_start(run);
    const char *bytes = fill ? fill->bytes : " ";
    int64_t n_bytes = fill ? fill->n_bytes : 1;
    if (!sw_jinja_write_repeated(run, bytes, n_bytes, before) ||
        !sw_jinja_write(run, text->bytes, text->n_bytes) ||
        !sw_jinja_write_repeated(run, bytes, n_bytes, missing - before))
        return false;
    jinja_text *padded = sw_jinja_collect(run, start);
    if (padded)
        padded->is_markup = text->is_markup;
    return sw_jinja_give_text(padded, out);
}

static bool text_center(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    return pad(run, self, values, 0, out);
}

static bool text_ljust(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return pad(run, self, values, 1, out);
}

static bool text_rjust(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return pad(run, self, values, -1, out);
}

static bool text_zfill(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    int64_t width;
    const jinja_text *text = self->as.text;
    if (!sw_jinja_whole_argument(run, "zfill", &values[0], 0, &width))
        return false;
    int64_t missing = width - sw_jinja_length(text),
            n_sign = text->n_bytes && (text->bytes[0] == '-' || text->bytes[0] == '+');
    jinja_start start = sw_jinja_start(run);
    return sw_jinja_write(run, text->bytes, n_sign) &&
           sw_jinja_write_repeated(run, "0", 1, missing) &&
           sw_jinja_write(run, text->bytes + n_sign, text->n_bytes - n_sign) &&
           sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool text_expandtabs(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    int64_t size, column = 0;
    if (!sw_jinja_whole_argument(run, "expandtabs", &values[0], 8, &size) ||
        !sw_jinja_spend_characters(run, self->as.text->n_bytes))
        return false;
    jinja_start start = sw_jinja_start(run);
    for (const char *at = first_of(self), *end = end_of(self); at < end;) {
        const char *first = at;
        uint32_t code = sw_utf8_next(&at);
        int64_t n_blanks = code == '\t' && size > 0 ? size - column % size : 0;
        column = code == '\n' || code == '\r' ? 0 : column + (code == '\t' ? n_blanks : 1);
        if (code == '\t' ? !sw_jinja_write_repeated(run, " ", 1, n_blanks)
                         : !sw_jinja_write(run, first, at - first))
            return false;
    }
    return sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool text_format(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                        jinja_value *out) {
    return sw_jinja_format(run, self->as.text, arguments, out);
}

static bool text_format_map(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    return sw_jinja_format_map(run, self->as.text, &values[0], out);
}

static bool text_encode(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                        jinja_value *out) {
    (void)self, (void)arguments, (void)out;
    return sw_jinja_fail(
        run, "bytes are not built: encode, translate and maketrans of a text cannot be called");
}

const jinja_builtin sw_jinja_text_methods[] = {
    {.name = "split", .call = text_split, .parameters = {"sep", "maxsplit"}},
    {.name = "strip", .call = text_strip, .parameters = {"/chars"}},
    {.name = "lstrip", .call = text_lstrip, .parameters = {"/chars"}},
    {.name = "rstrip", .call = text_rstrip, .parameters = {"/chars"}},
    {.name = "replace",
     .call = text_replace,
     .n_required = 2,
     .parameters = {"/old", "/new", "/count"}},
    {.name = "join", .call = text_join, .n_required = 1, .parameters = {"/iterable"}},
    {.name = "rsplit", .call = text_rsplit, .parameters = {"sep", "maxsplit"}},
    {.name = "splitlines", .call = text_splitlines, .parameters = {"keepends"}},
    {.name = "partition", .call = text_partition, .n_required = 1, .parameters = {"/sep"}},
    {.name = "rpartition", .call = text_rpartition, .n_required = 1, .parameters = {"/sep"}},
    {.name = "removeprefix", .call = text_removeprefix, .n_required = 1, .parameters = {"/prefix"}},
    {.name = "removesuffix", .call = text_removesuffix, .n_required = 1, .parameters = {"/suffix"}},
    {.name = "center", .call = text_center, .n_required = 1, .parameters = {"/width", "/fillchar"}},
    {.name = "ljust", .call = text_ljust, .n_required = 1, .parameters = {"/width", "/fillchar"}},
    {.name = "rjust", .call = text_rjust, .n_required = 1, .parameters = {"/width", "/fillchar"}},
    {.name = "zfill", .call = text_zfill, .n_required = 1, .parameters = {"/width"}},
    {.name = "expandtabs", .call = text_expandtabs, .parameters = {"tabsize"}},
    {.name = "format", .call_freely = text_format},
    {.name = "format_map", .call = text_format_map, .n_required = 1, .parameters = {"/mapping"}},
    {.name = "encode", .call_freely = text_encode},
    {.name = "translate", .call_freely = text_encode},
    {.name = "maketrans", .call_freely = text_encode},
    {0}};
