/* launch.h: sw_launch for the library's own callers, whose users know its options by other
 * names. */
#ifndef SW_LAUNCH_LAUNCH_H
#define SW_LAUNCH_LAUNCH_H

#include <shardwise/launch.h>

/* What messages call the options, and what they advise. */
typedef struct sw_launch_words {
    const char *n_ranks, *mode;
    const char *deadline;    /* NULL: its user cannot set it */
    const char *less_memory; /* what makes a rank take less: "take fewer ranks" */
    const char *fault;       /* what to do about code that crashed */
    const char
        *lower_kernels; /* ", or ...", where its user can choose lower kernel sets; else "" */
} sw_launch_words;

/* For users who know no option of it by name. */
extern const sw_launch_words sw_launch_plain_words;

/* sw_launch, whose words are the names of sw_launch_options. */
sw_status sw_launch_as(const sw_launch_words *words, const sw_launch_options *options,
                       sw_rank_fn fn, void *arg, sw_error *err);

#endif
