/* embedding.c: rows of tables by token and by position, and the way back. */
#include "device/cpu/plain/real.h"

SW_KERNEL(EMBEDDING) {
    const int32_t *tokens = call->operand[0];  /* [n] */
    const parameter *table = call->operand[1]; /* [V,C] */
    real *y = call->operand[2];                /* [n,C] */
    const int64_t n = call->dim[0], C = call->dim[2];
    for (int64_t t = 0; t < n; t++) {
        const parameter *row = table + (int64_t)tokens[t] * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[t * C + c] = widen(row[c]);
    }
}

/* Token after token, so a row that several tokens name is summed in their order. */
SW_KERNEL(EMBEDDING_GRAD) {
    const int32_t *tokens = call->operand[0]; /* [n] */
    const real *dy = call->operand[1];        /* [n,C] */
    real *dtable = call->operand[2];          /* [V,C] */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2];
    if (!accumulates(call, 2))
        memset(dtable, 0, (size_t)(V * C) * sizeof *dtable);
    for (int64_t t = 0; t < n; t++)
        store_or_add(true, C, dtable + (int64_t)tokens[t] * C, dy + t * C);
}

/* The position of token `token` of B*T: its place in its row, counted from where its document begins. */
static int64_t position_of(int64_t token, int64_t T, const int32_t *documents) {
    const int64_t t = token % T;
    return documents ? t - larger(0, smaller(t, documents[token])) : t;
}

SW_KERNEL(ADD_POSITIONS) {
    const real *x = call->operand[0];            /* [B*T,C] */
    const parameter *table = call->operand[1];   /* [Tmax,C] */
    real *y = call->operand[2];                  /* [B*T,C] */
    const int32_t *documents = call->operand[3]; /* [B*T]? */
    const int64_t n = call->dim[0] * call->dim[1], T = call->dim[1], C = call->dim[2];
    for (int64_t token = 0; token < n; token++) {
        const parameter *row = table + position_of(token, T, documents) * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[token * C + c] = x[token * C + c] + widen(row[c]);
    }
}

SW_KERNEL(ADD_POSITIONS_GRAD) {
    const real *dy = call->operand[0];           /* [B*T,C] */
    real *dtable = call->operand[1];             /* [Tmax,C] */
    const int32_t *documents = call->operand[2]; /* [B*T]? */
    const int64_t n = call->dim[0] * call->dim[1], T = call->dim[1], C = call->dim[2];
    if (!accumulates(call, 1))
        memset(dtable, 0, (size_t)(call->dim[3] * C) * sizeof *dtable);
    for (int64_t token = 0; token < n; token++)
        store_or_add(true, C, dtable + position_of(token, T, documents) * C, dy + token * C);
}

SW_KERNEL(SELECT_POSITION) {
    const real *x = call->operand[0]; /* [B*T,C] */
    real *y = call->operand[1];       /* [B,C] */
    const int64_t B = call->dim[0], T = call->dim[1], C = call->dim[2];
    for (int64_t b = 0; b < B; b++)
        memcpy(y + b * C, x + (b * T + call->scalars->position) * C, (size_t)C * sizeof *y);
}
