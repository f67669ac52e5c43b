/* pattern.c: from Oniguruma's syntax to PCRE2's, and matching. */
#include "tokenizer/pattern.h"

#include <ctype.h>
#include <stdlib.h>

#include "tokenizer/unicode.h"

/* \w as Oniguruma has it, as members of a class: alphabetic, marks, decimal digits, connectors.
 * Outside of classes it also has Latin-1's superscripts and fractions. */
#define WORD_IN_CLASS                                                                          \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{" \
    "1F169}\\x{1F170}-\\x{1F189}"
#define WORD WORD_IN_CLASS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

enum { MAX_GROUPS = 64 };

typedef struct translation {
    const char *in, *end;
    const char *problem; /* what has no translation; NULL while all is well */
    sw_bytes out;
    size_t atom;               /* where the last atom begins in `out` */
    size_t groups[MAX_GROUPS]; /* where the open groups begin */
    int n_groups;
} translation;

static void put(translation *t, const char *text) {
    sw_bytes_append(&t->out, text, strlen(text));
}

/* A backslash and what it escapes, outside of classes. */
static void translate_escape(translation *t) {
    char what = t->in + 1 < t->end ? t->in[1] : 0;
    t->in += 2;
    switch (what) {
    case 0:
        t->problem = "a backslash at the end";
        return;
    case 'w':
        put(t, "[" WORD "]");
        return;
    case 'W':
        put(t, "[^" WORD "]");
        return;
    case 'h':
        put(t, "[0-9A-Fa-f]");
        return;
    case 'H':
        put(t, "[^0-9A-Fa-f]");
        return;
    case 'b':
        put(t, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
        return;
    case 'B':
        put(t, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
        return;
    case 'y':
    case 'Y':
    case 'K':
    case 'C':
    case 'Q':
    case 'E':
    case 'g':
        t->problem = "an escape that means something else in Oniguruma";
        return;
    default:
        sw_bytes_put(&t->out, '\\');
        sw_bytes_put(&t->out, what);
    }
}

/* [:punct:] and its like, within a class. What others call alpha, upper and so on differs from
 * PCRE2's. */
static void translate_named_class(translation *t) {
    static const char *const known[][2] = {{"[:punct:]", "\\p{P}\\p{S}"},
                                           {"[:space:]", "\\s"},
                                           {"[:digit:]", "\\p{Nd}"},
                                           {"[:word:]", WORD_IN_CLASS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i][0]);
        if ((size_t)(t->end - t->in) < n || memcmp(t->in, known[i][0], n) != 0)
            continue;
        put(t, known[i][1]);
        t->in += n;
        return;
    }
    t->problem = "a named class other than [:punct:], [:space:], [:digit:] and [:word:]";
}

/* A class, from '[' to its ']'. A class within it is dissolved, which a union may be. */
static void translate_class(translation *t) {
    int depth = 1;
    sw_bytes_put(&t->out, '[');
    t->in++;
    if (t->in < t->end && *t->in == '^')
        sw_bytes_put(&t->out, *t->in++);
    if (t->in < t->end && *t->in == ']') { /* the first one is a member */
        put(t, "\\]");
        t->in++;
    }
    while (t->in < t->end && !t->problem) {
        char byte = *t->in;
        if (byte == '\\') {
            char what = t->in + 1 < t->end ? t->in[1] : 0;
            t->in += 2;
            if (what == 'w')
                put(t, WORD_IN_CLASS);
            else if (what == 'h')
                put(t, "0-9A-Fa-f");
            else if (what == 'W' || what == 'H')
                t->problem = "\\W or \\H within a class";
            else if (!what)
                t->problem = "a class without its end";
            else {
                sw_bytes_put(&t->out, '\\');
                sw_bytes_put(&t->out, what);
            }
        } else if (byte == '[' && t->in + 1 < t->end && t->in[1] == ':') { /* [:alpha:] */
            translate_named_class(t);
        } else if (byte == '[') {
            if (t->in + 1 < t->end && t->in[1] == '^')
                t->problem = "a negated class within a class";
            depth++;
            t->in++;
        } else if (byte == '&' && t->in + 1 < t->end && t->in[1] == '&') {
            t->problem = "an intersection of classes (&&)";
        } else if (byte == ']') {
            t->in++;
            if (--depth == 0) {
                sw_bytes_put(&t->out, ']');
                return;
            }
        } else {
            sw_bytes_put(&t->out, byte);
            t->in++;
        }
    }
    if (!t->problem)
        t->problem = "a class without its end";
}

/* "(?m" is what others call s; the rest is alike. */
static void translate_group(translation *t) {
    if (t->n_groups == MAX_GROUPS) {
        t->problem = "groups nested too deeply";
        return;
    }
    t->groups[t->n_groups++] = t->out.n;
    sw_bytes_put(&t->out, *t->in++);
    if (t->in == t->end || *t->in != '?')
        return;
    const char *at = t->in + 1;
    while (at < t->end && (isalpha((unsigned char)*at) || *at == '-'))
        at++;
    bool has_flags = at > t->in + 1 && at < t->end && (*at == ':' || *at == ')');
    for (const char *flag = t->in + 1; has_flags && flag < at; flag++)
        if (!strchr("imx-", *flag))
            t->problem = "a group option other than i, m and x";
    if (!has_flags)
        return;
    for (; t->in < at; t->in++)
        sw_bytes_put(&t->out, *t->in == 'm' ? 's' : *t->in);
}

/* "{,n}" is "{0,n}"; "{n,m}+" repeats greedily and is not possessive. */
static void translate_repeat(translation *t) {
    const char *at = t->in + 1;
    while (at < t->end && (isdigit((unsigned char)*at) || *at == ','))
        at++;
    if (at == t->end || *at != '}' || at == t->in + 1) { /* a brace like any other character */
        t->atom = t->out.n;
        put(t, "\\{");
        t->in++;
        return;
    }
    sw_bytes_put(&t->out, *t->in++);
    if (*t->in == ',')
        sw_bytes_put(&t->out, '0');
    sw_bytes_append(&t->out, t->in, (size_t)(at + 1 - t->in));
    t->in = at + 1;
    if (t->in == t->end || *t->in != '+' || !sw_bytes_reserve(&t->out, 4))
        return;
    memmove(t->out.data + t->atom + 3, t->out.data + t->atom, t->out.n - t->atom);
    memcpy(t->out.data + t->atom, "(?:", 3);
    t->out.n += 3;
    sw_bytes_put(&t->out, ')');
}

static void translate(translation *t) {
    while (t->in < t->end && !t->problem) {
        size_t begin = t->out.n;
        switch (*t->in) {
        case '\\':
            t->atom = begin;
            if (t->in + 2 < t->end && (t->in[1] == 'p' || t->in[1] == 'P' || t->in[1] == 'x') &&
                t->in[2] == '{') {
                const char *close = memchr(t->in, '}', (size_t)(t->end - t->in));
                if (!close) {
                    t->problem = "a brace without its end";
                    break;
                }
                sw_bytes_append(&t->out, t->in, (size_t)(close + 1 - t->in));
                t->in = close + 1;
            } else
                translate_escape(t);
            break;
        case '[':
            t->atom = begin;
            translate_class(t);
            break;
        case '(':
            translate_group(t);
            break;
        case ')':
            if (t->n_groups)
                t->atom = t->groups[--t->n_groups];
            sw_bytes_put(&t->out, *t->in++);
            break;
        case '{':
            translate_repeat(t);
            break;
        case '*':
        case '+':
        case '?':
        case '|':
        case '^':
        case '$':
            sw_bytes_put(&t->out, *t->in++);
            break;
        default:
            t->atom = begin;
            sw_bytes_append(&t->out, t->in, (size_t)sw_utf8_length(*t->in));
            t->in += sw_utf8_length(*t->in);
        }
    }
}

sw_status sw_pattern_compile(const char *file, const char *where, const char *expression,
                             size_t n_bytes, sw_pattern *pattern, sw_error *err) {
    translation t = {.in = expression, .end = expression + n_bytes};
    sw_status status = SW_OK;
    translate(&t);
    if (t.out.is_short) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", file);
        goto done;
    }
    if (t.problem) {
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: %s: the pattern \"%.200s\" has %s, which shardwise cannot honour",
                         file, where, expression, t.problem);
        goto done;
    }
    int code = 0;
    PCRE2_SIZE offset = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)(t.out.data ? t.out.data : ""), t.out.n,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                  &code, &offset, NULL);
    if (!pattern->code) {
        PCRE2_UCHAR words[128] = "";
        pcre2_get_error_message(code, words, sizeof words);
        status = sw_fail(err, SW_BAD_FILE, "%s: %s: the pattern \"%.200s\" is broken: %s", file,
                         where, expression, (char *)words);
        goto done;
    }
    pcre2_jit_compile(
        pattern->code,
        PCRE2_JIT_COMPLETE); /* where that is forbidden the interpreter does the work */
done:
    sw_bytes_free(&t.out);
    return status;
}

sw_status sw_pattern_read(const sw_part *part, const char *key, sw_pattern *pattern,
                          sw_error *err) {
    sw_part choice;
    sw_text_span literal = {0}, expression = {0};
    sw_status status = sw_part_child(part, key, SW_NEEDED, &choice, err);
    if (!status)
        status = sw_part_text(&choice, "String", SW_ABSENT_IS_FINE, &literal, err);
    if (!status)
        status = sw_part_text(&choice, "Regex", SW_ABSENT_IS_FINE, &expression, err);
    if (status)
        return status;
    if (!literal.text == !expression.text)
        return sw_fail(err, SW_BAD_FILE, "%s: %s needs one of String and Regex", part->file,
                       choice.where);
    if (expression.text)
        return sw_pattern_compile(part->file, choice.where, expression.text, expression.n_bytes,
                                  pattern, err);
    if (!literal.n_bytes)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is an empty text", part->file, choice.where);
    pattern->literal = malloc(literal.n_bytes);
    if (!pattern->literal)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(pattern->literal, literal.text, literal.n_bytes);
    pattern->n_literal = literal.n_bytes;
    return SW_OK;
}

void sw_pattern_free(sw_pattern *pattern) {
    free(pattern->literal);
    pcre2_code_free(pattern->code);
    *pattern = (sw_pattern){0};
}

bool sw_pattern_scratch_create(sw_pattern_scratch *scratch) {
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    scratch->stack = pcre2_jit_stack_create(32 * 1024, 64 * 1024 * 1024, NULL);
    if (!scratch->data || !scratch->context)
        return false;
    if (scratch->stack) /* NULL where this PCRE2 has no compiler */
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return true;
}

void sw_pattern_scratch_free(sw_pattern_scratch *scratch) {
    pcre2_match_data_free(scratch->data);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    *scratch = (sw_pattern_scratch){0};
}

/* Copy the text with a stand-in for each character that PCRE2 does not know, or not as the
 * reference does. False: there was none, and nothing was copied. */
static bool put_stand_ins(sw_bytes *copy, const char *text, size_t n_bytes) {
    bool is_copied = false;
    copy->n = 0;
    for (size_t i = 0; i < n_bytes;) {
        if ((unsigned char)text[i] < 0xE0) { /* none of them is shorter than three bytes */
            i++;
            continue;
        }
        const char *at = text + i;
        uint32_t code = sw_utf8_next(&at),
                 shown = sw_unicode_value(sw_unicode_stand_ins, sw_unicode_n_stand_ins, code, code);
        if (shown != code) {
            if (!is_copied) {
                sw_bytes_append(copy, text, n_bytes);
                if (copy->is_short)
                    return false;
            }
            is_copied = true;
            sw_utf8_put(shown, copy->data + i);
        }
        i = (size_t)(at - text);
    }
    return is_copied;
}

sw_status sw_matcher_begin(sw_matcher *matcher, const sw_pattern *pattern,
                           const sw_pattern_scratch *scratch, sw_bytes *copy, const char *text,
                           size_t n_bytes, sw_error *err) {
    *matcher = (sw_matcher){pattern, scratch, text, n_bytes, 0, 0, false};
    if (!pattern->literal && put_stand_ins(copy, text, n_bytes))
        matcher->text = copy->data;
    return copy->is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for a text of %zu bytes", n_bytes)
                          : SW_OK;
}

sw_status sw_matcher_next(sw_matcher *m, bool *is_found, size_t *start, size_t *end,
                          sw_error *err) {
    *is_found = false;
    if (m->pattern->literal) {
        const char *found =
            memmem(m->text + m->at, m->n_bytes - m->at, m->pattern->literal, m->pattern->n_literal);
        if (!found)
            return SW_OK;
        *is_found = true;
        *start = (size_t)(found - m->text);
        *end = m->at = *start + m->pattern->n_literal;
        return SW_OK;
    }
    while (m->at <= m->n_bytes) {
        int n = pcre2_match(m->pattern->code, (PCRE2_SPTR)m->text, m->n_bytes, m->at,
                            PCRE2_NO_UTF_CHECK, m->scratch->data, m->scratch->context);
        if (n == PCRE2_ERROR_NOMATCH)
            return SW_OK;
        if (n < 0) {
            PCRE2_UCHAR words[128] = "";
            pcre2_get_error_message(n, words, sizeof words);
            return sw_fail(err, SW_BAD_FILE,
                           "a pattern of the tokenizer gave up at byte %zu of a piece of %zu: %s",
                           m->at, m->n_bytes, (char *)words);
        }
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->scratch->data);
        if (range[0] == range[1] && m->has_matched &&
            m->last_end == range[1]) { /* an empty match just behind a match */
            m->at += m->at < m->n_bytes ? (size_t)sw_utf8_length(m->text[m->at]) : 1;
            continue;
        }
        *is_found = m->has_matched = true;
        *start = range[0];
        *end = m->at = m->last_end = range[1];
        return SW_OK;
    }
    return SW_OK;
}
