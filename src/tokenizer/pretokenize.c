/* pretokenize.c: reading and running pre-tokenizers.
 *
 * A splitter finds matches (by a pattern, or character by character) and feeds what matches and
 * what lies between, in order, to a `cutter`, which puts them together as the step's behaviour says
 * and hands each piece to the next step.
 */
#include "tokenizer/pretokenize.h"

#include <stdlib.h>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

typedef enum cut_behaviour {
    REMOVED,
    ISOLATED,
    MERGED_WITH_PREVIOUS,
    MERGED_WITH_NEXT,
    CONTIGUOUS
} cut_behaviour;
static const char *const behaviours[] = {"Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous"};

typedef enum prepend_scheme { PREPEND_FIRST, PREPEND_NEVER, PREPEND_ALWAYS } prepend_scheme;
static const char *const prepend_schemes[] = {"first", "never", "always"};

typedef enum step_kind { BY_PATTERN, BY_CHARACTER, BYTE_LEVEL, METASPACE } step_kind;

struct sw_pretokenizer {
    step_kind kind;
    cut_behaviour behaviour;
    bool inverts;
    sw_pattern pattern;              /* BY_PATTERN; ByteLevel's own */
    bool (*is_match)(uint32_t code); /* BY_CHARACTER */
    bool adds_blank, splits;         /* ByteLevel; Metaspace splits too */
    char replacement[4];             /* Metaspace */
    size_t n_replacement;
    prepend_scheme prepends;
};

static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* What the pre-tokenizer Whitespace takes for word characters: alphabetic, marks, decimal digits,
 * connectors, joiners. Oniguruma's \\w differs a little. */
#define WORD                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}" \
    "\\x{1F150}-\\x{1F169}"                                                                       \
    "\\x{1F170}-\\x{1F189}"

static bool is_number(uint32_t code) {
    return code < 0x80 ? code >= '0' && code <= '9' : sw_unicode_is_in(&sw_unicode_numbers, code);
}

static bool is_punctuation(uint32_t code) {
    if (code < 0x80)
        return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) ||
               (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
    return sw_unicode_is_in(&sw_unicode_bert_punctuation, code);
}

static sw_status read_behaviour(const sw_part *part, sw_need need, cut_behaviour *behaviour,
                                sw_error *err) {
    sw_text_span text = {0};
    int choice = 0;
    sw_status status = sw_part_text(part, "behavior", need, &text, err);
    if (!status && text.text) {
        status = sw_part_choice(part, "behavior", text, behaviours, 5, &choice, err);
        *behaviour = choice;
    }
    return status;
}

static sw_status read_byte_level(const sw_part *part, sw_pretokenizer *step, sw_error *err) {
    step->kind = BYTE_LEVEL;
    step->behaviour = ISOLATED;
    step->adds_blank = step->splits = true;
    sw_status status =
        sw_part_bool(part, "add_prefix_space", SW_ABSENT_IS_FINE, &step->adds_blank, err);
    if (!status)
        status = sw_part_bool(part, "use_regex", SW_ABSENT_IS_FINE, &step->splits, err);
    if (!status && step->splits)
        status = sw_pattern_compile(part->file, part->where, GPT2_PATTERN, sizeof GPT2_PATTERN - 1,
                                    &step->pattern, err);
    return status;
}

static sw_status read_metaspace(const sw_part *part, sw_pretokenizer *step, sw_error *err) {
    sw_text_span replacement = {"\xE2\x96\x81", 3}, scheme = {0};
    bool adds_blank = true;
    int choice = PREPEND_ALWAYS;
    step->kind = METASPACE;
    step->behaviour = MERGED_WITH_NEXT;
    step->splits = true;
    sw_status status = sw_part_text(part, "replacement", SW_ABSENT_IS_FINE, &replacement, err);
    if (!status)
        status = sw_part_bool(part, "split", SW_ABSENT_IS_FINE, &step->splits, err);
    if (!status)
        status = sw_part_bool(part, "add_prefix_space", SW_ABSENT_IS_FINE, &adds_blank, err);
    if (!status)
        status = sw_part_text(part, "prepend_scheme", SW_ABSENT_IS_FINE, &scheme, err);
    if (!status && scheme.text)
        status = sw_part_choice(part, "prepend_scheme", scheme, prepend_schemes, 3, &choice, err);
    if (status)
        return status;
    /* Older files say add_prefix_space: false where newer ones say prepend_scheme: never. */
    if (!adds_blank && scheme.text && choice != PREPEND_NEVER)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %s: add_prefix_space is false, but prepend_scheme is \"%s\"",
                       part->file, part->where, scheme.text);
    step->prepends = adds_blank ? (prepend_scheme)choice : PREPEND_NEVER;
    if (!replacement.n_bytes || (size_t)sw_utf8_length(*replacement.text) != replacement.n_bytes)
        return sw_fail(err, SW_BAD_FILE, "%s: %s.replacement is not one character", part->file,
                       part->where);
    memcpy(step->replacement, replacement.text, replacement.n_bytes);
    step->n_replacement = replacement.n_bytes;
    return SW_OK;
}

static sw_status read_by_character(const sw_part *part, const char *type, sw_pretokenizer *step,
                                   sw_error *err) {
    step->kind = BY_CHARACTER;
    if (!strcmp(type, "Digits")) {
        bool is_individual = false;
        sw_status status =
            sw_part_bool(part, "individual_digits", SW_ABSENT_IS_FINE, &is_individual, err);
        step->is_match = is_number;
        step->behaviour = is_individual ? ISOLATED : CONTIGUOUS;
        return status;
    }
    if (!strcmp(type, "Punctuation")) {
        step->is_match = is_punctuation;
        step->behaviour = ISOLATED;
        return read_behaviour(part, SW_ABSENT_IS_FINE, &step->behaviour, err);
    }
    step->is_match = sw_unicode_is_space; /* WhitespaceSplit */
    step->behaviour = REMOVED;
    return SW_OK;
}

static sw_status read_split(const sw_part *part, sw_pretokenizer *step, sw_error *err) {
    step->kind = BY_PATTERN;
    sw_status status = sw_pattern_read(part, "pattern", &step->pattern, err);
    if (!status)
        status = read_behaviour(part, SW_NEEDED, &step->behaviour, err);
    if (!status)
        status = sw_part_bool(part, "invert", SW_ABSENT_IS_FINE, &step->inverts, err);
    return status;
}

static sw_status read_delimiter(const sw_part *part, sw_pretokenizer *step, sw_error *err) {
    sw_text_span text = {0};
    sw_status status = sw_part_text(part, "delimiter", SW_NEEDED, &text, err);
    if (status)
        return status;
    if (!text.n_bytes || (size_t)sw_utf8_length(*text.text) != text.n_bytes)
        return sw_fail(err, SW_BAD_FILE, "%s: %s.delimiter is not one character", part->file,
                       part->where);
    step->kind = BY_PATTERN;
    step->behaviour = REMOVED;
    step->pattern.literal = malloc(text.n_bytes);
    if (!step->pattern.literal)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(step->pattern.literal, text.text, text.n_bytes);
    step->pattern.n_literal = text.n_bytes;
    return SW_OK;
}

static sw_status read_next(const sw_part *part, const char *type, void *into, sw_error *err) {
    sw_pretokenizers *chain = into;
    if (chain->n_steps + 2 > SW_MAX_PRETOKENIZERS)
        return sw_fail(err, SW_BAD_FILE, "%s: more than %d pre-tokenizers", part->file,
                       SW_MAX_PRETOKENIZERS - 1);
    sw_pretokenizer *step = &chain->steps[chain->n_steps];
    chain->n_steps++;
    chain->ends_in_bytes = false;
    if (!strcmp(type, "Split"))
        return read_split(part, step, err);
    if (!strcmp(type, "ByteLevel")) {
        chain->ends_in_bytes = true;
        return read_byte_level(part, step, err);
    }
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(part, step, err);
    if (!strcmp(type, "Digits") || !strcmp(type, "Punctuation") || !strcmp(type, "WhitespaceSplit"))
        return read_by_character(part, type, step, err);
    if (!strcmp(type, "CharDelimiterSplit"))
        return read_delimiter(part, step, err);
    if (!strcmp(type, "BertPreTokenizer")) { /* white space goes, then punctuation stands alone */
        step[0] = (sw_pretokenizer){
            .kind = BY_CHARACTER, .behaviour = REMOVED, .is_match = sw_unicode_is_space};
        step[1] = (sw_pretokenizer){
            .kind = BY_CHARACTER, .behaviour = ISOLATED, .is_match = is_punctuation};
        chain->n_steps++;
        return SW_OK;
    }
    if (!strcmp(type, "Whitespace")) { /* words, and runs of what is neither word nor white space */
        static const char expression[] = "[" WORD "]+|[^" WORD "\\s]+";
        step->behaviour = REMOVED;
        step->inverts = true;
        return sw_pattern_compile(part->file, part->where, expression, sizeof expression - 1,
                                  &step->pattern, err);
    }
    return sw_part_unknown(part, "pre-tokenizer", type, err);
}

sw_status sw_pretokenizers_read(const sw_part *root, sw_pretokenizers *pretokenizers,
                                sw_error *err) {
    sw_part part;
    sw_status status = sw_part_child(root, "pre_tokenizer", SW_ABSENT_IS_FINE, &part, err);
    if (status || !part.object)
        return status;
    pretokenizers->steps = calloc(SW_MAX_PRETOKENIZERS, sizeof *pretokenizers->steps);
    if (!pretokenizers->steps)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", root->file);
    return sw_part_steps(&part, "pretokenizers", read_next, pretokenizers, err);
}

void sw_pretokenizers_free(sw_pretokenizers *pretokenizers) {
    for (int i = 0; i < pretokenizers->n_steps; i++)
        sw_pattern_free(&pretokenizers->steps[i].pattern);
    free(pretokenizers->steps);
    *pretokenizers = (sw_pretokenizers){0};
}

/* The chain at work. */
typedef struct run {
    const sw_pretokenizers *chain;
    sw_pretokenize_scratch *scratch;
    sw_piece_sink sink;
    sw_error *err;
} run;

static sw_status cut_step(const run *r, int step, const char *text, size_t n_bytes,
                          bool begins_input);

/* A splitter's pieces being put together. */
typedef struct cutter {
    const run *run;
    int next_step;
    cut_behaviour behaviour;
    bool inverts, begins_input;
    const char *text;
    bool has_held, was_match; /* was_match: of what came last */
    size_t held_start, held_end;
} cutter;

static sw_status emit(const cutter *c, size_t start, size_t end) {
    if (start == end)
        return SW_OK;
    return cut_step(c->run, c->next_step, c->text + start, end - start,
                    c->begins_input && start == 0);
}

/* The stretch start .. end, a match or what lies between two. */
static sw_status feed(cutter *c, size_t start, size_t end, bool is_match) {
    is_match = is_match != c->inverts;
    bool joins = false; /* the stretch that is held */
    switch (c->behaviour) {
    case REMOVED:
        return is_match ? SW_OK : emit(c, start, end);
    case ISOLATED:
        return emit(c, start, end);
    case MERGED_WITH_PREVIOUS:
        joins = is_match && !c->was_match;
        break;
    case MERGED_WITH_NEXT:
        joins = c->was_match && !is_match;
        break;
    case CONTIGUOUS:
        joins = is_match == c->was_match;
        break;
    }
    sw_status status = SW_OK;
    if (c->has_held && !joins)
        status = emit(c, c->held_start, c->held_end);
    if (!c->has_held || !joins)
        c->held_start = start;
    c->held_end = end;
    c->has_held = true;
    c->was_match = is_match;
    return status;
}

static sw_status end_feed(const cutter *c) {
    return c->has_held ? emit(c, c->held_start, c->held_end) : SW_OK;
}

static sw_status cut_by_pattern(cutter *c, const sw_pretokenizer *step, sw_bytes *copy,
                                size_t n_bytes) {
    sw_matcher matcher;
    size_t start, end, done = 0;
    bool is_found = false;
    const run *r = c->run;
    sw_status status = sw_matcher_begin(&matcher, &step->pattern, r->scratch->pattern, copy,
                                        c->text, n_bytes, r->err);
    while (!status && !(status = sw_matcher_next(&matcher, &is_found, &start, &end, r->err)) &&
           is_found) {
        if (done < start)
            status = feed(c, done, start, false);
        if (!status)
            status = feed(c, start, end, true);
        done = end;
    }
    if (!status && done < n_bytes)
        status = feed(c, done, n_bytes, false);
    return status ? status : end_feed(c);
}

static sw_status cut_by_character(cutter *c, const sw_pretokenizer *step, size_t n_bytes) {
    size_t done = 0;
    sw_status status = SW_OK;
    for (const char *at = c->text, *end = at + n_bytes; !status && at < end;) {
        size_t start = (size_t)(at - c->text);
        if (!step->is_match(sw_utf8_next(&at)))
            continue;
        if (done < start)
            status = feed(c, done, start, false);
        done = (size_t)(at - c->text);
        if (!status)
            status = feed(c, start, done, true);
    }
    if (!status && done < n_bytes)
        status = feed(c, done, n_bytes, false);
    return status ? status : end_feed(c);
}

static sw_status no_memory(const run *r, size_t n_bytes) {
    return sw_fail(r->err, SW_NO_MEMORY, "no memory for a text of %zu bytes", n_bytes);
}

/* Bytes become characters of the byte alphabet piece by piece; as the last step that is the model's
 * business. */
static sw_status take_byte_piece(void *to, const char *text, size_t n_bytes, sw_error *err) {
    const cutter *c = to;
    sw_bytes *mapped = &c->run->scratch->mapped[c->next_step - 1];
    (void)err;
    mapped->n = 0;
    sw_byte_alphabet_append(text, n_bytes, mapped);
    if (mapped->is_short)
        return no_memory(c->run, n_bytes);
    return cut_step(c->run, c->next_step, mapped->data, mapped->n,
                    c->begins_input && text == c->text);
}

static sw_status cut_byte_level(cutter *c, const sw_pretokenizer *step, int index, size_t n_bytes) {
    const run *r = c->run;
    sw_bytes *changed = &r->scratch->texts[index];
    if (step->adds_blank && c->text[0] != ' ') {
        changed->n = 0;
        sw_bytes_put(changed, ' ');
        sw_bytes_append(changed, c->text, n_bytes);
        if (changed->is_short)
            return no_memory(r, n_bytes);
        c->text = changed->data;
        n_bytes = changed->n;
    }
    bool is_last = index + 1 == r->chain->n_steps && r->chain->leaves_bytes;
    if (is_last)
        return step->splits ? cut_by_pattern(c, step, &r->scratch->copies[index], n_bytes)
                            : emit(c, 0, n_bytes);
    /* A step between: pieces are cut first and then written as characters. */
    if (!step->splits)
        return take_byte_piece(c, c->text, n_bytes, r->err);
    const sw_pretokenizers no_more = {.steps = NULL, .n_steps = 0};
    const run mapping = {&no_more, r->scratch, {take_byte_piece, c}, r->err};
    cutter pieces = {.run = &mapping, .next_step = 0, .behaviour = ISOLATED, .text = c->text};
    return cut_by_pattern(&pieces, step, &r->scratch->copies[index], n_bytes);
}

static sw_status cut_metaspace(cutter *c, const sw_pretokenizer *step, int index, size_t n_bytes) {
    sw_bytes *changed = &c->run->scratch->texts[index];
    bool has_one = c->text[0] == ' ' || (n_bytes >= step->n_replacement &&
                                         !memcmp(c->text, step->replacement, step->n_replacement));
    bool prepends =
        step->prepends == PREPEND_ALWAYS || (step->prepends == PREPEND_FIRST && c->begins_input);
    changed->n = 0;
    if (prepends && !has_one)
        sw_bytes_append(changed, step->replacement, step->n_replacement);
    for (size_t i = 0; i < n_bytes; i++) {
        if (c->text[i] == ' ')
            sw_bytes_append(changed, step->replacement, step->n_replacement);
        else
            sw_bytes_put(changed, c->text[i]);
    }
    if (changed->is_short)
        return no_memory(c->run, n_bytes);
    c->text = changed->data;
    if (!step->splits)
        return emit(c, 0, changed->n);
    const sw_pretokenizer by_mark = {
        .pattern = {.literal = (char *)step->replacement, .n_literal = step->n_replacement}};
    return cut_by_pattern(c, &by_mark, &c->run->scratch->copies[index], changed->n);
}

static sw_status cut_step(const run *r, int index, const char *text, size_t n_bytes,
                          bool begins_input) {
    if (index == r->chain->n_steps)
        return r->sink.take(r->sink.to, text, n_bytes, r->err);
    const sw_pretokenizer *step = &r->chain->steps[index];
    cutter c = {.run = r,
                .next_step = index + 1,
                .behaviour = step->behaviour,
                .inverts = step->inverts,
                .begins_input = begins_input,
                .text = text};
    switch (step->kind) {
    case BY_PATTERN:
        return cut_by_pattern(&c, step, &r->scratch->copies[index], n_bytes);
    case BY_CHARACTER:
        return cut_by_character(&c, step, n_bytes);
    case BYTE_LEVEL:
        return cut_byte_level(&c, step, index, n_bytes);
    default:
        return cut_metaspace(&c, step, index, n_bytes);
    }
}

sw_status sw_pretokenize(const sw_pretokenizers *pretokenizers, sw_pretokenize_scratch *scratch,
                         const char *text, size_t n_bytes, bool begins_input, sw_piece_sink sink,
                         sw_error *err) {
    const run r = {pretokenizers, scratch, sink, err};
    return n_bytes ? cut_step(&r, 0, text, n_bytes, begins_input) : SW_OK;
}
