/* predict.c: the end of a model that knows not what it is recorded for. */
#include "graph/ops/checks.h"

sw_value *sw_predict(sw_graph *graph, sw_value *x, sw_parameter *head) {
    return graph && sw_graph_port(graph, SW_PORT_PLACES)
               ? sw_logits_at_position(graph, x, head)
               : sw_cross_entropy(graph, x, head, sw_targets(graph));
}
