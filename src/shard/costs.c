/* costs.c: what instructions cost that are no kernels: bytes of memory read and written, and ranks
 * that are met. Kernels bring their cost with them (graph/ops), an update its own (updates.c). */
#include "shard/builder.h"

/* Elements between the parameters of a group's flat buffer, its tail included. */
static int64_t padding(const sw_layout *layout, int group) {
    return sw_whole_elements(layout, group) - layout->groups[group].n_elements;
}

void sw_costs_count(sw_program *program) {
    const sw_layout *layout = program->layout;
    for (int i = 0; i < program->instructions.n; i++) {
        sw_instruction *instruction = &program->instructions.item[i];
        int others = program->layout->mesh.size[instruction->axis] - 1;
        switch (instruction->kind) {
        case SW_DO_GATHER: /* a view costs the meeting alone */
            instruction->n_peers = others;
            instruction->bytes =
                instruction->operand[1].buffer >= 0 ? 2 * (double)instruction->operand[1].bytes : 0;
            break;
        case SW_DO_REDUCE_SUM: /* every contribution is read, the sum written; later slots read it
                                  too */
            instruction->n_peers = others;
            instruction->bytes = (double)instruction->operand[1].bytes *
                                 (others + 2 + (instruction->accumulate_later_slots != 0));
            break;
        case SW_DO_SHARE: /* what this rank takes of every contribution is read, what comes of it
                             written */
            instruction->n_peers = others;
            instruction->bytes =
                (double)instruction->moved_bytes / (others ? others : 1) * (others + 1) +
                (double)instruction->operand[1].bytes;
            break;
        case SW_DO_PAD:
            instruction->bytes = 4 * (double)padding(layout, instruction->group);
            break;
        case SW_DO_DECIDE:
            instruction->n_peers = layout->mesh.n_ranks - 1;
            break;
        case SW_DO_PUBLISH:
        case SW_DO_REDUCE_ACQUIRE:
        case SW_DO_REDUCE_POST:
            instruction->n_peers = others;
            break;
        case SW_DO_KERNEL:
        case SW_DO_RESHARD:
        case SW_DO_UPDATE:
            break;
        }
    }
}
