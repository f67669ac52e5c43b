/* launch.h: sw_launch for the library's own callers, whose users know its options by other
 * names. */
#ifndef SW_LAUNCH_LAUNCH_H
#define SW_LAUNCH_LAUNCH_H

#include "launch/hosts.h"
#include "launch/words.h"

/* sw_launch, whose words are the names of sw_launch_options. `hosts`: NULL for one host. Other
 * errors with it: SW_TIMED_OUT: other hosts have not come; SW_LOST_RANK: one is gone;
 * SW_BAD_CONFIG: no MPI. */
sw_status sw_launch_as(const sw_launch_words *words, const sw_launch_options *options,
                       const sw_launch_hosts *hosts, sw_rank_fn fn, void *arg, sw_error *err);

#endif
