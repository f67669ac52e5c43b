/* stop_signal.h: the signals that ask for an end: their names, and the status of what ended because of them. */
#ifndef SW_BASE_STOP_SIGNAL_H
#define SW_BASE_STOP_SIGNAL_H

#include <stdbool.h>

#include <shardwise/status.h>

/* SIGINT, SIGTERM, SIGHUP; any other counts as SIGTERM, as whoever hands it on wants an end. */
const char *sw_stop_name(int signal_number);  /* "SIGINT", "SIGTERM": for the record */
const char *sw_stop_words(int signal_number); /* "Ctrl-C", "SIGTERM": for a person */
sw_status sw_stop_status(int signal_number);

/* Is it the status of one of them? Such an end was asked for, and is no failure. */
bool sw_status_is_stop(sw_status status);

#endif
