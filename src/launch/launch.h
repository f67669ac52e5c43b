/* launch.h: sw_launch for the library's own callers, whose users know its options by other
 * names. */
#ifndef SW_LAUNCH_LAUNCH_H
#define SW_LAUNCH_LAUNCH_H

#include "launch/words.h"

/* sw_launch, whose words are the names of sw_launch_options. */
sw_status sw_launch_as(const sw_launch_words *words, const sw_launch_options *options,
                       sw_rank_fn fn, void *arg, sw_error *err);

#endif
