/* lexer.c: text, tags and what stands in them.
 *
 * White space around tags is settled here: `-` eats all of it, the newline after a tag and the
 * blanks before one that is first on its line go by themselves ({{ }} keeps both), `+` keeps them.
 */
#include "data/jinja/lexer.h"

#include <stdlib.h>

#include "base/integer.h"
#include "data/jinja/big.h"
#include "data/jinja/number.h"
#include "data/jinja/string_literal.h"
#include "data/jinja/text.h"

typedef struct lexer {
    jinja_run *run;
    const char *source, *at, *end;
    const char *counted; /* lines up to here are in `line` */
    int line;
    bool is_line_start; /* the last thing read ended with a newline, or there was none */
    jinja_token *tokens;
    int64_t n_tokens, capacity;
    char closers[JINJA_MAX_NESTING]; /* of the brackets that are open in a tag */
    int n_open;
} lexer;

static int line_of(lexer *lx, const char *at) {
    for (; lx->counted < at; lx->counted++)
        lx->line += *lx->counted == '\n';
    return lx->line;
}

static bool add_token(lexer *lx, jinja_token_kind kind, const char *at, jinja_value value) {
    if (lx->n_tokens == lx->capacity) {
        int64_t wider = larger(2 * lx->capacity, 64);
        jinja_token *moved = sw_jinja_take(lx->run, wider * (int64_t)sizeof *moved);
        if (!moved)
            return false;
        if (lx->n_tokens)
            memcpy(moved, lx->tokens, (size_t)lx->n_tokens * sizeof *moved);
        lx->tokens = moved;
        lx->capacity = wider;
    }
    lx->tokens[lx->n_tokens++] = (jinja_token){kind, line_of(lx, at), value};
    return true;
}

static bool add_text_token(lexer *lx, jinja_token_kind kind, const char *at, const char *first,
                           const char *end) {
    jinja_text *text = sw_jinja_view(lx->run, first, end - first);
    if (!text)
        return false;
    sw_jinja_text_settle(text);
    return add_token(lx, kind, at, sw_jinja_of_text(text));
}

/* A token that says what is wrong; nothing is read behind it. */
static bool add_error(lexer *lx, const char *at, const char *message) {
    lx->at = lx->end;
    return add_text_token(lx, JINJA_TOKEN_ERROR, at, message, message + strlen(message));
}

static bool is_at(const lexer *lx, const char *at, const char *word) {
    size_t n = strlen(word);
    return at <= lx->end && (size_t)(lx->end - at) >= n && memcmp(at, word, n) == 0;
}

/* The end of a tag: "%}" with its sign before it and the white space that goes with it. NULL: it
 * does not stand at `at`. */
static const char *tag_end(const lexer *lx, const char *at, const char *mark, bool takes_plus,
                           bool trims) {
    if (is_at(lx, at, mark)) {
        at += 2;
        return at + (trims && at < lx->end && *at == '\n');
    }
    if (at < lx->end && *at == '-' && is_at(lx, at + 1, mark))
        return sw_jinja_skip_spaces(at + 3, lx->end);
    return takes_plus && at < lx->end && *at == '+' && is_at(lx, at + 1, mark) ? at + 3 : NULL;
}

/* Where the text before a tag ends. */
static const char *strip_before(const lexer *lx, const char *first, const char *tag, char sign,
                                bool is_variable) {
    if (sign == '-')
        return sw_jinja_skip_spaces_back(first, tag);
    if (sign == '+' || is_variable)
        return tag;
    const char *newline = tag > first ? memrchr(first, '\n', (size_t)(tag - first)) : NULL;
    const char *line = newline ? newline + 1 : first;
    if (!newline && !lx->is_line_start)
        return tag;
    return sw_jinja_skip_spaces(line, tag) == tag ? line : tag;
}

static bool add_data(lexer *lx, const char *first, const char *end) {
    return first == end || add_text_token(lx, JINJA_TOKEN_DATA, first, first, end);
}

static bool read_comment(lexer *lx, const char *tag) {
    for (const char *at = lx->at; (at = memmem(at, (size_t)(lx->end - at), "#}", 2)); at += 2) {
        if (at > lx->at && (at[-1] == '-' || at[-1] == '+'))
            at--;
        lx->at = tag_end(lx, at, "#}", true, true);
        lx->is_line_start = lx->at[-1] == '\n';
        return true;
    }
    return add_error(lx, tag, "Missing end of comment tag");
}

/* Behind "{%" and its sign: the end of a raw tag. NULL: it is none. */
static const char *raw_tag_end(const lexer *lx, const char *at, const char *word, bool trims) {
    at = sw_jinja_skip_spaces(at, lx->end);
    if (!is_at(lx, at, word))
        return NULL;
    at = sw_jinja_skip_spaces(at + strlen(word), lx->end);
    return tag_end(lx, at, "%}", trims, trims);
}

static bool read_raw(lexer *lx, const char *tag) {
    const char *first = lx->at;
    for (const char *at = first; (at = memmem(at, (size_t)(lx->end - at), "{%", 2)); at += 2) {
        char sign = at + 2 < lx->end && (at[2] == '-' || at[2] == '+') ? at[2] : 0;
        const char *behind = raw_tag_end(lx, at + 2 + (sign != 0), "endraw", true);
        if (!behind)
            continue;
        if (!add_data(lx, first, strip_before(lx, first, at, sign, false)))
            return false;
        lx->at = behind;
        lx->is_line_start = behind[-1] == '\n';
        return true;
    }
    return add_error(lx, tag, "Missing end of raw directive");
}

/* Digits with single underscores between them; NULL: there is none. */
static const char *skip_digits(const lexer *lx, const char *at, int base) {
    const char *first = at;
    for (; at < lx->end; at++) {
        int digit = *at >= '0' && *at <= '9'                 ? *at - '0'
                    : (*at | 32) >= 'a' && (*at | 32) <= 'f' ? (*at | 32) - 'a' + 10
                                                             : 99;
        bool is_gap = *at == '_' && at > first && at[-1] != '_' && at + 1 < lx->end;
        if (digit >= base && !is_gap)
            break;
    }
    while (at > first && at[-1] == '_')
        at--;
    return at > first ? at : NULL;
}

/* The end of a float that begins at `at`. NULL: it is none. */
static const char *real_end(const lexer *lx, const char *at) {
    if (at > lx->source && at[-1] == '.')
        return NULL;
    at = skip_digits(lx, at, 10);
    const char *fraction = at && is_at(lx, at, ".") ? skip_digits(lx, at + 1, 10) : NULL;
    const char *mantissa = fraction ? fraction : at;
    if (mantissa && mantissa < lx->end && (*mantissa | 32) == 'e') {
        const char *digits =
            mantissa + 1 + (mantissa + 1 < lx->end && (mantissa[1] == '-' || mantissa[1] == '+'));
        const char *end = skip_digits(lx, digits, 10);
        if (end)
            return end;
    }
    return fraction;
}

static const char *integer_end(const lexer *lx, const char *at) {
    if (*at == '0' && at + 1 < lx->end && strchr("xXoObB", at[1])) {
        int base = (at[1] | 32) == 'x' ? 16 : (at[1] | 32) == 'o' ? 8 : 2;
        const char *digits = at + 2 + (at + 2 < lx->end && at[2] == '_'),
                   *end = skip_digits(lx, digits, base);
        if (end)
            return end;
    }
    return skip_digits(lx, at, *at == '0' ? 1 : 10); /* zero has no other digits behind it */
}

static bool read_number(lexer *lx) {
    const char *first = lx->at, *end = real_end(lx, first);
    jinja_text text = {.bytes = first,
                       .n_bytes = (end ? end : integer_end(lx, first)) - first,
                       .n_characters = -1};
    jinja_value value;
    bool is_number;
    double real;
    lx->at = sw_jinja_end_of(&text);
    if (end) {
        if (!sw_jinja_read_real(lx->run, &text, &is_number, &real))
            return false;
        value = sw_jinja_real(real);
    } else if (!sw_jinja_read_whole(lx->run, &text, 0, &is_number, &value)) {
        lx->run->failed_line = line_of(lx, first);
        return false;
    }
    return add_token(lx, end ? JINJA_TOKEN_REAL : JINJA_TOKEN_INTEGER, first, value);
}

static bool is_name_part(uint32_t code) {
    return sw_python_is_word(code) ||
           (code >= 0x80 && sw_unicode_is_in(&sw_python_name_parts, code));
}

static bool read_name(lexer *lx) {
    const char *first = lx->at;
    bool is_valid = true;
    while (lx->at < lx->end) {
        const char *next = lx->at;
        uint32_t code = sw_utf8_next(&next);
        if (!is_name_part(code))
            break;
        if (code >= 0x80)
            is_valid = is_valid && sw_unicode_is_in(lx->at == first ? &sw_python_name_starts
                                                                    : &sw_python_name_parts,
                                                    code);
        lx->at = next;
    }
    return is_valid ? add_text_token(lx, JINJA_TOKEN_NAME, first, first, lx->at)
                    : add_error(lx, first, "Invalid character in identifier");
}

static bool fail_character(lexer *lx, const char *at) {
    jinja_start start = sw_jinja_start(lx->run);
    const char *next = at;
    if (!sw_jinja_write_words(lx->run, "unexpected character ") ||
        !sw_jinja_write_code(lx->run, sw_utf8_next(&next)))
        return false;
    if ((*at == '\'' || *at == '"') && !sw_jinja_write_words(lx->run, ": a string that never ends"))
        return false;
    jinja_text *message = sw_jinja_collect(lx->run, start);
    lx->at = lx->end;
    return message && add_token(lx, JINJA_TOKEN_ERROR, at, sw_jinja_of_text(message));
}

static bool read_string(lexer *lx) {
    const char *first = lx->at, *at = first + 1;
    while (at < lx->end && *at != *first)
        at += 1 + (*at == '\\');
    if (at >= lx->end)
        return fail_character(lx, first);
    lx->at = at + 1;
    const char *problem = NULL;
    jinja_text *text = sw_jinja_read_string(lx->run, first + 1, at, &problem);
    if (problem)
        return add_error(lx, first, problem);
    if (!text)
        return false;
    sw_jinja_text_settle(text);
    return add_token(lx, JINJA_TOKEN_STRING, first, sw_jinja_of_text(text));
}

static bool fail_bracket(lexer *lx, const char *at, char expected) {
    jinja_start start = sw_jinja_start(lx->run);
    if (!sw_jinja_write_format(lx->run,
                               expected ? "unexpected '%c', expected '%c'" : "unexpected '%c'", *at,
                               expected))
        return false;
    jinja_text *message = sw_jinja_collect(lx->run, start);
    lx->at = lx->end;
    return message && add_token(lx, JINJA_TOKEN_ERROR, at, sw_jinja_of_text(message));
}

static bool read_operator(lexer *lx) {
    static const char *const operators[] = {
#define JINJA_OPERATOR_WORD(name, words) words,
        JINJA_OPERATORS(JINJA_OPERATOR_WORD)
#undef JINJA_OPERATOR_WORD
    };
    const char *at = lx->at;
    for (int i = 0; i < (int)(sizeof operators / sizeof *operators); i++) {
        if (!is_at(lx, at, operators[i]))
            continue;
        if (strchr("([{", *at)) {
            if (lx->n_open == JINJA_MAX_NESTING)
                return add_error(lx, at, "too many brackets inside each other");
            lx->closers[lx->n_open++] = *at == '(' ? ')' : *at == '[' ? ']' : '}';
        } else if (strchr(")]}", *at)) {
            char expected = lx->n_open ? lx->closers[--lx->n_open] : 0;
            if (expected != *at)
                return fail_bracket(lx, at, expected);
        }
        lx->at += strlen(operators[i]);
        return add_token(lx, (jinja_token_kind)i, at, sw_jinja_missing());
    }
    return fail_character(lx, at);
}

/* From behind "{%" or "{{" through the tag's end. */
static bool read_tag(lexer *lx, bool is_variable) {
    lx->n_open = 0;
    while (lx->at < lx->end) {
        const char *end =
            lx->n_open ? NULL
                       : tag_end(lx, lx->at, is_variable ? "}}" : "%}", !is_variable, !is_variable);
        const char *behind = sw_jinja_skip_spaces(lx->at, lx->end), *next = lx->at;
        bool is_read = true;
        if (end) {
            is_read = add_token(lx, is_variable ? JINJA_TOKEN_VARIABLE_END : JINJA_TOKEN_BLOCK_END,
                                lx->at, sw_jinja_missing());
            lx->at = end;
            lx->is_line_start = end[-1] == '\n';
            return is_read;
        }
        if (behind > lx->at)
            lx->at = behind;
        else if (*lx->at >= '0' && *lx->at <= '9')
            is_read = read_number(lx);
        else if (is_name_part(sw_utf8_next(&next)))
            is_read = read_name(lx);
        else if (*lx->at == '\'' || *lx->at == '"')
            is_read = read_string(lx);
        else
            is_read = read_operator(lx);
        if (!is_read)
            return false;
    }
    return true;
}

/* Text up to the next tag, and that tag. */
static bool read_next(lexer *lx) {
    const char *first = lx->at, *tag = first;
    while ((tag = memchr(tag, '{', (size_t)(lx->end - tag))) &&
           !(tag + 1 < lx->end && strchr("{%#", tag[1]) && tag[1]))
        tag++;
    if (!tag) {
        lx->at = lx->end;
        return add_data(lx, first, lx->end);
    }
    char kind = tag[1], sign = tag + 2 < lx->end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
    const char *raw = kind == '%' ? raw_tag_end(lx, tag + 2 + (sign != 0), "raw", false) : NULL;
    if (!add_data(lx, first, strip_before(lx, first, tag, sign, kind == '{')))
        return false;
    lx->at = tag + 2 + (sign != 0);
    lx->is_line_start = false;
    if (kind == '#')
        return read_comment(lx, tag);
    if (raw) {
        lx->at = raw;
        lx->is_line_start = raw[-1] == '\n';
        return read_raw(lx, tag);
    }
    return add_token(lx, kind == '{' ? JINJA_TOKEN_VARIABLE_BEGIN : JINJA_TOKEN_BLOCK_BEGIN, tag,
                     sw_jinja_missing()) &&
           read_tag(lx, kind == '{');
}

const jinja_token *sw_jinja_tokens(jinja_run *run, const char *text, int64_t n_bytes) {
    char *source = sw_jinja_take(run, n_bytes + 1), *to = source;
    if (!source)
        return NULL;
    for (int64_t i = 0; i < n_bytes; i++) {
        bool is_return = text[i] == '\r';
        i += is_return && i + 1 < n_bytes && text[i + 1] == '\n';
        *to++ = is_return ? '\n' : text[i];
    }
    to -= to > source && to[-1] == '\n';
    *to = '\0';
    lexer lx = {.run = run,
                .source = source,
                .at = source,
                .end = to,
                .counted = source,
                .line = 1,
                .is_line_start = true};
    while (lx.at < lx.end)
        if (!read_next(&lx))
            return NULL;
    int line = lx.n_tokens ? lx.tokens[lx.n_tokens - 1].line : 1;
    bool has_failed = lx.n_tokens && lx.tokens[lx.n_tokens - 1].kind == JINJA_TOKEN_ERROR;
    if (!has_failed && !add_token(&lx, JINJA_TOKEN_END, lx.counted, sw_jinja_missing()))
        return NULL;
    if (!has_failed)
        lx.tokens[lx.n_tokens - 1].line = line;
    return lx.tokens;
}
