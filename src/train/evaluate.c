/* evaluate.c: the loss on held-out rows. Micro-batches are dealt to ranks like those of training;
 * what is missing to a whole one is blank rows that count nothing, so every row is evaluated once
 * and all ranks do the same number of forwards. They go in rounds of a few, after each of which
 * ranks agree whether someone asks to stop. Row losses are added exactly: rounds change no bit.
 */
#include "train/training.h"

#include <math.h>
#include <string.h>

enum { ROUND = 4 /* micro-batches of a rank */ };

typedef struct evaluation {
    sw_training *training;
    int64_t first; /* micro-batch of the round */
    sw_wide_sum loss;
} evaluation;

/* What ranks tell each other after a round. */
typedef struct tally {
    sw_wide_sum loss; /* of this rank, so far */
    int stop_signal;
} tally;

_Static_assert(sizeof(tally) <= SW_PAYLOAD_BYTES, "tallies are exchanged");

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    const evaluation *e = self;
    sw_training *t = e->training;
    const sw_assembly *a = &t->run->plan.assembly;
    int64_t micro = a->choice.micro_batch_size, k = e->first + sw_training_micro_batch(t, slot);
    scalars->first_row = k * micro;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, slot, 0, "reading validation data");
    return sw_training_fill(t, SW_PROGRAM_EVALUATE, t->run->validation, k * micro,
                            t->run->n_validation_rows, err);
}

static sw_status collect(void *self, int slot, sw_error *err) {
    evaluation *e = self;
    sw_training *t = e->training;
    (void)slot;
    (void)err;
    const double *loss = sw_executor_port(t->executor, SW_PROGRAM_EVALUATE, SW_PORT_LOSS);
    sw_wide_sum_add(&e->loss, *loss);
    return SW_OK;
}

sw_status sw_training_evaluate(sw_training *t, double *loss, sw_error *err) {
    evaluation e = {.training = t};
    const sw_step_hooks hooks = {&e, fill, collect, NULL};
    const sw_run *run = t->run;
    const sw_mesh *mesh = &run->plan.assembly.sharding.mesh;
    const int64_t micro = run->plan.assembly.choice.micro_batch_size,
                  n = (run->n_validation_rows + micro - 1) / micro,
                  round = (int64_t)ROUND * sw_mesh_size(mesh, SW_DATA_AXES);
    int64_t n_supervised;
    tally *all = t->all;
    sw_status status =
        sw_dataset_supervised(run->validation, 0, run->n_validation_rows, &n_supervised, err);
    for (; !status && e.first < n && !t->stop_signal; e.first += round) {
        sw_scalars scalars = {.step = t->step};
        status = sw_executor_step(t->executor, SW_PROGRAM_EVALUATE,
                                  n - e.first < round ? n - e.first : round, &scalars, &hooks, err);
        tally mine = {.loss = e.loss, .stop_signal = sw_stop_requested(t->comm)};
        if (!status)
            status = sw_exchange(t->comm, &mine, all, sizeof mine, err);
        for (int r = 0; r < t->comm->n_ranks && !status && !t->stop_signal; r++)
            t->stop_signal = all[r].stop_signal;
    }
    if (status)
        return status;
    t->has_validation = e.first >= n;
    for (int r = 1; r < t->comm->n_ranks; r++)
        if (sw_mesh_counts(mesh, SW_DATA_AXES, r))
            sw_wide_sum_merge(&all[0].loss, &all[r].loss);
    *loss = n_supervised ? sw_wide_sum_value(&all[0].loss) / (double)n_supervised : NAN;
    return SW_OK;
}
