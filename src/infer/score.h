/* score.h: how well a model predicts text, and which of some texts it finds likeliest. */
#ifndef SW_INFER_SCORE_H
#define SW_INFER_SCORE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/columns.h"
#include "base/dtype.h"
#include "data/chat.h"
#include "infer/runner.h"

typedef struct sw_score_options {
    sw_runner_model model;
    const char *const
        *paths;  /* [n_paths] sources: .txt, .jsonl, .npy or a pattern; each is scored by itself */
    int n_paths; /* 0: none */
    const char *choices; /* a .jsonl file of {"prompt", "choices", "answer"}; NULL: none */
    int64_t
        sequence_length; /* tokens of a row; 0: 1024, or the model's positions if these are fewer */
    int64_t stride;      /* tokens between the beginnings of rows, up to sequence_length; 0:
                            sequence_length (data/rows.h) */
    int64_t most_rows;   /* of each source; 0: all */
    const sw_columns *columns; /* what .jsonl files call the keys of rows; NULL: their own names */
    sw_chat_options chat;      /* how conversations are written; the folder is the model's */
    int n_ranks;               /* the model is split over them; at least 1 */
    sw_dtype parameter_dtype;  /* SW_F32 or SW_BF16 */
    bool as_threads;           /* ranks as threads of this process, for tests */
    void (*progress)(void *to, int64_t n_done,
                     int64_t n_all); /* rows; called in rank 0, another process. May be NULL */
    void *progress_to;
    void (*tell)(void *told, const char *line); /* what a person should know before: of the cache,
                                                   of the time. May be NULL */
    void *told;
    const volatile sig_atomic_t *stop_signal; /* may be NULL */
} sw_score_options;

/* A source. Sums are exact, so they are the same for any number of ranks. */
typedef struct sw_source_score {
    int64_t n_rows;
    int64_t n_dropped; /* tokens that no row has: of documents of one */
    int64_t n_targets; /* tokens predicted: all but the first of each document that count, once */
    int64_t n_bytes; /* of the text that they stand for; -1: the model's folder has no tokenizer */
    double loss;     /* nats, of all targets together */
} sw_source_score;

typedef struct sw_choices_score {
    int64_t n_questions;
    int64_t n_right;          /* by log-probability per token of the choice */
    int64_t n_right_by_byte;  /* per byte */
    int64_t n_right_by_total; /* not normalised */
} sw_choices_score;

/* Score the sources into scores [n_paths] and the questions into *choices. Of choices that are
 * equally likely the first counts as chosen. Errors: SW_BAD_FILE (model, data; a question by file
 * and line; a score that is no number), SW_BAD_CONFIG. */
sw_status sw_score(const sw_score_options *options, sw_source_score *scores,
                   sw_choices_score *choices, sw_error *err);

#endif
