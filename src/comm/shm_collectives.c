/* shm_collectives.c: gather, reduce and exchange over windows and counters.
 *
 *   gather   published[r] >= epoch + 1  means: rank r's slice holds that epoch. Nothing moves in a
 *            view.
 *   reduce   use k of a buffer:
 *              fill --> posted = k --> every rank folds its slice from all posters --> summed = k
 *            It may be filled again when all ranks' `summed` reached the last k that this rank
 *            posted. A rank without a contribution leaves `posted` behind and is not waited for; it
 *            sums like all others, so uses count alike everywhere.
 *   exchange two slots by parity: a rank that enters exchange k + 2 has passed k + 1, which all
 *            enter after reading k.
 *
 * A fingerprint is written before its counter rises and compared after the counter was seen, so it
 * is never compared half.
 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "comm/bridge.h"
#include "comm/copy.h"
#include "comm/shm.h"
#include "device/parallel.h"

static sw_control_cell *cell_of(const sw_comm *comm, int rank, int channel) {
    return &comm->control->rank[rank].cell[channel];
}

static sw_fingerprint fingerprint_of(sw_comm_operation operation, const sw_collective *c,
                                     uint64_t sequence) {
    sw_fingerprint print = {.sequence = sequence,
                            .operation = operation,
                            .dtype = c->dtype,
                            .unit = c->unit,
                            .bytes = c->shard_bytes};
    if (operation != SW_GATHER) {
        print.n_contributors = (uint32_t)c->n_contributors;
        print.accumulate = c->accumulate;
        print.share = c->share;
    }
    const char *name = c->unit_name ? c->unit_name : "";
    size_t length = strnlen(name, SW_UNIT_BYTES - 1);
    memcpy(print.unit_name, name, length); /* the rest is zero: fingerprints are compared whole */
    return print;
}

/* What a use of a buffer is for. */
static sw_comm_operation operation_of(const sw_collective *c) {
    return c->share ? SW_SHARING : SW_REDUCE;
}

static void set_operation(sw_comm *comm, int lane, sw_comm_operation operation) {
    sw_control_lane *control = &comm->control->rank[comm->rank].lane[lane];
    sw_lane_record record;
    sw_lane_load(control, &record);
    record.operation = (int32_t)operation;
    record.peer = -1;
    sw_lane_store(control, &record);
}

sw_status sw_shm_channel_open(sw_comm *comm, int channel, sw_channel_kind kind, sw_error *err) {
    if (channel < 0 || channel >= SW_MAX_CHANNELS)
        return sw_fail(err, SW_BUG, "channel %d is out of range", channel);
    atomic_store_explicit(&cell_of(comm, comm->rank, channel)->kind, kind, memory_order_release);
    return SW_OK;
}

/* Enter a collective on a channel: `operation` for messages, `kind` is what the channel must
 * serve. */
static sw_status begin(sw_comm *comm, sw_comm_operation operation, sw_channel_kind kind,
                       const sw_collective *c, sw_error *err) {
    if (c->channel < 0 || c->channel >= SW_MAX_CHANNELS || c->lane < 0 || c->lane >= SW_LANES ||
        c->shard_bytes < 0)
        return sw_fail(err, SW_BUG, "%s: channel %d, lane %d or %" PRId64 " bytes is out of range",
                       sw_operation_name(operation), c->channel, c->lane, c->shard_bytes);
    const int n_ranks = sw_shm_line(comm, c).n;
    if (kind == SW_CHANNEL_REDUCES && (c->n_contributors < 1 || c->n_contributors > n_ranks))
        return sw_fail(err, SW_BUG, "reduce with %d contributors of %d ranks", c->n_contributors,
                       n_ranks);
    uint32_t opened_for =
        atomic_load_explicit(&cell_of(comm, comm->rank, c->channel)->kind, memory_order_relaxed);
    if (opened_for != kind)
        return sw_fail(err, SW_BUG, "%s on channel %d, which was opened for %s",
                       sw_operation_name(operation), c->channel, sw_channel_kind_name(opened_for));
    sw_status status = sw_control_check(comm->control, err);
    if (status == SW_OK)
        set_operation(comm, c->lane, operation);
    return status;
}

static sw_status compare(sw_comm *comm, int peer, int channel, const sw_fingerprint *mine,
                         const sw_control_print *print, sw_error *err) {
    sw_fingerprint theirs;
    sw_print_load(print, &theirs);
    if (memcmp(mine, &theirs, sizeof theirs) == 0)
        return SW_OK;
    return sw_shm_mismatch(comm, peer, channel, mine, &theirs, err);
}

sw_status sw_shm_gather_publish(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_status status = begin(comm, SW_GATHER, SW_CHANNEL_GATHERS, c, err);
    if (status != SW_OK)
        return status;
    sw_control_cell *cell = cell_of(comm, comm->rank, c->channel);
    if (c->epoch + 1 < atomic_load_explicit(&cell->published, memory_order_relaxed)) {
        status = sw_fail(err, SW_BUG,
                         "unit \"%s\" is published with epoch %" PRIu64 ", below an earlier one",
                         c->unit_name, c->epoch);
    } else {
        sw_fingerprint print = fingerprint_of(
            SW_GATHER, c, atomic_load_explicit(&cell->gathered, memory_order_relaxed));
        sw_print_store(&cell->print, &print);
        atomic_store(&cell->published, c->epoch + 1);
        sw_control_ring(&comm->control->rank[comm->rank]);
    }
    set_operation(comm, c->lane, SW_IDLE);
    return status;
}

static sw_status gather_from(sw_comm *comm, const sw_collective *c, sw_line line, int place,
                             sw_fingerprint *mine, sw_error *err) {
    const int peer = line.first + place * line.step;
    const sw_control_cell *cell = cell_of(comm, peer, c->channel);
    sw_shm_wait wait = {&cell->published, c->epoch + 1, peer, c->lane, c->channel, SW_GATHER, mine};
    sw_status status = sw_shm_wait_for(comm, &wait, err);
    if (status != SW_OK)
        return status;
    if (peer == comm->rank) { /* the sequence at the own publish is what the others' must equal */
        sw_fingerprint own;
        sw_print_load(&cell->print, &own);
        mine->sequence = own.sequence;
    }
    status = compare(comm, peer, c->channel, mine, &cell->print, err);
    uint64_t published = atomic_load(&cell->published);
    if (status == SW_OK && published != c->epoch + 1) {
        sw_error own;
        sw_fail(&own, SW_MISMATCH,
                "rank %d gathers epoch %" PRIu64
                " of unit \"%s\", of which rank %d has already published epoch %" PRIu64
                "; an update must wait until all ranks have gathered",
                comm->rank, c->epoch, mine->unit_name, peer, published - 1);
        sw_comm_abort(comm, &own);
        return sw_fail(err, own.status, "%s", own.message);
    }
    const char *source = c->window + c->offset + place * c->rank_stride;
    char *destination = c->destination ? (char *)c->destination + place * c->shard_bytes : NULL;
    bool lies_there = destination == source; /* an own slice may, and peers read it */
    if (status == SW_OK && destination && c->shard_bytes > 0 && !lies_there)
        sw_copy_past_caches(destination, source, (size_t)c->shard_bytes);
    return status;
}

/* Each rank starts with itself and goes round, so that not all read from rank 0 at once. */
sw_status sw_shm_gather(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_status status = begin(comm, SW_GATHER, SW_CHANNEL_GATHERS, c, err);
    if (status != SW_OK)
        return status;
    sw_control_cell *cell = cell_of(comm, comm->rank, c->channel);
    sw_fingerprint mine =
        fingerprint_of(SW_GATHER, c, atomic_load_explicit(&cell->gathered, memory_order_relaxed));
    const sw_line line = sw_shm_line(comm, c);
    for (int i = 0; i < line.n && status == SW_OK; i++)
        status = gather_from(comm, c, line, (sw_shm_place(comm, line) + i) % line.n, &mine, err);
    if (status == SW_OK)
        atomic_fetch_add_explicit(&cell->gathered, 1, memory_order_relaxed);
    set_operation(comm, c->lane, SW_IDLE);
    return status;
}

sw_status sw_shm_reduce_acquire(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_status status = begin(comm, SW_ACQUIRE, SW_CHANNEL_REDUCES, c, err);
    if (status != SW_OK)
        return status;
    uint64_t last_use =
        atomic_load_explicit(&cell_of(comm, comm->rank, c->channel)->posted, memory_order_relaxed);
    sw_fingerprint mine = fingerprint_of(operation_of(c), c, last_use);
    const sw_line line = sw_shm_line(comm, c);
    for (int i = 0; i < line.n && status == SW_OK; i++) {
        const int r = line.first + i * line.step;
        sw_shm_wait wait = {&cell_of(comm, r, c->channel)->summed,
                            last_use,
                            r,
                            c->lane,
                            c->channel,
                            SW_ACQUIRE,
                            &mine};
        status = sw_shm_wait_for(comm, &wait, err);
    }
    set_operation(comm, c->lane, SW_IDLE);
    return status;
}

sw_status sw_shm_reduce_post(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_status status = begin(comm, operation_of(c), SW_CHANNEL_REDUCES, c, err);
    if (status != SW_OK)
        return status;
    sw_control_cell *cell = cell_of(comm, comm->rank, c->channel);
    uint64_t use = atomic_load_explicit(&cell->summed, memory_order_relaxed) + 1;
    if (atomic_load_explicit(&cell->posted, memory_order_relaxed) >= use ||
        sw_shm_place(comm, sw_shm_line(comm, c)) >= c->n_contributors) {
        status = sw_fail(err, SW_BUG,
                         "rank %d posts unit \"%s\" twice, or contributes without being one of the "
                         "%d contributors",
                         comm->rank, c->unit_name, c->n_contributors);
    } else {
        sw_fingerprint print = fingerprint_of(operation_of(c), c, use);
        sw_print_store(&cell->print, &print);
        atomic_store(&cell->posted, use);
        sw_control_ring(&comm->control->rank[comm->rank]);
    }
    set_operation(comm, c->lane, SW_IDLE);
    return status;
}

/* Contributions to one slice, and what sums them. */
typedef struct fold_work {
    int place; /* of this rank on the line: its slice */
    const sw_collective *c;
    const sw_device *device; /* one thread of it */
    sw_kernel_fn fold, square;
    pthread_mutex_t lock; /* of c->squares, while tasks add to it */
} fold_work;

enum { FOLD_BLOCK_BYTES = 16 << 10, FOLD_TASK_BYTES = 64 * FOLD_BLOCK_BYTES };

/* Fold the contributions into `sum` [n elements of R], `first` elements from the start of the
 * slice. */
static void fold_block(const fold_work *w, int64_t first, int64_t n, char *sum) {
    enum { SOURCE, SUM };
    const sw_collective *c = w->c;
    int64_t size = sw_dtype_bytes(c->dtype);
    for (int r = 0; r < c->n_contributors; r++) {
        char *source =
            c->window + c->offset + r * c->rank_stride + w->place * c->shard_bytes + first * size;
        sw_kernel_call call = {.operand = {source, sum},
                               .dim = {n},
                               .accumulate = r > 0 || c->accumulate ? 1u << SUM : 0};
        w->fold(w->device, &call);
    }
}

/* Blocks are summed, and squared if that is wanted, where they fit in cache. The destination may be
 * this rank's own contribution, so a block is put there only when all contributions to it have been
 * read. Squares add up exactly, so it does not matter which task is first. */
static void fold_task(void *arg, int64_t task, int worker) {
    (void)worker;
    fold_work *w = arg;
    const sw_collective *c = w->c;
    _Alignas(64) char block[FOLD_BLOCK_BYTES];
    sw_wide_sum squares = {0};
    int64_t begin = task * FOLD_TASK_BYTES, end = begin + FOLD_TASK_BYTES,
            size = sw_dtype_bytes(c->dtype);
    end = end < c->shard_bytes ? end : c->shard_bytes;
    for (int64_t at = begin; at < end; at += FOLD_BLOCK_BYTES) {
        int64_t bytes = end - at < FOLD_BLOCK_BYTES ? end - at : FOLD_BLOCK_BYTES;
        char *destination = (char *)c->destination + at;
        if (c->accumulate)
            w->device->copy(w->device, block, destination, bytes);
        fold_block(w, at / size, bytes / size, block);
        w->device->copy(w->device, destination, block, bytes);
        if (c->squares)
            w->square(w->device,
                      &(sw_kernel_call){.operand = {block, &squares}, .dim = {bytes / size}});
    }
    if (!c->squares)
        return;
    pthread_mutex_lock(&w->lock);
    sw_wide_sum_merge(c->squares, &squares);
    pthread_mutex_unlock(&w->lock);
}

sw_status sw_shm_use_begin(sw_comm *comm, const sw_collective *c, uint64_t *use, sw_error *err) {
    const sw_comm_operation operation = operation_of(c);
    sw_status status = begin(comm, operation, SW_CHANNEL_REDUCES, c, err);
    if (status != SW_OK)
        return status;
    const sw_control_cell *own = cell_of(comm, comm->rank, c->channel);
    *use = atomic_load_explicit(&own->summed, memory_order_relaxed) + 1;
    sw_fingerprint mine = fingerprint_of(operation, c, *use);
    const sw_line line = sw_shm_line(comm, c);
    for (int i = 0; i < c->n_contributors && status == SW_OK; i++) {
        const int r = line.first + i * line.step;
        const sw_control_cell *cell = cell_of(comm, r, c->channel);
        sw_shm_wait wait = {&cell->posted, *use, r, c->lane, c->channel, operation, &mine};
        status = sw_shm_wait_for(comm, &wait, err);
        if (status == SW_OK)
            status = compare(comm, r, c->channel, &mine, &cell->print, err);
    }
    if (status != SW_OK)
        set_operation(comm, c->lane, SW_IDLE);
    return status;
}

void sw_shm_use_end(sw_comm *comm, const sw_collective *c, uint64_t use) {
    atomic_store(&cell_of(comm, comm->rank, c->channel)->summed, use);
    sw_control_ring(&comm->control->rank[comm->rank]);
    set_operation(comm, c->lane, SW_IDLE);
}

sw_status sw_shm_reduce_sum(sw_comm *comm, const sw_collective *c, const sw_device *device,
                            sw_number_kind numbers, sw_error *err) {
    uint64_t use;
    sw_status status = sw_shm_use_begin(comm, c, &use, err);
    if (status != SW_OK)
        return status;
    fold_work work = {.place = sw_shm_place(comm, sw_shm_line(comm, c)),
                      .c = c,
                      .device = device->alone,
                      .fold = sw_device_kernel(device, numbers, SW_KERNEL_FOLD),
                      .square = sw_device_kernel(device, numbers, SW_KERNEL_SQUARES),
                      .lock = PTHREAD_MUTEX_INITIALIZER};
    sw_parallel(device, (c->shard_bytes + FOLD_TASK_BYTES - 1) / FOLD_TASK_BYTES, fold_task, &work);
    sw_shm_use_end(comm, c, use);
    return SW_OK;
}

sw_status sw_shm_exchange(sw_comm *comm, const void *mine, void *all, size_t bytes, sw_error *err) {
    if (bytes > SW_EXCHANGE_BYTES)
        return sw_fail(err, SW_BUG, "exchange of %zu bytes; at most %d", bytes, SW_EXCHANGE_BYTES);
    sw_status status = sw_control_check(comm->control, err);
    if (status != SW_OK)
        return status;
    sw_comm_operation operation = mine ? SW_EXCHANGE : SW_BARRIER;
    set_operation(comm, 0, operation);
    sw_control_rank *own = &comm->control->rank[comm->rank];
    uint64_t count = atomic_load_explicit(&own->arrived, memory_order_relaxed) + 1;
    int slot = (int)(count % 2);
    sw_fingerprint print = {.sequence = count, .operation = operation, .bytes = (int64_t)bytes};
    sw_print_store(&own->exchange_print[slot], &print);
    if (bytes > 0)
        memcpy(own->exchange_slot[slot], mine, bytes);
    atomic_store(&own->arrived, count);
    sw_control_ring(own);
    const sw_shm *shm = comm->transport;
    if (shm->bridge)
        status = sw_bridge_put(
            shm->bridge, comm->control, comm->rank, SW_LANE_COMPUTE,
            &(sw_note){
                .kind = SW_NOTE_EXCHANGE, .value = count, .bytes = (int64_t)bytes, .print = print},
            err);
    for (int r = 0; r < comm->n_ranks && status == SW_OK; r++) {
        const sw_control_rank *peer = &comm->control->rank[r];
        sw_shm_wait wait = {&peer->arrived, count, r, 0, -1, operation, &print};
        status = sw_shm_wait_for(comm, &wait, err);
        if (status == SW_OK)
            status = compare(comm, r, -1, &print, &peer->exchange_print[slot], err);
        if (status == SW_OK && bytes > 0)
            memcpy((char *)all + (size_t)r * bytes, peer->exchange_slot[slot], bytes);
    }
    set_operation(comm, 0, SW_IDLE);
    return status;
}
