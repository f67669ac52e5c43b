/* executor_step.c: the order of segments in a step, handed to the lanes.
 *
 * The other lanes are given each segment while the one before computes, so that they gather for a
 * slot before the slot before is over. A step ends when all lanes are done.
 */
#include <assert.h>
#include <string.h>

#include "execute/executor_internal.h"

const sw_executor_counts *sw_executor_count(const sw_executor *e) {
    return &e->counts;
}

sw_status sw_executor_observe(sw_executor *e, const sw_executor_observer *observer, sw_error *err) {
    if (e->n_observers == SW_MAX_OBSERVERS)
        return sw_fail(err, SW_BUG, "more than %d observers of an executor", SW_MAX_OBSERVERS);
    e->observers[e->n_observers++] = observer;
    return SW_OK;
}

/* Positions of a run of a segment that comes after all that has been laid out so far. */
static sw_segment_run lay(sw_executor *e, int index, sw_segment segment, int slot, bool is_active,
                          int n_contributors) {
    sw_positions_lay(&e->positions, e->programs[index], segment);
    return (sw_segment_run){.program = index,
                            .segment = segment,
                            .slot = slot,
                            .is_active = is_active,
                            .n_contributors = n_contributors,
                            .step = e->scalars.step +
                                    (e->programs[index]->segment_count[SW_SEGMENT_UPDATE] > 0),
                            .epoch = e->epoch,
                            .positions = e->positions};
}

/* What the program that ran last left behind is not this one's: its constants may lie where this
 * one's do, and its runs are no slots before. */
static sw_status prepare(sw_executor *e, int index, sw_error *err) {
    if (e->last_program == index)
        return SW_OK;
    e->last_program = index;
    sw_positions_forget(&e->positions);
    sw_segment_run run = lay(e, index, SW_SEGMENT_PREPARE, 0, true, e->comm->n_ranks);
    sw_lanes_give(e, &run);
    return sw_lanes_compute(e, &run, err);
}

/* Other lanes may be waiting for peers that wait for this one. */
static sw_status settle(sw_executor *e, sw_status status, sw_error *err) {
    sw_error other;
    if (!status)
        return sw_lanes_settle(e, err);
    sw_lanes_abort(e, SW_LANE_COMPUTE, err);
    (void)sw_lanes_settle(e, &other);
    return status;
}

sw_status sw_executor_forward(sw_executor *e, int index, bool is_active, sw_scalars *scalars,
                              sw_error *err) {
    e->scalars = *scalars;
    e->scalars.n_contributors = e->comm->n_ranks;
    assert(!e->programs[index]->has_shares); /* ranks run others at the same time */
    sw_status status = prepare(e, index, err);
    if (!status) {
        sw_segment_run run = lay(e, index, SW_SEGMENT_FORWARD, 0, is_active, e->comm->n_ranks);
        sw_lanes_give(e, &run);
        sw_executor_move_ports(e, index, false);
        status = sw_lanes_compute(e, &run, err);
        sw_executor_move_ports(e, index, true);
    }
    return settle(e, status, err);
}

/* The i-th segment of a step of that many micro-batches; false at the end. */
static bool lay_next(sw_executor *e, int index, sw_deal deal, int i, sw_segment_run *run) {
    int place = sw_mesh_place(&e->states->sharding.mesh, SW_DATA_AXES, e->comm->rank),
        n_slots = sw_deal_slots(deal);
    sw_turn turn;
    if (!sw_schedule_turn(e->programs[index], n_slots, i, &turn))
        return false;
    int n_contributors =
        sw_deal_contributors(deal, turn.segment == SW_SEGMENT_REDUCE ? 0 : turn.slot);
    *run = lay(e, index, turn.segment, turn.slot,
               n_contributors > place || turn.segment == SW_SEGMENT_UPDATE, n_contributors);
    run->is_last = turn.slot == n_slots - 1;
    return true;
}

/* One segment on the compute lane, with what the caller does before and after a micro-batch. */
static sw_status compute(sw_executor *e, const sw_segment_run *run, sw_error *err) {
    const sw_step_hooks *hooks = e->hooks;
    const sw_program *program = e->programs[run->program];
    sw_status status = SW_OK;
    e->scalars.slot = run->slot;
    e->scalars.n_contributors = run->n_contributors;
    if (run->segment == SW_SEGMENT_FORWARD && run->is_active && hooks && hooks->fill)
        status = hooks->fill(hooks->self, run->slot, &e->scalars, err);
    if (!status && run->segment == SW_SEGMENT_FORWARD && run->is_active)
        sw_executor_move_ports(e, run->program, false);
    if (!status)
        status = sw_lanes_compute(e, run, err);
    bool is_last =
        run->segment == SW_SEGMENT_BACKWARD ||
        (run->segment == SW_SEGMENT_FORWARD && !program->segment_count[SW_SEGMENT_BACKWARD]);
    if (!status && is_last && run->is_active)
        sw_executor_move_ports(e, run->program, true);
    if (!status && is_last && run->is_active && hooks && hooks->collect)
        status = hooks->collect(hooks->self, run->slot, err);
    return status;
}

sw_status sw_executor_step(sw_executor *e, int index, int64_t n_micro_batches, sw_scalars *scalars,
                           const sw_step_hooks *hooks, sw_error *err) {
    e->scalars = *scalars;
    e->hooks = hooks;
    memset(&e->squares, 0, sizeof e->squares);
    sw_lanes_count_anew(e);
    sw_status status = prepare(e, index, err);
    sw_segment_run next;
    sw_deal deal = sw_mesh_deal(&e->states->sharding.mesh, n_micro_batches);
    bool goes_on = !status && lay_next(e, index, deal, 0, &next);
    if (goes_on)
        sw_lanes_give(e, &next);
    for (int i = 1; goes_on && !status; i++) {
        sw_segment_run now = next;
        goes_on = lay_next(e, index, deal, i, &next);
        if (goes_on)
            sw_lanes_give(e, &next);
        status = compute(e, &now, err);
    }
    status = settle(e, status, err);
    /* Without a decision, which all ranks come to: what one of them still reads of a window may be
     * another program's next. */
    if (!status && e->programs[index]->has_shares &&
        !e->programs[index]->segment_count[SW_SEGMENT_UPDATE])
        status = sw_barrier(e->comm, err);
    e->epoch +=
        e->programs[index]->segment_count[SW_SEGMENT_UPDATE] > 0; /* which has published new ones */
    *scalars = e->scalars;
    return status;
}
