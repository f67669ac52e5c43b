/* rotary.c: rotary position embedding (Su et al. 2021), halves paired as Hugging Face does.
 *
 *   For channel i < D/2 of a head at position t, with a = t theta^(-2i/D), scaled or not
 *   (shardwise/graph.h):
 *     y[i]       = x[i] cos a - x[i + D/2] sin a
 *     y[i + D/2] = x[i] sin a + x[i + D/2] cos a
 *   A rotation's gradient is the rotation back: dx = the same on dy with -a.
 *
 * (cos a, sin a) are a constant table [T, D/2, 2], computed before the first step and shared by all
 * calls of equal D and scaling. Queries and keys of a packed value are its first heads; what
 * follows them passes unturned. Only differences of positions matter to attention, so positions
 * need not restart where documents do.
 */
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void emit(sw_graph *graph, const sw_op *like, sw_operand x, sw_operand table, sw_operand y,
                 double direction) {
    sw_op *op = sw_op_emit(graph, like->family, SW_KERNEL_ROTARY, 3, (sw_operand[]){x, table, y});
    if (!op)
        return;
    for (int i = 0; i < 5; i++)
        op->dim[i] = like->dim[i];
    op->attribute[0] = direction;
}

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_operand dx = sw_gradient_fresh(d, op->operand[0].value);
    if (dx.kind != SW_OPERAND_NONE)
        emit(sw_differentiation_graph(d), op, sw_reads(dy), op->operand[1], dx, -op->attribute[0]);
}

/* Channels that pass unturned are copied. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    if (op->kernel == SW_KERNEL_ROTARY_TABLE)
        *flops = 2 * (double)op->dim[0] * (double)op->dim[1];
    else
        *flops = 3 * (double)(op->dim[0] * op->dim[1]) * (double)(op->dim[2] * op->dim[3]);
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family table_family = {.name = "rotary_table", .cost = cost};
static const sw_family rotary_family = {.name = "rotary", .gradient = gradient, .cost = cost};

sw_value *sw_rotary_turn_back(sw_graph *graph, const sw_turned_heads *turned, sw_value *dy) {
    sw_value *back = sw_value_create(graph, SW_VALUE_REAL, dy->n_dimensions, dy->dimension);
    if (!back)
        return NULL;
    const int64_t B = dy->dimension[0] / turned->n_tokens;
    const sw_op like = {
        .family = &rotary_family,
        .dim = {B, turned->n_tokens, turned->n_heads, turned->head_channels, dy->dimension[1]}};
    emit(graph, &like, sw_reads(dy), turned->table, sw_writes(back), -1);
    return graph->error.status ? NULL : back;
}

static bool same_numbers(const double *a, const double *b) {
    for (int i = 0; i < SW_MAX_ATTRIBUTES; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* The table for heads of `head_channels`: one that is there already, or a new one, of the root
 * unit. */
static sw_value *rotary_table(sw_graph *graph, int64_t head_channels, const sw_rotary_scaling *s) {
    const double attributes[SW_MAX_ATTRIBUTES] = {s->theta, s->factor, s->from, s->to,
                                                  s->amplitude};
    for (int i = 0; i < graph->ops.n && graph->ops.item[i]->phase == SW_PHASE_PREPARE; i++) {
        const sw_op *op = graph->ops.item[i];
        if (op->kernel == SW_KERNEL_ROTARY_TABLE && op->dim[1] == head_channels &&
            op->dim[2] == s->ramp && same_numbers(op->attribute, attributes))
            return op->operand[0].value;
    }
    sw_value *table = sw_value_create(graph, SW_VALUE_STATISTIC, 3,
                                      (int64_t[]){sw_graph_positions(graph), head_channels / 2, 2});
    if (!table)
        return NULL;
    table->is_constant = true;
    sw_unit *caller = graph->current_unit;
    sw_phase phase = graph->current_phase;
    graph->current_unit = graph->units.n ? graph->units.item[0] : NULL;
    graph->current_phase = SW_PHASE_PREPARE;
    sw_op *op = sw_op_emit(graph, &table_family, SW_KERNEL_ROTARY_TABLE, 1,
                           (sw_operand[]){sw_writes(table)});
    graph->current_unit = caller;
    graph->current_phase = phase;
    if (!op)
        return NULL;
    op->dim[0] = sw_graph_positions(graph);
    op->dim[1] = head_channels;
    op->dim[2] = s->ramp;
    memcpy(op->attribute, attributes, sizeof attributes);
    return table;
}

sw_value *sw_rotary(sw_graph *graph, sw_value *x, int64_t head_channels, double theta) {
    return sw_rotary_scaled(graph, x, head_channels,
                            &(sw_rotary_scaling){.theta = theta, .factor = 1, .amplitude = 1});
}

/* The first n_heads heads of rows of x. */
static sw_value *turn(sw_graph *graph, sw_value *x, int64_t n_heads, int64_t head_channels,
                      const sw_rotary_scaling *scaling) {
    if (!scaling)
        return sw_graph_fail(graph, "rotary: scaling is NULL");
    if (!(scaling->theta > 0 && isfinite(scaling->theta)))
        return sw_graph_fail(graph, "rotary: theta is %g; it must be finite and above 0",
                             scaling->theta);
    if ((unsigned)scaling->ramp > SW_RAMP_BY_FREQUENCY)
        return sw_graph_fail(graph, "rotary: there is no ramp %d", (int)scaling->ramp);
    bool has_ramp = scaling->ramp != SW_RAMP_NONE;
    if (!(scaling->factor > 0 && scaling->amplitude > 0 && isfinite(scaling->factor) &&
          isfinite(scaling->amplitude)) ||
        (has_ramp &&
         !(isfinite(scaling->from) && isfinite(scaling->to) && scaling->from != scaling->to)))
        return sw_graph_fail(graph,
                             "rotary: factor %g and amplitude %g must be finite and above 0, and a "
                             "ramp must not end at its beginning, %g",
                             scaling->factor, scaling->amplitude, scaling->from);
    sw_value *table = rotary_table(graph, head_channels, scaling);
    if (table && sw_graph_port(graph, SW_PORT_PLACES))
        return sw_decode_rotary(graph, x, table, n_heads, head_channels);
    sw_value *y = table ? sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension) : NULL;
    if (!y)
        return NULL;
    sw_op shape = {
        .family = &rotary_family,
        .dim = {graph->n_rows, graph->n_tokens, n_heads, head_channels, x->dimension[1]}};
    emit(graph, &shape, sw_reads(x), sw_reads(table), sw_writes(y), 1);
    return graph->error.status ? NULL : y;
}

sw_value *sw_rotary_scaled(sw_graph *graph, sw_value *x, int64_t head_channels,
                           const sw_rotary_scaling *scaling) {
    if (!sw_check_positions(graph, "rotary", "x", x))
        return NULL;
    if (head_channels < 2 || head_channels % 2 || x->dimension[1] % head_channels)
        return sw_graph_fail(graph,
                             "rotary: %" PRId64 " channels do not divide into heads of %" PRId64
                             ", or a head does not divide into two halves",
                             x->dimension[1], head_channels);
    return turn(graph, x, x->dimension[1] / head_channels, head_channels, scaling);
}

sw_value *sw_rotary_packed(sw_graph *graph, sw_value *x, int64_t n_heads, int64_t head_channels,
                           const sw_rotary_scaling *scaling) {
    if (!sw_check_positions(graph, "rotary_packed", "x", x))
        return NULL;
    if (head_channels < 2 || head_channels % 2 || n_heads < 1 ||
        n_heads > x->dimension[1] / head_channels)
        return sw_graph_fail(graph,
                             "rotary_packed: %" PRId64 " channels do not begin with %" PRId64
                             " heads of %" PRId64 ", or a head does not divide into two halves",
                             x->dimension[1], n_heads, head_channels);
    return turn(graph, x, n_heads, head_channels, scaling);
}
