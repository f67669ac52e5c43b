/* sizes.h: the block sizes that both the kernels and the plan know. They depend on shapes alone,
 * never on the machine. */
#ifndef SW_DEVICE_SIZES_H
#define SW_DEVICE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that one thread works in while it multiplies matrices: packed panels, and sums of a block
 * of C. */
#define SW_PRODUCT_WORKSPACE (5 * 512 * 1024)

/* Queries of one head whose scores exist at once (at most SW_ATTENTION_QUERIES), and the elements
 * from one query's scores to the next's: room for every key that some query of a block sees. `span`
 * as in ATTENTION, is_full with SW_MASK_FULL. */
#define SW_ATTENTION_QUERIES 64
int64_t sw_attention_queries(int64_t n_tokens);
int64_t sw_attention_stride(int64_t n_tokens, int64_t span, bool is_full);

/* The tuned attention (device/cpu/tuned/attention.c and attention_grad.c): keys of a strip, rows
 * that are packed and computed at once, and what a call takes. */
enum { SW_ATTENTION_STRIP = 192, SW_ATTENTION_PACK_ROWS = 16, SW_ATTENTION_BLOCK_ROWS = 12 };
typedef struct sw_attention_sizes {
    int64_t columns;  /* from one row of a head to the next: its channels, rounded up */
    int64_t queries;  /* of a chunk */
    int64_t rows;     /* of a chunk, all heads of a group, rounded up to whole blocks */
    int64_t keys;     /* packed at once */
    int64_t elements; /* of fp32 working space for each thread */
} sw_attention_sizes;
sw_attention_sizes sw_attention_sizes_of(const int64_t *dim,
                                         bool is_gradient); /* dim as ATTENTION */

/* Rows whose columns are summed at once, and how many such blocks n rows are. */
int64_t sw_column_rows(int64_t n_rows);
int64_t sw_column_blocks(int64_t n_rows);

/* Rows of a linear operation up to which it is bound by reading the weight: then the weight is read
 * once, as it lies. */
#define SW_SKINNY_ROWS 8
int64_t sw_skinny_gemm_stride(int64_t length); /* elements from one such row to the next, in the
                                                  order in which bf16 is widened */

#endif
