/* hosts.h: what a launch over several hosts needs to know beside its options. */
#ifndef SW_LAUNCH_HOSTS_H
#define SW_LAUNCH_HOSTS_H

#include "launch/team.h"

/* On each of the hosts sw_launch_as is called, and runs the ranks of that host. */
typedef struct sw_launch_hosts {
    const sw_launcher *launcher;
    sw_team *team;
    /* Called in the supervisor when all hosts have met, before ranks are there. `remark`: how hosts
     * talk. */
    sw_status (*met)(void *to, const char *remark, sw_error *err);
    /* And when all have returned well: bytes that left this host, and the CPU time of the process
     * that sent and received. */
    void (*parted)(void *to, uint64_t bytes, double cpu_seconds);
    void *to;
} sw_launch_hosts;

#endif
