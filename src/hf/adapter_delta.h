/* adapter_delta.h: what an adapter adds to one weight, element by element.
 *
 *   W [out, in] += scale * B A       W [in, out] += scale * (B A)^T     A [rank, in], B [out, rank]
 *
 * Sums are in double; an element is rounded once, to the element type of its tensor. So a model
 * that is merged on disk and one that is merged while it is loaded, piece by piece, have the same
 * bits.
 */
#ifndef SW_HF_ADAPTER_DELTA_H
#define SW_HF_ADAPTER_DELTA_H

#include "formats/safetensors.h"
#include "model/lora.h"

/* Element (i, j) of W [n_rows, n_columns] gets scale times the sum over r of left[i * rank + r] *
 * right[r * n_columns + j]. */
typedef struct sw_adapter_delta {
    int64_t n_rows, n_columns, rank;
    double scale;
    float *left, *right; /* [n_rows, rank], [rank, n_columns] */
    double *sums;        /* [n_columns] scratch */
} sw_adapter_delta;

/* Read the two factors of a layer. Ownership: sw_adapter_delta_free, also after an error and on
 * {0}. */
sw_status sw_adapter_delta_read(sw_safetensors *adapter, const sw_lora_layer *layer, double scale,
                                sw_adapter_delta *delta, sw_error *err);
void sw_adapter_delta_free(sw_adapter_delta *delta);

/* Add to elements first .. first + n - 1 of W, row by row, which lie in `elements` as the tensor
 * has them (F32, F16, BF16 or F64). Errors: SW_BAD_CONFIG: a value that the element type does not
 * hold. */
sw_status sw_adapter_delta_add(const sw_adapter_delta *delta, const sw_tensor_entry *tensor,
                               int64_t first, int64_t n, void *elements, sw_error *err);

/* Elements of such a tensor as fp32, as sw_safetensors_read gives them. */
void sw_tensor_elements_widen(const sw_tensor_entry *tensor, const void *elements, int64_t n,
                              float *values);

/* The tensor of an adapter's parameter: by its name, or with the name that PEFT gives an adapter in
 * memory, which files that were not written by PEFT keep: "...lora_A.default.weight". NULL: there
 * is none. */
const sw_tensor_entry *sw_adapter_find(const sw_safetensors *file, const char *parameter);

#endif
