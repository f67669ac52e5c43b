/* train.h: a training run, as the command runs it, for programs that bring a model of their own or
 * want to watch. */
#ifndef SHARDWISE_TRAIN_H
#define SHARDWISE_TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A model that is not one of the library's: a C function that records its forward pass and ends in
 * sw_predict, or in sw_cross_entropy if it is not to generate. Where model.path is set, its weights
 * come from there: a folder with model.safetensors (or its index and parts), or a .safetensors
 * file, that has a tensor for each parameter, by its name and of its shape, and no other. */
typedef struct sw_custom_model {
    sw_status (*trace)(void *self, sw_graph *graph, sw_error *err);
    void *self;
    int64_t vocabulary; /* token ids are below it */
} sw_custom_model;

typedef struct sw_progress {
    int64_t step, n_steps;                 /* completed, of how many */
    double loss, grad_norm, learning_rate; /* loss: NaN where no token of the step counts as a
                                              target, or numbers have failed */
    double tokens_per_second;
    double seconds;       /* since step 1 began */
    int64_t memory_bytes; /* resident in the worst rank */
    bool is_logged;       /* one of the steps that log.every picks, or the last */
    bool has_validation;  /* then: */
    double validation_loss;
    const char *skipped; /* why this step's update was skipped; NULL: it was not */
    const char
        *metrics; /* the object of metrics.jsonl without a newline; NULL where is_logged is false */
} sw_progress;

/* All are called in one process, which may be a forked rank: they must not count on state that the
 * caller looks at afterwards. */
typedef struct sw_listener {
    void (*step)(void *to, const sw_progress *progress); /* after each step; may be NULL */
    void (*line)(void *to, const char *text); /* the start report, decisions, the end report: a line
                                                 at a time; may be NULL */
    void *to;
} sw_listener;

typedef struct sw_train_options {
    size_t size;                  /* sizeof(sw_train_options) */
    const sw_custom_model *model; /* NULL: the model that run.yaml names */
    sw_listener listener;
    bool dry_run;    /* report settings and plan, and stop */
    bool as_threads; /* ranks as threads of this process, for race checkers */
    const volatile sig_atomic_t *stop_signal; /* see launch.h; may be NULL */
    volatile sig_atomic_t *report_request;
    volatile sig_atomic_t *save_request; /* see launch.h: a checkpoint is saved after the step that
                                            is running; may be NULL */
    /* [n_faults] to inject on purpose, for drills: "kill:rank=1,step=3" (docs/reference.md,
     * docs/design/faults.md). Those of allocations and files need the library of faults loaded
     * before all others (LD_PRELOAD), as the command does. */
    const char *const *faults;
    int n_faults;
    /* Called as the listener's functions are, with its `to`: what went wrong though the run goes
     * on, once for each cause. NULL: listener.line hears of it. */
    void (*warning)(void *to, const char *text);
} sw_train_options;

#define SW_TRAIN_OPTIONS_INIT \
    { .size = sizeof(sw_train_options) }

/* Train as run.yaml says, with overrides "section.key=value"; relative paths in both count from the
 * folder of run.yaml. Writes the run's folder (metrics, plan, checkpoints, final model); one that
 * exists is gone on with from its newest good checkpoint (checkpoint.resume), and a run that is
 * finished is left as it is. Ranks are forked: call it before threads are started. Errors: whatever
 * is wrong with settings, data, model, memory, disk or ranks, each with what to try.
 * SW_INTERRUPTED, SW_TERMINATED, SW_HUNG_UP after stop_signal, with a checkpoint saved, or without
 * checkpoints the model so far. */
SW_API sw_status sw_train_file(const char *run_yaml, const char *const *overrides, int n_overrides,
                               const sw_train_options *options, sw_error *err);

/* The same with the text that a run.yaml would hold; relative paths in it and in overrides count
 * from `directory`, which is there already (NULL: the working directory). Messages call it "the
 * settings' text". */
SW_API sw_status sw_train_text(const char *text, const char *directory,
                               const char *const *overrides, int n_overrides,
                               const sw_train_options *options, sw_error *err);

/* What a run of those settings would need, before anything is read, written or started: *json is
 * the object of plan.json, free() it; of the options the model alone counts. SW_NO_MEMORY, with
 * *json, if the run would not fit; after other errors *json is NULL. Errors: as sw_train_text's, of
 * settings and model. */
SW_API sw_status sw_plan_text(const char *text, const char *directory, const char *const *overrides,
                              int n_overrides, const sw_train_options *options, char **json,
                              sw_error *err);

/* What a run's model makes of the run's data.validation: *loss, nats per token predicted, of all
 * files together; *n_tokens, how many (may be NULL). The model is that in the run's folder, or
 * before it is trained the one of model.path; ranks and numbers are the run's. Of the options count
 * the model, listener.line, as_threads and stop_signal. Ranks are forked here too. */
SW_API sw_status sw_evaluate_text(const char *text, const char *directory,
                                  const char *const *overrides, int n_overrides,
                                  const sw_train_options *options, double *loss, int64_t *n_tokens,
                                  sw_error *err);

typedef struct sw_writing_options {
    size_t size;        /* sizeof(sw_writing_options) */
    int64_t max_tokens; /* to write, at least 1 */
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* of the likeliest tokens, so many are drawn from; 0: all */
    double top_p;       /* the likeliest that have this share together; 1: all */
    uint64_t seed;
    /* Takes what is written, piece by piece, whole characters: called in a rank, which is another
     * process. */
    void (*text)(void *to, const char *bytes, size_t n_bytes);
    void *to;
} sw_writing_options;

#define SW_WRITING_OPTIONS_INIT                                                              \
    {                                                                                        \
        .size = sizeof(sw_writing_options), .max_tokens = 100, .temperature = 1, .top_p = 1, \
        .seed = 1234                                                                         \
    }

/* Go on from `prompt` with a run's model, found as sw_evaluate_text finds it; its folder has the
 * tokenizer. A text longer than data.sequence_length (of a model with a name: its positions) goes
 * on from its latest half. A program's own model must end in sw_predict, with as many rows in its
 * head as the vocabulary has ids. */
SW_API sw_status sw_generate_text(const char *text, const char *directory,
                                  const char *const *overrides, int n_overrides,
                                  const sw_train_options *options, const char *prompt,
                                  const sw_writing_options *how, sw_error *err);

#ifdef __cplusplus
}
#endif
#endif
