/* markup.c: HTML's spellings. */
#include "data/jinja/markup.h"

#include "data/jinja/text.h"

bool sw_jinja_write_escaped(jinja_run *run, const jinja_text *text) {
    const char *first = text->bytes, *end = sw_jinja_end_of(text);
    for (const char *at = first; at < end; at++) {
        const char *spelling = *at == '&'    ? "&amp;"
                               : *at == '<'  ? "&lt;"
                               : *at == '>'  ? "&gt;"
                               : *at == '\'' ? "&#39;"
                               : *at == '"'  ? "&#34;"
                                             : NULL;
        if (!spelling)
            continue;
        if (!sw_jinja_write(run, first, at - first) || !sw_jinja_write_words(run, spelling))
            return false;
        first = at + 1;
    }
    return sw_jinja_write(run, first, end - first) &&
           sw_jinja_spend_characters(run, text->n_bytes / 3);
}

jinja_text *sw_jinja_as_markup(jinja_run *run, const jinja_text *text, bool is_markup) {
    jinja_text *copy = sw_jinja_take(run, sizeof *copy);
    if (copy) {
        *copy = *text;
        copy->is_markup = is_markup;
    }
    return copy;
}

jinja_text *sw_jinja_escape(jinja_run *run, jinja_text *text) {
    if (text->is_markup)
        return text;
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_write_escaped(run, text))
        return NULL;
    jinja_text *escaped = sw_jinja_collect(run, start);
    if (escaped)
        escaped->is_markup = true;
    return escaped;
}
