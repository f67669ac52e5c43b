/* deaths.h: why a signal ended a rank, as far as can be known, and what to try. */
#ifndef SW_LAUNCH_DEATHS_H
#define SW_LAUNCH_DEATHS_H

#include <sys/resource.h>

#include "comm/control.h"
#include "launch/words.h"

/* How many processes the kernel has ended for lack of memory, on the whole machine: now and some
 * seconds ago. -1: not known. */
typedef struct sw_memory_kills {
    int64_t before, latest;
    double since; /* when `latest` was read */
} sw_memory_kills;

/* Begin to count; then look now and then, so that a death is compared with the count of a while
 * before it. */
void sw_memory_kills_start(sw_memory_kills *kills);
void sw_memory_kills_look(sw_memory_kills *kills);

typedef struct sw_death {
    char why[192], advice[192];
} sw_death;

/* A rank was ended, or stopped, by this signal. `usage` may be NULL. */
void sw_death_explain(const sw_control_rank *rank, int signal_number, const struct rusage *usage,
                      const sw_memory_kills *kills, const sw_launch_words *words, sw_death *death);

/* "SIGKILL", "signal 42" */
#define SW_SIGNAL_NAME_BYTES 24
const char *sw_signal_name(int number, char name[SW_SIGNAL_NAME_BYTES]);

#endif
