/* agree.c: hashes of prefixes are exchanged; the first thing that differs lies between the longest
 * equal prefix and the next.
 *
 * So the first line that differs is found, and in that line the first byte.
 */
#include "execute/agree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    SHOWN = 240,
    BEFORE = 60
}; /* bytes of a line that are shown, and of those how many from before the difference */

typedef struct opinion {
    uint64_t hash;
    int64_t n; /* lines, or bytes */
} opinion;

typedef struct lines {
    sw_line_fn line;
    const void *self;
    int64_t n;
    char *text; /* [room] the line that was read last */
    size_t room;
} lines;

typedef uint64_t (*hash_fn)(const lines *l, int64_t n);

/* Room for the longest line. */
static sw_status open_lines(lines *l, sw_error *err) {
    l->room = 1;
    for (int64_t i = 0; i < l->n; i++) {
        size_t bytes = l->line(l->self, i, NULL, 0) + 1;
        l->room = bytes > l->room ? bytes : l->room;
    }
    l->text = calloc(l->room, 1);
    return l->text ? SW_OK
                   : sw_fail(err, SW_NO_MEMORY,
                             "no memory to compare a line of %zu bytes with other ranks", l->room);
}

/* Of the first n lines. */
static uint64_t hash_lines(const lines *l, int64_t n) {
    uint64_t hash = SW_HASH_START;
    for (int64_t i = 0; i < n; i++) {
        l->line(l->self, i, l->text, l->room);
        hash = sw_hash_text(sw_hash_text(hash, l->text), "\n");
    }
    return hash;
}

/* Of the first n bytes of the line that was read last. */
static uint64_t hash_bytes(const lines *l, int64_t n) {
    assert(n < (int64_t)l->room);
    return sw_hash_bytes(SW_HASH_START, l->text, (size_t)n);
}

/* The first rank whose opinion is not rank 0's; 0 if all agree. */
static sw_status first_other(sw_comm *comm, opinion mine, int *other, sw_error *err) {
    opinion all[SW_MAX_RANKS];
    sw_status status = sw_exchange(comm, &mine, all, sizeof mine, err);
    *other = 0;
    for (int r = sw_comm_size(comm) - 1; r > 0 && !status; r--)
        if (all[r].hash != all[0].hash || all[r].n != all[0].n)
            *other = r;
    return status;
}

/* Of the n things that this rank has: the first that is not the same on `*other` and on rank 0;
 * *other is 0 if all are. */
static sw_status first_difference(sw_comm *comm, const lines *l, hash_fn hash, int64_t n,
                                  int64_t *first, int *other, sw_error *err) {
    int64_t counts[SW_MAX_RANKS], longest = 0;
    sw_status status = first_other(comm, (opinion){hash(l, n), n}, other, err);
    if (status || !*other)
        return status;
    if ((status = sw_exchange(comm, &n, counts, sizeof n, err)))
        return status;
    for (int r = 0; r < sw_comm_size(comm); r++)
        longest = counts[r] > longest ? counts[r] : longest;
    int64_t same = 0,
            differ = longest; /* prefixes of `same` things agree, of `differ` things do not */
    while (differ - same > 1) {
        int64_t middle = same + (differ - same) / 2, mine = middle < n ? middle : n;
        int who;
        if ((status = first_other(comm, (opinion){hash(l, mine), mine}, &who, err)))
            return status;
        *(who ? &differ : &same) = middle;
        *other = who ? who : *other;
    }
    *first = same;
    return SW_OK;
}

/* The part of a line around a byte. */
static void show(char shown[SHOWN], const char *text, int64_t bytes, int64_t at) {
    int64_t from = at > SHOWN / 2 ? at - BEFORE : 0;
    from = from < bytes ? from : bytes;
    snprintf(shown, SHOWN, "%s%.*s", from ? "..." : "", SHOWN - 4, text + from);
}

sw_status sw_agree(sw_comm *comm, const char *what, int64_t n_lines, sw_line_fn line,
                   const void *self, sw_error *err) {
    lines l = {.line = line, .self = self, .n = n_lines};
    char mine[SHOWN] = "(nothing)", all[SW_MAX_RANKS][SHOWN];
    int64_t differing = 0, at = 0;
    int other = 0, by_bytes;
    sw_status status = open_lines(&l, err);
    if (!status)
        status = first_difference(comm, &l, hash_lines, n_lines, &differing, &other, err);
    if (status || !other)
        goto done;
    bool is_there = differing < n_lines;
    l.text[0] = 0;
    if (is_there)
        line(self, differing, l.text, l.room);
    int64_t bytes = (int64_t)strlen(l.text);
    if ((status = first_difference(comm, &l, hash_bytes, bytes, &at, &by_bytes, err)))
        goto done;
    other = by_bytes ? by_bytes : other; /* 0: an empty line, and none */
    if (is_there)
        show(mine, l.text, bytes, at);
    if ((status = sw_exchange(comm, mine, all, sizeof mine, err)))
        goto done;
    status =
        sw_fail(err, SW_MISMATCH,
                "ranks disagree on the %s, first at line %" PRId64
                " · rank 0: %s · rank %d: %s · start all ranks from one build and one run.yaml",
                what, differing, all[0], other, all[other]);
done:
    free(l.text);
    return status;
}
