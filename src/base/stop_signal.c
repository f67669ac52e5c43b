/* stop_signal.c: one row for each signal. */
#include "base/stop_signal.h"

#include <signal.h>
#include <stddef.h>

typedef struct stop_signal {
    int number;
    const char *name, *words;
    sw_status status;
    bool may_reach_a_rank;
} stop_signal;

static const stop_signal stop_signals[] = {{SIGTERM, "SIGTERM", "SIGTERM", SW_TERMINATED, true},
                                           {SIGINT, "SIGINT", "Ctrl-C", SW_INTERRUPTED, false},
                                           {SIGHUP, "SIGHUP", "SIGHUP", SW_HUNG_UP, true}};
enum { N_STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

static const stop_signal *find(int number) {
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i].number == number)
            return &stop_signals[i];
    return stop_signals;
}

const char *sw_stop_name(int signal_number) {
    return find(signal_number)->name;
}

const char *sw_stop_words(int signal_number) {
    return find(signal_number)->words;
}

sw_status sw_stop_status(int signal_number) {
    return find(signal_number)->status;
}

void sw_stop_watch(void (*handler)(int signal_number)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, inherited;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_STOP_SIGNALS; i++) {
        const int number = stop_signals[i].number;
        bool is_ignored = !sigaction(number, NULL, &inherited) && inherited.sa_handler == SIG_IGN;
        if (number != SIGHUP || !is_ignored)
            sigaction(number, &action, NULL);
    }
}

bool sw_stop_may_reach_a_rank(int signal_number) {
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i].number == signal_number)
            return stop_signals[i].may_reach_a_rank;
    return false;
}

int sw_stop_pending(void) {
    sigset_t pending;
    if (sigpending(&pending))
        return 0;
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i].may_reach_a_rank && sigismember(&pending, stop_signals[i].number))
            return stop_signals[i].number;
    return 0;
}

bool sw_status_is_stop(sw_status status) {
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i].status == status)
            return true;
    return false;
}
