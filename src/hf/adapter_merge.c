/* adapter_merge.c: a model and its adapter become one model.
 *
 * The base is copied file by file, and then, where a layer has an adapter, its rows are read from
 * the copy, changed, and written where they were: names, order, element types and splitting stay
 * those of the base.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "hf/adapted.h"
#include "hf/adapter_delta.h"
#include "hf/chat_template.h"
#include "hf/companions.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

/* ---- one layer ---- */

/* `copy`: the tensor in the copied file, open for writing as `descriptor`. */
static sw_status merge_tensor(sw_tensor_place copy, int descriptor, const sw_adapter_delta *delta,
                              sw_error *err) {
    const sw_tensor_entry *tensor = copy.tensor;
    const int64_t element_bytes = tensor->dtype_bits / 8;
    char *elements = malloc((size_t)(SW_PIECE_ELEMENTS * element_bytes));
    sw_status status =
        elements ? SW_OK
                 : sw_fail(err, SW_NO_MEMORY, "no memory for rows of tensor %.200s", tensor->name);
    for (int64_t first = 0; first < tensor->n_elements && status == SW_OK;
         first += SW_PIECE_ELEMENTS) {
        int64_t n = tensor->n_elements - first < SW_PIECE_ELEMENTS ? tensor->n_elements - first
                                                                   : SW_PIECE_ELEMENTS;
        status = sw_safetensors_read_bytes(copy.file, tensor, first * element_bytes,
                                           n * element_bytes, elements, err);
        if (status == SW_OK)
            status = sw_adapter_delta_add(delta, tensor, first, n, elements, err);
        if (status == SW_OK)
            status = sw_file_write_at(descriptor, sw_safetensors_path(copy.file), elements,
                                      n * element_bytes,
                                      tensor->file_offset + first * element_bytes, err);
    }
    free(elements);
    return status;
}

static sw_status merge_layer(const sw_model_source *copy, const sw_model_config *config,
                             sw_safetensors *adapter, const sw_lora_layer *layer, double scale,
                             sw_error *err) {
    sw_adapter_delta delta = {0};
    sw_tensor_place place;
    int descriptor = -1;
    sw_status status = sw_model_source_take(copy, config, layer->weight, &place, err);
    if (status == SW_OK)
        status = sw_adapter_delta_read(adapter, layer, scale, &delta, err);
    if (status == SW_OK &&
        (descriptor = open(sw_safetensors_path(place.file), O_WRONLY | O_CLOEXEC)) < 0)
        status = sw_cannot_write(sw_safetensors_path(place.file), errno, err);
    if (status == SW_OK)
        status = merge_tensor(place, descriptor, &delta, err);
    if (descriptor >= 0 && close(descriptor) != 0 && status == SW_OK)
        status = sw_cannot_write(sw_safetensors_path(place.file), errno, err);
    sw_adapter_delta_free(&delta);
    return status;
}

/* ---- the folder ---- */

enum { MAX_TEMPLATE_BYTES = 4 << 20 };

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static sw_status copy_named(const char *from, const char *to, const char *name, sw_error *err) {
    char source[SW_PATH_BYTES], target[SW_PATH_BYTES];
    sw_status status = sw_path_join(source, from, name, err);
    if (status == SW_OK)
        status = sw_path_join(target, to, name, err);
    return status ? status : sw_companion_copy_file(source, target, err);
}

/* The base as it is: configuration, tokenizer, weights. The chat template is the adapter's, if it
 * has one. */
static sw_status copy_base(const sw_model_source *base, const char *from, const char *adapter,
                           const char *to, sw_error *err) {
    char path[SW_PATH_BYTES], *chat_template = NULL;
    sw_chat_options chat = {.folder = NULL};
    sw_status status = copy_named(from, to, "config.json", err);
    sw_chat_template_of_adapter(adapter, path, &chat);
    if (status == SW_OK && chat.template_path)
        status = sw_file_read(path, MAX_TEMPLATE_BYTES, &chat_template, NULL, err);
    if (status == SW_OK)
        status = sw_companions_copy(from, to, true, chat_template, err);
    free(chat_template);
    if (status == SW_OK && strcmp(last_name(base->path), "model.safetensors") != 0)
        status = copy_named(from, to, last_name(base->path), err);
    for (int f = 0; f < base->n_files && status == SW_OK; f++)
        status = copy_named(from, to, last_name(sw_safetensors_path(base->files[f])), err);
    return status;
}

/* What a failed merge leaves: files that may be called anything, then those of every model. */
static void remove_copy(const sw_model_source *base, const char *partial, const char *out) {
    char path[SW_PATH_BYTES];
    for (int f = 0; f < base->n_files; f++)
        if (sw_path_join(path, partial, last_name(sw_safetensors_path(base->files[f])), NULL) ==
            SW_OK)
            unlink(path);
    sw_model_files_abandon(out);
}

/* ---- what is merged ---- */

typedef struct merging {
    sw_model_config model;
    sw_adapted adapted;
    sw_model_source base;
    sw_safetensors *adapter;
} merging;

static sw_status open_all(merging *m, const char *base, const char *adapter, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = sw_model_config_read(base, &m->model, err);
    if (status == SW_OK)
        status = sw_adapted_open(base, &m->model, adapter, &m->adapted, err);
    if (status == SW_OK)
        status = sw_path_join(path, adapter, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK)
        status = sw_safetensors_open(path, &m->adapter, err);
    return status ? status : sw_model_source_open(base, &m->base, err);
}

static sw_status write_merged(merging *m, const char *base, const char *adapter,
                              const char *partial, sw_error *err) {
    sw_model_source copy = {0};
    sw_status status = copy_base(&m->base, base, adapter, partial, err);
    if (status == SW_OK)
        status = sw_model_source_open(partial, &copy, err);
    const sw_adapted *a = &m->adapted;
    for (int i = 0; i < a->layers.list.n && status == SW_OK; i++)
        status = merge_layer(&copy, &m->model, m->adapter, &a->layers.list.item[i],
                             sw_lora_scale(&a->config.lora), err);
    sw_model_source_close(&copy);
    return status;
}

sw_status sw_adapter_merge(const char *base, const char *adapter, const char *out, sw_error *err) {
    merging m = {0};
    char partial[SW_PATH_BYTES];
    sw_status status = sw_model_files_partial(out, partial, err);
    if (status == SW_OK)
        status = sw_file_must_be_new(out, err);
    if (status == SW_OK)
        status = open_all(&m, base, adapter, err);
    if (status != SW_OK)
        goto done;
    remove_copy(&m.base, partial, out);
    if (mkdir(partial, 0777) != 0) {
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be made", partial);
        goto done;
    }
    status = write_merged(&m, base, adapter, partial, err);
    if (status == SW_OK)
        status = sw_model_files_finish(out, err);
    if (status != SW_OK)
        remove_copy(&m.base, partial, out);
done:
    sw_model_source_close(&m.base);
    sw_safetensors_close(m.adapter);
    sw_adapted_close(&m.adapted);
    return status;
}
