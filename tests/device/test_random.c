/* Dropout and normal numbers: functions of an index, whatever is computed beside it, with the
 * distribution that they promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/cpu/open.h"
#include "support/device_case.h"

enum { N = 1 << 20 };

static void normals(const sw_device *device, int64_t n, int64_t stream, int64_t first,
                    uint64_t seed, double std, float *y) {
    const sw_scalars scalars = {.seed = seed};
    sw_kernel_call call = {
        .operand = {y}, .dim = {n, stream, first}, .attribute = {std}, .scalars = &scalars};
    sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_NORMAL)(device, &call);
}

/* Bounds are five standard errors of each estimate over N draws. */
static void normals_are_normal(void **state) {
    (void)state;
    float *y = malloc(sizeof *y * N);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        normals(device, N, 1, 0, 1234, 1, y);
        double sum = 0, squares = 0, fourth = 0, neighbours = 0;
        int64_t beyond[4] = {0};
        for (int i = 0; i < N; i++) {
            const double x = (double)y[i];
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
            neighbours += i ? x * (double)y[i - 1] : 0;
            for (int k = 0; k < 4; k++)
                beyond[k] += fabs(x) > k + 1;
        }
        assert_true(fabs(sum / N) < 5 / sqrt(N));
        assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
        assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
        assert_true(fabs(neighbours / N) < 5 / sqrt(N));
        for (int k = 0; k < 4; k++) {
            const double p = erfc((k + 1) / sqrt(2));
            assert_true(fabs((double)beyond[k] / N - p) < 5 * sqrt(p * (1 - p) / N));
        }
        device->close(device);
    }
    free(y);
}

/* Against the recipe written out in double for single numbers, far counters included. */
static void normals_follow_the_recipe(void **state) {
    (void)state;
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    const int64_t firsts[] = {0, 1, 255, 256, 1001, ((int64_t)1 << 34) - 3, ((int64_t)1 << 40) + 2};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        float y[300];
        const int64_t stream = ((int64_t)5 << 32) + 9;
        normals(device, 300, stream, firsts[f], 99, 0.02, y);
        for (int i = 0; i < 300; i++) {
            const uint64_t index = (uint64_t)(firsts[f] + i), c = index / 4;
            const uint32_t counter[4] = {(uint32_t)c, (uint32_t)(c >> 32), (uint32_t)stream,
                                         (uint32_t)(stream >> 32)};
            uint32_t word[4];
            sw_philox(counter, sw_philox_key(99, SW_PURPOSE_INIT), word);
            const int pair = index % 4 / 2 * 2;
            const double u = word[pair] * 0x1p-32 + 0x1p-33, t = (int32_t)word[pair + 1] * 0x1p-32;
            const double expected =
                0.02 * sqrt(-2 * log(u)) * (index % 2 ? sin(2 * M_PI * t) : cos(2 * M_PI * t));
            assert_true(fabs((double)y[i] - expected) < 0.02 * 4e-4);
        }
    }
    device->close(device);
}

static void any_cut_gives_the_same_numbers(void **state) {
    (void)state;
    enum { n = 3000 };
    float whole[n], pieces[n], other[n];
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        normals(device, n, 4, 100, 5, 1, whole);
        uint64_t seed = 77;
        for (int at = 0; at < n;) {
            const int piece = 1 + (int)((device_random(&seed) + 1) * 300),
                      size = piece < n - at ? piece : n - at;
            normals(device, size, 4, 100 + at, 5, 1, pieces + at);
            at += size;
        }
        assert_memory_equal(whole, pieces, sizeof whole);
        normals(device, n, 5, 100, 5, 1, other);
        assert_true(memcmp(whole, other, sizeof whole) != 0);
        normals(device, n, 4, 100, 6, 1, other);
        assert_true(memcmp(whole, other, sizeof whole) != 0);
        device->close(device);
    }
}

static void drop(const sw_device *device, int64_t B, int64_t T, int64_t C, int64_t first_row,
                 double probability, const float *x, float *y) {
    const sw_scalars scalars = {.seed = 31, .first_row = first_row};
    sw_kernel_call call = {.operand = {(void *)x, y},
                           .dim = {B, T, C, 2},
                           .attribute = {probability},
                           .scalars = &scalars};
    sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_DROPOUT)(device, &call);
}

static void dropout_keeps_what_philox_keeps(void **state) {
    (void)state;
    enum { B = 3, T = 7, C = 101 };
    static float x[B * T * C], y[B * T * C];
    for (int i = 0; i < B * T * C; i++)
        x[i] = 1;
    const double probabilities[] = {0, 0.1, 0.5, 0.999};
    const int64_t rows[] = {0, 12345, ((int64_t)1 << 33) + 1};
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        for (int p = 0; p < 4; p++)
            for (int r = 0; r < 3; r++) {
                drop(device, B, T, C, rows[r], probabilities[p], x, y);
                for (int i = 0; i < B * T * C; i++) {
                    const bool keeps = sw_dropout_keeps(31, 2, rows[r] + i / (T * C), i % (T * C),
                                                        probabilities[p]);
                    assert_true(y[i] == (keeps ? (float)(1 / (1 - probabilities[p])) : 0));
                }
            }
        device->close(device);
    }
}

/* A row is dropped alike in whichever micro-batch it comes. */
static void dropout_follows_the_logical_row(void **state) {
    (void)state;
    enum { B = 4, T = 5, C = 33 };
    static float x[B * T * C], together[B * T * C], alone[B * T * C];
    uint64_t seed = 1;
    for (int i = 0; i < B * T * C; i++)
        x[i] = (float)device_random(&seed);
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    drop(device, B, T, C, 10, 0.3, x, together);
    for (int b = 0; b < B; b++)
        drop(device, 1, T, C, 10 + b, 0.3, x + b * T * C, alone + b * T * C);
    assert_memory_equal(together, alone, sizeof together);
    device->close(device);
}

static void dropout_keeps_its_share(void **state) {
    (void)state;
    float *x = malloc(sizeof *x * N), *y = malloc(sizeof *y * N);
    for (int i = 0; i < N; i++)
        x[i] = 1;
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    const double probabilities[] = {0.1, 0.5, 0.9};
    for (int p = 0; p < 3; p++) {
        drop(device, 16, N / 16 / 64, 64, 0, probabilities[p], x, y);
        int64_t kept = 0;
        for (int i = 0; i < N; i++)
            kept += y[i] != 0;
        assert_true(fabs((double)kept / N - (1 - probabilities[p])) <
                    5 * sqrt(probabilities[p] * (1 - probabilities[p]) / N));
    }
    free(x), free(y);
    device->close(device);
}

/* Which weights are dropped is a share `p` of them, and knows nothing of its neighbours in any
 * direction: of the key, the query, the head, the row, the call and the seed. Bounds are five
 * standard errors. */
static void attention_drops_a_share_of_its_weights_at_random(void **state) {
    (void)state;
    enum { KEYS = 512, QUERIES = 512 };
    const double p = 0.1;
    static bool dropped[QUERIES][KEYS];
    struct {
        const char *name;
        uint64_t seed;
        int64_t stream, row, head, query, key; /* what is added */
    } neighbours[] = {{"key", 0, 0, 0, 0, 0, 1},   {"key + 4", 0, 0, 0, 0, 0, 4},
                      {"query", 0, 0, 0, 0, 1, 0}, {"head", 0, 0, 0, 1, 0, 0},
                      {"row", 0, 0, 1, 0, 0, 0},   {"call", 0, 1, 0, 0, 0, 0},
                      {"seed", 1, 0, 0, 0, 0, 0},  {"far row", 0, 0, INT64_C(1) << 32, 0, 0, 0}};
    int64_t n_dropped = 0;
    for (int64_t t = 0; t < QUERIES; t++)
        for (int64_t j = 0; j < KEYS; j++)
            n_dropped += dropped[t][j] = !sw_attention_keeps(1234, 7, 99, 3, t, j, p);
    const double n = (double)QUERIES * KEYS;
    assert_true(fabs((double)n_dropped / n - p) < 5 * sqrt(p * (1 - p) / n));
    for (size_t i = 0; i < sizeof neighbours / sizeof *neighbours; i++) {
        int64_t n_both = 0;
        for (int64_t t = 0; t < QUERIES; t++)
            for (int64_t j = 0; j < KEYS; j++)
                n_both += dropped[t][j] &&
                          !sw_attention_keeps(1234 + neighbours[i].seed, 7 + neighbours[i].stream,
                                              99 + neighbours[i].row, 3 + neighbours[i].head,
                                              t + neighbours[i].query, j + neighbours[i].key, p);
        const double share = (double)n_both / n, bound = 5 * sqrt(p * p * (1 - p * p) / n);
        if (!(fabs(share - p * p) < bound))
            fail_msg(
                "a weight and its neighbour by %s are both dropped in %.5f of all places, not %.5f",
                neighbours[i].name, share, p * p);
    }
}

/* With equal scores and values of 1, what comes out is the share of weights that are kept / (1 -
 * p): 1 on average, for any p. */
static void attention_keeps_its_expectation(void **state) {
    (void)state;
    enum { B = 4, T = 256, H = 4, D = 8 };
    static float q[B * T * H * D], v[B * T * H * D], out[B * T * H * D], log_sum[B * H * T];
    for (int i = 0; i < B * T * H * D; i++)
        v[i] = 1;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (int p = 1; p <= 9 && sw_kernel_set_runs_here((sw_kernel_set)set); p += 4) {
            sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
            const sw_scalars scalars = {.seed = 8, .first_row = 77};
            sw_kernel_call call = {.operand = {q, q, v, out, log_sum},
                                   .dim = {B, T, H, H, D, H * D, H * D, 0, SW_MASK_FULL},
                                   .attribute = {1, p / 10.0, 1},
                                   .scalars = &scalars};
            void *scratch = NULL;
            const int64_t bytes =
                sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, call.dim, SW_NUMBERS_F32, 1);
            assert_int_equal(posix_memalign(&scratch, 64, (size_t)bytes), 0);
            call.scratch = scratch;
            sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_ATTENTION)(device, &call);
            double sum = 0, squares = 0;
            for (int i = 0; i < B * T * H; i++) {
                sum += (double)out[i * D];
                squares += (double)out[i * D] * (double)out[i * D];
            }
            /* the mean of T weights, each 1 / (1 - p) with probability 1 - p */
            const double n = B * T * H, variance = p / (10.0 - p) / T;
            assert_true(fabs(sum / n - 1) < 5 * sqrt(variance / n));
            assert_true(fabs(squares / n - sum * sum / n / n - variance) <
                        5 * variance * sqrt(2 / n) + 1e-3 * variance);
            free(scratch);
            device->close(device);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normals_are_normal),
        cmocka_unit_test(normals_follow_the_recipe),
        cmocka_unit_test(any_cut_gives_the_same_numbers),
        cmocka_unit_test(dropout_keeps_what_philox_keeps),
        cmocka_unit_test(dropout_follows_the_logical_row),
        cmocka_unit_test(dropout_keeps_its_share),
        cmocka_unit_test(attention_drops_a_share_of_its_weights_at_random),
        cmocka_unit_test(attention_keeps_its_expectation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
