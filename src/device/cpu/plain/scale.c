/* scale.c: values times a constant. */
#include "device/cpu/plain/real.h"

SW_KERNEL(SCALE) {
    const real *x = call->operand[0];
    real *y = call->operand[1];
    const int64_t n = call->dim[0];
    const real factor = (real)call->attribute[0];
    if (accumulates(call, 1)) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            y[i] += factor * x[i];
    } else {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            y[i] = factor * x[i];
    }
}
