/* program_case.c: graphs and settings for the tests of shard/. */
#include "support/program_case.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/small_models.h"

typedef struct stack_block {
    sw_unit *unit, *inner_unit;
    sw_parameter *norm, *weight, *bias, *inner;
    bool shares;
    sw_weight_layout layout;
} stack_block;

static sw_value *inner(sw_graph *graph, void *self, sw_value *x) {
    const stack_block *b = self;
    return sw_linear(graph, x, b->inner, NULL, SW_OUT_IN);
}

static sw_value *block(sw_graph *graph, void *self, sw_value *x) {
    stack_block *b = self;
    if (!b->weight)
        return sw_gelu(graph, x);
    sw_value *h = sw_rmsnorm(graph, x, b->norm, 1e-5);
    if (b->inner)
        h = sw_call(graph, b->inner_unit, inner, b, h);
    if (!b->shares)
        return sw_add(graph, x, sw_linear(graph, h, b->weight, b->bias, b->layout));
    (void)sw_gather_over(graph, h, "shard"); /* which nobody reads */
    sw_value *all = sw_gather_over(graph, h, "shard");
    all = sw_gelu(graph, sw_linear(graph, all, b->weight, b->bias, b->layout));
    h = sw_sum_slice_over(graph, all, "shard");
    return sw_add(graph, x, sw_add(graph, h, sw_sum_over(graph, sw_gelu(graph, h), "shard")));
}

static sw_parameter *declare(sw_graph *graph, sw_unit *unit, int block_number, const char *what,
                             int64_t rows, int64_t columns) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.%s", block_number, what);
    int64_t dimensions[] = {rows, columns};
    return columns ? sw_parameter_declare(graph, unit, name, 2, dimensions, SW_INIT_NORMAL, 0.02)
                   : sw_parameter_declare(graph, unit, name, 1, dimensions, SW_INIT_ONES, 0);
}

static void declare_block(sw_graph *graph, sw_unit *root, const stack *s, int i, stack_block *b) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d", i);
    *b = (stack_block){.unit = sw_unit_declare(graph, root, name),
                       .layout = s->layout,
                       .shares = s->oddity == STACK_SHARED};
    if (s->oddity == STACK_EMPTY_UNIT && i == 1)
        return;
    b->norm = declare(graph, b->unit, i, "norm", s->channels, 0);
    b->weight = declare(graph, b->unit, i, "weight", s->channels, s->channels);
    b->bias = declare(graph, b->unit, i, "bias", s->channels, 0);
    if (s->oddity == STACK_UNUSED_PARAMETER)
        declare(graph, b->unit, i, "unused", 5, 0);
    if (s->oddity == STACK_NESTED) {
        snprintf(name, sizeof name, "blocks.%d.inner", i);
        b->inner_unit = sw_unit_declare(graph, b->unit, name);
        b->inner = declare(graph, b->inner_unit, i, "inner", s->channels, s->channels);
    }
}

static void freeze_some(sw_graph *graph, const stack *s, stack_block *blocks) {
    for (int i = 0; i < graph->parameters.n; i++) {
        sw_parameter *p = graph->parameters.item[i];
        if ((s->oddity == STACK_FROZEN_UNIT && p->unit == blocks[1].unit) ||
            (s->oddity == STACK_FROZEN_MATRICES && p->n_dimensions > 1) ||
            (s->oddity == STACK_ONE_BIAS && p != blocks[0].bias))
            sw_parameter_freeze(p);
    }
}

void stack_record(sw_graph *graph, const void *about) {
    const stack *s = about;
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    int64_t table[] = {s->vocabulary, s->channels};
    int n = s->oddity == STACK_NO_BLOCKS ? 0 : s->n_blocks;
    sw_parameter *embedding =
        sw_parameter_declare(graph, root, "embedding", 2, table, SW_INIT_NORMAL, 0.02);
    sw_parameter *head =
        s->tied ? embedding
                : sw_parameter_declare(graph, root, "head", 2, table, SW_INIT_NORMAL, 0.02);
    stack_block *blocks = calloc((size_t)n + 1, sizeof *blocks);
    assert_non_null(blocks);
    for (int i = 0; i < n; i++)
        declare_block(graph, root, s, i, &blocks[i]);
    freeze_some(graph, s, blocks);
    sw_value *x = sw_embedding(graph, sw_tokens(graph), embedding);
    for (int i = 0; i < n; i++) {
        int which = s->oddity == STACK_SWAPPED && i < 2 ? 1 - i : i;
        x = sw_call(graph, blocks[which].unit, block, &blocks[which], x);
    }
    if (s->oddity == STACK_SECOND_TWICE)
        x = sw_call(graph, blocks[1].unit, block, &blocks[1], x);
    sw_cross_entropy(graph, x, head, sw_targets(graph));
    free(blocks);
}

static const stack STACKS[N_STACK_ODDITIES] = {
    {STACK_PLAIN, 4, 32, 13, false},           {STACK_NO_BLOCKS, 0, 8, 13, true},
    {STACK_SECOND_TWICE, 4, 12, 13, true},     {STACK_NESTED, 3, 12, 13, false},
    {STACK_EMPTY_UNIT, 3, 12, 13, true},       {STACK_FROZEN_UNIT, 3, 12, 13, false},
    {STACK_FROZEN_MATRICES, 3, 20, 13, true},  {STACK_ONE_BIAS, 3, 12, 13, true},
    {STACK_UNUSED_PARAMETER, 4, 12, 13, true}, {STACK_SWAPPED, 4, 32, 13, false},
    {STACK_SHARED, 3, 12, 13, false},
};
static const char *const STACK_NAMES[N_STACK_ODDITIES] = {
    "stack",
    "no blocks",
    "a block twice",
    "nested units",
    "a unit without parameters",
    "a frozen unit",
    "frozen matrices",
    "one bias",
    "unused parameters",
    "blocks in another order",
    "blocks that share",
};

int n_program_graphs(void) {
    return N_SMALL_MODELS + N_STACK_ODDITIES;
}

program_case program_graph(int i) {
    program_case c = {
        .n_rows = SMALL_MODEL_ROWS, .n_tokens = SMALL_MODEL_TOKENS, .sharding = usual_sharding(2)};
    if (i < N_SMALL_MODELS) {
        c.name = SMALL_MODEL_NAMES[i];
        c.record = small_model_record;
        c.about = &SMALL_MODELS[i];
    } else {
        c.name = STACK_NAMES[i - N_SMALL_MODELS];
        c.record = stack_record;
        c.about = &STACKS[i - N_SMALL_MODELS];
    }
    return c;
}

sw_sharding usual_sharding(int n_ranks) {
    return (sw_sharding){.mesh = sw_mesh_flat(n_ranks),
                         .n_threads = 1,
                         .stage = 3,
                         .reshard_after_forward = true,
                         .prefetch = 1,
                         .accumulate_sharded = true,
                         .parameter_dtype = SW_BF16,
                         .mode = SW_SHM_COPY,
                         .optimizer = {0.9, 0.95, 1e-8, 0.1, 0, SW_OPTIMIZER_ADAMW}};
}

static void ensure(sw_status status, const program_case *c, const sw_error *err) {
    if (!status)
        return;
    char text[256];
    program_describe(c, text, sizeof text);
    fail_msg("%s: %s", text, err->message);
}

void program_build(const program_case *c, built_program *built) {
    sw_error err = {0};
    *built = (built_program){.of = c};
    ensure(sw_graph_create(c->n_rows, c->n_tokens, &built->graph, &err), c, &err);
    sw_graph_spread(built->graph, &c->sharding.mesh);
    c->record(built->graph, c->about);
    ensure(sw_graph_status(built->graph, &err), c, &err);
    if (c->is_forward)
        ensure(sw_graph_without_dropout(built->graph, &err), c, &err);
    ensure(sw_graph_join_products(built->graph, &err), c, &err);
    if (!c->is_forward)
        ensure(sw_graph_differentiate(built->graph, &err), c, &err);
    if (c->recompute == 1 && !c->is_forward)
        ensure(sw_graph_recompute_blocks(built->graph, &err), c, &err);
    if (c->recompute == 2 && !c->is_forward)
        ensure(sw_graph_recompute_selective(built->graph, sw_sharding_numbers(&c->sharding), &err),
               c, &err);
    ensure(sw_graph_reuse_in_place(built->graph, &err), c, &err);
    ensure(sw_layout_create(built->graph, &c->sharding.mesh, c->sharding.wrap,
                            sw_sharding_cut(&c->sharding), &built->layout, &err),
           c, &err);
    ensure(sw_states_create(&built->layout, &c->sharding, true, &built->states, &err), c, &err);
    ensure(sw_program_create(built->graph, &built->states, &built->program, &err), c, &err);
}

void program_free(built_program *built) {
    sw_program_free(&built->program);
    sw_states_free(&built->states);
    sw_layout_free(&built->layout);
    sw_graph_free(built->graph);
}

void program_describe(const program_case *c, char *text, size_t bytes) {
    static const char *const modes[] = {"view", "copy", "trap"};
    const sw_sharding *s = &c->sharding;
    snprintf(text, bytes,
             "%s: %sN %d, stage %d, %s, accumulate %s, %s, prefetch %d, %s, min_parameters %" PRId64
             "%s%s",
             c->name, c->is_forward ? "forward, " : "", s->mesh.n_ranks, s->stage, modes[s->mode],
             s->accumulate_sharded ? "sharded" : "unsharded",
             s->reshard_after_forward ? "reshard" : "no reshard", s->prefetch,
             s->parameter_dtype == SW_BF16 ? "bf16" : "fp32", s->wrap.min_parameters,
             c->recompute == 2 ? ", selective recompute"
             : c->recompute    ? ", recompute"
                               : "",
             s->optimizer.kind == SW_OPTIMIZER_SGD ? ", sgd" : "");
}

void program_fail(const built_program *built, int instruction, const char *what, const char *file,
                  int line) {
    char text[256], printed[2048] = "";
    program_describe(built->of, text, sizeof text);
    if (instruction >= 0 && instruction < built->program.instructions.n)
        sw_instruction_print(&built->program, instruction, printed, sizeof printed);
    print_error("%s:%d: %s: does not hold: %s\n%s\n", file, line, text, what, printed);
    fail();
}

void for_each_program(void (*check)(const built_program *built)) {
    static const int ranks[] = {1, 2, 3, 8};
    static const int64_t wraps[] = {0, 0, 1500, 100000};
    uint32_t chance = 1;
    for (int g = 0; g < n_program_graphs(); g++)
        for (int i = 0; i < 4 * 2 * 3 * 2 * 4 * 3; i++) {
            program_case c = program_graph(g);
            chance = chance * 1664525 + 1013904223;
            c.sharding.stage = i % 4;
            c.sharding.accumulate_sharded = i / 4 % 2;
            c.sharding.mode = (sw_shm_mode)(i / 8 % 3);
            c.sharding.reshard_after_forward = i / 24 % 2;
            c.sharding.prefetch =
                i / 48 % 4; /* and three times with other ranks, wraps and so on */
            c.sharding.mesh = sw_mesh_flat(ranks[chance >> 30]);
            c.sharding.wrap.min_parameters = wraps[chance >> 28 & 3];
            c.sharding.parameter_dtype = chance >> 27 & 1 ? SW_BF16 : SW_F32;
            c.recompute = (int)(chance >> 26) % 3;
            c.is_forward = (chance >> 23 & 7) == 0;
            if (chance >> 22 & 1) {
                c.sharding.optimizer = (sw_optimizer_spec){.kind = SW_OPTIMIZER_SGD,
                                                           .momentum = chance >> 21 & 1 ? 0.9 : 0};
                c.n_rows = 3;
            }
            built_program built;
            program_build(&c, &built);
            check(&built);
            program_free(&built);
        }
}

/* Does nobody read what ranks have shared? */
static bool is_unread(const built_program *built, const sw_op *share) {
    for (int i = 0; i < built->graph->ops.n; i++)
        for (int k = 0; k < built->graph->ops.item[i]->n_operands; k++) {
            const sw_operand *operand = &built->graph->ops.item[i]->operand[k];
            if (operand->value == share->operand[1].value && operand->access != SW_WRITE)
                return false;
        }
    return true;
}

const sw_op **program_ops(const built_program *built, int *n) {
    const sw_op **ops = calloc((size_t)built->graph->ops.n + 1, sizeof *ops);
    assert_non_null(ops);
    *n = 0;
    for (int phase = SW_PHASE_PREPARE; phase <= SW_PHASE_BACKWARD; phase++)
        for (int i = 0; i < built->graph->ops.n; i++) {
            const sw_op *op = built->graph->ops.item[i];
            if (!op->is_dropped && (int)op->phase == phase && !(op->share && is_unread(built, op)))
                ops[(*n)++] = op;
        }
    return ops;
}
