/* fit.c: the plan against memory, before anything starts. */
#include "plan/plan.h"

sw_status sw_plan_check_fit(const sw_plan *plan, sw_error *err) {
    sw_memory_limits limits;
    sw_memory_limits_find(plan->assembly.settings->shard.memory_limit, &limits);
    sw_need need = sw_plan_need(plan, &plan->assembly);
    char advice[512], most[64];
    if (sw_need_fits(&need, &limits))
        return SW_OK;
    sw_plan_advise(plan, &limits, advice, sizeof advice);
    return sw_need_refuse(&need, &limits, "the run", sw_need_most(plan->planned, most, sizeof most),
                          advice, err);
}
