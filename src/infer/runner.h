/* runner.h: a model from a folder, run forward by ranks that share it: what generation and
 * evaluation have in common.
 *
 * Some programs over the same parameters. Their collectives are the same, so ranks need not run the
 * same program at a time; but all ranks make equally many calls.
 */
#ifndef SW_INFER_RUNNER_H
#define SW_INFER_RUNNER_H

#include "device/cpu/choice.h"
#include "device/cpu/cores.h"
#include "device/cpu/open.h"
#include "execute/executor.h"
#include "graph/graph.h"
#include "hf/adapted.h"
#include "model/custom_model.h"
#include "model/model.h"
#include "plan/need.h"
#include "shard/compile.h"

/* Which model. */
typedef struct sw_runner_model {
    const char *folder;  /* a Hugging Face folder; the caller's, as all here */
    const char *adapter; /* a PEFT folder; NULL: none */
    /* A program's own model, whose weights the folder has: what no config.json says. NULL: one with
     * a name. */
    const sw_custom_model *custom;
    int64_t n_positions; /* of it: the longest row */
    bool by_settings;    /* settings say how it is run: what would make it fit is told as
                            section.key=value, else as flags */
} sw_runner_model;

typedef struct sw_runner {
    sw_runner_model source;
    sw_adapted adapted;
    sw_model_config model;
    sw_cores cores;
    sw_kernel_set kernel_set;
    sw_gemm_choice gemm;
    sw_compiled *compiled;
    /* in a rank */
    sw_device *device;
    sw_executor *executor;
} sw_runner;

/* Its dimensions; of a program's own model, vocabulary and positions. Errors: SW_BAD_FILE. */
sw_status sw_runner_dimensions(const sw_runner_model *model, sw_model_config *config,
                               sw_error *err);

/* Before ranks exist: read the model's dimensions, and check that the adapter (NULL: none) fits;
 * then add programs. Ownership: sw_runner_free, on {0} too. Errors: SW_BAD_FILE. */
sw_status sw_runner_begin(const sw_runner_model *model, int n_ranks, sw_dtype parameter_dtype,
                          sw_runner *runner, sw_error *err);
void sw_runner_free(sw_runner *runner);

/* Add a program. `graph` is empty but for what is wanted of it (decoding, token losses); it is the
 * runner's from now on, also after an error. The first one finds out whether the folder's files
 * fit. */
sw_status sw_runner_add(sw_runner *runner, sw_model_end end, sw_graph *graph, sw_error *err);

/* What its ranks need, when all programs are added; out: planned [SW_N_MEMORY_CLASSES] of a
 * rank. */
sw_need sw_runner_need(const sw_runner *runner, int64_t planned[SW_N_MEMORY_CLASSES]);

/* Collective: take memory and load this rank's part. Close it after an error too. */
sw_status sw_runner_open(sw_runner *runner, sw_comm *comm, sw_error *err);
void sw_runner_close(sw_runner *runner);

/* Run program `index`, or only take part in its collectives. Collective. */
sw_status sw_runner_run(sw_runner *runner, int index, bool is_active, sw_error *err);

/* Not in a rank, when a result was not finite: add to the message in *err which tensor of the
 * folder holds what is no number. */
void sw_runner_blame(const sw_runner *runner, sw_error *err);

/* The memory of a port of program `index`: SW_PORT_TOKENS and so on. */
void *sw_runner_port(sw_runner *runner, int index, const char *port);

#endif
