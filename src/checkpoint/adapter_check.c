/* adapter_check.c: is a folder the adapter that a run, or a model, asks for? The first difference is named. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/adapter.h"

static const char *shape_text(int n_dimensions, const int64_t *dimension, char text[64]) {
    if (n_dimensions == 2)
        snprintf(text, 64, "[%" PRId64 ", %" PRId64 "]", dimension[0], dimension[1]);
    else
        snprintf(text, 64, "of %d dimensions", n_dimensions);
    return text;
}

static sw_status check_settings(const char *directory, const sw_lora *there, const sw_lora *wanted, sw_error *err) {
    char first[SW_TEXT_NUMBER_BYTES], second[SW_TEXT_NUMBER_BYTES];
    if (there->rank != wanted->rank)
        return sw_fail(err, SW_BAD_FILE, "%s: the adapter's rank is %" PRId64 ", model.lora.rank is %" PRId64, directory,
                       there->rank, wanted->rank);
    if (there->alpha != wanted->alpha)
        return sw_fail(err, SW_BAD_FILE, "%s: the adapter's alpha is %s, model.lora.alpha is %s", directory,
                       sw_text_exact_real(there->alpha, first, sizeof first),
                       sw_text_exact_real(wanted->alpha, second, sizeof second));
    if (there->is_rank_stabilised != wanted->is_rank_stabilised)
        return sw_fail(err, SW_BAD_FILE, "%s: the adapter's use_rslora is %s, model.lora.rslora is %s", directory,
                       there->is_rank_stabilised ? "true" : "false", wanted->is_rank_stabilised ? "true" : "false");
    return SW_OK;
}

/* The adapter's list of targets against the layers that have one: the end of a name may choose several, so layers are compared.
 */
static sw_status check_targets(const char *directory, const sw_adapter_config *there, const sw_graph *graph,
                               const sw_lora_layers *layers, sw_error *err) {
    char module[1024];
    if (!there->chooses_by_names)
        return SW_OK;
    for (int i = 0; i < graph->parameters.n; i++) {
        const sw_parameter *weight = graph->parameters.item[i];
        bool is_layer = false;
        if (weight->is_adapter || weight->n_dimensions != 2 || !sw_lora_module(weight->name, module, sizeof module))
            continue;
        for (int k = 0; k < layers->list.n; k++)
            is_layer = is_layer || layers->list.item[k].weight == weight;
        if (is_layer != sw_lora_chooses(&there->lora, module))
            return sw_fail(err, SW_BAD_FILE, "%s: the adapter's target_modules %s %s, which %s here", directory,
                           is_layer ? "leave out" : "name", module, is_layer ? "has an adapter" : "has none");
    }
    return SW_OK;
}

static sw_status check_tensor(const char *path, const sw_safetensors *file, const sw_parameter *parameter, sw_error *err) {
    const sw_tensor_entry *tensor = sw_safetensors_find(file, parameter->name);
    char here[64], needed[64];
    if (!tensor)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is missing; is the adapter for another model or other targets?", path,
                       parameter->name);
    if (tensor->n_dimensions != 2 || tensor->dimension[0] != parameter->dimension[0] ||
        tensor->dimension[1] != parameter->dimension[1])
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s, and %s is needed; is the adapter for another model?", path,
                       parameter->name, shape_text(tensor->n_dimensions, tensor->dimension, here),
                       shape_text(2, parameter->dimension, needed));
    if (!sw_safetensors_is_real(tensor))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s; F32, F16 and BF16 can be read", path, parameter->name, tensor->dtype);
    return SW_OK;
}

static sw_status check_tensors(const char *path, const sw_safetensors *file, const sw_lora_layers *layers, sw_error *err) {
    for (int i = 0; i < layers->list.n; i++) {
        sw_status status = check_tensor(path, file, layers->list.item[i].a, err);
        if (status == SW_OK)
            status = check_tensor(path, file, layers->list.item[i].b, err);
        if (status != SW_OK)
            return status;
    }
    if (sw_safetensors_count(file) == 2 * (int64_t)layers->list.n)
        return SW_OK;
    for (int64_t i = 0; i < sw_safetensors_count(file); i++) {
        const char *name = sw_safetensors_at(file, i)->name;
        bool is_known = false;
        for (int k = 0; k < layers->list.n && !is_known; k++)
            is_known = strcmp(layers->list.item[k].a->name, name) == 0 || strcmp(layers->list.item[k].b->name, name) == 0;
        if (!is_known)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: %.200s belongs to no target; is the adapter for another model or other targets?", path, name);
    }
    return SW_OK;
}

sw_status sw_adapter_check(const char *directory, const sw_lora *lora, const sw_graph *graph, const sw_lora_layers *layers,
                           sw_error *err) {
    sw_adapter_config config;
    sw_safetensors *file = NULL;
    char path[SW_PATH_BYTES];
    sw_status status = sw_adapter_config_read(directory, &config, err);
    if (status == SW_OK)
        status = check_settings(directory, &config.lora, lora, err);
    if (status == SW_OK)
        status = check_targets(directory, &config, graph, layers, err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK && (status = sw_safetensors_open(path, &file, err)) == SW_OK)
        status = check_tensors(path, file, layers, err);
    sw_safetensors_close(file);
    sw_adapter_config_free(&config);
    return status;
}
