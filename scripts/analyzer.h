/* analyzer.h: what clang-tidy's analyzer cannot see from one file: sw_fail returns the status that
 * it is given, and sw_fail_within never SW_OK. Only scripts/lint includes it, before every source
 * but the one that defines these two. */
#include <shardwise/status.h>

static inline sw_status sw_analyzer_status(sw_status status) {
    return status;
}
#define sw_fail(err, status, ...) (sw_fail(err, status, __VA_ARGS__), sw_analyzer_status(status))
#define sw_fail_within(err, ...) (sw_fail_within(err, __VA_ARGS__), sw_analyzer_status(SW_BUG))
