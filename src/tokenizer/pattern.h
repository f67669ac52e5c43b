/* pattern.h: the patterns of a tokenizer.json: a literal text, or a regular expression.
 *
 * The expressions are written for Oniguruma in its Ruby syntax and Unicode 16. PCRE2 runs them, so
 * they are translated (\w, \h, \b, classes within classes, "{,n}", "{n}+"), and characters younger
 * than PCRE2's tables are shown to it as a stand-in of the same class and length
 * (unicode_tables.c). What has no translation is refused by name.
 */
#ifndef SW_TOKENIZER_PATTERN_H
#define SW_TOKENIZER_PATTERN_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/containers.h"
#include "tokenizer/fields.h"

typedef struct sw_pattern {
    char *literal; /* NULL: an expression */
    size_t n_literal;
    pcre2_code *code;
} sw_pattern;

/* From {"String": "..."} or {"Regex": "..."} under a key. Ownership: sw_pattern_free. */
sw_status sw_pattern_read(const sw_part *part, const char *key, sw_pattern *pattern, sw_error *err);

/* From an expression [n_bytes]; `file` and `where` are for messages. */
sw_status sw_pattern_compile(const char *file, const char *where, const char *expression,
                             size_t n_bytes, sw_pattern *pattern, sw_error *err);
void sw_pattern_free(sw_pattern *pattern);

/* What matching needs, for one thread. */
typedef struct sw_pattern_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
} sw_pattern_scratch;

bool sw_pattern_scratch_create(sw_pattern_scratch *scratch); /* false: memory is short */
void sw_pattern_scratch_free(sw_pattern_scratch *scratch);

/* A search through text [n_bytes] (UTF-8), match after match. `copy` holds the text with stand-ins,
 * if it needs any, and must stay untouched meanwhile. */
typedef struct sw_matcher {
    const sw_pattern *pattern;
    const sw_pattern_scratch *scratch;
    const char *text;
    size_t n_bytes, at, last_end;
    bool has_matched;
} sw_matcher;

sw_status sw_matcher_begin(sw_matcher *matcher, const sw_pattern *pattern,
                           const sw_pattern_scratch *scratch, sw_bytes *copy, const char *text,
                           size_t n_bytes, sw_error *err);

/* *is_found: the next match is start .. end. Errors: SW_BAD_FILE (PCRE2 gave up: its limits),
 * SW_NO_MEMORY. */
sw_status sw_matcher_next(sw_matcher *matcher, bool *is_found, size_t *start, size_t *end,
                          sw_error *err);

#endif
