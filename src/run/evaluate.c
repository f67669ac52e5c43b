/* evaluate.c: the loss on held-out rows. Micro-batches are dealt to ranks like those of training; what is missing to a whole one
 * is blank rows that count nothing, so every row is evaluated once and all ranks do the same number of forwards.
 */
#include "run/training.h"

#include <math.h>
#include <string.h>

typedef struct evaluation {
    sw_training *training;
    sw_wide_sum loss;
} evaluation;

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    sw_training *t = ((evaluation *)self)->training;
    const sw_assembly *a = &t->run->assembly;
    int64_t micro = a->choice.micro_batch_size, k = (int64_t)slot * t->comm->n_ranks + t->comm->rank;
    scalars->first_row = k * micro;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, slot, 0, "reading validation data");
    return sw_training_fill(t->run->validation, k * micro, t->run->n_validation_rows, micro, a->settings->data.sequence_length,
                            sw_executor_address(t->executor, SW_PROGRAM_EVALUATE, a->evaluation.tokens),
                            sw_executor_address(t->executor, SW_PROGRAM_EVALUATE, a->evaluation.targets),
                            sw_executor_address(t->executor, SW_PROGRAM_EVALUATE, a->evaluation.documents), err);
}

static sw_status collect(void *self, int slot, sw_error *err) {
    evaluation *e = self;
    sw_training *t = e->training;
    (void)slot;
    (void)err;
    const double *loss = sw_executor_address(t->executor, SW_PROGRAM_EVALUATE, t->run->assembly.evaluation.loss);
    sw_wide_sum_add(&e->loss, *loss);
    return SW_OK;
}

sw_status sw_training_evaluate(sw_training *t, double *loss, sw_error *err) {
    evaluation e = {.training = t};
    const sw_step_hooks hooks = {&e, fill, collect, NULL};
    const sw_run *run = t->run;
    int64_t micro = run->assembly.choice.micro_batch_size, n_supervised;
    sw_scalars scalars = {.step = t->step};
    sw_status status = sw_dataset_supervised(run->validation, 0, run->n_validation_rows, &n_supervised, err);
    if (!status)
        status = sw_executor_step(t->executor, SW_PROGRAM_EVALUATE, (run->n_validation_rows + micro - 1) / micro, &scalars,
                                  &hooks, err);
    sw_wide_sum *all = t->all;
    if (!status)
        status = sw_exchange(t->comm, &e.loss, all, sizeof e.loss, err);
    if (status)
        return status;
    for (int r = 1; r < t->comm->n_ranks; r++)
        sw_wide_sum_merge(&all[0], &all[r]);
    *loss = n_supervised ? sw_wide_sum_value(&all[0]) / (double)n_supervised : NAN;
    return SW_OK;
}
