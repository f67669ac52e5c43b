/* text.h: words and numbers between people and the program: the name that was meant, sizes and
 * times with units. */
#ifndef SW_BASE_TEXT_H
#define SW_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/number.h"

/* Insertions, deletions, replacements and swaps of neighbours (Damerau's optimal string alignment)
 * that turn a into b; '-' is '_' and case does not count. Words beyond 64 characters count as
 * different in all of them. */
int sw_text_distance(const char *a, const char *b);

/* The candidate nearest to `word`, NULL if none is near enough to have been meant (more than a
 * third of its letters differ). */
const char *sw_text_nearest(const char *word, const char *const *candidates, int n_candidates);

/* Numbers for people, written into the buffer, which is returned. 32 bytes are enough for each. */
#define SW_TEXT_NUMBER_BYTES 32
char *sw_text_bytes(int64_t bytes, char *buffer, size_t buffer_bytes); /* "512 B", "1.5 GiB" */
char *sw_text_count(double count, char *buffer,
                    size_t buffer_bytes); /* "950", "12.3 k", "1.25 M" */
char *sw_text_loss(double loss, char *buffer,
                   size_t buffer_bytes); /* "5.7200", "none" for one that does not exist */
char *sw_text_duration(double seconds, char *buffer,
                       size_t buffer_bytes); /* "4.2 s", "3 min 07 s", "2 h 05 min", "3 d 04 h" */

/* The shortest way to write a byte count exactly: "5GiB", "1536MiB", "1000". */
char *sw_text_exact_bytes(int64_t bytes, char *buffer, size_t buffer_bytes);

/* The shortest decimal that reads back as the same double, whatever the locale. */
char *sw_text_exact_real(double value, char *buffer, size_t buffer_bytes);

/* The word that goes with so many: "1 slot", "2 slots", "0 slots". */
static inline const char *sw_text_noun(int64_t n, const char *one, const char *many) {
    return n == 1 ? one : many;
}

/* Close a stream of open_memstream (NULL: it could not be opened). True if all that was printed is
 * in *text; else *text is NULL. Where memory is short for the last byte, fclose says nothing and
 * leaves no text. */
bool sw_text_close(FILE *out, char **text);

/* A text as one word of a shell's command, in quotes where it needs them; written into the buffer,
 * which is returned. A text that does not fit is cut. */
char *sw_text_shell_word(const char *text, char *buffer, size_t buffer_bytes);

/* Is the text UTF-8? */
bool sw_text_is_utf8(const char *text, size_t bytes);

#endif
