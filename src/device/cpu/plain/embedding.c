/* embedding.c: rows of tables by token and by position, and the way back.
 *
 * A row of a gradient is a sum over the tokens that name it, in their order. On the way back a task
 * takes some columns and all tokens, so that every element is added up by one thread.
 */
#include "device/cpu/plain/pieces.h"

static void embed_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const int32_t *tokens = call->operand[0];  /* [n] */
    const parameter *table = call->operand[1]; /* [V,C] */
    activation *y = call->operand[2];          /* [n,C] */
    const int64_t C = call->dim[2];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0]);
    for (int64_t t = rows.first; t < rows.end; t++) {
        const parameter *row = table + (int64_t)tokens[t] * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[t * C + c] = stored(widen(row[c]));
    }
}

SW_KERNEL(EMBEDDING) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE_ROWS), embed_rows);
}

/* sum[n] += x */
static void add_row(int64_t n, const activation *x, real *sum) {
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        sum[i] += load(x[i]);
}

static void clear_columns(int64_t n_rows, int64_t C, const piece *columns, real *table) {
    for (int64_t row = 0; row < n_rows; row++)
        memset(table + row * C + columns->first, 0, (size_t)columns->n * sizeof *table);
}

static void embed_back(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const int32_t *tokens = call->operand[0]; /* [n] */
    const activation *dy = call->operand[1];  /* [n,C] */
    real *dtable = call->operand[2];          /* [V,C] */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2], padding = call->dim[3] - 1;
    const piece columns = piece_of(task, PIECE_COLUMNS, C);
    if (!accumulates(call, 2))
        clear_columns(V, C, &columns, dtable);
    for (int64_t t = 0; t < n; t++)
        if (tokens[t] != padding)
            add_row(columns.n, dy + t * C + columns.first,
                    dtable + (int64_t)tokens[t] * C + columns.first);
}

SW_KERNEL(EMBEDDING_GRAD) {
    run_pieces(device, call, n_pieces(call->dim[2], PIECE_COLUMNS), embed_back);
}

/* The position of token `token` of B*T: its place in its row, counted from where its document
 * begins. */
static int64_t position_of(int64_t token, int64_t T, const int32_t *documents) {
    const int64_t t = token % T;
    return documents ? t - larger(0, smaller(t, documents[token])) : t;
}

static void add_positions(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0];      /* [B*T,C] */
    const parameter *table = call->operand[1];   /* [Tmax,C] */
    activation *y = call->operand[2];            /* [B*T,C] */
    const int32_t *documents = call->operand[3]; /* [B*T]? */
    const int64_t T = call->dim[1], C = call->dim[2];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0] * T);
    for (int64_t token = rows.first; token < rows.end; token++) {
        const parameter *row = table + position_of(token, T, documents) * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[token * C + c] = stored(load(x[token * C + c]) + widen(row[c]));
    }
}

SW_KERNEL(ADD_POSITIONS) {
    run_pieces(device, call, n_pieces(call->dim[0] * call->dim[1], PIECE_ROWS), add_positions);
}

static void add_positions_back(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *dy = call->operand[0];     /* [B*T,C] */
    real *dtable = call->operand[1];             /* [Tmax,C] */
    const int32_t *documents = call->operand[2]; /* [B*T]? */
    const int64_t n = call->dim[0] * call->dim[1], T = call->dim[1], C = call->dim[2];
    const piece columns = piece_of(task, PIECE_COLUMNS, C);
    if (!accumulates(call, 1))
        clear_columns(call->dim[3], C, &columns, dtable);
    for (int64_t token = 0; token < n; token++)
        add_row(columns.n, dy + token * C + columns.first,
                dtable + position_of(token, T, documents) * C + columns.first);
}

SW_KERNEL(ADD_POSITIONS_GRAD) {
    run_pieces(device, call, n_pieces(call->dim[2], PIECE_COLUMNS), add_positions_back);
}

SW_KERNEL(SELECT_POSITION) {
    const activation *x = call->operand[0]; /* [B*T,C] */
    activation *y = call->operand[1];       /* [B,C] */
    const int64_t B = call->dim[0], T = call->dim[1], C = call->dim[2];
    for (int64_t b = 0; b < B; b++)
        memcpy(y + b * C, x + (b * T + call->scalars->position) * C, (size_t)C * sizeof *y);
}
