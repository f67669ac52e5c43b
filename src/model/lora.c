/* lora.c: see lora.h. Adapters are recorded through the graph's hook on linear layers, so no
 * architecture knows of them. */
#include "model/lora.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, MAX_KINDS = 24 };

/* One tracing. */
typedef struct tracing {
    const sw_lora *lora;
    sw_lora_layers layers;
    bool *has_matched; /* [n_targets] */
    bool is_within;    /* an adapter's own layers are being recorded */
    int n_kinds;       /* distinct last words of the names of linear layers, for messages */
    const char *kinds[MAX_KINDS];
} tracing;

double sw_lora_scale(const sw_lora *lora) {
    return lora->alpha / (lora->is_rank_stabilised ? sqrt((double)lora->rank) : (double)lora->rank);
}

static bool matches(const char *target, const char *module) {
    if (strcmp(target, SW_LORA_ALL) == 0)
        return true;
    if (strpbrk(target, "*?["))
        return fnmatch(target, module, 0) == 0;
    size_t length = strlen(module), end = strlen(target);
    return length >= end && strcmp(module + length - end, target) == 0 &&
           (length == end || module[length - end - 1] == '.');
}

bool sw_lora_chooses(const sw_lora *lora, const char *module) {
    for (int i = 0; i < lora->n_targets; i++)
        if (matches(lora->targets[i], module))
            return true;
    return false;
}

bool sw_lora_module(const char *weight, char *module, size_t bytes) {
    static const char end[] = ".weight";
    size_t length = strlen(weight), end_length = sizeof end - 1;
    if (length <= end_length || strcmp(weight + length - end_length, end) != 0 ||
        length - end_length >= bytes)
        return false;
    snprintf(module, bytes, "%.*s", (int)(length - end_length), weight);
    return true;
}

static void remember_kind(tracing *t, sw_graph *graph, const char *module) {
    const char *point = strrchr(module, '.'), *kind = point ? point + 1 : module;
    for (int i = 0; i < t->n_kinds; i++)
        if (strcmp(t->kinds[i], kind) == 0)
            return;
    if (t->n_kinds < MAX_KINDS && (t->kinds[t->n_kinds] = sw_arena_text(&graph->arena, kind)))
        t->n_kinds++;
}

/* The adapter of a weight: declared at its first use. NULL after an error. */
static sw_lora_layer *adapter_of(tracing *t, sw_graph *graph, const char *module,
                                 sw_parameter *weight, sw_weight_layout layout) {
    for (int i = 0; i < t->layers.list.n; i++)
        if (t->layers.list.item[i].weight == weight)
            return &t->layers.list.item[i];
    char name[NAME_BYTES + 64];
    int64_t rank = t->lora->rank;
    int64_t out = weight->dimension[layout == SW_OUT_IN ? 0 : 1],
            in = weight->dimension[layout == SW_OUT_IN ? 1 : 0];
    snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
    sw_parameter *a = sw_parameter_declare(graph, weight->unit, name, 2, (int64_t[]){rank, in},
                                           SW_INIT_UNIFORM, 1 / sqrt(3 * (double)in));
    snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", module);
    sw_parameter *b = sw_parameter_declare(graph, weight->unit, name, 2, (int64_t[]){out, rank},
                                           SW_INIT_ZEROS, 0);
    sw_lora_layer *grown = sw_arena_grow(&graph->arena, t->layers.list.item, t->layers.list.n,
                                         &t->layers.list.capacity, sizeof *grown);
    if (!a || !b || !grown) {
        sw_graph_fail(graph, "no memory for the adapter of %s", module);
        return NULL;
    }
    a->is_adapter = b->is_adapter = true;
    t->layers.list.item = grown;
    grown[t->layers.list.n] = (sw_lora_layer){weight, a, b, layout};
    return &grown[t->layers.list.n++];
}

/* The scale goes onto the rank channels in the middle, which are the fewest. */
static sw_value *add_adapter(sw_graph *graph, void *self, sw_value *x, sw_parameter *weight,
                             sw_weight_layout layout, sw_value *y) {
    tracing *t = self;
    char module[NAME_BYTES];
    if (t->is_within || !sw_lora_module(weight->name, module, sizeof module))
        return y;
    remember_kind(t, graph, module);
    for (int i = 0; i < t->lora->n_targets; i++)
        t->has_matched[i] = t->has_matched[i] || matches(t->lora->targets[i], module);
    if (!sw_lora_chooses(t->lora, module))
        return y;
    const sw_lora_layer *layer = adapter_of(t, graph, module, weight, layout);
    if (!layer)
        return NULL;
    t->is_within = true;
    sw_value *low =
        sw_linear(graph, sw_dropout(graph, x, t->lora->dropout), layer->a, NULL, SW_OUT_IN);
    sw_value *change =
        sw_linear(graph, sw_scale(graph, low, sw_lora_scale(t->lora)), layer->b, NULL, SW_OUT_IN);
    t->is_within = false;
    return sw_add(graph, y, change);
}

static sw_status check_targets(const tracing *t, sw_error *err) {
    char kinds[512] = "";
    size_t used = 0;
    for (int i = 0; i < t->n_kinds && used < sizeof kinds; i++)
        used +=
            (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s", i ? ", " : "", t->kinds[i]);
    for (int i = 0; i < t->lora->n_targets; i++)
        if (!t->has_matched[i])
            return sw_fail(err, SW_BAD_CONFIG,
                           "model.lora.targets: \"%.100s\" is no linear layer that takes an "
                           "adapter · this model has %s",
                           t->lora->targets[i], kinds);
    return SW_OK;
}

static sw_status gather_parameters(sw_lora_layers *layers, sw_graph *graph, sw_error *err) {
    int n = layers->list.n;
    layers->parameters = sw_arena_take(&graph->arena, sizeof *layers->parameters);
    sw_parameter **items =
        sw_arena_take(&graph->arena, (2 * (size_t)n + 1) * sizeof(sw_parameter *));
    if (!layers->parameters || !items)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the list of %d adapters", n);
    for (int i = 0; i < n; i++) {
        items[2 * i] = layers->list.item[i].a;
        items[2 * i + 1] = layers->list.item[i].b;
    }
    layers->parameters->parameters.item = items;
    layers->parameters->parameters.n = layers->parameters->parameters.capacity = 2 * n;
    return SW_OK;
}

sw_status sw_lora_trace(const sw_model_config *config, const sw_lora *lora, sw_model_end end,
                        sw_graph *graph, sw_lora_layers *layers, sw_error *err) {
    tracing t = {.lora = lora};
    t.has_matched = sw_arena_take(&graph->arena, (size_t)lora->n_targets + 1);
    if (!t.has_matched)
        return sw_fail(err, SW_NO_MEMORY, "no memory for %d targets of adapters", lora->n_targets);
    graph->linear_hook = add_adapter;
    graph->linear_hook_self = &t;
    sw_status status = sw_model_trace(config, end, graph, err);
    graph->linear_hook = NULL;
    graph->linear_hook_self = NULL;
    if (status == SW_OK)
        status = check_targets(&t, err);
    for (int i = 0; status == SW_OK && i < graph->parameters.n; i++)
        if (!graph->parameters.item[i]->is_adapter)
            sw_parameter_freeze(graph->parameters.item[i]);
    if (status == SW_OK)
        status = gather_parameters(&t.layers, graph, err);
    if (layers)
        *layers = t.layers;
    return status;
}
