/* checks.h: the questions that shape rules ask. Each answers true, or leaves an error that names
 * operation, argument and shapes in the graph (the first error stays) and answers false. A NULL
 * argument is answered false too: it comes from an operation that failed before, or is itself the
 * error.
 */
#ifndef SW_GRAPH_OPS_CHECKS_H
#define SW_GRAPH_OPS_CHECKS_H

#include "graph/graph.h"

/* "[128, 64]"; lives as long as the expression that it is part of. */
typedef struct sw_shape_text {
    char text[96];
} sw_shape_text;
sw_shape_text sw_shape_write(int n_dimensions, const int64_t *dimensions);
static inline sw_shape_text sw_value_shape(const sw_value *v) {
    return sw_shape_write(v->n_dimensions, v->dimension);
}
static inline sw_shape_text sw_parameter_shape(const sw_parameter *p) {
    return sw_shape_write(p->n_dimensions, p->dimension);
}

/* x holds reals, [n, channels], any n and channels. */
bool sw_check_rows(sw_graph *graph, const char *operation, const char *argument, const sw_value *x);

/* x holds reals, [B*T, channels]. */
bool sw_check_positions(sw_graph *graph, const char *operation, const char *argument,
                        const sw_value *x);

/* x holds token ids. */
bool sw_check_index(sw_graph *graph, const char *operation, const char *argument,
                    const sw_value *x);

/* a and b hold reals and have one shape. */
bool sw_check_same(sw_graph *graph, const char *operation, const sw_value *a, const sw_value *b);

/* p is [length]; p is [rows, columns], where 0 stands for any. */
bool sw_check_vector(sw_graph *graph, const char *operation, const char *argument,
                     const sw_parameter *p, int64_t length);
bool sw_check_matrix(sw_graph *graph, const char *operation, const char *argument,
                     const sw_parameter *p, int64_t rows, int64_t columns);

#endif
