/* executor_parameters.c: parameters outside of programs: made known after they were put, gathered
 * for callers who compute. */
#include "execute/executor_internal.h"

/* A gather of a group's parameters as they are now; frozen ones are published once and never
 * again. */
static sw_collective collective_of_parameters(const sw_executor *e, int group_id) {
    const sw_group *group = &e->states->layout->groups[group_id];
    const sw_buffer *copy = &e->states->buffers.item[e->states->copy[group_id]];
    int64_t slice = group->shard * sw_dtype_bytes(e->states->sharding.parameter_dtype);
    return (sw_collective){
        .channel = e->first_channel + group_id,
        .lane = SW_LANE_COMPUTE,
        .epoch = group->is_trainable ? e->epoch : 1,
        .unit = group->unit,
        .unit_name = e->states->layout->units[group->unit].name,
        .dtype = e->states->sharding.parameter_dtype,
        .shard_bytes = slice,
        .window = sw_executor_base(e, copy, 0),
        .rank_stride =
            slice + (copy->kind == SW_BUFFER_WINDOW ? e->window_stride[copy->memory_class] : 0)};
}

/* Parameters were put here without an instruction; those that are frozen meet no other that touches
 * them to the end. */
static void count_parameters(sw_executor *e) {
    int64_t *peak = &e->counts.peak[SW_MEMORY_PARAMETERS];
    for (int g = 0; g < e->states->layout->n_groups; g++) {
        const sw_buffer *copy = &e->states->buffers.item[e->states->copy[g]];
        *peak = copy->address + copy->bytes > *peak ? copy->address + copy->bytes : *peak;
    }
}

/* Publish every group, fill what is replicated. */
sw_status sw_executor_publish(sw_executor *e, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    bool is_first = e->epoch++ == 0;
    count_parameters(e);
    if (e->states->sharding.stage == 0)
        return SW_OK; /* every rank holds everything and put it itself */
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < layout->n_groups; g++) {
            const sw_buffer *copy = &e->states->buffers.item[e->states->copy[g]];
            if (!is_first && !layout->groups[g].is_trainable)
                continue;
            sw_collective c = collective_of_parameters(e, g);
            c.destination =
                copy->kind == SW_BUFFER_WINDOW ? sw_executor_base(e, copy, e->comm->rank) : NULL;
            sw_status status = pass == 0 ? e->comm->vtable->gather_publish(e->comm, &c, err)
                               : copy->kind == SW_BUFFER_WINDOW
                                   ? e->comm->vtable->gather(e->comm, &c, err)
                                   : SW_OK;
            if (!status && pass == 1)
                status = sw_lane_protect(e, g, false, false, err);
            if (status)
                return status;
        }
    return SW_OK;
}

sw_status sw_executor_reopen(sw_executor *e, sw_error *err) {
    sw_status status = sw_barrier(e->comm, err);
    for (int g = 0; g < e->states->layout->n_groups && !status; g++)
        if (e->states->layout->groups[g].is_trainable)
            status = sw_lane_protect(e, g, false, true, err);
    return status;
}

sw_status sw_executor_gather(sw_executor *e, int group, void *destination, const void **whole,
                             sw_error *err) {
    sw_collective c = collective_of_parameters(e, group);
    c.destination = destination;
    sw_status status = e->comm->vtable->gather(e->comm, &c, err);
    *whole = destination ? destination : c.window;
    return status ? status : sw_lane_protect(e, group, true, false, err);
}

sw_status sw_executor_reshard(sw_executor *e, int group, sw_error *err) {
    return sw_lane_protect(e, group, false, false, err);
}
