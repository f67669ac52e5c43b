/* schedule.h: the learning rate of every step, and the corrections that AdamW's moments need.
 * Functions of the step alone. */
#ifndef SW_OPTIM_SCHEDULE_H
#define SW_OPTIM_SCHEDULE_H

#include <stdint.h>

/* In the order of the words of optimizer.schedule. */
typedef enum sw_schedule_kind {
    SW_SCHEDULE_COSINE,
    SW_SCHEDULE_LINEAR,
    SW_SCHEDULE_CONSTANT,
    SW_SCHEDULE_WSD
} sw_schedule_kind;

typedef struct sw_schedule {
    sw_schedule_kind kind;
    double peak;
    int64_t warmup_steps;
    int64_t n_steps;
    double final_ratio; /* of the peak, where cosine, linear and wsd arrive */
    double decay_ratio; /* wsd: share of n_steps in which it decays, 0 to 1 */
} sw_schedule;

/* The learning rate of step s (the first is 0). With W = warmup_steps and p = (s - W) / max(1,
 * n_steps - W), at most 1:
 *
 *   s < W      peak (s + 1) / W
 *   constant   peak
 *   cosine     peak (final + (1 - final) (1 + cos(pi p)) / 2)         Loshchilov and Hutter 2017
 *   linear     peak (final + (1 - final) (1 - p))
 *   wsd        peak until step D, then linear from there, with p = (s - D) / max(1, n_steps - D);
 *              D = n_steps - floor(decay_ratio n_steps), but not before W
 *              (warm-up, stable, decay: Hu et al. 2024)
 *
 * The end, final_ratio * peak, is where step n_steps would be: the last step of a run is one short
 * of it.
 */
double sw_learning_rate(const sw_schedule *schedule, int64_t step);

/* 1 - beta^t: what a moment that started at zero has gathered of its weights after t updates
 * (Kingma and Ba 2015, section 3). */
double sw_bias_correction(double beta, int64_t n_updates);

#endif
