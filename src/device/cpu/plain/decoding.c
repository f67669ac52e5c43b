/* decoding.c: attention over a cache of keys and values, and what else follows the place of a row:
 * positions, and the choice of the last token.
 *
 * The cache lies [row, head, position, D], so the keys of a head are one matrix. Queries meet it a
 * block at a time, as in attention.c; where a row has one token, the query heads that share a head
 * of the cache are the block.
 */
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/turn.h"
#include "device/sizes.h"

typedef struct place {
    int64_t row, first, n;
} place;

static place place_of(const int32_t *places, int64_t b) {
    return (place){places[3 * b], places[3 * b + 1], places[3 * b + 2]};
}

SW_KERNEL(ROTARY_PLACED) {
    const activation *x = call->operand[0];   /* [B*T,stride] */
    const real *table = call->operand[1];     /* [P,D/2,2] */
    const int32_t *places = call->operand[2]; /* [B,3] */
    activation *y = call->operand[3];         /* [B*T,stride] */
    const int64_t B = call->dim[0], T = call->dim[1], heads = call->dim[2], D = call->dim[3],
                  P = call->dim[4];
    const int64_t stride = call->dim[5];
    for (int64_t row = 0; row < B * T; row++) {
        const int64_t position = smaller(place_of(places, row / T).first + row % T, P - 1);
        turn_row(heads, D, stride, 1, table + position * D, x + row * stride, y + row * stride);
    }
}

SW_KERNEL(ADD_POSITIONS_PLACED) {
    const activation *x = call->operand[0];    /* [B*T,C] */
    const parameter *table = call->operand[1]; /* [P,C] */
    const int32_t *places = call->operand[2];  /* [B,3] */
    activation *y = call->operand[3];          /* [B*T,C] */
    const int64_t B = call->dim[0], T = call->dim[1], C = call->dim[2], P = call->dim[3];
    for (int64_t row = 0; row < B * T; row++) {
        const parameter *position =
            table + smaller(place_of(places, row / T).first + row % T, P - 1) * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[row * C + c] = stored(load(x[row * C + c]) + widen(position[c]));
    }
}

SW_KERNEL(SELECT_LAST) {
    const activation *x = call->operand[0];   /* [B*T,C] */
    const int32_t *places = call->operand[1]; /* [B,3] */
    activation *y = call->operand[2];         /* [B,C] */
    const int64_t B = call->dim[0], T = call->dim[1], C = call->dim[2];
    for (int64_t b = 0; b < B; b++)
        memcpy(y + b * C, x + (b * T + larger(place_of(places, b).n - 1, 0)) * C,
               (size_t)C * sizeof *y);
}

typedef struct shape {
    int64_t B, T, H, K, D, q_stride, kv_stride, P;
    int64_t span; /* keys that a query sees, itself included; P if there is no limit */
    real scale;
} shape;

/* The new keys, or values, of one row into its part of the cache [K,P,D]. */
static void append(const shape *s, const place *at, const activation *from, activation *cache) {
    for (int64_t t = 0; t < at->n; t++)
        for (int64_t head = 0; head < s->K; head++)
            memcpy(cache + (head * s->P + at->first + t) * s->D,
                   from + t * s->kv_stride + head * s->D, (size_t)s->D * sizeof *cache);
}

/* Queries, `q_stride` apart, of which query i sees `seen` + i * seen_step positions: softmax(scale
 * q k^T) v into `out`; of those, the last `span`. */
typedef struct block {
    const activation *q, *keys, *values; /* keys, values [P,D] */
    int64_t n, q_stride, seen, seen_step, out_stride;
    activation *out;
} block;

static void attend(const sw_device *device, void *workspace, const shape *s, const block *b,
                   real *scores) {
    const int64_t first =
        larger(b->seen - s->span, 0); /* the first key that some query of the block sees */
    const int64_t most_seen = b->seen + (b->n - 1) * b->seen_step - first,
                  stride = sw_attention_stride(s->P, 0, false);
    sw_multiply(device, &(sw_product){.m = b->n,
                                      .n = most_seen,
                                      .k = s->D,
                                      .alpha = (double)s->scale,
                                      .a = {b->q, b->q_stride, false, SW_ACTIVATION_TYPE},
                                      .b = {b->keys + first * s->D, s->D, true, SW_ACTIVATION_TYPE},
                                      .c = scores,
                                      .c_stride = stride,
                                      .c_type = SW_REAL_TYPE,
                                      .workspace = workspace});
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t end = b->seen + i * b->seen_step - first, begin = larger(end - s->span, 0),
                      seen = end - begin;
        real *row = scores + i * stride + begin;
        const real most = max_row(seen, row);
        SW_ELEMENTWISE
        for (int64_t j = 0; j < seen; j++)
            row[j] = real_exp_to_zero(row[j] - most);
        memset(row - begin, 0, (size_t)begin * sizeof *row);
        memset(row + seen, 0, (size_t)(most_seen - end) * sizeof *row);
        const real inverse = 1 / sum_row(seen, row);
        SW_ELEMENTWISE
        for (int64_t j = 0; j < seen; j++)
            row[j] *= inverse;
    }
    sw_multiply(device,
                &(sw_product){.m = b->n,
                              .n = s->D,
                              .k = most_seen,
                              .alpha = 1,
                              .a = {scores, stride, false, SW_REAL_TYPE},
                              .b = {b->values + first * s->D, s->D, false, SW_ACTIVATION_TYPE},
                              .c = b->out,
                              .c_stride = b->out_stride,
                              .c_type = SW_ACTIVATION_TYPE,
                              .workspace = workspace});
}

SW_KERNEL(ATTENTION_CACHED) {
    const int64_t *dim = call->dim;
    const int64_t span = (int64_t)call->attribute[1];
    const shape s = {dim[0],
                     dim[1],
                     dim[2],
                     dim[3],
                     dim[4],
                     dim[5],
                     dim[6],
                     dim[7],
                     span > 0 ? span : dim[7],
                     (real)call->attribute[0]};
    const activation *q = call->operand[0], *k = call->operand[1], *v = call->operand[2];
    const int32_t *places = call->operand[3];                        /* [B,3] */
    activation *keys = call->operand[4], *values = call->operand[5]; /* [rows,K,P,D] */
    activation *out = call->operand[6];                              /* [B*T,H*D] */
    const int64_t heads_of_group = s.H / s.K, out_stride = s.H * s.D,
                  row_elements = s.K * s.P * s.D;
    for (int64_t b = 0; b < s.B; b++) {
        const place at = place_of(places, b);
        const activation *row_q = q + b * s.T * s.q_stride;
        activation *row_out = out + b * s.T * out_stride;
        activation *row_keys = keys + at.row * row_elements,
                   *row_values = values + at.row * row_elements;
        append(&s, &at, k + b * s.T * s.kv_stride, row_keys);
        append(&s, &at, v + b * s.T * s.kv_stride, row_values);
        memset(row_out + at.n * out_stride, 0, (size_t)((s.T - at.n) * out_stride) * sizeof *out);
        for (int64_t head = 0; head < s.H && at.n > 0; head += at.n == 1 ? heads_of_group : 1) {
            const int64_t group = head / heads_of_group * s.P * s.D;
            block one = {.q = row_q + head * s.D,
                         .keys = row_keys + group,
                         .values = row_values + group,
                         .n = heads_of_group,
                         .q_stride = s.D,
                         .seen = at.first + 1,
                         .out_stride = s.D,
                         .out = row_out + head * s.D};
            if (at.n == 1) {
                attend(device, call->scratch, &s, &one, own_scratch(device, call));
                continue;
            }
            one.q_stride = s.q_stride, one.out_stride = out_stride, one.seen_step = 1;
            for (int64_t t = 0; t < at.n; t += one.n) {
                one.n = smaller(sw_attention_queries(s.T), at.n - t);
                one.seen = at.first + t + 1;
                one.q = row_q + t * s.q_stride + head * s.D;
                one.out = row_out + t * out_stride + head * s.D;
                attend(device, call->scratch, &s, &one, own_scratch(device, call));
            }
        }
    }
}
