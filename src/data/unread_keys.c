/* unread_keys.c: a few names and their counts. */
#include "data/unread_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static void count(sw_unread_keys *keys, const char *name, int64_t n_rows) {
    for (int i = 0; i < SW_MOST_UNREAD_KEYS; i++) {
        if (keys->key[i].n_rows && strcmp(keys->key[i].name, name) != 0)
            continue;
        if (!keys->key[i].n_rows)
            memcpy(keys->key[i].name, name, strlen(name) + 1);
        keys->key[i].n_rows += n_rows;
        return;
    }
    keys->n_more += n_rows;
}

void sw_unread_keys_note(sw_unread_keys *keys, const char *of, sw_slice name) {
    char text[SW_UNREAD_KEY_BYTES];
    int n = snprintf(text, sizeof text, "%s%.*s", of,
                     name.bytes < SW_UNREAD_KEY_BYTES ? (int)name.bytes : SW_UNREAD_KEY_BYTES,
                     name.text);
    if (n >= (int)sizeof text) /* not within a character */
        for (n = (int)sizeof text - 1; n > 0 && (text[n - 1] & 0xC0) == 0x80; n--)
            text[n - 1] = 0;
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            *at = '?';
    count(keys, text, 1);
}

void sw_unread_keys_add(sw_unread_keys *keys, const sw_unread_keys *more) {
    for (int i = 0; i < SW_MOST_UNREAD_KEYS && more->key[i].n_rows; i++)
        count(keys, more->key[i].name, more->key[i].n_rows);
    keys->n_more += more->n_more;
}

char *sw_unread_keys_tell(const sw_unread_keys *keys, char *text, size_t bytes) {
    size_t n = 0;
    *text = 0;
    for (int i = 0; i < SW_MOST_UNREAD_KEYS && keys->key[i].n_rows && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%s (%" PRId64 ")", i ? ", " : "",
                              keys->key[i].name, keys->key[i].n_rows);
    if (keys->n_more && n < bytes)
        snprintf(text + n, bytes - n, " and more (%" PRId64 ")", keys->n_more);
    return text;
}

const char *sw_unread_key_meant(const char *word, const char *const *known, int n_known) {
    const char *nearest = sw_text_nearest(word, known, n_known);
    const bool is_compound = nearest && strpbrk(word, "_-. ") && !strpbrk(nearest, "_");
    return is_compound && sw_text_distance(word, nearest) > 1 ? NULL : nearest;
}
