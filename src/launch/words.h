/* words.h: how messages of a launch speak of its options to users who know them by other names. */
#ifndef SW_LAUNCH_WORDS_H
#define SW_LAUNCH_WORDS_H

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

#endif
