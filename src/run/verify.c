/* verify.c: cross-checks of the ranks' numbers (guard.verify_every), against memory and arithmetic that fail without a word.
 *
 * Replicas. At stages 0 to 2 every rank has the whole compute copy of the parameters, at stage 0 the optimizer's states too. Each
 * rank hashes what it holds of every owner's part; the hashes of one part must be equal.
 *
 * Arithmetic. The first micro-batches of the step, one for each rank, are computed twice more: by their own rank and by the rank
 * before it. What a rank hands in is hashed before it is summed: its gradient, unit by unit, and its loss. Where the two differ,
 * a third computation decides: by the rank before that; of two ranks, by the first one again. Nothing is updated, no memory is
 * needed beside the plan's, and dropout is the same, as it follows from the rows.
 */
#include "run/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "run/majority.h"

/* ---- replicas ---- */

/* A hash of a part of a buffer of states, put on top of `hash`. */
static uint64_t hash_part(const sw_training *t, int buffer, int64_t first, int64_t bytes, uint64_t hash) {
    const char *address = sw_executor_address(t->executor, SW_PROGRAM_TRAIN, buffer);
    return address && bytes ? XXH3_64bits_withSeed(address + first, (size_t)bytes, hash) : hash;
}

/* What this rank holds of an owner's part. */
static uint64_t hash_of_owner(const sw_training *t, int owner) {
    const sw_states *states = &t->run->assembly.states;
    int64_t size = sw_dtype_bytes(states->sharding.parameter_dtype);
    uint64_t hash = 0;
    for (int g = 0; g < states->layout->n_groups; g++) {
        int64_t shard = states->layout->groups[g].shard, first = owner * shard;
        hash = hash_part(t, states->copy[g], first * size, shard * size, hash);
        if (states->sharding.stage != 0)
            continue;
        hash = hash_part(t, states->low[g], 2 * first, 2 * shard, hash);
        hash = hash_part(t, states->first_moment[g], 4 * first, 4 * shard, hash);
        hash = hash_part(t, states->second_moment[g], 4 * first, 4 * shard, hash);
    }
    return hash;
}

/* "rank 2", "ranks 0, 1". */
static void name_ranks(const bool *is_odd, int n, char *text, size_t bytes) {
    int n_odd = 0;
    for (int r = 0; r < n; r++)
        n_odd += is_odd[r];
    size_t used = (size_t)snprintf(text, bytes, "%s", n_odd > 1 ? "ranks" : "rank");
    for (int r = 0, n_named = 0; r < n && used < bytes; r++)
        if (is_odd[r])
            used += (size_t)snprintf(text + used, bytes - used, "%s %d", n_named++ ? "," : "", r);
}

static sw_status differs(const sw_training *t, const bool *is_odd, const char *what, sw_error *err) {
    char names[160];
    bool is_one = true;
    for (int r = 0, n = 0; r < t->comm->n_ranks; r++)
        is_one = is_one && (n += is_odd[r]) <= 1;
    name_ranks(is_odd, t->comm->n_ranks, names, sizeof names);
    return sw_fail(err, SW_GUARD,
                   "the numbers of %s%s %s after step %" PRId64
                   " (guard.verify_every) · memory or processor may be faulty: check "
                   "the machine; checkpoints saved since the last cross-check, at step %" PRId64 ", may hold wrong numbers",
                   names, is_one ? " differ from the others':" : " differ from each other:", what, t->step,
                   t->step - t->run->settings->guard.verify_every);
}

static sw_status compare_replicas(sw_training *t, sw_error *err) {
    int n = t->comm->n_ranks;
    uint64_t mine[SW_PAYLOAD_BYTES / sizeof(uint64_t)] = {0}, *all = t->all, of_owner[SW_MAX_RANKS];
    bool is_odd[SW_MAX_RANKS];
    if (t->run->assembly.sharding.stage == 3 || n == 1)
        return SW_OK;
    for (int owner = 0; owner < n; owner++)
        mine[owner] = hash_of_owner(t, owner);
    sw_status status = sw_exchange(t->comm, mine, all, (size_t)n * sizeof *mine, err);
    for (int owner = 0; owner < n && !status; owner++) {
        for (int r = 0; r < n; r++)
            of_owner[r] = all[r * n + owner];
        if (sw_majority(of_owner, n, is_odd))
            status = differs(t, is_odd, "their copies of parameters", err);
    }
    return status;
}

_Static_assert(SW_MAX_RANKS * sizeof(uint64_t) <= SW_PAYLOAD_BYTES, "a hash for every owner is exchanged");

/* ---- arithmetic ---- */

/* One micro-batch of the step, computed by whoever comes `rotation` ranks before its own. */
typedef struct pass {
    sw_training *t;
    int64_t first_row, end; /* rows of the step */
    int n_active, rotation;
    uint64_t hash;
} pass;

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    const pass *p = self;
    sw_training *t = p->t;
    const sw_assembly *a = &t->run->assembly;
    int64_t micro = a->choice.micro_batch_size;
    scalars->first_row = p->first_row + (t->comm->rank + p->rotation) % p->n_active * micro;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, slot, 0, "computing a micro-batch again");
    return sw_training_fill(t->run->data, scalars->first_row, p->end, micro, a->settings->data.sequence_length,
                            sw_executor_address(t->executor, SW_PROGRAM_TRAIN, a->program.tokens),
                            sw_executor_address(t->executor, SW_PROGRAM_TRAIN, a->program.targets),
                            sw_executor_address(t->executor, SW_PROGRAM_TRAIN, a->program.documents), err);
}

static sw_status collect(void *self, int slot, sw_error *err) {
    pass *p = self;
    (void)slot;
    (void)err;
    const double *loss = sw_executor_address(p->t->executor, SW_PROGRAM_TRAIN, p->t->run->assembly.program.loss);
    p->hash = XXH3_64bits_withSeed(loss, sizeof *loss, p->hash);
    return SW_OK;
}

static void gradient(void *self, const void *gradient, int64_t bytes) {
    pass *p = self;
    p->hash = XXH3_64bits_withSeed(gradient, (size_t)bytes, p->hash);
}

/* Nothing is updated; but ranks meet here, as the protocol of the parameters wants it. */
static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars, sw_error *err) {
    (void)squares;
    scalars->proceed = 0;
    return sw_barrier(((pass *)self)->t->comm, err);
}

/* Hashes of all micro-batches [n_active], by number. */
static sw_status compute(sw_training *t, int n_active, int rotation, uint64_t *hashes, sw_error *err) {
    pass p = {.t = t, .first_row = t->first_row, .end = t->first_row + t->n_rows, .n_active = n_active, .rotation = rotation};
    const sw_step_hooks hooks = {.self = &p, .fill = fill, .collect = collect, .decide = decide, .gradient = gradient};
    sw_scalars scalars = {.seed = (uint64_t)t->run->settings->train.seed,
                          .step = t->step,
                          .loss_scale = t->n_supervised ? 1 / (double)t->n_supervised : 0,
                          .bias_correction1 = 1,
                          .bias_correction2 = 1};
    sw_status status = sw_executor_step(t->executor, SW_PROGRAM_TRAIN, n_active, &scalars, &hooks, err);
    uint64_t *all = t->all;
    if (!status)
        status = sw_exchange(t->comm, &p.hash, all, sizeof p.hash, err);
    for (int r = 0; r < n_active && !status; r++)
        hashes[(r + rotation) % n_active] = all[r];
    return status;
}

static sw_status compare_arithmetic(sw_training *t, sw_error *err) {
    enum { N_TIMES = 3 };
    uint64_t hashes[N_TIMES][SW_MAX_RANKS];
    int64_t micro = t->run->assembly.choice.micro_batch_size, n_micro_batches = (t->n_rows + micro - 1) / micro;
    int n_active = n_micro_batches < t->comm->n_ranks ? (int)n_micro_batches : t->comm->n_ranks;
    const int rotation[N_TIMES] = {0, 1 % n_active, n_active > 2 ? 2 : 0};
    sw_status status = compute(t, n_active, rotation[0], hashes[0], err);
    if (!status)
        status = compute(t, n_active, rotation[1], hashes[1], err);
    if (status || !memcmp(hashes[0], hashes[1], (size_t)n_active * sizeof **hashes))
        return status;
    status = compute(t, n_active, rotation[2], hashes[2], err);
    bool is_suspect[SW_MAX_RANKS] = {false};
    for (int k = 0; k < n_active && !status; k++) {
        uint64_t values[N_TIMES] = {hashes[0][k], hashes[1][k], hashes[2][k]};
        bool is_odd[N_TIMES];
        sw_majority(values, N_TIMES, is_odd);
        for (int i = 0; i < N_TIMES; i++)
            if (is_odd[i])
                is_suspect[(k - rotation[i] + n_active) % n_active] = true;
        /* A rank that agrees with itself alone is no witness. */
        if (n_active == 2 && is_odd[1])
            is_suspect[k] = true;
    }
    return status ? status : differs(t, is_suspect, "losses or gradients of the same rows", err);
}

sw_status sw_training_verify(sw_training *t, sw_error *err) {
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "cross-checking the ranks");
    sw_status status = compare_replicas(t, err);
    return status ? status : compare_arithmetic(t, err);
}
