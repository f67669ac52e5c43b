/* Collectives against arithmetic, as processes and as threads: values are small whole numbers, so
 * every sum is exact. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_device.h"
#include "support/comm_ranks.h"

static const int rank_counts[] = {1, 2, 3, 4, 7, 8};

enum { BLOCK = 256, MAX_BLOCKS = 3, N_BUFFERS = 2 };

typedef struct plan {
    uint64_t seed;
    int n_rounds;
    bool copies;
} plan;

/* What element i of rank r's part holds in round k. */
static float value_of(int rank, int64_t i, int round) {
    return (float)((rank * 7 + i * 3 + round * 11) % 1000);
}

static void sometimes_sleep(uint64_t *noise) {
    if (comm_random(noise) % 16 == 0)
        usleep(comm_random(noise) % 300);
}

/* ---- gather ---- */

static sw_status gather_rounds(sw_comm *comm, void *arg, sw_error *err) {
    const plan *p = arg;
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    uint64_t seed = p->seed, noise = p->seed + 1 + (uint64_t)me;
    enum { SLOT = MAX_BLOCKS * BLOCK };
    static _Thread_local float copy[8 * SLOT];
    sw_window window;
    RANK_TRY(comm->vtable->window_create(comm, "parameters",
                                         (int64_t)n * SLOT * (int64_t)sizeof(float), &window, err));
    RANK_TRY(comm->vtable->channel_open(comm, 3, SW_CHANNEL_GATHERS, err));
    for (int round = 0; round < p->n_rounds; round++) {
        int64_t shard = (int64_t)(comm_random(&seed) % (MAX_BLOCKS + 1)) * BLOCK;
        sw_collective c = {.channel = 3,
                           .epoch = (uint64_t)round,
                           .unit = 5,
                           .unit_name = "layers.5",
                           .dtype = SW_F32,
                           .shard_bytes = shard * (int64_t)sizeof(float),
                           .window = window.base,
                           .rank_stride = SLOT * sizeof(float),
                           .destination = p->copies ? copy : NULL};
        float *own = (float *)(window.base + me * c.rank_stride);
        for (int64_t i = 0; i < shard; i++)
            own[i] = value_of(me, i, round);
        sometimes_sleep(&noise);
        RANK_TRY(comm->vtable->gather_publish(comm, &c, err));
        for (int use = 0; use < 2; use++) { /* forward and backward gather the same epoch */
            sometimes_sleep(&noise);
            RANK_TRY(comm->vtable->gather(comm, &c, err));
            for (int r = 0; r < n; r++)
                for (int64_t i = 0; i < shard; i++) {
                    const float *seen = p->copies
                                            ? copy + r * shard
                                            : (const float *)(window.base + r * c.rank_stride);
                    RANK_CHECK(seen[i] == value_of(r, i, round));
                }
        }
        RANK_TRY(sw_barrier(comm, err)); /* where training decides the update */
    }
    return SW_OK;
}

/* ---- reduce: two buffers in turn, as in backward ---- */

static sw_collective use_of_buffer(const plan *p, sw_comm *comm, const sw_window *window, int k,
                                   float *own, uint64_t *seed) {
    int n = sw_comm_size(comm);
    int64_t slot = (int64_t)n * MAX_BLOCKS * BLOCK * (int64_t)sizeof(float);
    int64_t shard = (int64_t)(comm_random(seed) % (MAX_BLOCKS + 1)) * BLOCK;
    (void)p;
    return (sw_collective){.channel = k % N_BUFFERS,
                           .unit = k % 5, /* units and buffers have different periods */
                           .unit_name = "layers",
                           .dtype = SW_F32,
                           .shard_bytes = shard * (int64_t)sizeof(float),
                           .window = window->base,
                           .offset = (k % N_BUFFERS) * slot,
                           .rank_stride = N_BUFFERS * slot,
                           .destination = own,
                           .n_contributors = 1 + (int)(comm_random(seed) % (uint32_t)n),
                           .accumulate = comm_random(seed) % 2};
}

static sw_status sum_and_check(sw_comm *comm, const sw_collective *c, int k, sw_error *err) {
    float *own = c->destination;
    int64_t shard = c->shard_bytes / (int64_t)sizeof(float);
    int me = sw_comm_rank(comm);
    double squares_expected = k; /* what was there stays */
    sw_wide_sum squares = {0};
    sw_collective squared = *c;
    squared.squares = k % 3 ? &squares : NULL;
    sw_wide_sum_add(&squares, k);
    for (int64_t i = 0; i < shard; i++)
        own[i] = 5;
    RANK_TRY(comm->vtable->reduce_sum(comm, &squared, comm_test_device(), SW_NUMBERS_F32, err));
    for (int64_t i = 0; i < shard; i++) {
        float expected = c->accumulate ? 5 : 0;
        for (int r = 0; r < c->n_contributors; r++)
            expected += value_of(r, me * shard + i, k);
        RANK_CHECK(own[i] == expected);
        squares_expected += squared.squares ? (double)expected * (double)expected : 0;
    }
    RANK_CHECK(sw_wide_sum_value(&squares) == squares_expected);
    return SW_OK;
}

static sw_status reduce_rounds(sw_comm *comm, void *arg, sw_error *err) {
    const plan *p = arg;
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    uint64_t seed = p->seed, noise = p->seed + 1 + (uint64_t)me;
    static _Thread_local float own[MAX_BLOCKS * BLOCK];
    sw_window window;
    int64_t bytes = (int64_t)n * N_BUFFERS * n * MAX_BLOCKS * BLOCK * (int64_t)sizeof(float);
    RANK_TRY(comm->vtable->window_create(comm, "gradients", bytes, &window, err));
    sw_collective last = {0};
    for (int channel = 0; channel < N_BUFFERS; channel++)
        RANK_TRY(comm->vtable->channel_open(comm, channel, SW_CHANNEL_REDUCES, err));
    for (int k = 0; k < p->n_rounds; k++) {
        sw_collective c = use_of_buffer(p, comm, &window, k, own, &seed);
        if (me < c.n_contributors) {
            RANK_TRY(comm->vtable->reduce_acquire(comm, &c, err));
            float *full = (float *)(window.base + c.offset + me * c.rank_stride);
            for (int64_t i = 0; i < n * c.shard_bytes / (int64_t)sizeof(float); i++)
                full[i] = value_of(me, i, k);
            sometimes_sleep(&noise);
            RANK_TRY(comm->vtable->reduce_post(comm, &c, err));
        }
        if (k > 0) /* the use before is summed while others still fill this one */
            RANK_TRY(sum_and_check(comm, &last, k - 1, err));
        sometimes_sleep(&noise);
        last = c;
    }
    return p->n_rounds > 0 ? sum_and_check(comm, &last, p->n_rounds - 1, err) : SW_OK;
}

/* ---- share: along a line of ranks, in places that two buffers of each take in turn ---- */

static sw_status check_shared(const sw_collective *c, int place, const double *taken, int k,
                              sw_error *err) {
    const int64_t n = c->shard_bytes / (int64_t)sizeof *taken;
    for (int r = 0; r < c->line.n && c->share == SW_SHARE_GATHER; r++)
        for (int64_t i = 0; i < n; i++)
            RANK_CHECK(taken[r * n + i] == (r < c->n_contributors ? value_of(r, i, k) : 0));
    for (int64_t i = 0; i < n && c->share != SW_SHARE_GATHER; i++) {
        double expected = 0;
        for (int r = 0; r < c->n_contributors; r++)
            expected += value_of(r, c->share == SW_SHARE_SUM_SLICE ? place * n + i : i, k);
        RANK_CHECK(taken[i] == expected);
    }
    return SW_OK;
}

/* Lines of all ranks, or, of an even number of them, of two along an axis whose neighbours lie next
 * to each other or half of all ranks apart: every line does the same by itself. Doubles, of which a
 * block has an odd number. */
static sw_status share_rounds(sw_comm *comm, void *arg, sw_error *err) {
    enum { MOST = 131, SLOT = 8 * MOST };
    const plan *p = arg;
    const int n_ranks = sw_comm_size(comm), me = sw_comm_rank(comm);
    const sw_line lines[] = {{n_ranks, 0, 1},
                             {2, me / 2 * 2, 1},
                             {2, n_ranks > 1 ? me % (n_ranks / 2) : 0, n_ranks / 2}};
    uint64_t seed = p->seed, noise = p->seed + 1 + (uint64_t)me;
    sw_window window;
    double taken[SLOT];
    RANK_TRY(comm->vtable->window_create(
        comm, "values", (int64_t)n_ranks * 6 * SLOT * (int64_t)sizeof(double), &window, err));
    for (int channel = 0; channel < 6; channel++)
        RANK_TRY(comm->vtable->channel_open(comm, channel, SW_CHANNEL_REDUCES, err));
    for (int k = 0; k < p->n_rounds; k++) {
        const int which = n_ranks % 2 ? 0 : (int)(comm_random(&seed) % 3),
                  channel = 2 * which + k % 2;
        const sw_line line = lines[which];
        const int place = (me - line.first) / line.step;
        sw_collective c = {.channel = channel,
                           .unit = 2,
                           .unit_name = "layers.2",
                           .dtype = SW_F64,
                           .line = line,
                           .share = SW_SHARE_GATHER + (sw_share)(comm_random(&seed) % 3),
                           .shard_bytes =
                               (int64_t)(comm_random(&seed) % MOST) * (int64_t)sizeof(double),
                           .offset = channel * SLOT * (int64_t)sizeof(double),
                           .rank_stride = line.step * 6 * SLOT * (int64_t)sizeof(double),
                           .n_contributors = 1 + (int)(comm_random(&seed) % (uint32_t)line.n)};
        const bool is_active = place < c.n_contributors, is_idle = comm_random(&noise) % 8 == 0;
        c.window = window.base + line.first * 6 * SLOT * (int64_t)sizeof(double);
        c.destination = is_idle ? NULL : taken;
        if (is_active) {
            RANK_TRY(comm->vtable->reduce_acquire(comm, &c, err));
            double *own = (double *)(c.window + c.offset + place * c.rank_stride);
            const int64_t n =
                c.shard_bytes / (int64_t)sizeof *own * (c.share == SW_SHARE_SUM_SLICE ? line.n : 1);
            for (int64_t i = 0; i < n; i++)
                own[i] = value_of(place, i, k);
            sometimes_sleep(&noise);
            RANK_TRY(comm->vtable->reduce_post(comm, &c, err));
        }
        sometimes_sleep(&noise);
        for (int i = 0; i < SLOT; i++)
            taken[i] = -7;
        RANK_TRY(comm->vtable->share(comm, &c, comm_test_device(), SW_NUMBERS_F64, err));
        if (!is_idle)
            RANK_TRY(check_shared(&c, place, taken, k, err));
        RANK_CHECK(!is_idle || taken[0] == -7);
    }
    return SW_OK;
}

/* ---- exchange ---- */

static sw_status exchange_rounds(sw_comm *comm, void *arg, sw_error *err) {
    const plan *p = arg;
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    uint64_t seed = p->seed, noise = p->seed + 1 + (uint64_t)me;
    unsigned char mine[SW_EXCHANGE_BYTES], all[8 * SW_EXCHANGE_BYTES];
    for (int round = 0; round < p->n_rounds; round++) {
        size_t bytes = comm_random(&seed) % 8 ? comm_random(&seed) % 64 : SW_EXCHANGE_BYTES;
        memset(mine, me + round, bytes);
        sometimes_sleep(&noise);
        RANK_TRY(sw_exchange(comm, mine, all, bytes, err));
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < bytes; i++)
                RANK_CHECK(all[(size_t)r * bytes + i] == (unsigned char)(r + round));
        RANK_CHECK(sw_comm_check(comm, err) == SW_OK);
    }
    return SW_OK;
}

/* ---- two lanes: one computes, posts and publishes, the other moves ---- */

typedef struct mover {
    sw_comm *comm;
    const sw_collective *gather, *reduce;
    int n_rounds;
    sem_t may_move, has_moved;
    sw_status status;
    sw_error err;
} mover;

static void *move_in_lane_1(void *arg) {
    mover *m = arg;
    for (int round = 0; round < m->n_rounds && m->status == SW_OK; round++) {
        sem_wait(&m->may_move);
        sw_comm_enter(m->comm, 1, round, 0, 0, "move");
        m->status = m->comm->vtable->gather(m->comm, m->gather, &m->err);
        if (m->status == SW_OK)
            m->status = m->comm->vtable->reduce_sum(m->comm, m->reduce, comm_test_device(),
                                                    SW_NUMBERS_F32, &m->err);
        sem_post(&m->has_moved);
    }
    return NULL;
}

static sw_status round_of_two_lanes(mover *m, sw_collective *gather, sw_collective *reduce,
                                    int round, sw_error *err) {
    sw_comm *comm = m->comm;
    int n = sw_comm_size(comm), me = sw_comm_rank(comm);
    gather->epoch = (uint64_t)round;
    sem_post(&m->may_move); /* the mover may wait for this rank's own publish */
    sw_comm_enter(comm, 0, round, 0, 0, "compute");
    float *own = (float *)(gather->window + me * gather->rank_stride),
          *full = (float *)(reduce->window + me * reduce->rank_stride);
    for (int64_t i = 0; i < BLOCK; i++)
        own[i] = value_of(me, i, round);
    RANK_TRY(comm->vtable->gather_publish(comm, gather, err));
    RANK_TRY(comm->vtable->reduce_acquire(comm, reduce, err));
    for (int64_t i = 0; i < n * BLOCK; i++)
        full[i] = value_of(me, i, round);
    RANK_TRY(comm->vtable->reduce_post(comm, reduce, err));
    sem_wait(&m->has_moved);
    if (m->status != SW_OK)
        return sw_fail(err, m->status, "%s", m->err.message);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < BLOCK; i++)
            RANK_CHECK(((float *)gather->destination)[r * BLOCK + i] == value_of(r, i, round));
    for (int64_t i = 0; i < BLOCK; i++) {
        float expected = 0;
        for (int r = 0; r < n; r++)
            expected += value_of(r, me * BLOCK + i, round);
        RANK_CHECK(((float *)reduce->destination)[i] == expected);
    }
    return sw_barrier(comm, err);
}

static sw_status rounds_of_two_lanes(sw_comm *comm, void *arg, sw_error *err) {
    const plan *p = arg;
    int n = sw_comm_size(comm);
    enum { BYTES = BLOCK * sizeof(float) };
    static _Thread_local float copy[8 * BLOCK], sum[BLOCK];
    sw_window parameters, gradients;
    RANK_TRY(comm->vtable->window_create(comm, "parameters", n * BYTES, &parameters, err));
    RANK_TRY(comm->vtable->window_create(comm, "gradients", n * n * BYTES, &gradients, err));
    sw_collective gather = {.lane = 1,
                            .dtype = SW_F32,
                            .shard_bytes = BYTES,
                            .window = parameters.base,
                            .rank_stride = BYTES,
                            .destination = copy};
    sw_collective reduce = gather;
    reduce.channel = 1;
    reduce.window = gradients.base;
    reduce.rank_stride = n * BYTES;
    reduce.destination = sum;
    reduce.n_contributors = n;
    RANK_TRY(comm->vtable->channel_open(comm, gather.channel, SW_CHANNEL_GATHERS, err));
    RANK_TRY(comm->vtable->channel_open(comm, reduce.channel, SW_CHANNEL_REDUCES, err));
    mover m = {.comm = comm, .gather = &gather, .reduce = &reduce, .n_rounds = p->n_rounds};
    pthread_t thread;
    sem_init(&m.may_move, 0, 0);
    sem_init(&m.has_moved, 0, 0);
    pthread_create(&thread, NULL, move_in_lane_1, &m);
    sw_status status = SW_OK;
    sw_collective gather_here = gather, reduce_here = reduce;
    gather_here.lane = reduce_here.lane = 0;
    for (int round = 0; round < p->n_rounds && status == SW_OK; round++) {
        gather.epoch = (uint64_t)round;
        status = round_of_two_lanes(&m, &gather_here, &reduce_here, round, err);
    }
    if (status != SW_OK)
        sw_comm_abort(comm, err);
    for (int round = 0; round < p->n_rounds; round++)
        sem_post(&m.may_move);
    pthread_join(thread, NULL);
    return status;
}

static void run_everywhere(sw_rank_fn fn, plan p) {
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++)
        for (int as_threads = 0; as_threads < 2; as_threads++) {
            sw_launch_options options = comm_options(rank_counts[i], as_threads);
            options.mode = p.copies ? SW_SHM_COPY : SW_SHM_VIEW;
            sw_error err = {0};
            if (sw_launch(&options, fn, &p, &err) != SW_OK)
                fail_msg("%d ranks as %s, seed %lu: %s", rank_counts[i],
                         as_threads ? "threads" : "processes", (unsigned long)p.seed, err.message);
        }
}

static void a_view_shows_every_owners_slice(void **state) {
    (void)state;
    run_everywhere(gather_rounds, (plan){.seed = 1, .n_rounds = 150});
}

static void a_copy_holds_every_owners_slice(void **state) {
    (void)state;
    run_everywhere(gather_rounds, (plan){.seed = 2, .n_rounds = 150, .copies = true});
}

static void a_reduce_sums_the_contributors_and_nobody_else(void **state) {
    (void)state;
    run_everywhere(reduce_rounds, (plan){.seed = 3, .n_rounds = 150});
}

static void ranks_of_a_line_share_what_each_has(void **state) {
    (void)state;
    run_everywhere(share_rounds, (plan){.seed = 5, .n_rounds = 200});
}

static void two_lanes_of_a_rank_get_along(void **state) {
    (void)state;
    run_everywhere(rounds_of_two_lanes, (plan){.n_rounds = 100, .copies = true});
}

static void an_exchange_brings_what_each_rank_gave(void **state) {
    (void)state;
    run_everywhere(exchange_rounds, (plan){.seed = 4, .n_rounds = 300});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_shows_every_owners_slice),
        cmocka_unit_test(a_copy_holds_every_owners_slice),
        cmocka_unit_test(a_reduce_sums_the_contributors_and_nobody_else),
        cmocka_unit_test(ranks_of_a_line_share_what_each_has),
        cmocka_unit_test(two_lanes_of_a_rank_get_along),
        cmocka_unit_test(an_exchange_brings_what_each_rank_gave),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
