/* team.c: the processes of one host meet at a socket of the leader's, which has a name but no file
 * (abstract), so nothing is left behind. Each says which it is, and which processors it may run on;
 * the leader answers at its end, with its exit code. A socket that closes without an answer is a
 * leader that died. */
#include "launch/team.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "base/stop_signal.h"
#include "comm/mpi_meet.h"

static const double MEETING_SECONDS = 60; /* between the first process of a host and its last */
enum { TICK_MS = 20 };
enum { MEET = 1000, PART = 1001 }; /* what the leader says; less: its exit code */

typedef struct greeting {
    int32_t host_rank, size;
    cpu_set_t cores;
} greeting;

static socklen_t make_address(const sw_launcher *launcher, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "shardwise/%u/%s/%s",
                     (unsigned)geteuid(), launcher->job, launcher->host);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Names of sockets belong to nobody, so another user could take one. */
static bool is_of_this_user(int socket) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

static bool sees_socket(int socket, int milliseconds) {
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    return poll(&ready, 1, milliseconds) > 0;
}

/* ---- the leader ---- */

static sw_status listen_for(const sw_launcher *launcher, int *listener, sw_error *err) {
    struct sockaddr_un address;
    socklen_t bytes = make_address(launcher, &address);
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&address, bytes) != 0 ||
        listen(*listener, SW_MAX_RANKS) != 0)
        return sw_fail_call(err, SW_CALL_PROCESS, errno,
                            "the processes that %s started on this host cannot meet",
                            launcher->name);
    return SW_OK;
}

/* Take one in, if it comes within a tick. */
static sw_status let_in(const sw_launcher *launcher, int listener, sw_team *team, cpu_set_t *cores,
                        sw_error *err) {
    greeting hello;
    int socket = sees_socket(listener, TICK_MS) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (socket < 0)
        return SW_OK;
    bool is_one = is_of_this_user(socket) && sees_socket(socket, 1000) &&
                  recv(socket, &hello, sizeof hello, 0) == sizeof hello;
    if (!is_one) {
        close(socket);
        return SW_OK;
    }
    team->socket[team->n++] = socket;
    if (hello.size != launcher->size)
        return sw_fail(err, SW_BAD_CONFIG,
                       "process %d on this host says that %s started %d, this one says %d · "
                       "environment",
                       hello.host_rank, launcher->name, hello.size, launcher->size);
    CPU_OR(cores, cores, &hello.cores);
    return SW_OK;
}

sw_status sw_team_lead(const sw_launcher *launcher, sw_team *team, sw_error *err) {
    int listener = -1;
    cpu_set_t cores;
    team->n = 0;
    if (launcher->size > SW_MAX_RANKS)
        return sw_fail(err, SW_BAD_CONFIG, "%s started %d processes; at most %d run together",
                       launcher->name, launcher->size, SW_MAX_RANKS);
    bool knows_cores = sched_getaffinity(0, sizeof cores, &cores) == 0;
    sw_status status = launcher->host_size > 1 ? listen_for(launcher, &listener, err) : SW_OK;
    double give_up = sw_seconds_now() + MEETING_SECONDS;
    while (!status && team->n < launcher->host_size - 1) {
        status = let_in(launcher, listener, team, &cores, err);
        if (!status && sw_seconds_now() > give_up)
            status = sw_fail(err, SW_TIMED_OUT,
                             "%s started %d processes on this host, but only %d have come within "
                             "%g s · do all start the same command, in one container or in none?",
                             launcher->name, launcher->host_size, team->n + 1, MEETING_SECONDS);
    }
    if (!status && knows_cores)
        (void)sched_setaffinity(0, sizeof cores, &cores); /* a wish */
    if (listener >= 0)
        close(listener);
    return status;
}

static void say(sw_team *team, int32_t word) {
    for (int i = 0; i < team->n; i++)
        (void)send(team->socket[i], &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void sw_team_meet(sw_team *team) {
    say(team, MEET);
}

void sw_team_part(sw_team *team) {
    say(team, PART);
}

void sw_team_end(sw_team *team, int exit_code) {
    say(team, exit_code);
}

/* ---- the others ---- */

static sw_status find_leader(const sw_launcher *launcher, int *leader, sw_error *err) {
    struct sockaddr_un address;
    socklen_t bytes = make_address(launcher, &address);
    double give_up = sw_seconds_now() + MEETING_SECONDS;
    for (;;) {
        *leader = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (*leader < 0)
            return sw_fail_call(err, SW_CALL_PROCESS, errno,
                                "process %d on this host has no "
                                "socket",
                                launcher->host_rank);
        if (connect(*leader, (struct sockaddr *)&address, bytes) == 0 && is_of_this_user(*leader))
            return SW_OK;
        close(*leader);
        *leader = -1;
        if (sw_seconds_now() > give_up)
            return sw_fail(err, SW_TIMED_OUT,
                           "process %d on this host waited %g s for the first that %s started "
                           "there · do all start the same command, in one container or in none?",
                           launcher->host_rank, MEETING_SECONDS, launcher->name);
        nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
    }
}

/* All processes of a start take part in the meeting of MPI, though only leaders talk after it. */
static sw_status meet(const sw_launcher *launcher, const sw_mpi_table **mpi, sw_error *err) {
    sw_hello mine = {.host_rank = launcher->host_rank, .host_size = launcher->host_size},
             *all = NULL;
    int number;
    const char *level;
    sw_status status = sw_mpi_meet(launcher->mpi, launcher->name, launcher->size, &mine, mpi,
                                   &number, &level, &all, err);
    free(all);
    return status;
}

sw_status sw_team_follow(const sw_launcher *launcher, int *exit_code, sw_error *err) {
    int leader = -1;
    int32_t code = -1;
    greeting hello = {.host_rank = launcher->host_rank, .size = launcher->size};
    /* Who is asked to end is the leader; it decides when. */
    sw_stop_watch(SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    sw_status status = find_leader(launcher, &leader, err);
    if (status)
        return status;
    (void)sched_getaffinity(0, sizeof hello.cores, &hello.cores);
    if (send(leader, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        status = sw_fail_call(err, SW_CALL_PROCESS, errno,
                              "the first process on this host cannot "
                              "be reached");
    const sw_mpi_table *mpi = NULL;
    for (ssize_t n = 1; !status && n != 0;) {
        int32_t said;
        n = recv(leader, &said, sizeof said, 0);
        if (n == sizeof said && said == MEET)
            status = meet(launcher, &mpi, err);
        else if (n == sizeof said && said == PART && mpi)
            mpi->end();
        else if (n == sizeof said)
            code = said;
        else if (n < 0 && errno != EINTR)
            break;
    }
    close(leader);
    *exit_code = code;
    if (!status && code < 0)
        status = sw_fail(err, SW_LOST_RANK,
                         "the first process that %s started on this host has died · host · its "
                         "ranks died with it; the same command goes on from the last checkpoint",
                         launcher->name);
    return status;
}
