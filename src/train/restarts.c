/* restarts.c: ranks are started again when one is lost.
 *
 * The supervisor stays; ranks are forked anew with control memory of their own, and go on from the
 * newest good checkpoint. Only what may be over the next time is tried again: a rank that was
 * killed, stopped or crashed, and one that hung. Settings, data and memory would fail in the same
 * way.
 */
#include "train/train.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/stop_signal.h"
#include "base/text.h"
#include "checkpoint/steps.h"
#include "launch/launch.h"

static const double LONGEST_PAUSE_SECONDS = 60;

static void report_rank(void *to, const char *line) {
    sw_report_line(to, "%s", line);
}

void sw_run_event(const sw_run *run, const char *name, int64_t step, const char *reason,
                  const sw_detail *details, int n_details) {
    char path[SW_PATH_BYTES];
    sw_json_lines *events = NULL;
    sw_error error;
    sw_status status = sw_path_join(path, run->settings->checkpoint.path, "events.jsonl", &error);
    if (!status)
        status = sw_events_open(path, &events, &error);
    if (!status)
        status = sw_events_write(events, name, step, reason, details, n_details, &error);
    if (status)
        sw_report_warning(run, "%s", error.message);
    sw_json_lines_close(events);
}

/* The step of the newest checkpoint, from which a run would go on; 0 without one: for events. */
static int64_t newest_step(const sw_run *run) {
    sw_steps steps;
    int64_t newest = sw_steps_list(run->settings->checkpoint.path, &steps, NULL)
                         ? 0
                         : larger(0, sw_steps_newest_whole(&steps));
    sw_steps_free(&steps);
    return newest;
}

/* Plan anew. */
static sw_status plan_for(sw_run *run, const sw_assembly_choice *choice, sw_error *err) {
    sw_assembly_free(&run->plan.assembly);
    sw_status status =
        sw_assembly_create(run->settings, run->options->model, choice, &run->plan.assembly, err);
    if (!status)
        status = sw_plan_price(&run->plan, err);
    if (!status)
        status = sw_plan_check_fit(&run->plan, err);
    sw_error reason;
    if (!status && sw_run_folder_plan(run, &reason)) /* which only readers of the folder miss */
        sw_report_warning(run, "%s (the run goes on; the file tells of the ranks before)",
                          reason.message);
    return status;
}

/* train.elastic: one rank less, where that fits into memory. */
static sw_status leave_one_out(sw_run *run, sw_error *err) {
    const sw_assembly_choice now = run->plan.assembly.choice; /* which goes with the assembly */
    sw_assembly_choice fewer = now;
    fewer.n_ranks--;
    sw_status status = plan_for(run, &fewer, err);
    return status == SW_NO_MEMORY ? plan_for(run, &now, err) : status;
}

/* Sleep, unless a signal asks for an end. */
static void pause_for(double seconds, const volatile sig_atomic_t *stop_signal) {
    double until = sw_seconds_now() + seconds;
    while (sw_seconds_now() < until && !(stop_signal && *stop_signal))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* What users of a run call the options of its launch. */
static const sw_launch_words words = {
    .n_ranks = "shard.ranks",
    .mode = "shard.mode",
    .deadline = "shard.deadline",
    .less_memory = "take fewer ranks, a smaller micro-batch",
    .lower_kernels = ", or choose a lower kernel set (train.kernels)",
    .fault = "please report it with the settings",
};

static sw_status launch(sw_run *run, sw_error *err) {
    const sw_train_options *options = run->options;
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    launch.n_ranks = run->plan.assembly.choice.n_ranks;
    launch.n_threads = run->plan.assembly.choice.n_threads;
    launch.mode = (sw_shm_mode)run->settings->shard.mode;
    launch.deadline_seconds = run->settings->shard.deadline;
    launch.as_threads = options->as_threads;
    launch.stop_signal = options->stop_signal;
    launch.report_request = options->report_request;
    launch.report = report_rank;
    launch.report_to = run;
    launch.save_request = options->save_request;
    sw_status status = sw_launch_as(&words, &launch, run->hosts, sw_train_rank, run, err);
    if (!run->is_first_host)
        return status;
    sw_error reason;
    /* What holds something else is for the next start to tell of, which also cleans again what
     * cannot be cleaned now. */
    if (sw_steps_clean(sw_storage_system(), run->settings->checkpoint.path, NULL, NULL, &reason))
        sw_report_warning(run, "%s", reason.message);
    sw_run_folder_tidy(run);
    return status;
}

static sw_status launch_until_done(sw_run *run, sw_error *err) {
    const volatile sig_atomic_t *stop_signal = run->options->stop_signal;
    const int64_t most = run->settings->train.restarts;
    for (double pause = 1;;
         pause = pause * 2 < LONGEST_PAUSE_SECONDS ? pause * 2 : LONGEST_PAUSE_SECONDS) {
        sw_status status = launch(run, err);
        bool may_pass = status == SW_LOST_RANK || status == SW_TIMED_OUT;
        if (!may_pass || run->options->as_threads || run->hosts || !most)
            return status;
        if (run->n_restarts >= most) {
            (void)sw_fail_within(err, "after %lld restarts (train.restarts)", (long long)most);
            return status;
        }
        int64_t step = newest_step(run);
        bool shrinks = run->settings->train.elastic && run->plan.assembly.choice.n_ranks > 1;
        sw_error reason = *err;
        if (shrinks && (status = leave_one_out(run, err)))
            return status;
        run->n_restarts++;
        run->goes_on = true;
        sw_report_warning(
            run, "restart %d of %lld in %g s, from %s %lld with %d %s: %s", run->n_restarts,
            (long long)most, pause, step ? "the checkpoint of step" : "step", (long long)step,
            run->plan.assembly.choice.n_ranks,
            sw_text_noun(run->plan.assembly.choice.n_ranks, "rank", "ranks"), reason.message);
        sw_detail details[] = {sw_detail_integer("restarts", run->n_restarts),
                               sw_detail_integer("ranks", run->plan.assembly.choice.n_ranks)};
        sw_run_event(run, "restart", step, reason.message, details, 2);
        pause_for(pause, stop_signal);
        if (stop_signal && *stop_signal)
            return sw_fail(err, sw_stop_status(*stop_signal),
                           "stopped by %s before restart %d; %s is at step %lld",
                           sw_stop_words(*stop_signal), run->n_restarts,
                           run->settings->checkpoint.path, (long long)step);
    }
}

sw_status sw_run_launch(sw_run *run, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = launch_until_done(run, err);
    bool is_failure = status && status != SW_GUARD &&
                      !sw_status_is_stop(status); /* the others rank 0 has recorded */
    bool has_begun =
        sw_path_join(path, run->settings->checkpoint.path, "events.jsonl", NULL) == SW_OK &&
        sw_file_exists(path);
    if (is_failure && has_begun && run->is_first_host)
        sw_run_event(run, "stop", newest_step(run), err->message, NULL, 0);
    return status;
}
