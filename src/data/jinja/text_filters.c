/* text_filters.c: filters that make a text of a text. What is no text is printed first. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/case.h"
#include "data/jinja/compare.h"
#include "data/jinja/edit.h"
#include "data/jinja/execute.h"
#include "data/jinja/filters.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/percent.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

static bool change(jinja_run *run, const jinja_value *self, jinja_case to, jinja_value *out) {
    const jinja_text *text = sw_jinja_soft_text(run, self);
    return text && sw_jinja_give_text(sw_jinja_change_case(run, text, to), out);
}

static bool filter_upper(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_UPPER, out);
}

static bool filter_lower(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_LOWER, out);
}

static bool filter_capitalize(jinja_run *run, const jinja_value *self, const jinja_value *values,
                              jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_CAPITALIZE, out);
}

static bool separates_words(uint32_t code) {
    return (code < 0x80 && code && strchr("-({[<", (int)code)) || sw_python_is_space(code);
}

/* Words begin behind blanks, hyphens and opening brackets; each by itself. */
static bool filter_title(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    const jinja_text *text = sw_jinja_soft_text(run, self);
    if (!text)
        return false;
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_spend_characters(run, text->n_bytes))
        return false;
    for (const char *at = text->bytes, *end = sw_jinja_end_of(text); at < end;) {
        const char *first = at, *second = at, *next = at;
        bool separates = separates_words(sw_utf8_next(&second));
        while (at < end && separates_words(sw_utf8_next(&next)) == separates)
            at = next;
        if (!sw_jinja_write_case(run, first, second, JINJA_UPPER) ||
            !sw_jinja_write_case(run, second, at, JINJA_LOWER))
            return false;
    }
    return sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool filter_trim(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    const jinja_text *text = sw_jinja_soft_text(run, self), *characters = NULL;
    bool has_characters = values[0].kind != JINJA_MISSING && values[0].kind != JINJA_NONE;
    if (!text ||
        (has_characters && !(characters = sw_jinja_text_argument(run, "trim", &values[0]))))
        return false;
    return sw_jinja_give_text(sw_jinja_strip(run, text, characters, true, true), out);
}

static bool filter_replace(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    int64_t most = -1;
    const jinja_text *text = sw_jinja_str(run, self),
                     *old = text ? sw_jinja_str(run, &values[0]) : NULL;
    const jinja_text *with = old ? sw_jinja_str(run, &values[1]) : NULL;
    if (!with || (values[2].kind != JINJA_NONE &&
                  !sw_jinja_whole_argument(run, "replace", &values[2], -1, &most)))
        return false;
    return sw_jinja_give_text(sw_jinja_replace(run, text, old, with, most), out);
}

static bool filter_center(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    int64_t width;
    const jinja_text *text = sw_jinja_soft_text(run, self);
    if (!text || !sw_jinja_whole_argument(run, "center", &values[0], 80, &width))
        return false;
    int64_t missing = larger(0, width - sw_jinja_length(text)),
            before = missing / 2 + (missing & width & 1);
    jinja_start start = sw_jinja_start(run);
    return sw_jinja_write_repeated(run, " ", 1, before) &&
           sw_jinja_write(run, text->bytes, text->n_bytes) &&
           sw_jinja_write_repeated(run, " ", 1, missing - before) &&
           sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool filter_indent(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    const jinja_text *text = sw_jinja_text_argument(run, "indent", self), *by = NULL;
    int64_t width = 4;
    if (!text)
        return false;
    if (values[0].kind == JINJA_TEXT)
        by = values[0].as.text;
    else if (!sw_jinja_whole_argument(run, "indent", &values[0], 4, &width))
        return false;
    bool first = sw_jinja_is_set(&values[1]), blank = sw_jinja_is_set(&values[2]);
    jinja_start start = sw_jinja_start(run);
    bool is_first = true;
    if (!sw_jinja_spend_characters(run, text->n_bytes))
        return false;
    /* One line more than there are line ends: the text is cut as if a newline stood behind it. */
    for (const char *at = text->bytes, *end = sw_jinja_end_of(text);; is_first = false) {
        const char *line_end = sw_jinja_line_end(at, end);
        bool is_indented = is_first ? first : blank || line_end > at;
        bool is_done = is_first || sw_jinja_write(run, "\n", 1);
        if (is_done && is_indented)
            is_done = by ? sw_jinja_write(run, by->bytes, by->n_bytes)
                         : sw_jinja_write_repeated(run, " ", 1, width);
        if (!is_done || !sw_jinja_write(run, at, line_end - at) || !sw_jinja_spend(run, 1))
            return false;
        if (line_end == end || (*line_end == '\r' &&
                                line_end + 1 == end)) /* that one goes together with the newline */
            break;
        at = sw_jinja_next_line(line_end, end);
    }
    jinja_text *indented = sw_jinja_collect(run, start);
    if (indented)
        indented->is_markup = text->is_markup;
    return sw_jinja_give_text(indented, out);
}

static bool filter_truncate(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    int64_t length, leeway = 5, size = sw_jinja_size(self);
    jinja_value dots = sw_jinja_of_text(sw_jinja_words(run, "..."));
    const jinja_text *end =
        dots.as.text ? sw_jinja_text_argument(run, "truncate",
                                              values[2].kind == JINJA_MISSING ? &dots : &values[2])
                     : NULL;
    if (!end || !sw_jinja_whole_argument(run, "truncate", &values[0], 255, &length) ||
        (values[3].kind != JINJA_NONE &&
         !sw_jinja_whole_argument(run, "truncate", &values[3], 5, &leeway)))
        return false;
    if (length < sw_jinja_length(end))
        return sw_jinja_fail(run, "truncate: expected length >= %lld, got %lld",
                             (long long)sw_jinja_length(end), (long long)length);
    if (leeway < 0)
        return sw_jinja_fail(run, "truncate: expected leeway >= 0, got %lld", (long long)leeway);
    if (size < 0)
        return sw_jinja_fail(run, "object of type '%s' has no len()", sw_jinja_type_name(self));
    if (size <= length || size - length <= leeway) {
        *out = *self;
        return true;
    }
    const jinja_text *text = sw_jinja_text_argument(run, "truncate", self);
    if (!text)
        return false;
    const char *cut = sw_jinja_at(text, length - sw_jinja_length(end));
    if (!sw_jinja_is_set(&values[1])) {
        const char *blank =
            cut > text->bytes ? memrchr(text->bytes, ' ', (size_t)(cut - text->bytes)) : NULL;
        cut = blank ? blank : cut;
    }
    jinja_value part = {.kind = JINJA_TEXT, .as.text = sw_jinja_part(run, text, text->bytes, cut)},
                tail = sw_jinja_of_text((jinja_text *)end);
    return part.as.text && sw_jinja_operate(run, JINJA_ADD, &part, &tail, out);
}

static bool filter_wordcount(jinja_run *run, const jinja_value *self, const jinja_value *values,
                             jinja_value *out) {
    (void)values;
    const jinja_text *text = sw_jinja_soft_text(run, self);
    int64_t n = 0;
    bool was_word = false;
    if (!text || !sw_jinja_spend_characters(run, text->n_bytes))
        return false;
    for (const char *at = text->bytes; at < sw_jinja_end_of(text);) {
        bool is_word = sw_python_is_word(sw_utf8_next(&at));
        n += is_word && !was_word;
        was_word = is_word;
    }
    *out = sw_jinja_integer(n);
    return true;
}

static bool filter_format(jinja_run *run, const jinja_value *self, const jinja_arguments *arguments,
                          jinja_value *out) {
    const jinja_text *text = sw_jinja_soft_text(run, self);
    jinja_value values;
    if (!text)
        return false;
    if (arguments->n && arguments->n_keywords)
        return sw_jinja_fail(
            run, "format: can't handle positional and keyword arguments at the same time");
    if (arguments->n_keywords) {
        jinja_dict *dict = sw_jinja_dict(run, arguments->n_keywords);
        for (int64_t i = 0; dict && i < arguments->n_keywords; i++)
            if (!sw_jinja_set(run, dict, &arguments->keywords[i].name,
                              &arguments->keywords[i].value))
                return false;
        if (!dict)
            return false;
        values = sw_jinja_of_dict(dict);
    } else if (!sw_jinja_give_list(sw_jinja_list(run, arguments->values, arguments->n), JINJA_TUPLE,
                                   &values)) {
        return false;
    }
    return sw_jinja_percent(run, text, &values, out);
}

static bool filter_string(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)values;
    return sw_jinja_give_text(sw_jinja_soft_text(run, self), out);
}

static bool filter_refused(jinja_run *run, const jinja_value *self,
                           const jinja_arguments *arguments, jinja_value *out) {
    (void)self, (void)arguments, (void)out;
    return sw_jinja_fail(run, "the filters wordwrap, urlize, random and pprint are not built");
}

const jinja_builtin sw_jinja_text_filters[] = {
    {.name = "trim", .call = filter_trim, .parameters = {"chars"}},
    {.name = "upper", .call = filter_upper},
    {.name = "lower", .call = filter_lower},
    {.name = "capitalize", .call = filter_capitalize},
    {.name = "title", .call = filter_title},
    {.name = "replace",
     .call = filter_replace,
     .n_required = 2,
     .parameters = {"old", "new", "count"}},
    {.name = "indent", .call = filter_indent, .parameters = {"width", "first", "blank"}},
    {.name = "center", .call = filter_center, .parameters = {"width"}},
    {.name = "truncate",
     .call = filter_truncate,
     .parameters = {"length", "killwords", "end", "leeway"}},
    {.name = "wordcount", .call = filter_wordcount},
    {.name = "format", .call_freely = filter_format},
    {.name = "string", .call = filter_string},
    {.name = "wordwrap", .call_freely = filter_refused},
    {.name = "urlize", .call_freely = filter_refused},
    {.name = "random", .call_freely = filter_refused},
    {.name = "pprint", .call_freely = filter_refused},
    {0}};
