/* status.h: how every function of the library says that something went wrong.
 *
 * A function that can fail returns a sw_status and takes a `sw_error *err` as its last argument,
 * where it leaves one line that a person can act on: what happened, where, what to try. The library
 * never exits and never prints.
 */
#ifndef SHARDWISE_STATUS_H
#define SHARDWISE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SW_BUILDING_SHARED) && defined(__GNUC__)
#define SW_API __attribute__((visibility("default")))
#else
#define SW_API
#endif

/* The symbol of a function whose arguments have grown since 0.1.0: programs built with those
 * headers ask for the plain name, and get what they knew (docs/embedding.md, "Versions"). */
#define SW_SYMBOL(symbol) __asm__(symbol)

/* X(name, exit code of the command, meaning) */
#define SW_STATUSES(X)                                                                     \
    X(SW_OK, 0, "done")                                                                    \
    X(SW_BUG, 1, "an invariant of the library is broken")                                  \
    X(SW_BAD_CONFIG, 2, "a setting, argument or environment variable cannot be used")      \
    X(SW_BAD_FILE, 3, "a data or model file is damaged, missing or not what it should be") \
    X(SW_NO_MEMORY, 4, "the run does not fit in memory")                                   \
    X(SW_NO_SPACE, 4, "the disk is full or cannot be written")                             \
    X(SW_LOST_RANK, 5, "a rank died or was stopped")                                       \
    X(SW_TIMED_OUT, 5, "a rank made no progress before the deadline")                      \
    X(SW_MISMATCH, 1, "ranks disagree about what to do")                                   \
    X(SW_GUARD, 6, "a guard ended the run")                                                \
    X(SW_INTERRUPTED, 130, "stopped by SIGINT after saving")                               \
    X(SW_TERMINATED, 143, "stopped by SIGTERM after saving")                               \
    X(SW_ABORTED, 5, "another rank failed; its error is the cause")                        \
    X(SW_HUNG_UP, 129, "stopped by SIGHUP after saving")

typedef enum sw_status {
#define SW_STATUS_ENUM(name, exit_code, meaning) name,
    SW_STATUSES(SW_STATUS_ENUM)
#undef SW_STATUS_ENUM
        SW_N_STATUSES
} sw_status;

#define SW_MESSAGE_BYTES 1024

typedef struct sw_error {
    sw_status status;
    char message[SW_MESSAGE_BYTES]; /* one line, without a final newline; cut at the end if too long
                                     */
} sw_error;

/* Write the formatted message into `err` (which may be NULL) and return `status`, so that a failure
 * is one statement:
 *     return sw_fail(err, SW_BAD_FILE, "%s: the header is cut; is the download complete?", path);
 */
SW_API sw_status sw_fail(sw_error *err, sw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put the formatted text and ": " before the message that is already there: the caller adds where
 * it happened. Returns err->status (SW_BUG if err is NULL). */
SW_API sw_status sw_fail_within(sw_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status's own name ("SW_BAD_FILE"), and the exit code that the command gives for it. */
SW_API const char *sw_status_name(sw_status status);
SW_API int sw_status_exit_code(sw_status status);

/* The library's version, "major.minor.patch". */
SW_API const char *sw_version(void);

#ifdef __cplusplus
}
#endif
#endif
