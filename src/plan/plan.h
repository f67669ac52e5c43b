/* plan.h: what a run needs, read off its program before anything starts: `shardwise plan` tells it,
 * a run checks that it fits and keeps it as plan.json.
 */
#ifndef SW_PLAN_PLAN_H
#define SW_PLAN_PLAN_H

#include "device/cpu/choice.h"
#include "device/cpu/open.h"
#include "plan/assembly.h"
#include "plan/need.h"

typedef struct sw_plan {
    sw_assembly assembly;
    sw_kernel_set kernel_set;
    sw_gemm_choice gemm;
    char why_ranks[288]; /* how many ranks and threads `auto` comes to, and why; "": both were given
                          */

    /* sw_plan_price */
    int64_t planned[SW_N_MEMORY_CLASSES],
        unsharded[SW_N_MEMORY_CLASSES]; /* bytes of a rank; of one rank that holds everything */
    int64_t share;                      /* of each process beside its plan: need.h */
    int64_t files_in_memory; /* bytes that the run will write where files lie in memory (tmpfs);
                                whoever knows sets it */
} sw_plan;

/* The kernel set that train.kernels asks for. Errors: SW_BAD_CONFIG: this CPU cannot run it. */
sw_status sw_kernel_set_of(const sw_settings *settings, sw_kernel_set *set, sw_error *err);

/* Everything, for a run of these settings on n_cores cores; custom (may be NULL) is the caller's
 * model. Ownership: sw_plan_free; settings and custom must outlive it. Errors: as training's before
 * its start, but SW_NO_MEMORY is only what planning itself takes. */
sw_status sw_plan_create(const sw_settings *settings, const sw_custom_model *custom, int n_cores,
                         sw_plan *plan, sw_error *err);
void sw_plan_free(sw_plan *plan);

/* Its figures, and those of one rank that shards nothing: it adds gradients up where they are
 * written. The assembly, the kernel set and the way to multiply are there. */
sw_status sw_plan_price(sw_plan *plan, sw_error *err);

/* What a run of that assembly, another choice than the plan's perhaps, needs of the machine. */
sw_need sw_plan_need(const sw_plan *plan, const sw_assembly *assembly);

/* fit.c: does it fit into shard.memory_limit, and all ranks into what the machine has? SW_NO_MEMORY
 * with what is short and what would fit. */
sw_status sw_plan_check_fit(const sw_plan *plan, sw_error *err);

/* fit_advice.c: settings with which the run would fit, found by planning with them: "key=value
 * key=value would fit: ...". Or that none do. */
void sw_plan_advise(const sw_plan *plan, const sw_memory_limits *limits, char *text, size_t bytes);

/* ---- plan_text.c ---- */

typedef void (*sw_plan_line_fn)(void *to, const char *text);

/* Lines for people: size, work and memory. */
void sw_plan_tell(const sw_plan *plan, sw_plan_line_fn line, void *to);

/* The table of memory; measured [SW_N_MEMORY_CLASSES] of the worst rank, NULL before the run. */
void sw_plan_tell_memory(const sw_plan *plan, const int64_t *measured, sw_plan_line_fn line,
                         void *to);

/* The same as one JSON object, which is plan.json; indented or on one line. NULL: no memory. free()
 * it. */
char *sw_plan_json(const sw_plan *plan, bool is_indented);

#endif
