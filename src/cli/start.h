/* start.h: a command that a launcher (mpirun, mpiexec, srun) has started several times. */
#ifndef SW_CLI_START_H
#define SW_CLI_START_H

#include "config/settings.h"
#include "launch/team.h"

typedef struct sw_start {
    sw_launcher launcher;
    sw_team team;
} sw_start;

/* The first process of all: it speaks for them. */
static inline bool sw_start_is_first(const sw_start *start) {
    return start->launcher.rank == 0;
}

/* Before a verb reads or prints anything: the first process of a host goes on, when all are there.
 * The others do not return: they wait for it, and exit as it does. `status`: how the verb began,
 * which the others may learn too; it is returned if it is an error. Other errors: the
 * environment's; what sw_team_lead says. */
sw_status sw_start_join(sw_start *start, sw_status status, sw_error *err);

/* shard.ranks: auto is what the launcher started. Errors: SW_BAD_CONFIG: it is another number. */
sw_status sw_start_settle(const sw_start *start, sw_settings *settings, sw_error *err);

/* The last thing that a verb does: the others hear how it ended. With several hosts the message
 * gets the host's name, if it has none. */
void sw_start_leave(sw_start *start, sw_status status, sw_error *err);

#endif
