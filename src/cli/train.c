/* train.c: shardwise train: read RUN.yaml, run it, show how it goes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stop_signal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/faults.h"
#include "cli/fresh_line.h"
#include "cli/progress.h"
#include "cli/start.h"
#include "config/settings.h"
#include "faults/faults.h"
#include "train/train.h"

/* What the signal handler tells: the only state that the command keeps outside of functions. */
static volatile sig_atomic_t has_begun, stop_signal, report_request, save_request;

/* The first one asks for a clean end, the second ends at once; ranks do not outlive this process.
 * While data and model are still being checked nothing is there that had to be ended, so the first
 * one ends that. */
static void take_signal(int signal_number) {
    static const char too_early[] = "shardwise: stopped by a signal before the run began\n";
    static const char at_once[] =
        "shardwise: stopped at once by a second signal; nothing more is saved\n";
    if (signal_number == SIGQUIT) {
        report_request = 1;
    } else if (signal_number == SIGUSR1) {
        save_request = 1;
    } else if (has_begun && !stop_signal) {
        stop_signal = signal_number;
    } else {
        sw_fresh_line(STDERR_FILENO);
        ssize_t told = has_begun ? write(STDERR_FILENO, at_once, sizeof at_once - 1)
                                 : write(STDERR_FILENO, too_early, sizeof too_early - 1);
        (void)told; /* whether or not anybody hears it */
        _exit(128 + signal_number);
    }
}

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
    sigset_t save_now;
    sigemptyset(&action.sa_mask);
    sw_stop_watch(take_signal);
    sigaction(SIGQUIT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&save_now);
    sigaddset(&save_now, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &save_now, NULL); /* what main has kept: the first step is saved */
    signal(SIGPIPE, SIG_IGN); /* a reader of our output that leaves does not end the run */
}

static void print_line(void *to, const char *text) {
    fprintf(to, "%s\n", text);
}

static void print_keys(bool as_markdown) {
    if (!as_markdown)
        printf("\nThe settings of RUN.yaml with their defaults. On the command line they are "
               "written section.key=value, the value\n"
               "as in YAML. Relative paths are relative to the folder of RUN.yaml in both "
               "places.\n\n");
    sw_settings_reference(print_line, stdout, as_markdown);
    sw_faults_reference(print_line, stdout, as_markdown);
}

/* Without reasons, so that the printed settings print as the same again. */
static sw_status print_config(const sw_settings *settings, sw_error *err) {
    sw_settings given = *settings;
    given.chosen = (sw_chosen){0};
    char *text = sw_settings_yaml(&given);
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for printing the settings · shardwise train");
    fputs(text, stdout);
    free(text);
    return SW_OK;
}

typedef struct report {
    sw_listener display;
    const sw_launcher *launcher;
    const sw_settings *settings; /* shown before the first line; NULL then */
    bool *is_cut; /* shared with the rank that reports steps: its output could not be written */
} report;

static void tell_of_start(const report *out) {
    char line[160];
    sw_settings_tell(out->settings, out->display.line, out->display.to);
    if (!out->launcher->name)
        return;
    snprintf(line, sizeof line, "started by %s: %d %s, %d of them on %s", out->launcher->name,
             out->launcher->size, sw_text_noun(out->launcher->size, "process", "processes"),
             out->launcher->host_size, out->launcher->host);
    out->display.line(out->display.to, line);
}

/* The first line comes when everything has been checked: a run that is refused says only why. */
static void report_line(void *to, const char *text) {
    report *out = to;
    has_begun = 1;
    if (out->settings)
        tell_of_start(out);
    out->settings = NULL;
    out->display.line(out->display.to, text);
}

static void report_warning(void *to, const char *text) {
    report *out = to;
    sw_display_warn(out->display.to, text);
}

static void report_step(void *to, const sw_progress *progress) {
    report *out = to;
    out->display.step(out->display.to, progress);
    if (ferror(stdout))
        *out->is_cut = true;
}

static sw_status start(const sw_settings *settings, sw_start *started, bool is_dry, sw_show show,
                       const sw_flag_texts *faults, sw_error *err) {
    const sw_launcher *launcher = &started->launcher;
    const sw_launch_hosts hosts = {.launcher = launcher, .team = &started->team};
    sw_display display = {.out = stdout, .show = show};
    report out = {sw_display_listener(&display), launcher, settings, NULL};
    if (!sw_start_is_first(started)) /* which speaks for all; what goes wrong here is told */
        display.show = SW_SHOW_NOTHING;
    void *shared =
        mmap(NULL, sizeof *out.is_cut, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the report of the run · shardwise train");
    out.is_cut = shared;
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.listener = (sw_listener){.step = report_step, .line = report_line, .to = &out};
    options.warning = report_warning;
    options.dry_run = is_dry;
    options.stop_signal = &stop_signal;
    options.report_request = &report_request;
    options.save_request = &save_request;
    options.faults = faults->item;
    options.n_faults = faults->n;
    watch_signals();
    fflush(NULL); /* a forked rank has a copy of what is in the buffers */
    sw_status status =
        sw_train(settings, &options, sw_launcher_has_hosts(launcher) ? &hosts : NULL, err);
    sw_display_end(&display);
    if (!status && *out.is_cut)
        status = sw_fail(err, SW_NO_SPACE,
                         "the run is done, but its output could not be written · standard output · "
                         "is the disk full, or its "
                         "reader gone?");
    munmap(shared, sizeof *out.is_cut);
    return status;
}

static sw_status train(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, as_markdown = false, print_only = false, is_dry = false, is_quiet = false,
         is_json = false, goes_on;
    sw_flag_texts faults = {.n = 0};
    const sw_flag flags[] = {
        {"--dry-run", NULL, "print the settings and the plan, and stop", SW_FLAG_SWITCH, &is_dry},
        {"--print-config", NULL, "print all settings, including defaults, as a RUN.yaml, and stop",
         SW_FLAG_SWITCH, &print_only},
        {"--quiet", NULL, "print nothing but errors and warnings", SW_FLAG_SWITCH, &is_quiet},
        {"--json", NULL, "print the lines of metrics.jsonl and nothing else", SW_FLAG_SWITCH,
         &is_json},
        {"--inject", "FAULT",
         "cause a fault on purpose, to test recovery; listed below; may be repeated", SW_FLAG_TEXTS,
         &faults},
        {"--markdown", NULL, "with --help: print the settings as the page docs/reference.md",
         SW_FLAG_SWITCH, &as_markdown},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    sw_settings settings = {0};
    sw_start started;
    const char **others = NULL;
    int n_others;
    sw_status status =
        sw_arguments_begin(&sw_verb_train, n_arguments, arguments, flags, N_FLAGS, 1,
                           "shardwise train RUN.yaml", &others, &n_others, &goes_on, err);
    /* Which may start this command again, so nobody has met before. */
    if (!status && goes_on)
        status = sw_faults_load(sw_verb_train.name, &faults, n_arguments, arguments, err);
    status = sw_start_join(&started, status, err);
    const bool speaks = sw_start_is_first(&started);
    if (!status && help && !as_markdown && speaks)
        sw_arguments_help(&sw_verb_train, flags, N_FLAGS);
    if (!status && help && speaks)
        print_keys(as_markdown);
    if (status || !goes_on)
        goto done;
    status = sw_settings_read(others[0], others + 1, n_others - 1, &settings, err);
    if (!status && print_only && speaks)
        status = print_config(&settings, err);
    else if (!status && !print_only && !(status = sw_start_settle(&started, &settings, err)))
        status = start(&settings, &started, is_dry, sw_show_for(stdout, is_quiet, is_json), &faults,
                       err);
done:
    sw_start_leave(&started, status, err);
    sw_settings_free(&settings);
    free(others);
    return status;
}

const sw_verb sw_verb_train = {"train", "RUN.yaml [section.key=value ...]",
                               "train or fine-tune a model", train};
