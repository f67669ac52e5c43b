/* generate.h: text from a trained model. */
#ifndef SW_RUN_GENERATE_H
#define SW_RUN_GENERATE_H

#include <signal.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_generate_options {
    const char *model;  /* a Hugging Face directory whose tokens are bytes */
    const char *prompt; /* at least one byte */
    int64_t max_tokens; /* to produce, more than 0 */
    double temperature; /* 0: greedy */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
    /* Takes each token's bytes as it is produced. A status that is not SW_OK ends the text there. */
    sw_status (*produce)(void *to, const char *bytes, int64_t n_bytes, sw_error *err);
    void *to;
    const volatile sig_atomic_t *stop_signal; /* may be NULL */
} sw_generate_options;

/* Continue the prompt. Ranks: one, which is a process of its own. Errors: SW_BAD_FILE (the model), SW_BAD_CONFIG (options), what
 * `produce` returns, SW_INTERRUPTED and SW_TERMINATED (a stop signal). */
sw_status sw_generate(const sw_generate_options *options, sw_error *err);

#endif
