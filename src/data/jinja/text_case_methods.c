/* text_case_methods.c: methods of texts about case and kinds of characters. */
#include "data/jinja/builtins.h"
#include "data/jinja/case.h"
#include "data/jinja/text.h"

static bool change(jinja_run *run, const jinja_value *self, jinja_case to, jinja_value *out) {
    return sw_jinja_give_text(sw_jinja_change_case(run, self->as.text, to), out);
}

static bool text_upper(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_UPPER, out);
}

static bool text_lower(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_LOWER, out);
}

static bool text_title(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_TITLE, out);
}

static bool text_capitalize(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_CAPITALIZE, out);
}

static bool text_swapcase(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_SWAP, out);
}

static bool text_casefold(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)values;
    return change(run, self, JINJA_FOLD, out);
}

typedef enum kind {
    SPACE,
    LETTER,
    DECIMAL,
    DIGIT,
    NUMERIC,
    LETTER_OR_NUMBER,
    ASCII,
    PRINTABLE,
    NAME
} kind;

static bool is_of(uint32_t code, kind of, bool is_first) {
    switch (of) {
    case SPACE:
        return sw_python_is_space(code);
    case LETTER:
        return sw_unicode_is_in(&sw_python_letters, code);
    case DECIMAL:
        return sw_unicode_is_in(&sw_python_decimals, code);
    case DIGIT:
        return sw_unicode_is_in(&sw_python_digits, code);
    case NUMERIC:
        return sw_unicode_is_in(&sw_python_numerics, code);
    case LETTER_OR_NUMBER:
        return code != '_' && sw_python_is_word(code);
    case ASCII:
        return code < 0x80;
    case PRINTABLE:
        return !sw_unicode_is_in(&sw_python_unprintables, code);
    default:
        return sw_unicode_is_in(is_first ? &sw_python_name_starts : &sw_python_name_parts, code);
    }
}

/* All characters are of a kind, and there is one (but an empty text is ASCII and printable). */
static bool are_all(jinja_run *run, const jinja_value *self, kind of, jinja_value *out) {
    const jinja_text *text = self->as.text;
    bool is_so = text->n_bytes > 0 || of == ASCII || of == PRINTABLE;
    for (const char *at = text->bytes; at < sw_jinja_end_of(text) && is_so;) {
        bool is_first = at == text->bytes;
        is_so = is_of(sw_utf8_next(&at), of, is_first);
    }
    *out = sw_jinja_bool(is_so);
    return sw_jinja_spend_characters(run, text->n_bytes);
}

#define KIND_METHOD(name, of)                                                            \
    static bool name(jinja_run *run, const jinja_value *self, const jinja_value *values, \
                     jinja_value *out) {                                                 \
        (void)values;                                                                    \
        return are_all(run, self, of, out);                                              \
    }
KIND_METHOD(text_isspace, SPACE)
KIND_METHOD(text_isalpha, LETTER)
KIND_METHOD(text_isdecimal, DECIMAL)
KIND_METHOD(text_isdigit, DIGIT)
KIND_METHOD(text_isnumeric, NUMERIC)
KIND_METHOD(text_isalnum, LETTER_OR_NUMBER)
KIND_METHOD(text_isascii, ASCII)
KIND_METHOD(text_isprintable, PRINTABLE)
KIND_METHOD(text_isidentifier, NAME)
#undef KIND_METHOD

/* Is some letter of this case, and none of the others? */
static bool is_case(jinja_run *run, const jinja_value *self, const sw_code_ranges *wanted,
                    const sw_code_ranges *unwanted, jinja_value *out) {
    bool is_so = false, is_against = false;
    const jinja_text *text = self->as.text;
    for (const char *at = text->bytes; at < sw_jinja_end_of(text) && !is_against;) {
        uint32_t code = sw_utf8_next(&at);
        is_so = is_so || sw_unicode_is_in(wanted, code);
        is_against = sw_unicode_is_in(unwanted, code) || sw_unicode_is_in(&sw_python_titles, code);
    }
    *out = sw_jinja_bool(is_so && !is_against);
    return sw_jinja_spend_characters(run, text->n_bytes);
}

static bool text_islower(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    return is_case(run, self, &sw_python_lowers, &sw_python_uppers, out);
}

static bool text_isupper(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    return is_case(run, self, &sw_python_uppers, &sw_python_lowers, out);
}

static bool text_istitle(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    bool is_so = false, is_against = false, follows_cased = false;
    const jinja_text *text = self->as.text;
    for (const char *at = text->bytes; at < sw_jinja_end_of(text) && !is_against;) {
        uint32_t code = sw_utf8_next(&at);
        bool is_large =
            sw_unicode_is_in(&sw_python_uppers, code) || sw_unicode_is_in(&sw_python_titles, code);
        bool is_small = sw_unicode_is_in(&sw_python_lowers, code);
        is_against = (is_large && follows_cased) || (is_small && !follows_cased);
        is_so = is_so || is_large || is_small;
        follows_cased = is_large || is_small;
    }
    *out = sw_jinja_bool(is_so && !is_against);
    return sw_jinja_spend_characters(run, text->n_bytes);
}

const jinja_builtin sw_jinja_text_case_methods[] = {
    {.name = "upper", .call = text_upper},
    {.name = "lower", .call = text_lower},
    {.name = "title", .call = text_title},
    {.name = "capitalize", .call = text_capitalize},
    {.name = "swapcase", .call = text_swapcase},
    {.name = "casefold", .call = text_casefold},
    {.name = "isspace", .call = text_isspace},
    {.name = "isalpha", .call = text_isalpha},
    {.name = "isdecimal", .call = text_isdecimal},
    {.name = "isdigit", .call = text_isdigit},
    {.name = "isnumeric", .call = text_isnumeric},
    {.name = "isalnum", .call = text_isalnum},
    {.name = "isascii", .call = text_isascii},
    {.name = "isprintable", .call = text_isprintable},
    {.name = "isidentifier", .call = text_isidentifier},
    {.name = "islower", .call = text_islower},
    {.name = "isupper", .call = text_isupper},
    {.name = "istitle", .call = text_istitle},
    {0}};
