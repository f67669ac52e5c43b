/* diff.h: two checkpoints, of any numbers of ranks, parameter by parameter; and two models. */
#ifndef SW_CHECKPOINT_DIFF_H
#define SW_CHECKPOINT_DIFF_H

#include "checkpoint/load.h"

typedef enum sw_difference_kind {
    SW_SAME, /* every bit */
    SW_OTHER_VALUES,
    SW_OTHER_TYPE,  /* the same numbers as elements of another type: models alone */
    SW_OTHER_SHAPE, /* or trained in one and frozen in the other */
    SW_ONLY_IN_FIRST,
    SW_ONLY_IN_SECOND
} sw_difference_kind;

typedef struct sw_difference {
    sw_difference_kind kind;
    sw_state_kind state;
    const char *name; /* of the parameter */
    int64_t n_elements;
    int64_t n_different; /* OTHER_VALUES: elements whose bits differ */
    double largest; /* OTHER_VALUES: of |first - second| over all elements; INFINITY if one of a
                       pair that differs is not finite */
} sw_difference;

typedef void (*sw_difference_fn)(void *to, const sw_difference *difference);

/* Compare all states; `each` hears of every parameter that either has, in the first one's order,
 * kind of state by kind. Every range that is read is checked. Memory: some MiB. Errors:
 * SW_BAD_FILE: one of them is damaged. */
sw_status sw_checkpoint_diff(const sw_checkpoint *first, const sw_checkpoint *second,
                             sw_difference_fn each, void *to, sw_error *err);

/* The same of two models' folders, or two adapters', tensor by tensor; the state is always
 * SW_STATE_MASTER. Errors: SW_BAD_FILE. */
sw_status sw_model_diff(const char *first, const char *second, bool are_adapters,
                        sw_difference_fn each, void *to, sw_error *err);

/* Count into *difference what differs between n values of each. */
void sw_compare_values(const float *a, const float *b, int64_t n, sw_difference *difference);

#endif
