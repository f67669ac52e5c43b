/* reason.h: why the system refused a call, in words that a person can act on.
 *
 * Whoever has an errno says it through here, so that the same cause has the same words and the same
 * hint everywhere, and a hint never contradicts its cause: one function maps errno to hint. What
 * must be tried again after a signal is here too.
 */
#ifndef SW_BASE_REASON_H
#define SW_BASE_REASON_H

#include <errno.h>
#include <stdbool.h>

#include <shardwise/status.h>

/* What the call was for: the same errno asks for other things of who reads, who writes, and who
 * wants a process or memory. */
typedef enum sw_call_kind {
    SW_CALL_READ,
    SW_CALL_WRITE,
    SW_CALL_PROCESS,
    SW_CALL_MEMORY
} sw_call_kind;

/* What to try; "" where nothing more can be said than what strerror says. */
const char *sw_call_hint(sw_call_kind kind, int error);

/* SW_CALL_WRITE: SW_NO_SPACE. SW_CALL_READ: SW_BAD_FILE, but SW_NO_MEMORY where the process or the
 * machine is short of something, which says nothing about the file. The others: SW_NO_MEMORY. */
sw_status sw_call_status(sw_call_kind kind, int error);

/* "FORMAT: what strerror says; hint", with that status. `error`: errno, or its negative. */
sw_status sw_fail_call(sw_error *err, sw_call_kind kind, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "PATH: cannot be read: ..." and "PATH: cannot be written: ...". */
sw_status sw_cannot_read(const char *path, int error, sw_error *err);
sw_status sw_cannot_write(const char *path, int error, sw_error *err);

/* Shall a call that failed with `error` be made again? After a signal yes, but not for ever: where
 * every try is interrupted, the call counts as failed, so that whatever waits for it ends.
 * *n_tries: 0 before the first. */
enum { SW_MOST_INTERRUPTIONS = 10000 };
static inline bool sw_is_interruption(int error, int *n_tries) {
    return error == EINTR && ++*n_tries < SW_MOST_INTERRUPTIONS;
}

/* Do two messages differ in nothing but numbers and names of files, as those of two steps do? */
bool sw_is_same_cause(const char *a, const char *b);

#endif
