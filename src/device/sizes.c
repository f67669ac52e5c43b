/* sizes.c: working space of the kernels, from shapes alone, so that a plan made on one machine holds on another. */
#include "device/sizes.h"

#include "device/kernel.h"

enum {
    PANEL_ELEMENTS = 512 * 1024,     /* 2 MiB of widened weight: wide enough that the other operand is packed a few times only */
    PANEL_MULTIPLE = 16,             /* columns: no panel but the last is ragged */
    CHUNK = 256,                     /* tokens of a cross-entropy chunk; fewer read the head too often */
    CHUNK_LOGITS = 64 * 1024 * 1024, /* at most, unless a chunk would fall below CHUNK_LEAST */
    SMALL_VOCABULARY_LOGITS = 1024 * 1024, /* small vocabularies may have longer chunks */
    CHUNK_LEAST = 32,
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t sw_weight_panel(int64_t n_columns, int64_t length) {
    int64_t fitting = PANEL_ELEMENTS / larger(length, 1) / PANEL_MULTIPLE * PANEL_MULTIPLE;
    return smaller(n_columns, larger(fitting, PANEL_MULTIPLE));
}

int64_t sw_few_rows_stride(int64_t length) {
    return (length + 31) / 32 * 32;
}

int64_t sw_attention_queries(int64_t n_tokens) {
    return smaller(n_tokens, SW_ATTENTION_QUERIES);
}

int64_t sw_attention_stride(int64_t n_tokens, int64_t span) {
    int64_t keys = span > 0 && span < n_tokens ? smaller(n_tokens, span - 1 + sw_attention_queries(n_tokens)) : n_tokens;
    return (keys + 15) / 16 * 16;
}

int64_t sw_cross_entropy_chunk(int64_t n_tokens, int64_t n_vocabulary) {
    int64_t vocabulary = larger(n_vocabulary, 1);
    int64_t chunk = larger(CHUNK, SMALL_VOCABULARY_LOGITS / vocabulary);
    chunk = smaller(chunk, larger(CHUNK_LEAST, CHUNK_LOGITS / vocabulary));
    return larger(1, smaller(n_tokens, chunk));
}

/* Elements of R (all working space is of R). */
static int64_t scratch_elements(sw_kernel kernel, const int64_t *dim, bool widens) {
    const int64_t out = dim[3] + dim[4] + dim[5]; /* of linear kernels */
    switch (kernel) {
    case SW_KERNEL_LINEAR: /* n in layout out0 out1 out2: columns of `in` elements */
        if (dim[0] <= SW_FEW_ROWS)
            return widens ? dim[0] * sw_few_rows_stride(dim[1]) : 0;
        return widens ? sw_weight_panel(out, dim[1]) * dim[1] : 0;
    case SW_KERNEL_LINEAR_GRAD_INPUT: /* columns of as many elements as the outputs of one product: of one weight, or of several
                                       */
        return widens ? larger(smaller(dim[1] * out, PANEL_ELEMENTS), smaller(dim[1], PANEL_MULTIPLE) * out) : 0;
    case SW_KERNEL_LINEAR_GRAD_WEIGHT: /* sums of the biases' gradients: of a block of rows, of all rows */
        return 2 * out;
    case SW_KERNEL_RMSNORM_GRAD: /* n C: one row, sums of dweight */
        return 3 * dim[1];
    case SW_KERNEL_LAYERNORM_GRAD: /* n C: two rows, sums of dweight and dbias */
        return 6 * dim[1];
    case SW_KERNEL_ATTENTION: /* B T H K D q_stride kv_stride span: scores */
        return sw_attention_queries(dim[1]) * sw_attention_stride(dim[1], dim[7]);
    case SW_KERNEL_ATTENTION_CACHED: /* B T H K D . . P: scores of a block of queries, or of the heads that share keys */
        return larger(sw_attention_queries(dim[1]), dim[2] / dim[3]) * sw_attention_stride(dim[7], 0);
    case SW_KERNEL_ATTENTION_GRAD: /* probabilities and their gradients */
        return 2 * sw_attention_queries(dim[1]) * sw_attention_stride(dim[1], dim[7]);
    case SW_KERNEL_CROSS_ENTROPY: /* n V C: rows of the head */
    case SW_KERNEL_CROSS_ENTROPY_GRAD:
        return widens ? sw_weight_panel(dim[1], dim[2]) * dim[2] : 0;
    default:
        return 0;
    }
}

int64_t sw_kernel_scratch_bytes(sw_kernel kernel, const int64_t dim[SW_MAX_DIMENSIONS], sw_dtype real, sw_dtype parameter) {
    return (scratch_elements(kernel, dim, real != parameter) * sw_dtype_bytes(real) + 63) / 64 * 64;
}
