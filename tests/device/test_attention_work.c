/* Which pairs of query and key attention multiplies: tiles beyond a span, of other documents and,
 * causal, right of the diagonal are skipped.
 *
 * What was multiplied is seen by a probe: with NaN in one key's value, a query's output is NaN if
 * the kernel met that key, even with a weight of zero, and clean if it passed it over; the same
 * with the gradient of the query in backward. A tile is some queries by some keys, so a query may
 * meet keys that it does not see, but only beside such that a neighbour sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/open.h"
#include "device/kernel.h"
#include "device/sizes.h"

enum { T = 512, H = 2, D = 16, PROBES_APART = 7, KEYS_REACH = 32 /* of a tile */ };

typedef struct sight {
    const char *name;
    int64_t span;       /* 0: all before */
    int32_t n_document; /* tokens of a document; 0: one document */
    bool is_full;
} sight;

/* q and dout [T,H*D], k and v [T,D], one row; results as their namesakes. */
typedef struct arrays {
    float q[T * H * D], k[T * D], v[T * D], dout[T * H * D], out[T * H * D], log_sum[H * T],
        dq[T * H * D], dk[T * D], dv[T * D];
    int32_t documents[T];
} arrays;

static void run(const sw_device *device, const sight *s, sw_kernel kernel, arrays *a,
                void *scratch) {
    int32_t *documents = s->n_document ? a->documents : NULL;
    sw_kernel_call call = {.dim = {1, T, H, 1, D, H * D, D, s->span, s->is_full},
                           .attribute = {0.25},
                           .scratch = scratch};
    void *const forward[] = {a->q, a->k, a->v, a->out, a->log_sum, documents};
    void *const backward[] = {a->dout,    a->q,  a->k,  a->v,  a->out,
                              a->log_sum, a->dq, a->dk, a->dv, documents};
    if (kernel == SW_KERNEL_ATTENTION)
        memcpy(call.operand, forward, sizeof forward);
    else
        memcpy(call.operand, backward, sizeof backward);
    sw_device_kernel(device, SW_NUMBERS_F32, kernel)(device, &call);
}

static bool sees(const sight *s, int64_t query, int64_t key) {
    const int64_t reach =
        s->is_full ? s->span : s->span - 1; /* to a key, on either side, or before the query */
    return (s->is_full || key <= query) && (!s->span || llabs(query - key) <= reach) &&
           (!s->n_document || query / s->n_document == key / s->n_document);
}

/* Does a query at most `reach` from this one see a key near that one? */
static bool may_meet(const sight *s, int64_t reach, int64_t query, int64_t key) {
    for (int64_t t = query - reach; t <= query + reach; t++)
        for (int64_t j = key - KEYS_REACH; j <= key + KEYS_REACH; j++)
            if (t >= 0 && t < T && j >= 0 && j < T && sees(s, t, j))
                return true;
    return false;
}

/* Probe one key; returns how many queries met it. */
static int64_t probe(const sw_device *device, const sight *s, int64_t reach, int64_t key, arrays *a,
                     void *scratch) {
    const float was = a->v[key * D];
    int64_t n_met = 0;
    run(device, s, SW_KERNEL_ATTENTION, a, scratch); /* backward reads a clean output */
    arrays *clean = malloc(sizeof *clean);
    assert_non_null(clean);
    *clean = *a;
    a->v[key * D] = clean->v[key * D] = NAN;
    run(device, s, SW_KERNEL_ATTENTION, a, scratch);
    run(device, s, SW_KERNEL_ATTENTION_GRAD, clean, scratch);
    for (int64_t t = 0; t < T; t++) {
        const bool met = isnan(a->out[t * H * D]), met_again = isnan(clean->dq[t * H * D]);
        if (sees(s, t, key) && !(met && met_again))
            fail_msg("%s: query %d does not meet key %d that it sees", s->name, (int)t, (int)key);
        if ((met || met_again) && !may_meet(s, reach, t, key))
            fail_msg(
                "%s: query %d meets key %d (forward %d, backward %d), far from all that it sees",
                s->name, (int)t, (int)key, met, met_again);
        n_met += met;
    }
    free(clean);
    a->v[key * D] = was;
    return n_met;
}

static void what_nobody_sees_is_skipped(void **state) {
    (void)state;
    static const sight sights[] = {
        {"causal", 0, 0, false},
        {"a span of 48", 48, 0, false},
        {"documents of 100", 0, 100, false},
        {"both", 20, 100, false},
        {"full", 0, 0, true},
        {"full, a span of 48", 48, 0, true},
        {"full, documents", 0, 100, true},
        {"full, both", 20, 100, true},
    };
    arrays *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (int64_t i = 0; i < T * H * D; i++)
        a->q[i] = (float)sin((double)i), a->dout[i] = (float)cos((double)i);
    for (int64_t i = 0; i < T * D; i++)
        a->k[i] = (float)sin(0.7 * (double)i), a->v[i] = (float)cos(0.3 * (double)i);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (size_t i = 0;
             i < sizeof sights / sizeof *sights && sw_kernel_set_runs_here((sw_kernel_set)set);
             i++) {
            const sight *s = &sights[i];
            const int64_t reach = set == SW_SET_BASELINE
                                      ? SW_ATTENTION_QUERIES
                                      : SW_ATTENTION_BLOCK_ROWS; /* plain, tuned */
            sw_device *device;
            sw_error err;
            assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = (sw_kernel_set)set,
                                                           .gemm = SW_GEMM_PLAIN,
                                                           .n_threads = 1},
                                         &device, &err),
                             SW_OK);
            const int64_t dim[SW_MAX_DIMENSIONS] = {1, T, H, 1, D, H * D, D, s->span, s->is_full};
            const int64_t forward =
                              sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, dim, SW_NUMBERS_F32, 1),
                          backward = sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION_GRAD, dim,
                                                             SW_NUMBERS_F32, 1);
            void *scratch = aligned_alloc(
                64, (size_t)((forward > backward ? forward : backward) + 63) / 64 * 64);
            assert_non_null(scratch);
            for (int32_t t = 0; t < T && s->n_document; t++)
                a->documents[t] = t / s->n_document * s->n_document;
            int64_t n_met = 0, n_seen = 0;
            for (int64_t key = 0; key < T; key += PROBES_APART) {
                n_met += probe(device, s, reach, key, a, scratch);
                for (int64_t t = 0; t < T; t++)
                    n_seen += sees(s, t, key);
            }
            print_message("%s, %s: %.2f pairs multiplied for one that is seen\n",
                          sw_kernel_set_name((sw_kernel_set)set), s->name,
                          (double)n_met / (double)n_seen);
            free(scratch);
            device->close(device);
        }
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_nobody_sees_is_skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
