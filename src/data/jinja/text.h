/* text.h: texts, which are UTF-8 in memory and characters to a template. */
#ifndef SW_DATA_JINJA_TEXT_H
#define SW_DATA_JINJA_TEXT_H

#include <string.h>

#include "data/jinja/characters.h"
#include "data/jinja/run.h"

/* A text of a copy of these bytes; of these bytes themselves, which outlive the rendering. NULL:
 * failed. */
jinja_text *sw_jinja_text(jinja_run *run, const char *bytes, int64_t n_bytes);
jinja_text *sw_jinja_view(jinja_run *run, const char *bytes, int64_t n_bytes);
static inline jinja_text *sw_jinja_words(jinja_run *run, const char *words) {
    return sw_jinja_view(run, words, (int64_t)strlen(words));
}

/* The same as a value. False: failed. */
bool sw_jinja_give_text(jinja_text *text, jinja_value *out);

/* Fill what is looked up later: for texts that many renderings share. */
void sw_jinja_text_settle(jinja_text *text);

/* Characters. */
int64_t sw_jinja_length(const jinja_text *text);
/* Those in a stretch of UTF-8. */
int64_t sw_jinja_count(const char *bytes, int64_t n_bytes);
/* Where character i of 0 .. length begins. */
const char *sw_jinja_at(const jinja_text *text, int64_t i);
static inline const char *sw_jinja_end_of(const jinja_text *text) {
    return text->bytes + text->n_bytes;
}

/* Never 0; the same for the same bytes. */
uint64_t sw_jinja_text_hash(jinja_text *text);
static inline bool sw_jinja_same_text(const jinja_text *a, const jinja_text *b) {
    return a == b ||
           (a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, (size_t)a->n_bytes) == 0);
}
bool sw_jinja_is_word(const jinja_text *text, const char *word);
/* Below 0, 0, above 0: by code points. */
int sw_jinja_text_order(const jinja_text *a, const jinja_text *b);

/* A part of it, from `first` to before `end`, which point into it; without copying. It is markup
 * where the whole is. */
jinja_text *sw_jinja_part(jinja_run *run, const jinja_text *text, const char *first,
                          const char *end);

/* a followed by b. In place where a ends its buffer and there is room. Marks of both are kept. */
jinja_text *sw_jinja_join(jinja_run *run, jinja_text *a, jinja_text *b);

/* The first place of a needle in a stretch of bytes; NULL: there is none. */
const char *sw_jinja_find(const char *first, const char *end, const jinja_text *needle);
/* The last one. False: failed. */
bool sw_jinja_find_last(jinja_run *run, const char *first, const char *end,
                        const jinja_text *needle, const char **place);

/* The character before `at`; *at moves to it. */
static inline uint32_t sw_jinja_previous(const char **at) {
    const char *before = *at - 1;
    while ((*before & 0xC0) == 0x80)
        before--;
    *at = before;
    return sw_utf8_next(&before);
}

/* Past white space at the start, before white space at the end. */
const char *sw_jinja_skip_spaces(const char *at, const char *end);
const char *sw_jinja_skip_spaces_back(const char *first, const char *end);

#endif
