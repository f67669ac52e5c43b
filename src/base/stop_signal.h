/* stop_signal.h: the signals that ask for an end: which they are, who may get them, their names,
 * and the status of what ended because of them. */
#ifndef SW_BASE_STOP_SIGNAL_H
#define SW_BASE_STOP_SIGNAL_H

#include <stdbool.h>

#include <shardwise/status.h>

/* SIGINT, SIGTERM, SIGHUP; any other counts as SIGTERM, as whoever hands it on wants an end. */
const char *sw_stop_name(int signal_number);  /* "SIGINT", "SIGTERM": for the record */
const char *sw_stop_words(int signal_number); /* "Ctrl-C", "SIGTERM": for a person */
sw_status sw_stop_status(int signal_number);

/* Call `handler` for each of them, but for SIGHUP where whoever started this process has it ignored
 * (nohup). */
void sw_stop_watch(void (*handler)(int signal_number));

/* May one rank alone be asked by it, as by a job manager? Ctrl-C reaches the whole terminal group,
 * and is the supervisor's. */
bool sw_stop_may_reach_a_rank(int signal_number);

/* The first of those that is blocked and pending here; 0: none. */
int sw_stop_pending(void);

/* Is it the status of one of them? Such an end was asked for, and is no failure. */
bool sw_status_is_stop(sw_status status);

#endif
