/* Sharded parameters of a caller who computes: values, sums, norm, optimizer and misuse, against
 * arithmetic, for 1, 2, 3, 4 and 7 ranks as processes. test_sharded_threads.c runs the same with
 * threads. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise/sharded.h>

#include "support/comm_ranks.h"

#ifndef AS_THREADS
#define AS_THREADS false
#endif

static const int rank_counts[] = {1, 2, 3, 4, 7};
enum { N_RANK_COUNTS = sizeof rank_counts / sizeof *rank_counts };

/* ---- a model whose shapes divide by nothing ---- */

enum {
    N_UNITS = 4,
    N_PARAMETERS = 8,
    MOST_ELEMENTS = 3000,
    ALL_ELEMENTS = 1 + 3 + 35 + 257 + 210 + 3000 + 513 + 1
};

static const struct shape {
    const char *name;
    int unit, n_dimensions;
    int64_t dimension[4], n_elements;
} shapes[N_PARAMETERS] = {
    {"a", 0, 1, {1}, 1},
    {"b", 0, 1, {3}, 3},
    {"c", 1, 2, {5, 7}, 35},
    {"d", 1, 1, {257}, 257},
    {"e", 1, 4, {2, 3, 5, 7}, 210},
    {"f", 2, 2, {1000, 3}, 3000},
    {"g", 2, 1, {513}, 513},
    {"h", 3, 2, {1, 1}, 1},
};

typedef struct model {
    sw_sharded *s;
    sw_unit *unit[N_UNITS];
    sw_parameter *parameter[N_PARAMETERS];
} model;

/* A small whole number for element i of a parameter. */
static float value_of(const char *name, int64_t i) {
    return (float)((name[0] * 13 + i * 7) % 101 - 50);
}

static sw_status fill(void *self, const char *name, int64_t first, int64_t n, float *values,
                      sw_error *err) {
    (void)self;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        values[i] = value_of(name, first + i);
    return SW_OK;
}

static const sw_initial filled = {.fill = fill}, zeros = {.initializer = SW_INIT_ZEROS};

static sw_sharded_options plain_sgd(void) {
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    options.optimizer = SW_SHARDED_SGD;
    return options;
}

static sw_status declare(sw_comm *comm, const sw_sharded_options *options, sw_initial initial,
                         model *m, sw_error *err) {
    char name[16];
    RANK_TRY(sw_sharded_create(comm, options, &m->s, err));
    for (int u = 0; u < N_UNITS; u++) {
        snprintf(name, sizeof name, "unit.%d", u);
        RANK_TRY(sw_sharded_add_unit(m->s, name, &m->unit[u], err));
    }
    for (int p = 0; p < N_PARAMETERS; p++)
        RANK_TRY(sw_sharded_add_parameter(m->s, m->unit[shapes[p].unit], shapes[p].name,
                                          shapes[p].n_dimensions, shapes[p].dimension, initial,
                                          &m->parameter[p], err));
    return SW_OK;
}

static sw_status create(sw_comm *comm, const sw_sharded_options *options, sw_initial initial,
                        model *m, sw_error *err) {
    RANK_TRY(declare(comm, options, initial, m, err));
    return sw_sharded_commit(m->s, err);
}

/* One round of gradients: element i of parameter p gets value(self, p, i) of this rank. */
typedef float (*gradient_fn)(const void *self, int p, int64_t i);

static sw_status give_gradients(model *m, gradient_fn value, const void *self, sw_error *err) {
    for (int u = N_UNITS - 1; u >= 0; u--) {
        for (int p = 0; p < N_PARAMETERS; p++) {
            float *gradient;
            if (shapes[p].unit != u)
                continue;
            RANK_TRY(sw_sharded_gradient(m->s, m->parameter[p], &gradient, err));
            for (int64_t i = 0; i < shapes[p].n_elements; i++)
                gradient[i] += value(self, p, i);
        }
        RANK_TRY(sw_sharded_reduce(m->s, m->unit[u], err));
    }
    return SW_OK;
}

static sw_status fetch_all(model *m, float *all, sw_error *err) {
    for (int p = 0; p < N_PARAMETERS; all += shapes[p++].n_elements)
        RANK_TRY(sw_sharded_fetch(m->s, m->parameter[p], all, err));
    return SW_OK;
}

/* ---- running ---- */

/* How ranks reach each other's memory; pages of threads cannot be protected. */
static sw_shm_mode mode_of_launch = SW_SHM_VIEW;
enum { N_MODES = AS_THREADS ? 2 : 3 };

static sw_status launch(sw_rank_fn fn, int n_ranks, void *arg, sw_error *err) {
    sw_launch_options options = comm_options(n_ranks, AS_THREADS);
    options.mode = mode_of_launch;
    return sw_launch(&options, fn, arg, err);
}

static void expect_ok(sw_status status, int n_ranks, const sw_error *err) {
    if (status != SW_OK)
        fail_msg("%d ranks: %s", n_ranks, err->message);
}

static void on_any_number_of_ranks(sw_rank_fn fn) {
    for (int i = 0; i < N_RANK_COUNTS; i++) {
        sw_error err = {0};
        expect_ok(launch(fn, rank_counts[i], NULL, &err), rank_counts[i], &err);
    }
}

/* Rank 0 leaves all parameters in `arg` [ALL_ELEMENTS]: they have the same bits for any number of
 * ranks. Ownership: the first run's, unmap. */
static float *same_bits_on_any_number_of_ranks(sw_rank_fn fn) {
    size_t bytes = ALL_ELEMENTS * sizeof(float);
    float *results =
        mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(results, MAP_FAILED);
    for (int i = 0; i < N_RANK_COUNTS; i++) {
        sw_error err = {0};
        expect_ok(launch(fn, rank_counts[i], results + (i > 0) * ALL_ELEMENTS, &err),
                  rank_counts[i], &err);
        if (i > 0)
            assert_memory_equal(results, results + ALL_ELEMENTS, bytes);
    }
    return results;
}

static void forget(float *results) {
    munmap(results, 2 * ALL_ELEMENTS * sizeof(float));
}

static void expect_failure(sw_rank_fn fn, int n_ranks, sw_status expected,
                           const char *const *texts) {
    sw_error err = {0};
    sw_status status = launch(fn, n_ranks, NULL, &err);
    if (status != expected)
        fail_msg("%s: %s", sw_status_name(status), err.message);
    for (; *texts; texts++)
        if (!strstr(err.message, *texts))
            fail_msg("'%s' is missing in: %s", *texts, err.message);
}

#define EXPECT_FAILURE(fn, n_ranks, status, ...) \
    expect_failure(fn, n_ranks, status, (const char *const[]){__VA_ARGS__, NULL})

/* ---- values ---- */

static sw_status gather_and_fetch(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    static _Thread_local float fetched[MOST_ELEMENTS];
    (void)arg;
    RANK_TRY(create(comm, &options, filled, &m, err));
    for (int round = 0; round < 2; round++) {
        for (int u = 0; u < N_UNITS; u++)
            RANK_TRY(sw_sharded_gather(m.s, m.unit[u], err));
        for (int p = 0; p < N_PARAMETERS; p++) {
            const float *values;
            RANK_TRY(sw_sharded_values(m.s, m.parameter[p], &values, err));
            RANK_TRY(sw_sharded_fetch(m.s, m.parameter[p], fetched,
                                      err)); /* while gathered, and below while not */
            for (int64_t i = 0; i < shapes[p].n_elements; i++)
                RANK_CHECK(values[i] == value_of(shapes[p].name, i) && fetched[i] == values[i]);
        }
        for (int u = 0; u < N_UNITS; u++)
            RANK_TRY(sw_sharded_release(m.s, m.unit[u], err));
        RANK_TRY(sw_sharded_fetch(m.s, m.parameter[5], fetched, err));
        for (int64_t i = 0; i < shapes[5].n_elements; i++)
            RANK_CHECK(fetched[i] == value_of("f", i));
    }
    sw_sharded_free(m.s);
    return SW_OK;
}

/* Any shape is taken, and a parameter smaller than the number of ranks leaves some of them empty
 * slices. */
static void values_are_those_given_wherever_cuts_fall(void **state) {
    (void)state;
    on_any_number_of_ranks(gather_and_fetch);
}

static sw_status draw(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    static _Thread_local float all[ALL_ELEMENTS];
    RANK_TRY(
        create(comm, &options, (sw_initial){.initializer = SW_INIT_NORMAL, .std = 0.5}, &m, err));
    RANK_TRY(fetch_all(&m, all, err));
    if (sw_comm_rank(comm) == 0)
        memcpy(arg, all, sizeof all);
    sw_sharded_free(m.s);
    return SW_OK;
}

static void
drawn_values_are_the_same_for_any_number_of_ranks_and_differ_from_each_other(void **state) {
    (void)state;
    float *values = same_bits_on_any_number_of_ranks(draw);
    double squares = 0;
    for (int i = 0; i < ALL_ELEMENTS; i++) {
        squares += values[i] * values[i];
        for (int j = 0; j < i && i - j <= 1024; j++) /* blocks of 256: neighbours and beyond */
            if (values[i] == values[j] && (i - j) % 256 == 0)
                fail_msg("elements %d and %d are both %g", j, i, (double)values[i]);
    }
    double deviation =
        sqrt(squares / ALL_ELEMENTS); /* 0.5, give or take five of 0.5 / sqrt(2 * 4020) */
    assert_true(deviation > 0.472 && deviation < 0.528);
    forget(values);
}

static sw_status refuse_to_fill(void *self, const char *name, int64_t first, int64_t n,
                                float *values, sw_error *err) {
    (void)self;
    (void)n;
    values[0] = 0;
    return !strcmp(name, "f") && first > 0
               ? sw_fail(err, SW_BAD_FILE, "f from %d on is not to be had", (int)first)
               : SW_OK;
}

static sw_status start_from_what_cannot_be_read(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    sw_status status = create(comm, &options, (sw_initial){.fill = refuse_to_fill}, &m, err);
    sw_sharded_free(m.s);
    return status;
}

static void one_ranks_failure_to_fill_is_everyones(void **state) {
    (void)state;
    EXPECT_FAILURE(start_from_what_cannot_be_read, 3, SW_BAD_FILE, "rank", "is not to be had");
}

/* ---- sums ---- */

static void sometimes_sleep(uint64_t *noise) {
    if (comm_random(noise) % 4 == 0)
        usleep(comm_random(noise) % 500);
}

/* Whole numbers: every sum is exact. */
static float whole(const void *rank, int p, int64_t i) {
    return (float)((*(const int *)rank * 17 + p * 5 + i * 3) % 29 - 14);
}

static sw_status sum_and_step(sw_comm *comm, void *arg, sw_error *err) {
    enum { STEPS = 3, SLOTS = 2 };
    model m;
    int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    uint64_t noise = (uint64_t)rank;
    sw_sharded_options options = plain_sgd();
    static _Thread_local float all[ALL_ELEMENTS];
    (void)arg;
    RANK_TRY(create(comm, &options, zeros, &m, err));
    for (int step = 0; step < STEPS; step++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            int which = rank + n_ranks * slot;
            sometimes_sleep(&noise);
            RANK_TRY(give_gradients(&m, whole, &which, err));
        }
        double norm, squares = 0;
        RANK_TRY(sw_sharded_step(m.s, 1, &norm, err));
        RANK_TRY(fetch_all(&m, all, err));
        const float *value = all;
        for (int p = 0; p < N_PARAMETERS; p++)
            for (int64_t i = 0; i < shapes[p].n_elements; i++, value++) {
                float sum = 0;
                for (int which = 0; which < n_ranks * SLOTS; which++)
                    sum += whole(&which, p, i);
                RANK_CHECK(*value == (float)-(step + 1) * sum);
                squares += (double)sum * (double)sum;
            }
        RANK_CHECK(norm == sqrt(squares));
    }
    sw_sharded_free(m.s);
    return SW_OK;
}

static void gradients_are_summed_over_ranks_and_slots_and_start_anew_each_step(void **state) {
    (void)state;
    on_any_number_of_ranks(sum_and_step);
}

/* A sum in bf16 would stay at 1, whose neighbour is 2^-7 away. */
enum { SMALL_ONES = 512 };

static float one_then_small(const void *micro_batch, int p, int64_t i) {
    const int k = *(const int *)micro_batch;
    (void)p;
    (void)i;
    return k == 0 ? 1.0f : k <= SMALL_ONES ? 0x1p-9f : 0.0f;
}

static sw_status sum_small_ones(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    const int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    sw_sharded_options options = plain_sgd();
    static _Thread_local float all[ALL_ELEMENTS];
    (void)arg;
    RANK_TRY(create(comm, &options, zeros, &m, err));
    for (int k = rank; k - rank <= SMALL_ONES; k += n_ranks)
        RANK_TRY(give_gradients(&m, one_then_small, &k, err));
    RANK_TRY(sw_sharded_step(m.s, 1, NULL, err));
    RANK_TRY(fetch_all(&m, all, err));
    for (int i = 0; i < ALL_ELEMENTS; i++)
        RANK_CHECK(all[i] == -(1 + SMALL_ONES * 0x1p-9f));
    sw_sharded_free(m.s);
    return SW_OK;
}

static void small_gradients_are_not_lost_beside_a_large_one(void **state) {
    (void)state;
    on_any_number_of_ranks(sum_small_ones);
}

static float pseudo_random(const void *micro_batch, int p, int64_t i) {
    uint64_t state =
        (uint64_t) * (const int *)micro_batch * 1000003 + (uint64_t)p * 10007 + (uint64_t)i;
    comm_random(&state);
    return (float)comm_random(&state) / 2147483648.0f - 0.3f;
}

static float nothing(const void *self, int p, int64_t i) {
    (void)self;
    (void)p;
    (void)i;
    return 0;
}

/* 12 micro-batches in turn; on 7 ranks some have none in the last slot. */
static sw_status train_on_micro_batches(sw_comm *comm, void *arg, sw_error *err) {
    enum { MICRO_BATCHES = 12, STEPS = 3 };
    model m;
    int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    static _Thread_local float all[ALL_ELEMENTS];
    options.clip_norm = 1;
    options.weight_decay = 0.1;
    RANK_TRY(
        create(comm, &options, (sw_initial){.initializer = SW_INIT_NORMAL, .std = 0.5}, &m, err));
    for (int step = 0; step < STEPS; step++) {
        for (int slot = 0; slot * n_ranks < MICRO_BATCHES; slot++) {
            int k = slot * n_ranks + rank, which = step * MICRO_BATCHES + k;
            RANK_TRY(give_gradients(&m, k < MICRO_BATCHES ? pseudo_random : nothing, &which, err));
        }
        RANK_TRY(sw_sharded_step(m.s, 0.01, NULL, err));
    }
    RANK_TRY(fetch_all(&m, all, err));
    if (rank == 0)
        memcpy(arg, all, sizeof all);
    sw_sharded_free(m.s);
    return SW_OK;
}

static void micro_batches_dealt_in_turn_give_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    forget(same_bits_on_any_number_of_ranks(train_on_micro_batches));
}

/* What the options of a matrix of cases are: set before a launch, as ranks are forked, or threads
 * of this process. */
static sw_sharded_options matrix_options;

static sw_status train_with_options(sw_comm *comm, void *arg, sw_error *err) {
    enum { MICRO_BATCHES = 12, STEPS = 3 };
    model m;
    int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    static _Thread_local float all[ALL_ELEMENTS];
    RANK_TRY(create(comm, &matrix_options, (sw_initial){.initializer = SW_INIT_NORMAL, .std = 0.5},
                    &m, err));
    for (int step = 0; step < STEPS; step++) {
        for (int slot = 0; slot * n_ranks < MICRO_BATCHES; slot++) {
            int k = slot * n_ranks + rank, which = step * MICRO_BATCHES + k;
            for (int u = 0; u < N_UNITS; u++)
                RANK_TRY(sw_sharded_gather(m.s, m.unit[u], err));
            for (int u = 0; u < N_UNITS; u++)
                RANK_TRY(sw_sharded_release(m.s, m.unit[u], err));
            RANK_TRY(give_gradients(&m, k < MICRO_BATCHES ? pseudo_random : nothing, &which, err));
        }
        RANK_TRY(sw_sharded_step(m.s, 0.01, NULL, err));
    }
    RANK_TRY(fetch_all(&m, all, err));
    if (rank == 0)
        memcpy(arg, all, sizeof all);
    else
        for (int i = 0; i < ALL_ELEMENTS; i++)
            RANK_CHECK(isfinite(all[i]));
    sw_sharded_free(m.s);
    return SW_OK;
}

/* Stages, ranks and threads move bytes and change none: one rank that holds everything is the
 * reference for each number type. */
static void every_stage_gives_the_bits_of_one_rank_alone(void **state) {
    (void)state;
    const size_t bytes = ALL_ELEMENTS * sizeof(float);
    float *results =
        mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(results, MAP_FAILED);
    for (int kind = 0; kind < 4; kind++) {
        sw_error err = {0};
        float *reference = results, *now = results + ALL_ELEMENTS,
              *of_fp32 = results + 2 * ALL_ELEMENTS;
        const bool is_bf16 = kind >= 2;
        matrix_options = (sw_sharded_options)SW_SHARDED_OPTIONS_INIT;
        matrix_options.clip_norm = 1;
        matrix_options.weight_decay = 0.1;
        matrix_options.optimizer = kind % 2 ? SW_SHARDED_SGD : SW_SHARDED_ADAMW;
        matrix_options.momentum = 0.9;
        matrix_options.parameter_dtype = is_bf16 ? SW_SHARDED_BF16 : SW_SHARDED_FP32;
        matrix_options.stage = 0;
        expect_ok(launch(train_with_options, 1, reference, &err), 1, &err);
        for (int stage = 0; stage <= 3; stage++)
            for (int i = 0; i < N_RANK_COUNTS; i++) {
                matrix_options.stage = stage;
                matrix_options.n_threads = 1 + (stage + i) % 3;
                mode_of_launch = (sw_shm_mode)((2 * stage + i + kind) % N_MODES);
                memset(now, 0, bytes);
                expect_ok(launch(train_with_options, rank_counts[i], now, &err), rank_counts[i],
                          &err);
                if (memcmp(reference, now, bytes) != 0)
                    fail_msg("kind %d, stage %d, %d ranks: other bits", kind, stage,
                             rank_counts[i]);
                mode_of_launch = SW_SHM_VIEW;
            }
        if (kind == 0)
            memcpy(of_fp32, reference, bytes);
        for (int i = 0; i < ALL_ELEMENTS && kind == 2;
             i++) /* masters are fp32: what is read is theirs, rounded */
            if (fabsf(reference[i] - of_fp32[i]) > fabsf(of_fp32[i]) / 256 + 1e-30f)
                fail_msg("element %d is %g in bf16 and %g in fp32", i, (double)reference[i],
                         (double)of_fp32[i]);
    }
    munmap(results, 3 * bytes);
}

static sw_status read_bf16(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    options.parameter_dtype = SW_SHARDED_BF16;
    (void)arg;
    for (options.stage = 0; options.stage <= 3; options.stage++) {
        RANK_TRY(create(comm, &options, filled, &m, err));
        for (int u = 0; u < N_UNITS; u++)
            RANK_TRY(sw_sharded_gather(m.s, m.unit[u], err));
        for (int p = 0; p < N_PARAMETERS; p++) {
            const uint16_t *values;
            const float *wrong;
            sw_error refusal;
            RANK_TRY(sw_sharded_values_bf16(m.s, m.parameter[p], &values, err));
            for (int64_t i = 0; i < shapes[p].n_elements;
                 i++) { /* whole numbers up to 50 are exact */
                const float expected = value_of(shapes[p].name, i);
                uint32_t bits;
                memcpy(&bits, &expected, sizeof bits);
                RANK_CHECK(values[i] == bits >> 16);
            }
            RANK_CHECK(sw_sharded_values(m.s, m.parameter[p], &wrong, &refusal) == SW_BAD_CONFIG);
        }
        sw_sharded_free(m.s);
    }
    return SW_OK;
}

static void values_may_be_bf16(void **state) {
    (void)state;
    on_any_number_of_ranks(read_bf16);
}

/* ---- files ---- */

enum { STEPS_BEFORE = 2, STEPS_AFTER = 2 };
static char save_folder[64];
static bool goes_on; /* from what is there */

static sw_status take_steps(model *m, int first, int n, int rank, int n_ranks, sw_error *err) {
    enum { MICRO_BATCHES = 8 };
    for (int step = first; step < first + n; step++) {
        for (int slot = 0; slot * n_ranks < MICRO_BATCHES; slot++) {
            int k = slot * n_ranks + rank, which = step * MICRO_BATCHES + k;
            RANK_TRY(give_gradients(m, k < MICRO_BATCHES ? pseudo_random : nothing, &which, err));
        }
        RANK_TRY(sw_sharded_step(m->s, 0.01, NULL, err));
    }
    return SW_OK;
}

/* Four steps, with a checkpoint after two; or the last two, from that. */
static sw_status save_or_go_on(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    static _Thread_local float all[ALL_ELEMENTS];
    int64_t loaded = -1;
    const sw_initial initial =
        goes_on ? zeros : (sw_initial){.initializer = SW_INIT_NORMAL, .std = 0.5};
    RANK_TRY(declare(comm, &matrix_options, initial, &m, err));
    RANK_TRY(sw_sharded_commit(m.s, err));
    if (goes_on) {
        RANK_TRY(sw_sharded_load(m.s, save_folder, -1, &loaded, err));
        RANK_CHECK(loaded == STEPS_BEFORE);
    } else {
        RANK_TRY(sw_sharded_save(m.s, save_folder, err)); /* before the first step too */
        RANK_TRY(take_steps(&m, 0, STEPS_BEFORE, rank, n_ranks, err));
        RANK_TRY(sw_sharded_save(m.s, save_folder, err));
    }
    RANK_TRY(take_steps(&m, STEPS_BEFORE, STEPS_AFTER, rank, n_ranks, err));
    RANK_TRY(fetch_all(&m, all, err));
    if (rank == 0)
        memcpy(arg, all, sizeof all);
    sw_sharded_free(m.s);
    return SW_OK;
}

/* Whoever saved, and whoever loads: as if nothing had come between. */
static void a_checkpoint_goes_on_with_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    const size_t bytes = ALL_ELEMENTS * sizeof(float);
    float *results =
        mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(results, MAP_FAILED);
    float *reference = results, *now = results + ALL_ELEMENTS;
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < N_RANK_COUNTS; i++) {
            sw_error err = {0};
            matrix_options = (sw_sharded_options)SW_SHARDED_OPTIONS_INIT;
            matrix_options.optimizer = kind % 2 ? SW_SHARDED_SGD : SW_SHARDED_ADAMW;
            matrix_options.momentum = 0.9;
            matrix_options.clip_norm = 1;
            matrix_options.parameter_dtype = kind >= 2 ? SW_SHARDED_BF16 : SW_SHARDED_FP32;
            matrix_options.stage = (i + kind) % 4;
            snprintf(save_folder, sizeof save_folder, "/tmp/sharded-%d-%d", (int)getpid(),
                     kind * N_RANK_COUNTS + i);
            goes_on = false;
            expect_ok(launch(save_or_go_on, rank_counts[i], reference, &err), rank_counts[i], &err);
            goes_on = true;
            for (int j = 0; j < N_RANK_COUNTS; j++) {
                matrix_options.stage = (i + j) % 4;
                mode_of_launch = (sw_shm_mode)((2 * i + j) % N_MODES);
                memset(now, 0, bytes);
                expect_ok(launch(save_or_go_on, rank_counts[j], now, &err), rank_counts[j], &err);
                if (memcmp(reference, now, bytes) != 0)
                    fail_msg("kind %d, saved by %d ranks, loaded by %d: other bits", kind,
                             rank_counts[i], rank_counts[j]);
                mode_of_launch = SW_SHM_VIEW;
            }
            char command[128];
            snprintf(command, sizeof command, "rm -rf %s", save_folder);
            assert_int_equal(system(command), 0);
        }
    munmap(results, 2 * bytes);
}

static sw_status load_into(sw_sharded *s, int which, sw_error *err) {
    sw_unit *unit;
    sw_parameter *parameter, *frozen;
    float *gradient;
    RANK_TRY(sw_sharded_add_unit(s, "u", &unit, err));
    RANK_TRY(sw_sharded_add_parameter(s, unit, which == 2 ? "other" : "p", 1,
                                      (int64_t[]){which == 3 ? 5 : 600}, zeros, &parameter, err));
    RANK_TRY(sw_sharded_add_parameter(s, unit, "frozen", 1, (int64_t[]){300}, zeros, &frozen, err));
    sw_parameter_freeze(frozen);
    RANK_TRY(sw_sharded_commit(s, err));
    if (which == 0)
        RANK_TRY(sw_sharded_save(s, save_folder, err));
    if (which == 4)
        RANK_TRY(sw_sharded_gather(s, unit, err));
    if (which == 5) {
        RANK_TRY(sw_sharded_gradient(s, parameter, &gradient, err));
        RANK_TRY(sw_sharded_reduce(s, unit, err));
        return sw_sharded_save(s, save_folder, err);
    }
    return sw_sharded_load(s, which == 6 ? "/tmp" : save_folder, which == 7 ? 12 : -1, NULL, err);
}

static sw_status load_what_does_not_fit(sw_comm *comm, void *arg, sw_error *err) {
    const int which = *(const int *)arg;
    sw_sharded_options options =
        which == 1 ? plain_sgd() : (sw_sharded_options)SW_SHARDED_OPTIONS_INIT;
    sw_sharded *s;
    options.momentum = which == 1 ? 0.9 : 0;
    RANK_TRY(sw_sharded_create(comm, &options, &s, err));
    sw_status status = load_into(s, which, err);
    sw_sharded_free(s);
    return status;
}

static void what_does_not_fit_is_refused_by_name(void **state) {
    (void)state;
    static const char *const words[] = {NULL,
                                        "momentum.safetensors",
                                        "other",
                                        "p",
                                        "is gathered",
                                        "has gradients",
                                        "no whole checkpoint",
                                        "00000012"};
    snprintf(save_folder, sizeof save_folder, "/tmp/sharded-%d", (int)getpid());
    for (int which = 0; which < 8; which++) {
        sw_error err = {0};
        sw_status status = launch(load_what_does_not_fit, 2, &which, &err);
        if (!status != !words[which] || (words[which] && !strstr(err.message, words[which])) ||
            (status && status != (which == 4 || which == 5 ? SW_BAD_CONFIG : SW_BAD_FILE)))
            fail_msg("%d: %s: %s", which, sw_status_name(status), err.message);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", save_folder);
    assert_int_equal(system(command), 0);
}

static sw_status leave_out_gradients(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    int one = 1;
    sw_sharded_options options = plain_sgd();
    static _Thread_local float before[ALL_ELEMENTS], after[ALL_ELEMENTS];
    float *gradient;
    (void)arg;
    RANK_TRY(create(comm, &options, filled, &m, err));
    RANK_TRY(give_gradients(&m, whole, &one, err)); /* buffers hold something */
    RANK_TRY(sw_sharded_step(m.s, 1, NULL, err));
    RANK_TRY(fetch_all(&m, before, err));
    for (int u = 0; u < N_UNITS; u++) {
        static const int first[N_UNITS] = {0, 2, 5,
                                           7}; /* one parameter of each unit is asked for */
        RANK_TRY(sw_sharded_gradient(m.s, m.parameter[first[u]], &gradient, err));
        if (u == 1 && sw_comm_rank(comm) == 0)
            gradient[34] = 8;
        RANK_TRY(sw_sharded_reduce(m.s, m.unit[u], err));
    }
    RANK_TRY(sw_sharded_step(m.s, 1, NULL, err));
    RANK_TRY(fetch_all(&m, after, err));
    before[1 + 3 + 34] -= 8;
    RANK_CHECK(memcmp(before, after, sizeof after) == 0);
    sw_sharded_free(m.s);
    return SW_OK;
}

static void what_no_rank_writes_contributes_zeros(void **state) {
    (void)state;
    on_any_number_of_ranks(leave_out_gradients);
}

/* ---- norm and clipping ---- */

/* Unit "u" with a [1], b [1] and bias [1]: a and b are blocks of their own, so two ranks own one
 * each. */
static sw_status create_scalars(sw_comm *comm, const sw_sharded_options *options, sw_sharded **s,
                                sw_unit **unit, sw_parameter *parameter[3], sw_error *err) {
    static const char *const names[3] = {"a", "b", "bias"};
    RANK_TRY(sw_sharded_create(comm, options, s, err));
    RANK_TRY(sw_sharded_add_unit(*s, "u", unit, err));
    for (int p = 0; p < 3; p++)
        RANK_TRY(sw_sharded_add_parameter(*s, *unit, names[p], 1, (int64_t[]){1}, zeros,
                                          &parameter[p], err));
    return sw_sharded_commit(*s, err);
}

static sw_status clip_3_and_4(sw_comm *comm, void *arg, sw_error *err) {
    int rank = sw_comm_rank(comm), n_ranks = sw_comm_size(comm);
    (void)arg;
    for (int has_bias = 0; has_bias < 2; has_bias++) {
        sw_sharded *s;
        sw_unit *unit;
        sw_parameter *parameter[3];
        float *gradient, value[3];
        double norm, expected = has_bias ? sqrt(25 + n_ranks * n_ranks) : 5;
        sw_sharded_options options = plain_sgd();
        options.clip_norm = 1;
        RANK_TRY(create_scalars(comm, &options, &s, &unit, parameter, err));
        RANK_TRY(sw_sharded_gradient(s, parameter[0], &gradient, err));
        if (rank == 0)
            *gradient = 3;
        RANK_TRY(sw_sharded_gradient(s, parameter[1], &gradient, err));
        if (rank == (n_ranks > 1))
            *gradient = 4;
        RANK_TRY(sw_sharded_gradient(s, parameter[2], &gradient, err));
        *gradient = (float)has_bias; /* every rank has a share */
        RANK_TRY(sw_sharded_reduce(s, unit, err));
        RANK_TRY(sw_sharded_step(s, 1, &norm, err));
        RANK_CHECK(norm == expected);
        for (int p = 0; p < 3; p++)
            RANK_TRY(sw_sharded_fetch(s, parameter[p], &value[p], err));
        RANK_CHECK(fabs(value[0] + 3 / expected) < 1e-6 && fabs(value[1] + 4 / expected) < 1e-6);
        RANK_CHECK(fabs(value[2] + has_bias * n_ranks / expected) < 1e-6);
        sw_sharded_free(s);
    }
    return SW_OK;
}

/* Gradient 3 in one slice and 4 in another: norm 5; clipped to 1, 0.6 and 0.8. A bias that all
 * ranks add to counts once. */
static void the_norm_is_global_and_counts_each_element_once(void **state) {
    (void)state;
    on_any_number_of_ranks(clip_3_and_4);
}

static sw_status give(sw_sharded *s, sw_unit *unit, sw_parameter *parameter, float value,
                      sw_error *err) {
    float *gradient;
    RANK_TRY(sw_sharded_gradient(s, parameter, &gradient, err));
    *gradient = value;
    return sw_sharded_reduce(s, unit, err);
}

static sw_status step_over_nan(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded *s;
    sw_unit *unit;
    sw_parameter *parameter[3];
    float value;
    double norm;
    bool is_last = sw_comm_rank(comm) == sw_comm_size(comm) - 1;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT; /* AdamW */
    (void)arg;
    RANK_TRY(create_scalars(comm, &options, &s, &unit, parameter, err));
    RANK_TRY(give(s, unit, parameter[1], is_last ? NAN : 1, err));
    RANK_TRY(sw_sharded_step(s, 0.5, &norm, err));
    RANK_TRY(sw_sharded_fetch(s, parameter[1], &value, err));
    RANK_CHECK(isnan(norm) && value == 0);
    RANK_TRY(give(s, unit, parameter[1], is_last ? INFINITY : 1, err));
    RANK_TRY(sw_sharded_step(s, 0.5, &norm, err));
    RANK_CHECK(!isfinite(norm));
    RANK_TRY(give(s, unit, parameter[1], is_last ? 4 : 0,
                  err)); /* the first that counts: p = -lr g / (|g| + epsilon) */
    RANK_TRY(sw_sharded_step(s, 0.5, &norm, err));
    RANK_TRY(sw_sharded_fetch(s, parameter[1], &value, err));
    RANK_CHECK(norm == 4 && fabsf(value + 0.5f) < 1e-6f);
    sw_sharded_free(s);
    return SW_OK;
}

static void a_step_with_nan_on_one_rank_changes_nothing_anywhere(void **state) {
    (void)state;
    on_any_number_of_ranks(step_over_nan);
}

/* ---- optimizers, against their formulas in double ---- */

static float gradient_at(const void *step, int p, int64_t i) {
    int which = *(const int *)step * 3 + 1;
    return pseudo_random(&which, p, i);
}

static sw_status follow_optimizer(sw_comm *comm, const sw_sharded_options *o, sw_error *err) {
    enum { STEPS = 4 };
    model m;
    const double rate = 0.05;
    bool is_adamw = o->optimizer == SW_SHARDED_ADAMW;
    static _Thread_local float all[ALL_ELEMENTS];
    RANK_TRY(create(comm, o, filled, &m, err));
    for (int step = 0; step < STEPS; step++) {
        RANK_TRY(give_gradients(&m, sw_comm_rank(comm) == 0 ? gradient_at : nothing, &step, err));
        RANK_TRY(sw_sharded_step(m.s, rate, NULL, err));
    }
    RANK_TRY(fetch_all(&m, all, err));
    const float *value = all;
    for (int p = 0; p < N_PARAMETERS; p++)
        for (int64_t i = 0; i < shapes[p].n_elements; i++, value++) {
            double w = value_of(shapes[p].name, i), first = 0, second = 0,
                   decay = shapes[p].n_dimensions > 1 ? o->weight_decay : 0;
            for (int step = 0; step < STEPS; step++) {
                double g = gradient_at(&step, p, i);
                if (is_adamw) {
                    w -= rate * decay * w;
                    first = o->beta1 * first + (1 - o->beta1) * g;
                    second = o->beta2 * second + (1 - o->beta2) * g * g;
                    w -= rate * first / (1 - pow(o->beta1, step + 1)) /
                         (sqrt(second / (1 - pow(o->beta2, step + 1))) + o->epsilon);
                } else {
                    first = o->momentum * first + g + decay * w;
                    w -= rate * first;
                }
            }
            RANK_CHECK(fabs(*value - w) < 1e-5 * (1 + fabs(w)));
        }
    sw_sharded_free(m.s);
    return SW_OK;
}

static sw_status follow_adamw(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    options.beta1 = 0.8;
    options.weight_decay = 0.1;
    return follow_optimizer(comm, &options, err);
}

static sw_status follow_sgd(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded_options options = plain_sgd();
    (void)arg;
    options.momentum = 0.9;
    options.weight_decay = 0.1;
    return follow_optimizer(comm, &options, err);
}

/* On 7 ranks some slices are empty, and of others only the end or the beginning is a parameter: all
 * elements are updated nevertheless. */
static void adamw_follows_its_formula_in_every_slice(void **state) {
    (void)state;
    on_any_number_of_ranks(follow_adamw);
}

static void sgd_with_momentum_follows_its_formula_in_every_slice(void **state) {
    (void)state;
    on_any_number_of_ranks(follow_sgd);
}

/* ---- frozen parameters, several objects ---- */

static sw_status keep_frozen(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    int rank = sw_comm_rank(comm), ranks = sw_comm_size(comm);
    sw_sharded_options options = plain_sgd();
    sw_error refused;
    float *gradient, all[3000];
    const float *values;
    (void)arg;
    RANK_TRY(declare(comm, &options, filled, &m, err));
    sw_parameter_freeze(m.parameter[4]); /* beside trainable ones */
    sw_parameter_freeze(m.parameter[7]); /* all of its unit */
    RANK_TRY(sw_sharded_commit(m.s, err));
    for (int step = 0; step < 2; step++) {
        RANK_CHECK(sw_sharded_gradient(m.s, m.parameter[4], &gradient, &refused) == SW_BAD_CONFIG &&
                   strstr(refused.message, "\"e\" is frozen"));
        RANK_CHECK(sw_sharded_gradient(m.s, m.parameter[7], &gradient, &refused) == SW_BAD_CONFIG);
        for (int u = 0; u < 3; u++) {
            static const int first[3] = {0, 2, 5};
            RANK_TRY(sw_sharded_gradient(m.s, m.parameter[first[u]], &gradient, err));
            gradient[0] = (float)rank;
            RANK_TRY(sw_sharded_reduce(m.s, m.unit[u], err));
        }
        RANK_TRY(sw_sharded_step(m.s, 1, NULL, err));
    }
    RANK_TRY(sw_sharded_gather(m.s, m.unit[1], err));
    RANK_TRY(sw_sharded_values(m.s, m.parameter[4], &values, err));
    for (int64_t i = 0; i < shapes[4].n_elements; i++)
        RANK_CHECK(values[i] == value_of("e", i));
    RANK_TRY(sw_sharded_values(m.s, m.parameter[2], &values, err));
    RANK_CHECK(values[0] ==
               value_of("c", 0) - (float)(ranks * (ranks - 1))); /* two steps of 0 + 1 + .. + n-1 */
    RANK_TRY(sw_sharded_release(m.s, m.unit[1], err));
    RANK_TRY(sw_sharded_fetch(m.s, m.parameter[7], all, err));
    RANK_CHECK(all[0] == value_of("h", 0));
    sw_sharded_free(m.s);
    return SW_OK;
}

static void frozen_parameters_keep_their_values_and_have_no_gradient(void **state) {
    (void)state;
    on_any_number_of_ranks(keep_frozen);
}

static sw_status use_two_objects(sw_comm *comm, void *arg, sw_error *err) {
    model m[2];
    sw_sharded_options options = plain_sgd();
    static _Thread_local float all[ALL_ELEMENTS];
    int one = 1;
    (void)arg;
    for (int k = 0; k < 2; k++)
        RANK_TRY(create(comm, &options, filled, &m[k], err));
    for (int step = 0; step < 2; step++) /* the second steps once, the first twice */
        for (int k = 0; k < 2 - step; k++) {
            RANK_TRY(give_gradients(&m[k], sw_comm_rank(comm) == 0 ? whole : nothing, &one, err));
            RANK_TRY(sw_sharded_step(m[k].s, 1, NULL, err));
        }
    for (int k = 0; k < 2; k++) {
        RANK_TRY(fetch_all(&m[k], all, err));
        const float *value = all;
        for (int p = 0; p < N_PARAMETERS; p++)
            for (int64_t i = 0; i < shapes[p].n_elements; i++)
                RANK_CHECK(*value++ ==
                           value_of(shapes[p].name, i) - (float)(2 - k) * whole(&one, p, i));
    }
    for (int k = 0; k < 2; k++)
        sw_sharded_free(m[k].s);
    return SW_OK;
}

static void two_objects_of_a_rank_do_not_disturb_each_other(void **state) {
    (void)state;
    on_any_number_of_ranks(use_two_objects);
}

/* ---- misuse ---- */

/* The call is refused as a mistake of the caller's, and the message has the text. */
#define REFUSED(call, text)                                                              \
    do {                                                                                 \
        sw_error refusal = {0};                                                          \
        sw_status refused = (call);                                                      \
        if (refused != SW_BAD_CONFIG || !strstr(refusal.message, text))                  \
            return sw_fail(err, SW_BUG, "line %d: %s: '%s' is missing in: %s", __LINE__, \
                           sw_status_name(refused), text, refusal.message);              \
    } while (0)

static sw_status misuse_before_commit(sw_comm *comm, sw_error *err) {
    model m;
    sw_sharded *none;
    sw_unit *unit;
    sw_parameter *parameter;
    const float *values;
    float *gradient, all[3000];
    double norm;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT, other = options;
    other.size = 8;
    REFUSED(sw_sharded_create(comm, &other, &none, &refusal), "SW_SHARDED_OPTIONS_INIT");
    other = options, other.beta2 = 1;
    REFUSED(sw_sharded_create(comm, &other, &none, &refusal), "beta2 1");
    other = options, other.clip_norm = NAN;
    REFUSED(sw_sharded_create(comm, &other, &none, &refusal), "clip_norm");
    other = options, other.n_gradient_buffers = 0;
    REFUSED(sw_sharded_create(comm, &other, &none, &refusal), "n_gradient_buffers is 0");
    other = options, other.optimizer = (sw_sharded_optimizer)7;
    REFUSED(sw_sharded_create(comm, &other, &none, &refusal), "optimizer 7");
    RANK_CHECK(none == NULL);

    RANK_TRY(sw_sharded_create(comm, &options, &none, err));
    REFUSED(sw_sharded_commit(none, &refusal), "no parameter was added");
    RANK_TRY(sw_sharded_add_unit(none, "u", &unit, err));
    REFUSED(sw_sharded_add_parameter(none, unit, "w", 2, (int64_t[]){3, 0}, zeros, &parameter,
                                     &refusal),
            "w");
    RANK_CHECK(parameter == NULL);
    sw_sharded_free(none);

    RANK_TRY(declare(comm, &options, zeros, &m, err));
    REFUSED(sw_sharded_add_unit(m.s, "unit.1", &unit, &refusal), "\"unit.1\" is added twice");
    REFUSED(
        sw_sharded_add_parameter(m.s, NULL, "w", 1, (int64_t[]){3}, zeros, &parameter, &refusal),
        "the unit is none of the 4");
    REFUSED(sw_sharded_gather(m.s, m.unit[0], &refusal),
            "sw_sharded_gather is called before sw_sharded_commit");
    REFUSED(sw_sharded_values(m.s, m.parameter[0], &values, &refusal), "before sw_sharded_commit");
    REFUSED(sw_sharded_gradient(m.s, m.parameter[0], &gradient, &refusal),
            "before sw_sharded_commit");
    REFUSED(sw_sharded_reduce(m.s, m.unit[0], &refusal), "before sw_sharded_commit");
    REFUSED(sw_sharded_fetch(m.s, m.parameter[0], all, &refusal), "before sw_sharded_commit");
    REFUSED(sw_sharded_step(m.s, 1, &norm, &refusal), "before sw_sharded_commit");
    sw_sharded_free(m.s);
    return SW_OK;
}

static sw_status misuse_after_commit(sw_comm *comm, sw_error *err) {
    model m, other;
    sw_unit *unit;
    sw_parameter *parameter;
    const float *values;
    float *gradient;
    int one = 1;
    sw_sharded_options options = plain_sgd();
    RANK_TRY(declare(comm, &options, zeros, &other, err));
    RANK_TRY(create(comm, &options, zeros, &m, err));
    REFUSED(sw_sharded_commit(m.s, &refusal), "twice");
    REFUSED(sw_sharded_add_unit(m.s, "late", &unit, &refusal),
            "\"late\" is added after sw_sharded_commit");
    REFUSED(sw_sharded_add_parameter(m.s, m.unit[0], "late", 1, (int64_t[]){1}, zeros, &parameter,
                                     &refusal),
            "\"late\" is added after");
    REFUSED(sw_sharded_gather(m.s, NULL, &refusal), "the unit is none of the 4");
    REFUSED(sw_sharded_gather(m.s, other.unit[0], &refusal), "the unit is none of the 4");
    REFUSED(sw_sharded_values(m.s, other.parameter[0], &values, &refusal),
            "the parameter is none of the 8");
    REFUSED(sw_sharded_values(m.s, m.parameter[2], &values, &refusal),
            "unit \"unit.1\" of parameter \"c\" is not gathered");
    REFUSED(sw_sharded_release(m.s, m.unit[0], &refusal), "\"unit.0\" is not gathered");
    REFUSED(sw_sharded_reduce(m.s, m.unit[0], &refusal),
            "\"unit.0\" has no open gradients: none was asked for");
    REFUSED(sw_sharded_step(m.s, 1, NULL, &refusal),
            "\"unit.0\" was not reduced since the last step");
    RANK_TRY(sw_sharded_gather(m.s, m.unit[0], err));
    REFUSED(sw_sharded_gather(m.s, m.unit[0], &refusal), "\"unit.0\" is gathered already");
    RANK_TRY(give_gradients(&m, whole, &one, err));
    REFUSED(sw_sharded_reduce(m.s, m.unit[2], &refusal),
            "\"unit.2\" has no open gradients: it is reduced already");
    REFUSED(sw_sharded_step(m.s, 1, NULL, &refusal), "\"unit.0\" is still gathered");
    RANK_TRY(sw_sharded_release(m.s, m.unit[0], err));
    RANK_TRY(sw_sharded_gradient(m.s, m.parameter[0], &gradient, err));
    REFUSED(sw_sharded_step(m.s, 1, NULL, &refusal),
            "\"unit.0\" has gradients that were not reduced");
    RANK_TRY(sw_sharded_gradient(m.s, m.parameter[2], &gradient, err));
    REFUSED(sw_sharded_gradient(m.s, m.parameter[5], &gradient, &refusal),
            "\"unit.2\" cannot have gradients yet: 2 units have some that are not reduced");
    RANK_TRY(sw_sharded_reduce(m.s, m.unit[0], err));
    RANK_TRY(sw_sharded_reduce(m.s, m.unit[1], err));
    REFUSED(sw_sharded_step(m.s, NAN, NULL, &refusal), "learning rate is nan");
    REFUSED(sw_sharded_step(m.s, -1, NULL, &refusal), "learning rate is -1");
    RANK_TRY(sw_sharded_step(m.s, 1, NULL, err)); /* nothing of all this did harm */
    REFUSED(sw_sharded_step(m.s, 1, NULL, &refusal),
            "\"unit.0\" was not reduced since the last step");
    float value;
    RANK_TRY(sw_sharded_fetch(m.s, m.parameter[7], &value, err));
    RANK_CHECK(value == -(float)sw_comm_size(comm) * whole(&one, 7, 0));
    sw_sharded_free(m.s);
    sw_sharded_free(other.s);
    return SW_OK;
}

static sw_status misuse(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    RANK_TRY(misuse_before_commit(comm, err));
    return misuse_after_commit(comm, err);
}

static void calls_out_of_turn_are_refused_by_name_and_do_no_harm(void **state) {
    (void)state;
    on_any_number_of_ranks(misuse);
}

/* ---- ranks that disagree ---- */

static sw_status register_other_shapes(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded *s;
    sw_unit *unit;
    sw_parameter *parameter;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    RANK_TRY(sw_sharded_create(comm, &options, &s, err));
    RANK_TRY(sw_sharded_add_unit(s, "layer", &unit, err));
    RANK_TRY(sw_sharded_add_parameter(s, unit, "weight", 2,
                                      (int64_t[]){3, sw_comm_rank(comm) == 2 ? 5 : 4}, zeros,
                                      &parameter, err));
    sw_status status = sw_sharded_commit(s, err);
    sw_sharded_free(s);
    return status;
}

static void ranks_that_register_different_things_are_told_what_differs(void **state) {
    (void)state;
    EXPECT_FAILURE(register_other_shapes, 3, SW_MISMATCH, "parameter \"weight\"", "shape 3 4",
                   "shape 3 5");
}

static sw_status reduce_other_units(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    float *gradient;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    int mine = sw_comm_rank(comm) == 1;
    (void)arg;
    sw_status status = create(comm, &options, zeros, &m, err);
    if (!status)
        status = sw_sharded_gradient(m.s, m.parameter[mine ? 2 : 0], &gradient, err);
    if (!status)
        status = sw_sharded_reduce(m.s, m.unit[mine], err);
    sw_sharded_free(m.s);
    return status;
}

static void ranks_that_reduce_different_units_are_told_which(void **state) {
    (void)state;
    EXPECT_FAILURE(reduce_other_units, 2, SW_MISMATCH, "\"unit.0\"", "\"unit.1\"");
}

static sw_status step_at_other_rates(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    sw_status status = create(comm, &options, zeros, &m, err);
    if (!status)
        status = give_gradients(&m, nothing, NULL, err);
    if (!status)
        status = sw_sharded_step(m.s, sw_comm_rank(comm) ? 0.25 : 0.5, NULL, err);
    sw_sharded_free(m.s);
    return status;
}

static void ranks_with_different_learning_rates_are_told_both(void **state) {
    (void)state;
    EXPECT_FAILURE(step_at_other_rates, 2, SW_MISMATCH, "0.5 on rank 0", "0.25 on rank 1");
}

static sw_status die_in_own_compute(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    RANK_TRY(create(comm, &options, zeros, &m, err));
    for (int step = 0; step < 2; step++) {
        RANK_TRY(sw_sharded_gather(m.s, m.unit[3], err));
        if (step == 1 && sw_comm_rank(comm) == 1)
            raise(SIGKILL);
        RANK_TRY(sw_sharded_release(m.s, m.unit[3], err));
        RANK_TRY(give_gradients(&m, nothing, NULL, err));
        RANK_TRY(sw_sharded_step(m.s, 1, NULL, err));
    }
    return SW_OK;
}

static void a_rank_that_dies_is_named_with_the_last_thing_it_asked_for(void **state) {
    (void)state;
    if (!AS_THREADS)
        EXPECT_FAILURE(die_in_own_compute, 3, SW_LOST_RANK, "rank 1", "gather unit.3", "step 2");
}

/* ---- modes of the transport ---- */

static void copies_hold_the_same_values(void **state) {
    (void)state;
    sw_rank_fn fns[] = {gather_and_fetch, sum_and_step, keep_frozen};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        sw_launch_options options = comm_options(3, AS_THREADS);
        sw_error err = {0};
        options.mode = SW_SHM_COPY;
        expect_ok(sw_launch(&options, fns[i], NULL, &err), 3, &err);
    }
}

static sw_status read_after_release(sw_comm *comm, void *arg, sw_error *err) {
    model m;
    const float *values;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    (void)arg;
    RANK_TRY(create(comm, &options, filled, &m, err));
    RANK_TRY(sw_sharded_gather(m.s, m.unit[2], err));
    RANK_TRY(sw_sharded_values(m.s, m.parameter[5], &values, err));
    RANK_TRY(sw_sharded_release(m.s, m.unit[2], err));
    volatile const float *last = values + shapes[5].n_elements - 1; /* rank 1's */
    if (sw_comm_rank(comm) == 0)
        (void)*last;
    return sw_barrier(comm, err);
}

static void trap_mode_allows_what_is_right_and_names_a_read_after_release(void **state) {
    (void)state;
    if (AS_THREADS)
        return; /* threads share what is protected */
#if defined(__x86_64__)
    const char *offence = "rank 0 read window \"parameters\"";
#else /* not every system tells reads from writes */
    const char *offence = " window \"parameters\"";
#endif
    sw_rank_fn fns[] = {gather_and_fetch, sum_and_step, keep_frozen};
    for (size_t i = 0; i <= sizeof fns / sizeof *fns; i++) {
        bool is_right = i < sizeof fns / sizeof *fns;
        sw_launch_options options = comm_options(2, false);
        sw_error err = {0};
        options.mode = SW_SHM_TRAP;
        sw_status status = sw_launch(&options, is_right ? fns[i] : read_after_release, NULL, &err);
        if (is_right)
            expect_ok(status, 2, &err);
        else if (status != SW_BUG || !strstr(err.message, offence))
            fail_msg("%s: %s", sw_status_name(status), err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_given_wherever_cuts_fall),
        cmocka_unit_test(
            drawn_values_are_the_same_for_any_number_of_ranks_and_differ_from_each_other),
        cmocka_unit_test(one_ranks_failure_to_fill_is_everyones),
        cmocka_unit_test(gradients_are_summed_over_ranks_and_slots_and_start_anew_each_step),
        cmocka_unit_test(small_gradients_are_not_lost_beside_a_large_one),
        cmocka_unit_test(every_stage_gives_the_bits_of_one_rank_alone),
        cmocka_unit_test(values_may_be_bf16),
        cmocka_unit_test(a_checkpoint_goes_on_with_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(micro_batches_dealt_in_turn_give_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(what_no_rank_writes_contributes_zeros),
        cmocka_unit_test(the_norm_is_global_and_counts_each_element_once),
        cmocka_unit_test(a_step_with_nan_on_one_rank_changes_nothing_anywhere),
        cmocka_unit_test(adamw_follows_its_formula_in_every_slice),
        cmocka_unit_test(sgd_with_momentum_follows_its_formula_in_every_slice),
        cmocka_unit_test(frozen_parameters_keep_their_values_and_have_no_gradient),
        cmocka_unit_test(two_objects_of_a_rank_do_not_disturb_each_other),
        cmocka_unit_test(calls_out_of_turn_are_refused_by_name_and_do_no_harm),
        cmocka_unit_test(ranks_that_register_different_things_are_told_what_differs),
        cmocka_unit_test(ranks_that_reduce_different_units_are_told_which),
        cmocka_unit_test(ranks_with_different_learning_rates_are_told_both),
        cmocka_unit_test(a_rank_that_dies_is_named_with_the_last_thing_it_asked_for),
        cmocka_unit_test(copies_hold_the_same_values),
        cmocka_unit_test(trap_mode_allows_what_is_right_and_names_a_read_after_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
