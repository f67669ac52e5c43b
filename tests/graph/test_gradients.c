/* test_gradients.c: how gradients flow: sharing, pruning, tied and frozen parameters, in graphs
 * that no model has.
 *
 * Gradients of sums are shared without a copy, and added to in place where that is safe. Each graph
 * here is one in which a wrong notion of "safe" gives a wrong number; the numbers come from central
 * differences in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/gradient_check.h"

enum { VOCABULARY = 7, CHANNELS = 6 };

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

static sw_parameter *matrix(sw_graph *g, const char *name) {
    return sw_parameter_declare(g, root(g), name, 2, (int64_t[]){CHANNELS, CHANNELS},
                                SW_INIT_NORMAL, 0.1);
}

static sw_value *linear(sw_graph *g, sw_value *x, const char *name) {
    return sw_linear(g, x, matrix(g, name), NULL, SW_OUT_IN);
}

static sw_value *norm(sw_graph *g, sw_value *x, const char *name) {
    return sw_rmsnorm(
        g, x, sw_parameter_declare(g, root(g), name, 1, (int64_t[]){CHANNELS}, SW_INIT_ONES, 0),
        1e-2);
}

static sw_value *begin(sw_graph *g) {
    sw_parameter *table = sw_parameter_declare(
        g, root(g), "table", 2, (int64_t[]){VOCABULARY, CHANNELS}, SW_INIT_NORMAL, 0.1);
    return sw_embedding(g, sw_tokens(g), table);
}

static void end(sw_graph *g, sw_value *x) {
    sw_parameter *head = sw_parameter_declare(
        g, root(g), "head", 2, (int64_t[]){VOCABULARY, CHANNELS}, SW_INIT_NORMAL, 0.1);
    sw_cross_entropy(g, x, head, sw_targets(g));
}

/* ---- unusual graphs ---- */

static void twice_itself(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    end(g, sw_add(g, x, x));
}

static void doubled_again_and_again(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    for (int i = 0; i < 3; i++)
        x = sw_add(g, x, x);
    end(g, norm(g, x, "n"));
}

static void used_three_times(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, sw_add(g, x, norm(g, x, "n")), sw_gelu(g, x)));
}

/* The sum's gradient is both branches' gradient when the first norm's rule wants to write. */
static void sum_of_two_norms_of_one_value(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    end(g, sw_add(g, norm(g, x, "n1"), norm(g, x, "n2")));
}

static void sum_whose_branches_feed_norms_too(sw_graph *g, const void *about) {
    (void)about;
    sw_value *a = linear(g, begin(g), "a"), *b = linear(g, a, "b");
    sw_value *sum = sw_add(g, a, b);
    end(g, sw_add(g, sw_add(g, norm(g, a, "na"), norm(g, b, "nb")), sum));
}

/* x + norm(x): the norm reads the very gradient that it would add into. */
static void residual_around_a_bare_norm(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, x, norm(g, x, "n")));
}

static void residual_around_nothing(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    sw_value *y = sw_add(g, x, sw_dropout(g, x, 0));
    end(g, sw_add(g, y, norm(g, y, "n")));
}

static void residual_around_a_rotation(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, sw_rotary(g, x, CHANNELS, 50), x));
}

static void residual_around_dropout(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, sw_dropout(g, x, 0.4), x));
}

static void long_and_short_residuals_of_one_value(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *h = x;
    for (int i = 0; i < 3; i++) {
        char name[8] = {'f', (char)('0' + i)}, norm_name[8] = {'n', (char)('0' + i)};
        h = sw_add(g, h, linear(g, norm(g, h, norm_name), name));
    }
    end(g, sw_add(g, x, h));
}

static void usual_residuals(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    for (int i = 0; i < 4; i++) {
        char name[8] = {'f', (char)('0' + i)}, norm_name[8] = {'n', (char)('0' + i)};
        x = sw_add(g, x, linear(g, sw_gelu(g, norm(g, x, norm_name)), name));
    }
    end(g, norm(g, x, "last"));
}

static void one_value_as_gate_and_up(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, sw_swiglu(g, x, x), x));
}

static void one_value_as_query_key_and_value(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = linear(g, begin(g), "f");
    end(g, sw_add(g, x, sw_attention(g, x, x, x, 2, 2)));
}

static void one_matrix_used_twice(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_parameter *w = matrix(g, "w");
    end(g, sw_linear(g, sw_gelu(g, sw_linear(g, x, w, NULL, SW_OUT_IN)), w, NULL, SW_IN_OUT));
}

static void one_norm_used_thrice(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_parameter *w =
        sw_parameter_declare(g, root(g), "w", 1, (int64_t[]){CHANNELS}, SW_INIT_ONES, 0);
    for (int i = 0; i < 3; i++)
        x = sw_add(g, x, sw_rmsnorm(g, x, w, 1e-2));
    end(g, x);
}

static void a_branch_that_the_loss_does_not_see(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    norm(g, linear(g, x, "unseen"), "unseen norm");
    end(g, x);
}

static const graph_recorder UNUSUAL[] = {twice_itself,
                                         doubled_again_and_again,
                                         used_three_times,
                                         sum_of_two_norms_of_one_value,
                                         sum_whose_branches_feed_norms_too,
                                         residual_around_a_bare_norm,
                                         residual_around_nothing,
                                         residual_around_a_rotation,
                                         residual_around_dropout,
                                         long_and_short_residuals_of_one_value,
                                         usual_residuals,
                                         one_value_as_gate_and_up,
                                         one_value_as_query_key_and_value,
                                         one_matrix_used_twice,
                                         one_norm_used_thrice,
                                         a_branch_that_the_loss_does_not_see};

static gradient_check check_of(graph_recorder record, const void *about) {
    return (gradient_check){.record = record,
                            .about = about,
                            .n_rows = 2,
                            .n_tokens = 5,
                            .n_vocabulary = VOCABULARY,
                            .deviation = 0.6};
}

static void sharing_gradients_changes_no_number(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof UNUSUAL / sizeof *UNUSUAL; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            gradient_check check = check_of(UNUSUAL[i], NULL);
            check.reuse_in_place = in_place;
            gradient_check_run(device, &check);
        }
}

/* ---- random graphs ---- */

static sw_value *gated(sw_graph *g, sw_value *x, const char *name) {
    char names[2][24];
    sw_parameter *weights[2];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "%s, %d", name, i);
        weights[i] = matrix(g, names[i]);
    }
    return sw_swiglu_packed(g, sw_linear_several(g, x, 2, weights, NULL, SW_IN_OUT));
}

/* A graph of n operations, each on values chosen at random among all before it: x + y, norms, gelu,
 * linears, dropout. What is left unread is summed into the end, so that everything counts. */
static void random_graph(sw_graph *g, const void *about) {
    uint64_t seed = *(const uint64_t *)about;
    enum { N = 14 };
    sw_value *value[N + 1] = {begin(g)};
    bool is_read[N + 1] = {false};
    for (int i = 1; i <= N; i++) {
        int a = (int)(graph_interpreter_uniform(seed, (uint64_t)(3 * i)) * i),
            b = (int)(graph_interpreter_uniform(seed, (uint64_t)(3 * i + 1)) * i);
        char name[16] = {'p', (char)('a' + i)};
        is_read[a] = true;
        switch ((int)(graph_interpreter_uniform(seed, (uint64_t)(3 * i + 2)) * 9)) {
        case 0:
            value[i] = norm(g, value[a], name);
            break;
        case 1:
            value[i] = sw_gelu(g, value[a]);
            break;
        case 2:
            value[i] = linear(g, value[a], name);
            break;
        case 3:
            value[i] = sw_swiglu(g, value[a], value[b]);
            is_read[b] = true;
            break;
        case 4:
            value[i] = sw_rotary(g, value[a], CHANNELS, 30);
            break;
        case 5:
            value[i] = sw_rotary_packed(
                g, value[a], 1, 4, &(sw_rotary_scaling){.theta = 30, .factor = 1, .amplitude = 1});
            break;
        case 6:
            value[i] = gated(g, value[a], name);
            break;
        default:
            value[i] = sw_add(g, value[a], value[b]);
            is_read[b] = true;
        }
    }
    sw_value *sum = norm(g, value[N], "last");
    for (int i = 0; i < N; i++)
        if (!is_read[i])
            sum = sw_add(g, sum, norm(g, value[i], (char[]){'u', (char)('a' + i), 0}));
    end(g, sum);
}

static void random_graphs_have_right_gradients(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        gradient_check check = check_of(random_graph, &seed);
        check.reuse_in_place = seed % 3 != 0;
        check.joins_products = seed % 2;
        check.n_rows = 1;
        check.seed = seed;
        gradient_check_run(device, &check);
    }
}

/* ---- what is emitted ---- */

static int count(const sw_graph *g, sw_kernel kernel, sw_phase phase) {
    int n = 0;
    for (int i = 0; i < g->ops.n; i++)
        n += g->ops.item[i]->kernel == kernel && g->ops.item[i]->phase == phase;
    return n;
}

static int count_gradients_of(const sw_graph *g, const char *name, sw_access access) {
    int n = 0;
    for (int i = 0; i < g->ops.n; i++)
        for (int k = 0; k < g->ops.item[i]->n_operands; k++) {
            const sw_operand *operand = &g->ops.item[i]->operand[k];
            n += operand->kind == SW_OPERAND_GRADIENT && operand->access == access &&
                 !strcmp(operand->parameter->name, name);
        }
    return n;
}

/* The first use in the backward order writes, whatever it is; later ones add. */
static void a_parameter_used_three_times_is_written_once_and_updated_twice(void **state) {
    (void)state;
    gradient_check check = check_of(one_norm_used_thrice, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    assert_int_equal(count_gradients_of(g, "w", SW_WRITE), 1);
    assert_int_equal(count_gradients_of(g, "w", SW_UPDATE), 2);
    sw_graph_free(g);
}

/* A zero gradient is a gradient: the optimizer will read it. */
static void an_unseen_parameter_gets_a_gradient_of_zeros(void **state) {
    (void)state;
    gradient_check check = check_of(a_branch_that_the_loss_does_not_see, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    assert_int_equal(count(g, SW_KERNEL_ZERO, SW_PHASE_BACKWARD), 2);
    assert_int_equal(count_gradients_of(g, "unseen", SW_WRITE), 1);
    graph_interpreter it = graph_interpreter_create(g, device, SW_NUMBERS_F32);
    int32_t tokens[10], targets[10];
    gradient_check_inputs(&check, tokens, targets);
    graph_interpreter_fill_parameters(&it, 0.5);
    graph_interpreter_set_inputs(&it, tokens, targets);
    graph_interpreter_run(&it);
    for (int k = 0; k < CHANNELS * CHANNELS; k++)
        assert_true(graph_interpreter_gradient(&it, 1, k) == 0);
    graph_interpreter_free(&it);
    sw_graph_free(g);
}

/* In h = x + f(norm(x)), x's gradient is h's, and the norm's is added into it: no sum and no copy
 * in backward. */
static void a_pre_norm_residual_needs_no_sum_in_backward(void **state) {
    (void)state;
    gradient_check check = check_of(usual_residuals, NULL);
    for (int joins = 0; joins < 2; joins++) {
        check.joins_products = joins;
        sw_graph *g = gradient_check_graph(&check, true);
        assert_int_equal(count(g, SW_KERNEL_ADD, SW_PHASE_FORWARD), joins ? 0 : 4);
        assert_int_equal(count(g, SW_KERNEL_ADD, SW_PHASE_BACKWARD), 0);
        sw_graph_free(g);
    }
}

static void frozen_below(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_parameter_freeze(g->parameters.item[0]);
    sw_parameter *w = matrix(g, "frozen");
    sw_parameter_freeze(w);
    x = sw_gelu(g, sw_linear(g, x, w, NULL, SW_OUT_IN));
    x = sw_add(g, x, linear(g, x, "trained"));
    sw_parameter *w2 = matrix(g, "frozen above");
    end(g, sw_linear(g, x, w2, NULL, SW_OUT_IN));
    sw_parameter_freeze(w2); /* after its use is recorded: as good as before */
}

static void
frozen_parameters_have_no_gradient_and_nothing_flows_below_the_last_trained_one(void **state) {
    (void)state;
    gradient_check check = check_of(frozen_below, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    assert_int_equal(count_gradients_of(g, "frozen", SW_WRITE), 0);
    assert_int_equal(count_gradients_of(g, "frozen above", SW_WRITE), 0);
    assert_int_equal(count_gradients_of(g, "table", SW_WRITE), 0);
    assert_int_equal(count(g, SW_KERNEL_EMBEDDING_GRAD, SW_PHASE_BACKWARD), 0);
    assert_int_equal(count(g, SW_KERNEL_ACTIVATION_GRAD, SW_PHASE_BACKWARD), 0);
    assert_int_equal(count(g, SW_KERNEL_LINEAR_GRAD_INPUT, SW_PHASE_BACKWARD),
                     1); /* through "frozen above" */
    assert_int_equal(count(g, SW_KERNEL_LINEAR_GRAD_WEIGHT, SW_PHASE_BACKWARD),
                     1); /* of "trained" */
    sw_graph_free(g);
    gradient_check_run(device, &check);
}

static void frozen_but_bias(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g);
    sw_parameter *w = matrix(g, "w"),
                 *bias = sw_parameter_declare(g, root(g), "bias", 1, (int64_t[]){CHANNELS},
                                              SW_INIT_ZEROS, 0);
    sw_parameter_freeze(w);
    sw_parameter_freeze(g->parameters.item[0]);
    end(g, sw_linear(g, x, w, bias, SW_OUT_IN));
}

static void a_bias_can_be_trained_alone(void **state) {
    (void)state;
    gradient_check check = check_of(frozen_but_bias, NULL);
    gradient_check_run(device, &check);
}

/* A rule that asks twice for the place of one value's gradient, as that of an operation on (x, x)
 * would. */
static void two_targets(sw_differentiation *d, sw_op *op) {
    sw_operand first = sw_gradient_target(d, op->operand[0].value),
               second = sw_gradient_target(d, op->operand[1].value);
    assert_int_equal(first.access, SW_WRITE);
    assert_int_equal(second.access, SW_WRITE);
    assert_ptr_not_equal(first.value, second.value);
}

static const sw_family product = {.name = "product", .gradient = two_targets};

static void product_with_itself(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *y = sw_value_create(g, SW_VALUE_REAL, 2, x->dimension);
    sw_op_emit(g, &product, SW_KERNEL_ADD, 3,
               (sw_operand[]){sw_reads(x), sw_reads(x), sw_writes(y)});
    end(g, y);
}

static void one_kernel_never_gets_one_gradient_twice(void **state) {
    (void)state;
    gradient_check check = check_of(product_with_itself, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    assert_int_equal(count(g, SW_KERNEL_ADD, SW_PHASE_BACKWARD), 1); /* of the two parts */
    sw_graph_free(g);
}

static const sw_family without_rule = {.name = "rounding"};

static void through_no_rule(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *y = sw_value_create(g, SW_VALUE_REAL, 2, x->dimension);
    sw_op_emit(g, &without_rule, SW_KERNEL_ACTIVATION, 2,
               (sw_operand[]){sw_reads(x), sw_writes(y)});
    end(g, y);
}

/* Else gradients would be silently wrong. */
static void an_operation_without_a_gradient_rule_is_refused_where_one_is_needed(void **state) {
    (void)state;
    gradient_check check = check_of(through_no_rule, NULL);
    sw_graph *g = gradient_check_graph(&check, false);
    sw_error err = {0};
    assert_int_equal(sw_graph_differentiate(g, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "rounding: this operation has no gradient"));
    sw_graph_free(g);
    g = gradient_check_graph(&check, false);
    sw_parameter_freeze(g->parameters.item[0]);
    assert_int_equal(sw_graph_differentiate(g, &err), SW_OK);
    sw_graph_free(g);
}

/* Of swiglu and attention, which write the gradients of all their inputs, only some may be
 * wanted. */
static void frozen_branches(sw_graph *g, const void *about) {
    (void)about;
    sw_value *x = begin(g), *trained = linear(g, x, "trained"), *frozen = linear(g, x, "frozen");
    sw_parameter_freeze(g->parameters.item[0]);
    sw_parameter_freeze(g->parameters.item[2]);
    sw_value *sum = sw_add(g, sw_swiglu(g, frozen, trained), sw_swiglu(g, trained, frozen));
    sum = sw_add(g, sum, sw_attention(g, frozen, trained, frozen, 2, 2));
    end(g, sw_add(g, sum, sw_attention(g, trained, frozen, trained, 1, 1)));
}

static void frozen_inputs_beside_trained_ones(void **state) {
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        gradient_check check = check_of(frozen_branches, NULL);
        check.reuse_in_place = in_place;
        gradient_check_run(device, &check);
    }
}

static void all_frozen(sw_graph *g, const void *about) {
    (void)about;
    end(g, norm(g, begin(g), "n"));
    for (int i = 0; i < g->parameters.n; i++)
        sw_parameter_freeze(g->parameters.item[i]);
}

static void with_everything_frozen_the_loss_is_computed_and_nothing_else(void **state) {
    (void)state;
    gradient_check check = check_of(all_frozen, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    for (int i = 0; i < g->ops.n; i++) {
        assert_int_equal(g->ops.item[i]->phase, SW_PHASE_FORWARD);
        assert_false(g->ops.item[i]->is_dropped);
    }
    sw_graph_free(g);
}

/* Loss and gradients are computed in one operation; the forward one would do the projection a
 * second time. */
static void the_loss_is_computed_once(void **state) {
    (void)state;
    gradient_check check = check_of(twice_itself, NULL);
    sw_graph *g = gradient_check_graph(&check, true);
    int n_running = 0;
    for (int i = 0; i < g->ops.n; i++) {
        const sw_op *op = g->ops.item[i];
        n_running += !op->is_dropped && (op->kernel == SW_KERNEL_CROSS_ENTROPY ||
                                         op->kernel == SW_KERNEL_CROSS_ENTROPY_GRAD);
    }
    assert_int_equal(n_running, 1);
    assert_int_equal(sw_graph_port(g, SW_PORT_LOSS)->producer->kernel,
                     SW_KERNEL_CROSS_ENTROPY_GRAD);
    sw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing_gradients_changes_no_number),
        cmocka_unit_test(random_graphs_have_right_gradients),
        cmocka_unit_test(a_parameter_used_three_times_is_written_once_and_updated_twice),
        cmocka_unit_test(an_unseen_parameter_gets_a_gradient_of_zeros),
        cmocka_unit_test(a_pre_norm_residual_needs_no_sum_in_backward),
        cmocka_unit_test(
            frozen_parameters_have_no_gradient_and_nothing_flows_below_the_last_trained_one),
        cmocka_unit_test(a_bias_can_be_trained_alone),
        cmocka_unit_test(one_kernel_never_gets_one_gradient_twice),
        cmocka_unit_test(an_operation_without_a_gradient_rule_is_refused_where_one_is_needed),
        cmocka_unit_test(frozen_inputs_beside_trained_ones),
        cmocka_unit_test(with_everything_frozen_the_loss_is_computed_and_nothing_else),
        cmocka_unit_test(the_loss_is_computed_once),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
