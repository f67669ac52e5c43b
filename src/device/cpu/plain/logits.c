/* logits.c: y = x head^T for the few rows of which generation wants the next token. */
#include "device/cpu/plain/skinny_gemm.h"

SW_KERNEL(LOGITS) {
    const activation *x = call->operand[0];   /* [n,C] */
    const parameter *head = call->operand[1]; /* [V,C] */
    real *logits = call->operand[2];          /* [n,V] */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2];
    for (int64_t row = 0; row < n; row += SW_SKINNY_ROWS) {
        skinny_gemm product = {.n = smaller(SW_SKINNY_ROWS, n - row),
                               .in = C,
                               .out = V,
                               .y_stride = V,
                               .weight = head,
                               .unrounded = logits + row * V};
        multiply_skinny(device, 1, &product, true, x + row * C, call->scratch);
    }
}
