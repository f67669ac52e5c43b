/* plan.c: the price of a run, read off its program. */
#include "plan/plan.h"

#include "checkpoint/saving.h"
#include "comm/control.h"

sw_status sw_kernel_set_of(const sw_settings *settings, sw_kernel_set *set, sw_error *err) {
    static const sw_kernel_set named[] = {[SW_KERNELS_BASELINE] = SW_SET_BASELINE,
                                          [SW_KERNELS_V3] = SW_SET_V3,
                                          [SW_KERNELS_V4] = SW_SET_V4};
    *set = sw_kernel_set_best();
    if (settings->train.kernels == SW_KERNELS_AUTO)
        return SW_OK;
    *set = named[settings->train.kernels];
    return sw_kernel_set_check(*set, err) ? sw_fail_within(err, "train.kernels") : SW_OK;
}

/* Bytes of a rank by class, what the programs do not know included: its share of the memory that
 * ranks talk through, and the buffers of saving. */
static void count(const sw_assembly *a, int64_t planned[SW_N_MEMORY_CLASSES]) {
    const int n_ranks = a->choice.n_ranks;
    sw_compiled_bytes(a->compiled, planned);
    planned[SW_MEMORY_TRANSPORT] = sw_control_bytes(n_ranks) / n_ranks;
    if (a->settings->checkpoint.every) {
        const sw_save_options saves = sw_assembly_save_options(a, 0);
        planned[SW_MEMORY_TRANSPORT] += sw_saving_bytes(&saves, n_ranks);
    }
}

/* The same counted, and what a run of it needs. */
static sw_need need_of(const sw_plan *plan, const sw_assembly *a,
                       int64_t planned[SW_N_MEMORY_CLASSES]) {
    count(a, planned);
    sw_need need = sw_need_of(a->choice.n_ranks, a->choice.n_threads, planned, a->n_parameters,
                              plan->gemm.kind == SW_GEMM_BLAS);
    if (a->choice.n_ranks_here) {
        const int n_elsewhere = a->choice.n_ranks - a->choice.n_ranks_here;
        need.n_ranks = a->choice.n_ranks_here;
        need.mirrors = n_elsewhere * (planned[SW_MEMORY_PARAMETERS] + planned[SW_MEMORY_GRADIENTS] +
                                      planned[SW_MEMORY_REDUCE]);
    }
    return need;
}

sw_need sw_plan_need(const sw_plan *plan, const sw_assembly *a) {
    int64_t planned[SW_N_MEMORY_CLASSES];
    sw_need need = need_of(plan, a, planned);
    need.files = plan->files_in_memory;
    return need;
}

sw_status sw_plan_price(sw_plan *plan, sw_error *err) {
    const sw_assembly *a = &plan->assembly;
    sw_assembly_choice choice = a->choice;
    sw_settings settings = *a->settings;
    sw_assembly alone;
    plan->share = need_of(plan, a, plan->planned).share;
    choice.n_ranks = 1;
    choice.stage = 0;
    settings.shard.accumulate = SW_ACCUMULATE_UNSHARDED;
    sw_status status = sw_assembly_create(&settings, a->custom, &choice, &alone, err);
    if (status)
        return status;
    count(&alone, plan->unsharded);
    sw_assembly_free(&alone);
    return SW_OK;
}

sw_status sw_plan_create(const sw_settings *settings, const sw_custom_model *custom, int n_cores,
                         sw_plan *plan, sw_error *err) {
    sw_assembly_choice choice;
    *plan = (sw_plan){0};
    sw_assembly_choose(settings, n_cores, &choice, plan->why_ranks, sizeof plan->why_ranks);
    sw_status status = sw_settings_find_models(settings, err);
    if (!status && !custom)
        status = sw_settings_name_model(settings, err);
    if (!status)
        status = sw_kernel_set_of(settings, &plan->kernel_set, err);
    if (!status)
        status = sw_assembly_create(settings, custom, &choice, &plan->assembly, err);
    if (status)
        return status;
    sw_gemm_choose(plan->kernel_set, sw_sharding_numbers(&plan->assembly.sharding),
                   settings->train.reproducible, &plan->gemm);
    if ((status = sw_plan_price(plan, err)))
        sw_plan_free(plan);
    return status;
}

void sw_plan_free(sw_plan *plan) {
    sw_assembly_free(&plan->assembly);
}
