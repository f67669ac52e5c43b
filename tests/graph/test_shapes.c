/* test_shapes.c: what cannot be recorded is refused with operation, argument and shapes by name,
 * and NULL flows to the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

enum { B = 2, T = 8, C = 12 };

static sw_unit *root(sw_graph *g) {
    return g->units.n ? g->units.item[0] : sw_unit_declare(g, NULL, "root");
}

static sw_parameter *matrix(sw_graph *g, const char *name, int64_t rows, int64_t columns) {
    return sw_parameter_declare(g, root(g), name, 2, (int64_t[]){rows, columns}, SW_INIT_NORMAL,
                                0.1);
}

static sw_parameter *vector(sw_graph *g, const char *name, int64_t length) {
    return sw_parameter_declare(g, root(g), name, 1, &length, SW_INIT_ONES, 0);
}

/* [B*T, channels] */
static sw_value *rows(sw_graph *g, int64_t channels) {
    char name[16] = {'t', (char)('a' + g->values.n % 26), 0};
    return sw_embedding(g, sw_tokens(g), matrix(g, name, 11, channels));
}

/* [7, 12]: rows that are not the positions of the micro-batch. */
static sw_value *seven(sw_graph *g) {
    root(g);
    return sw_value_create(g, SW_VALUE_REAL, 2, (int64_t[]){7, C});
}

static sw_value *embedding_of_reals(sw_graph *g) {
    return sw_embedding(g, rows(g, C), matrix(g, "w", 3, 4));
}
static sw_value *embedding_of_a_vector(sw_graph *g) {
    return sw_embedding(g, sw_tokens(g), vector(g, "v", 4));
}
static sw_value *positions_too_few(sw_graph *g) {
    return sw_add_positions(g, rows(g, C), matrix(g, "wpe", 5, C));
}
static sw_value *positions_of_other_width(sw_graph *g) {
    return sw_add_positions(g, rows(g, C), matrix(g, "wpe", T, C + 1));
}
static sw_value *linear_of_other_width(sw_graph *g) {
    return sw_linear(g, rows(g, C), matrix(g, "w", 5, 7), NULL, SW_OUT_IN);
}
static sw_value *linear_turned(sw_graph *g) {
    return sw_linear(g, rows(g, C), matrix(g, "w", 5, C), NULL, SW_IN_OUT);
}
static sw_value *linear_bias(sw_graph *g) {
    return sw_linear(g, rows(g, C), matrix(g, "w", 5, C), vector(g, "b", C), SW_OUT_IN);
}
static sw_value *linear_of_tokens(sw_graph *g) {
    return sw_linear(g, sw_tokens(g), matrix(g, "w", 5, C), NULL, SW_OUT_IN);
}
static sw_value *linear_without_weight(sw_graph *g) {
    return sw_linear(g, rows(g, C), NULL, NULL, SW_OUT_IN);
}
static sw_value *linear_of_nothing(sw_graph *g) {
    return sw_linear(g, NULL, matrix(g, "w", 5, C), NULL, SW_OUT_IN);
}
static sw_value *rmsnorm_weight(sw_graph *g) {
    return sw_rmsnorm(g, rows(g, C), vector(g, "w", C - 1), 1e-5);
}
static sw_value *rmsnorm_epsilon(sw_graph *g) {
    return sw_rmsnorm(g, rows(g, C), vector(g, "w", C), -1);
}
static sw_value *layernorm_bias(sw_graph *g) {
    return sw_layernorm(g, rows(g, C), vector(g, "w", C), vector(g, "b", 2), 1e-5);
}
static sw_value *layernorm_one_parameter(sw_graph *g) {
    sw_parameter *w = vector(g, "w", C);
    return sw_layernorm(g, rows(g, C), w, w, 1e-5);
}
static sw_value *rotary_odd(sw_graph *g) {
    return sw_rotary(g, rows(g, C), 3, 1e4);
}
static sw_value *rotary_heads(sw_graph *g) {
    return sw_rotary(g, rows(g, C), 8, 1e4);
}
static sw_value *rotary_theta(sw_graph *g) {
    return sw_rotary(g, rows(g, C), 4, 0);
}
static sw_value *rotary_ramp(sw_graph *g) {
    return sw_rotary_scaled(g, rows(g, C), 4,
                            &(sw_rotary_scaling){100, 2, SW_RAMP_BY_PAIR, 3, 3, 1});
}
static sw_value *several_of_none(sw_graph *g) {
    return sw_linear_several(g, rows(g, C), 0, NULL, NULL, SW_OUT_IN);
}
static sw_value *several_of_four(sw_graph *g) {
    return sw_linear_several(g, rows(g, C), 4, NULL, NULL, SW_OUT_IN);
}
static sw_value *several_of_other_width(sw_graph *g) {
    return sw_linear_several(g, rows(g, C), 2,
                             (sw_parameter *[]){matrix(g, "v", 5, C), matrix(g, "w", 5, 7)}, NULL,
                             SW_OUT_IN);
}
static sw_value *several_bias(sw_graph *g) {
    sw_parameter *weights[] = {matrix(g, "v", 5, C), matrix(g, "w", 4, C)},
                 *biases[] = {NULL, vector(g, "b", 5)};
    return sw_linear_several(g, rows(g, C), 2, weights, biases, SW_OUT_IN);
}
static sw_value *several_of_one_weight(sw_graph *g) {
    sw_parameter *w = matrix(g, "w", 5, C);
    return sw_linear_several(g, rows(g, C), 2, (sw_parameter *[]){w, w}, NULL, SW_OUT_IN);
}
static sw_value *as_it_is(sw_graph *g, void *self, sw_value *x, sw_parameter *weight,
                          sw_weight_layout layout, sw_value *y) {
    (void)g, (void)self, (void)x, (void)weight, (void)layout;
    return y;
}
static sw_value *several_with_adapters(sw_graph *g) {
    g->linear_hook = as_it_is;
    return sw_linear_several(g, rows(g, C), 1, (sw_parameter *[]){matrix(g, "w", 5, C)}, NULL,
                             SW_OUT_IN);
}
static sw_value *rotary_packed(sw_graph *g) {
    return sw_rotary_packed(g, rows(g, C), 4, 4,
                            &(sw_rotary_scaling){.theta = 100, .factor = 1, .amplitude = 1});
}
static sw_value *swiglu_packed(sw_graph *g) {
    return sw_swiglu_packed(g, rows(g, C + 1));
}
static sw_value *rmsnorm_heads(sw_graph *g) {
    return sw_rmsnorm_heads(g, rows(g, C), vector(g, "w", 5), 1e-5);
}
static sw_value *attention_span(sw_graph *g) {
    return sw_attention_packed_with(g, rows(g, C), 1, 1, &(sw_attention_options){.span = -1});
}
static sw_value *attention_documents(sw_graph *g) {
    return sw_attention_packed_with(g, rows(g, C), 1, 1,
                                    &(sw_attention_options){.documents = rows(g, C)});
}
static sw_value *activation_unknown(sw_graph *g) {
    return sw_activate(g, rows(g, C), SW_N_ACTIVATIONS);
}
static sw_value *attention_mask(sw_graph *g) {
    return sw_attention_packed_with(g, rows(g, C), 1, 1,
                                    &(sw_attention_options){.mask = (sw_attention_mask)7});
}
static sw_value *attention_dropout(sw_graph *g) {
    return sw_attention_packed_with(g, rows(g, C), 1, 1, &(sw_attention_options){.dropout = 1});
}
static sw_value *attention_heads(sw_graph *g) {
    return sw_attention(g, rows(g, C), rows(g, C), rows(g, C), 4, 3);
}
static sw_value *attention_channels(sw_graph *g) {
    return sw_attention(g, rows(g, C), rows(g, C), rows(g, C), 5, 5);
}
static sw_value *attention_keys(sw_graph *g) {
    return sw_attention(g, rows(g, C), rows(g, C), rows(g, C), 4, 2);
}
static sw_value *attention_positions(sw_graph *g) {
    return sw_attention(g, seven(g), seven(g), seven(g), 1, 1);
}
static sw_value *packed_heads(sw_graph *g) {
    return sw_attention_packed(g, rows(g, 13), 2, 2);
}
static sw_value *swiglu_shapes(sw_graph *g) {
    return sw_swiglu(g, rows(g, C), rows(g, C + 1));
}
static sw_value *add_shapes(sw_graph *g) {
    return sw_add(g, rows(g, C), seven(g));
}
static sw_value *gelu_of_nothing(sw_graph *g) {
    root(g);
    return sw_gelu(g, NULL);
}
static sw_value *dropout_of_everything(sw_graph *g) {
    return sw_dropout(g, rows(g, C), 1);
}
static sw_value *cross_entropy_head(sw_graph *g) {
    return sw_cross_entropy(g, rows(g, C), matrix(g, "head", 11, C + 1), sw_targets(g));
}
static sw_value *cross_entropy_targets(sw_graph *g) {
    return sw_cross_entropy(g, rows(g, C), matrix(g, "head", 11, C), rows(g, C));
}
static sw_value *cross_entropy_twice(sw_graph *g) {
    sw_value *x = rows(g, C);
    sw_parameter *head = matrix(g, "head", 11, C);
    sw_cross_entropy(g, x, head, sw_targets(g));
    return sw_cross_entropy(g, x, head, sw_targets(g));
}
static sw_value *operation_on_the_loss(sw_graph *g) {
    return sw_gelu(g, sw_cross_entropy(g, rows(g, C), matrix(g, "head", 11, C), sw_targets(g)));
}
static sw_value *logits_head(sw_graph *g) {
    return sw_logits_at_position(g, rows(g, C), matrix(g, "head", 11, 5));
}
static sw_value *name_twice(sw_graph *g) {
    return sw_linear(g, rows(g, C), matrix(g, "w", 4, C), vector(g, "w", 4), SW_OUT_IN);
}
static sw_value *no_root(sw_graph *g) {
    return sw_gelu(g, sw_value_create(g, SW_VALUE_REAL, 2, (int64_t[]){B * T, C}));
}
static sw_value *two_roots(sw_graph *g) {
    root(g);
    sw_unit_declare(g, NULL, "second");
    return NULL;
}
static sw_value *five_dimensions(sw_graph *g) {
    sw_parameter_declare(g, root(g), "w", 5, (int64_t[]){1, 1, 1, 1, 1}, SW_INIT_ZEROS, 0);
    return NULL;
}
static sw_value *dimension_of_zero(sw_graph *g) {
    matrix(g, "w", 4, 0);
    return NULL;
}
static sw_value *dimensions_that_overflow(sw_graph *g) {
    matrix(g, "w", INT64_C(1) << 32, INT64_C(1) << 32);
    return NULL;
}

static sw_value *use_weight(sw_graph *g, void *self, sw_value *x) {
    return sw_linear(g, x, self, NULL, SW_OUT_IN);
}
static sw_value *parameter_of_a_neighbour(sw_graph *g) {
    sw_value *x = rows(g, C);
    sw_unit *first = sw_unit_declare(g, root(g), "layers.0"),
            *second = sw_unit_declare(g, root(g), "layers.1");
    return sw_call(g, second, use_weight,
                   sw_parameter_declare(g, first, "w", 2, (int64_t[]){C, C}, SW_INIT_ZEROS, 0), x);
}
static sw_value *error_within_a_unit(sw_graph *g) {
    sw_value *x = rows(g, C);
    return sw_call(g, sw_unit_declare(g, root(g), "layers.7"), use_weight, matrix(g, "w", C, 5), x);
}
static sw_value *unit_called_from_elsewhere(sw_graph *g) {
    sw_value *x = rows(g, C);
    sw_unit *outer = sw_unit_declare(g, root(g), "outer"),
            *inner = sw_unit_declare(g, outer, "inner");
    return sw_call(g, inner, use_weight, matrix(g, "w", C, C), x);
}

static const struct {
    sw_value *(*record)(sw_graph *g);
    const char *message; /* a part of it */
} REFUSED[] = {
    {embedding_of_reals, "embedding: tokens must be token ids (sw_tokens, sw_targets, "
                         "sw_documents), not [16, 12] of reals"},
    {embedding_of_a_vector, "embedding: table v is [4], but [any, any] is needed"},
    {positions_too_few, "add_positions: table wpe has 5 positions, a row has 8 tokens"},
    {positions_of_other_width, "add_positions: table wpe is [8, 13], but [any, 12] is needed"},
    {linear_of_other_width, "linear: weight w is [5, 7], but [any, 12] is needed"},
    {linear_turned, "linear: weight w is [5, 12], but [12, any] is needed"},
    {linear_bias, "linear: bias b is [12], but [5] is needed"},
    {linear_of_tokens, "linear: x is a list of token ids"},
    {linear_without_weight, "linear: weight is NULL"},
    {linear_of_nothing, "linear: x is NULL"},
    {several_of_none, "linear_several: 0 weights; 1 to 3 are possible"},
    {several_of_four, "linear_several: 4 weights; 1 to 3 are possible"},
    {several_of_other_width, "linear_several: weight w is [5, 7], but [any, 12] is needed"},
    {several_bias, "linear_several: bias b is [5], but [4] is needed"},
    {several_of_one_weight, "linear_several: products 0 and 1 have a parameter in common, w"},
    {several_with_adapters,
     "linear_several: layers that get adapters (LoRA) are recorded one by one"},
    {rotary_packed, "rotary_packed: 12 channels do not begin with 4 heads of 4"},
    {swiglu_packed, "swiglu_packed: 13 channels do not divide into gate and up"},
    {rmsnorm_weight, "rmsnorm: weight w is [11], but [12] is needed"},
    {rmsnorm_epsilon, "rmsnorm: epsilon is -1"},
    {layernorm_bias, "layernorm: bias b is [2], but [12] is needed"},
    {layernorm_one_parameter, "layernorm: weight and bias are one parameter, w"},
    {rotary_odd, "rotary: 12 channels do not divide into heads of 3"},
    {rotary_heads, "rotary: 12 channels do not divide into heads of 8"},
    {rotary_theta, "rotary: theta is 0"},
    {rotary_ramp, "a ramp must not end at its beginning, 3"},
    {rmsnorm_heads, "rmsnorm_heads: 12 channels do not divide into heads of 5, the length of w"},
    {attention_span, "attention: a span of -1 and a scale of 0; both must be 0 or more"},
    {attention_documents, "attention: documents must be token ids"},
    {attention_mask, "attention: there is no mask number 7"},
    {attention_dropout,
     "attention: the probability of dropout is 1; it must be at least 0 and below 1"},
    {activation_unknown, "activation: there is no function 15"},
    {attention_heads, "attention: 4 query heads cannot share 3 key/value heads evenly"},
    {attention_channels, "attention: the 12 channels of q do not divide into 5 heads"},
    {attention_keys, "attention: k [16, 12] and v [16, 12] must have 6 channels, 2 heads of q's 3"},
    {attention_positions,
     "attention: q is [7, 12]; its first dimension must be the 2 x 8 positions of the micro-batch"},
    {packed_heads,
     "attention_packed: 13 channels do not divide into 2 query, 2 key and 2 value heads"},
    {swiglu_shapes, "swiglu: the shapes [16, 12] and [16, 13] differ"},
    {add_shapes, "add: the shapes [16, 12] and [7, 12] differ"},
    {gelu_of_nothing, "activation: x is NULL"},
    {dropout_of_everything, "dropout: the probability is 1"},
    {cross_entropy_head, "cross_entropy: head head is [11, 13], but [any, 12] is needed"},
    {cross_entropy_targets, "cross_entropy: targets must be token ids"},
    {cross_entropy_twice, "cross_entropy: the graph has a loss already"},
    {operation_on_the_loss, "activation: x is the loss, not an activation"},
    {logits_head, "logits_at_position: head head is [11, 5], but [any, 12] is needed"},
    {name_twice, "parameter w: w is declared already"},
    {no_root, "activation: declare the root unit before recording operations"},
    {two_roots, "unit second has no parent; only the root unit has none, and that is root already"},
    {five_dimensions, "parameter w has 5 dimensions; 1 to 4 are possible"},
    {dimension_of_zero, "parameter w: each dimension must be at least 1"},
    {dimensions_that_overflow,
     "parameter w: each dimension must be at least 1, and their product below 2^59"},
    {parameter_of_a_neighbour,
     "unit layers.1: linear uses parameter w of unit layers.0, which does not enclose it"},
    {error_within_a_unit, "unit layers.7: linear: weight w is [12, 5], but [any, 12] is needed"},
    {unit_called_from_elsewhere,
     "call: unit inner was declared below outer, but is called inside root"},
};

static void what_does_not_fit_is_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        sw_graph *g;
        sw_error err = {0};
        assert_int_equal(sw_graph_create(B, T, &g, &err), SW_OK);
        assert_null(REFUSED[i].record(g));
        assert_int_equal(sw_graph_status(g, &err), SW_BAD_CONFIG);
        if (!strstr(err.message, REFUSED[i].message))
            fail_msg("'%s' is not in '%s'", REFUSED[i].message, err.message);
        sw_graph_free(g);
    }
}

/* A model is written without a check between its operations: the first error stays, and nothing is
 * recorded after it. */
/* Along an axis with several ranks shapes follow from how many there are; along one with a single
 * rank nothing is recorded. */
static void what_is_shared_has_the_shape_of_its_axis(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    const sw_mesh mesh = sw_mesh_flat(4);
    assert_int_equal(sw_graph_create(B, T, &g, NULL), SW_OK);
    sw_graph_spread(g, &mesh);
    sw_value *x = rows(g, C), *all = sw_gather_over(g, x, "shard"),
             *sum = sw_sum_over(g, x, "shard"), *own = sw_sum_slice_over(g, x, "shard");
    assert_true(all->dimension[0] == 4 * B * T && all->dimension[1] == C);
    assert_true(sum->dimension[0] == B * T && sum->dimension[1] == C);
    assert_true(own->dimension[0] == B * T / 4 && own->dimension[1] == C);
    const int n = g->ops.n;
    assert_ptr_equal(sw_gather_over(g, x, "replicate"), x);
    assert_ptr_equal(sw_sum_over(g, x, "replicate"), x);
    assert_ptr_equal(sw_sum_slice_over(g, x, "replicate"), x);
    assert_int_equal(g->ops.n, n);
    assert_null(sw_sum_slice_over(g, seven(g), "shard"));
    assert_int_equal(sw_graph_status(g, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "sum_slice_over: x is [7, 12]; its rows must be a multiple "
                                        "of the 4 ranks of axis shard"));
    sw_graph_free(g);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sw_graph_create(B, T, &g, NULL), SW_OK);
        assert_null(sw_gather_over(g, rows(g, C), i ? NULL : "sharp"));
        assert_int_equal(sw_graph_status(g, &err), SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, i ? "there is no axis NULL of the mesh"
                                              : "there is no axis \"sharp\" of the mesh; there "
                                                "are replicate, shard"));
        sw_graph_free(g);
    }
}

static void null_flows_to_the_end_and_the_first_error_stays(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(B, T, &g, &err), SW_OK);
    sw_value *x = linear_of_other_width(g);
    int n_ops = g->ops.n;
    sw_parameter *norm = vector(g, "norm", C), *head = matrix(g, "head", 5, C);
    assert_null(norm);
    x = sw_rmsnorm(g, sw_add(g, x, sw_gelu(g, x)), norm, 1e-5);
    x = sw_call(g, sw_unit_declare(g, root(g), "layers.0"), use_weight, head, x);
    x = sw_swiglu(g, sw_rotary(g, x, 4, 1e4), sw_dropout(g, x, 0.1));
    x = sw_attention_packed(g, sw_attention(g, x, x, x, 2, 2), 2, 2);
    x = sw_add_positions(g, sw_layernorm(g, x, norm, NULL, 1e-5), head);
    assert_null(sw_cross_entropy(g, x, head, sw_targets(g)));
    assert_null(sw_logits_at_position(g, x, head));
    assert_null(sw_embedding(g, NULL, NULL));
    sw_parameter_freeze(norm);
    assert_int_equal(g->ops.n, n_ops);
    assert_int_equal(sw_graph_status(g, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "linear: weight w"));
    assert_int_equal(sw_graph_join_products(g, &err), SW_BAD_CONFIG);
    assert_int_equal(sw_graph_differentiate(g, &err), SW_BAD_CONFIG);
    assert_int_equal(sw_graph_recompute_blocks(g, &err), SW_BAD_CONFIG);
    assert_int_equal(sw_graph_reuse_in_place(g, &err), SW_BAD_CONFIG);
    sw_graph_free(g);
}

static void a_micro_batch_must_have_rows_and_tokens(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {
        {0, 8}, {8, 0}, {-1, 4}, {INT64_C(1) << 40, INT64_C(1) << 40}, {1 << 16, 1 << 16}};
    for (int i = 0; i < 5; i++) {
        sw_graph *g;
        sw_error err = {0};
        assert_int_equal(sw_graph_create(shapes[i][0], shapes[i][1], &g, &err), SW_BAD_CONFIG);
        assert_null(g);
        assert_non_null(strstr(err.message, "a micro-batch of"));
    }
}

static void a_graph_without_a_loss_cannot_be_differentiated(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(B, T, &g, &err), SW_OK);
    rows(g, C);
    assert_int_equal(sw_graph_differentiate(g, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "no loss"));
    sw_graph_free(g);
}

static void parameters_know_decay_atom_and_stream(void **state) {
    (void)state;
    sw_graph *g;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(B, T, &g, &err), SW_OK);
    sw_parameter *w = matrix(g, "a", 3, 5), *b = vector(g, "b", 7);
    assert_true(w->decays && !b->decays && w->is_trainable && b->is_trainable);
    assert_int_equal(w->n_elements, 15);
    /* FNV-1a of "a" and "b", from its published test vectors */
    assert_true(w->stream == 0xAF63DC4C8601EC8Cu);
    assert_true(b->stream == 0xAF63DF4C8601F1A5u);
    sw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(what_is_shared_has_the_shape_of_its_axis),
        cmocka_unit_test(null_flows_to_the_end_and_the_first_error_stays),
        cmocka_unit_test(a_micro_batch_must_have_rows_and_tokens),
        cmocka_unit_test(a_graph_without_a_loss_cannot_be_differentiated),
        cmocka_unit_test(parameters_know_decay_atom_and_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
