/* training.h: the state of one rank's training, shared by train_rank.c (the life of a rank), step.c
 * (one step), evaluate.c, and what makes it go on: saving.h, restore.c, run_state.c, guards.c,
 * verify.c. */
#ifndef SW_TRAIN_TRAINING_H
#define SW_TRAIN_TRAINING_H

#include "checkpoint/saving.h"
#include "execute/executor.h"
#include "execute/masters.h"
#include "observe/events.h"
#include "observe/metrics.h"
#include "observe/resident.h"
#include "train/train.h"

/* Room for what one rank gives in an exchange of training. */
enum { SW_PAYLOAD_BYTES = 2048 };

/* What the guards remember: all of it is in a checkpoint. */
enum { SW_GUARD_LOSSES = 32 };
typedef struct sw_guard_state {
    double losses[SW_GUARD_LOSSES]; /* [n_losses] the last good ones, oldest first */
    int n_losses;
    int n_rollbacks; /* since the run was last further than where they went back to */
} sw_guard_state;

/* A limit of guard.limits that rank 0's clock has seen. */
typedef enum sw_limit_kind { SW_LIMIT_NONE, SW_LIMIT_SPEED, SW_LIMIT_HOURS } sw_limit_kind;
typedef struct sw_limit_seen {
    sw_limit_kind kind;
    double value; /* tokens/s, hours */
} sw_limit_seen;
enum { SW_GUARD_SPEED_STEPS = 20 };

/* A cross-check of the step that is running: verify.c. */
typedef enum sw_finding {
    SW_FOUND_NOTHING,
    SW_FOUND_UNREST,
    SW_FOUND_REPLICAS,
    SW_FOUND_ARITHMETIC
} sw_finding;
typedef struct sw_check {
    bool is_due;      /* guard.verify_every names this step */
    bool counts_step; /* the step's own work on slot 0 is hashed: it is one of the computations that
                         are compared */
    int slot;         /* that the step is in */
    int n_active;     /* ranks with a micro-batch in slot 0 */
    uint64_t at_rest; /* hash of this rank's parameters and states before the step */
    uint64_t own;     /* hash of what this rank handed in for slot 0 */
    uint64_t computed[2][SW_MAX_RANKS]; /* [..., n_active] hashes of micro-batches, by number: by
                                           their own rank; by another */
    sw_finding finding;                 /* the decision's: the same on all ranks */
    bool is_suspect[SW_MAX_RANKS]; /* of whom; SW_FOUND_ARITHMETIC: open until sw_verify_judge */
} sw_check;

/* Lines of metrics.jsonl and events.jsonl that could not be written: run_lines.c. */
enum { SW_MOST_CAUSES = 4 };
typedef struct sw_line_count {
    int64_t n_tried, n_lost; /* by this process */
    bool is_last_lost;
} sw_line_count;
typedef struct sw_unwritten {
    sw_line_count metrics, events;
    char told[SW_MOST_CAUSES][SW_MESSAGE_BYTES]; /* [n_told] the causes that were warned of */
    int n_told;
    sw_error last;
} sw_unwritten;

typedef struct sw_training {
    const sw_run *run;
    sw_comm *comm;
    sw_device *device;
    sw_executor *executor;
    sw_json_lines *metrics;        /* rank 0 */
    sw_json_lines *events;         /* rank 0 */
    sw_unwritten unwritten;        /* rank 0 */
    struct sw_rank_faults *faults; /* faults.h; NULL: none are for this rank */
    float *values;                 /* [SW_PIECE_ELEMENTS] for loading and saving */

    /* what a checkpoint keeps: run_state.c */
    int64_t step;      /* completed */
    int64_t n_steps;   /* of the whole run, as it goes on from what was taken up: sw_run_length */
    int64_t n_updates; /* steps that changed the parameters */
    int64_t next_row;  /* logical row with which the next step begins */
    int64_t n_rows_left_out; /* by rollbacks */
    int n_skipped_in_a_row;
    double first_loss, last_loss;
    double seconds_before; /* of training, before this process began */
    sw_guard_state guard;

    int stop_signal;   /* agreed on by all ranks; 0: go on */
    const char *limit; /* the same: which of guard.limits is reached; NULL: none */
    double begin;      /* of training in this process, seconds */

    /* checkpoints: checkpoints.c */
    sw_saving *saving;          /* NULL: no checkpoints */
    sw_masters saved_masters;   /* where it reads */
    char *model_config;         /* which it writes beside the states; NULL: a model without one */
    const char *why_saved;      /* the save that is running */
    int64_t saved_step;         /* of the newest checkpoint that is known to be whole; -1: none */
    int64_t n_saves, n_unsaved; /* tried, and failed, by this process; rank 0 */
    char unsaved[SW_MESSAGE_BYTES];        /* why the last one failed that failed */
    uint32_t n_saves_asked, n_saves_begun; /* SIGUSR1: agreed on by all ranks */
    sw_saving_stage first_saving; /* the save that is running, at the decision of the last step:
                                     rank 0's stage */
    bool all_have_written, some_saving_failed; /* ... and of all ranks */
    sw_limit_seen limit_seen;                  /* rank 0's, to be told with the next decision */
    char limit_text[128];
    double step_seconds[SW_GUARD_SPEED_STEPS]; /* of the last steps, in a ring */
    int64_t n_step_seconds;

    /* the step that is running */
    int64_t first_row, n_rows; /* logical rows of the step */
    int64_t n_supervised;
    sw_wide_sum loss_sum; /* over this rank's micro-batches */
    double loss, grad_norm, grad_norm_clipped;
    bool is_spike;
    bool has_validation; /* after the step */
    double validation_loss;
    const char *skipped;
    sw_check check;
    void *all; /* [n_ranks * SW_PAYLOAD_BYTES] what all ranks gave in an exchange */
} sw_training;

/* The micro-batch of this rank in a slot, of those that are dealt out now. */
static inline int64_t sw_training_micro_batch(const sw_training *t, int slot) {
    const sw_mesh *mesh = &t->run->plan.assembly.sharding.mesh;
    return sw_deal_micro_batch(sw_mesh_deal(mesh, 0),
                               sw_mesh_place(mesh, SW_DATA_AXES, t->comm->rank), slot);
}

/* Run one training step and all that belongs to it: decision, metrics, events, progress. */
sw_status sw_training_step(sw_training *t, sw_error *err);

/* train/run_lines.c. A line of events.jsonl, of metrics.jsonl; nothing on a rank that has not
 * opened them. One that cannot be written ends no run: a warning tells each cause once. */
void sw_training_event(sw_training *t, const char *name, int64_t step, const char *reason,
                       const sw_detail *details, int n_details);
void sw_training_log(sw_training *t, const sw_step_metrics *step);
/* After a rollback to t->step: lines of later steps are cut off. */
void sw_training_cut_log(sw_training *t);
/* At the end: how many are missing. */
void sw_training_tell_unwritten(const sw_training *t);
/* Of a run that ended well. Errors: why the last line of one of the files is missing. */
sw_status sw_training_check_lines(const sw_training *t, sw_error *err);

/* The loss over the validation rows, and has_validation: the same on every rank, for any number of
 * ranks. Who asks to stop meanwhile (stop_signal) breaks it off: then has_validation is false, and
 * the loss is of some rows. */
sw_status sw_training_evaluate(sw_training *t, double *loss, sw_error *err);

/* Peaks of the worst rank (the largest sum), into `worst` [SW_N_MEMORY_CLASSES]; its resident bytes
 * and number. Collective. */
sw_status sw_training_memory(sw_training *t, int64_t *worst, int64_t *resident, int *rank,
                             sw_error *err);

/* The rows of all completed steps, without those that rollbacks left out. */
static inline int64_t sw_training_rows_taken(const sw_training *t) {
    return t->next_row - t->n_rows_left_out;
}

/* train/run_state.c: the counts of `t` as the text of a JSON object, and back from a checkpoint. */
void sw_training_state_text(const sw_training *t, sw_json_line *text);
sw_status sw_training_state_read(sw_training *t, const sw_checkpoint *checkpoint, sw_error *err);

/* train/restore.c. Collective: put parameters, moments and counts as they are in the newest
 * checkpoint that is good on every rank, else as they are at the beginning; the parameters are then
 * published. Rank 0 tells of checkpoints that were passed over. Errors: SW_BAD_FILE when there are
 * checkpoints and none is good. */
sw_status sw_training_restore(sw_training *t, sw_error *err);

/* The same between steps, while nothing is being saved: parameters and moments of the newest good
 * checkpoint, after which none is left; *step is -1 if there is none, and then nothing has
 * changed. */
sw_status sw_training_restore_again(sw_training *t, int64_t *step, sw_error *err);

/* train/checkpoints.c. Before the first step. */
sw_status sw_training_open_saving(sw_training *t, sw_error *err);
/* Collective, after a step: see to the save that is running, and begin one that is due. */
sw_status sw_training_tend_saving(sw_training *t, sw_error *err);
/* Collective: wait for the save that is running, and tell what became of it. */
sw_status sw_training_settle_saving(sw_training *t, sw_error *err);
/* All ranks, after a rollback: the checkpoint that was gone back to gets the state that the run has
 * now, before another step is over: whatever ends the run then, the rows stay left out. Errors, of
 * rank 0, which end the run: SW_NO_SPACE and others of sw_save_replace_state. */
sw_status sw_training_save_rollback(sw_training *t, sw_error *err);
/* At the end of a rank's part: how many saves have failed, if that were several. */
void sw_training_tell_unsaved(const sw_training *t);
/* Collective, at the end: the last step is saved. `unsaved` says why it could not be; its status is
 * SW_OK when it was. */
sw_status sw_training_save_last(sw_training *t, sw_error *unsaved, sw_error *err);

/* train/guards.c. Is this loss, of an otherwise good step, above factor (0: never) times the median
 * of the last good ones? */
bool sw_guard_is_spike(const sw_guard_state *guard, double factor, double loss);
void sw_guard_remember(sw_guard_state *guard, double loss);
/* After a step: does it reach one of guard.limits? A limit of the clock is rank 0's to see, and all
 * ranks learn it by ... */
void sw_guard_look(sw_training *t, double seconds);
/* ... this, at the next decision. */
void sw_guard_reach(sw_training *t, const sw_limit_seen *seen);
/* Collective, after a step whose loss was a spike: back to the newest checkpoint, and on with the
 * rows after those of the step. Without a checkpoint the update stays skipped, and no more.
 * SW_GUARD when it has happened too often. */
sw_status sw_training_roll_back(sw_training *t, sw_error *err);

/* train/verify.c: do the ranks' numbers agree? For steps that guard.verify_every names, around the
 * executor's step; nothing of the run changes. First, when the rows of the step are known: other
 * ranks compute its first micro-batches beforehand. Collective. */
sw_status sw_verify_begin(sw_training *t, sw_error *err);
/* While the step's own micro-batches compute: a loss is there; a sw_step_hooks.gradient. */
void sw_verify_loss(sw_training *t, double loss);
void sw_verify_gradient(void *training, const void *gradient, int64_t bytes);
/* At the decision: compare. t->check.finding is the same on all ranks; where there is one nothing
 * may be updated. Collective. */
sw_status sw_verify_compare(sw_training *t, sw_error *err);
/* After a step with a finding: SW_GUARD, naming the ranks whose numbers differ. Collective. */
sw_status sw_verify_judge(sw_training *t, sw_error *err);

/* Rows of a micro-batch into the inputs of a program: rows at and beyond `end` are blank.
 * `documents`, where a token's document begins in its row, is there where the program asks; else
 * every row is one document. */
sw_status sw_training_fill(sw_training *t, int program, sw_dataset *data, int64_t first,
                           int64_t end, sw_error *err);

#endif
