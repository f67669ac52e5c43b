/* supervisor.h: ranks as child processes, watched until the last is gone. */
#ifndef SW_LAUNCH_SUPERVISOR_H
#define SW_LAUNCH_SUPERVISOR_H

#include "comm/control.h"
#include "launch/words.h"

/* What a child does once it is a rank; it ends by returning, and its outcome is on its page of
 * control memory. */
typedef void (*sw_child_fn)(void *context, int rank);

/* Fork options->n_ranks children, run `child` in each, watch them, end them all when one fails,
 * reap them. No thread is made, and no handler of the caller is touched. Returns how the run went:
 * the first error. Errors: a rank's own; SW_LOST_RANK; SW_TIMED_OUT; SW_MISMATCH; SW_NO_MEMORY when
 * the system allows no more processes. */
sw_status sw_supervise(const sw_launch_words *words, const sw_launch_options *options,
                       sw_control *control, sw_child_fn child, void *context, sw_error *err);

/* For whoever watches ranks: hand the caller's stop signal on, and report what ranks do if the
 * caller asked. */
void sw_serve_caller(const sw_launch_options *options, sw_control *control);

/* How the run went, once all ranks are gone: the first error, else the first status with which a
 * rank returned. */
sw_status sw_outcome(const sw_control *control, sw_error *err);

#endif
