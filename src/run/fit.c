/* fit.c: the plan against memory, before anything starts. */
#include "run/fit.h"

sw_need sw_fit_need(const sw_run *run, const sw_assembly *a) {
    int64_t planned[SW_N_MEMORY_CLASSES];
    sw_compiled_bytes(a->compiled, planned);
    planned[SW_MEMORY_TRANSPORT] = sw_run_transport_bytes(a);
    sw_need need = {.n_ranks = a->choice.n_ranks, .files = run->files_in_memory};
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        need.plan += planned[c];
    need.share =
        sw_process_share(a->choice.n_ranks, a->choice.n_threads, planned, a->n_parameters, run->gemm.kind == SW_GEMM_BLAS);
    return need;
}

sw_status sw_fit_check(const sw_run *run, sw_error *err) {
    sw_memory_limits limits;
    sw_memory_limits_find(run->settings->shard.memory_limit, &limits);
    sw_need need = sw_fit_need(run, &run->assembly);
    char advice[512], most[64];
    if (sw_need_fits(&need, &limits))
        return SW_OK;
    sw_fit_advise(run, &limits, advice, sizeof advice);
    return sw_need_refuse(&need, &limits, "the run", sw_need_most(run->planned, most, sizeof most), advice, err);
}
