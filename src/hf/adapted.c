/* adapted.c: see adapted.h. */
#include "hf/adapted.h"

#include <stdlib.h>
#include <string.h>

#include "hf/adapter_delta.h"
#include "hf/model_source.h"

/* ---- does it fit? ---- */

/* Every linear layer of the base; then those that the adapter names. What it has beyond them is
 * found by the check. */
static sw_status find_layers(sw_adapted *a, const char *base, const sw_model_config *model,
                             const sw_safetensors *file, sw_error *err) {
    static const char *const all[] = {SW_LORA_ALL};
    sw_lora lora = a->config.lora;
    lora.targets = all;
    lora.n_targets = 1;
    sw_status status = sw_graph_create(1, 1, &a->graph, err);
    if (status == SW_OK)
        status = sw_lora_trace(model, &lora, SW_ENDS_IN_LOGITS, a->graph, &a->layers, err);
    if (status == SW_OK)
        status = sw_model_files_check(base, model, a->graph, err);
    if (status != SW_OK)
        return status;
    int n = 0;
    for (int i = 0; i < a->layers.list.n; i++) {
        sw_lora_layer layer = a->layers.list.item[i];
        if (sw_adapter_find(file, layer.a->name) || sw_adapter_find(file, layer.b->name))
            a->layers.list.item[n++] = layer;
    }
    a->layers.list.n = n;
    return sw_adapter_check(a->adapter, &a->config.lora, a->graph, &a->layers, err);
}

sw_status sw_adapted_open(const char *base, const sw_model_config *model, const char *adapter,
                          sw_adapted *adapted, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_safetensors *file = NULL;
    *adapted = (sw_adapted){.adapter = adapter};
    sw_status status = sw_adapter_config_read(adapter, &adapted->config, err);
    if (status == SW_OK)
        status = sw_path_join(path, adapter, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK)
        status = sw_safetensors_open(path, &file, err);
    if (status == SW_OK)
        status = find_layers(adapted, base, model, file, err);
    if (status == SW_OK)
        status = sw_adapter_check_base(adapter, base, model, adapted->graph, err);
    sw_safetensors_close(file);
    return status;
}

void sw_adapted_close(sw_adapted *adapted) {
    sw_graph_free(adapted->graph);
    sw_adapter_config_free(&adapted->config);
    *adapted = (sw_adapted){0};
}

/* ---- loading ---- */

/* Weights come in pieces; the factors of the one whose pieces are coming are kept. */
typedef struct loading {
    const sw_adapted *adapted;
    const sw_model_config *model;
    sw_model_source source;
    sw_safetensors *adapter;
    const sw_lora_layer *layer; /* that `delta` is of; NULL: none yet */
    sw_adapter_delta delta;
    char *elements; /* [SW_PIECE_ELEMENTS] as a tensor has them */
    float *values;  /* [SW_PIECE_ELEMENTS] */
} loading;

static const sw_lora_layer *layer_of(const sw_adapted *a, const char *weight) {
    for (int i = 0; i < a->layers.list.n; i++)
        if (strcmp(a->layers.list.item[i].weight->name, weight) == 0)
            return &a->layers.list.item[i];
    return NULL;
}

static sw_status take_delta(loading *l, const sw_lora_layer *layer, sw_error *err) {
    if (layer == l->layer)
        return SW_OK;
    sw_adapter_delta_free(&l->delta);
    l->layer = NULL;
    sw_status status = sw_adapter_delta_read(
        l->adapter, layer, sw_lora_scale(&l->adapted->config.lora), &l->delta, err);
    l->layer = status ? NULL : layer;
    return status;
}

static sw_status load_piece(loading *l, int group, const sw_piece *piece, sw_piece_fn put, void *to,
                            sw_error *err) {
    const sw_lora_layer *layer = layer_of(l->adapted, piece->parameter->name);
    sw_tensor_place place;
    sw_status status = sw_model_source_take(&l->source, l->model, piece->parameter, &place, err);
    if (status == SW_OK && layer)
        status = take_delta(l, layer, err);
    const int64_t element_bytes = status ? 0 : place.tensor->dtype_bits / 8;
    for (int64_t done = 0; done < piece->length && status == SW_OK; done += SW_PIECE_ELEMENTS) {
        int64_t first = piece->first + done, n = piece->length - done < SW_PIECE_ELEMENTS
                                                     ? piece->length - done
                                                     : SW_PIECE_ELEMENTS;
        status = sw_safetensors_read_bytes(place.file, place.tensor, first * element_bytes,
                                           n * element_bytes, l->elements, err);
        if (status == SW_OK && layer)
            status = sw_adapter_delta_add(&l->delta, place.tensor, first, n, l->elements, err);
        if (status == SW_OK) {
            sw_tensor_elements_widen(place.tensor, l->elements, n, l->values);
            status = put(to, group, piece, done, n, l->values, err);
        }
    }
    return status;
}

sw_status sw_adapted_load(const sw_adapted *adapted, const char *base, const sw_model_config *model,
                          const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                          sw_error *err) {
    enum { LARGEST_ELEMENT = 8 };
    char path[SW_PATH_BYTES];
    loading l = {.adapted = adapted, .model = model};
    sw_status status = sw_model_source_open(base, &l.source, err);
    if (status == SW_OK)
        status = sw_path_join(path, adapted->adapter, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK)
        status = sw_safetensors_open(path, &l.adapter, err);
    l.elements = malloc((size_t)SW_PIECE_ELEMENTS * LARGEST_ELEMENT);
    l.values = malloc((size_t)SW_PIECE_ELEMENTS * sizeof *l.values);
    if (status == SW_OK && (!l.elements || !l.values))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d elements", base,
                         SW_PIECE_ELEMENTS);
    for (int group = 0; group < layout->n_groups && status == SW_OK; group++) {
        sw_piece piece;
        for (int at = 0; status == SW_OK && sw_layout_next_piece(layout, group, rank, &at, &piece);)
            status = load_piece(&l, group, &piece, put, to, err);
    }
    sw_adapter_delta_free(&l.delta);
    free(l.elements);
    free(l.values);
    sw_safetensors_close(l.adapter);
    sw_model_source_close(&l.source);
    return status;
}
