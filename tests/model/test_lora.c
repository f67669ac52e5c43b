/* test_lora.c: adapters in the graph: what they are called and where they lie, what trains, and
 * their gradients by central differences in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/open.h"
#include "model/lora.h"
#include "support/gradient_check.h"
#include "support/small_models.h"

static const char *const llama_some[] = {"q_proj", "v_proj"},
                         *const llama_mlp[] = {"gate_proj", "up_proj", "down_proj"},
                         *const gpt2_some[] = {"c_attn", "mlp.c_proj"},
                         *const all[] = {SW_LORA_ALL},
                         *const one_layer[] = {"*.0.*", "*.1.*o_proj", "*.1.*c_fc"};

typedef struct lora_case {
    const sw_model_config *model;
    sw_lora lora;
} lora_case;

static void record(sw_graph *graph, const void *about) {
    const lora_case *c = about;
    sw_lora_trace(c->model, &c->lora, SW_ENDS_IN_LOSS, graph, NULL,
                  NULL); /* the graph keeps the error */
}

static void adapters_have_right_gradients_whatever_the_passes(void **state) {
    (void)state;
    sw_device *device;
    sw_error err = {0};
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, &err), SW_OK);
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int passes = 0; passes < 4; passes++) {
            bool is_llama = SMALL_MODELS[model].architecture != SW_GPT2;
            lora_case c = {&SMALL_MODELS[model],
                           {.rank = 1 + passes, .alpha = 3, .is_rank_stabilised = passes & 1}};
            c.lora.dropout = passes > 1 ? 0.3 : 0;
            c.lora.targets = passes == 0 ? is_llama ? llama_some : gpt2_some : all;
            c.lora.n_targets = passes == 0 ? 2 : 1;
            gradient_check_run(device, &(gradient_check){.label = SMALL_MODEL_NAMES[model],
                                                         .record = record,
                                                         .about = &c,
                                                         .n_rows = SMALL_MODEL_ROWS,
                                                         .n_tokens = SMALL_MODEL_TOKENS,
                                                         .n_vocabulary = SMALL_MODEL_VOCABULARY,
                                                         .recompute = passes & 1,
                                                         .joins_products = passes >> 1,
                                                         .reuse_in_place = passes >> 1,
                                                         .deviation = 0.25});
        }
    device->close(device);
}

static sw_graph *trace(const sw_model_config *config, const sw_lora *lora, sw_lora_layers *layers) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(SMALL_MODEL_ROWS, SMALL_MODEL_TOKENS, &graph, &err), SW_OK);
    if (sw_lora_trace(config, lora, SW_ENDS_IN_LOSS, graph, layers, &err))
        fail_msg("%s", err.message);
    return graph;
}

/* PEFT's: A [rank, in] and B [out, rank] for either layout of the weight, in the weight's unit;
 * nothing else trains. */
static void adapters_are_those_of_peft(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        const sw_model_config *config = &SMALL_MODELS[model];
        bool is_llama = config->architecture != SW_GPT2;
        sw_lora lora = {.rank = 3, .alpha = 6, .n_targets = 1, .targets = all};
        sw_lora_layers layers;
        sw_graph *graph = trace(config, &lora, &layers);
        assert_int_equal(layers.list.n, config->layers * (is_llama ? 7 : 4));
        assert_int_equal(layers.parameters->parameters.n, 2 * layers.list.n);
        int n_trainable = 0;
        for (int i = 0; i < graph->parameters.n; i++) {
            const sw_parameter *p = graph->parameters.item[i];
            assert_true(p->is_trainable == p->is_adapter);
            n_trainable += p->is_trainable;
        }
        assert_int_equal(n_trainable, 2 * layers.list.n);
        for (int i = 0; i < layers.list.n; i++) {
            const sw_lora_layer *layer = &layers.list.item[i];
            const sw_parameter *w = layer->weight, *a = layer->a, *b = layer->b;
            char name[256], module[128];
            assert_true(sw_lora_module(w->name, module, sizeof module));
            snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
            assert_string_equal(a->name, name);
            snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", module);
            assert_string_equal(b->name, name);
            assert_int_equal(layer->layout, is_llama ? SW_OUT_IN : SW_IN_OUT);
            int64_t out = w->dimension[is_llama ? 0 : 1], in = w->dimension[is_llama ? 1 : 0];
            assert_true(a->dimension[0] == 3 && a->dimension[1] == in && b->dimension[0] == out &&
                        b->dimension[1] == 3);
            assert_true(a->unit == w->unit && b->unit == w->unit);
            assert_true(a->decays && b->decays);
            assert_true(a->initializer == SW_INIT_UNIFORM &&
                        fabs(a->std * sqrt(3) - 1 / sqrt((double)in)) < 1e-15);
            assert_int_equal(b->initializer, SW_INIT_ZEROS);
        }
        sw_graph_free(graph);
    }
}

static void targets_are_ends_of_names_or_patterns(void **state) {
    (void)state;
    static const struct {
        const char *target, *module;
        bool chooses;
    } cases[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", true},
        {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
        {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
        {"proj", "model.layers.0.self_attn.q_proj", false},
        {"q_pro", "model.layers.0.self_attn.q_proj", false},
        {"0.self_attn.q_proj", "model.layers.10.self_attn.q_proj", false},
        {"*.self_attn.?_proj", "model.layers.10.self_attn.q_proj", true},
        {"*.self_attn.?_proj", "model.layers.10.mlp.up_proj", false},
        {"*layers.[0-3].*", "model.layers.3.mlp.up_proj", true},
        {"*layers.[0-3].*", "model.layers.4.mlp.up_proj", false},
        {"c_proj", "transformer.h.0.mlp.c_proj", true},
        {SW_LORA_ALL, "transformer.h.0.mlp.c_proj", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_lora lora = {.n_targets = 1, .targets = &cases[i].target};
        if (sw_lora_chooses(&lora, cases[i].module) != cases[i].chooses)
            fail_msg("%s and %s", cases[i].target, cases[i].module);
    }
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        bool is_llama = SMALL_MODELS[model].architecture != SW_GPT2;
        sw_lora lora = {.rank = 1, .alpha = 1, .n_targets = 2, .targets = one_layer};
        const char *targets[] = {one_layer[0], is_llama ? one_layer[1] : one_layer[2]};
        sw_lora_layers layers;
        if (SMALL_MODELS[model].layers < 2)
            continue;
        lora.targets = targets;
        sw_graph *graph = trace(&SMALL_MODELS[model], &lora, &layers);
        assert_int_equal(layers.list.n, is_llama ? 8 : 5);
        sw_graph_free(graph);
    }
}

static void a_target_that_is_no_layer_is_named_with_those_that_are(void **state) {
    (void)state;
    static const char *const wrong[] = {"lm_head", "q", "embed_tokens", "*norm",
                                        "model.layers.9.self_attn.q_proj"};
    for (int i = 0; i < 5; i++) {
        const char *targets[] = {"q_proj", wrong[i]};
        sw_lora lora = {.rank = 2, .alpha = 2, .n_targets = 2, .targets = targets};
        sw_graph *graph;
        sw_error err = {0};
        assert_int_equal(sw_graph_create(1, 4, &graph, &err), SW_OK);
        assert_int_equal(sw_lora_trace(&SMALL_MODELS[0], &lora, SW_ENDS_IN_LOSS, graph, NULL, &err),
                         SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, wrong[i]));
        assert_non_null(
            strstr(err.message, "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"));
        sw_graph_free(graph);
    }
}

static void the_scale_is_alpha_over_rank_or_its_root(void **state) {
    (void)state;
    assert_true(sw_lora_scale(&(sw_lora){.rank = 16, .alpha = 8}) == 0.5);
    assert_true(sw_lora_scale(&(sw_lora){.rank = 16, .alpha = 8, .is_rank_stabilised = true}) == 2);
}

static void layers_without_a_target_are_left_alone(void **state) {
    (void)state;
    sw_lora lora = {.rank = 2, .alpha = 4, .n_targets = 3, .targets = llama_mlp};
    sw_lora_layers layers;
    sw_graph *graph = trace(&SMALL_MODELS[0], &lora, &layers);
    for (int i = 0; i < layers.list.n; i++)
        assert_non_null(strstr(layers.list.item[i].weight->name, ".mlp."));
    assert_int_equal(layers.list.n, 3 * SMALL_MODELS[0].layers);
    sw_graph_free(graph);
}

/* Does any operation of backward read the value? */
static bool is_kept(const sw_graph *graph, const sw_value *value) {
    for (int i = 0; i < graph->ops.n; i++)
        for (int k = 0; k < graph->ops.item[i]->n_operands; k++)
            if (graph->ops.item[i]->phase == SW_PHASE_BACKWARD &&
                graph->ops.item[i]->operand[k].value == value)
                return true;
    return false;
}

/* The x of the layer whose weight's name ends so, in the first block that has one. */
static const sw_value *input_of(const sw_graph *graph, const char *ending) {
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        const sw_parameter *weight = op->kernel == SW_KERNEL_LINEAR && op->phase == SW_PHASE_FORWARD
                                         ? op->operand[1].parameter
                                         : NULL;
        if (weight && strlen(weight->name) > strlen(ending) &&
            !strcmp(weight->name + strlen(weight->name) - strlen(ending), ending))
            return op->operand[0].value;
    }
    fail_msg("there is no layer %s", ending);
    return NULL;
}

/* What a frozen weight's gradient would have needed: the x of a layer is kept for its adapter
 * alone. */
static void frozen_weights_have_no_gradient_and_keep_no_input(void **state) {
    (void)state;
    sw_error err = {0};
    for (int mlp = 0; mlp < 2; mlp++) {
        sw_lora lora = {.rank = 2,
                        .alpha = 4,
                        .n_targets = mlp ? 3 : 2,
                        .targets = mlp ? llama_mlp : llama_some};
        sw_lora_layers layers;
        sw_graph *graph = trace(&SMALL_MODELS[0], &lora, &layers);
        const sw_value *of_queries = input_of(graph, "q_proj.weight"),
                       *of_gate = input_of(graph, "gate_proj.weight"),
                       *of_down = input_of(graph, "down_proj.weight");
        int n_products = 0;
        assert_int_equal(sw_graph_differentiate(graph, &err), SW_OK);
        for (int i = 0; i < graph->ops.n; i++) {
            const sw_op *op = graph->ops.item[i];
            n_products += op->kernel == SW_KERNEL_LINEAR_GRAD_WEIGHT;
            for (int k = 0; k < op->n_operands; k++)
                assert_false(op->operand[k].kind == SW_OPERAND_GRADIENT &&
                             !op->operand[k].parameter->is_trainable);
        }
        assert_int_equal(n_products, 2 * layers.list.n); /* of A and of B */
        assert_int_equal(is_kept(graph, of_queries), !mlp);
        assert_int_equal(is_kept(graph, of_gate), mlp);
        assert_int_equal(is_kept(graph, of_down), mlp);
        sw_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_have_right_gradients_whatever_the_passes),
        cmocka_unit_test(adapters_are_those_of_peft),
        cmocka_unit_test(targets_are_ends_of_names_or_patterns),
        cmocka_unit_test(a_target_that_is_no_layer_is_named_with_those_that_are),
        cmocka_unit_test(the_scale_is_alpha_over_rank_or_its_root),
        cmocka_unit_test(layers_without_a_target_are_left_alone),
        cmocka_unit_test(frozen_weights_have_no_gradient_and_keep_no_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
