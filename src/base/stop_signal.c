/* stop_signal.c: one row for each signal. */
#include "base/stop_signal.h"

#include <signal.h>
#include <stddef.h>

typedef struct stop_signal {
    int number;
    const char *name, *words;
    sw_status status;
} stop_signal;

static const stop_signal stop_signals[] = {{SIGTERM, "SIGTERM", "SIGTERM", SW_TERMINATED},
                                           {SIGINT, "SIGINT", "Ctrl-C", SW_INTERRUPTED},
                                           {SIGHUP, "SIGHUP", "SIGHUP", SW_HUNG_UP}};
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

bool sw_status_is_stop(sw_status status) {
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i].status == status)
            return true;
    return false;
}
