/* Cross-entropy in chunks: the chunk changes memory, not results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "device/sizes.h"
#include "support/device_case.h"

static const device_shape shape = {.n = 70, .C = 48, .V = 300};
static const int64_t chunks[] = {70, 1, 7, 64, 69, 256};
enum { N_CHUNKS = sizeof chunks / sizeof *chunks, LOGITS = 3, LOSS = 4, DX = 5, DHEAD = 6 };

/* The case with a chunk, and every target (supervised 2), half of them (1) or none (0). */
static device_case make(sw_arena *arena, sw_kernel kernel, const sw_device *oracle, int64_t chunk,
                        int supervised) {
    device_case c = device_make(arena, kernel, &shape, oracle, 5);
    c.dim[3] = chunk;
    c.operand[LOGITS].n = chunk * shape.V;
    c.operand[LOGITS].value = sw_arena_take(arena, sizeof(double) * (size_t)c.operand[LOGITS].n);
    for (int64_t t = 0; t < shape.n; t++)
        c.operand[2].value[t] = supervised == 0 || (supervised == 1 && (t % 2 || t < 30))
                                    ? -1
                                    : (double)(t * 37 % shape.V);
    return c;
}

static void chunks_change_nothing(void **state) {
    (void)state;
    sw_device *oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN),
              *device = device_open(sw_kernel_set_best(), SW_GEMM_BLAS);
    for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++)
        for (int supervised = 0; supervised < 3; supervised++)
            for (int add = 0; add < 2; add++) {
                sw_arena arena = {0};
                double *whole[SW_MAX_OPERANDS], *got[SW_MAX_OPERANDS], *loss[SW_MAX_OPERANDS];
                for (int i = 0; i < N_CHUNKS; i++) {
                    device_case c =
                        make(&arena, SW_KERNEL_CROSS_ENTROPY_GRAD, oracle, chunks[i], supervised);
                    device_case forward =
                        make(&arena, SW_KERNEL_CROSS_ENTROPY, oracle, chunks[i], supervised);
                    c.accumulate = add ? 1u << DHEAD : 0;
                    device_round(&c, (sw_number_kind)numbers);
                    device_round(&forward, (sw_number_kind)numbers);
                    device_run(&arena, device, (sw_number_kind)numbers, &c, i == 0 ? whole : got);
                    device_run(&arena, device, (sw_number_kind)numbers, &forward, loss);
                    const double *now = (i == 0 ? whole : got)[LOSS];
                    assert_true(fabs(loss[LOSS][0] - now[0]) <= 1e-6 * fabs(now[0]));
                    if (i == 0)
                        continue;
                    /* sums that are all but equal may round to neighbours: a whole unit of bf16
                     * apart */
                    const double bound = numbers == SW_NUMBERS_BF16 ? 0x1p-7 : 1e-6;
                    for (int o = LOSS; o <= DHEAD; o++)
                        if (!(device_distance(&c, (sw_number_kind)numbers, o, got[o], whole[o]) <=
                              bound))
                            fail_msg(
                                "chunk %ld, supervised %d, operand %d: off by %g", (long)chunks[i],
                                supervised, o,
                                device_distance(&c, (sw_number_kind)numbers, o, got[o], whole[o]));
                }
                sw_arena_free(&arena);
            }
    device->close(device);
    oracle->close(oracle);
}

/* Nothing supervised: loss and dx are zero, dhead is zero or what it was. */
static void no_targets_no_gradient(void **state) {
    (void)state;
    sw_device *oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    for (int add = 0; add < 2; add++)
        for (int i = 0; i < N_CHUNKS; i++) {
            sw_arena arena = {0};
            double *got[SW_MAX_OPERANDS];
            device_case c = make(&arena, SW_KERNEL_CROSS_ENTROPY_GRAD, oracle, chunks[i], 0);
            c.accumulate = add ? 1u << DHEAD : 0;
            device_run(&arena, oracle, SW_NUMBERS_F64, &c, got);
            assert_true(got[LOSS][0] == 0);
            for (int64_t j = 0; j < c.operand[DX].n; j++)
                assert_true(got[DX][j] == 0);
            for (int64_t j = 0; j < c.operand[DHEAD].n; j++)
                assert_true(got[DHEAD][j] == (add ? c.operand[DHEAD].value[j] : 0));
            sw_arena_free(&arena);
        }
    oracle->close(oracle);
}

_Alignas(64) static char workspace[SW_PRODUCT_WORKSPACE];

/* Logits far apart neither overflow nor lose a target: loss = 200 where a wrong word leads by 200,
 * 0 where the right one does. */
static void large_logits_stay_finite(void **state) {
    (void)state;
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    const float x[2] = {200, 200}, head[3] = {0, 1, -1};
    const int32_t targets[2] = {0, 1};
    float logits[6], dx[2], dhead[3];
    double loss;
    const sw_scalars scalars = {.loss_scale = 1};
    sw_kernel_call call = {
        .operand = {(void *)x, (void *)head, (void *)targets, logits, &loss, dx, dhead},
        .dim = {2, 3, 1, 2},
        .scratch = workspace,
        .scalars = &scalars};
    sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_CROSS_ENTROPY_GRAD)(device, &call);
    assert_true(fabs(loss - 200) < 1e-4);
    assert_true(fabsf(dx[0] - 1) < 1e-6f && fabsf(dx[1]) < 1e-6f);
    assert_true(fabsf(dhead[0] + 200) < 1e-3f && fabsf(dhead[1] - 200) < 1e-3f &&
                fabsf(dhead[2]) < 1e-6f);
    device->close(device);
}

/* A NaN among the inputs shows in the loss: guards look for it there. */
static void not_a_number_reaches_the_loss(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        for (int place = 0; place < 70; place++) {
            float x[1] = {1}, head[70] = {0}, logits[70];
            const int32_t target = 69;
            double loss = 0;
            head[place] = sw_bits_float(place % 2 ? 0xffffffffu : 0x7fc00001u);
            sw_kernel_call call = {.operand = {x, head, (void *)&target, logits, &loss},
                                   .dim = {1, 70, 1, 1},
                                   .scratch = workspace};
            sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_CROSS_ENTROPY)(device, &call);
            assert_true(isnan(loss));
        }
        device->close(device);
    }
}

static void the_chunk_depends_on_the_shape_alone(void **state) {
    (void)state;
    assert_int_equal(sw_cross_entropy_chunk(1024, 49152), 128);
    assert_int_equal(sw_cross_entropy_chunk(100, 49152), 100);
    for (int64_t n = 1; n < 5000; n += 77)
        for (int64_t V = 1; V < 300000; V = V * 3 + 1) {
            const int64_t chunk = sw_cross_entropy_chunk(n, V);
            assert_true(chunk >= 1 && chunk <= n);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_change_nothing),
        cmocka_unit_test(no_targets_no_gradient),
        cmocka_unit_test(large_logits_stay_finite),
        cmocka_unit_test(not_a_number_reaches_the_loss),
        cmocka_unit_test(the_chunk_depends_on_the_shape_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
