/* sizes.h: the block sizes that both the kernels and the plan know. They depend on shapes alone, never on the machine. */
#ifndef SW_DEVICE_SIZES_H
#define SW_DEVICE_SIZES_H

#include <stdint.h>

/* Columns of a bf16 weight, each of `length` elements, that are widened to fp32 at a time. */
int64_t sw_weight_panel(int64_t n_columns, int64_t length);

/* Queries of one head whose scores exist at once (at most SW_ATTENTION_QUERIES), and the elements from one query's scores to the
 * next's: room for every key that some query of a block sees. `span` as in ATTENTION. */
#define SW_ATTENTION_QUERIES 64
int64_t sw_attention_queries(int64_t n_tokens);
int64_t sw_attention_stride(int64_t n_tokens, int64_t span);

/* Rows whose columns are summed at once, and how many such blocks n rows are. */
int64_t sw_column_rows(int64_t n_rows);
int64_t sw_column_blocks(int64_t n_rows);

/* Rows of a linear operation up to which it is bound by reading the weight: then the weight is read once, as it lies. */
#define SW_FEW_ROWS 8
int64_t sw_few_rows_stride(int64_t length); /* elements from one such row to the next, in the order in which bf16 is widened */

#endif
