/* supervisor.h: ranks as child processes, watched until the last is gone. */
#ifndef SW_LAUNCH_SUPERVISOR_H
#define SW_LAUNCH_SUPERVISOR_H

#include "comm/bridge.h"
#include "launch/hosts.h"
#include "launch/words.h"

/* Which processes there are. */
typedef struct sw_family {
    int n; /* ranks here */
    /* What a child does once it is a rank, that with number first + here; it ends by returning, and
     * its outcome is on its page of control memory. */
    void (*rank)(void *context, int first, int here);
    void *context;
    const sw_launch_hosts *hosts; /* NULL: one host, else: */
    void (*mover)(void *context); /* the process that talks to others */
    sw_bridge *bridge;
} sw_family;

/* Fork the family's ranks, with several hosts when all of them have met, watch them, end them all
 * when one fails, reap them. No thread is made, and no handler of the caller is touched. Returns
 * how the run went: the first error. Errors: a rank's own; SW_LOST_RANK; SW_TIMED_OUT; SW_MISMATCH;
 * SW_NO_MEMORY when the system allows no more processes. */
sw_status sw_supervise(const sw_launch_words *words, const sw_launch_options *options,
                       sw_control *control, const sw_family *family, sw_error *err);

/* For whoever watches ranks: hand the caller's stop signal on, and report what ranks do if the
 * caller asked. */
void sw_serve_caller(const sw_launch_options *options, sw_control *control);

/* How the run went, once all ranks are gone: the first error, else the first status with which a
 * rank returned. */
sw_status sw_outcome(const sw_control *control, sw_error *err);

#endif
