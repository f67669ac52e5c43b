/* adapter_merge.c: a model and its adapter become one model.
 *
 * The base is copied file by file, and then, where a layer has an adapter, its rows are read from the copy, changed, and written
 * where they were: names, order, element types and splitting stay those of the base. Sums are in double; an element is rounded
 * once, to the element type of its tensor.
 *
 *   W [out, in] += scale * B A           W [in, out] += scale * (B A)^T       A [rank, in], B [out, rank]
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "checkpoint/adapter.h"
#include "checkpoint/companions.h"
#include "checkpoint/model_files.h"
#include "checkpoint/model_source.h"

/* ---- elements of a tensor as double, and back ---- */

typedef enum element_type { TYPE_F32, TYPE_BF16, TYPE_F16, TYPE_F64, N_TYPES } element_type;

static element_type type_of(const sw_tensor_entry *tensor) {
    static const char *const names[N_TYPES] = {"F32", "BF16", "F16", "F64"};
    int type = 0;
    while (type < N_TYPES && strcmp(names[type], tensor->dtype) != 0)
        type++;
    return (element_type)type;
}

static double widen(const char *element, element_type type) {
    float single;
    double wide;
    uint16_t half;
    switch (type) {
    case TYPE_F32:
        memcpy(&single, element, sizeof single);
        return (double)single;
    case TYPE_F64:
        memcpy(&wide, element, sizeof wide);
        return wide;
    default:
        memcpy(&half, element, sizeof half);
        return (double)(type == TYPE_BF16 ? sw_bf16_to_float(half) : sw_f16_to_float(half));
    }
}

/* false: a finite value that the type cannot hold. */
static bool narrow(double value, char *element, element_type type) {
    float single = (float)value;
    uint16_t half;
    switch (type) {
    case TYPE_F32:
        memcpy(element, &single, sizeof single);
        return isfinite(single) || !isfinite(value);
    case TYPE_F64:
        memcpy(element, &value, sizeof value);
        return true;
    default:
        half = type == TYPE_BF16 ? sw_float_to_bf16(single) : sw_float_to_f16(single);
        memcpy(element, &half, sizeof half);
        return isfinite(type == TYPE_BF16 ? sw_bf16_to_float(half) : sw_f16_to_float(half)) || !isfinite(value);
    }
}

/* ---- one layer ---- */

/* The two factors of what is added to W [n_rows, n_columns]: element (i, j) gets the sum over r of left[i * rank + r] * right[r *
 * n_columns + j]. */
typedef struct product {
    int64_t n_rows, n_columns, rank;
    float *left, *right; /* [n_rows, rank], [rank, n_columns] */
} product;

/* [rows, columns] to [columns, rows] */
static void transpose(const float *from, int64_t rows, int64_t columns, float *to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + i] = from[i * columns + j];
}

/* For W [out, in] left is B and right is A; for W [in, out] they are A^T and B^T. Ownership: free() left and right. */
static sw_status read_product(sw_safetensors *file, const sw_lora_layer *layer, product *p, sw_error *err) {
    const sw_parameter *a = layer->a, *b = layer->b;
    int64_t rank = a->dimension[0], in = a->dimension[1], out = b->dimension[0];
    bool is_transposed = layer->layout == SW_IN_OUT;
    float *read_a = malloc((size_t)a->n_elements * sizeof *read_a), *read_b = malloc((size_t)b->n_elements * sizeof *read_b);
    float *turned = is_transposed ? malloc((size_t)a->n_elements * sizeof *turned) : NULL;
    float *turned_b = is_transposed ? malloc((size_t)b->n_elements * sizeof *turned_b) : NULL;
    *p = (product){is_transposed ? in : out, is_transposed ? out : in, rank, read_b, read_a};
    sw_status status = SW_OK;
    if (!read_a || !read_b || (is_transposed && (!turned || !turned_b)))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the adapter of %s", layer->weight->name);
    if (status == SW_OK)
        status = sw_safetensors_read(file, sw_safetensors_find(file, a->name), 0, a->n_elements, read_a, err);
    if (status == SW_OK)
        status = sw_safetensors_read(file, sw_safetensors_find(file, b->name), 0, b->n_elements, read_b, err);
    if (is_transposed) {
        if (status == SW_OK) {
            transpose(read_a, rank, in, turned);
            transpose(read_b, out, rank, turned_b);
        }
        p->left = turned;
        p->right = turned_b;
        free(read_a);
        free(read_b);
    }
    return status;
}

/* Change n rows from `first` on, which `elements` holds. `sums`: [n_columns]. */
static sw_status merge_rows(const product *p, double scale, int64_t first, int64_t n, element_type type, int64_t element_bytes,
                            char *elements, double *sums, const char *name, sw_error *err) {
    for (int64_t i = 0; i < n; i++) {
        char *row = elements + i * p->n_columns * element_bytes;
        memset(sums, 0, (size_t)p->n_columns * sizeof *sums);
        for (int64_t r = 0; r < p->rank; r++) {
            const double factor = (double)p->left[(first + i) * p->rank + r];
            const float *right = p->right + r * p->n_columns;
            for (int64_t j = 0; j < p->n_columns; j++)
                sums[j] += factor * (double)right[j];
        }
        for (int64_t j = 0; j < p->n_columns; j++)
            if (!narrow(widen(row + j * element_bytes, type) + scale * sums[j], row + j * element_bytes, type))
                return sw_fail(err, SW_BAD_CONFIG,
                               "%s: element [%" PRId64 ", %" PRId64
                               "] is beyond what the base's element type holds; convert the base to bf16 or fp32 first",
                               name, first + i, j);
    }
    return SW_OK;
}

/* `copy`: the tensor in the copied file, open for writing as `descriptor`. */
static sw_status merge_tensor(sw_tensor_place copy, int descriptor, const product *p, double scale, sw_error *err) {
    const sw_tensor_entry *tensor = copy.tensor;
    int64_t element_bytes = tensor->dtype_bits / 8, row_bytes = p->n_columns * element_bytes;
    int64_t n_rows = SW_PIECE_ELEMENTS / p->n_columns > 0 ? SW_PIECE_ELEMENTS / p->n_columns : 1;
    char *elements = malloc((size_t)(n_rows * row_bytes));
    double *sums = malloc((size_t)p->n_columns * sizeof *sums);
    sw_status status = elements && sums ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for rows of tensor %.200s", tensor->name);
    for (int64_t first = 0; first < p->n_rows && status == SW_OK; first += n_rows) {
        int64_t n = p->n_rows - first < n_rows ? p->n_rows - first : n_rows;
        status = sw_safetensors_read_bytes(copy.file, tensor, first * row_bytes, n * row_bytes, elements, err);
        if (status == SW_OK)
            status = merge_rows(p, scale, first, n, type_of(tensor), element_bytes, elements, sums, tensor->name, err);
        if (status == SW_OK)
            status = sw_file_write_at(descriptor, sw_safetensors_path(copy.file), elements, n * row_bytes,
                                      tensor->file_offset + first * row_bytes, err);
    }
    free(elements);
    free(sums);
    return status;
}

static sw_status merge_layer(const sw_model_source *copy, const sw_model_config *config, sw_safetensors *adapter,
                             const sw_lora_layer *layer, double scale, sw_error *err) {
    product p;
    sw_tensor_place place = sw_model_source_find(copy, config, layer->weight->name);
    sw_status status = read_product(adapter, layer, &p, err);
    int descriptor = -1;
    if (status == SW_OK && (descriptor = open(sw_safetensors_path(place.file), O_WRONLY | O_CLOEXEC)) < 0)
        status = sw_cannot_write(sw_safetensors_path(place.file), errno, err);
    if (status == SW_OK)
        status = merge_tensor(place, descriptor, &p, scale, err);
    if (descriptor >= 0 && close(descriptor) != 0 && status == SW_OK)
        status = sw_cannot_write(sw_safetensors_path(place.file), errno, err);
    free(p.left);
    free(p.right);
    return status;
}

/* ---- the folder ---- */

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

/* The base as it is: configuration, tokenizer, weights. */
static sw_status copy_base(const sw_model_source *base, const char *from, const char *to, sw_error *err) {
    sw_status status = copy_named(from, to, "config.json", err);
    if (status == SW_OK)
        status = sw_companions_copy(from, to, true, err);
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
        if (sw_path_join(path, partial, last_name(sw_safetensors_path(base->files[f])), NULL) == SW_OK)
            unlink(path);
    sw_model_files_abandon(out);
}

/* ---- what is merged ---- */

typedef struct merging {
    sw_model_config model;
    sw_adapter_config config;
    sw_graph *graph;
    sw_lora_layers layers; /* that the adapter has tensors for */
    sw_model_source base;
    sw_safetensors *adapter;
} merging;

/* Every linear layer of the base; then those that the adapter names. What it has beyond them is found by the check. */
static sw_status find_layers(merging *m, const char *base, const char *adapter, sw_error *err) {
    static const char *const all[] = {SW_LORA_ALL};
    sw_lora lora = m->config.lora;
    lora.targets = all;
    lora.n_targets = 1;
    sw_status status = sw_graph_create(1, 1, &m->graph, err);
    if (status == SW_OK)
        status = sw_lora_trace(&m->model, &lora, SW_ENDS_IN_LOGITS, m->graph, &m->layers, err);
    if (status == SW_OK)
        status = sw_model_files_check(base, &m->model, m->graph, err);
    if (status != SW_OK)
        return status;
    int n = 0;
    for (int i = 0; i < m->layers.list.n; i++) {
        sw_lora_layer layer = m->layers.list.item[i];
        if (sw_safetensors_find(m->adapter, layer.a->name) || sw_safetensors_find(m->adapter, layer.b->name))
            m->layers.list.item[n++] = layer;
    }
    m->layers.list.n = n;
    return sw_adapter_check(adapter, &m->config.lora, m->graph, &m->layers, err);
}

static sw_status open_all(merging *m, const char *base, const char *adapter, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = sw_model_config_read(base, &m->model, err);
    if (status == SW_OK)
        status = sw_adapter_config_read(adapter, &m->config, err);
    if (status == SW_OK)
        status = sw_path_join(path, adapter, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK)
        status = sw_safetensors_open(path, &m->adapter, err);
    if (status == SW_OK)
        status = find_layers(m, base, adapter, err);
    return status ? status : sw_model_source_open(base, &m->base, err);
}

static sw_status write_merged(merging *m, const char *base, const char *partial, sw_error *err) {
    sw_model_source copy = {0};
    sw_status status = copy_base(&m->base, base, partial, err);
    if (status == SW_OK)
        status = sw_model_source_open(partial, &copy, err);
    for (int i = 0; i < m->layers.list.n && status == SW_OK; i++)
        status = merge_layer(&copy, &m->model, m->adapter, &m->layers.list.item[i], sw_lora_scale(&m->config.lora), err);
    sw_model_source_close(&copy);
    return status;
}

sw_status sw_adapter_merge(const char *base, const char *adapter, const char *out, sw_error *err) {
    merging m = {0};
    char partial[SW_PATH_BYTES];
    sw_status status = sw_model_files_partial(out, partial, err);
    if (status == SW_OK && sw_file_exists(out))
        status =
            sw_fail(err, SW_BAD_CONFIG, "%s: exists already and is not overwritten; move it away or choose another name", out);
    if (status == SW_OK)
        status = open_all(&m, base, adapter, err);
    if (status != SW_OK)
        goto done;
    remove_copy(&m.base, partial, out);
    if (mkdir(partial, 0777) != 0) {
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be made", partial);
        goto done;
    }
    status = write_merged(&m, base, partial, err);
    if (status == SW_OK)
        status = sw_model_files_finish(out, err);
    if (status != SW_OK)
        remove_copy(&m.base, partial, out);
done:
    sw_model_source_close(&m.base);
    sw_safetensors_close(m.adapter);
    sw_graph_free(m.graph);
    sw_adapter_config_free(&m.config);
    return status;
}
