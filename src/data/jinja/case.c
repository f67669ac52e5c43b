/* case.c: full case mapping. A capital sigma at the end of a word becomes a final one. */
#include "data/jinja/case.h"
#include "data/jinja/origin.h"

#include "data/jinja/text.h"

/* Is the sigma at `at` the last letter of a word, in the text from first to end? */
static bool is_final_sigma(const char *first, const char *end, const char *at) {
    const char *before = at, *after = at;
    uint32_t code = 0;
    bool is_cased = false;
    sw_utf8_next(&after);
    while (before > first) {
        code = sw_jinja_previous(&before);
        if (!sw_unicode_is_in(&sw_python_case_skipped, code)) {
            is_cased = sw_python_is_cased(code);
            break;
        }
    }
    if (!is_cased)
        return false;
    while (after < end) {
        code = sw_utf8_next(&after);
        if (!sw_unicode_is_in(&sw_python_case_skipped, code))
            return !sw_python_is_cased(code);
    }
    return true;
}

static bool write_code(jinja_run *run, const sw_case_mapping *mapping, const char *first,
                       const char *end, const char *at, uint32_t code) {
    uint32_t mapped[3];
    if (code < 0x80) {
        char c = (char)code;
        if (mapping == &sw_python_to_lower || mapping == &sw_python_to_folded)
            c = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        else
            c = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        return sw_jinja_write(run, &c, 1);
    }
    if (code == 0x3A3 && mapping == &sw_python_to_lower)
        return sw_jinja_write_code(run, is_final_sigma(first, end, at) ? 0x3C2 : 0x3C3);
    int n = sw_python_map_case(mapping, code, mapped);
    for (int i = 0; i < n; i++)
        if (!sw_jinja_write_code(run, mapped[i]))
            return false;
    return true;
}

bool sw_jinja_write_case(jinja_run *run, const char *first, const char *end, jinja_case to) {
    static const sw_case_mapping unchanged = {0};
    bool follows_cased = false, is_first = true;
    if (!sw_jinja_spend_characters(run, (end - first)))
        return false;
    for (const char *at = first; at < end; is_first = false) {
        const char *here = at;
        uint32_t code = sw_utf8_next(&at);
        const sw_case_mapping *mapping = &sw_python_to_lower;
        switch (to) {
        case JINJA_UPPER:
            mapping = &sw_python_to_upper;
            break;
        case JINJA_LOWER:
            break;
        case JINJA_TITLE:
            mapping = follows_cased ? mapping : &sw_python_to_title;
            break;
        case JINJA_CAPITALIZE:
            mapping = is_first ? &sw_python_to_title : mapping;
            break;
        case JINJA_FOLD:
            mapping = &sw_python_to_folded;
            break;
        case JINJA_SWAP:
            if (code < 0x80 ? code >= 'a' && code <= 'z'
                            : sw_unicode_is_in(&sw_python_lowers, code))
                mapping = &sw_python_to_upper;
            else if (code >= 0x80 && !sw_unicode_is_in(&sw_python_uppers, code))
                mapping = &unchanged;
            break;
        }
        follows_cased = sw_python_is_cased(code);
        const int64_t written = run->n_output;
        if (!write_code(run, mapping, first, end, here, code))
            return false;
        sw_jinja_inherit_origin(run, written, here);
    }
    return true;
}

jinja_text *sw_jinja_change_case(jinja_run *run, const jinja_text *text, jinja_case to) {
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_write_case(run, text->bytes, sw_jinja_end_of(text), to))
        return NULL;
    jinja_text *changed = sw_jinja_collect(run, start);
    if (changed)
        changed->is_markup = text->is_markup;
    return changed;
}
