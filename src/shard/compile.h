/* compile.h: from graphs, a mesh and choices to everything that is known before ranks exist:
 * layout, states, programs, memory map. Training, evaluation, generation, callers with compute of
 * their own, and plans all come this way.
 */
#ifndef SW_SHARD_COMPILE_H
#define SW_SHARD_COMPILE_H

#include "shard/program.h"

/* What a graph is compiled for. */
typedef enum sw_compile_purpose {
    SW_COMPILE_TRAINING, /* its gradients are derived, and the states have what the optimizer needs
                          */
    SW_COMPILE_FORWARD,  /* evaluation, generation: as it stands, without dropout */
    SW_COMPILE_UPDATE    /* it has no operations: gradients come from the caller */
} sw_compile_purpose;

enum { SW_MOST_PROGRAMS = 8 };

/* Programs over one layout and its states. */
typedef struct sw_compiled {
    sw_sharding sharding;
    sw_layout layout;
    sw_states states;
    int n_programs;
    sw_graph *graphs[SW_MOST_PROGRAMS];           /* [n_programs] */
    sw_program *programs[SW_MOST_PROGRAMS];       /* [n_programs] */
    const sw_program *readable[SW_MOST_PROGRAMS]; /* the same, for whoever runs them */
} sw_compiled;

/* Nothing is compiled yet. Ownership: sw_compiled_free. */
sw_status sw_compiled_create(const sw_sharding *sharding, sw_compiled **compiled, sw_error *err);
void sw_compiled_free(sw_compiled *compiled); /* NULL: nothing */

/* Compile one more graph; the first decides on the layout and on what the states hold, and the
 * others have the same parameters and caches. The graph is changed: it becomes the step graph, and
 * the compiled's own, also after an error. `program` (may be NULL) is its program, the
 * compiled's. */
sw_status sw_compile(sw_compiled *compiled, sw_graph *graph, sw_compile_purpose purpose,
                     const sw_program **program, sw_error *err);

/* Planned bytes of one rank over all programs, all classes but the transport's; returns their sum.
 * `by_class` may be NULL. */
int64_t sw_compiled_bytes(const sw_compiled *compiled, int64_t by_class[SW_N_MEMORY_CLASSES]);

#endif
