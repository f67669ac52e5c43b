/* schedule.c: see schedule.h. */
#include "shard/schedule.h"

#include <string.h>

void sw_schedule_accumulation(sw_program *program) {
    sw_turns *s = &program->turns;
    *s = (sw_turns){.rule = "accumulation"};
    s->each_slot[s->n_each_slot++] = SW_SEGMENT_FORWARD;
    if (!program->segment_count[SW_SEGMENT_UPDATE])
        return;
    s->each_slot[s->n_each_slot++] = SW_SEGMENT_BACKWARD;
    if (program->segment_count[SW_SEGMENT_REDUCE])
        s->at_end[s->n_at_end++] = SW_SEGMENT_REDUCE;
    s->at_end[s->n_at_end++] = SW_SEGMENT_UPDATE;
}

bool sw_schedule_turn(const sw_program *program, int n_slots, int i, sw_turn *turn) {
    const sw_turns *s = &program->turns;
    int in_slots = s->n_each_slot * n_slots;
    if (i < in_slots)
        *turn = (sw_turn){s->each_slot[i % s->n_each_slot], i / s->n_each_slot};
    else if (i - in_slots < s->n_at_end)
        *turn = (sw_turn){s->at_end[i - in_slots], n_slots - 1};
    else
        return false;
    return true;
}

#define LONG_AGO (INT64_MIN / 2) /* a position that every lane is past */

void sw_positions_forget(sw_positions *positions) {
    for (int s = 0; s < SW_N_SEGMENTS; s++)
        positions->this_slot[s] = LONG_AGO;
}

void sw_positions_lay(sw_positions *positions, const sw_program *program, sw_segment segment) {
    if (segment == SW_SEGMENT_FORWARD) /* a slot begins */
        memcpy(positions->slot_before, positions->this_slot, sizeof positions->slot_before);
    positions->base = positions->this_slot[segment] = positions->next;
    positions->next += program->segment_count[segment];
}

int64_t sw_wait_position(const sw_program *program, const sw_positions *positions,
                         const sw_wait *wait) {
    if (wait->when == SW_ALL_BEFORE)
        return positions->base;
    sw_segment segment = program->instructions.item[wait->instruction].segment;
    const int64_t *base =
        wait->when == SW_SLOT_BEFORE ? positions->slot_before : positions->this_slot;
    return base[segment] + wait->instruction - program->segment_first[segment] + 1;
}

int64_t sw_segment_turns(const sw_program *program, int n_slots, sw_segment segment) {
    const sw_turns *s = &program->turns;
    int64_t n = 0;
    for (int i = 0; i < s->n_each_slot; i++)
        n += s->each_slot[i] == segment ? n_slots : 0;
    for (int i = 0; i < s->n_at_end; i++)
        n += s->at_end[i] == segment;
    return n;
}

/* a + n * b, at most INT64_MAX. */
static int64_t add_times(int64_t a, int64_t n, int64_t b) {
    int64_t product, sum;
    return __builtin_mul_overflow(n, b, &product) || __builtin_add_overflow(a, product, &sum)
               ? INT64_MAX
               : sum;
}

void sw_program_traffic(const sw_program *program, int n_slots, int64_t *gather_bytes,
                        int64_t *reduce_bytes) {
    *gather_bytes = *reduce_bytes = 0;
    for (int i = 0; i < program->instructions.n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        int64_t *bytes = instruction->kind == SW_DO_GATHER       ? gather_bytes
                         : instruction->kind == SW_DO_REDUCE_SUM ? reduce_bytes
                         : instruction->kind != SW_DO_SHARE      ? NULL
                         : instruction->share == SW_SHARE_GATHER ? gather_bytes
                                                                 : reduce_bytes;
        if (bytes)
            *bytes = add_times(*bytes, sw_segment_turns(program, n_slots, instruction->segment),
                               instruction->moved_bytes);
    }
}

double sw_program_flops(const sw_program *program, int n_slots) {
    double flops = 0;
    for (int i = 0; i < program->instructions.n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        flops +=
            (double)sw_segment_turns(program, n_slots, instruction->segment) * instruction->flops;
    }
    return flops;
}
