/* lower.c: an operation of the step graph becomes a kernel instruction on buffers.
 *
 * A value's buffer is made when an operation first writes it, a parameter is where its unit is
 * gathered at this point, a gradient is in the buffer that will be reduced. Nothing here knows what
 * the operation computes.
 */
#include "shard/builder.h"

#include <string.h>

sw_reference sw_value_reference(sw_builder *b, const sw_operand *operand) {
    const sw_value *storage = operand->value->storage;
    int *buffer = &b->buffer_of_value[storage->id];
    sw_number_kind numbers = sw_sharding_numbers(&b->sharding);
    int64_t bytes = sw_value_bytes(operand->value, numbers);
    if (storage->state)
        *buffer = b->states->kept[storage->state - 1];
    if (*buffer < 0) {
        const char *name = sw_arena_format(&b->program->arena, "%%%d", storage->id);
        sw_memory_class memory_class =
            storage->kind == SW_VALUE_LOGITS ? SW_MEMORY_LOGITS : SW_MEMORY_ACTIVATIONS;
        *buffer = sw_builder_buffer(b, name, memory_class, SW_BUFFER_PRIVATE,
                                    sw_value_bytes(storage, numbers));
    }
    int64_t size = operand->value->n_elements ? bytes / operand->value->n_elements : 0;
    int64_t offset = operand->offset * size;
    return (sw_reference){*buffer, offset, bytes - offset};
}

static sw_reference lower_operand(sw_builder *b, const sw_operand *operand) {
    if (operand->kind == SW_OPERAND_VALUE)
        return sw_value_reference(b, operand);
    if (operand->kind == SW_OPERAND_NONE)
        return (sw_reference){.buffer = -1};
    const sw_slot_of_parameter *slot = &b->layout->parameters[operand->parameter->id];
    return operand->kind == SW_OPERAND_PARAMETER
               ? sw_parameter_reference(b, slot->group, slot->offset,
                                        operand->parameter->n_elements)
               : sw_gradient_reference(b, slot->group, slot->offset,
                                       operand->parameter->n_elements);
}

/* What the other lane writes an operand by; -1: nothing. */
static int bringer(const sw_builder *b, const sw_operand *operand) {
    if (operand->kind == SW_OPERAND_VALUE)
        return b->share_of_value[operand->value->storage->id];
    if (operand->kind != SW_OPERAND_PARAMETER)
        return -1;
    int stretch = b->open_gather[b->layout->unit_of_graph_unit[operand->parameter->unit->id]];
    return stretch < 0 ? -1 : b->gather_instruction[stretch];
}

/* The first kernel that reads a gathered unit waits for the gather, and the first that touches what
 * ranks have shared for that; replicated parameters arrive in the update segment before, so there
 * the first kernel of forward waits for everything. */
void sw_wait_for_operands(sw_builder *b, const sw_op *op, sw_instruction *instruction) {
    if (!sw_has_two_lanes(b))
        return;
    if (b->sharding.stage < 3 && instruction->segment == SW_SEGMENT_FORWARD &&
        b->program->segment_count[SW_SEGMENT_FORWARD] == 1)
        sw_builder_wait_for_all(b, instruction);
    int wait = b->waited;
    for (int i = 0; i < op->n_operands; i++) {
        int by = bringer(b, &op->operand[i]);
        wait = by > wait ? by : wait;
    }
    if (wait != b->waited)
        sw_builder_wait(b, instruction, SW_THIS_SLOT, wait);
    b->waited = wait;
}

static sw_element element_of(const sw_operand *operand) {
    static const sw_element of_value[] = {[SW_VALUE_REAL] = SW_ELEMENT_A,
                                          [SW_VALUE_STATISTIC] = SW_ELEMENT_R,
                                          [SW_VALUE_INDEX] = SW_ELEMENT_I32,
                                          [SW_VALUE_LOGITS] = SW_ELEMENT_R,
                                          [SW_VALUE_LOSS] = SW_ELEMENT_F64};
    return operand->kind == SW_OPERAND_VALUE       ? of_value[operand->value->kind]
           : operand->kind == SW_OPERAND_PARAMETER ? SW_ELEMENT_P
                                                   : SW_ELEMENT_R;
}

void sw_check_kernel(sw_builder *b, const sw_instruction *instruction, const sw_element *elements,
                     uint32_t written) {
    sw_given_call call = {.n_operands = instruction->n_operands,
                          .accumulate =
                              instruction->accumulate | instruction->accumulate_later_slots};
    memcpy(call.dim, instruction->dim, sizeof call.dim);
    memcpy(call.attribute, instruction->attribute, sizeof call.attribute);
    for (int i = 0; i < call.n_operands; i++) {
        const sw_reference *r = &instruction->operand[i];
        call.operand[i] =
            (sw_given_operand){r->buffer, r->offset, r->bytes, elements[i], written >> i & 1};
    }
    if (!b->status &&
        sw_kernel_check(instruction->kernel, sw_sharding_numbers(&b->sharding), &call, b->err)) {
        b->status = SW_BUG;
        sw_fail_within(b->err, "%s", instruction->label);
    }
}

void sw_lower_op(sw_builder *b, const sw_op *op, sw_segment segment) {
    static const char *const phases[] = {[SW_SEGMENT_PREPARE] = "prepare",
                                         [SW_SEGMENT_FORWARD] = "forward",
                                         [SW_SEGMENT_BACKWARD] = "backward"};
    sw_reference operands[SW_MAX_OPERANDS];
    sw_element elements[SW_MAX_OPERANDS];
    uint32_t written = 0;
    for (int i = 0; i < op->n_operands; i++)
        operands[i] = lower_operand(b, &op->operand[i]);
    int64_t scratch_bytes = sw_kernel_scratch_bytes(
        op->kernel, op->dim, sw_sharding_numbers(&b->sharding), b->sharding.n_threads);
    int scratch = scratch_bytes ? sw_builder_buffer(b, "scratch", SW_MEMORY_SCRATCH,
                                                    SW_BUFFER_PRIVATE, scratch_bytes)
                                : -1;
    int unit = b->layout->unit_of_graph_unit[op->unit->id];
    sw_instruction *instruction = sw_builder_append(
        b, SW_DO_KERNEL, segment, SW_LANE_COMPUTE, unit, "%s%s %s %s", phases[segment],
        op->is_recomputed ? " (recompute)" : "", op->unit->name, sw_kernel_name(op->kernel));
    if (!instruction)
        return;
    instruction->kernel = op->kernel;
    sw_wait_for_operands(b, op, instruction);
    instruction->is_recomputed = op->is_recomputed;
    instruction->n_operands = op->n_operands;
    instruction->scratch = (sw_reference){scratch, 0, scratch_bytes};
    for (int i = 0; i < op->n_operands; i++) {
        instruction->operand[i] = operands[i];
        elements[i] = element_of(&op->operand[i]);
        written |= op->operand[i].access == SW_READ ? 0 : 1u << i;
        if (op->operand[i].access == SW_UPDATE)
            instruction->accumulate |= 1u << i;
        else if (op->operand[i].access == SW_WRITE && op->operand[i].kind == SW_OPERAND_GRADIENT &&
                 !b->sharding.accumulate_sharded)
            instruction->accumulate_later_slots |= 1u << i;
    }
    for (int i = 0; i < SW_MAX_DIMENSIONS; i++)
        instruction->dim[i] = op->dim[i];
    for (int i = 0; i < SW_MAX_ATTRIBUTES; i++)
        instruction->attribute[i] = op->attribute[i];
    sw_check_kernel(b, instruction, elements, written);
    if (op->family && op->family->cost)
        op->family->cost(op, &instruction->flops, &instruction->bytes);
}
