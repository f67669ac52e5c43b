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

/* Draw many times and compare counts with probabilities: six deviations of a binomial. A probability of 0 is never drawn. */
static void assert_distribution(const sw_sampling *sampling, const float logits[N], const double probability[N]) {
    int count[N] = {0};
    for (int64_t i = 0; i < N_DRAWS; i++)
        count[draw(sampling, logits, N, i)]++;
    for (int i = 0; i < N; i++) {
        double expected = probability[i] * N_DRAWS, deviation = sqrt(N_DRAWS * probability[i] * (1 - probability[i]));
        if (fabs(count[i] - expected) > 6 * deviation)
            fail_msg("token %d came %d times of %d, expected %.0f", i, count[i], N_DRAWS, expected);
    }
}

/* Logits whose softmax is 0.4 0.2 0.1 0.1 0.1 0.05 0.04 0.01, in an order of their own; token 2 is the most likely. */
static const double probabilities[N] = {0.1, 0.05, 0.4, 0.01, 0.1, 0.2, 0.04, 0.1};
static void make_logits(float logits[N]) {
    for (int i = 0; i < N; i++)
        logits[i] = (float)(log(probabilities[i]) + 30.0);
}

static void greedy_takes_the_largest_and_of_equals_the_lowest(void **state) {
    (void)state;
    const float logits[] = {-1, 3, 2, 3, 3, -7};
    for (int64_t i = 0; i < 10; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 0, .top_p = 1, .seed = 5}, logits, 6, i), 1);
}

static void tokens_come_as_often_as_the_softmax_says(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 1, .seed = 1}, logits, probabilities);
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
    /* As it goes to 0, what is left is greedy; the smallest double divides to infinity and must not give a NaN. */
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 5e-324, .top_p = 1, .seed = 2}, logits, N, i), 2);
}

/* The third of k = 3 is one of three equals: the one with the lowest id, token 0. */
static void top_k_keeps_the_k_most_likely(void **state) {
    (void)state;
    float logits[N] = {0};
    make_logits(logits);
    logits[4] = logits[7] = logits[0];
    const double kept[N] = {1 / 7., 0, 4 / 7., 0, 0, 2 / 7., 0, 0};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_k = 3, .top_p = 1, .seed = 3}, logits, kept);
    assert_distribution(&(sw_sampling){.temperature = 1, .top_k = 1000, .top_p = 1, .seed = 3}, logits, probabilities);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 9, .top_k = 1, .top_p = 1, .seed = 3}, logits, N, i), 2);
}

/* 0.4 + 0.2 reach 0.55; 0.4 alone does not. */
static void top_p_keeps_the_fewest_that_reach_it(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    const double kept[N] = {0, 0, 2 / 3., 0, 0, 1 / 3., 0, 0};
    assert_distribution(&(sw_sampling){.temperature = 1, .top_p = 0.55, .seed = 4}, logits, kept);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 1, .top_p = 1e-9, .seed = 4}, logits, N, i), 2);
    /* Of the two that top_k leaves, 2/3 and 1/3, the first alone reaches 0.6. */
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(draw(&(sw_sampling){.temperature = 1, .top_k = 2, .top_p = 0.6, .seed = 4}, logits, N, i), 2);
}

static void a_draw_depends_on_seed_and_index_alone(void **state) {
    (void)state;
    float logits[N];
    make_logits(logits);
    int n_same_seed = 0, n_same_index = 0;
    const sw_sampling one = {.temperature = 1, .top_p = 1, .seed = 10}, other = {.temperature = 1, .top_p = 1, .seed = 11};
    for (int64_t i = 999; i >= 0; i--) {
        assert_int_equal(draw(&one, logits, N, i), draw(&one, logits, N, i));
        n_same_seed += draw(&one, logits, N, i) == draw(&other, logits, N, i);
        n_same_index += draw(&one, logits, N, i) == draw(&one, logits, N, i + 1);
    }
    /* Independent draws agree with the sum of squared probabilities, 0.2342: 234 of 1000, deviation 13. */
    assert_in_range(n_same_seed, 234 - 80, 234 + 80);
    assert_in_range(n_same_index, 234 - 80, 234 + 80);
}

/* The ranking pops in order: with the k-th least likely kept last, every token of a large vocabulary is where a sort would put
 * it. */
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
        assert_true(is_kept[draw(&(sw_sampling){.temperature = 1, .top_k = K, .top_p = 1, .seed = 6}, logits, V, i)]);
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
        assert_int_equal(sw_sample(&(sw_sampling){.temperature = 0, .top_p = 1}, logits, 4, 0, work, &token, &err), SW_BAD_FILE);
        assert_non_null(strstr(err.message, "token 2"));
    }
}

static void settings_out_of_range_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        sw_sampling sampling;
        const char *name;
    } cases[] = {{{-1, 0, 1, 0}, "temperature"}, {{NAN, 0, 1, 0}, "temperature"}, {{INFINITY, 0, 1, 0}, "temperature"},
                 {{1, -1, 1, 0}, "top_k"},       {{1, 0, 0, 0}, "top_p"},         {{1, 0, 1.5, 0}, "top_p"},
                 {{1, 0, NAN, 0}, "top_p"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_error err;
        assert_int_equal(sw_sampling_check(&cases[i].sampling, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, cases[i].name));
    }
    assert_int_equal(sw_sampling_check(&(sw_sampling){0.8, 40, 0.95, 1}, NULL), SW_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_of_equals_the_lowest),
        cmocka_unit_test(tokens_come_as_often_as_the_softmax_says),
        cmocka_unit_test(temperature_divides_the_logits),
        cmocka_unit_test(top_k_keeps_the_k_most_likely),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_it),
        cmocka_unit_test(a_draw_depends_on_seed_and_index_alone),
        cmocka_unit_test(the_ranking_of_a_large_vocabulary_is_that_of_a_sort),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error_with_the_id),
        cmocka_unit_test(settings_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
