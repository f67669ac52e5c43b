/* verify.c: cross-checks of the ranks' numbers (guard.verify_every), against memory and arithmetic
 * that fail without a word.
 *
 * They look at one whole step, and judge at its decision, before anything is updated:
 *
 *   1  hash states
 *   2  the step's first micro-batches, computed by the ranks before their own
 *   3  the step: its slot 0 is hashed as it is handed in
 *   4  hash states and replicas
 *   5  compare, decide, update
 *
 * Rest. Nobody writes parameters and moments between two updates: what a rank owns must be what it
 * was when the step began.
 *
 * Replicas. At stages 0 to 2 every rank has the whole compute copy of the parameters, at stage 0
 * the optimizer's states too. Each rank hashes what it holds of every owner's part; the hashes of
 * one part must be equal.
 *
 * Arithmetic. What a rank hands in for a micro-batch is hashed before it is summed: its gradient,
 * unit by unit, and its loss. It must be what another rank has computed from the same rows. Where
 * the two differ, both compute once more, which changes nothing either: who does not find the same
 * again is wrong; if both do, a third rank decides. No memory is needed beside the plan's, and
 * dropout is the same, as it follows from the rows. Where a step of several slots adds its
 * gradients up before it hands them in (shard.accumulate: unsharded), a rank computes its own
 * micro-batch once more instead of having it hashed on the way.
 */
#include "train/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "train/majority.h"

/* ---- what a rank holds ---- */

/* A hash of what lies there, put on top of `hash`. */
static uint64_t hash_memory(const sw_training *t, const void *memory, int64_t bytes,
                            uint64_t hash) {
    char room[SW_VIEW_BYTES];
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done;
        const void *part = sw_executor_view(t->executor, (const char *)memory + done, room, &n);
        hash = XXH3_64bits_withSeed(part, (size_t)n, hash);
    }
    return hash;
}

static uint64_t hash_part(const sw_training *t, sw_reference part, uint64_t hash) {
    const char *address = sw_executor_address(t->executor, SW_PROGRAM_TRAIN, part.buffer);
    return address ? hash_memory(t, address + part.offset, part.bytes, hash) : hash;
}

/* What this rank holds of an owner's part. */
static uint64_t hash_of_owner(const sw_training *t, int owner) {
    const sw_states *states = &t->run->plan.assembly.compiled->states;
    uint64_t hash = 0;
    for (int g = 0; g < states->layout->n_groups; g++)
        for (int held = SW_HELD_COPY;
             held < (states->sharding.stage == 0 ? SW_N_HELD : SW_HELD_COPY + 1); held++)
            if (held != SW_HELD_GRADIENT)
                hash = hash_part(t, sw_states_part(states, held, g, owner), hash);
    return hash;
}

/* What this rank alone writes: copies of others' parameters are put right by any gather. */
static uint64_t hash_of_states(const sw_training *t) {
    const sw_states *states = &t->run->plan.assembly.compiled->states;
    uint64_t hash = 0;
    for (int g = 0; g < states->layout->n_groups; g++)
        for (int held = SW_HELD_COPY; held < SW_N_HELD; held++)
            if (held != SW_HELD_GRADIENT)
                hash =
                    hash_part(t,
                              sw_states_updated_part(
                                  states, held, g, sw_layout_owner(states->layout, t->comm->rank)),
                              hash);
    return hash;
}

/* ---- a micro-batch, computed by whoever comes `rotation` ranks before its own ---- */

typedef struct pass {
    sw_training *t;
    int rotation;
    uint64_t hash;
} pass;

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    const pass *p = self;
    sw_training *t = p->t;
    const sw_assembly *a = &t->run->plan.assembly;
    int64_t micro = a->choice.micro_batch_size;
    scalars->first_row = t->first_row + (t->comm->rank + p->rotation) % t->check.n_active * micro;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step + 1, slot, 0, "computing a micro-batch again");
    return sw_training_fill(t, SW_PROGRAM_TRAIN, t->run->data, scalars->first_row,
                            t->first_row + t->n_rows, err);
}

static sw_status collect(void *self, int slot, sw_error *err) {
    pass *p = self;
    (void)slot;
    (void)err;
    const double *loss = sw_executor_port(p->t->executor, SW_PROGRAM_TRAIN, SW_PORT_LOSS);
    p->hash = XXH3_64bits_withSeed(loss, sizeof *loss, p->hash);
    return SW_OK;
}

static void gradient(void *self, const void *gradient, int64_t bytes) {
    pass *p = self;
    p->hash = hash_memory(p->t, gradient, bytes, p->hash);
}

/* Nothing is updated; but ranks meet here, as the protocol of the parameters wants it. */
static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                        sw_error *err) {
    (void)squares;
    scalars->proceed = 0;
    return sw_barrier(((pass *)self)->t->comm, err);
}

/* Hashes of all micro-batches [n_active], by number, from those of the ranks that computed them. */
static sw_status share(sw_training *t, int rotation, uint64_t own, uint64_t *hashes,
                       sw_error *err) {
    uint64_t *all = t->all;
    sw_status status = sw_exchange(t->comm, &own, all, sizeof own, err);
    for (int r = 0; r < t->check.n_active && !status; r++)
        hashes[(r + rotation) % t->check.n_active] = all[r];
    return status;
}

static sw_status compute(sw_training *t, int rotation, uint64_t *hashes, sw_error *err) {
    pass p = {.t = t, .rotation = rotation};
    const sw_step_hooks hooks = {
        .self = &p, .fill = fill, .collect = collect, .decide = decide, .gradient = gradient};
    sw_scalars scalars = {.seed = (uint64_t)t->run->settings->train.seed,
                          .step = t->step,
                          .loss_scale = t->n_supervised ? 1 / (double)t->n_supervised : 0,
                          .bias_correction1 = 1,
                          .bias_correction2 = 1};
    sw_status status =
        sw_executor_step(t->executor, SW_PROGRAM_TRAIN, t->check.n_active, &scalars, &hooks, err);
    return status ? status : share(t, rotation, p.hash, hashes, err);
}

/* ---- around the step ---- */

sw_status sw_verify_begin(sw_training *t, sw_error *err) {
    sw_check *check = &t->check;
    int64_t micro = t->run->plan.assembly.choice.micro_batch_size,
            n_micro_batches = (t->n_rows + micro - 1) / micro;
    sw_deal deal = sw_mesh_deal(&t->run->plan.assembly.sharding.mesh, n_micro_batches);
    bool is_one_slot = sw_deal_slots(deal) == 1;
    check->n_active = sw_deal_contributors(deal, 0);
    check->counts_step = is_one_slot || t->run->settings->shard.accumulate == SW_ACCUMULATE_SHARDED;
    check->own = 0;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step + 1, 0, 0, "cross-checking the ranks");
    check->at_rest = hash_of_states(t);
    sw_status status = compute(t, 1 % check->n_active, check->computed[1], err);
    return status || check->counts_step ? status : compute(t, 0, check->computed[0], err);
}

void sw_verify_loss(sw_training *t, double loss) {
    if (t->check.is_due && t->check.slot == 0)
        t->check.own = XXH3_64bits_withSeed(&loss, sizeof loss, t->check.own);
}

void sw_verify_gradient(void *training, const void *gradient, int64_t bytes) {
    sw_training *t = training;
    if (t->check.slot == 0)
        t->check.own = hash_memory(t, gradient, bytes, t->check.own);
}

static sw_status compare_rest(sw_training *t, sw_error *err) {
    bool has_changed = hash_of_states(t) != t->check.at_rest, *all = t->all;
    sw_status status = sw_exchange(t->comm, &has_changed, all, sizeof has_changed, err);
    for (int r = 0; r < t->comm->n_ranks && !status; r++)
        if ((t->check.is_suspect[r] = all[r]))
            t->check.finding = SW_FOUND_UNREST;
    return status;
}

_Static_assert(SW_MAX_RANKS * sizeof(uint64_t) <= SW_PAYLOAD_BYTES,
               "a hash for every owner is exchanged");

static sw_status compare_replicas(sw_training *t, sw_error *err) {
    const int n = t->comm->n_ranks, n_owners = t->run->plan.assembly.compiled->layout.n_shards;
    uint64_t mine[SW_PAYLOAD_BYTES / sizeof(uint64_t)] = {0}, *all = t->all, of_owner[SW_MAX_RANKS];
    if (t->run->plan.assembly.sharding.stage == 3 || n == 1)
        return SW_OK;
    for (int owner = 0; owner < n_owners; owner++)
        mine[owner] = hash_of_owner(t, owner);
    sw_status status = sw_exchange(t->comm, mine, all, (size_t)n_owners * sizeof *mine, err);
    for (int owner = 0; owner < n_owners && !status && !t->check.finding; owner++) {
        for (int r = 0; r < n; r++)
            of_owner[r] = all[r * n_owners + owner];
        if (sw_majority(of_owner, n, t->check.is_suspect))
            t->check.finding = SW_FOUND_REPLICAS;
    }
    return status;
}

sw_status sw_verify_compare(sw_training *t, sw_error *err) {
    sw_check *check = &t->check;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step + 1, 0, 0, "cross-checking the ranks");
    sw_status status = compare_rest(t, err);
    if (!status && !check->finding)
        status = compare_replicas(t, err);
    if (!status && !check->finding && check->counts_step)
        status = share(t, 0, check->own, check->computed[0], err);
    if (!status && !check->finding &&
        memcmp(check->computed[0], check->computed[1], (size_t)check->n_active * sizeof(uint64_t)))
        check->finding = SW_FOUND_ARITHMETIC;
    return status;
}

/* ---- who ---- */

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

static sw_status differs(const sw_training *t, sw_error *err) {
    static const char *const what[] = {"", "parameters or moments changed while nobody wrote them",
                                       "their copies of parameters",
                                       "losses or gradients of the same rows"};
    const bool *is_suspect = t->check.is_suspect;
    char names[160];
    int n = 0;
    for (int r = 0; r < t->comm->n_ranks; r++)
        n += is_suspect[r];
    name_ranks(is_suspect, t->comm->n_ranks, names, sizeof names);
    const char *how = t->check.finding == SW_FOUND_UNREST ? "are wrong:"
                      : n == 1                            ? "differ from the others':"
                                                          : "differ from each other:";
    int64_t step = t->step + 1, before = step - t->run->settings->guard.verify_every;
    return sw_fail(err, SW_GUARD,
                   "the numbers of %s %s %s in step %" PRId64
                   ", which is not applied (guard.verify_every) · memory or processor "
                   "may be faulty: check the machine; checkpoints saved since the last "
                   "cross-check, at step %" PRId64 ", may hold wrong numbers",
                   names, how, what[t->check.finding], step, before);
}

/* Who computes a micro-batch again and finds something else has erred once; else two ranks stand
 * against each other, and a third decides, where there is one. */
static sw_status find_suspects(sw_training *t, sw_error *err) {
    sw_check *check = &t->check;
    int n = check->n_active;
    uint64_t again[2][SW_MAX_RANKS] = {{0}}, third[SW_MAX_RANKS] = {0};
    bool is_found = false;
    sw_status status = compute(t, 0, again[0], err);
    if (!status)
        status = compute(t, 1 % n, again[1], err);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < n && !status; k++)
            if (again[i][k] != check->computed[i][k])
                is_found = check->is_suspect[(k - i + n) % n] = true;
    if (!status && !is_found)
        status = compute(t, 2 % n, third, err);
    for (int k = 0; k < n && !status && !is_found; k++) {
        uint64_t values[] = {again[0][k], again[1][k], third[k]};
        bool is_odd[3];
        sw_majority(values, 3, is_odd);
        for (int i = 0; i < 3; i++)
            if (is_odd[i] ||
                (n == 2 && again[0][k] != again[1][k])) /* of two, the third is the first */
                check->is_suspect[(k - i + 2 * n) % n] = true;
    }
    return status;
}

sw_status sw_verify_judge(sw_training *t, sw_error *err) {
    /* All ranks are here before one of them ends the run, so that all say the same. */
    sw_status status =
        t->check.finding == SW_FOUND_ARITHMETIC ? find_suspects(t, err) : sw_barrier(t->comm, err);
    return status ? status : differs(t, err);
}
