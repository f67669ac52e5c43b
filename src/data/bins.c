/* bins.c: a counting sort, then for each thing the least room that is enough, found in a tree of
 * bits.
 *
 *   room      0 1 2 3 4 5 6 7 8
 *   level 0   0 0 0 1 0 0 1 0 0    a bit for each room that some bin has; level 1: one for each
 *                                  word of level 0 that is not 0 ...
 *   first     . . . 9 . . 2 . .    a bin with that room, and others behind it in a chain
 */
#include "data/bins.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_LEVELS = 6 }; /* 64^6 > 2^32 */

typedef struct bit_tree {
    uint64_t *word[MOST_LEVELS];
    int n_levels;
} bit_tree;

/* Each level ends with a word that stays 0, where a search that goes past the last one finds
 * nothing. */
static bool tree_create(bit_tree *tree, uint64_t n_bits) {
    *tree = (bit_tree){.n_levels = 0};
    do {
        n_bits = (n_bits + 63) / 64;
        tree->word[tree->n_levels] = calloc(n_bits + 1, sizeof **tree->word);
        if (!tree->word[tree->n_levels++])
            return false;
    } while (n_bits > 1);
    return true;
}

static void tree_free(bit_tree *tree) {
    for (int level = 0; level < tree->n_levels; level++)
        free(tree->word[level]);
}

static void tree_set(bit_tree *tree, uint64_t bit) {
    for (int level = 0; level < tree->n_levels; level++, bit /= 64)
        tree->word[level][bit / 64] |= UINT64_C(1) << bit % 64;
}

static void tree_clear(bit_tree *tree, uint64_t bit) {
    for (int level = 0; level < tree->n_levels; level++, bit /= 64)
        if (tree->word[level][bit / 64] &= ~(UINT64_C(1) << bit % 64))
            return;
}

/* The least bit at or above `bit` that is set; false: there is none. */
static bool tree_next(const bit_tree *tree, uint64_t bit, uint64_t *found) {
    int level = 0;
    uint64_t above;
    while (!(above = tree->word[level][bit / 64] >> bit % 64)) {
        if (++level == tree->n_levels)
            return false;
        bit = bit / 64 + 1;
    }
    bit += (uint64_t)__builtin_ctzll(above);
    while (level-- > 0)
        bit = bit * 64 + (uint64_t)__builtin_ctzll(tree->word[level][bit]);
    *found = bit;
    return true;
}

/* The things there are, the largest first, of equals the first. `count` [capacity + 1] comes as
 * zeros and goes as anything. */
static uint32_t sort(const uint32_t *size, int64_t n, uint32_t capacity, uint32_t *count,
                     uint32_t *sorted) {
    uint32_t n_there = 0;
    for (int64_t i = 0; i < n; i++)
        count[size[i]]++;
    for (uint32_t s = capacity; s > 0; s--) {
        uint32_t n_equal = count[s];
        count[s] = n_there;
        n_there += n_equal;
    }
    for (int64_t i = 0; i < n; i++)
        if (size[i])
            sorted[count[size[i]]++] = (uint32_t)i;
    return n_there;
}

/* A capacity of more than all sizes together is as good as their sum. */
static uint32_t enough(const uint32_t *size, int64_t n, uint32_t capacity) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n && sum < capacity; i++)
        sum += size[i];
    return sum < capacity ? (uint32_t)sum : capacity;
}

static void fit(uint32_t *size_or_bin, const uint32_t *sorted, uint32_t n_sorted, uint32_t capacity,
                bit_tree *rooms, uint32_t *first, uint32_t *next, uint32_t *n_bins) {
    for (uint32_t i = 0; i < n_sorted; i++) {
        uint32_t size = size_or_bin[sorted[i]], bin;
        uint64_t room;
        if (tree_next(rooms, size, &room)) {
            bin = first[room];
            first[room] = next[bin];
            if (first[room] == SW_NO_BIN)
                tree_clear(rooms, room);
        } else {
            bin = (*n_bins)++;
            room = capacity;
        }
        size_or_bin[sorted[i]] = bin;
        room -= size;
        if (room == 0)
            continue;
        next[bin] = first[room];
        first[room] = bin;
        tree_set(rooms, room);
    }
}

sw_status sw_bins_fit(uint32_t *size_or_bin, int64_t n, uint32_t capacity, uint32_t *n_bins,
                      sw_error *err) {
    assert(n >= 0 && n < UINT32_MAX);
    *n_bins = 0;
    capacity = enough(size_or_bin, n, capacity);
    bit_tree rooms = {.n_levels = 0};
    uint32_t *first = calloc((size_t)capacity + 1, sizeof *first);
    uint32_t *sorted = malloc(((size_t)n + 1) * sizeof *sorted),
             *next = malloc(((size_t)n + 1) * sizeof *next);
    bool is_made = first && sorted && next && tree_create(&rooms, (uint64_t)capacity + 1);
    if (is_made) {
        uint32_t n_sorted = sort(size_or_bin, n, capacity, first, sorted);
        for (int64_t i = 0; i < n; i++)
            size_or_bin[i] = size_or_bin[i] ? size_or_bin[i] : SW_NO_BIN;
        for (int64_t room = 0; room <= capacity; room++)
            first[room] = SW_NO_BIN;
        fit(size_or_bin, sorted, n_sorted, capacity, &rooms, first, next, n_bins);
    }
    tree_free(&rooms);
    free(first);
    free(sorted);
    free(next);
    return is_made ? SW_OK
                   : sw_fail(err, SW_NO_MEMORY,
                             "no memory to put %lld documents into rows of %u tokens", (long long)n,
                             capacity);
}
