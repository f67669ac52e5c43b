/* print.c: a graph as text, one operation a line:
 *
 *   backward layers.3  linear_grad_weight  dy=%41[128, 64] x=%12[128, 172] -> dweight=d(model.layers.3.mlp.down_proj.weight)+
 *
 * `+` marks what is added to. `over %9` marks a value that takes the bytes of another.
 */
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The operands of each kernel by name, in the order of device/kernel.h. */
static const char *const OPERAND_NAMES[SW_N_KERNELS][SW_MAX_OPERANDS] = {
    [SW_KERNEL_EMBEDDING] = {"tokens", "table", "y"},
    [SW_KERNEL_EMBEDDING_GRAD] = {"tokens", "dy", "dtable"},
    [SW_KERNEL_ADD_POSITIONS] = {"x", "table", "y", "documents"},
    [SW_KERNEL_ADD_POSITIONS_GRAD] = {"dy", "dtable", "documents"},
    [SW_KERNEL_LINEAR] = {"x", "weight", "weight", "weight", "bias", "bias", "bias", "residual", "y", "table"},
    [SW_KERNEL_LINEAR_GRAD_INPUT] = {"dy", "weight", "weight", "weight", "dx"},
    [SW_KERNEL_LINEAR_GRAD_WEIGHT] = {"dy", "x", "dweight", "dweight", "dweight", "dbias", "dbias", "dbias"},
    [SW_KERNEL_RMSNORM] = {"x", "weight", "y", "inverse_rms"},
    [SW_KERNEL_RMSNORM_GRAD] = {"dy", "x", "weight", "inverse_rms", "dx", "dweight"},
    [SW_KERNEL_LAYERNORM] = {"x", "weight", "bias", "y", "mean", "inverse_deviation"},
    [SW_KERNEL_LAYERNORM_GRAD] = {"dy", "x", "weight", "mean", "inverse_deviation", "dx", "dweight", "dbias"},
    [SW_KERNEL_ROTARY_TABLE] = {"table"},
    [SW_KERNEL_ROTARY] = {"x", "table", "y"},
    [SW_KERNEL_ATTENTION] = {"q", "k", "v", "out", "log_sum", "documents"},
    [SW_KERNEL_ATTENTION_GRAD] = {"dout", "q", "k", "v", "out", "log_sum", "dq", "dk", "dv", "documents", "table"},
    [SW_KERNEL_ACTIVATION] = {"x", "y"},
    [SW_KERNEL_ACTIVATION_GRAD] = {"dy", "x", "dx"},
    [SW_KERNEL_SWIGLU] = {"gate", "up", "y"},
    [SW_KERNEL_SWIGLU_GRAD] = {"dy", "gate", "up", "dgate", "dup"},
    [SW_KERNEL_ADD] = {"a", "b", "y"},
    [SW_KERNEL_DROPOUT] = {"x", "y"},
    [SW_KERNEL_SCALE] = {"x", "y"},
    [SW_KERNEL_CROSS_ENTROPY] = {"x", "head", "targets", "logits", "loss"},
    [SW_KERNEL_CROSS_ENTROPY_GRAD] = {"x", "head", "targets", "logits", "loss", "dx", "dhead"},
    [SW_KERNEL_LOGITS] = {"x", "head", "logits"},
    [SW_KERNEL_SELECT_POSITION] = {"x", "y"},
    [SW_KERNEL_ZERO] = {"y"},
};

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

static void put_operand(text_line *line, const char *name, const sw_operand *operand) {
    put(line, " %s=", name ? name : "?");
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
    line->used = 0;
    put(line, "%s %s  %s ",
        op->is_dropped      ? "dropped"
        : op->is_recomputed ? "recompute"
                            : phases[op->phase],
        op->unit->name, sw_kernel_name(op->kernel));
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind != SW_OPERAND_NONE && op->operand[k].access == SW_READ)
            put_operand(line, OPERAND_NAMES[op->kernel][k], &op->operand[k]);
    put(line, " ->");
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind != SW_OPERAND_NONE && op->operand[k].access != SW_READ)
            put_operand(line, OPERAND_NAMES[op->kernel][k], &op->operand[k]);
}

void sw_graph_print(const sw_graph *graph, void (*line)(void *to, const char *text), void *to) {
    text_line text;
    for (int i = 0; i < graph->ops.n; i++) {
        put_op(&text, graph->ops.item[i]);
        line(to, text.text);
    }
}
