/* masters.c: a master is its compute copy in fp32, or a bf16 copy and its low half (base/dtype.h). */
#include "run/masters.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

typedef struct place {
    float *fp32;
    uint16_t *high, *low; /* low: NULL for frozen parameters */
} place;

/* Element `first` of the piece. */
static place find(const sw_masters *m, int group, const sw_piece *piece, int64_t first) {
    const sw_states *states = m->states;
    int64_t shard = states->layout->groups[group].shard;
    int64_t in_slice = piece->shard_offset + first;
    int64_t in_low = states->sharding.stage == 0 ? m->owner * shard + in_slice : in_slice;
    int64_t in_copy = states->sharding.stage == 3 ? in_slice : m->owner * shard + in_slice;
    char *copy = sw_executor_address(m->executor, 0, states->copy[group]);
    if (states->sharding.parameter_dtype == SW_F32)
        return (place){.fp32 = (float *)copy + in_copy};
    uint16_t *low = sw_executor_address(m->executor, 0, states->low[group]);
    return (place){.high = (uint16_t *)copy + in_copy, .low = low ? low + in_low : NULL};
}

sw_status sw_masters_put(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                         sw_error *err) {
    (void)err;
    place p = find(masters, group, piece, first);
    if (p.fp32)
        memcpy(p.fp32, values, (size_t)n * sizeof *values);
    else
        for (int64_t i = 0; i < n; i++) {
            p.high[i] = sw_split_high(values[i]);
            if (p.low)
                p.low[i] = sw_split_low(values[i]);
        }
    return SW_OK;
}

sw_status sw_masters_fetch(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                           sw_error *err) {
    (void)err;
    place p = find(masters, group, piece, first);
    if (p.fp32)
        memcpy(values, p.fp32, (size_t)n * sizeof *values);
    else
        for (int64_t i = 0; i < n; i++)
            values[i] = p.low ? sw_split_join(p.high[i], p.low[i]) : sw_bf16_to_float(p.high[i]);
    return SW_OK;
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
