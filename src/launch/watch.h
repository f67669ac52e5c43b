/* watch.h: what ranks do, read from control memory: words for it, and when it is too little. */
#ifndef SW_LAUNCH_WATCH_H
#define SW_LAUNCH_WATCH_H

#include "comm/control.h"
#include "launch/words.h"

typedef struct sw_watched {
    bool has_returned;
    uint64_t turn;       /* sum of its lanes' */
    int64_t cpu_ns;      /* as it was at cpu_at */
    double turn_since;   /* when `turn` last changed */
    double active_since; /* when it last advanced, had all lanes in waits, or was seen to use enough
                            CPU time */
    double cpu_at;
} sw_watched;

typedef struct sw_watch {
    const sw_control *control;
    const sw_launch_words *words;
    double deadline, last_look;
    const _Atomic uint64_t *n_moved; /* messages between hosts so far; NULL: there is one host */
    uint64_t n_moved_before;
    double moved_since; /* when it last rose */
    sw_watched rank[SW_MAX_RANKS];
} sw_watch;

void sw_watch_start(sw_watch *watch, const sw_control *control, double deadline,
                    const sw_launch_words *words);

/* Look at all ranks, a few times a second. cpu_ns [n_ranks]: CPU time that each has used, -1 where
 * it cannot be known: then the rank counts as working. Errors: SW_MISMATCH: all ranks wait for what
 * will never come. SW_TIMED_OUT: a rank with a lane that waits for nobody neither advanced nor used
 * CPU for the deadline. */
sw_status sw_watch_look(sw_watch *watch, const int64_t *cpu_ns, sw_error *err);

/* `in "backward layers.3" at step 17, slot 0, instruction 42; waits for rank 1 in gather of
 * "layers.4" (sequence 3)` */
void sw_describe_rank(const sw_control *control, int rank, char *text, size_t bytes);

/* Before the message of an error of this rank: which rank, at which step, in what its lane is. One
 * rank alone needs no number. */
void sw_say_where(const sw_control *control, int rank, int lane, sw_error *error);

/* As sw_describe_rank, for all ranks but one (-1: all): `ranks 0, 2: in ...; rank 3: ...`, equal
 * ones together, cut if long. */
void sw_describe_ranks(const sw_control *control, int except, char *text, size_t bytes);

#endif
