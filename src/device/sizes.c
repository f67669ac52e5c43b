/* sizes.c: working space of the kernels, from shapes alone, so that a plan made on one machine
 * holds on another. */
#include "device/sizes.h"

#include "base/integer.h"
#include "device/kernel.h"

enum {
    CHUNK = 128, /* tokens of a cross-entropy chunk; fewer read the head too often */
    CHUNK_LOGITS = 64 * 1024 * 1024, /* at most, unless a chunk would fall below CHUNK_LEAST */
    SMALL_VOCABULARY_LOGITS = 1024 * 1024, /* small vocabularies may have longer chunks */
    CHUNK_LEAST = 32,
    FORWARD_ROWS = 768, /* of a chunk of attention: packing a strip of keys for it is 2 to 3 % of
                           the work on it */
    GRADIENT_ROWS =
        192, /* weights of a chunk and a strip, and what they meet, stay in the second cache */
    COLUMN_MULTIPLE = 32,
    KEY_MULTIPLE = 32,  /* a tile of every kernel set, and of pairs of bf16, divides them */
    COLUMN_ROWS = 32,   /* of a block whose columns are summed, at least */
    COLUMN_BLOCKS = 64, /* at most */
};

int64_t sw_skinny_gemm_stride(int64_t length) {
    return (length + 31) / 32 * 32;
}

int64_t sw_attention_queries(int64_t n_tokens) {
    return smaller(n_tokens, SW_ATTENTION_QUERIES);
}

int64_t sw_attention_stride(int64_t n_tokens, int64_t span, bool is_full) {
    int64_t keys = n_tokens;
    if (span > 0 && span < n_tokens)
        keys = smaller(n_tokens, (is_full ? 2 * span : span - 1) + sw_attention_queries(n_tokens));
    return (keys + 15) / 16 * 16;
}

sw_attention_sizes sw_attention_sizes_of(const int64_t *dim, bool is_gradient) {
    const int64_t T = dim[1], heads = dim[2] / dim[3], D = dim[4]; /* B T H K D . . span */
    sw_attention_sizes s = {.columns = round_up(D, COLUMN_MULTIPLE)};
    s.queries = smaller(T, larger(1, (is_gradient ? GRADIENT_ROWS : FORWARD_ROWS) / heads));
    s.rows = round_up(s.queries * heads, SW_ATTENTION_BLOCK_ROWS);
    s.keys = round_up(is_gradient ? T : smaller(T, SW_ATTENTION_STRIP), KEY_MULTIPLE);
    const int64_t ranges = 8 * s.rows,
                  margin =
                      16 *
                      16; /* each part begins at a multiple of 64 bytes, some end a little later */
    if (is_gradient) /* K turned and as it lies, V turned, dK, dV; Q and dout in two forms, dQ; P
                        and dS */
        s.elements =
            5 * s.keys * s.columns + 5 * s.rows * s.columns + 2 * s.rows * SW_ATTENTION_STRIP;
    else /* K, V; Q, out; scores of a block */
        s.elements = 2 * s.keys * s.columns + 2 * s.rows * s.columns +
                     SW_ATTENTION_BLOCK_ROWS * SW_ATTENTION_STRIP;
    s.elements = round_up(s.elements + SW_ATTENTION_PACK_ROWS * s.columns + ranges + margin, 16);
    return s;
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

/* Does a call multiply matrices (gemm.h)? */
static bool multiplies(sw_kernel kernel, const int64_t *dim) {
    switch (kernel) {
    case SW_KERNEL_LINEAR:
        return dim[0] > SW_SKINNY_ROWS;
    case SW_KERNEL_LINEAR_GRAD_INPUT:
    case SW_KERNEL_LINEAR_GRAD_WEIGHT:
    case SW_KERNEL_ATTENTION:
    case SW_KERNEL_ATTENTION_CACHED:
    case SW_KERNEL_ATTENTION_GRAD:
    case SW_KERNEL_CROSS_ENTROPY:
    case SW_KERNEL_CROSS_ENTROPY_GRAD:
        return true;
    default:
        return false;
    }
}

/* Elements of R that a kernel's own working space holds. */
static int64_t scratch_elements(sw_kernel kernel, const int64_t *dim, bool widens,
                                int64_t n_threads) {
    const int64_t out = dim[3] + dim[4] + dim[5]; /* of linear kernels */
    switch (kernel) {
    case SW_KERNEL_LINEAR:           /* n in layout out0 out1 out2 */
        if (dim[0] > SW_SKINNY_ROWS) /* biases of several products, side by side */
            return dim[4] ? out : 0;
        if (dim[2] == 0) /* rows of x, dealt */
            return widens ? dim[0] * sw_skinny_gemm_stride(dim[1]) : 0;
        return dim[0] * out; /* sums */
    case SW_KERNEL_LOGITS:   /* n V C: rows of x, dealt */
        return widens ? smaller(dim[0], SW_SKINNY_ROWS) * sw_skinny_gemm_stride(dim[2]) : 0;
    case SW_KERNEL_CROSS_ENTROPY: /* n V C chunk: losses */
    case SW_KERNEL_CROSS_ENTROPY_GRAD:
        return dim[3];
    case SW_KERNEL_LINEAR_GRAD_WEIGHT: /* sums of the biases' gradients, for each block of rows */
        return sw_column_blocks(dim[0]) * out;
    case SW_KERNEL_RMSNORM_GRAD: /* n C: sums of dweight, two rows of each thread */
        return (sw_column_blocks(dim[0]) + 2 * n_threads) * dim[1];
    case SW_KERNEL_LAYERNORM: /* n C: a row of each thread */
        return n_threads * dim[1];
    case SW_KERNEL_LAYERNORM_GRAD: /* n C: sums of dweight and dbias, two rows of each thread */
        return (2 * sw_column_blocks(dim[0]) + 2 * n_threads) * dim[1];
    case SW_KERNEL_ATTENTION: /* B T H K D q_stride kv_stride span mask: scores, and q, k, v, out of
                                 a head */
        return sw_attention_queries(dim[1]) *
                   sw_attention_stride(dim[1], dim[7], dim[8] == SW_MASK_FULL) +
               4 * dim[1] * dim[4];
    case SW_KERNEL_ATTENTION_CACHED: /* B T H K D . . P: scores of a block of queries, or of the
                                        heads that share keys */
        return larger(sw_attention_queries(dim[1]), dim[2] / dim[3]) *
               sw_attention_stride(dim[7], 0, false);
    case SW_KERNEL_ATTENTION_GRAD: /* probabilities and their gradients, and q, k, v, out of a head
                                      and their gradients */
        return 2 * sw_attention_queries(dim[1]) *
                   sw_attention_stride(dim[1], dim[7], dim[8] == SW_MASK_FULL) +
               8 * dim[1] * dim[4];
    default:
        return 0;
    }
}

/* Bytes of the tuned kernel that takes a plain one's place in some sets. */
static int64_t tuned_bytes(sw_kernel kernel, const int64_t *dim, sw_number_kind numbers,
                           int64_t n_threads) {
    if (numbers == SW_NUMBERS_F64 ||
        (kernel != SW_KERNEL_ATTENTION && kernel != SW_KERNEL_ATTENTION_GRAD))
        return 0;
    return n_threads * sw_attention_sizes_of(dim, kernel == SW_KERNEL_ATTENTION_GRAD).elements *
           (int64_t)sizeof(float);
}

int64_t sw_kernel_scratch_bytes(sw_kernel kernel, const int64_t dim[SW_MAX_DIMENSIONS],
                                sw_number_kind numbers, int n_threads) {
    const int64_t elements = scratch_elements(kernel, dim, numbers == SW_NUMBERS_BF16, n_threads);
    const int64_t own = (elements * sw_dtype_bytes(sw_real_type(numbers)) + 63) / 64 * 64;
    const int64_t plain =
        own + (multiplies(kernel, dim) ? n_threads * (int64_t)SW_PRODUCT_WORKSPACE : 0);
    return larger(plain, tuned_bytes(kernel, dim, numbers, n_threads));
}
