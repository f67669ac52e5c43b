/* faults_flip.c: one bit that changes in memory or in a file, as a broken chip or disk would have
 * it.
 *
 * Parameters and moments change before an instruction of the compute lane, when nobody writes them;
 * a gradient when this rank's contribution is complete and before it is summed; an activation when
 * the kernel that made it is done.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "execute/executor_internal.h"
#include "faults/faults.h"

static bool names_unit(const sw_fault *fault, const char *unit) {
    return !*fault->unit || !fnmatch(fault->unit, unit, 0);
}

static sw_status flip(const sw_executor *e, const sw_fault *fault, const char *unit, char *memory,
                      int64_t bytes, sw_error *err) {
    int64_t at = fault->bit / 8;
    if (at >= bytes)
        return sw_fail(err, SW_BAD_CONFIG,
                       "--inject %s: of unit %s this buffer has %" PRId64 " bits on rank %d",
                       fault->text, unit, bytes * 8, e->comm->rank);
    char byte;
    e->device->copy(e->device, &byte, memory + at, 1);
    byte = (char)(byte ^ 1 << fault->bit % 8);
    e->device->copy(e->device, memory + at, &byte, 1);
    return SW_OK;
}

/* In trap mode the own slice may be read only, outside of its update. */
static sw_status flip_parameter(sw_executor *e, const sw_fault *fault, const sw_shard_unit *unit,
                                int group, sw_error *err) {
    int index = e->states->copy[group];
    const sw_buffer *buffer = &e->states->buffers.item[index];
    char *own = sw_executor_address(e, 0, index);
    bool is_guarded = e->states->sharding.mode == SW_SHM_TRAP && e->states->sharding.stage == 3;
    sw_status status =
        is_guarded ? sw_comm_protect(e->comm, own, (size_t)buffer->bytes, SW_PAGE_WRITE, err)
                   : SW_OK;
    if (!status)
        status = flip(e, fault, unit->name, own, buffer->bytes, err);
    if (!status && is_guarded)
        status = sw_comm_protect(e->comm, own, (size_t)buffer->bytes, SW_PAGE_READ, err);
    return status;
}

static sw_status flip_state(sw_executor *e, const sw_fault *fault, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    bool is_moment = fault->buffer == SW_FAULT_MOMENTS;
    for (int u = 0; u < layout->n_units; u++) {
        const sw_shard_unit *unit = &layout->units[u];
        int group =
            unit->trainable_group >= 0 || is_moment ? unit->trainable_group : unit->frozen_group;
        if (group < 0 || !names_unit(fault, unit->name))
            continue;
        int moment = -1;
        for (int i = 0; i < SW_N_OPTIMIZER_STATES && is_moment && moment < 0; i++)
            moment = e->states->optimizer[i][group];
        if (is_moment && moment < 0)
            continue;
        if (!is_moment)
            return flip_parameter(e, fault, unit, group, err);
        return flip(e, fault, unit->name, sw_executor_address(e, 0, moment),
                    e->states->buffers.item[moment].bytes, err);
    }
    return sw_fail(err, SW_BAD_CONFIG, "--inject %s: no unit of that name has this buffer",
                   fault->text);
}

/* The operand that this instruction is the first to touch is the one that it writes. */
static const sw_reference *made_by(const sw_program *program, int index) {
    const sw_instruction *instruction = &program->instructions.item[index];
    for (int o = 0; o < instruction->n_operands; o++) {
        const sw_reference *reference = &instruction->operand[o];
        if (reference->buffer < 0)
            continue;
        const sw_buffer *buffer = &program->buffers.item[reference->buffer];
        if (buffer->first == index && !buffer->is_persistent &&
            buffer->memory_class == SW_MEMORY_ACTIVATIONS)
            return reference;
    }
    return NULL;
}

static const char *unit_of(const sw_executor *e, const sw_instruction *instruction) {
    return instruction->unit >= 0 ? e->states->layout->units[instruction->unit].name : "";
}

bool sw_fault_flip_is_due(const sw_executor *e, const sw_fault *fault, const sw_boundary *boundary,
                          bool is_after) {
    const sw_instruction *instruction = boundary->instruction;
    if (boundary->lane != SW_LANE_COMPUTE)
        return false;
    if (fault->buffer == SW_FAULT_PARAMETERS || fault->buffer == SW_FAULT_MOMENTS)
        return !is_after;
    if (!names_unit(fault, unit_of(e, instruction)))
        return false;
    if (fault->buffer == SW_FAULT_GRADIENTS)
        return !is_after && instruction->kind == SW_DO_REDUCE_POST && !instruction->share;
    return is_after && instruction->kind == SW_DO_KERNEL &&
           instruction->segment == SW_SEGMENT_FORWARD &&
           made_by(e->programs[boundary->program], boundary->index);
}

sw_status sw_fault_flip(sw_executor *e, const sw_fault *fault, const sw_boundary *boundary,
                        sw_error *err) {
    const sw_instruction *instruction = boundary->instruction;
    const sw_bound *bound = &e->bound[boundary->program][boundary->index];
    const char *unit = unit_of(e, instruction);
    if (fault->buffer == SW_FAULT_PARAMETERS || fault->buffer == SW_FAULT_MOMENTS)
        return flip_state(e, fault, err);
    if (fault->buffer == SW_FAULT_GRADIENTS)
        return flip(e, fault, unit, bound->call.operand[0], instruction->operand[0].bytes, err);
    const sw_reference *made = made_by(e->programs[boundary->program], boundary->index);
    return flip(e, fault, unit, bound->call.operand[made - instruction->operand], made->bytes, err);
}

static int open_file(const char *folder, const sw_fault *fault, char path[SW_PATH_BYTES]) {
    return sw_path_join(path, folder, fault->file, NULL)
               ? -1
               : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

bool sw_fault_flip_file_is_due(const char *folder, const sw_fault *fault) {
    char path[SW_PATH_BYTES];
    int fd = open_file(folder, fault, path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

sw_status sw_fault_flip_file(const char *folder, const sw_fault *fault, sw_error *err) {
    char path[SW_PATH_BYTES];
    unsigned char byte = 0;
    int fd = open_file(folder, fault, path);
    bool is_read = fd >= 0 && pread(fd, &byte, 1, fault->bit / 8) == 1;
    byte = (unsigned char)(byte ^ 1 << fault->bit % 8);
    bool is_done = is_read && pwrite(fd, &byte, 1, fault->bit / 8) == 1;
    if (fd >= 0)
        close(fd);
    return is_done ? SW_OK
                   : sw_fail(err, SW_BAD_CONFIG,
                             "--inject %s: %s has no such bit, or cannot be written", fault->text,
                             path);
}
