/* state_files.h: what the files of a checkpoint look like: a function of the list of parameters,
 * and of nothing else.
 *
 * A checkpoint has one safetensors file for each kind of state. It holds whole parameters under
 * their names and shapes, in their order, as fp32, one behind the other: no padding, no cuts, so
 * the files are the same bytes for any number of ranks, stage, wrap or element type of the copies.
 * parameters.safetensors has all of them, frozen ones too unless they are left out; the others have
 * the trainable ones.
 */
#ifndef SW_CHECKPOINT_STATE_FILES_H
#define SW_CHECKPOINT_STATE_FILES_H

#include "graph/graph.h"
#include "shard/program.h"

typedef enum sw_state_kind {
    SW_STATE_MASTER, /* parameters.safetensors */
/* first_moment.safetensors and so on: what optimizers keep */
#define SW_STATE_KIND(NAME, ...) SW_STATE_##NAME,
    SW_OPTIMIZER_STATES(SW_STATE_KIND)
#undef SW_STATE_KIND
        SW_N_STATE_KINDS
} sw_state_kind;

/* Of every kind but the masters. */
static inline sw_optimizer_state sw_state_of_optimizer(sw_state_kind kind) {
    return (sw_optimizer_state)((int)kind - 1);
}

/* "parameters.safetensors" */
const char *sw_state_file_name(sw_state_kind kind);

/* The kinds that an optimizer needs to go on, one bit each (1 << kind): masters always. */
unsigned sw_state_kinds_of(const sw_optimizer_spec *optimizer);

/* One parameter as a checkpoint knows it. */
typedef struct sw_state_parameter {
    const char *name;
    int n_dimensions;
    int64_t dimension[4];
    int64_t n_elements;
    bool is_trainable;
    bool is_left_out; /* frozen, and its values are those of the model that the run began with: no
                         file has it */
} sw_state_parameter;

/* Has the file of that kind this parameter? */
bool sw_state_is_stored(const sw_state_parameter *parameter, sw_state_kind kind);

typedef struct sw_state_file {
    bool is_there;
    char *header; /* [header_bytes] with the 8 bytes of its length */
    int64_t header_bytes, bytes;
    int64_t *offset; /* [n_parameters] of each parameter's first byte; -1: not in this file */
} sw_state_file;

typedef struct sw_state_files {
    int n_parameters;
    sw_state_file file[SW_N_STATE_KINDS];
} sw_state_files;

/* Errors: SW_BAD_CONFIG: a name that is there twice or that the format reserves, sizes beyond 64
 * bits. Ownership: sw_state_files_free, also after an error. */
sw_status sw_state_files_plan(const sw_state_parameter *parameters, int n_parameters,
                              unsigned kinds, sw_state_files *files, sw_error *err);
void sw_state_files_free(sw_state_files *files);

/* The parameters of a graph as a checkpoint knows them, into `parameters` [graph->parameters.n];
 * names stay the graph's. */
void sw_state_parameters_of(const sw_graph *graph, bool leaves_out_frozen,
                            sw_state_parameter *parameters);

#endif
