/* test_passes.c: recompute and in-place reuse: no bit changes, and memory is freed as promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/gradient_check.h"
#include "support/small_models.h"

static sw_device *device;

static int open_device(void **state) {
    (void)state;
    sw_error err = {0};
    return sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best()}, &device, &err);
}

static int close_device(void **state) {
    (void)state;
    device->close(device);
    return 0;
}

static gradient_check model_check(int model) {
    return (gradient_check){.record = small_model_record,
                            .about = &SMALL_MODELS[model],
                            .n_rows = SMALL_MODEL_ROWS,
                            .n_tokens = SMALL_MODEL_TOKENS,
                            .n_vocabulary = SMALL_MODEL_VOCABULARY,
                            .deviation = 0.3};
}

typedef struct step_result {
    sw_graph *graph;
    graph_interpreter it;
    double loss;
} step_result;

static step_result run_step_in(const gradient_check *check, sw_number_kind numbers) {
    step_result result = {.graph = gradient_check_graph(check, true)};
    result.it = graph_interpreter_create(result.graph, device, numbers);
    int32_t tokens[64], targets[64];
    gradient_check_inputs(check, tokens, targets);
    graph_interpreter_set_inputs(&result.it, tokens, targets);
    gradient_check_documents(check, targets);
    graph_interpreter_set_documents(&result.it, targets);
    graph_interpreter_fill_parameters(&result.it, check->deviation);
    result.it.scalars.first_row = 40;
    result.loss = graph_interpreter_run(&result.it);
    return result;
}

static step_result run_step(const gradient_check *check) {
    return run_step_in(check, SW_NUMBERS_F32);
}

static void free_step(step_result *result) {
    graph_interpreter_free(&result->it);
    sw_graph_free(result->graph);
}

static void assert_same_bits(const step_result *a, const step_result *b) {
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    for (int i = 0; i < a->graph->parameters.n; i++)
        assert_memory_equal(a->it.gradients[i], b->it.gradients[i],
                            (size_t)a->graph->parameters.item[i]->n_elements * sizeof(float));
}

static void recompute_and_in_place_change_no_bit_dropout_included(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        for (int run = 0; run < 4; run++) {
            const sw_number_kind numbers = run / 2 ? SW_NUMBERS_BF16 : SW_NUMBERS_F32;
            gradient_check check = model_check(model);
            check.joins_products = run % 2;
            step_result plain = run_step_in(&check, numbers);
            assert_true(plain.loss > 0);
            for (int passes = 1; passes < 2 * N_RECOMPUTE; passes++) {
                check.recompute = passes / 2;
                check.reuse_in_place = passes % 2;
                step_result other = run_step_in(&check, numbers);
                assert_same_bits(&plain, &other);
                free_step(&other);
            }
            free_step(&plain);
        }
    }
}

/* The last backward operation of `graph` that reads a value of the forward pass of `unit`. */
static int last_read_in_backward(const sw_graph *graph, const sw_unit *unit) {
    int last = -1;
    for (int i = 0; i < graph->ops.n; i++)
        for (int k = 0; k < graph->ops.item[i]->n_operands; k++) {
            const sw_operand *operand = &graph->ops.item[i]->operand[k];
            if (graph->ops.item[i]->phase == SW_PHASE_BACKWARD &&
                operand->kind == SW_OPERAND_VALUE && operand->access == SW_READ &&
                operand->value->producer && operand->value->producer->phase == SW_PHASE_FORWARD &&
                operand->value->producer->unit == unit)
                last = i;
        }
    return last;
}

static int first_backward_of(const sw_graph *graph, const sw_unit *unit) {
    for (int i = 0; i < graph->ops.n; i++)
        if (graph->ops.item[i]->phase == SW_PHASE_BACKWARD && graph->ops.item[i]->unit == unit)
            return i;
    return -1;
}

/* What a block's forward made is read no more once its backward begins: only its input was kept. */
static void with_recompute_only_inputs_of_blocks_live_on(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        gradient_check check = model_check(model);
        check.recompute = RECOMPUTE_BLOCKS;
        sw_graph *graph = gradient_check_graph(&check, true);
        for (int u = 1; u < graph->units.n; u++) {
            const sw_unit *unit = graph->units.item[u];
            assert_true(last_read_in_backward(graph, unit) < first_backward_of(graph, unit));
        }
        sw_graph_free(graph);
    }
}

static bool is_read(const sw_graph *graph, const sw_value *value) {
    for (int i = 0; i < graph->ops.n; i++)
        for (int k = 0; k < graph->ops.item[i]->n_operands; k++)
            if (graph->ops.item[i]->operand[k].value == value &&
                graph->ops.item[i]->operand[k].access == SW_READ)
                return true;
    return false;
}

/* A block's last sum and its last projection are not needed by its backward. */
static void every_recomputed_operation_is_needed(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        gradient_check check = model_check(model);
        check.recompute = RECOMPUTE_BLOCKS;
        sw_graph *graph = gradient_check_graph(&check, true);
        int n_sums = 0;
        for (int i = 0; i < graph->ops.n; i++) {
            const sw_op *op = graph->ops.item[i];
            if (!op->is_recomputed)
                continue;
            bool is_needed = false;
            for (int k = 0; k < op->n_operands; k++)
                is_needed |= op->operand[k].kind == SW_OPERAND_VALUE &&
                             op->operand[k].access != SW_READ &&
                             is_read(graph, op->operand[k].value);
            assert_true(is_needed);
            n_sums += op->kernel == SW_KERNEL_ADD;
        }
        assert_int_equal(n_sums, SMALL_MODELS[model].layers);
        sw_graph_free(graph);
    }
}

/* Bytes of forward values of blocks that backward reads, and the arithmetic of what is made
 * again. */
static void count_kept(const sw_graph *graph, sw_number_kind numbers, double *bytes,
                       double *flops) {
    bool *is_kept = calloc((size_t)graph->values.n, sizeof *is_kept);
    *bytes = *flops = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        double op_flops, op_bytes;
        sw_op_cost(op, &op_flops, &op_bytes);
        *flops += op->is_recomputed ? op_flops : 0;
        for (int k = 0; k < op->n_operands && op->phase == SW_PHASE_BACKWARD; k++) {
            const sw_operand *operand = &op->operand[k];
            if (operand->kind != SW_OPERAND_VALUE || operand->access != SW_READ ||
                is_kept[operand->value->id] || !operand->value->producer ||
                operand->value->producer->phase != SW_PHASE_FORWARD)
                continue;
            is_kept[operand->value->id] = true;
            *bytes += (double)sw_value_bytes(operand->value, numbers);
        }
    }
    free(is_kept);
}

/* Norms, activations and rotations are made again, matrix products never; what is made again costs
 * at most 20 flops a byte. */
static void selective_recompute_keeps_less_for_little_arithmetic(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int numbers = SW_NUMBERS_F32; numbers <= SW_NUMBERS_BF16; numbers++) {
            double bytes[N_RECOMPUTE], flops[N_RECOMPUTE];
            for (int recompute = 0; recompute < N_RECOMPUTE; recompute++) {
                sw_model_config wide = SMALL_MODELS[model];
                wide.hidden = wide.max_positions = 96;
                wide.heads = 4;
                wide.kv_heads = wide.architecture == SW_GPT2 ? 4 : 2;
                wide.head_channels = 24;
                wide.ffn = 128;
                gradient_check check = model_check(model);
                check.about = &wide;
                check.n_tokens = 96;
                check.recompute = recompute;
                check.numbers = (sw_number_kind)numbers;
                check.joins_products = true;
                sw_graph *graph = gradient_check_graph(&check, true);
                count_kept(graph, check.numbers, &bytes[recompute], &flops[recompute]);
                for (int i = 0; i < graph->ops.n && recompute == RECOMPUTE_SELECTIVELY; i++)
                    assert_false(graph->ops.item[i]->is_recomputed &&
                                 graph->ops.item[i]->kernel == SW_KERNEL_LINEAR);
                sw_graph_free(graph);
            }
            assert_true(flops[RECOMPUTE_NOTHING] == 0);
            assert_true(flops[RECOMPUTE_SELECTIVELY] > 0 &&
                        flops[RECOMPUTE_SELECTIVELY] < flops[RECOMPUTE_BLOCKS]);
            assert_true(bytes[RECOMPUTE_SELECTIVELY] < bytes[RECOMPUTE_NOTHING]);
            assert_true(flops[RECOMPUTE_SELECTIVELY] <=
                        20 * (bytes[RECOMPUTE_NOTHING] - bytes[RECOMPUTE_SELECTIVELY]));
        }
}

/* What a block of a real model keeps of a token, in channels of activations and in statistics (log
 * sums; a norm that is made again makes its root mean squares or deviations again).
 *
 *   Llama   x, q k v turned, attention's out, x after attention, gate and up; not: norms, SwiGLU
 *   Qwen3   x, q and k as projected, v, ...; not: their norms, turned
 *   GPT-2   x, q k v, attention's out, x after attention, c_fc's out; not: norms, GELU */
static void selective_recompute_keeps_what_is_dear(void **state) {
    (void)state;
    const struct {
        sw_architecture architecture;
        double channels, statistics;
    } blocks[] = {{SW_LLAMA, 3 * 576 + 960 + 2 * 1536, 9},
                  {SW_QWEN3, 3 * 576 + 960 + 2 * 1536, 9},
                  {SW_GPT2, 3 * 576 + 1728 + 1536, 9}};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (int numbers = SW_NUMBERS_F32; numbers <= SW_NUMBERS_BF16; numbers++) {
            double bytes[2], flops;
            for (int more = 0; more < 2; more++) { /* the difference is one block's */
                sw_model_config model = {.architecture = blocks[b].architecture,
                                         .layers = 2 + more,
                                         .hidden = 576,
                                         .heads = 9,
                                         .kv_heads = blocks[b].architecture == SW_GPT2 ? 9 : 3,
                                         .head_channels = 64,
                                         .ffn = 1536,
                                         .vocabulary = SMALL_MODEL_VOCABULARY,
                                         .max_positions = 128,
                                         .rope_theta = 100,
                                         .qk_norm = blocks[b].architecture == SW_QWEN3};
                gradient_check check = model_check(0);
                check.about = &model;
                check.n_rows = 1;
                check.n_tokens = 128;
                check.recompute = RECOMPUTE_SELECTIVELY;
                check.numbers = (sw_number_kind)numbers;
                check.joins_products = true;
                sw_graph *graph = gradient_check_graph(&check, true);
                count_kept(graph, check.numbers, &bytes[more], &flops);
                sw_graph_free(graph);
            }
            double channel = (double)sw_dtype_bytes(sw_activation_type((sw_number_kind)numbers));
            assert_true(bytes[1] - bytes[0] ==
                        128 * (blocks[b].channels * channel + blocks[b].statistics * 4));
        }
}

/* Every dropout of backward, recomputed or gradient, has the stream of a forward one; forward ones
 * have streams of their own. */
static void dropout_streams_are_per_call_and_survive_recompute(void **state) {
    (void)state;
    gradient_check check = model_check(5);
    check.recompute = RECOMPUTE_BLOCKS;
    sw_graph *graph = gradient_check_graph(&check, true);
    int n_uses[16][3] = {{0}};
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        const bool is_attention =
            op->kernel == SW_KERNEL_ATTENTION || op->kernel == SW_KERNEL_ATTENTION_GRAD;
        const int when = op->phase == SW_PHASE_FORWARD ? 0 : op->is_recomputed ? 1 : 2;
        if (is_attention)
            assert_true(op->attribute[1] == SMALL_MODELS[5].dropout.attention);
        if (is_attention || op->kernel == SW_KERNEL_DROPOUT)
            n_uses[is_attention ? (int64_t)op->attribute[2] : op->dim[3]][when]++;
    }
    assert_int_equal(graph->n_dropouts, 1 + 3 * SMALL_MODELS[5].layers);
    for (int stream = 0; stream < graph->n_dropouts; stream++) {
        assert_int_equal(n_uses[stream][0], 1);
        assert_true(n_uses[stream][1] <= 1);
        assert_int_equal(n_uses[stream][2], 1);
    }
    sw_graph_free(graph);
}

/* A block that ends in a norm hands on a value that its own backward reads too, and a block within
 * one is recomputed with it. */
static sw_value *inner_block(sw_graph *g, void *self, sw_value *x) {
    return sw_rmsnorm(g, sw_gelu(g, sw_linear(g, x, self, NULL, SW_OUT_IN)), g->parameters.item[1],
                      1e-2);
}

static sw_value *outer_block(sw_graph *g, void *self, sw_value *x) {
    sw_parameter *weight = self;
    x = sw_gelu(g, sw_add(g, x, sw_linear(g, x, weight, NULL, SW_OUT_IN)));
    return sw_call(g, g->units.item[weight->unit->id + 1], inner_block,
                   g->parameters.item[weight->id + 1], x);
}

static void record_nested(sw_graph *g, const void *about) {
    (void)about;
    const int64_t square[] = {12, 12};
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = sw_parameter_declare(
        g, root, "table", 2, (int64_t[]){SMALL_MODEL_VOCABULARY, 12}, SW_INIT_NORMAL, 0.1);
    sw_parameter_declare(g, root, "shared norm", 1, square, SW_INIT_ONES, 0);
    sw_value *x = sw_embedding(g, sw_tokens(g), table), *first = NULL;
    for (int i = 0; i < 3; i++) {
        const char digit = (char)('0' + i);
        sw_unit *outer = sw_unit_declare(g, root, (char[]){'o', digit, 0}),
                *inner = sw_unit_declare(g, outer, (char[]){'i', digit, 0});
        sw_parameter *w =
            sw_parameter_declare(g, outer, (char[]){'a', digit, 0}, 2, square, SW_INIT_NORMAL, 0.1);
        sw_parameter_declare(g, inner, (char[]){'b', digit, 0}, 2, square, SW_INIT_NORMAL, 0.1);
        x = sw_call(g, outer, outer_block, w, x);
        first = i == 0 ? x : first;
    }
    x = sw_add(g, x, sw_gelu(g, first)); /* the first block's output is read long after */
    x = sw_call(g, g->units.item[1], outer_block, g->parameters.item[2],
                x); /* and the first block is called again */
    sw_cross_entropy(g, x, table, sw_targets(g));
}

static void nested_repeated_and_long_lived_blocks_recompute_the_same_bits(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    check.record = record_nested;
    gradient_check_run(device, &check);
    step_result plain = run_step(&check);
    assert_true(plain.loss > 0);
    for (int passes = 1; passes < 2 * N_RECOMPUTE; passes++) {
        check.recompute = passes / 2;
        check.reuse_in_place = passes % 2;
        step_result other = run_step(&check);
        assert_same_bits(&plain, &other);
        free_step(&other);
    }
    free_step(&plain);
}

/* A random graph in blocks: each operation reads values chosen among all before it, inside or
 * outside its own block. */
enum { RANDOM_BLOCKS = 4, RANDOM_OPS = 5 };

typedef struct random_blocks {
    uint64_t seed;
    int n;                                                 /* values so far */
    sw_value *value[1 + RANDOM_BLOCKS * (RANDOM_OPS + 1)]; /* [12, 12] each */
} random_blocks;

static double draw(random_blocks *r, int what) {
    return graph_interpreter_uniform(r->seed, (uint64_t)(4 * r->n + what));
}

static sw_value *random_operation(sw_graph *g, random_blocks *r) {
    sw_value *a = r->value[(int)(draw(r, 0) * r->n)], *b = r->value[(int)(draw(r, 1) * r->n)];
    switch ((int)(draw(r, 2) * 10)) {
    case 0:
        return sw_rmsnorm(g, a, g->parameters.item[1], 1e-2);
    case 1:
        return sw_gelu(g, a);
    case 2:
        return sw_linear(g, a, g->parameters.item[2], NULL, SW_OUT_IN);
    case 3:
        return sw_swiglu(g, a, b);
    case 4:
        return sw_rotary(g, a, 6, 30);
    case 5:
        return sw_dropout(g, a, 0.2);
    case 6:
        return sw_attention(g, a, b, a, 3, 3);
    case 7:
        return sw_rotary_packed(g, a, 1, 6,
                                &(sw_rotary_scaling){.theta = 30, .factor = 1, .amplitude = 1});
    case 8:
        return sw_swiglu_packed(
            g, sw_linear_several(g, a, 2, &g->parameters.item[2], NULL, SW_OUT_IN));
    default:
        return sw_add(g, a, b);
    }
}

static sw_value *random_block(sw_graph *g, void *self, sw_value *x) {
    random_blocks *r = self;
    for (int i = 0; i < RANDOM_OPS && x; i++, r->n++)
        r->value[r->n] = x = random_operation(g, r);
    return x;
}

static void record_random_blocks(sw_graph *g, const void *about) {
    random_blocks r = {.seed = *(const uint64_t *)about, .n = 1};
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = sw_parameter_declare(
        g, root, "table", 2, (int64_t[]){SMALL_MODEL_VOCABULARY, 12}, SW_INIT_NORMAL, 0.1);
    sw_parameter *norm = sw_parameter_declare(g, root, "norm", 1, (int64_t[]){12}, SW_INIT_ONES, 0);
    sw_parameter_declare(g, root, "weight", 2, (int64_t[]){12, 12}, SW_INIT_NORMAL, 0.1);
    sw_parameter_declare(g, root, "second weight", 2, (int64_t[]){12, 12}, SW_INIT_NORMAL, 0.1);
    sw_value *x = r.value[0] = sw_embedding(g, sw_tokens(g), table), *sum = x;
    for (int i = 0; i < RANDOM_BLOCKS; i++) {
        x = sw_call(g, sw_unit_declare(g, root, (char[]){'b', (char)('0' + i), 0}), random_block,
                    &r, x);
        r.value[r.n] = random_operation(g, &r); /* of the root, between two blocks */
        sum = sw_add(g, sw_rmsnorm(g, sum, norm, 1e-2), r.value[r.n++]);
    }
    sw_cross_entropy(g, sw_add(g, sum, x), table, sw_targets(g));
}

static void random_blocks_recompute_the_same_bits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        gradient_check check = model_check(0);
        check.record = record_random_blocks;
        check.about = &seed;
        check.joins_products = seed % 2;
        step_result plain = run_step(&check);
        for (int passes = 1; passes < 2 * N_RECOMPUTE; passes++) {
            check.recompute = passes / 2;
            check.reuse_in_place = passes % 2;
            step_result other = run_step(&check);
            bool same = memcmp(&plain.loss, &other.loss, sizeof plain.loss) == 0 && plain.loss > 0;
            for (int i = 0; i < 4; i++)
                same = same && memcmp(plain.it.gradients[i], other.it.gradients[i],
                                      (size_t)plain.graph->parameters.item[i]->n_elements *
                                          sizeof(float)) == 0;
            if (!same)
                fail_msg("seed %d, passes %d: loss %.9g, expected %.9g, or gradients differ",
                         (int)seed, passes, other.loss, plain.loss);
            free_step(&other);
        }
        free_step(&plain);
    }
}

/* A unit within a block is recomputed with the block; and nothing is made again before it is
 * wanted: what a clone writes is read by the next clone, or by the operation for whose sake it was
 * made. */
static void clones_stand_where_they_are_wanted(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    check.record = record_nested;
    check.recompute = RECOMPUTE_BLOCKS;
    sw_graph *graph = gradient_check_graph(&check, true);
    int n_inner = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        if (!op->is_recomputed)
            continue;
        n_inner += op->unit != sw_unit_block(op->unit);
        int wanted_by = i + 1; /* the operation after the clones that follow */
        while (graph->ops.item[wanted_by]->is_recomputed)
            wanted_by++;
        bool is_read_soon = false;
        for (int j = i + 1; j <= wanted_by; j++)
            for (int k = 0; k < graph->ops.item[j]->n_operands; k++)
                for (int o = 0; o < op->n_operands; o++)
                    is_read_soon |= op->operand[o].access == SW_WRITE &&
                                    op->operand[o].kind == SW_OPERAND_VALUE &&
                                    graph->ops.item[j]->operand[k].value == op->operand[o].value;
        assert_true(is_read_soon);
    }
    assert_int_equal(n_inner, 4 * 3); /* linear, gelu, norm in each of four calls */
    sw_graph_free(graph);
}

/* Values that share bytes are never alive together: no operation reads a value after another took
 * its bytes. */
static void in_place_takes_only_bytes_that_nobody_reads_again(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int recompute = 0; recompute < N_RECOMPUTE; recompute++) {
            gradient_check check = model_check(model);
            check.recompute = recompute;
            check.reuse_in_place = true;
            sw_graph *graph = gradient_check_graph(&check, true);
            const sw_value **holder =
                calloc((size_t)graph->values.n, sizeof *holder); /* whose numbers stand there now */
            int n_shared = 0;
            for (int i = 0; i < graph->ops.n; i++) {
                const sw_op *op = graph->ops.item[i];
                if (op->is_dropped)
                    continue;
                for (int k = 0; k < op->n_operands; k++) {
                    const sw_operand *operand = &op->operand[k];
                    if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_WRITE &&
                        !operand->value->is_input)
                        assert_ptr_equal(holder[operand->value->storage->id], operand->value);
                }
                for (int k = 0; k < op->n_operands; k++)
                    if (op->operand[k].kind == SW_OPERAND_VALUE &&
                        op->operand[k].access == SW_WRITE) {
                        const sw_value *value = op->operand[k].value;
                        assert_ptr_equal(value->storage->storage, value->storage);
                        assert_int_equal(value->storage->n_elements, value->n_elements);
                        assert_false(value->storage != value &&
                                     (value->storage->is_input || value->storage->is_constant));
                        n_shared += value->storage != value;
                        holder[value->storage->id] = value;
                    }
            }
            assert_true(n_shared > 0);
            free(holder);
            sw_graph_free(graph);
        }
}

/* The gradient of the gate is wanted by nobody, so its bytes are free at once; yet two outputs of
 * one kernel need two places. */
static void record_swiglu_with_a_frozen_gate(sw_graph *g, const void *about) {
    (void)about;
    const int64_t square[] = {12, 12};
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = sw_parameter_declare(
        g, root, "table", 2, (int64_t[]){SMALL_MODEL_VOCABULARY, 12}, SW_INIT_NORMAL, 0.1);
    sw_parameter *gate = sw_parameter_declare(g, root, "gate", 2, square, SW_INIT_NORMAL, 0.1);
    sw_parameter *up = sw_parameter_declare(g, root, "up", 2, square, SW_INIT_NORMAL, 0.1);
    sw_parameter *head =
        sw_parameter_declare(g, root, "head", 2, table->dimension, SW_INIT_NORMAL, 0.1);
    sw_parameter_freeze(table);
    sw_parameter_freeze(gate);
    sw_value *x = sw_embedding(g, sw_tokens(g), table);
    x = sw_swiglu(g, sw_linear(g, x, gate, NULL, SW_OUT_IN), sw_linear(g, x, up, NULL, SW_OUT_IN));
    sw_cross_entropy(g, x, head, sw_targets(g));
}

static void two_outputs_of_one_operation_never_share_bytes(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    check.record = record_swiglu_with_a_frozen_gate;
    check.reuse_in_place = true;
    sw_graph *graph = gradient_check_graph(&check, true);
    int n_seen = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        if (op->kernel == SW_KERNEL_SWIGLU_GRAD) {
            assert_ptr_not_equal(op->operand[3].value->storage, op->operand[4].value->storage);
            n_seen++;
        }
    }
    assert_int_equal(n_seen, 1);
    sw_graph_free(graph);
}

/* RMSNORM_GRAD may write over dy, not over x: where one value is both, it may not write over
 * that. */
static void an_input_read_in_another_role_too_is_not_written_over(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    static const sw_family family = {.name = "norm of itself"};
    const int64_t shape[] = {12, 12};
    assert_int_equal(sw_graph_create(SMALL_MODEL_ROWS, SMALL_MODEL_TOKENS, &g, &err), SW_OK);
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *table = sw_parameter_declare(g, root, "table", 2, shape, SW_INIT_NORMAL, 0.1);
    sw_value *x = sw_embedding(g, sw_tokens(g), table),
             *dx = sw_value_create(g, SW_VALUE_REAL, 2, shape);
    sw_op_emit(g, &family, SW_KERNEL_RMSNORM_GRAD, 5,
               (sw_operand[]){sw_reads(x), sw_reads(x), sw_nothing(), sw_nothing(), sw_writes(dx)});
    assert_int_equal(sw_graph_reuse_in_place(g, &err), SW_OK);
    assert_ptr_equal(dx->storage, dx);
    sw_graph_free(g);
}

/* What is read from outside after the operation keeps its bytes, though no operation reads them. */
static void outputs_and_inputs_keep_their_bytes(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    const int64_t shape[] = {12, 12};
    for (int marked = 0; marked < 4; marked++) {
        assert_int_equal(sw_graph_create(SMALL_MODEL_ROWS, SMALL_MODEL_TOKENS, &g, &err), SW_OK);
        sw_unit *root = sw_unit_declare(g, NULL, "root");
        sw_parameter *table = sw_parameter_declare(g, root, "table", 2, shape, SW_INIT_NORMAL, 0.1);
        sw_value *x = sw_embedding(g, sw_tokens(g), table), *y = sw_gelu(g, x);
        x->is_output = marked == 1;
        x->is_input = marked == 2;
        x->is_constant = marked == 3;
        assert_int_equal(sw_graph_reuse_in_place(g, &err), SW_OK);
        assert_ptr_equal(y->storage, marked ? y : x);
        sw_graph_free(g);
    }
}

/* h = x + f: f is not read again, its bytes become the sum's; a rotation turns its input where it
 * lies. */
static void residual_sums_and_rotations_need_no_bytes_of_their_own(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    check.reuse_in_place = true;
    sw_graph *graph = gradient_check_graph(&check, true);
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        if (op->kernel == SW_KERNEL_ADD && op->phase == SW_PHASE_FORWARD)
            assert_ptr_equal(op->operand[2].value->storage, op->operand[1].value->storage);
        if (op->kernel == SW_KERNEL_ROTARY)
            assert_ptr_equal(op->operand[2].value->storage, op->operand[0].value->storage);
    }
    sw_graph_free(graph);
}

/* What generation and evaluation run: no backward keeps anything, so a GELU, for one, is computed
 * where its input lies. */
static void a_forward_graph_reuses_more(void **state) {
    (void)state;
    gradient_check check = model_check(3);
    check.reuse_in_place = true;
    sw_graph *graph = gradient_check_graph(&check, false);
    int n_gelu = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        if (op->kernel == SW_KERNEL_ACTIVATION) {
            assert_ptr_equal(op->operand[1].value->storage, op->operand[0].value->storage);
            n_gelu++;
        }
    }
    assert_int_equal(n_gelu, SMALL_MODELS[3].layers);
    sw_graph_free(graph);
}

/* Evaluation: the loss is that of the same model recorded with a dropout of 0. */
static void without_dropout_a_model_is_the_one_that_has_none(void **state) {
    (void)state;
    const int models[] = {2, 5, 10};
    for (int i = 0; i < 3; i++) {
        double loss[2];
        for (int recorded = 0; recorded < 2;
             recorded++) { /* with dropout and taken out; or recorded with none */
            sw_model_config config = SMALL_MODELS[models[i]];
            if (recorded)
                sw_model_drop(&config, 0);
            gradient_check check = model_check(models[i]);
            check.about = &config;
            sw_graph *graph = gradient_check_graph(&check, false);
            sw_error err = {0};
            assert_int_equal(sw_graph_without_dropout(graph, &err), SW_OK);
            assert_int_equal(sw_graph_reuse_in_place(graph, &err), SW_OK);
            graph_interpreter it = graph_interpreter_create(graph, device, SW_NUMBERS_F32);
            int32_t tokens[64], targets[64];
            gradient_check_inputs(&check, tokens, targets);
            graph_interpreter_set_inputs(&it, tokens, targets);
            graph_interpreter_fill_parameters(&it, check.deviation);
            loss[recorded] = graph_interpreter_run(&it);
            graph_interpreter_free(&it);
            sw_graph_free(graph);
        }
        assert_true(loss[0] > 0);
        assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
    }
}

static void prepared_constants_come_first_and_are_shared(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    check.recompute = RECOMPUTE_BLOCKS;
    sw_graph *graph = gradient_check_graph(&check, true);
    for (int i = 0; i < graph->ops.n; i++) {
        assert_int_equal(graph->ops.item[i]->id, i);
        assert_int_equal(graph->ops.item[i]->phase == SW_PHASE_PREPARE, i == 0);
        assert_int_equal(graph->ops.item[i]->kernel == SW_KERNEL_ROTARY_TABLE, i == 0);
    }
    assert_true(graph->ops.item[0]->operand[0].value->is_constant);
    sw_graph_free(graph);
}

static void keep_line(void *to, const char *text) {
    if (strstr(text, "mlp.down_proj.weight)"))
        strcpy(to, text);
}

static void a_printed_operation_names_phase_unit_kernel_shapes_and_gradient(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    sw_graph *graph = gradient_check_graph(&check, true);
    char line[4096] = "";
    sw_graph_print(graph, keep_line, line);
    assert_non_null(strstr(line, "backward layers.0  linear_grad_weight  dy=%"));
    assert_non_null(strstr(line, "[12, 12] x=%"));
    assert_non_null(strstr(line, "[12, 20] -> dweight=d(model.layers.0.mlp.down_proj.weight)"));
    sw_graph_free(graph);
}

/* 2 n in out for each matrix product, forward once and backward twice; attention by its visible
 * pairs. */
static void costs_follow_from_shapes(void **state) {
    (void)state;
    gradient_check check = model_check(0);
    sw_graph *graph = gradient_check_graph(&check, true);
    double products[2] = {0, 0}, attention[2] = {0, 0};
    for (int i = 0; i < graph->ops.n; i++) {
        double flops, bytes;
        sw_op_cost(graph->ops.item[i], &flops, &bytes);
        assert_true(flops >= 0 && bytes > 0);
        switch (graph->ops.item[i]->kernel) {
        case SW_KERNEL_LINEAR:
            products[0] += flops;
            break;
        case SW_KERNEL_LINEAR_GRAD_INPUT:
        case SW_KERNEL_LINEAR_GRAD_WEIGHT:
            products[1] += flops;
            break;
        case SW_KERNEL_ATTENTION:
            attention[0] += flops;
            break;
        case SW_KERNEL_ATTENTION_GRAD:
            attention[1] += flops;
            break;
        default:
            break;
        }
    }
    /* two layers; n = 12 tokens; four projections of 12 x 12, three of 12 x 20; two rows, two heads
     * of 6, pairs of 6 tokens */
    assert_true(products[0] == 2 * 2 * 12 * (4 * 12 * 12 + 3 * 12 * 20));
    assert_true(products[1] == 2 * products[0]);
    assert_true(attention[0] == 2 * 2 * (2 * 2 * 2 * 6 * (6 * 7 / 2)));
    assert_true(attention[1] == 2.5 * attention[0]);
    sw_graph_free(graph);
}

/* A sum or a rotation that becomes part of a product's store, and of the gradient before it, is
 * counted there; a rotation turns queries and keys, not the values that lie beside them. */
static void joined_products_cost_what_their_parts_did(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        double total[2] = {0, 0}, rotations[2] = {0, 0};
        for (int joined = 0; joined < 2; joined++) {
            gradient_check check = model_check(model);
            check.joins_products = joined;
            sw_graph *graph = gradient_check_graph(&check, true);
            for (int i = 0; i < graph->ops.n; i++) {
                double flops, bytes;
                sw_op_cost(graph->ops.item[i], &flops, &bytes);
                total[joined] += flops;
                rotations[joined] += graph->ops.item[i]->kernel == SW_KERNEL_ROTARY ? flops : 0;
            }
            sw_graph_free(graph);
        }
        if (model == 0) /* two layers; 12 tokens; two query and two key heads of 6, 3 flops a
                           channel; forward and backward */
            assert_true(rotations[0] == 2 * 12 * (2 + 2) * 6 * 3 * 2 && rotations[1] == 0);
        if (total[0] != total[1])
            fail_msg("%s: %.0f flops, joined %.0f", SMALL_MODEL_NAMES[model], total[0], total[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recompute_and_in_place_change_no_bit_dropout_included),
        cmocka_unit_test(with_recompute_only_inputs_of_blocks_live_on),
        cmocka_unit_test(every_recomputed_operation_is_needed),
        cmocka_unit_test(selective_recompute_keeps_less_for_little_arithmetic),
        cmocka_unit_test(selective_recompute_keeps_what_is_dear),
        cmocka_unit_test(dropout_streams_are_per_call_and_survive_recompute),
        cmocka_unit_test(nested_repeated_and_long_lived_blocks_recompute_the_same_bits),
        cmocka_unit_test(random_blocks_recompute_the_same_bits),
        cmocka_unit_test(clones_stand_where_they_are_wanted),
        cmocka_unit_test(in_place_takes_only_bytes_that_nobody_reads_again),
        cmocka_unit_test(two_outputs_of_one_operation_never_share_bytes),
        cmocka_unit_test(an_input_read_in_another_role_too_is_not_written_over),
        cmocka_unit_test(outputs_and_inputs_keep_their_bytes),
        cmocka_unit_test(residual_sums_and_rotations_need_no_bytes_of_their_own),
        cmocka_unit_test(a_forward_graph_reuses_more),
        cmocka_unit_test(without_dropout_a_model_is_the_one_that_has_none),
        cmocka_unit_test(prepared_constants_come_first_and_are_shared),
        cmocka_unit_test(a_printed_operation_names_phase_unit_kernel_shapes_and_gradient),
        cmocka_unit_test(costs_follow_from_shapes),
        cmocka_unit_test(joined_products_cost_what_their_parts_did),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
