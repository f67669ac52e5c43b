/* Models whose ranks share values, run by the executor: loss and gradients are those of one rank
 * that has all rows, in every mode, at every stage, also where some ranks have no micro-batch;
 * memory and bytes moved are those that the program tells; and a rank that dies in between ends
 * all. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "execute/masters.h"
#include "support/comm_ranks.h"
#include "support/graph_interpreter.h"

enum { TOKENS = 6, CHANNELS = 32, HIDDEN = 9, VOCABULARY = 19, MOST_RANKS = 4 };
enum { N_ELEMENTS = 2 * VOCABULARY * CHANNELS + CHANNELS + CHANNELS * (CHANNELS + 2 * HIDDEN) };

/* What is recorded: as one of the ranks of a mesh, or for one rank that has the tokens of
 * n_together of them in one row. */
typedef struct model {
    int n_together;          /* 0: a rank of several */
    bool sums_by_two_axes;   /* over ranks of both, one axis after the other */
    const char *gather_axis; /* NULL: rows are not gathered */
    sw_unit *block;
    sw_parameter *norm, *mix, *wide, *narrow;
} model;

static const double FACTOR = 0.5;

static sw_value *sum_over_all(sw_graph *g, const model *m, sw_value *x) {
    x = sw_sum_over(g, x, "shard");
    return m->sums_by_two_axes ? sw_sum_over(g, x, "replicate") : x;
}

/* x + a layer of the mean over all tokens + a layer of the rows that ranks compute for each
 * other. */
static sw_value *block(sw_graph *g, void *self, sw_value *x) {
    const model *m = self;
    const int n = m->n_together;
    sw_value *h = sw_rmsnorm(g, x, m->norm, 1e-5), *none = sw_scale(g, h, 0), *rows = h;
    const sw_attention_options full = {.mask = SW_MASK_FULL, .scale = 1};
    sw_value *mean = sw_attention_with(g, none, none, h, 2, 2, &full);
    if (n)
        mean = sw_scale(g, mean, FACTOR * n);
    else
        mean = sw_scale(g, sum_over_all(g, m, mean), FACTOR);
    if (m->gather_axis)
        rows = sw_gather_over(g, rows, m->gather_axis);
    rows = sw_gelu(g, sw_linear(g, rows, m->wide, NULL, SW_OUT_IN));
    if (n)
        rows = sw_scale(g, rows, n);
    else if (m->gather_axis)
        rows = sw_sum_slice_over(g, rows, m->gather_axis);
    sw_value *y = sw_add(g, sw_linear(g, mean, m->mix, NULL, SW_OUT_IN),
                         sw_linear(g, rows, m->narrow, NULL, SW_OUT_IN));
    return sw_add(g, x, y);
}

static sw_parameter *declare(sw_graph *g, sw_unit *unit, const char *name, int64_t rows,
                             int64_t columns) {
    return sw_parameter_declare(g, unit, name, 2, (int64_t[]){rows, columns}, SW_INIT_NORMAL, 0.1);
}

static void record(sw_graph *g, model *m) {
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = declare(g, root, "table", VOCABULARY, CHANNELS),
                 *head = declare(g, root, "head", VOCABULARY, CHANNELS);
    m->block = sw_unit_declare(g, root, "block");
    m->norm = sw_parameter_declare(g, m->block, "norm", 1, (int64_t[]){CHANNELS}, SW_INIT_ONES, 0);
    m->mix = declare(g, m->block, "mix", CHANNELS, CHANNELS);
    m->wide = declare(g, m->block, "wide", HIDDEN, CHANNELS);
    m->narrow = declare(g, m->block, "narrow", CHANNELS, HIDDEN);
    sw_value *x = sw_embedding(g, sw_tokens(g), table);
    sw_cross_entropy(g, sw_call(g, m->block, block, m, x), head, sw_targets(g));
}

static sw_graph *make_graph(model *m, const sw_mesh *mesh, int64_t n_tokens) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(1, n_tokens, &graph, &err), SW_OK);
    sw_graph_spread(graph, mesh);
    record(graph, m);
    if (sw_graph_status(graph, &err))
        fail_msg("%s", err.message);
    return graph;
}

static int32_t token_at(int64_t i) {
    return (int32_t)(graph_interpreter_uniform(3, (uint64_t)i) * VOCABULARY);
}
static int32_t target_at(int64_t i) {
    return i % 5 == 3 ? -1 : (int32_t)(graph_interpreter_uniform(4, (uint64_t)i) * VOCABULARY);
}
static double parameter_at(const sw_parameter *p, int64_t i) {
    return sw_bf16_to_float(
        sw_float_to_bf16((float)(0.6 * graph_interpreter_uniform(p->stream, (uint64_t)i) - 0.2)));
}

/* Loss, and gradients of all parameters one after another. */
typedef struct outcome {
    double loss, gradient[N_ELEMENTS];
} outcome;

/* What micro-batches first .. first + n - 1 give together, in double. */
static void add_reference(int first, int n, outcome *sum) {
    sw_device *device;
    sw_error err = {0};
    model m = {.n_together = n};
    const sw_mesh one = sw_mesh_flat(1);
    int32_t tokens[MOST_RANKS * TOKENS], targets[MOST_RANKS * TOKENS];
    for (int i = 0; i < n * TOKENS; i++) {
        tokens[i] = token_at(first * TOKENS + i);
        targets[i] = target_at(first * TOKENS + i);
    }
    sw_graph *graph = make_graph(&m, &one, n * TOKENS);
    assert_int_equal(sw_graph_differentiate(graph, &err), SW_OK);
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, &err), SW_OK);
    graph_interpreter it = graph_interpreter_create(graph, device, SW_NUMBERS_F64);
    for (int p = 0; p < graph->parameters.n; p++)
        for (int64_t i = 0; i < graph->parameters.item[p]->n_elements; i++)
            graph_interpreter_set_parameter(&it, p, i, parameter_at(graph->parameters.item[p], i));
    graph_interpreter_set_inputs(&it, tokens, targets);
    sum->loss += graph_interpreter_run(&it);
    for (int p = 0, at = 0; p < graph->parameters.n; p++)
        for (int64_t i = 0; i < graph->parameters.item[p]->n_elements; i++)
            sum->gradient[at++] += graph_interpreter_gradient(&it, p, i);
    graph_interpreter_free(&it);
    device->close(device);
    sw_graph_free(graph);
}

typedef struct trial {
    sw_sharding sharding;
    sw_recompute recompute;
    bool is_forward, sums_by_two_axes;
    const char *gather_axis;
    int n_micro_batches;
    int fails;  /* in rank 1, at the first share: 1 with an error, 2 by SIGKILL; 0: it does not */
    bool moves; /* all slots are full: what is moved and used must be what is planned */
    sw_compiled *compiled;
    const sw_program *program;
    double losses[MOST_RANKS];
    outcome *got;
} trial;

typedef struct rank_state {
    const trial *trial;
    outcome *got;
    sw_comm *comm;
    sw_executor *executor;
    double loss;
} rank_state;

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    rank_state *r = self;
    (void)scalars, (void)err;
    const sw_deal deal = sw_mesh_deal(&r->trial->sharding.mesh, r->trial->n_micro_batches);
    const int64_t first = sw_deal_micro_batch(deal, r->comm->rank, slot) * TOKENS;
    int32_t *tokens = sw_executor_port(r->executor, 0, SW_PORT_TOKENS),
            *targets = sw_executor_port(r->executor, 0, SW_PORT_TARGETS);
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = token_at(first + i);
        targets[i] = target_at(first + i);
    }
    return SW_OK;
}

static sw_status collect(void *self, int slot, sw_error *err) {
    rank_state *r = self;
    (void)slot, (void)err;
    r->loss += *(const double *)sw_executor_port(r->executor, 0, SW_PORT_LOSS);
    return SW_OK;
}

/* Gradients as they are when the step is decided: this rank's slices. */
static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                        sw_error *err) {
    rank_state *r = self;
    (void)squares;
    const sw_states *states = &r->trial->compiled->states;
    const sw_layout *layout = states->layout;
    scalars->proceed = 1;
    for (int g = 0; g < layout->n_groups; g++) {
        const sw_group *group = &layout->groups[g];
        const int owner = sw_layout_owner(layout, r->comm->rank);
        const float *own = sw_executor_address(r->executor, 0, states->gradient[g]);
        if (!own)
            own = (const float *)sw_executor_address(r->executor, 0, states->whole_gradient[g]) +
                  owner * group->shard;
        sw_piece piece;
        for (int at = 0; sw_layout_next_piece(layout, g, owner, &at, &piece);) {
            int64_t place = 0;
            for (int p = 0; p < piece.parameter->id; p++)
                place += layout->parameters[p].parameter->n_elements;
            for (int64_t i = 0; i < piece.length; i++)
                r->got->gradient[place + piece.first + i] = own[piece.shard_offset + i];
        }
    }
    return sw_barrier(r->comm, err);
}

static sw_status put_parameters(sw_executor *executor, const sw_compiled *c, int rank,
                                sw_error *err) {
    int owner, end;
    sw_masters_owners(c, rank, &owner, &end);
    for (; owner < end; owner++)
        for (int g = 0; g < c->layout.n_groups; g++) {
            sw_masters masters = {executor, &c->states, owner};
            sw_piece piece;
            for (int at = 0; sw_layout_next_piece(&c->layout, g, owner, &at, &piece);)
                for (int64_t i = 0; i < piece.length; i++) {
                    float value = (float)parameter_at(piece.parameter, piece.first + i);
                    RANK_TRY(sw_masters_put(&masters, g, &piece, i, 1, &value, err));
                }
        }
    return sw_executor_publish(executor, err);
}

static sw_status strike(void *self, const sw_boundary *boundary, sw_error *err) {
    const rank_state *r = self;
    if (boundary->instruction->kind != SW_DO_SHARE || r->comm->rank != 1)
        return SW_OK;
    if (r->trial->fails == 2)
        raise(SIGKILL);
    return sw_fail(err, SW_BAD_FILE, "struck");
}
static sw_status pass(void *self, const sw_boundary *boundary, sw_error *err) {
    (void)self, (void)boundary, (void)err;
    return SW_OK;
}

/* The bytes moved are those of the program, and so is the memory touched. */
static sw_status check_counts(const trial *t, sw_executor *executor, sw_error *err) {
    const sw_executor_counts *counts = sw_executor_count(executor);
    const int n_slots = sw_deal_slots(sw_mesh_deal(&t->sharding.mesh, t->n_micro_batches));
    int64_t gather, reduce;
    sw_program_traffic(t->program, n_slots, &gather, &reduce);
    RANK_CHECK(counts->gather_bytes == gather && counts->reduce_bytes == reduce);
    RANK_CHECK(fabs(counts->flops - sw_program_flops(t->program, n_slots)) <= 1e-9 * counts->flops);
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        if (counts->peak[c] != t->program->class_end[c])
            return sw_fail(err, SW_BUG, "%s: %lld bytes touched, %lld planned",
                           sw_memory_class_name((sw_memory_class)c), (long long)counts->peak[c],
                           (long long)t->program->class_end[c]);
    return SW_OK;
}

static sw_status run_rank(sw_comm *comm, void *arg, sw_error *err) {
    trial *t = arg;
    sw_device *device = NULL;
    rank_state r = {t, t->got, comm, NULL, 0};
    RANK_TRY(sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, err));
    sw_status status = sw_executor_create(comm, device, &t->compiled->states, t->compiled->readable,
                                          1, &r.executor, err);
    if (!status)
        status = put_parameters(r.executor, t->compiled, comm->rank, err);
    const sw_executor_observer observer = {&r, strike, pass};
    if (!status && t->fails)
        status = sw_executor_observe(r.executor, &observer, err);
    const sw_step_hooks hooks = {.self = &r, .fill = fill, .collect = collect, .decide = decide};
    for (int step = 0; step < 2 && !status; step++) { /* rates of 0 leave parameters alone */
        sw_scalars scalars = {.step = step,
                              .loss_scale = 1,
                              .clip_factor = 1,
                              .bias_correction1 = 0.1,
                              .bias_correction2 = 0.05};
        r.loss = 0;
        status = sw_executor_step(r.executor, 0, t->n_micro_batches, &scalars, &hooks, err);
        if (!status && t->moves)
            status = check_counts(t, r.executor, err);
    }
    t->losses[comm->rank] = r.loss;
    sw_executor_free(r.executor);
    device->close(device);
    return status;
}

/* Ranks that are processes leave what they got in memory that is theirs and the test's. */
static sw_status run(trial *given, outcome *got, bool as_threads, sw_error *err) {
    struct shared {
        trial trial;
        outcome got;
    } *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    trial *t = &shared->trial;
    *t = *given;
    model m = {.sums_by_two_axes = t->sums_by_two_axes, .gather_axis = t->gather_axis};
    t->got = &shared->got;
    t->sharding.recompute = t->recompute;
    assert_int_equal(sw_compiled_create(&t->sharding, &t->compiled, err), SW_OK);
    if (sw_compile(t->compiled, make_graph(&m, &t->sharding.mesh, TOKENS),
                   t->is_forward ? SW_COMPILE_FORWARD : SW_COMPILE_TRAINING, &t->program, err))
        fail_msg("%s", err->message);
    sw_launch_options options = comm_options(t->sharding.mesh.n_ranks, as_threads);
    options.mode = t->sharding.mode;
    sw_status status = sw_launch(&options, run_rank, t, err);
    for (int r = 0; r < t->sharding.mesh.n_ranks; r++)
        t->got->loss += t->losses[r];
    sw_compiled_free(t->compiled);
    *given = *t;
    *got = shared->got;
    munmap(shared, sizeof *shared);
    return status;
}

static sw_sharding sharding_of(int n_ranks, int stage, sw_shm_mode mode) {
    return (sw_sharding){.mesh = sw_mesh_flat(n_ranks),
                         .n_threads = 1,
                         .stage = stage,
                         .reshard_after_forward = true,
                         .prefetch = 1,
                         .accumulate_sharded = true,
                         .parameter_dtype = SW_F32,
                         .mode = mode,
                         .optimizer = {0.9, 0.95, 1e-8, 0.1, 0, SW_OPTIMIZER_ADAMW}};
}

static double distance(const outcome *got, const outcome *expected) {
    double square = 0, all = 0;
    for (int i = 0; i < N_ELEMENTS; i++) {
        square += pow(got->gradient[i] - expected->gradient[i], 2);
        all += pow(expected->gradient[i], 2);
    }
    return sqrt(square / all);
}

static void check_trial(trial t, const outcome *expected, double tolerance, outcome *got) {
    sw_error err = {0};
    char text[96];
    snprintf(text, sizeof text, "%d ranks, %d micro-batches, stage %d, mode %d, %s, recompute %d",
             t.sharding.mesh.n_ranks, t.n_micro_batches, t.sharding.stage, t.sharding.mode,
             t.sharding.parameter_dtype == SW_BF16 ? "bf16" : "fp32", t.recompute);
    t.gather_axis = "shard";
    t.moves = t.n_micro_batches % t.sharding.mesh.n_ranks == 0;
    if (run(&t, got, t.sharding.mode != SW_SHM_TRAP, &err))
        fail_msg("%s: %s", text, err.message);
    if (fabs(got->loss - expected->loss) > tolerance * expected->loss ||
        distance(got, expected) > tolerance)
        fail_msg("%s: loss %.9g instead of %.9g, gradients %.3g apart", text, got->loss,
                 expected->loss, distance(got, expected));
}

static void reference(int n_ranks, int n_micro_batches, outcome *expected) {
    *expected = (outcome){0};
    for (int first = 0; first < n_micro_batches; first += n_ranks)
        add_reference(first, n_micro_batches - first < n_ranks ? n_micro_batches - first : n_ranks,
                      expected);
}

/* Full slots, a slot in which some ranks idle, and one in which all but the first do. */
static void ranks_give_what_one_rank_with_all_rows_gives(void **state) {
    static outcome expected, got, before;
    (void)state;
    for (int n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++)
        for (int more = 0; more < 3; more++) {
            int n = n_ranks + (more == 2 ? 2 * n_ranks : more);
            n = n_ranks > 2 && more == 1 ? 2 * n_ranks - 1 : n;
            reference(n_ranks, n, &expected);
            for (int stage = 0; stage < 4; stage++)
                for (int mode = 0; mode < 3; mode++) {
                    trial t = {.sharding = sharding_of(n_ranks, stage, (sw_shm_mode)mode),
                               .n_micro_batches = n};
                    check_trial(t, &expected, 2e-5, &got);
                    if (stage + mode && memcmp(&before, &got, sizeof got) != 0)
                        fail_msg("%d ranks: stage %d, mode %d has other bits", n_ranks, stage,
                                 mode);
                    before = got;
                    t.sharding.accumulate_sharded = false;
                    check_trial(t, &expected, 2e-5, &got);
                }
        }
}

/* What is shared is not computed again, and the rest has the same bits. */
static void recomputing_changes_no_bit(void **state) {
    static outcome expected, got, again;
    (void)state;
    reference(3, 5, &expected);
    for (int mode = 0; mode < 2; mode++) {
        trial t = {.sharding = sharding_of(3, 3, (sw_shm_mode)mode), .n_micro_batches = 5};
        check_trial(t, &expected, 2e-5, &got);
        for (int recompute = 1; recompute < 3; recompute++) {
            t.recompute = (sw_recompute)recompute;
            check_trial(t, &expected, 2e-5, &again);
            assert_memory_equal(&got, &again, sizeof got);
        }
    }
}

static void bf16_values_are_summed_in_floats(void **state) {
    static outcome expected, got, before;
    (void)state;
    reference(4, 7, &expected);
    for (int mode = 0; mode < 2; mode++) {
        trial t = {.sharding = sharding_of(4, 3, (sw_shm_mode)mode), .n_micro_batches = 7};
        t.sharding.parameter_dtype = SW_BF16;
        check_trial(t, &expected, 2e-2, &got);
        if (mode)
            assert_memory_equal(&got, &before, sizeof got);
        before = got;
    }
}

static trial on_two_by_two(int n_micro_batches, sw_shm_mode mode) {
    trial t = {.sharding = sharding_of(4, 0, mode),
               .n_micro_batches = n_micro_batches,
               .is_forward = true,
               .sums_by_two_axes = true};
    t.sharding.mesh.size[SW_AXIS_SHARD] = 2;
    t.sharding.mesh.size[SW_AXIS_REPLICATE] = 2;
    t.sharding.mesh.stride[SW_AXIS_REPLICATE] = 2;
    return t;
}

static void check_losses(trial *t, trial *expected) {
    static outcome got;
    sw_error err = {0};
    if (run(t, &got, true, &err) || run(expected, &got, true, &err))
        fail_msg("%s", err.message);
    for (int r = 0; r < 4; r++)
        if (!(fabs(t->losses[r] - expected->losses[r]) <= 1e-5 * expected->losses[r]))
            fail_msg("rank %d of %d micro-batches: %.9g instead of %.9g", r, t->n_micro_batches,
                     t->losses[r], expected->losses[r]);
}

/* Sums along two axes, one after the other, are those over all ranks (where no rank without a
 * micro-batch stands between two that have one). And of what lines of either axis compute for each
 * other every rank gets its own rows back. */
static void axes_of_a_mesh_are_told_apart(void **state) {
    static const int n_micro_batches[] = {1, 2, 4, 5, 6, 8};
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        for (int i = 0; i < 6; i++) {
            trial t = on_two_by_two(n_micro_batches[i], (sw_shm_mode)mode), flat = t;
            flat.sharding.mesh = sw_mesh_flat(4);
            check_losses(&t, &flat);
        }
        trial t = on_two_by_two(8, (sw_shm_mode)mode), other = t;
        t.gather_axis = "shard";
        other.gather_axis = "replicate";
        check_losses(&t, &other);
    }
}

static void a_rank_that_fails_or_dies_inside_ends_all(void **state) {
    static outcome got;
    (void)state;
    for (int mode = 0; mode < 2; mode++)
        for (int fails = 1; fails <= 2; fails++) {
            sw_error err = {0};
            trial t = {.sharding = sharding_of(3, 3, (sw_shm_mode)mode),
                       .n_micro_batches = 6,
                       .gather_axis = "shard",
                       .fails = fails};
            assert_int_equal(run(&t, &got, fails == 1, &err),
                             fails == 1 ? SW_BAD_FILE : SW_LOST_RANK);
            assert_non_null(strstr(err.message, "rank 1"));
            assert_non_null(strstr(err.message, fails == 1 ? "struck" : "share block"));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_what_one_rank_with_all_rows_gives),
        cmocka_unit_test(recomputing_changes_no_bit),
        cmocka_unit_test(bf16_values_are_summed_in_floats),
        cmocka_unit_test(axes_of_a_mesh_are_told_apart),
        cmocka_unit_test(a_rank_that_fails_or_dies_inside_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
