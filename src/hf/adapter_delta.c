/* adapter_delta.c: see adapter_delta.h. */
#include "hf/adapter_delta.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

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
        return isfinite(type == TYPE_BF16 ? sw_bf16_to_float(half) : sw_f16_to_float(half)) ||
               !isfinite(value);
    }
}

void sw_tensor_elements_widen(const sw_tensor_entry *tensor, const void *elements, int64_t n,
                              float *values) {
    const element_type type = type_of(tensor);
    const char *element = elements;
    for (int64_t i = 0; i < n; i++, element += tensor->dtype_bits / 8)
        values[i] = (float)widen(element, type);
}

/* ---- names ---- */

/* Is `name` the parameter's, but for one word before its last, ".weight"? */
static bool is_with_adapter_name(const char *name, const char *parameter) {
    const char *end = strrchr(parameter, '.');
    size_t n_before = end ? (size_t)(end - parameter) : 0, n_name = strlen(name),
           n_end = end ? strlen(end) : 0;
    if (!end || n_name < n_before + n_end + 2 || strncmp(name, parameter, n_before) != 0 ||
        name[n_before] != '.' || strcmp(name + n_name - n_end, end) != 0)
        return false;
    return !memchr(name + n_before + 1, '.', n_name - n_end - n_before - 1);
}

const sw_tensor_entry *sw_adapter_find(const sw_safetensors *file, const char *parameter) {
    const sw_tensor_entry *found = sw_safetensors_find(file, parameter);
    for (int64_t i = 0; i < sw_safetensors_count(file) && !found; i++)
        if (is_with_adapter_name(sw_safetensors_at(file, i)->name, parameter))
            found = sw_safetensors_at(file, i);
    return found;
}

/* ---- one layer ---- */

/* [rows, columns] to [columns, rows] */
static void transpose(const float *from, int64_t rows, int64_t columns, float *to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + i] = from[i * columns + j];
}

static sw_status no_memory(const sw_lora_layer *layer, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for the adapter of %s", layer->weight->name);
}

/* Ownership: free(*values). */
static sw_status read_factor(sw_safetensors *file, const sw_lora_layer *layer,
                             const sw_parameter *p, float **values, sw_error *err) {
    const sw_tensor_entry *tensor = sw_adapter_find(file, p->name);
    if (!tensor || tensor->n_elements != p->n_elements)
        return sw_fail(err, SW_BAD_FILE, "%s: tensor \"%.200s\" was changed since it was checked",
                       sw_safetensors_path(file), p->name);
    *values = malloc((size_t)p->n_elements * sizeof **values);
    return *values ? sw_safetensors_read(file, tensor, 0, p->n_elements, *values, err)
                   : no_memory(layer, err);
}

/* For W [out, in] left is B and right is A; for W [in, out] they are A^T and B^T. */
sw_status sw_adapter_delta_read(sw_safetensors *adapter, const sw_lora_layer *layer, double scale,
                                sw_adapter_delta *delta, sw_error *err) {
    const bool is_transposed = layer->layout == SW_IN_OUT;
    const int64_t rank = layer->a->dimension[0], in = layer->a->dimension[1],
                  out = layer->b->dimension[0];
    float *a = NULL, *b = NULL;
    *delta = (sw_adapter_delta){.n_rows = is_transposed ? in : out,
                                .n_columns = is_transposed ? out : in,
                                .rank = rank,
                                .scale = scale};
    sw_status status = read_factor(adapter, layer, layer->a, &a, err);
    if (status == SW_OK)
        status = read_factor(adapter, layer, layer->b, &b, err);
    delta->sums = malloc((size_t)delta->n_columns * sizeof *delta->sums);
    if (status == SW_OK && !delta->sums)
        status = no_memory(layer, err);
    if (!is_transposed) {
        delta->left = b;
        delta->right = a;
        return status;
    }
    delta->left = malloc((size_t)layer->a->n_elements * sizeof *delta->left);
    delta->right = malloc((size_t)layer->b->n_elements * sizeof *delta->right);
    if (status == SW_OK && (!delta->left || !delta->right))
        status = no_memory(layer, err);
    if (status == SW_OK) {
        transpose(a, rank, in, delta->left);
        transpose(b, out, rank, delta->right);
    }
    free(a);
    free(b);
    return status;
}

void sw_adapter_delta_free(sw_adapter_delta *delta) {
    free(delta->left);
    free(delta->right);
    free(delta->sums);
    *delta = (sw_adapter_delta){0};
}

sw_status sw_adapter_delta_add(const sw_adapter_delta *delta, const sw_tensor_entry *tensor,
                               int64_t first, int64_t n, void *elements, sw_error *err) {
    const element_type type = type_of(tensor);
    const int64_t element_bytes = tensor->dtype_bits / 8;
    char *element = elements;
    for (int64_t at = first; at < first + n;) {
        int64_t i = at / delta->n_columns, j = at % delta->n_columns;
        int64_t width =
            delta->n_columns - j < first + n - at ? delta->n_columns - j : first + n - at;
        memset(delta->sums, 0, (size_t)width * sizeof *delta->sums);
        for (int64_t r = 0; r < delta->rank; r++) {
            const double factor = (double)delta->left[i * delta->rank + r];
            const float *right = delta->right + r * delta->n_columns + j;
            for (int64_t k = 0; k < width; k++)
                delta->sums[k] += factor * (double)right[k];
        }
        for (int64_t k = 0; k < width; k++, element += element_bytes)
            if (!narrow(widen(element, type) + delta->scale * delta->sums[k], element, type))
                return sw_fail(err, SW_BAD_CONFIG,
                               "%s: element [%" PRId64 ", %" PRId64
                               "] is beyond what the base's element type holds; convert the base "
                               "to bf16 or fp32 first",
                               tensor->name, i, j + k);
        at += width;
    }
    return SW_OK;
}
