/* bench_run.c: one training run, watched by a process that takes no part in it.
 *
 *     this process ── forks ──> supervisor ── forks ──> ranks
 *       reads the ranks' proportional set sizes until the steps begin that are timed: the reading
 *       walks their page tables
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shardwise/launch.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/bench.h"
#include "observe/resident.h"
#include "train/train.h"

/* What the run tells while it goes on. Rank 0 counts steps; the supervisor leaves its error at the
 * end. */
typedef struct run_tells {
    _Atomic int64_t n_steps;
    double first_step_end; /* valid once n_steps is above 0 */
    sw_status status;
    sw_error error;
} run_tells;

static void count_step(void *to, const sw_progress *progress) {
    run_tells *told = to;
    if (progress->step == 1)
        told->first_step_end = sw_seconds_now();
    atomic_store(&told->n_steps, progress->step);
}

static void supervise(const sw_settings *settings, run_tells *told) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read what it does */
    signal(SIGINT, SIG_DFL);
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.listener = (sw_listener){.step = count_step, .to = told};
    told->status = sw_train(settings, &options, NULL, &told->error);
    _exit(0);
}

/* The parent of `process`, -1 if it is gone. */
static long parent_of(long process) {
    char path[64], line[512];
    long parent = -1;
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    const char *rest = file && fgets(line, sizeof line, file)
                           ? strrchr(line, ')')
                           : NULL; /* its name may hold anything */
    if (!rest || sscanf(rest, ") %*c %ld", &parent) != 1)
        parent = -1;
    if (file)
        fclose(file);
    return parent;
}

/* The children of `parent` [SW_MAX_RANKS]: how many there are. */
static int find_children(long parent, pid_t *children) {
    int n = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && n < SW_MAX_RANKS && (entry = readdir(folder));) {
        char *end;
        long process = strtol(entry->d_name, &end, 10);
        if (process > 0 && !*end && parent_of(process) == parent)
            children[n++] = (pid_t)process;
    }
    if (folder)
        closedir(folder);
    return n;
}

static int64_t sum_of_pss(const pid_t *ranks, int n_ranks) {
    int64_t sum = 0;
    for (int i = 0; i < n_ranks; i++) {
        sw_resident resident;
        if (!sw_resident_read(ranks[i], &resident, NULL) && resident.proportional > 0)
            sum += resident.proportional;
    }
    return sum;
}

/* Wait for the supervisor's end. The largest sum seen in the first n_watched steps is returned. */
static int64_t watch(pid_t supervisor, int64_t n_watched, run_tells *told) {
    const struct timespec pause = {.tv_nsec =
                                       10 * 1000 * 1000}; /* what is between two looks is missed */
    pid_t ranks[SW_MAX_RANKS];
    int status;
    int64_t most = 0;
    for (pid_t ended = 0; ended == 0;) {
        nanosleep(&pause, NULL);
        if (atomic_load(&told->n_steps) < n_watched) {
            int64_t sum = sum_of_pss(ranks, find_children(supervisor, ranks));
            most = sum > most ? sum : most;
        }
        while ((ended = waitpid(supervisor, &status, WNOHANG)) < 0 && errno == EINTR)
            ;
    }
    return most;
}

static sw_status read_object(const char *folder, const char *name, json_t **object, sw_error *err) {
    char path[SW_PATH_BYTES];
    json_error_t problem;
    sw_status status = sw_path_join(path, folder, name, err);
    if (!status && !(*object = json_load_file(path, JSON_DISABLE_EOF_CHECK, &problem)))
        status = sw_fail(err, SW_BAD_FILE, "%s: %s", path, problem.text);
    return status;
}

/* metrics.jsonl as an array. */
static sw_status read_steps(const char *folder, json_t **steps, sw_error *err) {
    char path[SW_PATH_BYTES], *text = NULL;
    const int64_t most_bytes = INT64_C(1) << 30;
    sw_status status = sw_path_join(path, folder, "metrics.jsonl", err);
    if (!status)
        status = sw_file_read(path, most_bytes, &text, NULL, err);
    if (!status && !(*steps = json_array()))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    for (char *line = text, *next; !status && line && *line; line = next) {
        json_error_t problem;
        next = line + strcspn(line, "\n");
        next += *next == '\n';
        json_t *step = json_loads(line, JSON_DISABLE_EOF_CHECK, &problem);
        if (!step || json_array_append_new(*steps, step))
            status = sw_fail(err, SW_BAD_FILE, "%s: %s", path, problem.text);
    }
    free(text);
    if (!status && json_array_size(*steps) == 0)
        status = sw_fail(err, SW_BAD_FILE, "%s: no step is in it", path);
    return status;
}

static sw_status read_run(const char *folder, json_t **result, sw_error *err) {
    json_t *steps = NULL, *plan = NULL, *start = NULL;
    sw_status status = read_steps(folder, &steps, err);
    if (!status)
        status = read_object(folder, "plan.json", &plan, err);
    if (!status)
        status = read_object(folder, "events.jsonl", &start, err);
    if (status) {
        json_decref(steps);
        json_decref(plan);
        json_decref(start);
        return status;
    }
    *result = json_pack("{s:o, s:o, s:o}", "steps", steps, "plan", plan, "start", start);
    return *result ? SW_OK
                   : sw_fail(err, SW_NO_MEMORY,
                             "no memory for the figures of the run · shardwise bench");
}

sw_status sw_bench_run(const sw_settings *settings, int64_t n_skip, json_t **result,
                       sw_error *err) {
    *result = NULL;
    run_tells *told =
        mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory to watch a run: %s · shardwise bench",
                       strerror(errno));
    told->status = SW_LOST_RANK;
    snprintf(told->error.message, sizeof told->error.message,
             "the run was killed · shardwise bench");
    void (*before)(int) = signal(SIGINT, SIG_IGN); /* it ends the run, and this process tidies up */
    fflush(NULL);
    double begin = sw_seconds_now();
    pid_t supervisor = fork();
    if (supervisor == 0)
        supervise(settings, told);
    sw_status status = SW_OK;
    int64_t pss_bytes = 0;
    if (supervisor < 0)
        status = sw_fail(err, SW_NO_MEMORY, "no process for a run: %s · shardwise bench",
                         strerror(errno));
    else
        pss_bytes = watch(supervisor, n_skip > 0 ? n_skip : 1, told);
    signal(SIGINT, before);
    if (!status && told->status)
        status = sw_fail(err, told->status, "%s", told->error.message);
    if (!status)
        status = read_run(settings->checkpoint.path, result, err);
    if (!status) {
        const json_t *first = json_array_get(json_object_get(*result, "steps"), 0);
        double start = told->first_step_end -
                       json_number_value(json_object_get(first, "step_seconds")) - begin;
        json_object_set_new(*result, "start_to_step_1_seconds", sw_json_number(start));
        json_object_set_new(*result, "pss_bytes", json_integer(pss_bytes));
    }
    munmap(told, sizeof *told);
    return status;
}
