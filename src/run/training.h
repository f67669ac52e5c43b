/* training.h: the state of one rank's training, shared by train_rank.c (the life of a rank), step.c (one step) and evaluate.c. */
#ifndef SW_RUN_TRAINING_H
#define SW_RUN_TRAINING_H

#include "observe/events.h"
#include "observe/metrics.h"
#include "observe/resident.h"
#include "run/executor.h"
#include "run/masters.h"
#include "run/train.h"

/* Room for what one rank gives in an exchange of training. */
enum { SW_PAYLOAD_BYTES = 2048 };

typedef struct sw_training {
    const sw_run *run;
    sw_comm *comm;
    sw_device *device;
    sw_executor *executor;
    sw_metrics *metrics; /* rank 0 */
    sw_events *events;   /* rank 0 */
    float *values;       /* [SW_PIECE_ELEMENTS] for loading and saving */

    int64_t step;      /* completed */
    int64_t n_updates; /* steps that changed the parameters */
    int n_skipped_in_a_row;
    int stop_signal; /* agreed on by all ranks; 0: go on */
    double first_loss, last_loss;
    double begin; /* of step 1, seconds */

    /* the step that is running */
    int64_t first_row, n_rows; /* logical rows of the step */
    int64_t n_supervised;
    sw_wide_sum loss_sum; /* over this rank's micro-batches */
    double loss, grad_norm, grad_norm_clipped;
    const char *skipped;
    void *all; /* [n_ranks * SW_PAYLOAD_BYTES] what all ranks gave in an exchange */
} sw_training;

/* Run one training step and all that belongs to it: decision, metrics, events, progress. */
sw_status sw_training_step(sw_training *t, sw_error *err);

/* The loss over the validation rows: the same on every rank, for any number of ranks. */
sw_status sw_training_evaluate(sw_training *t, double *loss, sw_error *err);

/* Peaks of the worst rank (the largest sum), into `worst` [SW_N_MEMORY_CLASSES]; its resident bytes and number. Collective. */
sw_status sw_training_memory(sw_training *t, int64_t *worst, int64_t *resident, int *rank, sw_error *err);

/* Rows of a micro-batch into tokens and targets: rows at and beyond `end` are blank. */
sw_status sw_training_fill(sw_dataset *data, int64_t first, int64_t end, int64_t n_rows, int64_t n_tokens, int32_t *tokens,
                           int32_t *targets, sw_error *err);

#endif
