/* Thousands of rounds with delays in random ranks: whatever the interleaving, sums and slices are
 * those of arithmetic. One training step's order of calls: gathers, reduces over two buffers, the
 * exchange that decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_device.h"
#include "support/comm_ranks.h"

static const int rank_counts[] = {1, 2, 3, 4, 7, 8};

enum { N_STEPS = 300, N_UNITS = 4, N_SLOTS = 3, N_BUFFERS = 2, SHARD = 256, MAX_RANKS = 8 };

static void sometimes_sleep(uint64_t *noise) {
    uint32_t draw = comm_random(noise) % 1024;
    if (draw < 8)
        usleep(comm_random(noise) % 2000);
    else if (draw < 64)
        usleep(comm_random(noise) % 50);
}

typedef struct trainer {
    sw_comm *comm;
    sw_collective gather[N_UNITS], reduce[N_UNITS];
    double parameter[N_UNITS][MAX_RANKS]; /* the value that every element of a slice must have */
    double own[N_UNITS][SHARD];
    double copy[MAX_RANKS * SHARD];
    uint64_t noise;
} trainer;

static sw_status check_gather(trainer *t, int unit, sw_error *err) {
    sw_collective *c = &t->gather[unit];
    RANK_TRY(t->comm->vtable->gather(t->comm, c, err));
    for (int r = 0; r < sw_comm_size(t->comm); r++) {
        const double *slice = c->destination
                                  ? t->copy + r * SHARD
                                  : (const double *)(c->window + c->offset + r * c->rank_stride);
        RANK_CHECK(slice[0] == t->parameter[unit][r] && slice[SHARD - 1] == t->parameter[unit][r]);
    }
    return SW_OK;
}

/* Backward of one slot: unit u is summed after the next unit's gradient has been posted. */
static sw_status backward(trainer *t, int slot, int n_contributors, sw_error *err) {
    int me = sw_comm_rank(t->comm), n = sw_comm_size(t->comm);
    for (int i = 0; i <= N_UNITS; i++) {
        int unit = N_UNITS - 1 - i;
        if (i < N_UNITS) {
            sw_collective *c = &t->reduce[unit];
            c->channel = N_UNITS + i % N_BUFFERS;
            c->offset = i % N_BUFFERS * (int64_t)(MAX_RANKS * SHARD * sizeof(double));
            c->n_contributors = n_contributors;
            c->accumulate = slot > 0;
            RANK_TRY(check_gather(t, unit, err));
            if (me < n_contributors) {
                RANK_TRY(t->comm->vtable->reduce_acquire(t->comm, c, err));
                double *full = (double *)(c->window + c->offset + me * c->rank_stride);
                for (int64_t e = 0; e < n * SHARD; e++)
                    full[e] = (double)(1 + me + 10 * slot + 100 * unit) + (double)(e / SHARD);
                sometimes_sleep(&t->noise);
                RANK_TRY(t->comm->vtable->reduce_post(t->comm, c, err));
            }
        }
        sometimes_sleep(&t->noise);
        if (i > 0)
            RANK_TRY(t->comm->vtable->reduce_sum(t->comm, &t->reduce[unit + 1], comm_test_device(),
                                                 SW_NUMBERS_F64, err));
    }
    return SW_OK;
}

static sw_status train_step(trainer *t, int step, int n_contributors_last, sw_error *err) {
    int me = sw_comm_rank(t->comm), n = sw_comm_size(t->comm);
    for (int slot = 0; slot < N_SLOTS; slot++) {
        for (int unit = 0; unit < N_UNITS; unit++)
            RANK_TRY(check_gather(t, unit, err));
        RANK_TRY(backward(t, slot, slot < N_SLOTS - 1 ? n : n_contributors_last, err));
    }
    double sum = 0, all[MAX_RANKS], total = 0, expected = 0;
    for (int unit = 0; unit < N_UNITS; unit++)
        for (int e = 0; e < SHARD; e++)
            sum += t->own[unit][e];
    RANK_TRY(sw_exchange(t->comm, &sum, all, sizeof sum, err));
    for (int r = 0; r < n; r++)
        total += all[r];
    for (int slot = 0; slot < N_SLOTS; slot++)
        for (int r = 0; r < (slot < N_SLOTS - 1 ? n : n_contributors_last); r++)
            for (int unit = 0; unit < N_UNITS; unit++)
                for (int owner = 0; owner < n; owner++)
                    expected += SHARD * (double)(1 + r + 10 * slot + 100 * unit + owner);
    RANK_CHECK(total == expected);
    for (int unit = 0; unit < N_UNITS; unit++) { /* the update */
        sw_collective *c = &t->gather[unit];
        for (int r = 0; r < n; r++)
            t->parameter[unit][r] = (double)(step + 1) * 1000 + r * 10 + unit;
        double *slice = (double *)(c->window + c->offset + me * c->rank_stride);
        for (int e = 0; e < SHARD; e++)
            slice[e] = t->parameter[unit][me];
        sometimes_sleep(&t->noise);
        c->epoch = (uint64_t)step + 1;
        RANK_TRY(t->comm->vtable->gather_publish(t->comm, c, err));
    }
    return SW_OK;
}

static sw_status train(sw_comm *comm, void *arg, sw_error *err) {
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    uint64_t seed = *(uint64_t *)arg;
    trainer t = {.comm = comm, .noise = seed * 1000 + (uint64_t)me};
    sw_window parameters, gradients;
    int64_t slice = SHARD * sizeof(double), full = MAX_RANKS * slice;
    RANK_TRY(
        comm->vtable->window_create(comm, "parameters", n * N_UNITS * slice, &parameters, err));
    RANK_TRY(comm->vtable->window_create(comm, "gradients", n * N_BUFFERS * full, &gradients, err));
    for (int unit = 0; unit < N_UNITS; unit++) {
        t.gather[unit] = (sw_collective){.channel = unit,
                                         .unit = unit,
                                         .unit_name = "unit",
                                         .dtype = SW_F64,
                                         .shard_bytes = slice,
                                         .window = parameters.base,
                                         .offset = unit * slice,
                                         .rank_stride = N_UNITS * slice,
                                         .destination = comm->mode == SW_SHM_COPY ? t.copy : NULL};
        t.reduce[unit] = t.gather[unit];
        t.reduce[unit].window = gradients.base;
        t.reduce[unit].rank_stride = N_BUFFERS * full;
        t.reduce[unit].destination = t.own[unit];
        RANK_TRY(comm->vtable->channel_open(comm, unit, SW_CHANNEL_GATHERS, err));
        RANK_TRY(comm->vtable->gather_publish(comm, &t.gather[unit], err));
    }
    for (int buffer = 0; buffer < N_BUFFERS; buffer++)
        RANK_TRY(comm->vtable->channel_open(comm, N_UNITS + buffer, SW_CHANNEL_REDUCES, err));
    for (int step = 0; step < N_STEPS; step++)
        RANK_TRY(train_step(&t, step, 1 + (int)(comm_random(&seed) % (uint32_t)n), err));
    return SW_OK;
}

static void run_everywhere(sw_shm_mode mode, uint64_t seed) {
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++)
        for (int as_threads = 0; as_threads < 2; as_threads++) {
            sw_launch_options options = comm_options(rank_counts[i], as_threads);
            options.mode = mode;
            sw_error err = {0};
            if (sw_launch(&options, train, &seed, &err) != SW_OK)
                fail_msg("%d ranks as %s, seed %lu: %s", rank_counts[i],
                         as_threads ? "threads" : "processes", (unsigned long)seed, err.message);
        }
}

static void steps_in_view_mode_are_right_under_random_delays(void **state) {
    (void)state;
    run_everywhere(SW_SHM_VIEW, 21);
}

static void steps_in_copy_mode_are_right_under_random_delays(void **state) {
    (void)state;
    run_everywhere(SW_SHM_COPY, 22);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_view_mode_are_right_under_random_delays),
        cmocka_unit_test(steps_in_copy_mode_are_right_under_random_delays),
    };
    return cmocka_run_group_tests_name("collectives under delays", tests, NULL, NULL);
}
