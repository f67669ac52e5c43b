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
    COLUMN_ROWS = 32,   /* of a block whose columns are summed, at least */
    COLUMN_BLOCKS = 64, /* at most */
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

int64_t sw_column_rows(int64_t n_rows) {
    return larger(COLUMN_ROWS, (n_rows + COLUMN_BLOCKS - 1) / COLUMN_BLOCKS);
}

int64_t sw_column_blocks(int64_t n_rows) {
    return (n_rows + sw_column_rows(n_rows) - 1) / sw_column_rows(n_rows);
}

/* Elements of R (all working space is of R). */
static int64_t scratch_elements(sw_kernel kernel, const int64_t *dim, bool widens, int64_t n_threads) {
    const int64_t out = dim[3] + dim[4] + dim[5]; /* of linear kernels */
    switch (kernel) {
    case SW_KERNEL_LINEAR: /* n in layout out0 out1 out2: columns of `in` elements */
        if (dim[0] <= SW_FEW_ROWS)
            return widens ? dim[0] * sw_few_rows_stride(dim[1]) : 0;
        return widens ? sw_weight_panel(out, dim[1]) * dim[1] : 0;
    case SW_KERNEL_LOGITS: /* n V C */
        return widens ? smaller(dim[0], SW_FEW_ROWS) * sw_few_rows_stride(dim[2]) : 0;
    case SW_KERNEL_LINEAR_GRAD_INPUT: /* columns of as many elements as the outputs of one product: of one weight, or of several
                                       */
        return widens ? larger(smaller(dim[1] * out, PANEL_ELEMENTS), smaller(dim[1], PANEL_MULTIPLE) * out) : 0;
    case SW_KERNEL_LINEAR_GRAD_WEIGHT: /* sums of the biases' gradients, for each block of rows */
        return sw_column_blocks(dim[0]) * out;
    case SW_KERNEL_RMSNORM_GRAD: /* n C: sums of dweight, two rows of each thread */
        return (sw_column_blocks(dim[0]) + 2 * n_threads) * dim[1];
    case SW_KERNEL_LAYERNORM: /* n C: a row of each thread */
        return n_threads * dim[1];
    case SW_KERNEL_LAYERNORM_GRAD: /* n C: sums of dweight and dbias, two rows of each thread */
        return (2 * sw_column_blocks(dim[0]) + 2 * n_threads) * dim[1];
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

int64_t sw_kernel_scratch_bytes(sw_kernel kernel, const int64_t dim[SW_MAX_DIMENSIONS], sw_number_kind numbers, int n_threads) {
    const int64_t elements = scratch_elements(kernel, dim, numbers == SW_NUMBERS_BF16, n_threads);
    return (elements * sw_dtype_bytes(sw_real_type(numbers)) + 63) / 64 * 64;
}
