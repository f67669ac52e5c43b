/* unread_keys.h: keys of rows that nobody reads, counted to be told once. */
#ifndef SW_DATA_UNREAD_KEYS_H
#define SW_DATA_UNREAD_KEYS_H

#include <stdint.h>

#include "base/slice.h"

enum { SW_MOST_UNREAD_KEYS = 8, SW_UNREAD_KEY_BYTES = 40 };

/* All of it int64 words, so that it can lie in a file of numbers; starts as {0}. */
typedef struct sw_unread_keys {
    struct {
        char name[SW_UNREAD_KEY_BYTES]; /* ended by a NUL, cut where it is longer */
        int64_t n_rows;                 /* that have it; 0: no key */
    } key[SW_MOST_UNREAD_KEYS];
    int64_t n_more; /* times that a further key was met */
} sw_unread_keys;

/* Count a key; `of` goes before its name: "", "messages.". */
void sw_unread_keys_note(sw_unread_keys *keys, const char *of, sw_slice name);

/* The counts of `more` are added. */
void sw_unread_keys_add(sw_unread_keys *keys, const sw_unread_keys *more);

/* "id (12), source (12)" into text [bytes]; "" where there are none. */
char *sw_unread_keys_tell(const sw_unread_keys *keys, char *text, size_t bytes);

/* The key that was meant where this one is a slip of it; NULL: it is a word of its own. `prompt_id`
 * is no slip of `prompt`. */
const char *sw_unread_key_meant(const char *word, const char *const *known, int n_known);

#endif
