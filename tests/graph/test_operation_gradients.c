/* test_operation_gradients.c: the gradient rule of every operation against central differences in
 * double.
 *
 * Each graph is embedding → (what the operation needs) → the operation → head and loss, so that the
 * operation's gradients with respect to its inputs are seen through the parameters before it, and
 * those with respect to its own parameters directly. Shapes are odd on purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/gradient_check.h"

enum { VOCABULARY = 11, CHANNELS = 12 };

static sw_device *device;

static int open_device(void **state) {
    (void)state;
    sw_error err = {0};
    return sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, &err);
}

static int close_device(void **state) {
    (void)state;
    device->close(device);
    return 0;
}

/* Declared by whichever argument is evaluated first. */
static sw_unit *root(sw_graph *g) {
    return g->units.n ? g->units.item[0] : sw_unit_declare(g, NULL, "root");
}

static sw_parameter *matrix(sw_graph *g, const char *name, int64_t rows, int64_t columns) {
    return sw_parameter_declare(g, root(g), name, 2, (int64_t[]){rows, columns}, SW_INIT_NORMAL,
                                0.1);
}

static sw_parameter *vector(sw_graph *g, const char *name, int64_t length,
                            sw_initializer initializer) {
    return sw_parameter_declare(g, root(g), name, 1, &length, initializer, 0.1);
}

/* tokens → [B*T, CHANNELS] */
static sw_value *begin(sw_graph *g) {
    return sw_embedding(g, sw_tokens(g), matrix(g, "table", VOCABULARY, CHANNELS));
}

static void end(sw_graph *g, sw_value *x) {
    int64_t channels = x ? x->dimension[1] : 1;
    sw_cross_entropy(g, x, matrix(g, "head", VOCABULARY, channels), sw_targets(g));
}

static void check(graph_recorder record) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 20}};
    for (int i = 0; i < 3; i++)
        for (int in_place = 0; in_place < 2; in_place++)
            gradient_check_run(device, &(gradient_check){.record = record,
                                                         .n_rows = shapes[i][0],
                                                         .n_tokens = shapes[i][1],
                                                         .n_vocabulary = VOCABULARY,
                                                         .reuse_in_place = in_place,
                                                         .deviation = 0.5});
}

static void record_nothing(sw_graph *g, const void *about) {
    (void)about;
    end(g, begin(g));
}
static void embedding_and_cross_entropy(void **state) {
    (void)state;
    check(record_nothing);
}

static void record_tied(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_cross_entropy(g, x, g->parameters.item[0], sw_targets(g));
}
static void one_table_as_embedding_and_head(void **state) {
    (void)state;
    check(record_tied);
}

static void record_positions(sw_graph *g, const void *about) {
    (void)about;
    end(g, sw_add_positions(g, begin(g), matrix(g, "positions", 23, CHANNELS)));
}
static void positions(void **state) {
    (void)state;
    check(record_positions);
}

static void record_linear(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = sw_linear(g, begin(g), matrix(g, "out_in", 5, CHANNELS), NULL, SW_OUT_IN);
    x = sw_linear(g, x, matrix(g, "out_in_bias", 9, 5), vector(g, "bias", 9, SW_INIT_ZEROS),
                  SW_OUT_IN);
    x = sw_linear(g, x, matrix(g, "in_out", 9, 17), NULL, SW_IN_OUT);
    end(g, sw_linear(g, x, matrix(g, "in_out_bias", 17, 6), vector(g, "bias2", 6, SW_INIT_ZEROS),
                     SW_IN_OUT));
}
static void linear_in_both_layouts_with_and_without_bias(void **state) {
    (void)state;
    check(record_linear);
}

/* Two, three and one product of one x, with biases on some, in both layouts; the last as wide as x,
 * plus it. */
static void record_several(sw_graph *g, const void *about) {
    const sw_weight_layout layout = *(const sw_weight_layout *)about;
    const int64_t outs[] = {5, 7, 2, 3, CHANNELS},
                  ins[] = {CHANNELS, CHANNELS, CHANNELS, CHANNELS, 5};
    const char *names[] = {"a", "b", "c", "d", "e"},
               *biases[] = {"bias a", "bias b", "bias c", "bias d", "bias e"};
    sw_value *x = begin(g);
    sw_parameter *w[5], *b[5];
    for (int i = 0; i < 5; i++) {
        w[i] = layout == SW_OUT_IN ? matrix(g, names[i], outs[i], ins[i])
                                   : matrix(g, names[i], ins[i], outs[i]);
        b[i] = i % 2 ? NULL : vector(g, biases[i], outs[i], SW_INIT_ZEROS);
    }
    sw_value *two = sw_linear_several(g, x, 2, w + 2, NULL, layout);
    sw_value *three = sw_linear_several(
        g, sw_add(g, x, sw_linear_several(g, two, 1, w + 4, b + 4, layout)), 3, w, b, layout);
    sw_parameter *last[] = {matrix(g, "last", CHANNELS, 14)};
    end(g, sw_add(g, x, sw_linear_several(g, three, 1, last, NULL, SW_OUT_IN)));
}
static void several_products_of_one_value(void **state) {
    (void)state;
    for (int passes = 0; passes < 8; passes++) {
        const sw_weight_layout layout = passes & 1 ? SW_IN_OUT : SW_OUT_IN;
        gradient_check_run(device, &(gradient_check){.record = record_several,
                                                     .about = &layout,
                                                     .n_rows = 3,
                                                     .n_tokens = 7,
                                                     .n_vocabulary = VOCABULARY,
                                                     .joins_products = passes >> 1 & 1,
                                                     .reuse_in_place = passes >> 2,
                                                     .deviation = 0.5});
    }
}

static void record_partly_frozen(sw_graph *g, const void *about) {
    const int frozen = *(const int *)about;
    sw_parameter *w[] = {matrix(g, "a", 5, CHANNELS), matrix(g, "b", 7, CHANNELS),
                         matrix(g, "c", 2, CHANNELS)};
    sw_parameter *b[] = {vector(g, "bias a", 5, SW_INIT_ZEROS),
                         vector(g, "bias b", 7, SW_INIT_ZEROS), NULL};
    for (int i = 0; i < 5; i++)
        if (frozen >> i & 1)
            sw_parameter_freeze(i < 3 ? w[i] : b[i - 3]);
    end(g, sw_linear_several(g, begin(g), 3, w, b, SW_OUT_IN));
}
static void several_products_of_which_some_are_frozen(void **state) {
    (void)state;
    for (int frozen = 1; frozen < 32; frozen++)
        gradient_check_run(device, &(gradient_check){.record = record_partly_frozen,
                                                     .about = &frozen,
                                                     .n_rows = 1,
                                                     .n_tokens = 9,
                                                     .n_vocabulary = VOCABULARY,
                                                     .reuse_in_place = frozen % 2,
                                                     .deviation = 0.5});
}

static void record_rmsnorm(sw_graph *g, const void *about) {
    (void)about;
    end(g, sw_rmsnorm(g, begin(g), vector(g, "norm", CHANNELS, SW_INIT_ONES), 1e-2));
}
static void rmsnorm(void **state) {
    (void)state;
    check(record_rmsnorm);
}

static void record_layernorm(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = sw_layernorm(g, begin(g), vector(g, "norm", CHANNELS, SW_INIT_ONES),
                               vector(g, "bias", CHANNELS, SW_INIT_ZEROS), 1e-2);
    x = sw_linear(g, x, matrix(g, "between", CHANNELS, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_layernorm(g, x, vector(g, "norm2", CHANNELS, SW_INIT_ONES), NULL, 1e-2));
}
static void layernorm_with_and_without_bias(void **state) {
    (void)state;
    check(record_layernorm);
}

static void record_positions_within(sw_graph *g, const void *about) {
    (void)about;
    end(g, sw_add_positions_within(g, begin(g), matrix(g, "positions", 23, CHANNELS),
                                   sw_documents(g)));
}
static void positions_that_restart(void **state) {
    (void)state;
    check(record_positions_within);
}

static void record_rmsnorm_heads(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x =
        sw_rmsnorm_heads(g, begin(g), vector(g, "norm", CHANNELS / 3, SW_INIT_ONES), 1e-2);
    x = sw_linear(g, x, matrix(g, "between", CHANNELS, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_rmsnorm_heads(g, x, vector(g, "norm_of_one", CHANNELS, SW_INIT_ONES), 1e-2));
}
static void rmsnorm_of_heads(void **state) {
    (void)state;
    check(record_rmsnorm_heads);
}

static void record_rotary_scaled(sw_graph *g, const void *about) {
    (void)about;
    const sw_rotary_scaling by_pair = {100, 4, SW_RAMP_BY_PAIR, 2, 0, 1.5},
                            by_frequency = {10, 8, SW_RAMP_BY_FREQUENCY, 0.2, 0.9, 1};
    sw_value *x = sw_rotary_scaled(g, begin(g), 6, &by_pair);
    x = sw_linear(g, x, matrix(g, "between", CHANNELS, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_rotary_scaled(g, x, CHANNELS, &by_frequency));
}
static void rotary_with_scaled_frequencies(void **state) {
    (void)state;
    check(record_rotary_scaled);
}

static void record_rotary(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = sw_rotary(g, begin(g), 4, 100);
    x = sw_linear(g, x, matrix(g, "between", CHANNELS, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_rotary(g, x, CHANNELS, 10));
}
static void rotary_of_several_heads_and_of_one(void **state) {
    (void)state;
    check(record_rotary);
}

/* Heads that are turned, and channels behind them that are not. */
static void record_rotary_packed(sw_graph *g, const void *about) {
    (void)about;
    const sw_rotary_scaling plain = {.theta = 100, .factor = 1, .amplitude = 1};
    sw_value *x = sw_rotary_packed(g, begin(g), 2, 4, &plain);
    x = sw_linear(g, x, matrix(g, "between", 11, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_rotary_packed(g, x, 3, 2, &plain));
}
static void rotary_of_the_first_heads(void **state) {
    (void)state;
    check(record_rotary_packed);
}

/* Query heads and key/value heads, and channels per head. */
typedef struct heads {
    int64_t query, key, channels;
} heads;

static const heads HEADS[] = {{1, 1, 5}, {3, 3, 4}, {4, 2, 3}, {6, 1, 2}};

static void record_attention(sw_graph *g, const void *about) {
    const heads *h = about;
    sw_value *x = begin(g);
    sw_value *q =
        sw_linear(g, x, matrix(g, "q", h->query * h->channels, CHANNELS), NULL, SW_OUT_IN);
    sw_value *k = sw_linear(g, x, matrix(g, "k", h->key * h->channels, CHANNELS), NULL, SW_OUT_IN);
    sw_value *v = sw_linear(g, x, matrix(g, "v", h->key * h->channels, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_attention(g, q, k, v, h->query, h->key));
}

static void record_packed(sw_graph *g, const void *about) {
    const heads *h = about;
    sw_value *x =
        sw_linear(g, begin(g), matrix(g, "qkv", (h->query + 2 * h->key) * h->channels, CHANNELS),
                  NULL, SW_OUT_IN);
    end(g, sw_attention_packed(g, x, h->query, h->key));
}

static void attention_separate_and_packed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++)
        for (int packed = 0; packed < 2; packed++)
            gradient_check_run(
                device,
                &(gradient_check){
                    .record = packed ? record_packed : record_attention,
                    .about = &HEADS[i],
                    .n_rows = 2,
                    .n_tokens = packed ? 70 : 9, /* more than one block of queries; a part of one */
                    .n_vocabulary = VOCABULARY,
                    .reuse_in_place = true,
                    .deviation = 0.7});
}

/* A span, documents, a scale, a mask, dropout, and all of them. */
typedef struct view {
    const heads *heads;
    int64_t span;
    double scale;
    bool apart;
    sw_attention_mask mask;
    double dropout;
} view;

static void record_view(sw_graph *g, const void *about) {
    const view *v = about;
    const heads *h = v->heads;
    const sw_attention_options options = {v->span, v->scale, v->apart ? sw_documents(g) : NULL,
                                          v->mask, v->dropout};
    sw_value *x =
        sw_linear(g, begin(g), matrix(g, "qkv", (h->query + 2 * h->key) * h->channels, CHANNELS),
                  NULL, SW_OUT_IN);
    x = sw_attention_packed_with(g, x, h->query, h->key, &options);
    sw_value *q = sw_linear(g, x, matrix(g, "q", h->query * h->channels, h->query * h->channels),
                            NULL, SW_OUT_IN);
    sw_value *k = sw_linear(g, x, matrix(g, "k", h->key * h->channels, h->query * h->channels),
                            NULL, SW_OUT_IN);
    end(g, sw_attention_with(g, q, k, k, h->query, h->key, &options));
}

static void attention_within_masks_spans_and_documents_with_dropout(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++) {
        const view views[] = {{&HEADS[i], 5, 0, false, SW_MASK_CAUSAL, 0},
                              {&HEADS[i], 0, 0.3, true, SW_MASK_CAUSAL, 0},
                              {&HEADS[i], 3, 1, true, SW_MASK_CAUSAL, 0},
                              {&HEADS[i], 0, 0, false, SW_MASK_FULL, 0},
                              {&HEADS[i], 4, 0, true, SW_MASK_FULL, 0},
                              {&HEADS[i], 0, 0, false, SW_MASK_CAUSAL, 0.3},
                              {&HEADS[i], 4, 1, true, SW_MASK_FULL, 0.6}};
        for (size_t j = 0; j < sizeof views / sizeof *views; j++)
            gradient_check_run(device, &(gradient_check){.record = record_view,
                                                         .about = &views[j],
                                                         .n_rows = 2,
                                                         .n_tokens = j == 0 ? 140 : 21,
                                                         .n_vocabulary = VOCABULARY,
                                                         .reuse_in_place = true,
                                                         .deviation = 0.5});
    }
}

/* A rotation that is part of a product's store: its gradient is part of the store of attention's
 * where queries and keys lie side by side, in order, and attention alone reads them; else an
 * operation. */
enum { ATTENTION_ALONE, READ_TWICE, BEHIND_A_SUM, OTHER_HEADS, OTHER_SPLIT, N_TURNED };
static void record_turned(sw_graph *g, const void *about) {
    const int how = *(const int *)about;
    const sw_rotary_scaling scaling = {.theta = 100, .factor = 1, .amplitude = 1};
    sw_value *x = begin(g), *y = sw_linear(g, x, matrix(g, "qkv", 32, CHANNELS),
                                           vector(g, "bias", 32, SW_INIT_ZEROS), SW_OUT_IN);
    if (how == BEHIND_A_SUM)
        y = sw_add(g, sw_linear(g, x, matrix(g, "residual", 32, CHANNELS), NULL, SW_OUT_IN),
                   sw_linear(g, x, matrix(g, "joined", CHANNELS, 32), NULL, SW_IN_OUT));
    y = sw_rotary_packed(g, y, how == OTHER_HEADS ? 5 : 6, 4, &scaling);
    sw_value *out =
        how == OTHER_SPLIT ? sw_attention_packed(g, y, 2, 1) : sw_attention_packed(g, y, 4, 2);
    if (how == READ_TWICE)
        out = sw_add(g, sw_linear(g, out, matrix(g, "o", 32, 16), NULL, SW_OUT_IN), y);
    end(g, out);
}
static void rotations_in_the_stores_of_products_and_of_attention(void **state) {
    (void)state;
    for (int how = 0; how < N_TURNED; how++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const gradient_check joined = {.record = record_turned,
                                           .about = &how,
                                           .n_rows = 2,
                                           .n_tokens = 7,
                                           .n_vocabulary = VOCABULARY,
                                           .joins_products = true,
                                           .reuse_in_place = in_place,
                                           .deviation = 0.5};
            gradient_check_run(device, &joined);
            sw_graph *graph = gradient_check_graph(&joined, true);
            int n_rotations = 0;
            for (int i = 0; i < graph->ops.n; i++)
                n_rotations += graph->ops.item[i]->kernel == SW_KERNEL_ROTARY;
            assert_int_equal(n_rotations, how == ATTENTION_ALONE || how == BEHIND_A_SUM ? 0 : 1);
            sw_graph_free(graph);
        }
}

static void record_activation(sw_graph *g, const void *about) {
    end(g, sw_activate(g, begin(g), *(const sw_activation *)about));
}
static void every_activation(void **state) {
    (void)state;
    for (int function = 0; function < SW_N_ACTIVATIONS; function++) {
        const sw_activation about = (sw_activation)function;
        gradient_check_run(device, &(gradient_check){.record = record_activation,
                                                     .about = &about,
                                                     .n_rows = 2,
                                                     .n_tokens = 9,
                                                     .n_vocabulary = VOCABULARY,
                                                     .reuse_in_place = true,
                                                     .deviation = 1.5});
    }
}

static void record_gelu(sw_graph *g, const void *about) {
    (void)about;
    end(g, sw_gelu(g, begin(g)));
}
static void gelu(void **state) {
    (void)state;
    check(record_gelu);
}

static void record_scale(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    end(g, sw_add(g, x, sw_scale(g, x, -0.7))); /* two gradients arrive at x */
}
static void scale(void **state) {
    (void)state;
    check(record_scale);
}

static void record_swiglu(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_value *gate = sw_linear(g, x, matrix(g, "gate", 7, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_swiglu(g, gate, sw_linear(g, x, matrix(g, "up", 7, CHANNELS), NULL, SW_OUT_IN)));
}
static void swiglu(void **state) {
    (void)state;
    check(record_swiglu);
}

static void record_swiglu_packed(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = sw_swiglu_packed(g, begin(g));
    sw_parameter *w[] = {matrix(g, "gate", 7, CHANNELS / 2), matrix(g, "up", 7, CHANNELS / 2)};
    end(g, sw_swiglu_packed(g, sw_linear_several(g, x, 2, w, NULL, SW_OUT_IN)));
}
static void swiglu_of_a_packed_value(void **state) {
    (void)state;
    check(record_swiglu_packed);
}

static void record_add(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    end(g, sw_add(g, x, sw_linear(g, x, matrix(g, "f", CHANNELS, CHANNELS), NULL, SW_OUT_IN)));
}
static void add(void **state) {
    (void)state;
    check(record_add);
}

static void record_dropout(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = sw_dropout(g, begin(g), 0.3);
    x = sw_linear(g, x, matrix(g, "f", CHANNELS, CHANNELS), NULL, SW_OUT_IN);
    end(g, sw_add(g, x, sw_dropout(g, sw_dropout(g, x, 0.5), 0)));
}
static void dropout_draws_the_same_mask_in_both_directions(void **state) {
    (void)state;
    check(record_dropout);
}

/* What ranks share along an axis, each of its own tokens, also where the last ones have none. */
static void check_shared(graph_recorder record) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 10}};
    for (int n_ranks = 1; n_ranks <= GRADIENT_CHECK_RANKS; n_ranks++)
        for (int i = 0; i < 3; i++)
            for (int odd = 0; odd < 3; odd++)
                gradient_check_run(device, &(gradient_check){.record = record,
                                                             .n_rows = shapes[i][0],
                                                             .n_tokens = shapes[i][1],
                                                             .n_vocabulary = VOCABULARY,
                                                             .n_ranks = n_ranks,
                                                             .n_idle = odd == 2 ? n_ranks / 2 : 0,
                                                             .reuse_in_place = odd > 0,
                                                             .deviation = 0.5});
}

/* Rows of all ranks through a layer on each of them, and back to those that they came from. */
static void record_gathered(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *all = sw_gather_over(g, x, "shard");
    all = sw_gelu(g, sw_linear(g, all, matrix(g, "w", 9, CHANNELS), NULL, SW_OUT_IN));
    end(g, sw_linear(g, sw_sum_slice_over(g, all, "shard"), matrix(g, "back", CHANNELS, 9), NULL,
                     SW_OUT_IN));
}
static void gathers_and_sums_of_slices(void **state) {
    (void)state;
    check_shared(record_gathered);
}

/* A sum that is read twice, beside what went into it. */
static void record_summed(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *sum = sw_scale(g, sw_sum_over(g, sw_gelu(g, x), "shard"), 0.3);
    sum = sw_sum_over(g, sw_add(g, x, sw_gelu(g, sum)), "replicate"); /* of one rank: itself */
    end(g, sw_add(g, sw_linear(g, sum, matrix(g, "w", CHANNELS, CHANNELS), NULL, SW_OUT_IN), sum));
}
static void sums(void **state) {
    (void)state;
    check_shared(record_summed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_and_sums_of_slices),
        cmocka_unit_test(sums),
        cmocka_unit_test(embedding_and_cross_entropy),
        cmocka_unit_test(one_table_as_embedding_and_head),
        cmocka_unit_test(positions),
        cmocka_unit_test(linear_in_both_layouts_with_and_without_bias),
        cmocka_unit_test(several_products_of_one_value),
        cmocka_unit_test(several_products_of_which_some_are_frozen),
        cmocka_unit_test(rmsnorm),
        cmocka_unit_test(layernorm_with_and_without_bias),
        cmocka_unit_test(rotary_of_several_heads_and_of_one),
        cmocka_unit_test(rotary_of_the_first_heads),
        cmocka_unit_test(rotations_in_the_stores_of_products_and_of_attention),
        cmocka_unit_test(attention_separate_and_packed),
        cmocka_unit_test(positions_that_restart),
        cmocka_unit_test(rmsnorm_of_heads),
        cmocka_unit_test(rotary_with_scaled_frequencies),
        cmocka_unit_test(attention_within_masks_spans_and_documents_with_dropout),
        cmocka_unit_test(every_activation),
        cmocka_unit_test(gelu),
        cmocka_unit_test(scale),
        cmocka_unit_test(swiglu),
        cmocka_unit_test(swiglu_of_a_packed_value),
        cmocka_unit_test(add),
        cmocka_unit_test(dropout_draws_the_same_mask_in_both_directions),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
