/* masters.c: a master is its compute copy in fp32, or a bf16 copy and its low half (base/dtype.h). */
#include "execute/masters.h"

#include <math.h>

#include "base/philox.h"
#include "execute/executor_internal.h"

/* Where a piece lies here, from one of its elements on. */
typedef struct place {
    char *copy;
    uint16_t *low; /* NULL: fp32, or frozen */
} place;

sw_masters sw_masters_own(sw_executor *executor, const sw_compiled *compiled, int rank) {
    return (sw_masters){executor, &compiled->states, sw_layout_owner(&compiled->layout, rank)};
}

/* Where this rank keeps what is held of element `first` of the piece. NULL: it is not kept. */
static void *address(const sw_masters *m, int held, int group, const sw_piece *piece, int64_t first) {
    sw_reference part = sw_states_part(m->states, held, group, m->owner);
    char *base = sw_executor_address(m->executor, 0, part.buffer);
    return base ? base + part.offset + (piece->shard_offset + first) * sw_held_bytes(m->states, held) : NULL;
}

static place find(const sw_masters *m, int group, const sw_piece *piece, int64_t first) {
    return (place){address(m, SW_HELD_COPY, group, piece, first), address(m, SW_HELD_LOW, group, piece, first)};
}

static void run_kernel(const sw_executor *e, sw_kernel kernel, const sw_kernel_call *call) {
    sw_device_kernel(e->device, e->numbers, kernel)(e->device, call);
}

void sw_masters_write(const sw_masters *m, int group, const sw_piece *piece, int64_t first, int64_t n, float *values) {
    place p = find(m, group, piece, first);
    sw_kernel_call call = {.operand = {values, p.copy, p.low}, .dim = {n}};
    run_kernel(m->executor, SW_KERNEL_SPLIT, &call);
}

sw_status sw_masters_put(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                         sw_error *err) {
    const sw_masters *m = masters;
    sw_masters_write(m, group, piece, first, n, values);
    return sw_comm_check_stop(m->executor->comm, "loading", err); /* which is long: it ends when another rank fails */
}

sw_status sw_masters_fetch(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                           sw_error *err) {
    const sw_masters *m = masters;
    place p = find(m, group, piece, first);
    sw_kernel_call call = {.operand = {p.copy, p.low, values}, .dim = {n}};
    run_kernel(m->executor, SW_KERNEL_JOIN, &call);
    return sw_comm_check(m->executor->comm, err);
}

float *sw_masters_state(const sw_masters *m, sw_optimizer_state state, int group, const sw_piece *piece, int64_t first) {
    return address(m, SW_HELD_OPTIMIZER + (int)state, group, piece, first);
}

void sw_masters_draw(const sw_device *device, const sw_parameter *parameter, uint64_t seed, int64_t first, int64_t n,
                     float *values) {
    if (parameter->initializer == SW_INIT_NORMAL) {
        sw_scalars scalars = {.seed = seed};
        sw_kernel_call call = {.operand = {values},
                               .dim = {n, (int64_t)parameter->stream, first},
                               .attribute = {parameter->std},
                               .scalars = &scalars};
        sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_NORMAL)(device, &call);
        return;
    }
    if (parameter->initializer == SW_INIT_UNIFORM) {
        const double width = 2 * sqrt(3) * parameter->std;
        for (int64_t i = 0; i < n; i++)
            values[i] =
                (float)(width * (sw_philox_uniform(seed, SW_PURPOSE_INIT, parameter->stream, (uint64_t)(first + i)) - 0.5));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = parameter->initializer == SW_INIT_ONES ? 1.0f : 0.0f;
}

sw_status sw_masters_initialise(sw_masters *masters, const sw_device *device, uint64_t seed, bool of_adapters, float *values,
                                int64_t n_values, sw_error *err) {
    const sw_layout *layout = masters->states->layout;
    sw_piece piece;
    for (int g = 0; g < layout->n_groups; g++)
        for (int at = 0; sw_layout_next_piece(layout, g, masters->owner, &at, &piece);)
            for (int64_t done = 0; done < piece.length && piece.parameter->is_adapter == of_adapters; done += n_values) {
                int64_t n = piece.length - done < n_values ? piece.length - done : n_values;
                sw_masters_draw(device, piece.parameter, seed, piece.first + done, n, values);
                sw_status status = sw_masters_put(masters, g, &piece, done, n, values, err);
                if (status)
                    return status;
            }
    return SW_OK;
}
