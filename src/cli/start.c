/* start.c: see start.h. docs/design/launchers.md says why one process of a host does it all. */
#include "cli/start.h"

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"

/* Whatever is wrong with command, settings or run is said once, by the first process. */
static _Noreturn void follow(const sw_start *start) {
    sw_error err = {0};
    int exit_code = 0;
    sw_status status = sw_team_follow(&start->launcher, &exit_code, &err);
    if (status)
        sw_print_error(&err);
    exit(status ? sw_status_exit_code(status) : exit_code);
}

sw_status sw_start_join(sw_start *start, sw_status status, sw_error *err) {
    *start = (sw_start){0};
    sw_error own;
    const sw_launcher *launcher = &start->launcher;
    sw_status joined = sw_launcher_find(&start->launcher, &own);
    if (!joined && launcher->host_rank > 0)
        follow(start);
    if (!joined)
        joined = sw_team_lead(launcher, &start->team, &own);
    return status || !joined ? status : sw_fail(err, joined, "%s", own.message);
}

sw_status sw_start_settle(const sw_start *start, sw_settings *settings, sw_error *err) {
    const sw_launcher *launcher = &start->launcher;
    if (!launcher->name)
        return SW_OK;
    if (settings->shard.ranks != SW_AUTO && settings->shard.ranks != launcher->size)
        return sw_fail(err, SW_BAD_CONFIG,
                       "shard.ranks is %lld, but %s started %d %s · leave shard.ranks out, or "
                       "start as many",
                       (long long)settings->shard.ranks, launcher->name, launcher->size,
                       launcher->size == 1 ? "process" : "processes");
    settings->shard.ranks = launcher->size;
    return SW_OK;
}

void sw_start_leave(sw_start *start, sw_status status, sw_error *err) {
    if (status && sw_launcher_has_hosts(&start->launcher) && strncmp(err->message, "host ", 5) != 0)
        (void)sw_fail_within(err, "host %s", start->launcher.host);
    sw_team_end(&start->team, sw_status_exit_code(status));
}
