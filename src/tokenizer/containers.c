/* containers.c: growing bytes and the prefix set. */
#include "tokenizer/containers.h"

#include <stdlib.h>

#include "tokenizer/unicode.h"

bool sw_bytes_reserve(sw_bytes *bytes, size_t n) {
    if (bytes->is_short)
        return false;
    if (bytes->capacity - bytes->n >= n)
        return true;
    size_t needed, capacity;
    if (__builtin_add_overflow(bytes->n, n, &needed) ||
        __builtin_add_overflow(needed, needed / 2 + 64, &capacity)) {
        bytes->is_short = true;
        return false;
    }
    char *data = realloc(bytes->data, capacity);
    if (!data) {
        bytes->is_short = true;
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

void sw_bytes_free(sw_bytes *bytes) {
    free(bytes->data);
    *bytes = (sw_bytes){0};
}

void sw_bytes_put_code(sw_bytes *bytes, uint32_t code) {
    char utf8[4];
    sw_bytes_append(bytes, utf8, (size_t)sw_utf8_put(code, utf8));
}

static int compare_texts(const void *left, const void *right) {
    const sw_token_text *a = left, *b = right;
    size_t n_shared = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int order = memcmp(a->text, b->text, n_shared);
    if (order)
        return order;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void sw_prefix_set_create(sw_prefix_set *set, sw_token_text *members, int32_t n) {
    if (n)
        qsort(members, (size_t)n, sizeof *members, compare_texts);
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        bool is_same = n_kept && members[n_kept - 1].n_bytes == members[i].n_bytes &&
                       memcmp(members[n_kept - 1].text, members[i].text, members[i].n_bytes) == 0;
        n_kept -= is_same;
        members[n_kept++] = members[i];
    }
    set->members = members;
    set->n = n_kept;
    int32_t at = 0;
    for (int byte = 0; byte <= 256; byte++) {
        while (at < n_kept && (unsigned char)members[at].text[0] < byte)
            at++;
        set->first[byte] = at;
    }
}

void sw_prefix_set_free(sw_prefix_set *set) {
    free(set->members);
    *set = (sw_prefix_set){0};
}

sw_prefix_search sw_prefix_search_begin(const sw_prefix_set *set, const char *text,
                                        size_t n_bytes) {
    sw_prefix_search search = {set, text, n_bytes, 1, 0, 0};
    if (n_bytes) {
        search.low = set->first[(unsigned char)text[0]];
        search.high = set->first[(unsigned char)text[0] + 1];
    }
    return search;
}

/* The first of the members low .. high whose byte `depth` is at least `byte`. */
static int32_t lower_bound(const sw_prefix_search *search, unsigned byte) {
    int32_t low = search->low, high = search->high;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((unsigned char)search->set->members[middle].text[search->depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const sw_token_text *sw_prefix_search_next(sw_prefix_search *search) {
    while (search->low < search->high) {
        const sw_token_text *shortest = &search->set->members[search->low];
        if (shortest->n_bytes ==
            search->depth) { /* the rest is longer: sorted, the shortest comes first */
            search->low++;
            return shortest;
        }
        if (search->depth == search->n_bytes)
            return NULL;
        unsigned byte = (unsigned char)search->text[search->depth];
        search->low = lower_bound(search, byte);
        search->high = lower_bound(search, byte + 1);
        search->depth++;
    }
    return NULL;
}
