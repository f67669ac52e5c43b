/* test_sampling.c: which token is drawn, and how often. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "data/sampling.h"

#define N 8
#define N_DRAWS 8000

static int32_t draw(const sw_sampling *sampling, const float *logits, int32_t n, int64_t index) {
    int32_t *work = malloc((size_t)n * sizeof *work), token = -1;
    assert_int_equal(sw_sample(sampling, logits, n, index, work, &token, NULL), SW_OK);
    assert_in_range(token, 0, n - 1);
    free(work);
    return token;
}

/* Draw many times and compare counts with probabilities: six deviations of a binomial. A
 * probability of 0 is never drawn. */
static void assert_distribution(const sw_sampling *sampling, const float logits[N],
                                const double probability[N]) {
    int count[N] = {0};
    for (int64_t i = 0; i < N_DRAWS; i++)
        count[draw(sampling, logits, N, i)]++;
    for (int i = 0; i < N; i++) {
        double expected = probability[i] * N_DRAWS,
               deviation = sqrt(N_DRAWS * probability[i] * (1 - probability[i]));
        if (fabs(count[i] - expected) > 6 * deviation)
            fail_msg("token %d came %d times of %d, expected %.0f", i, count[i], N_DRAWS, expected);
    }
}

/* Logits whose softmax is 0.4 0.2 0.1 0.1 0.1 0.05 0.04 0.01, in an order of their own; token 2 is
 * the most likely. */
static const double probabilities[N] = {0.1, 0.05, 0.4, 0.01, 0.1, 0.2, 0.04, 0.1};
static void make_logits(float logits[N]) {
    for (int i = 0; i < N; i++)
        logits[i] = (float)(log(probabilities[i]) + 30.0);
}

static void greedy_takes_the_largest_and_of_equals_the_lowest(void **state) {
    (void)state;
    const float logits[] = {-1, 3, 2, 3, 3, -7};
    for (int64_t i = 0; i < 10; i++)
        assert_int_equal(
            draw(&(sw_sampling){.temperature = 0, .top_p = 1, .seed = 5}, logits, 6, i), 1);
}

static void tokens_come_as_often_as_the_softmax_says(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 1, .seed = 1}, logits,
                        probabilities);
}

/* Temperature 1/2 squares the odds. */
static void temperature_divides_the_logits(void **state) {
    (void)state;
    float logits[N];
    double squared[N], total = 0;
    make_logits(logits);
    for (int i = 0; i < N; i++)
        total += squared[i] = probabilities[i] * probabilities[i];
    for (int i = 0; i < N; i++)
        squared[i] /= total;
    assert_distribution(&(sw_sampling){.temperature = 0.5, .top_p = 1, .seed = 2}, logits, squared);
    /* As it goes to 0, what is left is greedy; the smallest double divides to infinity and must not
     * give a NaN. */
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(
            draw(&(sw_sampling){.temperature = 5e-324, .top_p = 1, .seed = 2}, logits, N, i), 2);
}

/* The third of k = 3 is one of three equals: the one with the lowest id, token 0. */
static void top_k_keeps_the_k_most_likely(void **state) {
    (void)state;
    float logits[N] = {0};
    make_logits(logits);
    logits[4] = logits[7] = logits[0];
    const double kept[N] = {1 / 7., 0, 4 / 7., 0, 0, 2 / 7., 0, 0};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_k = 3, .top_p = 1, .seed = 3}, logits,
                        kept);
    assert_distribution(&(sw_sampling){.temperature = 1, .top_k = 1000, .top_p = 1, .seed = 3},
                        logits, probabilities);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(
            draw(&(sw_sampling){.temperature = 9, .top_k = 1, .top_p = 1, .seed = 3}, logits, N, i),
            2);
}

/* 0.4 + 0.2 reach 0.55; 0.4 alone does not. */
static void top_p_keeps_the_fewest_that_reach_it(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    const double kept[N] = {0, 0, 2 / 3., 0, 0, 1 / 3., 0, 0};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 0.55, .seed = 4}, logits, kept);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(
            draw(&(sw_sampling){.temperature = 1, .top_p = 1e-9, .seed = 4}, logits, N, i), 2);
    /* Of the two that top_k leaves, 2/3 and 1/3, the first alone reaches 0.6. */
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 1, .top_k = 2, .top_p = 0.6, .seed = 4},
                              logits, N, i),
                         2);
}

/* Of 0.4 0.2 0.1 0.1 0.1 0.05 0.04 0.01 those of at least a quarter of 0.4; one that is exactly
 * there stays. */
static void min_p_keeps_what_is_near_the_likeliest(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    const double kept[N] = {1 / 9., 0, 4 / 9., 0, 1 / 9., 2 / 9., 0, 1 / 9.};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 1, .seed = 12, .min_p = 0.2499},
                        logits, kept);
    const float even[N] = {0, 0, 0, 0, 0, 0, 0, -1};
    const double equal[N] = {1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7., 0};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 1, .seed = 13, .min_p = 1}, even,
                        equal);
}

/* ---- the whole chain, beside one that is written after transformers' processors ---- */

typedef struct candidate {
    int32_t id;
    double score; /* -INFINITY: filtered out */
} candidate;

static int by_score(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : x->id - y->id;
}

static double softmax_sum(const candidate *c, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp(c[i].score - c[0].score);
    return sum;
}

/* RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopK, TopP, MinP, softmax:
 * probabilities [n] by id. The candidates are sorted, likeliest first, and each filter sets scores
 * to minus infinity. */
static void reference(const sw_sampling *s, double penalty, const int32_t *said, int n_said,
                      const float *logits, int n, double *probability) {
    candidate *c = malloc((size_t)n * sizeof *c);
    for (int i = 0; i < n; i++) {
        float score = logits[i];
        for (int k = 0; k < n_said; k++)
            if (said[k] == i) {
                score = score < 0 ? score * (float)penalty : score / (float)penalty;
                break;
            }
        c[i] = (candidate){i, (double)score / s->temperature};
    }
    qsort(c, (size_t)n, sizeof *c, by_score);
    for (int i = 0; i < n && s->top_k > 0; i++)
        if (i >= s->top_k)
            c[i].score = -INFINITY;
    double sum = softmax_sum(c, n), before = 0;
    for (int i = 0; i < n && s->top_p < 1; i++) { /* the one that reaches p stays */
        double p = exp(c[i].score - c[0].score) / sum;
        if (before >= s->top_p)
            c[i].score = -INFINITY;
        before += p;
    }
    for (int i = 0; i < n; i++)
        if (exp(c[i].score - c[0].score) < s->min_p)
            c[i].score = -INFINITY;
    sum = softmax_sum(c, n);
    for (int i = 0; i < n; i++)
        probability[c[i].id] = exp(c[i].score - c[0].score) / sum;
    free(c);
}

static double random_between(uint32_t seed, uint32_t index, double low, double high) {
    uint32_t counter[4] = {index, seed}, word[4];
    sw_philox(counter, 77, word);
    return low + (high - low) * word[0] * 0x1p-32;
}

/* Random logits and settings: tokens come as often as the reference says, six deviations of a
 * binomial, and those that it has filtered out never. */
static void the_whole_chain_is_that_of_transformers(void **state) {
    (void)state;
    enum { V = 24, N_CASES = 60, N_EACH = 1500, N_SAID = 9 };
    for (uint32_t round = 0; round < N_CASES; round++) {
        float logits[V], adjusted[V];
        int32_t said[N_SAID], count[V] = {0};
        double probability[V], penalty = round % 3 ? random_between(round, 1, 0.5, 2) : 1;
        for (int i = 0; i < V; i++)
            logits[i] = (float)random_between(round, 100 + (uint32_t)i, -4, 4);
        for (int i = 0; i < N_SAID; i++) /* some of them twice */
            said[i] = (int32_t)random_between(round, 200 + (uint32_t)i, 0, V);
        const sw_sampling s = {.temperature = random_between(round, 2, 0.3, 2),
                               .top_k = round % 2 ? (int64_t)random_between(round, 3, 1, V + 3) : 0,
                               .top_p = round % 4 < 2 ? random_between(round, 4, 0.1, 1) : 1,
                               .min_p = round % 5 < 3 ? random_between(round, 5, 0, 0.5) : 0,
                               .seed = round,
                               .sample = round % 7};
        sw_penalise(penalty, said, N_SAID, logits, V, adjusted);
        reference(&s, penalty, said, N_SAID, logits, V, probability);
        for (int64_t i = 0; i < N_EACH; i++)
            count[draw(&s, adjusted, V, i)]++;
        for (int i = 0; i < V; i++) {
            double expected = probability[i] * N_EACH,
                   deviation = sqrt(expected * (1 - probability[i]));
            if (fabs(count[i] - expected) > 6 * deviation + 1e-9)
                fail_msg("round %u: token %d came %d times of %d, expected %.1f", round, i,
                         count[i], N_EACH, expected);
        }
    }
}

/* Positive logits are divided, negative ones multiplied, each once; the penalty holds for greedy
 * choices too. */
static void a_penalty_falls_once_on_what_was_said(void **state) {
    (void)state;
    const float logits[] = {3, -2, 0, 5, 1};
    const int32_t said[] = {3, 1, 3, 2, 3};
    float adjusted[5];
    sw_penalise(2, said, 5, logits, 5, adjusted);
    const float expected[] = {3, -4, 0, 2.5f, 1};
    assert_memory_equal(adjusted, expected, sizeof expected);
    assert_int_equal(draw(&(sw_sampling){.temperature = 0, .top_p = 1}, adjusted, 5, 0), 0);
    sw_penalise(0.5, said, 5, logits, 5, adjusted);
    const float favoured[] = {3, -1, 0, 10, 1};
    assert_memory_equal(adjusted, favoured, sizeof favoured);
}

/* Samples of one seed are independent draws; sample 0 is what a single text would be. */
static void samples_of_a_seed_differ(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    int n_same = 0;
    for (int64_t i = 0; i < 1000; i++) {
        const sw_sampling one = {.temperature = 1, .top_p = 1, .seed = 10},
                          other = {.temperature = 1, .top_p = 1, .seed = 10, .sample = 1};
        n_same += draw(&one, logits, N, i) == draw(&other, logits, N, i);
    }
    assert_in_range(n_same, 234 - 80, 234 + 80);
}

static void a_draw_depends_on_seed_and_index_alone(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    int n_same_seed = 0, n_same_index = 0;
    const sw_sampling one = {.temperature = 1, .top_p = 1, .seed = 10},
                      other = {.temperature = 1, .top_p = 1, .seed = 11};
    for (int64_t i = 999; i >= 0; i--) {
        assert_int_equal(draw(&one, logits, N, i), draw(&one, logits, N, i));
        n_same_seed += draw(&one, logits, N, i) == draw(&other, logits, N, i);
        n_same_index += draw(&one, logits, N, i) == draw(&one, logits, N, i + 1);
    }
    /* Independent draws agree with the sum of squared probabilities, 0.2342: 234 of 1000, deviation
     * 13. */
    assert_in_range(n_same_seed, 234 - 80, 234 + 80);
    assert_in_range(n_same_index, 234 - 80, 234 + 80);
}

/* The ranking pops in order: with the k-th least likely kept last, every token of a large
 * vocabulary is where a sort would put it. */
static void the_ranking_of_a_large_vocabulary_is_that_of_a_sort(void **state) {
    (void)state;
    enum { V = 50000, K = 700 };
    float *logits = malloc(V * sizeof *logits);
    uint8_t *is_kept = calloc(1, V);
    for (uint32_t i = 0; i < V; i++) {
        uint32_t counter[4] = {i}, word[4];
        sw_philox(counter, 1, word);
        logits[i] = (float)(word[0] % 5000) * 1e-4f; /* ten of each value, nearly flat */
    }
    for (int32_t i = 0; i < V; i++) { /* kept: fewer than K come before it */
        int n_before = 0;
        for (int32_t j = 0; j < V && n_before < K; j++)
            n_before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        is_kept[i] = n_before < K;
    }
    for (int64_t i = 0; i < 300; i++)
        assert_true(is_kept[draw(
            &(sw_sampling){.temperature = 1, .top_k = K, .top_p = 1, .seed = 6}, logits, V, i)]);
    free(is_kept);
    free(logits);
}

static void logits_that_are_not_finite_are_an_error_with_the_id(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float logits[] = {0, 1, bad[i], 2};
        int32_t work[4], token;
        sw_error err;
        assert_int_equal(sw_sample(&(sw_sampling){.temperature = 0, .top_p = 1}, logits, 4, 0, work,
                                   &token, &err),
                         SW_BAD_FILE);
        assert_non_null(strstr(err.message, "token 2"));
    }
}

static void settings_out_of_range_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        sw_sampling sampling;
        const char *name;
    } cases[] = {{{-1, 0, 1, 0}, "temperature"},
                 {{NAN, 0, 1, 0}, "temperature"},
                 {{INFINITY, 0, 1, 0}, "temperature"},
                 {{1, -1, 1, 0}, "top_k"},
                 {{1, 0, 0, 0}, "top_p"},
                 {{1, 0, 1.5, 0}, "top_p"},
                 {{1, 0, NAN, 0}, "top_p"},
                 {{1, 0, 1, 0, -0.1}, "min_p"},
                 {{1, 0, 1, 0, 1.1}, "min_p"},
                 {{1, 0, 1, 0, NAN}, "min_p"}};
    static const double penalties[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_error err;
        assert_int_equal(sw_sampling_check(&cases[i].sampling, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, cases[i].name));
    }
    assert_int_equal(sw_sampling_check(&(sw_sampling){0.8, 40, 0.95, 1, 0.05}, NULL), SW_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(sw_penalty_check(penalties[i], NULL), SW_BAD_CONFIG);
    assert_int_equal(sw_penalty_check(1.1, NULL), SW_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_of_equals_the_lowest),
        cmocka_unit_test(tokens_come_as_often_as_the_softmax_says),
        cmocka_unit_test(temperature_divides_the_logits),
        cmocka_unit_test(top_k_keeps_the_k_most_likely),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_it),
        cmocka_unit_test(min_p_keeps_what_is_near_the_likeliest),
        cmocka_unit_test(the_whole_chain_is_that_of_transformers),
        cmocka_unit_test(a_penalty_falls_once_on_what_was_said),
        cmocka_unit_test(samples_of_a_seed_differ),
        cmocka_unit_test(a_draw_depends_on_seed_and_index_alone),
        cmocka_unit_test(the_ranking_of_a_large_vocabulary_is_that_of_a_sort),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error_with_the_id),
        cmocka_unit_test(settings_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
