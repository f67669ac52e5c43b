/* lanes.c: instructions are executed here, one after another, by one thread per lane.
 *
 * Positions count all instructions that have run since the start, in the order of the list, over
 * all lanes. A lane tells how far it has come; an instruction that waits for another lane waits for
 * a position. Every wait points backward in the list and lanes go through the list in order, so
 * waits cannot form a circle.
 *
 * All that lanes share is under one lock. Who sleeps there says so in its record, with the word of
 * control memory that ends the sleep: else the supervisor, which looks whether anybody can still go
 * on, would have to guess.
 */
#include "execute/executor_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/reason.h"
#include "comm/control.h"
#include "launch/watch.h"

static sw_control_lane *record_of(const sw_executor *e, int lane) {
    return &e->comm->control->rank[e->comm->rank].lane[lane];
}

/* Under the lock: `lane` is about to sleep until `counter`, which another lane raises, is at least
 * `target`. */
static void begin_sleep(const sw_executor *e, int lane, const _Atomic uint64_t *counter,
                        uint64_t target) {
    sw_lane_wait_begins(record_of(e, lane), &(sw_lane_wait){.control = e->comm->control,
                                                            .counter = counter,
                                                            .target = target,
                                                            .operation = SW_OTHER_LANE,
                                                            .peer = e->comm->rank,
                                                            .channel = -1});
}

static void advance(sw_executor *e, int lane, int64_t position) {
    if (!e->has_lock)
        return;
    pthread_mutex_lock(&e->lock);
    e->lane[lane].done = position;
    atomic_store(&record_of(e, lane)->position, (uint64_t)position);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* `lane` waits for another one. */
static sw_status wait_for(sw_executor *e, int lane, int other, int64_t position, sw_error *err) {
    sw_status status = SW_OK;
    pthread_mutex_lock(&e->lock);
    bool sleeps = e->lane[other].done < position && !e->failed;
    if (sleeps)
        begin_sleep(e, lane, &record_of(e, other)->position, (uint64_t)position);
    while (e->lane[other].done < position && !e->failed)
        pthread_cond_wait(&e->changed, &e->lock);
    if (sleeps)
        sw_lane_wait_ends(record_of(e, lane));
    if (e->failed) {
        *err = e->lane_error;
        status = err->status;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

static sw_status wait_for_lanes(sw_executor *e, const sw_segment_run *run,
                                const sw_instruction *instruction, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; i < instruction->n_waits && !status; i++)
        status = wait_for(
            e, (int)instruction->lane, instruction->wait[i].lane,
            sw_wait_position(e->programs[run->program], &run->positions, &instruction->wait[i]),
            err);
    return status;
}

sw_status sw_lane_protect(sw_executor *e, int group, bool is_gathered, bool is_update,
                          sw_error *err) {
    if (e->states->sharding.mode != SW_SHM_TRAP || e->states->sharding.stage != 3 || group < 0)
        return SW_OK;
    const sw_group *g = &e->states->layout->groups[group];
    const sw_buffer *copy = &e->states->buffers.item[e->states->copy[group]];
    char *whole = e->slices.base + e->comm->n_ranks * copy->address;
    int64_t slice = g->shard * sw_dtype_bytes(e->states->sharding.parameter_dtype);
    if (!slice)
        return SW_OK;
    for (int r = 0; r < e->comm->n_ranks; r++) {
        sw_page_access access = r == e->comm->rank ? (is_update ? SW_PAGE_WRITE : SW_PAGE_READ)
                                : is_gathered      ? SW_PAGE_READ
                                                   : SW_PAGE_NONE;
        sw_status status = sw_comm_protect(e->comm, whole + r * slice, (size_t)slice, access, err);
        if (status)
            return status;
    }
    return SW_OK;
}

#ifdef SW_POISON
/* Debug builds: bytes that nobody may read are NaN. Those of a unit that was given back, of a
 * gradient buffer before it is filled, of a transient buffer after its last instruction. */
static void poison(const sw_executor *e, const sw_bound *bound, const sw_segment_run *run,
                   int index) {
    const sw_instruction *instruction = bound->instruction;
    bool is_stale = instruction->kind == SW_DO_RESHARD ||
                    (instruction->kind == SW_DO_REDUCE_ACQUIRE && run->is_active && run->slot == 0);
    if (is_stale && instruction->n_operands)
        memset(bound->call.operand[0], 0xff, (size_t)instruction->operand[0].bytes);
    const sw_program *program = e->programs[run->program];
    for (int b = 0; b < program->buffers.n && run->is_active;
         b++) { /* a rank that is not has not acquired the ring's places */
        const sw_buffer *buffer = &program->buffers.item[b];
        if (!buffer->is_persistent && buffer->last == index)
            memset(sw_executor_base(e, buffer, e->comm->rank), 0xff, (size_t)buffer->bytes);
    }
}
#endif

static sw_status reshard(sw_executor *e, const sw_bound *bound, sw_error *err) {
    const sw_instruction *instruction = bound->instruction;
    const sw_shard_unit *unit = &e->states->layout->units[instruction->unit];
    sw_status status = sw_lane_protect(e, unit->trainable_group, false, false, err);
    return status ? status : sw_lane_protect(e, unit->frozen_group, false, false, err);
}

static void update(sw_executor *e, sw_bound *bound) {
    double attributes[SW_MAX_OPTIMIZER_NUMBERS];
    int decay = sw_optimizer_attributes(&e->states->sharding.optimizer, attributes);
    for (int s = 0; s < bound->n_stripes; s++) {
        sw_kernel_call call = bound->call;
        call.scalars = &e->scalars;
        for (int held = 0; held < bound->instruction->n_operands; held++)
            if (call.operand[held])
                call.operand[held] = (char *)call.operand[held] +
                                     bound->stripes[s].first * sw_held_bytes(e->states, held);
        call.dim[0] = bound->stripes[s].n;
        if (decay >= 0 && !bound->stripes[s].decays)
            call.attribute[decay] = 0;
        bound->fn(e->device, &call);
    }
}

static uint64_t gather_epoch(const sw_segment_run *run, const sw_instruction *instruction) {
    return instruction->by_step ? run->epoch : 1;
}

/* A rank without a micro-batch computes nothing and contributes nothing; all else it goes through
 * like the others. */
static bool is_passed_over(const sw_segment_run *run, sw_instruction_kind kind) {
    return !run->is_active && (kind == SW_DO_KERNEL || kind == SW_DO_REDUCE_ACQUIRE ||
                               kind == SW_DO_PAD || kind == SW_DO_REDUCE_POST);
}

static sw_status execute(sw_executor *e, sw_bound *bound, const sw_segment_run *run,
                         sw_error *err) {
    const sw_instruction *instruction = bound->instruction;
    const sw_comm_vtable *v = e->comm->vtable;
    sw_collective c = bound->collective;
    c.n_contributors = c.share
                           ? sw_mesh_line_contributors(&e->states->sharding.mesh, instruction->axis,
                                                       e->comm->rank, run->n_contributors)
                           : run->n_contributors;
    c.accumulate = run->slot > 0 && bound->accumulates_later;
    sw_status status;
    switch (instruction->kind) {
    case SW_DO_KERNEL:
        bound->call.scalars = &e->scalars;
        bound->call.accumulate =
            instruction->accumulate | (run->slot > 0 ? instruction->accumulate_later_slots : 0);
        bound->fn(e->device, &bound->call);
        return SW_OK;
    case SW_DO_PUBLISH: /* after an update the parameters are those of the next step */
        c.epoch = gather_epoch(run, instruction) + !instruction->is_gradient;
        status = v->gather_publish(e->comm, &c, err);
        return status ? status : sw_lane_protect(e, instruction->group, false, false, err);
    case SW_DO_GATHER: /* in the update segment: what has just been published */
        c.epoch = gather_epoch(run, instruction) +
                  (!instruction->is_gradient && instruction->segment == SW_SEGMENT_UPDATE);
        status = v->gather(e->comm, &c, err);
        return status ? status : sw_lane_protect(e, instruction->group, true, false, err);
    case SW_DO_RESHARD:
        return reshard(e, bound, err);
    case SW_DO_REDUCE_ACQUIRE:
        return v->reduce_acquire(e->comm, &c, err);
    case SW_DO_PAD:
        for (int s = 0; s < bound->n_stripes; s++) {
            sw_kernel_call call = {
                .operand = {(float *)bound->call.operand[0] + bound->stripes[s].first},
                .dim = {bound->stripes[s].n}};
            bound->fn(e->device, &call);
        }
        return SW_OK;
    case SW_DO_REDUCE_POST:
        if (!c.share && e->hooks->gradient)
            e->hooks->gradient(e->hooks->self, bound->call.operand[0],
                               instruction->operand[0].bytes);
        return v->reduce_post(e->comm, &c, err);
    case SW_DO_REDUCE_SUM:
        c.squares = run->is_last ? &e->squares : NULL;
        return v->reduce_sum(e->comm, &c, e->n_lanes > 1 ? e->device->alone : e->device, e->numbers,
                             err);
    case SW_DO_SHARE: /* where nobody of the line has a micro-batch, all leave it out */
        c.destination = run->is_active ? c.destination : NULL;
        return c.n_contributors
                   ? v->share(e->comm, &c, e->n_lanes > 1 ? e->device->alone : e->device,
                              e->numbers, err)
                   : SW_OK;
    case SW_DO_DECIDE:
        return e->hooks->decide(e->hooks->self, &e->squares, &e->scalars, err);
    case SW_DO_UPDATE:
        status = e->hooks->before_update
                     ? e->hooks->before_update(e->hooks->self, instruction->group, err)
                     : SW_OK;
        if (!status)
            status = sw_lane_protect(e, instruction->group, false, true, err);
        if (!status)
            update(e, bound);
        return status;
    }
    return SW_OK;
}

static sw_status execute_observed(sw_executor *e, int lane, sw_bound *bound,
                                  const sw_segment_run *run, int index, sw_error *err) {
    const sw_boundary boundary = {lane, run->step, run->program, index, bound->instruction};
    sw_status status = SW_OK;
    for (int i = 0; i < e->n_observers && !status; i++)
        status = e->observers[i]->before(e->observers[i]->self, &boundary, err);
    if (!status)
        status = execute(e, bound, run, err);
    for (int i = 0; i < e->n_observers && !status; i++)
        status = e->observers[i]->after(e->observers[i]->self, &boundary, err);
    return status;
}

/* ---- a lane ---- */

/* Run one segment on this thread as `lane`; instructions of other lanes are passed over. */
static sw_status run_lane(sw_executor *e, int lane, const sw_segment_run *run, sw_error *err) {
    const sw_program *program = e->programs[run->program];
    int first = program->segment_first[run->segment], n = program->segment_count[run->segment];
    double begin = sw_seconds_now();
    for (int i = 0; i < n; i++) {
        sw_bound *bound = &e->bound[run->program][first + i];
        const sw_instruction *instruction = bound->instruction;
        if (instruction->lane != (sw_lane)lane)
            continue;
        sw_comm_enter(e->comm, lane, run->step, run->slot, first + i, instruction->label);
        bool runs = !is_passed_over(run, instruction->kind);
        double waited_before = e->comm->waited_seconds[lane];
        sw_status status = wait_for_lanes(e, run, instruction, err);
        double ready = sw_seconds_now();
        if (!status && runs)
            status = e->n_observers ? execute_observed(e, lane, bound, run, first + i, err)
                                    : execute(e, bound, run, err);
        if (status)
            return status;
#ifdef SW_POISON
        if (e->device->is_host)
            poison(e, bound, run, first + i);
#endif
        double end = sw_seconds_now(), for_peers = e->comm->waited_seconds[lane] - waited_before;
        runs &= run->is_active || instruction->kind != SW_DO_SHARE; /* which gave it nothing */
        sw_lane_count(e, lane, bound, run, end - ready - for_peers, ready - begin, for_peers, runs);
        begin = end;
        advance(e, lane, run->positions.base + i + 1);
    }
    advance(e, lane, run->positions.base + n);
    return SW_OK;
}

static void fail(sw_executor *e, const sw_error *err) {
    pthread_mutex_lock(&e->lock);
    if (!e->failed) {
        e->failed = true;
        e->lane_error = *err;
    }
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void sw_lanes_abort(sw_executor *e, int lane, const sw_error *error) {
    sw_error own = *error;
    if (e->has_lock)
        fail(e, error);
    sw_say_where(e->comm->control, e->comm->rank, lane, &own);
    sw_comm_abort(e->comm, &own);
}

/* Under the lock, or before the lane has a thread: all that was given is taken, and it has nothing
 * to do until more is. */
static void rest(const sw_executor *e, int lane) {
    const _Atomic uint64_t *given = &record_of(e, SW_LANE_COMPUTE)->handed;
    sw_lane_store(record_of(e, lane), &(sw_lane_record){.peer = -1});
    begin_sleep(e, lane, given, atomic_load(given) + 1);
}

static void *go_on(void *arg) {
    sw_lane_state *mine = arg;
    sw_executor *e = mine->executor;
    e->device->unpin(e->device); /* beside the compute lane, not behind it */
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (mine->n_taken == e->n_queued && !e->stop)
            pthread_cond_wait(&e->changed, &e->lock);
        if (e->stop)
            break;
        sw_segment_run run = e->queue[mine->n_taken % SW_QUEUE];
        bool failed = e->failed;
        pthread_mutex_unlock(&e->lock);
        sw_error err = {SW_OK, ""};
        if (!failed && run_lane(e, mine->lane, &run, &err))
            sw_lanes_abort(e, mine->lane, &err);
        pthread_mutex_lock(&e->lock);
        mine->n_taken++;
        atomic_fetch_add(&record_of(e, mine->lane)->handed, 1);
        if (mine->n_taken == e->n_queued)
            rest(e, mine->lane);
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

sw_status sw_lanes_start(sw_executor *e, sw_error *err) {
    if (e->n_lanes == 1)
        return SW_OK;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->has_lock = true;
    for (int lane = 1; lane < e->n_lanes; lane++) {
        e->lane[lane] = (sw_lane_state){.executor = e, .lane = lane};
        rest(e, lane);
        int code = pthread_create(&e->lane[lane].thread, NULL, go_on, &e->lane[lane]);
        if (code)
            return sw_fail_call(err, SW_CALL_PROCESS, code,
                                "rank %d: the communication lane's thread could not be started",
                                e->comm->rank);
        e->lane[lane].has_thread = true;
    }
    return SW_OK;
}

void sw_lanes_stop(sw_executor *e) {
    if (!e->has_lock)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    for (int lane = 1; lane < e->n_lanes; lane++)
        if (e->lane[lane].has_thread)
            pthread_join(e->lane[lane].thread, NULL);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    e->has_lock = false;
}

/* Under the lock, by the compute lane: until at most so many segment runs are left to each of the
 * others. */
static void wait_until_taken(sw_executor *e, int64_t n_left) {
    for (int lane = 1; lane < e->n_lanes; lane++) {
        const _Atomic uint64_t *taken = &record_of(e, lane)->handed;
        const int64_t n_more = e->n_queued - e->lane[lane].n_taken - n_left;
        if (n_more <= 0)
            continue;
        begin_sleep(e, SW_LANE_COMPUTE, taken, atomic_load(taken) + (uint64_t)n_more);
        while (e->n_queued - e->lane[lane].n_taken > n_left)
            pthread_cond_wait(&e->changed, &e->lock);
        sw_lane_wait_ends(record_of(e, SW_LANE_COMPUTE));
    }
}

void sw_lanes_give(sw_executor *e, const sw_segment_run *run) {
    if (!e->has_lock)
        return;
    pthread_mutex_lock(&e->lock);
    wait_until_taken(e, SW_QUEUE - 1);
    e->queue[e->n_queued++ % SW_QUEUE] = *run;
    atomic_fetch_add(&record_of(e, SW_LANE_COMPUTE)->handed, 1);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

sw_status sw_lanes_compute(sw_executor *e, const sw_segment_run *run, sw_error *err) {
    return run_lane(e, SW_LANE_COMPUTE, run, err);
}

sw_status sw_lanes_settle(sw_executor *e, sw_error *err) {
    sw_status status = SW_OK;
    if (!e->has_lock)
        return SW_OK;
    pthread_mutex_lock(&e->lock);
    wait_until_taken(e, 0);
    if (e->failed) {
        *err = e->lane_error;
        status = err->status;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}
