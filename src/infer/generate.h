/* generate.h: text from a trained model: one prompt or many, on one rank or many. */
#ifndef SW_INFER_GENERATE_H
#define SW_INFER_GENERATE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/dtype.h"
#include "data/chat.h"
#include "infer/runner.h"

typedef struct sw_prompt {
    const char *text; /* [n_bytes], at least one; NULL: ids are given */
    size_t n_bytes;
    const int32_t *ids; /* [n_ids] */
    int64_t n_ids;
} sw_prompt;

/* Why a text ended. */
typedef enum sw_text_end { SW_END_TOKENS, SW_END_OF_TEXT, SW_END_STOP, SW_END_SIGNAL } sw_text_end;

/* What became of a text. */
typedef struct sw_text_result {
    sw_text_end end;
    int64_t n_prompt_tokens, n_tokens; /* n_tokens: produced, one that ends the text included */
    bool has_slid; /* it has outgrown the model's positions: its end has not seen its beginning */
} sw_text_result;

/* Who takes what is produced, in rank 0, which is another process: text after text, each as it is
 * produced. Text number `text` is sample text % n_samples of prompt text / n_samples. Any may be
 * NULL. */
typedef struct sw_text_sink {
    void *to;
    sw_status (*begin)(void *to, int64_t text, sw_error *err);
    sw_status (*text)(void *to, int64_t text, const char *bytes, size_t n_bytes, sw_error *err);
    sw_status (*end)(void *to, int64_t text, const sw_text_result *result, sw_error *err);
    void (*token)(void *to, int64_t text, int32_t id); /* at once, not in the order of texts */
    /* A text has outgrown the model's positions and goes on from its latest half. At once, the
     * first time it does. */
    void (*slides)(void *to, int64_t text, int64_t n_positions);
} sw_text_sink;

typedef struct sw_generate_options {
    sw_runner_model model;
    const sw_prompt *prompts;
    int64_t n_prompts;         /* at least 1 */
    int64_t n_samples;         /* texts for each prompt; 0: 1 */
    int64_t max_tokens;        /* to produce for each, more than 0 */
    double temperature;        /* 0: greedy */
    int64_t top_k;             /* 0: all */
    double top_p;              /* 1: all */
    double min_p;              /* 0: all */
    double repetition_penalty; /* over the prompt and what was produced; 1 or 0: none */
    uint64_t seed; /* of the first prompt; each next one has the next number. A sample does not
                      depend on n_samples */
    const char *const *stops; /* texts that end a text and are not part of it */
    int n_stops;
    bool is_chat; /* a prompt is what the user says; the text is the assistant's answer, which the
                     end of its turn ends */
    const char *system;   /* said before that; NULL: what the chat format says of itself */
    sw_chat_options chat; /* how a conversation is written; the folder is the model's */
    bool passes_end;      /* the model's end-of-text tokens end nothing */
    int n_ranks;    /* the model is sharded over them, prompts are dealt to them; at least 1 */
    int64_t n_rows; /* texts that grow at once on each rank; 0: up to 8 */
    sw_dtype parameter_dtype; /* SW_F32 or SW_BF16 */
    bool as_threads;          /* ranks as threads of this process, for tests */
    sw_text_sink sink;
    const volatile sig_atomic_t *stop_signal; /* may be NULL */
} sw_generate_options;

/* Continue the prompts. A text does not depend on the prompts beside it, nor on the number of
 * ranks. A text that outgrows the model's positions goes on from its latest half. Errors:
 * SW_BAD_FILE (the model), SW_BAD_CONFIG (options; a prompt longer than the model's positions, by
 * number); what the sink returns; sw_stop_status's (a stop signal). */
sw_status sw_generate(const sw_generate_options *options, sw_error *err);

#endif
