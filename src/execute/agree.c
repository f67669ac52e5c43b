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
    int64_t class;
} opinion;

/* Who is compared with whom: every rank with the first one of its class. */
typedef struct company {
    sw_comm *comm;
    int class;        /* this rank's */
    int looks_at;     /* the class whose ranks disagree; -1: not known yet */
    int first, other; /* of that class, the first rank and one that differs from it; other 0: all
                         agree */
} company;

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

/* The first rank whose opinion is not that of the first one of its class. */
static sw_status first_other(company *c, opinion mine, bool *differ, sw_error *err) {
    opinion all[SW_MAX_RANKS];
    mine.class = c->class;
    sw_status status = sw_exchange(c->comm, &mine, all, sizeof mine, err);
    *differ = false;
    for (int r = 1; r < sw_comm_size(c->comm) && !status && !*differ; r++) {
        int first = 0;
        while (all[first].class != all[r].class)
            first++;
        *differ = (c->looks_at < 0 || c->looks_at == all[r].class) &&
                  (all[r].hash != all[first].hash || all[r].n != all[first].n);
        if (*differ)
            c->looks_at = (int)all[r].class, c->first = first, c->other = r;
    }
    return status;
}

/* Of the n things that this rank has: the first that is not the same on c->other and on c->first;
 * *differ: there is one. */
static sw_status first_difference(company *c, const lines *l, hash_fn hash, int64_t n,
                                  int64_t *first, bool *differ, sw_error *err) {
    int64_t counts[SW_MAX_RANKS], longest = 0;
    sw_status status = first_other(c, (opinion){hash(l, n), n, 0}, differ, err);
    if (status || !*differ)
        return status;
    if ((status = sw_exchange(c->comm, &n, counts, sizeof n, err)))
        return status;
    for (int r = 0; r < sw_comm_size(c->comm); r++)
        longest = counts[r] > longest ? counts[r] : longest;
    int64_t same = 0,
            other = longest; /* prefixes of `same` things agree, of `other` things do not */
    while (other - same > 1) {
        int64_t middle = same + (other - same) / 2, mine = middle < n ? middle : n;
        bool is_other;
        if ((status = first_other(c, (opinion){hash(l, mine), mine, 0}, &is_other, err)))
            return status;
        *(is_other ? &other : &same) = middle;
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

sw_status sw_agree(sw_comm *comm, const sw_rank_class *class, const char *what, int64_t n_lines,
                   sw_line_fn line, const void *self, sw_error *err) {
    lines l = {.line = line, .self = self, .n = n_lines};
    company c = {.comm = comm, .class = class ? class->number : 0, .looks_at = -1};
    struct shown {
        char line[SHOWN], class[sizeof class->name];
    } mine = {.line = "(nothing)"}, all[SW_MAX_RANKS];
    int64_t differing = 0, at = 0;
    bool differ = false, by_bytes = false;
    sw_status status = open_lines(&l, err);
    if (!status)
        status = first_difference(&c, &l, hash_lines, n_lines, &differing, &differ, err);
    if (status || !differ)
        goto done;
    bool is_there = differing < n_lines;
    l.text[0] = 0;
    if (is_there)
        line(self, differing, l.text, l.room);
    int64_t bytes = (int64_t)strlen(l.text);
    /* no byte differs between an empty line, and none */
    if ((status = first_difference(&c, &l, hash_bytes, bytes, &at, &by_bytes, err)))
        goto done;
    if (is_there)
        show(mine.line, l.text, bytes, at);
    if (class)
        memcpy(mine.class, class->name, sizeof mine.class);
    if ((status = sw_exchange(comm, &mine, all, sizeof mine, err)))
        goto done;
    const char *name = all[c.first].class;
    status = sw_fail(err, SW_MISMATCH,
                     "%s%s%sdisagree on the %s, first at line %" PRId64
                     " · rank %d: %s · rank %d: %s · start all ranks from one build and one "
                     "run.yaml",
                     *name ? "ranks of " : "ranks ", name, *name ? " " : "", what, differing,
                     c.first, all[c.first].line, c.other, all[c.other].line);
done:
    free(l.text);
    return status;
}
