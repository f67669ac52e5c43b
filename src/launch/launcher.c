/* launcher.c: from the environment to who started this process, and how many like it. */
#include "launch/launcher.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_text.h"

/* The variables of one launcher. A process belongs to the first whose `size` is set, and whose
 * `host_rank` is: a batch script of Slurm has a rank, but nothing started it beside others. */
typedef struct dialect {
    const char *name, *rank, *size, *host_rank, *host_size;
    const char *mpi;
} dialect;

static const dialect dialects[] = {
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "openmpi"},
    {"mpiexec of MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpich"},
    {"mpiexec of PALS", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "mpich"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL},
};
enum { N_DIALECTS = sizeof dialects / sizeof *dialects, MOST_PROCESSES = 1 << 24 };

/* ---- numbers ---- */

static sw_status read_number(const dialect *d, const char *variable, int least, int most, int *to,
                             sw_error *err) {
    const char *text = getenv(variable);
    char *end;
    if (!text)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s started this process, but %s is not set · environment · pass the "
                       "launcher's variables on, or unset %s to run without it",
                       d->name, variable, d->size);
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s=%.40s is not a whole number from %d to %d, though %s started this "
                       "process · environment · unset %s to run without it",
                       variable, text, least, most, d->name, d->size);
    *to = (int)value;
    return SW_OK;
}

/* Slurm's "2(x3),1": how many tasks each node has, from the first. -1: it does not say. */
static int tasks_of_node(const char *text, int node) {
    while (text && *text) {
        char *end;
        long tasks = strtol(text, &end, 10), times = 1;
        if (end == text || tasks < 1 || tasks > MOST_PROCESSES)
            return -1;
        if (end[0] == '(' && end[1] == 'x') {
            text = end + 2;
            times = strtol(text, &end, 10);
            if (end == text || times < 1 || times > MOST_PROCESSES || *end++ != ')')
                return -1;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)times;
        text = *end == ',' ? end + 1 : NULL;
    }
    return -1;
}

static sw_status read_host_size(const dialect *d, sw_launcher *launcher, sw_error *err) {
    static const char per_node[] = "SLURM_STEP_TASKS_PER_NODE";
    if (d->host_size)
        return read_number(d, d->host_size, 1, launcher->size, &launcher->host_size, err);
    int node = 0;
    sw_status status = getenv("SLURM_NODEID")
                           ? read_number(d, "SLURM_NODEID", 0, MOST_PROCESSES, &node, err)
                           : SW_OK;
    if (status)
        return status;
    const char *text = getenv(per_node);
    launcher->host_size = tasks_of_node(text, node);
    if (launcher->host_size < 1 || launcher->host_size > launcher->size)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s=%.80s does not say how many processes srun started on node %d · "
                       "environment · unset %s to run without srun",
                       per_node, text ? text : "(not set)", node, d->size);
    return SW_OK;
}

/* ---- the job ---- */

/* Is the variable in that process's environment, as it was at its start? */
static bool process_has(int64_t pid, const char *variable) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/environ", pid);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    const size_t length = strlen(variable);
    size_t matched = 0; /* bytes of "variable=" at the place that is read; SIZE_MAX: not here */
    bool is_there = false;
    for (ssize_t n; !is_there && (n = read(descriptor, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n && !is_there; i++) {
            if (text[i] == 0)
                matched = 0;
            else if (matched == length)
                is_there = text[i] == '=', matched = SIZE_MAX;
            else if (matched != SIZE_MAX)
                matched = text[i] == variable[matched] ? matched + 1 : SIZE_MAX;
        }
    close(descriptor);
    return is_there;
}

static int64_t parent_of(int64_t pid) {
    char path[64], text[SW_PROC_TEXT_BYTES];
    int64_t parent;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/status", pid);
    return sw_proc_text_read(path, text) && sw_proc_text_find(text, "PPid:", &parent) ? parent : 0;
}

/* A launcher's own name for the start, else the process that started all: the nearest one above
 * this whose environment does not have the launcher's variables (shells in between have them). */
static void name_job(const dialect *d, sw_launcher *launcher) {
    const char *name_space = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"),
               *step = getenv("SLURM_STEP_ID");
    if (name_space && d == &dialects[0]) {
        snprintf(launcher->job, sizeof launcher->job, "pmix-%.60s", name_space);
        return;
    }
    if (job && step && !d->host_size) {
        snprintf(launcher->job, sizeof launcher->job, "slurm-%.30s.%.30s", job, step);
        return;
    }
    int64_t pid = getppid();
    while (pid > 1 && process_has(pid, d->rank))
        pid = parent_of(pid);
    snprintf(launcher->job, sizeof launcher->job, "pid-%" PRId64 "-%d", pid, launcher->size);
}

/* ---- hosts ---- */

/* Slurm starts processes of any MPI; with PMIx they are Open MPI's, if nobody says otherwise. */
static const char *choose_mpi(const dialect *d) {
    const char *named = getenv("SHARDWISE_MPI"), *by_slurm = getenv("SLURM_MPI_TYPE");
    if (named)
        return named;
    if (d->mpi)
        return d->mpi;
    return by_slurm && strstr(by_slurm, "pmix") ? "openmpi" : "mpich";
}

static sw_status name_host(const dialect *d, sw_launcher *launcher, sw_error *err) {
    static const char variable[] = "SHARDWISE_TEST_RANKS_PER_HOST";
    int n;
    if (!getenv(variable)) {
        if (gethostname(launcher->host, sizeof launcher->host - 1))
            snprintf(launcher->host, sizeof launcher->host, "?");
        return SW_OK;
    }
    sw_status status = read_number(d, variable, 1, MOST_PROCESSES, &n, err);
    if (status)
        return status;
    int host = launcher->rank / n, left = launcher->size - host * n;
    launcher->host_rank = launcher->rank % n;
    launcher->host_size = left < n ? left : n;
    snprintf(launcher->host, sizeof launcher->host, "host-%d", host);
    return SW_OK;
}

/* ---- all of it ---- */

static const dialect *find_dialect(void) {
    for (int i = 0; i < N_DIALECTS; i++)
        if (getenv(dialects[i].size) && getenv(dialects[i].host_rank))
            return &dialects[i];
    return NULL;
}

/* What tells of a launcher that is none of those: several processes that took themselves for the
 * only one would get into each other's way. */
static sw_status refuse_unknown(sw_error *err) {
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *text = getenv(signs[i]);
        if (text && !(i < 2 && !strcmp(text, "1")))
            return sw_fail(err, SW_BAD_CONFIG,
                           "a launcher has started this process (%s=%.40s), but does not say which "
                           "of those on this host it is · environment · start it by mpirun, "
                           "mpiexec or srun, or unset %s to run without a launcher",
                           signs[i], text, signs[i]);
    }
    return SW_OK;
}

sw_status sw_launcher_find(sw_launcher *launcher, sw_error *err) {
    *launcher = (sw_launcher){.size = 1, .host_size = 1};
    const dialect *d = find_dialect();
    if (!d)
        return refuse_unknown(err);
    sw_status status = read_number(d, d->size, 1, MOST_PROCESSES, &launcher->size, err);
    if (!status)
        status = read_number(d, d->rank, 0, launcher->size - 1, &launcher->rank, err);
    if (!status)
        status = read_host_size(d, launcher, err);
    if (!status)
        status =
            read_number(d, d->host_rank, 0, launcher->host_size - 1, &launcher->host_rank, err);
    if (status)
        return status;
    launcher->name = d->name;
    launcher->mpi = choose_mpi(d);
    name_job(d, launcher);
    return name_host(d, launcher, err);
}
