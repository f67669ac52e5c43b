/* agree.c: hashes of prefixes are exchanged; the first line that differs lies between the longest equal prefix and the next. */
#include "run/agree.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"

enum { LINE_BYTES = 2048, SHOWN = 240 };

typedef struct opinion {
    uint64_t hash;
    int64_t n_lines;
} opinion;

static opinion of_prefix(int64_t n_lines, sw_line_fn line, const void *self) {
    opinion o = {SW_HASH_START, n_lines};
    char text[LINE_BYTES];
    for (int64_t i = 0; i < n_lines; i++) {
        line(self, i, text, sizeof text);
        o.hash = sw_hash_text(sw_hash_text(o.hash, text), "\n");
    }
    return o;
}

/* The first rank whose opinion is not rank 0's; 0 if all agree. */
static sw_status first_other(sw_comm *comm, const opinion *mine, int *other, sw_error *err) {
    opinion all[SW_MAX_RANKS];
    sw_status status = sw_exchange(comm, mine, all, sizeof *mine, err);
    *other = 0;
    for (int r = sw_comm_size(comm) - 1; r > 0 && !status; r--)
        if (all[r].hash != all[0].hash || all[r].n_lines != all[0].n_lines)
            *other = r;
    return status;
}

sw_status sw_agree(sw_comm *comm, const char *what, int64_t n_lines, sw_line_fn line, const void *self, sw_error *err) {
    opinion whole = of_prefix(n_lines, line, self);
    int other;
    sw_status status = first_other(comm, &whole, &other, err);
    if (status || !other)
        return status;
    int64_t counts[SW_MAX_RANKS], longest = 0;
    if ((status = sw_exchange(comm, &n_lines, counts, sizeof n_lines, err)))
        return status;
    for (int r = 0; r < sw_comm_size(comm); r++)
        longest = counts[r] > longest ? counts[r] : longest;
    int64_t same = 0, differ = longest; /* prefixes of `same` lines agree, of `differ` lines do not */
    while (differ - same > 1) {
        int64_t middle = same + (differ - same) / 2;
        opinion prefix = of_prefix(middle < n_lines ? middle : n_lines, line, self);
        int who;
        if ((status = first_other(comm, &prefix, &who, err)))
            return status;
        *(who ? &differ : &same) = middle;
        other = who ? who : other;
    }
    char mine[SHOWN] = "(nothing)", all[SW_MAX_RANKS][SHOWN], text[LINE_BYTES];
    if (same < n_lines) {
        line(self, same, text, sizeof text);
        snprintf(mine, sizeof mine, "%.*s", SHOWN - 1, text);
    }
    if ((status = sw_exchange(comm, mine, all, sizeof mine, err)))
        return status;
    return sw_fail(err, SW_MISMATCH,
                   "ranks disagree on the %s, first at line %" PRId64
                   " · rank 0: %s · rank %d: %s · start all ranks from one build and one run.yaml",
                   what, same, all[0], other, all[other]);
}
