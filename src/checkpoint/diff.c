/* diff.c: see diff.h. */
#include "checkpoint/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum { CHUNK = SW_RANGE_BYTES / sizeof(float) };

typedef struct pair {
    const sw_checkpoint *checkpoint[2];
    sw_checkpoint_reader *reader[2];
    float *values[2]; /* [CHUNK] */
} pair;

static bool has_state(const sw_checkpoint *c, sw_state_kind state, int parameter) {
    return parameter >= 0 && sw_checkpoint_kinds(c) >> state & 1 &&
           sw_state_is_stored(sw_checkpoint_parameter(c, parameter), state);
}

static bool is_alike(const sw_state_parameter *a, const sw_state_parameter *b) {
    return a->is_trainable == b->is_trainable && a->n_dimensions == b->n_dimensions &&
           memcmp(a->dimension, b->dimension, (size_t)a->n_dimensions * sizeof *a->dimension) == 0;
}

void sw_compare_values(const float *a, const float *b, int64_t n, sw_difference *d) {
    if (memcmp(a, b, (size_t)n * sizeof *a) == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (sw_float_bits(a[i]) == sw_float_bits(b[i])) /* a NaN is equal to itself, 0 is not -0 */
            continue;
        double distance = fabs((double)a[i] - (double)b[i]);
        d->n_different++;
        d->largest = fmax(d->largest, isfinite(distance) ? distance : INFINITY);
    }
}

static sw_status compare_parameter(pair *p, const int parameter[2], sw_difference *d,
                                   sw_error *err) {
    for (int64_t first = 0; first < d->n_elements; first += CHUNK) {
        int64_t n = d->n_elements - first < CHUNK ? d->n_elements - first : CHUNK;
        for (int i = 0; i < 2; i++) {
            sw_status status = sw_checkpoint_read(p->reader[i], d->state, parameter[i], first, n,
                                                  p->values[i], err);
            if (status != SW_OK)
                return status;
        }
        sw_compare_values(p->values[0], p->values[1], n, d);
    }
    d->kind = d->n_different ? SW_OTHER_VALUES : SW_SAME;
    return SW_OK;
}

/* One kind of state: the first one's parameters in their order, then those that the second has
 * alone. */
static sw_status compare_state(pair *p, sw_state_kind state, sw_difference_fn each, void *to,
                               sw_error *err) {
    const sw_checkpoint *a = p->checkpoint[0], *b = p->checkpoint[1];
    sw_status status = SW_OK;
    for (int i = 0; i < sw_checkpoint_n_parameters(a) && status == SW_OK; i++) {
        const sw_state_parameter *mine = sw_checkpoint_parameter(a, i);
        int parameter[2] = {i, sw_checkpoint_find_parameter(b, mine->name)};
        sw_difference d = {.kind = SW_ONLY_IN_FIRST,
                           .state = state,
                           .name = mine->name,
                           .n_elements = mine->n_elements};
        if (!has_state(a, state, i))
            continue;
        if (has_state(b, state, parameter[1])) {
            d.kind = SW_OTHER_SHAPE;
            if (is_alike(mine, sw_checkpoint_parameter(b, parameter[1])))
                status = compare_parameter(p, parameter, &d, err);
        }
        if (status == SW_OK)
            each(to, &d);
    }
    for (int i = 0; i < sw_checkpoint_n_parameters(b) && status == SW_OK; i++) {
        const sw_state_parameter *theirs = sw_checkpoint_parameter(b, i);
        sw_difference d = {.kind = SW_ONLY_IN_SECOND,
                           .state = state,
                           .name = theirs->name,
                           .n_elements = theirs->n_elements};
        if (has_state(b, state, i) &&
            !has_state(a, state, sw_checkpoint_find_parameter(a, theirs->name)))
            each(to, &d);
    }
    return status;
}

sw_status sw_checkpoint_diff(const sw_checkpoint *first, const sw_checkpoint *second,
                             sw_difference_fn each, void *to, sw_error *err) {
    pair p = {.checkpoint = {first, second}};
    sw_status status = SW_OK;
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        status = sw_checkpoint_reader_open(p.checkpoint[i], &p.reader[i], err);
        if (status == SW_OK && !(p.values[i] = malloc(CHUNK * sizeof(float))))
            status = sw_fail(err, SW_NO_MEMORY, "no memory to compare checkpoints with");
    }
    for (int state = 0; state < SW_N_STATE_KINDS && status == SW_OK; state++)
        status = compare_state(&p, (sw_state_kind)state, each, to, err);
    for (int i = 0; i < 2; i++) {
        sw_checkpoint_reader_close(p.reader[i]);
        free(p.values[i]);
    }
    return status;
}
