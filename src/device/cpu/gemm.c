/* gemm.c: a product is cut into blocks of C, which the threads of the device share.
 *
 * A block is a product of its own: rows of op(A), columns of op(B), the whole of k. So whatever the
 * blocks are, an element of C is the same sum as in the product uncut, if whoever multiplies keeps
 * to one order along k. Our own kernels do, and their products are cut for the threads that there
 * are; one thread has no cut at all, and packs every operand the fewest times. The BLAS makes no
 * such promise, so its cut follows from the shape alone.
 */
#include "device/cpu/gemm.h"

#include "base/integer.h"
#include "device/cpu/cpu.h"
#include "device/parallel.h"
#include "device/sizes.h"

enum {
    BLOCKS_PER_THREAD =
        3,        /* so that a thread that is held up does not hold up the others for long */
    BLOCK_M = 48, /* block sides are multiples of these, and these of every tile's */
    BLOCK_N = 96,
    SMALL = 1 << 20,      /* multiplications below which no thread is woken */
    BLAS_BLOCK = 1 << 27, /* multiplications of one task of the BLAS */
    BLAS_BLOCKS = 64,     /* at most */
};

typedef struct blocks {
    const sw_device *device;
    const sw_product *product;
    int64_t rows, columns; /* of one block */
    int64_t n_across;      /* blocks side by side */
} blocks;

/* Columns of which a block has a multiple: heads that are turned stay whole. */
static int64_t column_step(const sw_product *p) {
    int64_t step = BLOCK_N;
    while (p->rotation.table && step % p->rotation.D)
        step += BLOCK_N;
    return step;
}

/* Halve the longer side until there are `wanted` blocks, or they are as small as they may be. */
static int64_t cut(blocks *b, int64_t wanted) {
    const sw_product *p = b->product;
    const int64_t step = column_step(p);
    b->rows = p->m, b->columns = p->n;
    int64_t n_down = 1;
    b->n_across = 1;
    while (n_down * b->n_across < wanted && (b->rows > BLOCK_M || b->columns > step)) {
        if (b->columns > step && (b->columns >= b->rows || b->rows <= BLOCK_M))
            b->columns = round_up((b->columns + 1) / 2, step);
        else
            b->rows = round_up((b->rows + 1) / 2, BLOCK_M);
        n_down = (p->m + b->rows - 1) / b->rows;
        b->n_across = (p->n + b->columns - 1) / b->columns;
    }
    return n_down * b->n_across;
}

static const void *moved(const void *at, sw_dtype type, int64_t n_elements) {
    return (const char *)at + n_elements * sw_dtype_bytes(type);
}

static void multiply_block(void *arg, int64_t task, int worker) {
    const blocks *b = arg;
    sw_product block = *b->product;
    const int64_t row = task / b->n_across * b->rows, column = task % b->n_across * b->columns;
    block.m = smaller(b->rows, block.m - row);
    block.n = smaller(b->columns, block.n - column);
    block.a.at = moved(block.a.at, block.a.type, block.a.is_turned ? row : row * block.a.stride);
    block.b.at =
        moved(block.b.at, block.b.type, block.b.is_turned ? column * block.b.stride : column);
    block.c = (char *)block.c + (row * block.c_stride + column) * sw_dtype_bytes(block.c_type);
    if (block.addend)
        block.addend = moved(block.addend, block.c_type, row * block.addend_stride + column);
    if (block.bias)
        block.bias = moved(block.bias, block.bias_type, column);
    block.rotation.first_row += row;
    block.rotation.columns -= column;
    block.workspace = (char *)block.workspace + (int64_t)worker * SW_PRODUCT_WORKSPACE;
    sw_cpu_multiplier(b->device, &block)(b->device, &block);
}

static int64_t n_blocks_wanted(const sw_device *device, const sw_product *p) {
    const double n_multiplications = (double)p->m * (double)p->n * (double)p->k;
    if (((const sw_cpu_device *)device)->sgemm && p->c_type != SW_F64)
        return 1 + (int64_t)(n_multiplications < (double)BLAS_BLOCK * BLAS_BLOCKS
                                 ? n_multiplications / BLAS_BLOCK
                                 : BLAS_BLOCKS - 1);
    return device->n_threads > 1 && n_multiplications > SMALL
               ? BLOCKS_PER_THREAD * (int64_t)device->n_threads
               : 1;
}

void sw_multiply(const sw_device *device, const sw_product *product) {
    blocks b = {.device = device, .product = product};
    sw_parallel(device, cut(&b, n_blocks_wanted(device, product)), multiply_block, &b);
}

void sw_multiply_alone(const sw_device *device, const sw_product *product) {
    blocks b = {.device = device, .product = product};
    const int64_t n = cut(&b, n_blocks_wanted(device->alone, product));
    for (int64_t task = 0; task < n; task++)
        multiply_block(&b, task, 0);
}
