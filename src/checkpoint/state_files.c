/* state_files.c: see state_files.h. */
#include "checkpoint/state_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

const char *sw_state_file_name(sw_state_kind kind) {
    return kind == SW_STATE_MASTER ? "parameters.safetensors"
                                   : sw_optimizer_state_file(sw_state_of_optimizer(kind));
}

unsigned sw_state_kinds_of(const sw_optimizer_spec *optimizer) {
    unsigned kinds = 1u << SW_STATE_MASTER;
    for (int kind = SW_STATE_MASTER + 1; kind < SW_N_STATE_KINDS; kind++)
        kinds |= (unsigned)sw_optimizer_keeps(optimizer, sw_state_of_optimizer((sw_state_kind)kind))
                 << kind;
    return kinds;
}

bool sw_state_is_stored(const sw_state_parameter *parameter, sw_state_kind kind) {
    return parameter->is_trainable || (kind == SW_STATE_MASTER && !parameter->is_left_out);
}

/* One file of the parameters that have state of that kind. `tensors`: room for all of them. */
static sw_status plan_file(const sw_state_parameter *parameters, int n_parameters,
                           sw_state_kind kind, sw_tensor_plan *tensors, sw_state_file *file,
                           sw_error *err) {
    int n = 0;
    file->offset = malloc((size_t)(n_parameters ? n_parameters : 1) * sizeof *file->offset);
    if (!file->offset)
        return sw_fail(err, SW_NO_MEMORY,
                       "no memory for the places of %d parameters in a checkpoint", n_parameters);
    for (int p = 0; p < n_parameters; p++) {
        if (!sw_state_is_stored(&parameters[p], kind))
            continue;
        tensors[n] = (sw_tensor_plan){
            .name = parameters[p].name, .dtype = "F32", .n_dimensions = parameters[p].n_dimensions};
        memcpy(tensors[n++].dimension, parameters[p].dimension, sizeof parameters[p].dimension);
    }
    sw_status status = sw_safetensors_plan(tensors, n, NULL, &file->header, &file->header_bytes,
                                           &file->bytes, err);
    if (status != SW_OK)
        return status;
    n = 0;
    for (int p = 0; p < n_parameters; p++)
        file->offset[p] = sw_state_is_stored(&parameters[p], kind) ? tensors[n++].file_offset : -1;
    file->is_there = true;
    return SW_OK;
}

sw_status sw_state_files_plan(const sw_state_parameter *parameters, int n_parameters,
                              unsigned kinds, sw_state_files *files, sw_error *err) {
    *files = (sw_state_files){.n_parameters = n_parameters};
    sw_tensor_plan *tensors = malloc((size_t)(n_parameters ? n_parameters : 1) * sizeof *tensors);
    if (!tensors)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the names of %d parameters", n_parameters);
    sw_status status = SW_OK;
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (kinds >> kind & 1)
            status = plan_file(parameters, n_parameters, (sw_state_kind)kind, tensors,
                               &files->file[kind], err);
    free(tensors);
    return status;
}

void sw_state_files_free(sw_state_files *files) {
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        free(files->file[kind].header);
        free(files->file[kind].offset);
    }
    *files = (sw_state_files){0};
}

void sw_state_parameters_of(const sw_graph *graph, bool leaves_out_frozen,
                            sw_state_parameter *parameters) {
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *from = graph->parameters.item[p];
        parameters[p] =
            (sw_state_parameter){.name = from->name,
                                 .n_dimensions = from->n_dimensions,
                                 .n_elements = from->n_elements,
                                 .is_trainable = from->is_trainable,
                                 .is_left_out = !from->is_trainable && leaves_out_frozen};
        memcpy(parameters[p].dimension, from->dimension, sizeof from->dimension);
    }
}
