/* adapter_check.c: is a folder the adapter that a run, or a model, asks for? The first difference
 * is named. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "hf/adapter.h"
#include "hf/adapter_delta.h"
#include "hf/model_files.h"

static const char *shape_text(int n_dimensions, const int64_t *dimension, char text[64]) {
    if (n_dimensions == 2)
        snprintf(text, 64, "[%" PRId64 ", %" PRId64 "]", dimension[0], dimension[1]);
    else
        snprintf(text, 64, "of %d dimensions", n_dimensions);
    return text;
}

static sw_status check_settings(const char *directory, const sw_lora *there, const sw_lora *wanted,
                                sw_error *err) {
    char first[SW_TEXT_NUMBER_BYTES], second[SW_TEXT_NUMBER_BYTES];
    if (there->rank != wanted->rank)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the adapter's rank is %" PRId64 ", model.lora.rank is %" PRId64,
                       directory, there->rank, wanted->rank);
    if (there->alpha != wanted->alpha)
        return sw_fail(err, SW_BAD_FILE, "%s: the adapter's alpha is %s, model.lora.alpha is %s",
                       directory, sw_text_exact_real(there->alpha, first, sizeof first),
                       sw_text_exact_real(wanted->alpha, second, sizeof second));
    if (there->is_rank_stabilised != wanted->is_rank_stabilised)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the adapter's use_rslora is %s, model.lora.rslora is %s", directory,
                       there->is_rank_stabilised ? "true" : "false",
                       wanted->is_rank_stabilised ? "true" : "false");
    return SW_OK;
}

/* The adapter's list of targets against the layers with one: the end of a name may choose several,
 * so layers are compared. */
static sw_status check_targets(const char *directory, const sw_adapter_config *there,
                               const sw_graph *graph, const sw_lora_layers *layers, sw_error *err) {
    char module[1024];
    if (!there->chooses_by_names)
        return SW_OK;
    for (int i = 0; i < graph->parameters.n; i++) {
        const sw_parameter *weight = graph->parameters.item[i];
        bool is_layer = false;
        if (weight->is_adapter || weight->n_dimensions != 2 ||
            !sw_lora_module(weight->name, module, sizeof module))
            continue;
        for (int k = 0; k < layers->list.n; k++)
            is_layer = is_layer || layers->list.item[k].weight == weight;
        if (is_layer != sw_lora_chooses(&there->lora, module))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: the adapter's target_modules %s %s, which %s here", directory,
                           is_layer ? "leave out" : "name", module,
                           is_layer ? "has an adapter" : "has none");
    }
    return SW_OK;
}

static sw_status check_tensor(const char *path, const sw_safetensors *file,
                              const sw_parameter *parameter, sw_error *err) {
    const sw_tensor_entry *tensor = sw_adapter_find(file, parameter->name);
    char here[64], needed[64];
    if (!tensor)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %s is missing; is the adapter for another model or other targets?",
                       path, parameter->name);
    if (tensor->n_dimensions != 2 || tensor->dimension[0] != parameter->dimension[0] ||
        tensor->dimension[1] != parameter->dimension[1])
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %s is %s, and %s is needed; is the adapter for another model?", path,
                       parameter->name, shape_text(tensor->n_dimensions, tensor->dimension, here),
                       shape_text(2, parameter->dimension, needed));
    if (!sw_safetensors_is_real(tensor))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s; F32, F16 and BF16 can be read", path,
                       parameter->name, tensor->dtype);
    return SW_OK;
}

/* What a tensor is that belongs to no layer: adapters of kinds that are not built, and what files
 * hold beside adapters. */
static const char *kind_of_surplus(const char *name) {
    static const struct {
        const char *part, *kind;
    } kinds[] = {
        {"lm_head.lora_", "an adapter on the output projection, which is not built"},
        {"embed_out.lora_", "an adapter on the output projection, which is not built"},
        {"lora_embedding_", "an adapter on the embedding, which is not built"},
        {"lora_magnitude_vector", "of DoRA, which is not built"},
        {".lora_A.bias", "a bias of an adapter, which is not built"},
        {".lora_B.bias", "a bias of an adapter, which is not built"},
        {"modules_to_save",
         "a module that was trained as a whole (modules_to_save), which is not built"},
        {"lm_head.weight", "the output projection itself, which is not built beside an adapter"},
        {"embed_tokens.weight", "the embedding itself, which is not built beside an adapter"},
        {"wte.weight", "the embedding itself, which is not built beside an adapter"},
        {".base_layer.", "of the base model, which an adapter's file does not hold; save the "
                         "adapter alone (save_pretrained)"},
        {".lora_down.", "named by another program than PEFT; convert it to PEFT's names"},
        {".hada_", "of LoHa, which is not built"},
        {".lokr_", "of LoKr, which is not built"},
        {".ia3_", "of IA3, which is not built"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(name, kinds[i].part))
            return kinds[i].kind;
    return NULL;
}

static const char peft_prefix[] = "base_model.model.";

static sw_status refuse_surplus(const char *path, const char *name, sw_error *err) {
    const char *kind = kind_of_surplus(name);
    if (kind)
        return sw_fail(err, SW_BAD_FILE, "%s: %.200s is %s", path, name, kind);
    if (strncmp(name, peft_prefix, sizeof peft_prefix - 1) != 0)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %.200s does not have the name that PEFT gives adapters: "
                       "base_model.model.LAYER.lora_A.weight",
                       path, name);
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: %.200s belongs to no target; is the adapter for another model or other targets?", path,
        name);
}

/* What no layer's adapter is called is named before anything is looked for. */
static sw_status check_names(const char *path, const sw_safetensors *file, sw_error *err) {
    sw_status status = SW_OK;
    for (int64_t i = 0; i < sw_safetensors_count(file) && status == SW_OK; i++) {
        const char *name = sw_safetensors_at(file, i)->name;
        if (kind_of_surplus(name) || strncmp(name, peft_prefix, sizeof peft_prefix - 1) != 0)
            status = refuse_surplus(path, name, err);
    }
    return status;
}

static sw_status check_tensors(const char *path, const sw_safetensors *file,
                               const sw_lora_layers *layers, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; i < layers->list.n && status == SW_OK; i++) {
        status = check_tensor(path, file, layers->list.item[i].a, err);
        if (status == SW_OK)
            status = check_tensor(path, file, layers->list.item[i].b, err);
    }
    if (status != SW_OK || sw_safetensors_count(file) == 2 * (int64_t)layers->list.n)
        return status;
    for (int64_t i = 0; i < sw_safetensors_count(file); i++) {
        const sw_tensor_entry *tensor = sw_safetensors_at(file, i);
        bool is_known = false;
        for (int k = 0; k < layers->list.n && !is_known; k++)
            is_known = sw_adapter_find(file, layers->list.item[k].a->name) == tensor ||
                       sw_adapter_find(file, layers->list.item[k].b->name) == tensor;
        if (!is_known)
            return refuse_surplus(path, tensor->name, err);
    }
    return SW_OK;
}

sw_status sw_adapter_check_base(const char *directory, const char *base,
                                const sw_model_config *model, const sw_graph *graph,
                                sw_error *err) {
    char path[SW_PATH_BYTES], now[SW_MARK_BYTES];
    sw_safetensors *file = NULL;
    sw_status status = sw_path_join(path, directory, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK)
        status = sw_safetensors_open(path, &file, err);
    const char *then = status == SW_OK ? sw_safetensors_metadata(file, SW_BASE_MARK_KEY) : NULL;
    if (then)
        status = sw_model_mark(base, model, graph, now, err);
    if (then && status == SW_OK && sw_model_marks_differ(then, now))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: the adapter was trained for other weights than those of %s; name the "
                         "model that it is for "
                         "(base_model_name_or_path in its %s)",
                         directory, base, SW_ADAPTER_CONFIG);
    sw_safetensors_close(file);
    return status;
}

sw_status sw_adapter_check(const char *directory, const sw_lora *lora, const sw_graph *graph,
                           const sw_lora_layers *layers, sw_error *err) {
    sw_adapter_config config;
    sw_safetensors *file = NULL;
    char path[SW_PATH_BYTES];
    sw_status status = sw_adapter_config_read(directory, &config, err);
    if (status == SW_OK)
        status = check_settings(directory, &config.lora, lora, err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK && (status = sw_safetensors_open(path, &file, err)) == SW_OK)
        status = check_names(path, file, err);
    if (status == SW_OK)
        status = check_targets(directory, &config, graph, layers, err);
    if (status == SW_OK)
        status = check_tensors(path, file, layers, err);
    sw_safetensors_close(file);
    sw_adapter_config_free(&config);
    return status;
}
