/* lanes_count.c: what a step's instructions moved, took and waited for, counted as they run. */
#include <string.h>

#include "execute/executor_internal.h"

void sw_lanes_count_anew(sw_executor *e) {
    sw_executor_counts begun = {0};
    memcpy(begun.peak, e->counts.peak, sizeof begun.peak);
    e->counts = begun;
}

static void keep_if_long(sw_long_instruction *longest, const sw_instruction *instruction, int slot,
                         double seconds) {
    int at = SW_N_LONGEST;
    for (; at > 0 && seconds > longest[at - 1].seconds; at--)
        if (at < SW_N_LONGEST)
            longest[at] = longest[at - 1];
    if (at < SW_N_LONGEST)
        longest[at] = (sw_long_instruction){seconds, instruction, slot};
}

static sw_wait_kind what_it_waits_for(const sw_instruction *instruction) {
    switch (instruction->kind) {
    case SW_DO_REDUCE_ACQUIRE:
    case SW_DO_REDUCE_POST:
    case SW_DO_REDUCE_SUM:
    case SW_DO_PUBLISH: /* of a gradient, once it is summed */
        return SW_WAITS_FOR_REDUCE;
    case SW_DO_SHARE:
        return instruction->share == SW_SHARE_GATHER ? SW_WAITS_FOR_GATHER : SW_WAITS_FOR_REDUCE;
    case SW_DO_DECIDE:
        return SW_WAITS_FOR_DECISION;
    default:
        return SW_WAITS_FOR_GATHER;
    }
}

void sw_lane_count(sw_executor *e, int lane, const sw_bound *bound, const sw_segment_run *run,
                   double work, double for_lane, double for_peers, bool runs) {
    const sw_instruction *instruction = bound->instruction;
    bool computes = instruction->kind == SW_DO_KERNEL || instruction->kind == SW_DO_UPDATE;
    bool shares = instruction->kind == SW_DO_SHARE;
    bool moves =
        instruction->kind == SW_DO_GATHER || instruction->kind == SW_DO_REDUCE_SUM || shares;
    double wait = for_lane + for_peers;
    sw_wait_kind kind = what_it_waits_for(instruction);
    if (e->has_lock)
        pthread_mutex_lock(&e->lock);
    sw_executor_counts *c = &e->counts;
    for (int i = 0; i < bound->n_peaks && runs; i++) {
        int64_t *peak = &c->peak[bound->peaks[i].memory_class];
        *peak = bound->peaks[i].end > *peak ? bound->peaks[i].end : *peak;
    }
    if (instruction->kind == SW_DO_GATHER)
        c->gather_bytes += instruction->moved_bytes;
    if (instruction->kind == SW_DO_REDUCE_SUM)
        c->reduce_bytes += instruction->moved_bytes;
    if (shares && runs)
        *(instruction->share == SW_SHARE_GATHER ? &c->gather_bytes : &c->reduce_bytes) +=
            instruction->moved_bytes;
    c->flops += (computes || shares) && runs ? instruction->flops : 0;
    c->lane[lane].work_seconds += work;
    c->lane[lane].wait_seconds[kind == SW_WAITS_FOR_DECISION ? SW_WAITS_FOR_REDUCE : kind] +=
        for_lane;
    c->lane[lane].wait_seconds[kind] += for_peers;
    c->moving_seconds += moves ? work : 0;
    if (lane == SW_LANE_COMPUTE) {
        c->compute_seconds += computes ? work : 0;
        c->wait_seconds += computes ? wait : work + wait;
    }
    keep_if_long(c->longest_work, instruction, run->slot, work);
    keep_if_long(c->longest_wait, instruction, run->slot, wait);
    if (e->has_lock)
        pthread_mutex_unlock(&e->lock);
}
