/* sampling.c: tokens in order of likelihood, as far as they are needed.
 *
 * The ids form a heap in the caller's memory. Popping the root moves it behind the heap, so that
 * the popped ids stand at the end of the same memory, the most likely last: the i-th is
 * work[n-1-i]. Usually few are popped; a full sort would be the slowest part of generation with a
 * large vocabulary, and libc's allocates.
 */
#include "data/sampling.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/philox.h"

typedef struct ranking {
    const float *logits;
    int32_t *ids; /* [n]: a heap of n - n_popped, then the popped */
    int32_t n, n_popped;
} ranking;

static bool comes_before(const ranking *r, int32_t a, int32_t b) {
    float of_a = r->logits[a], of_b = r->logits[b];
    return of_a > of_b || (of_a == of_b && a < b);
}

static void sift_down(ranking *r, int32_t at, int32_t n_heap) {
    int32_t id = r->ids[at];
    for (int64_t child; (child = 2 * (int64_t)at + 1) < n_heap; at = (int32_t)child) {
        if (child + 1 < n_heap && comes_before(r, r->ids[child + 1], r->ids[child]))
            child++;
        if (!comes_before(r, r->ids[child], id))
            break;
        r->ids[at] = r->ids[child];
    }
    r->ids[at] = id;
}

static void make_heap(ranking *r) {
    for (int32_t i = 0; i < r->n; i++)
        r->ids[i] = i;
    for (int32_t i = r->n / 2 - 1; i >= 0; i--)
        sift_down(r, i, r->n);
}

/* The i-th most likely token. */
static int32_t ranked(ranking *r, int32_t i) {
    while (r->n_popped <= i) {
        int32_t last = r->n - 1 - r->n_popped, top = r->ids[0];
        r->ids[0] = r->ids[last];
        r->ids[last] = top;
        r->n_popped++;
        sift_down(r, 0, last);
    }
    return r->ids[r->n - 1 - i];
}

/* Uniform in [0, 1), 53 bits. */
static double uniform(const sw_sampling *s, int64_t index) {
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), s->sample}, word[4];
    sw_philox(counter, sw_philox_key(s->seed, SW_PURPOSE_SAMPLE), word);
    return ((double)(word[0] >> 5) * 67108864.0 + (double)(word[1] >> 6)) / 9007199254740992.0;
}

sw_status sw_sampling_check(const sw_sampling *s, sw_error *err) {
    if (!(s->temperature >= 0) || !isfinite(s->temperature))
        return sw_fail(err, SW_BAD_CONFIG, "temperature is %g; it must be 0 (greedy) or more",
                       s->temperature);
    if (s->top_k < 0)
        return sw_fail(err, SW_BAD_CONFIG, "top_k is %lld; it must be 0 (all tokens) or more",
                       (long long)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return sw_fail(err, SW_BAD_CONFIG,
                       "top_p is %g; it must be above 0 and at most 1 (all tokens)", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return sw_fail(err, SW_BAD_CONFIG, "min_p is %g; it must be from 0 (all tokens) to 1",
                       s->min_p);
    return SW_OK;
}

sw_status sw_penalty_check(double penalty, sw_error *err) {
    if (penalty > 0 && isfinite(penalty))
        return SW_OK;
    return sw_fail(err, SW_BAD_CONFIG, "the repetition penalty is %g; it must be above 0 (1: none)",
                   penalty);
}

void sw_penalise(double penalty, const int32_t *ids, int64_t n, const float *logits,
                 int32_t n_tokens, float *adjusted) {
    const float factor = (float)penalty;
    memcpy(adjusted, logits, (size_t)n_tokens * sizeof *adjusted);
    for (int64_t i = 0; i < n; i++)
        adjusted[ids[i]] = logits[ids[i]] < 0 ? logits[ids[i]] * factor : logits[ids[i]] / factor;
}

sw_status sw_sample(const sw_sampling *sampling, const float *logits, int32_t n_tokens,
                    int64_t n_drawn, int32_t *work, int32_t *token, sw_error *err) {
    assert(n_tokens >= 1);
    int32_t best = 0;
    for (int32_t i = 0; i < n_tokens; i++) {
        if (!isfinite(logits[i]))
            return sw_fail(err, SW_BAD_FILE, "the logit of token %d is %s", i,
                           isnan(logits[i]) ? "nan" : "infinite");
        if (logits[i] > logits[best])
            best = i;
    }
    *token = best;
    if (sampling->temperature == 0)
        return SW_OK;

    /* Weights are exp((logit - largest) / temperature): the largest is 1, nothing overflows. */
    ranking r = {.logits = logits, .ids = work, .n = n_tokens};
    const double largest = (double)logits[best], temperature = sampling->temperature;
    int32_t n_kept =
        sampling->top_k > 0 && sampling->top_k < n_tokens ? (int32_t)sampling->top_k : n_tokens;
    double total = 0;
    make_heap(&r);
    for (int32_t i = 0; i < n_kept; i++) {
        int32_t id =
            n_kept < n_tokens ? ranked(&r, i) : i; /* when all are kept the sum needs no order */
        total += exp(((double)logits[id] - largest) / temperature);
    }
    if (sampling->top_p < 1) {
        double enough = sampling->top_p * total, reached = 0;
        int32_t n_nucleus = 0;
        while (n_nucleus < n_kept && reached < enough)
            reached += exp(((double)logits[ranked(&r, n_nucleus++)] - largest) / temperature);
        n_kept = n_nucleus;
        total = reached;
    }
    if (sampling->min_p > 0) {
        int32_t n_likely = 0;
        for (total = 0; n_likely < n_kept; n_likely++) {
            double weight = exp(((double)logits[ranked(&r, n_likely)] - largest) / temperature);
            if (n_likely > 0 && weight < sampling->min_p)
                break;
            total += weight;
        }
        n_kept = n_likely;
    }
    double left = uniform(sampling, n_drawn) * total;
    for (int32_t i = 0; i < n_kept; i++) {
        int32_t id = ranked(&r, i);
        double weight = exp(((double)logits[id] - largest) / temperature);
        if (weight == 0)
            break; /* rounding led past the last token that can be drawn: take that one */
        *token = id;
        left -= weight;
        if (left < 0)
            break;
    }
    return SW_OK;
}
