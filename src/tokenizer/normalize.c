/* normalize.c: reading and running normalizers. */
#include "tokenizer/normalize.h"

#include <stdlib.h>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/unicode.h"

typedef enum normalizer_kind {
    NFC,
    NFD,
    NFKC,
    NFKD,
    LOWERCASE,
    STRIP,
    STRIP_ACCENTS,
    REPLACE,
    PREPEND,
    PRECOMPILED,
    BERT,
    NMT,
    BYTE_LEVEL
} normalizer_kind;

struct sw_normalizer {
    normalizer_kind kind;
    bool strips_left, strips_right;                                  /* Strip */
    bool cleans_text, sets_ideographs_apart, strips_accents, lowers; /* BertNormalizer */
    sw_pattern pattern;                                              /* Replace */
    char *content;                                                   /* Replace, Prepend */
    size_t n_content;
    sw_precompiled map;
};

enum { MAX_STEPS = 64 };

static sw_status read_content(const sw_part *part, const char *key, sw_normalizer *step,
                              sw_error *err) {
    sw_text_span text = {0};
    sw_status status = sw_part_text(part, key, SW_NEEDED, &text, err);
    if (status)
        return status;
    step->content = malloc(text.n_bytes + 1);
    if (!step->content)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(step->content, text.text, text.n_bytes + 1);
    step->n_content = text.n_bytes;
    return SW_OK;
}

static sw_status read_bert(const sw_part *part, sw_normalizer *step, sw_error *err) {
    step->cleans_text = step->sets_ideographs_apart = step->lowers = true;
    sw_status status = sw_part_bool(part, "clean_text", SW_ABSENT_IS_FINE, &step->cleans_text, err);
    if (!status)
        status = sw_part_bool(part, "handle_chinese_chars", SW_ABSENT_IS_FINE,
                              &step->sets_ideographs_apart, err);
    if (!status)
        status = sw_part_bool(part, "lowercase", SW_ABSENT_IS_FINE, &step->lowers, err);
    step->strips_accents = step->lowers;
    if (!status)
        status = sw_part_bool(part, "strip_accents", SW_ABSENT_IS_FINE, &step->strips_accents, err);
    return status;
}

static sw_status read_step(const sw_part *part, normalizer_kind kind, sw_normalizer *step,
                           sw_error *err) {
    sw_status status = SW_OK;
    step->kind = kind;
    switch (kind) {
    case STRIP:
        step->strips_left = step->strips_right = true;
        status = sw_part_bool(part, "strip_left", SW_ABSENT_IS_FINE, &step->strips_left, err);
        if (!status)
            status = sw_part_bool(part, "strip_right", SW_ABSENT_IS_FINE, &step->strips_right, err);
        break;
    case REPLACE:
        status = sw_pattern_read(part, "pattern", &step->pattern, err);
        if (!status)
            status = read_content(part, "content", step, err);
        break;
    case PREPEND:
        status = read_content(part, "prepend", step, err);
        break;
    case PRECOMPILED:
        status = sw_precompiled_read(part, &step->map, err);
        break;
    case BERT:
        status = read_bert(part, step, err);
        break;
    default:
        break;
    }
    return status;
}

static sw_status read_next(const sw_part *part, const char *type, void *into, sw_error *err) {
    sw_normalizers *chain = into;
    static const char *const names[] = {[NFC] = "NFC",
                                        [NFD] = "NFD",
                                        [NFKC] = "NFKC",
                                        [NFKD] = "NFKD",
                                        [STRIP] = "Strip",
                                        [STRIP_ACCENTS] = "StripAccents",
                                        [REPLACE] = "Replace",
                                        [LOWERCASE] = "Lowercase",
                                        [PREPEND] = "Prepend",
                                        [PRECOMPILED] = "Precompiled",
                                        [NMT] = "Nmt",
                                        [BERT] = "BertNormalizer",
                                        [BYTE_LEVEL] = "ByteLevel"};
    int kind;
    sw_status status =
        sw_part_step_kind(part, "normalizer", type, names, sizeof names / sizeof *names,
                          chain->n_steps, MAX_STEPS, &kind, err);
    return status ? status
                  : read_step(part, (normalizer_kind)kind, &chain->steps[chain->n_steps++], err);
}

sw_status sw_normalizers_read(const sw_part *root, sw_normalizers *normalizers, sw_error *err) {
    sw_part part;
    sw_status status = sw_part_child(root, "normalizer", SW_ABSENT_IS_FINE, &part, err);
    if (status || !part.object)
        return status;
    normalizers->steps = calloc(MAX_STEPS, sizeof *normalizers->steps);
    if (!normalizers->steps)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", root->file);
    return sw_part_steps(&part, "normalizers", read_next, normalizers, err);
}

void sw_normalizers_free(sw_normalizers *normalizers) {
    for (int i = 0; i < normalizers->n_steps; i++) {
        sw_pattern_free(&normalizers->steps[i].pattern);
        sw_precompiled_free(&normalizers->steps[i].map);
        free(normalizers->steps[i].content);
    }
    free(normalizers->steps);
    *normalizers = (sw_normalizers){0};
}

static void lower(const char *text, size_t n_bytes, sw_bytes *out) {
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        if ((unsigned char)*at < 0x80) {
            sw_bytes_put(out, (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at));
            at++;
            continue;
        }
        uint32_t lowered[2];
        int n = sw_unicode_lower(sw_utf8_next(&at), lowered);
        for (int i = 0; i < n; i++)
            sw_bytes_put_code(out, lowered[i]);
    }
}

/* Keep what is not in the class. */
static void remove_class(const sw_code_ranges *ranges, const char *text, size_t n_bytes,
                         sw_bytes *out) {
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *begin = at;
        if (!sw_unicode_is_in(ranges, sw_utf8_next(&at)))
            sw_bytes_append(out, begin, (size_t)(at - begin));
    }
}

static void strip(const sw_normalizer *step, const char *text, size_t n_bytes, sw_bytes *out) {
    const char *begin = text, *end = text + n_bytes, *at;
    while (step->strips_left && (at = begin) < end && sw_unicode_is_space(sw_utf8_next(&at)))
        begin = at;
    while (step->strips_right && end > begin) {
        const char *last = end - 1;
        while (((unsigned char)*last & 0xC0) == 0x80)
            last--;
        at = last;
        if (!sw_unicode_is_space(sw_utf8_next(&at)))
            break;
        end = last;
    }
    sw_bytes_append(out, begin, (size_t)(end - begin));
}

/* *n_first: what was replaced at the beginning; 0: nothing. */
static sw_status replace(const sw_normalizer *step, const sw_pattern_scratch *scratch,
                         sw_bytes *copy, const char *text, size_t n_bytes, sw_bytes *out,
                         size_t *n_first, sw_error *err) {
    sw_matcher matcher;
    size_t start, end, done = 0;
    bool is_found = false;
    sw_status status =
        sw_matcher_begin(&matcher, &step->pattern, scratch, copy, text, n_bytes, err);
    while (!status && !(status = sw_matcher_next(&matcher, &is_found, &start, &end, err)) &&
           is_found) {
        if (start == 0)
            *n_first = end;
        sw_bytes_append(out, text + done, start - done);
        sw_bytes_append(out, step->content, step->n_content);
        done = end;
    }
    if (!status)
        sw_bytes_append(out, text + done, n_bytes - done);
    return status;
}

/* BERT's steps, one after the other: the last three work on what came before, so they go back and
 * forth between the buffers. */
static void clean(const char *text, size_t n_bytes, sw_bytes *out) {
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *begin = at;
        uint32_t code = sw_utf8_next(&at);
        if (sw_unicode_is_in(&sw_unicode_bert_controls, code))
            continue;
        if (sw_unicode_is_in(&sw_unicode_bert_blanks, code))
            sw_bytes_put(out, ' ');
        else
            sw_bytes_append(out, begin, (size_t)(at - begin));
    }
}

static void set_ideographs_apart(const char *text, size_t n_bytes, sw_bytes *out) {
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *begin = at;
        bool is_apart = sw_unicode_is_in(&sw_unicode_bert_ideographs, sw_utf8_next(&at));
        if (is_apart)
            sw_bytes_put(out, ' ');
        sw_bytes_append(out, begin, (size_t)(at - begin));
        if (is_apart)
            sw_bytes_put(out, ' ');
    }
}

/* SentencePiece's clean-up of machine translation data: controls go, blanks of all kinds become
 * blanks. */
static void clean_nmt(const char *text, size_t n_bytes, sw_bytes *out) {
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *begin = at;
        uint32_t c = sw_utf8_next(&at);
        if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
            c == 0x9F)
            continue;
        if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
            c == 0xFEFF || c == 0xFFFD)
            sw_bytes_put(out, ' ');
        else
            sw_bytes_append(out, begin, (size_t)(at - begin));
    }
}

/* A chain at work: the text as it is now, and the buffers it moves between. */
typedef struct state {
    const char *text;
    size_t n_bytes;
    sw_bytes *buffers;
    int next; /* the buffer that does not hold the text */
    bool has_lost_beginning;
} state;

/* What stands for several characters stands where the last of them stood. */
static bool loses_first(const sw_normalizer *step, const char *text, size_t n_replaced) {
    const char *second = text;
    if (!n_replaced)
        return false;
    sw_utf8_next(&second);
    return !step->n_content || n_replaced > (size_t)(second - text);
}

static sw_bytes *begin_step(state *s) {
    s->buffers[s->next].n = 0;
    return &s->buffers[s->next];
}

static void end_step(state *s) {
    s->text = s->buffers[s->next].data;
    s->n_bytes = s->buffers[s->next].n;
    s->next = !s->next;
}

static void run_bert(const sw_normalizer *step, state *s) {
    if (step->cleans_text) {
        clean(s->text, s->n_bytes, begin_step(s));
        end_step(s);
    }
    if (step->sets_ideographs_apart) {
        set_ideographs_apart(s->text, s->n_bytes, begin_step(s));
        end_step(s);
    }
    if (step->strips_accents) {
        sw_normal_form_append(SW_NFD, s->text, s->n_bytes, begin_step(s));
        end_step(s);
        remove_class(&sw_unicode_bert_marks, s->text, s->n_bytes, begin_step(s));
        end_step(s);
    }
    if (step->lowers) {
        lower(s->text, s->n_bytes, begin_step(s));
        end_step(s);
    }
}

static sw_status run_step(const sw_normalizer *step, const sw_pattern_scratch *scratch,
                          sw_bytes *copy, state *s, sw_error *err) {
    static const sw_normal_form forms[] = {
        [NFC] = SW_NFC, [NFD] = SW_NFD, [NFKC] = SW_NFKC, [NFKD] = SW_NFKD};
    sw_status status = SW_OK;
    if (step->kind == BERT) {
        run_bert(step, s);
        return SW_OK;
    }
    sw_bytes *out = begin_step(s);
    size_t n_replaced = 0;
    switch (step->kind) {
    case NFC:
    case NFD:
    case NFKC:
    case NFKD:
        sw_normal_form_append(forms[step->kind], s->text, s->n_bytes, out);
        break;
    case LOWERCASE:
        lower(s->text, s->n_bytes, out);
        break;
    case STRIP:
        strip(step, s->text, s->n_bytes, out);
        break;
    case STRIP_ACCENTS:
        remove_class(&sw_unicode_marks, s->text, s->n_bytes, out);
        break;
    case REPLACE:
        status = replace(step, scratch, copy, s->text, s->n_bytes, out, &n_replaced, err);
        s->has_lost_beginning |= loses_first(step, s->text, n_replaced);
        break;
    case PREPEND:
        if (s->n_bytes)
            sw_bytes_append(out, step->content, step->n_content);
        sw_bytes_append(out, s->text, s->n_bytes);
        break;
    case PRECOMPILED:
        status = sw_precompiled_append(&step->map, scratch, copy, s->text, s->n_bytes, out, err);
        break;
    case NMT:
        clean_nmt(s->text, s->n_bytes, out);
        break;
    case BYTE_LEVEL:
        sw_byte_alphabet_append(s->text, s->n_bytes, out);
        break;
    case BERT:
        break;
    }
    end_step(s);
    return status;
}

/* Does the step remove the first character of the text? Asked of the steps that remove characters
 * one by one. */
static bool removes_beginning(const sw_normalizer *step, const char *text) {
    const char *at = text;
    uint32_t code = sw_utf8_next(&at);
    char kept[16];
    sw_bytes out = {kept, 0, sizeof kept,
                    true}; /* never grows: one character becomes less than that */
    switch (step->kind) {
    case STRIP:
        return step->strips_left && sw_unicode_is_space(code);
    case STRIP_ACCENTS:
        return sw_unicode_is_in(&sw_unicode_marks, code);
    case NMT:
        clean_nmt(text, (size_t)(at - text), &out);
        return out.n == 0;
    case BERT:
        return (step->cleans_text && sw_unicode_is_in(&sw_unicode_bert_controls, code)) ||
               (step->strips_accents && sw_unicode_is_in(&sw_unicode_bert_marks, code));
    default:
        return false;
    }
}

sw_status sw_normalizers_run(const sw_normalizers *normalizers, const sw_pattern_scratch *scratch,
                             sw_bytes buffers[2], sw_bytes *copy, const char *text, size_t n_bytes,
                             const char **result, size_t *n_result, bool *keeps_beginning,
                             sw_error *err) {
    state s = {text, n_bytes, buffers, 0, false};
    sw_status status = SW_OK;
    for (int i = 0; !status && i < normalizers->n_steps; i++) {
        s.has_lost_beginning |= s.n_bytes && removes_beginning(&normalizers->steps[i], s.text);
        status = run_step(&normalizers->steps[i], scratch, copy, &s, err);
    }
    *keeps_beginning &= !s.has_lost_beginning;
    if (!status && (buffers[0].is_short || buffers[1].is_short))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for a text of %zu bytes", n_bytes);
    *result = s.text ? s.text : "";
    *n_result = s.n_bytes;
    return status;
}
