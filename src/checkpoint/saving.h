/* saving.h: checkpoints while training goes on.
 *
 * Parameters and moments change in the update alone. So a save reads them where they lie, by a
 * thread of the rank's own, while the next step's micro-batches compute; the update of a group
 * waits until that group has been read. Nothing is copied aside.
 *
 *      step 200          step 201                        step 202
 *   ...|update| forward backward forward backward |upd.| forward ...
 *             |write g0 g1 g2 ..............|sync|  ^publish (rank 0), when the decision of a step
 *                                                   has told it that all ranks
 *                                                     are done
 *
 * One save at a time: the next waits for the one before. A save that fails is given up on all
 * ranks, the checkpoints before it stay, and the run goes on.
 */
#ifndef SW_CHECKPOINT_SAVING_H
#define SW_CHECKPOINT_SAVING_H

#include "checkpoint/save.h"
#include "comm/comm.h"
#include "device/cpu/cores.h"
#include "observe/json_line.h"

typedef struct sw_saving sw_saving;

/* How far a rank's part is. */
typedef enum sw_saving_stage {
    SW_SAVING_NOTHING,    /* none begun, or the last one is over */
    SW_SAVING_WRITING,    /* this rank's part is on its way to the disk */
    SW_SAVING_WRITTEN,    /* ... and there */
    SW_SAVING_PUBLISHING, /* rank 0: all parts are there */
    SW_SAVING_PUBLISHED,  /* rank 0 */
    SW_SAVING_FAILED
} sw_saving_stage;

/* What the run tells of its steps, NULL: nothing. It is on the disk before a checkpoint gets its
 * name, so that whoever goes on from there finds all lines up to it. */
typedef struct sw_saving_records {
    const sw_json_lines *metrics;
    const sw_json_lines *events;
} sw_saving_records;

typedef struct sw_saving_options {
    sw_save_options save;  /* its `fetch` is called by the thread that writes */
    const sw_cores *cores; /* on which that thread may run */
    sw_saving_records records;
} sw_saving_options;

/* Once in a rank, before the first step. The records must outlive it. Ownership: sw_saving_close,
 * which takes NULL, and waits for what is being written. Errors: SW_NO_MEMORY; SW_NO_SPACE. */
sw_status sw_saving_open(const sw_saving_options *options, sw_comm *comm, sw_saving **saving,
                         sw_error *err);
void sw_saving_close(sw_saving *saving);

/* All ranks at the same step, when the save before is over: begin the checkpoint of the state after
 * `step` steps. facts are copied; rank 0's are written. */
void sw_saving_begin(sw_saving *saving, int64_t step, const sw_save_facts *facts);

/* The step whose checkpoint is being saved, -1: none. The same on all ranks. */
int64_t sw_saving_step(const sw_saving *saving);

/* Wait until this rank's part of a group has been read; SW_OK at once when nothing is being saved.
 * No failure of a save is an error here. Errors: SW_ABORTED. */
sw_status sw_saving_wait_for_group(sw_saving *saving, int group, sw_error *err);

/* For the exchange of a step: this rank's stage. */
sw_saving_stage sw_saving_look(sw_saving *saving);

/* Rank 0, when all ranks have written: publish, in the background. */
void sw_saving_publish(sw_saving *saving);

/* All ranks, when rank 0 has published: this save is over. */
void sw_saving_end(sw_saving *saving);

/* Collective: wait until the save is over on all ranks. *step: of the checkpoint that is now there,
 * -1 if none was being written or it failed; then `reason` (of the rank that failed, the same on
 * all) is that, "" if none was being written. Errors: SW_ABORTED and others of the exchange; not
 * the save's. */
sw_status sw_saving_settle(sw_saving *saving, int64_t *step, sw_error *reason, sw_error *err);

/* The rank whose reason sw_saving_settle has given last; the same on all. */
int sw_saving_failed_rank(const sw_saving *saving);

/* Rank 0, while nothing is being saved: the checkpoint of that step, which is there, gets another
 * state, after the records are on the disk; returns when it has it. Errors: as
 * sw_save_replace_state has them; SW_ABORTED. */
sw_status sw_saving_replace_state(sw_saving *saving, int64_t step, const char *state,
                                  sw_error *err);

/* Rank 0, when a save is over that did not fail: what could not be done when the checkpoint was
 * there (sw_save_publish). "": all was done, or the save before has said the same. */
const char *sw_saving_remark(sw_saving *saving);

/* Rank 0, while nothing is being saved: checkpoints after this step are to be removed by the
 * caller, and count no more among those that are kept. */
void sw_saving_forget_after(sw_saving *saving, int64_t step);

/* The save that was over last: from its beginning to its end on this rank, and how much of that the
 * rank's own thread waited. */
typedef struct sw_saving_time {
    double seconds, waited_seconds;
} sw_saving_time;
sw_saving_time sw_saving_took(const sw_saving *saving);

/* Bytes that saving takes of a rank, for the plan. */
int64_t sw_saving_bytes(const sw_save_options *options, int n_ranks);

#endif
