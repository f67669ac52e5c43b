/* schedule.c: the order of segments in a step, and what it moves. Gradient accumulation is a schedule, nothing else. */
#include "shard/program.h"

bool sw_schedule_step(const sw_program *program, int n_slots, int i, sw_segment *segment, int *slot) {
    bool is_trained = program->segment_count[SW_SEGMENT_UPDATE] > 0;
    int per_slot = is_trained ? 2 : 1; /* forward and backward, or forward alone */
    if (i < per_slot * n_slots) {
        *segment = i % per_slot ? SW_SEGMENT_BACKWARD : SW_SEGMENT_FORWARD;
        *slot = i / per_slot;
        return true;
    }
    *slot = n_slots - 1;
    i -= per_slot * n_slots;
    if (program->segment_count[SW_SEGMENT_REDUCE] > 0 && i-- == 0) {
        *segment = SW_SEGMENT_REDUCE;
        return true;
    }
    *segment = SW_SEGMENT_UPDATE;
    return is_trained && i == 0;
}

void sw_program_traffic(const sw_program *program, int n_slots, int64_t *gather_bytes, int64_t *reduce_bytes) {
    *gather_bytes = *reduce_bytes = 0;
    sw_segment segment;
    int slot;
    for (int i = 0; sw_schedule_step(program, n_slots, i, &segment, &slot); i++)
        for (int k = 0; k < program->segment_count[segment]; k++) {
            const sw_instruction *instruction = &program->instructions.item[program->segment_first[segment] + k];
            if (instruction->kind == SW_DO_GATHER)
                *gather_bytes += instruction->moved_bytes;
            else if (instruction->kind == SW_DO_REDUCE_SUM)
                *reduce_bytes += instruction->moved_bytes;
        }
}
