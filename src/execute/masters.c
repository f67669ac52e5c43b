/* masters.c: a master is its compute copy in fp32, or a bf16 copy and its low half
 * (base/dtype.h). */
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

void sw_masters_owners(const sw_compiled *compiled, int rank, int *first, int *end) {
    const bool all = compiled->sharding.stage == 0;
    *first = all ? 0 : sw_layout_owner(&compiled->layout, rank);
    *end = all ? compiled->layout.n_shards : *first + 1;
}

/* Where this rank keeps what is held of element `first` of the piece. NULL: it is not kept. */
static void *address(const sw_masters *m, int held, int group, const sw_piece *piece,
                     int64_t first) {
    sw_reference part = sw_states_part(m->states, held, group, m->owner);
    char *base = sw_executor_address(m->executor, 0, part.buffer);
    return base
               ? base + part.offset + (piece->shard_offset + first) * sw_held_bytes(m->states, held)
               : NULL;
}

static place find(const sw_masters *m, int group, const sw_piece *piece, int64_t first) {
    return (place){address(m, SW_HELD_COPY, group, piece, first),
                   address(m, SW_HELD_LOW, group, piece, first)};
}

/* Run a kernel whose operand `host`, of n values, is the host's: it reads them there, or writes
 * them. The others, of so many bytes an element, and if it has such a dimension the number of the
 * first element, go on with it. */
static void run_on_values(sw_executor *e, sw_number_kind numbers, sw_kernel kernel,
                          sw_kernel_call call, int host, bool is_written,
                          const int64_t *element_bytes) {
    const sw_kernel_fn fn = sw_device_kernel(e->device, numbers, kernel);
    float *values = call.operand[host];
    if (e->device->is_host) {
        fn(e->device, &call);
        return;
    }
    const sw_kernel_call all = call;
    pthread_mutex_lock(&e->staging_lock);
    for (int64_t done = 0; done < all.dim[0]; done += SW_STAGED_VALUES) {
        const int64_t n =
            all.dim[0] - done < SW_STAGED_VALUES ? all.dim[0] - done : SW_STAGED_VALUES;
        for (int i = 0; i < 3; i++)
            if (all.operand[i])
                call.operand[i] = (char *)all.operand[i] + done * element_bytes[i];
        call.operand[host] = e->staging;
        call.dim[0] = n;
        if (kernel == SW_KERNEL_NORMAL)
            call.dim[2] = all.dim[2] + done;
        if (!is_written)
            e->device->copy(e->device, e->staging, values + done, n * (int64_t)sizeof *values);
        fn(e->device, &call);
        if (is_written)
            e->device->copy(e->device, values + done, e->staging, n * (int64_t)sizeof *values);
    }
    pthread_mutex_unlock(&e->staging_lock);
}

void sw_masters_write(const sw_masters *m, int group, const sw_piece *piece, int64_t first,
                      int64_t n, float *values) {
    place p = find(m, group, piece, first);
    const sw_kernel_call call = {.operand = {values, p.copy, p.low}, .dim = {n}};
    const int64_t bytes[] = {0, sw_held_bytes(m->states, SW_HELD_COPY),
                             sw_held_bytes(m->states, SW_HELD_LOW)};
    run_on_values(m->executor, m->executor->numbers, SW_KERNEL_SPLIT, call, 0, false, bytes);
}

sw_status sw_masters_put(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n,
                         float *values, sw_error *err) {
    const sw_masters *m = masters;
    sw_masters_write(m, group, piece, first, n, values);
    return sw_comm_check_stop(m->executor->comm, "loading",
                              err); /* which is long: it ends when another rank fails */
}

sw_status sw_masters_fetch(void *masters, int group, const sw_piece *piece, int64_t first,
                           int64_t n, float *values, sw_error *err) {
    const sw_masters *m = masters;
    place p = find(m, group, piece, first);
    const sw_kernel_call call = {.operand = {p.copy, p.low, values}, .dim = {n}};
    const int64_t bytes[] = {sw_held_bytes(m->states, SW_HELD_COPY),
                             sw_held_bytes(m->states, SW_HELD_LOW), 0};
    run_on_values(m->executor, m->executor->numbers, SW_KERNEL_JOIN, call, 2, true, bytes);
    return sw_comm_check(m->executor->comm, err);
}

void sw_masters_put_state(const sw_masters *m, sw_optimizer_state state, int group,
                          const sw_piece *piece, int64_t first, int64_t n, const float *values) {
    const sw_device *device = m->executor->device;
    device->copy(device, address(m, SW_HELD_OPTIMIZER + (int)state, group, piece, first), values,
                 n * (int64_t)sizeof *values);
}

void sw_masters_fetch_state(const sw_masters *m, sw_optimizer_state state, int group,
                            const sw_piece *piece, int64_t first, int64_t n, float *values) {
    const sw_device *device = m->executor->device;
    device->copy(device, values, address(m, SW_HELD_OPTIMIZER + (int)state, group, piece, first),
                 n * (int64_t)sizeof *values);
}

void sw_masters_draw(sw_executor *executor, const sw_parameter *parameter, uint64_t seed,
                     int64_t first, int64_t n, float *values) {
    if (parameter->initializer == SW_INIT_NORMAL) {
        sw_scalars scalars = {.seed = seed};
        sw_kernel_call call = {.operand = {values},
                               .dim = {n, (int64_t)parameter->stream, first},
                               .attribute = {parameter->std},
                               .scalars = &scalars};
        run_on_values(executor, SW_NUMBERS_F32, SW_KERNEL_NORMAL, call, 0, true,
                      (const int64_t[3]){0});
        return;
    }
    if (parameter->initializer == SW_INIT_UNIFORM) {
        const double width = 2 * sqrt(3) * parameter->std;
        for (int64_t i = 0; i < n; i++)
            values[i] = (float)(width * (sw_philox_uniform(seed, SW_PURPOSE_INIT, parameter->stream,
                                                           (uint64_t)(first + i)) -
                                         0.5));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = parameter->initializer == SW_INIT_ONES ? 1.0f : 0.0f;
}

sw_status sw_masters_initialise(sw_masters *masters, uint64_t seed, bool of_adapters, float *values,
                                int64_t n_values, sw_error *err) {
    const sw_layout *layout = masters->states->layout;
    sw_piece piece;
    for (int g = 0; g < layout->n_groups; g++)
        for (int at = 0; sw_layout_next_piece(layout, g, masters->owner, &at, &piece);)
            for (int64_t done = 0;
                 done < piece.length && piece.parameter->is_adapter == of_adapters;
                 done += n_values) {
                int64_t n = piece.length - done < n_values ? piece.length - done : n_values;
                sw_masters_draw(masters->executor, piece.parameter, seed, piece.first + done, n,
                                values);
                sw_status status = sw_masters_put(masters, g, &piece, done, n, values, err);
                if (status)
                    return status;
            }
    return SW_OK;
}
