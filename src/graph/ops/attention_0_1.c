/* attention_0_1.c: attention as programs call it that were built with the headers of 0.1.0. Options
 * had no size then and have grown since, so the functions that take today's have symbols of their
 * own (SW_SYMBOL), and the plain ones read what there was.
 */
#include "graph/graph.h"

typedef struct options_0_1 {
    int64_t span;
    double scale;
    sw_value *documents;
} options_0_1;

SW_API sw_value *sw_attention_with_0_1(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v,
                                       int64_t n_heads, int64_t n_kv_heads,
                                       const options_0_1 *options) SW_SYMBOL("sw_attention_with");
SW_API sw_value *sw_attention_packed_with_0_1(sw_graph *graph, sw_value *qkv, int64_t n_heads,
                                              int64_t n_kv_heads, const options_0_1 *options)
    SW_SYMBOL("sw_attention_packed_with");

static sw_attention_options as_of_today(const options_0_1 *o) {
    return o ? (sw_attention_options){.span = o->span, .scale = o->scale, .documents = o->documents}
             : (sw_attention_options){0};
}

sw_value *sw_attention_with_0_1(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v,
                                int64_t n_heads, int64_t n_kv_heads, const options_0_1 *options) {
    sw_attention_options now = as_of_today(options);
    return sw_attention_with(graph, q, k, v, n_heads, n_kv_heads, &now);
}

sw_value *sw_attention_packed_with_0_1(sw_graph *graph, sw_value *qkv, int64_t n_heads,
                                       int64_t n_kv_heads, const options_0_1 *options) {
    sw_attention_options now = as_of_today(options);
    return sw_attention_packed_with(graph, qkv, n_heads, n_kv_heads, &now);
}
