/* schedule.c: formulas only; each is written out where it is declared. */
#include "optim/schedule.h"

#include <math.h>

/* How far step `step` is from `first` to the end, 0 to 1. */
static double progress(int64_t step, int64_t first, int64_t n_steps) {
    double length = n_steps - first > 1 ? (double)(n_steps - first) : 1.0;
    double share = (double)(step - first) / length;
    return share < 1.0 ? share : 1.0;
}

double sw_learning_rate(const sw_schedule *s, int64_t step) {
    if (step < s->warmup_steps)
        return s->peak * (double)(step + 1) / (double)s->warmup_steps;

    double remaining = 1.0; /* share of the way from final_ratio up to the peak */
    switch (s->kind) {
    case SW_SCHEDULE_CONSTANT:
        return s->peak;
    case SW_SCHEDULE_COSINE:
        remaining = 0.5 * (1.0 + cos(M_PI * progress(step, s->warmup_steps, s->n_steps)));
        break;
    case SW_SCHEDULE_LINEAR:
        remaining = 1.0 - progress(step, s->warmup_steps, s->n_steps);
        break;
    case SW_SCHEDULE_WSD: {
        int64_t first = s->n_steps - (int64_t)floor(s->decay_ratio * (double)s->n_steps);
        if (first < s->warmup_steps)
            first = s->warmup_steps;
        if (step > first)
            remaining = 1.0 - progress(step, first, s->n_steps);
        break;
    }
    }
    return s->peak * (s->final_ratio + (1.0 - s->final_ratio) * remaining);
}

double sw_bias_correction(double beta, int64_t n_updates) {
    return 1.0 - pow(beta, (double)n_updates);
}
