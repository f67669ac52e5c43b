/* deaths.c: from a signal to its likely cause.
 *
 * SIGKILL has many senders, and says of none. What is known is used: a fault of the run's own
 * announces its signal in control memory; a process at the hard limit of its CPU time was ended for
 * it; and the kernel counts whom it ends for lack of memory. The count is that of the whole
 * machine, so one that rose is likely the cause, and one that did not excludes it.
 */
#include "launch/deaths.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc_text.h"

static const double SECONDS_BETWEEN_LOOKS =
    10; /* a large process that was killed takes seconds to go */

/* Which of the caller's words belong to an advice: those for less memory come first, the others
 * follow. */
enum { NO_WORDS, LESS_MEMORY, FAULT, KERNELS };

typedef struct signal_advice {
    int number;
    const char *why, *advice;
    int words;
} signal_advice;

static const signal_advice advice_on_signals[] = {
    {SIGBUS, "likely out of memory: a page of shared memory could not be allocated",
     "or raise the container's memory limit", LESS_MEMORY},
    {SIGSEGV, "a fault in its code", "", FAULT},
    {SIGABRT, "its code gave up", "see what it printed last; ", FAULT},
    {SIGILL, "an instruction that this CPU lacks", "rebuild on this machine", KERNELS},
    {SIGTERM, "someone or a job manager ended it",
     "to end a run, signal its first process, the supervisor"},
    {SIGXCPU, "its limit of CPU time is used up", "raise ulimit -t"},
    {SIGSTOP, "a stopped rank holds up all others",
     "to stop a run, signal its first process, the supervisor"},
    {SIGTSTP, "a stopped rank holds up all others",
     "to stop a run, signal its first process, the supervisor"},
    {SIGTTIN, "a stopped rank holds up all others",
     "to stop a run, signal its first process, the supervisor"},
    {SIGTTOU, "a stopped rank holds up all others",
     "to stop a run, signal its first process, the supervisor"},
};

static const signal_advice by_a_fault = {0, "as --inject asked for",
                                         "without --inject it would not have died; train.restarts "
                                         "says how often ranks are started again"};
static const signal_advice out_of_time = {SIGKILL, "its limit of CPU time is used up",
                                          "raise ulimit -t"};
static const signal_advice out_of_memory = {
    SIGKILL, "likely out of memory: the kernel has just ended a process for that",
    "or raise the memory limit", LESS_MEMORY};
static const signal_advice someone = {
    SIGKILL,
    "someone or a job manager ended it: the kernel has ended no process for lack of memory",
    "to end a run, signal its first process, the supervisor"};
static const signal_advice someone_or_memory = {
    SIGKILL, "out of memory, or someone or a job manager ended it",
    "or raise the memory limit, if the kernel's log (dmesg) says that it was memory", LESS_MEMORY};

const char *sw_signal_name(int number, char name[SW_SIGNAL_NAME_BYTES]) {
    const char *known = sigabbrev_np(number);
    if (known)
        snprintf(name, SW_SIGNAL_NAME_BYTES, "SIG%s", known);
    else
        snprintf(name, SW_SIGNAL_NAME_BYTES, "signal %d", number);
    return name;
}

static int64_t count_memory_kills(void) {
    char text[SW_PROC_TEXT_BYTES];
    int64_t n;
    return sw_proc_text_read("/proc/vmstat", text) && sw_proc_text_find(text, "oom_kill ", &n) ? n
                                                                                               : -1;
}

void sw_memory_kills_start(sw_memory_kills *kills) {
    kills->before = kills->latest = count_memory_kills();
    kills->since = sw_seconds_now();
}

void sw_memory_kills_look(sw_memory_kills *kills) {
    if (kills->latest < 0 || sw_seconds_now() - kills->since < SECONDS_BETWEEN_LOOKS)
        return;
    kills->before = kills->latest;
    kills->latest = count_memory_kills();
    kills->since = sw_seconds_now();
}

static bool is_at_limit_of_time(const struct rusage *usage) {
    struct rlimit limit;
    return usage && !getrlimit(RLIMIT_CPU, &limit) && limit.rlim_max != RLIM_INFINITY &&
           (rlim_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) + 1 >= limit.rlim_max;
}

static const signal_advice *who_kills(const struct rusage *usage, const sw_memory_kills *kills) {
    if (is_at_limit_of_time(usage))
        return &out_of_time;
    int64_t now = kills->before < 0 ? -1 : count_memory_kills();
    return now < 0 ? &someone_or_memory : now > kills->before ? &out_of_memory : &someone;
}

void sw_death_explain(const sw_control_rank *rank, int number, const struct rusage *usage,
                      const sw_memory_kills *kills, const sw_launch_words *words, sw_death *death) {
    static const signal_advice unknown = {0, "no known cause", "see what it printed last"};
    const signal_advice *advice = number == SIGKILL ? who_kills(usage, kills) : &unknown;
    for (size_t i = 0; i < sizeof advice_on_signals / sizeof *advice_on_signals; i++)
        if (advice_on_signals[i].number == number)
            advice = &advice_on_signals[i];
    if (sw_control_is_announced(rank, number, sw_seconds_now()))
        advice = &by_a_fault;
    snprintf(death->advice, sizeof death->advice, "%s%s%s%s",
             advice->words == LESS_MEMORY ? words->less_memory : "",
             advice->words == LESS_MEMORY ? " " : "", advice->advice,
             advice->words == FAULT     ? words->fault
             : advice->words == KERNELS ? words->lower_kernels
                                        : "");
    snprintf(death->why, sizeof death->why, "%s", advice->why);
    size_t n = strlen(death->why);
    if (usage && advice != &by_a_fault)
        snprintf(death->why + n, sizeof death->why - n, "; it held up to %.1f MiB",
                 (double)usage->ru_maxrss / 1024);
}
