/* print.c: a graph as text, one operation a line:
 *
 *   backward layers.3  linear_grad_weight  dy=%41[128, 64] x=%12[128, 172] ->
 *       dweight=d(model.layers.3.mlp.down_proj.weight)+
 *
 * `+` marks what is added to. `over %9` marks a value that takes the bytes of another.
 */
#include "device/operands.h"
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 2048 };

typedef struct text_line {
    char text[LINE];
    size_t used;
} text_line;

static void put(text_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->used, LINE - line->used, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->used = line->used + (size_t)length < LINE ? line->used + (size_t)length : LINE - 1;
}

static void put_operand(text_line *line, sw_slice name, const sw_operand *operand) {
    put(line, " %.*s=", (int)name.bytes, name.text);
    if (operand->kind == SW_OPERAND_PARAMETER) {
        put(line, "%s", operand->parameter->name);
    } else if (operand->kind == SW_OPERAND_GRADIENT) {
        put(line, "d(%s)", operand->parameter->name);
    } else {
        put(line, "%%%d%s", operand->value->id, sw_value_shape(operand->value).text);
        if (operand->offset)
            put(line, " from %" PRId64, operand->offset);
        if (operand->access == SW_WRITE && operand->value->storage != operand->value)
            put(line, " over %%%d", operand->value->storage->id);
    }
    if (operand->access == SW_UPDATE)
        put(line, "+");
}

static void put_op(text_line *line, const sw_op *op) {
    static const char *const phases[] = {"prepare", "forward", "backward"};
    sw_kernel_row row;
    sw_kernel_describe(op->kernel, &row);
    line->used = 0;
    put(line, "%s %s  %s ",
        op->is_dropped      ? "dropped"
        : op->is_recomputed ? "recompute"
                            : phases[op->phase],
        op->unit->name, op->share ? op->family->name : sw_kernel_name(op->kernel));
    if (op->share)
        put(line, "over %s of %d ", sw_axis_name(op->axis), op->n_sharing);
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind != SW_OPERAND_NONE && op->operand[k].access == SW_READ)
            put_operand(line, row.operand[k].name, &op->operand[k]);
    put(line, " ->");
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind != SW_OPERAND_NONE && op->operand[k].access != SW_READ)
            put_operand(line, row.operand[k].name, &op->operand[k]);
}

void sw_graph_print(const sw_graph *graph, void (*line)(void *to, const char *text), void *to) {
    text_line text;
    for (int i = 0; i < graph->ops.n; i++) {
        put_op(&text, graph->ops.item[i]);
        line(to, text.text);
    }
}
