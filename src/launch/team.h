/* team.h: the processes that a launcher started on one host, as one.
 *
 * The first of them leads: it does what a command started alone does, ranks and supervision
 * included, as many ranks as there are processes. The others lend it the cores that the launcher
 * bound them to, sleep until it is gone, and end as it did.
 */
#ifndef SW_LAUNCH_TEAM_H
#define SW_LAUNCH_TEAM_H

#include "comm/comm.h"
#include "launch/launcher.h"

typedef struct sw_team {
    int n;                    /* the others */
    int socket[SW_MAX_RANKS]; /* [n] */
} sw_team;

/* The leader: wait for all others of the host, then run on the cores of all. Errors: SW_BAD_CONFIG:
 * more than SW_MAX_RANKS; SW_TIMED_OUT: some have not come; SW_LOST_RANK: one has gone again. End
 * with sw_team_end. */
sw_status sw_team_lead(const sw_launcher *launcher, sw_team *team, sw_error *err);

/* Several hosts: the others shall meet all processes (sw_mpi_meet), as the leader's mover does; and
 * end MPI, as it does. */
void sw_team_meet(sw_team *team);
void sw_team_part(sw_team *team);

/* The leader ends with this exit code as soon as it is gone, not before: what it prints last is
 * printed by then. */
void sw_team_end(sw_team *team, int exit_code);

/* The others: sleep until the leader is gone. Out: its exit code. Errors: SW_TIMED_OUT: it has not
 * come; SW_LOST_RANK: it died. */
sw_status sw_team_follow(const sw_launcher *launcher, int *exit_code, sw_error *err);

#endif
