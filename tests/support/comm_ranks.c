/* comm_ranks.c: see comm_ranks.h. */
#include "support/comm_ranks.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/comm_device.h"

uint32_t comm_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

sw_launch_options comm_options(int n_ranks, bool as_threads) {
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = n_ranks;
    options.as_threads = as_threads;
    options.deadline_seconds = 30;
    return options;
}

comm_roll *comm_roll_create(void) {
    comm_roll *roll =
        mmap(NULL, sizeof *roll, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (roll == MAP_FAILED)
        abort();
    return roll;
}

void comm_roll_free(comm_roll *roll) {
    munmap(roll, sizeof *roll);
}

void comm_sign_in(comm_roll *roll, const sw_comm *comm) {
    roll->pid[sw_comm_rank(comm)] = getpid();
    roll->n_present++;
}

pid_t comm_send_later(comm_roll *roll, int n_ranks, int milliseconds, int signal_number, pid_t to,
                      int rank) {
    pid_t sender = fork();
    if (sender != 0)
        return sender;
    while (roll->n_present < n_ranks)
        usleep(1000);
    usleep((useconds_t)milliseconds * 1000);
    kill(to ? to : roll->pid[rank], signal_number);
    _exit(0);
}

void comm_reap(pid_t pid) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* A dead process whose parent died too stays as a zombie until the system's first process takes
 * care of it: that is not ours. */
static bool is_alive(pid_t pid) {
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    int n = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return n == 1 && state != 'Z' && state != 'X';
}

bool comm_somebody_is_left(const comm_roll *roll, int n_ranks) {
    for (int r = 0; r < n_ranks && r < SW_MAX_RANKS; r++) {
        int patience = 200;
        while (roll->pid[r] && is_alive(roll->pid[r]))
            if (patience-- == 0)
                return true;
            else
                usleep(10000);
    }
    return false;
}

int comm_n_descriptors(bool *has_memory_object) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    *has_memory_object = false;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], target[300] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) < 0)
            continue;
        n++;
        *has_memory_object |= strncmp(target, "/memfd:", 7) == 0;
    }
    closedir(folder);
    return n;
}

sw_status comm_busy(sw_comm *comm, sw_error *err) {
    enum { SHARD = 1024 };
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    float own[SHARD];
    sw_window parameters, gradients;
    RANK_TRY(
        comm->vtable->window_create(comm, "parameters", n * (int64_t)sizeof own, &parameters, err));
    RANK_TRY(comm->vtable->window_create(comm, "gradients", n * n * (int64_t)sizeof own, &gradients,
                                         err));
    sw_collective gather = {.channel = 0,
                            .unit_name = "layers.0",
                            .dtype = SW_F32,
                            .shard_bytes = sizeof own,
                            .window = parameters.base,
                            .rank_stride = sizeof own};
    sw_collective reduce = gather;
    reduce.channel = 1;
    reduce.window = gradients.base;
    reduce.rank_stride = n * (int64_t)sizeof own;
    reduce.destination = own;
    reduce.n_contributors = n;
    RANK_TRY(comm->vtable->channel_open(comm, gather.channel, SW_CHANNEL_GATHERS, err));
    RANK_TRY(comm->vtable->channel_open(comm, reduce.channel, SW_CHANNEL_REDUCES, err));
    for (int step = 0;; step++) {
        gather.epoch = (uint64_t)step;
        sw_comm_enter(comm, 0, step, 0, 0, "forward layers.0");
        RANK_TRY(comm->vtable->gather_publish(comm, &gather, err));
        RANK_TRY(comm->vtable->gather(comm, &gather, err));
        sw_comm_enter(comm, 0, step, 0, 1, "backward layers.0");
        RANK_TRY(comm->vtable->reduce_acquire(comm, &reduce, err));
        memset(gradients.base + me * reduce.rank_stride, 0, (size_t)reduce.rank_stride);
        RANK_TRY(comm->vtable->reduce_post(comm, &reduce, err));
        RANK_TRY(comm->vtable->reduce_sum(comm, &reduce, comm_test_device(), SW_NUMBERS_F32, err));
        sw_comm_enter(comm, 0, step, 0, 2, "update");
        RANK_TRY(sw_barrier(comm, err));
    }
}
