/* device_case.c: operands of every kernel, made and run. */
#include "support/device_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "device/operands.h"

double device_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
}

static void fatal(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static void *take(sw_arena *arena, size_t bytes) {
    void *p = sw_arena_take(arena, bytes + 1);
    if (!p)
        fatal("no memory");
    return p;
}

typedef enum mode { IN, OUT, UPDATE } mode;

static double *add(sw_arena *arena, device_case *c, uint64_t *seed, device_type type, int64_t n,
                   mode mode, const char *marks) {
    device_operand *o = &c->operand[c->n_operands++];
    *o = (device_operand){.type = type,
                          .n = n,
                          .is_read = mode != OUT,
                          .is_written = mode != IN,
                          .may_add = strchr(marks, '+') != NULL,
                          .may_absent = strchr(marks, '?') != NULL};
    o->value = take(arena, sizeof(double) * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        o->value[i] = device_random(seed);
    return o->value;
}

/* Fill operand `to` of `c` with what kernel `forward` leaves in its operand `from`, given c's
 * operands inputs[]. */
static void left_by(sw_arena *arena, const sw_device *oracle, device_case *c,
                    const device_case *forward, int from, int to) {
    double *result[SW_MAX_OPERANDS];
    device_run(arena, oracle, SW_NUMBERS_F64, forward, result);
    memcpy(c->operand[to].value, result[from], sizeof(double) * (size_t)c->operand[to].n);
}

#define ADD(type, n, mode, marks) add(arena, &c, &seed, DEVICE_##type, n, mode, marks)
#define DIMS(...) memcpy(c.dim, (const int64_t[SW_MAX_DIMENSIONS]){__VA_ARGS__}, sizeof c.dim)

/* Indices below V; with `ignored`, some are -1. */
static void make_indices(double *value, int64_t n, int64_t V, bool ignored) {
    for (int64_t i = 0; i < n; i++)
        value[i] =
            ignored && value[i] < -0.4 ? -1 : floor((value[i] + 1) / 2 * 0.999999 * (double)V);
}

/* Where each token's document begins in its row: documents of one token and of many, the same in
 * every row but the first. */
static void make_documents(double *value, int64_t B, int64_t T, uint64_t seed) {
    for (int64_t i = 0; i < B * T; i++) {
        const bool begins =
            i % T == 0 || (i / T > 0 ? device_random(&seed) < -0.93 : i % T == 64 || i % T == 3);
        value[i] = begins ? (double)(i % T) : value[i - 1];
    }
}

static device_case make_norm(sw_arena *arena, sw_kernel kernel, const device_shape *s,
                             const sw_device *oracle, uint64_t seed) {
    device_case c = {.kernel = kernel, .scalars = {.proceed = 1}};
    const bool is_grad = kernel == SW_KERNEL_RMSNORM_GRAD || kernel == SW_KERNEL_LAYERNORM_GRAD;
    const bool is_layer = kernel == SW_KERNEL_LAYERNORM || kernel == SW_KERNEL_LAYERNORM_GRAD;
    DIMS(s->n, s->C);
    if (is_grad)
        ADD(ACTIVATION, s->n * s->C, IN, "");
    double *x = ADD(ACTIVATION, s->n * s->C, IN, "");
    for (int64_t i = 0; i < s->n * s->C; i++)
        x[i] = 2 * x[i] + 0.3;
    ADD(PARAMETER, s->C, IN, "");
    if (!is_grad) {
        c.attribute[0] = 1e-5;
        if (is_layer)
            ADD(PARAMETER, s->C, IN, "?");
        ADD(ACTIVATION, s->n * s->C, OUT, "");
        if (is_layer)
            ADD(REAL, s->n, OUT, "");
        ADD(REAL, s->n, OUT, "");
        return c;
    }
    device_case forward =
        make_norm(arena, is_layer ? SW_KERNEL_LAYERNORM : SW_KERNEL_RMSNORM, s, oracle, 1);
    forward.operand[0].value = x;
    forward.operand[1].value = c.operand[2].value;
    ADD(REAL, s->n, IN, "");
    left_by(arena, oracle, &c, &forward, is_layer ? 4 : 3, 3);
    if (is_layer) {
        ADD(REAL, s->n, IN, "");
        left_by(arena, oracle, &c, &forward, 5, 4);
    }
    ADD(ACTIVATION, s->n * s->C, OUT, "+?");
    ADD(REAL, s->C, OUT, "+?");
    if (is_layer)
        ADD(REAL, s->C, OUT, "+?");
    return c;
}

/* Channels of a row of which the first heads are turned: with some behind them where q, k and v are
 * packed. */
static int64_t turned_stride(const device_shape *s) {
    return (s->H + (s->packed ? s->K : 0)) * (s->D / 2 * 2);
}

/* One product, or with s->out1 and s->out2 two or three side by side. */
static device_case make_linear(sw_arena *arena, sw_kernel kernel, const device_shape *s,
                               uint64_t seed) {
    device_case c = {.kernel = kernel, .scalars = {.proceed = 1}};
    const int64_t n = s->n, in = s->in, outs[] = {s->out, s->out1, s->out2},
                  out = outs[0] + outs[1] + outs[2];
    DIMS(n, in, s->layout, outs[0], outs[1], outs[2]);
    if (kernel != SW_KERNEL_LINEAR)
        ADD(ACTIVATION, n * out, IN, "");
    if (kernel != SW_KERNEL_LINEAR_GRAD_INPUT)
        ADD(ACTIVATION, n * in, IN, "");
    for (int i = 0; i < 3; i++)
        if (kernel == SW_KERNEL_LINEAR_GRAD_WEIGHT)
            ADD(REAL, in * outs[i], OUT, "+?");
        else
            ADD(PARAMETER, in * outs[i], IN, "");
    for (int i = 0; i < 3 && kernel != SW_KERNEL_LINEAR_GRAD_INPUT; i++)
        if (kernel == SW_KERNEL_LINEAR_GRAD_WEIGHT)
            ADD(REAL, outs[i], OUT, "+?");
        else
            ADD(PARAMETER, outs[i], IN, "?");
    if (kernel == SW_KERNEL_LINEAR) { /* heads of three quarters of the columns are turned, where
                                         there are as many */
        const int64_t D = s->D / 2 * 2, heads = D ? out * 3 / 4 / D : 0, T = s->T ? s->T : 1;
        c.dim[6] = heads, c.dim[7] = D, c.dim[8] = T;
        ADD(ACTIVATION, n * out, IN, "?");
        ADD(ACTIVATION, n * out, OUT, "");
        ADD(REAL, heads ? T * D : 0, IN, "?");
    }
    if (kernel == SW_KERNEL_LINEAR_GRAD_INPUT)
        ADD(ACTIVATION, n * in, OUT, "+");
    return c;
}

static device_case make_attention(sw_arena *arena, sw_kernel kernel, const device_shape *s,
                                  const sw_device *oracle, uint64_t seed) {
    device_case c = {.kernel = kernel,
                     .attribute = {1.25 / sqrt((double)s->D), s->dropout, 3},
                     .scalars = {.proceed = 1, .seed = 42, .first_row = 5}};
    const int64_t q_stride = s->packed ? (s->H + 2 * s->K) * s->D : s->H * s->D;
    const int64_t kv_stride = s->packed ? q_stride : s->K * s->D;
    const int64_t tokens = s->B * s->T, dense = tokens * s->H * s->D;
    /* in the packed form operands are views; the last row needs no full stride */
    const int64_t q_n = (tokens - 1) * q_stride + s->H * s->D,
                  kv_n = (tokens - 1) * kv_stride + s->K * s->D;
    DIMS(s->B, s->T, s->H, s->K, s->D, q_stride, kv_stride, s->span, s->mask);
    if (kernel == SW_KERNEL_ATTENTION_GRAD)
        ADD(ACTIVATION, dense, IN, "");
    double *q = ADD(ACTIVATION, q_n, IN, ""), *k = ADD(ACTIVATION, kv_n, IN, ""),
           *v = ADD(ACTIVATION, kv_n, IN, "");
    for (int64_t i = 0; i < q_n; i++)
        q[i] *= 3;
    if (kernel == SW_KERNEL_ATTENTION) {
        ADD(ACTIVATION, dense, OUT, "");
        ADD(REAL, s->B * s->H * s->T, OUT, "");
        make_documents(ADD(INDEX, tokens, IN, "?"), s->B, s->T, 5);
        return c;
    }
    device_case forward = make_attention(arena, SW_KERNEL_ATTENTION, s, oracle, 1);
    forward.operand[0].value = q;
    forward.operand[1].value = k;
    forward.operand[2].value = v;
    ADD(ACTIVATION, dense, IN, "");
    ADD(REAL, s->B * s->H * s->T, IN, "");
    left_by(arena, oracle, &c, &forward, 3, 4);
    left_by(arena, oracle, &c, &forward, 4, 5);
    /* between the heads of one token and the next of a packed array, dq, dk and dv are not
     * written */
    ADD(ACTIVATION, q_n, OUT, "");
    ADD(ACTIVATION, kv_n, OUT, "");
    ADD(ACTIVATION, kv_n, OUT, "");
    make_documents(ADD(INDEX, tokens, IN, "?"), s->B, s->T, 5);
    ADD(REAL, s->D % 2 ? 0 : s->T * s->D, IN, "?");
    return c;
}

/* Rows of a micro-batch in a cache of as many rows, the other way round: at different positions,
 * with one to T real tokens, or none. */
static void add_places(sw_arena *arena, device_case *c, uint64_t *seed, const device_shape *s) {
    double *places = add(arena, c, seed, DEVICE_INDEX, 3 * s->B, IN, "");
    for (int64_t b = 0; b < s->B; b++) {
        places[3 * b] = (double)(s->B - 1 - b);
        places[3 * b + 1] = (double)((5 * b) % (s->T + 2));
        places[3 * b + 2] = b % 3 == 2 ? 0 : b % 3 == 1 ? 1 : (double)s->T;
    }
}

static device_case make_decoding(sw_arena *arena, sw_kernel kernel, const device_shape *s,
                                 uint64_t seed) {
    device_case c = {.kernel = kernel, .scalars = {.proceed = 1}};
    const int64_t tokens = s->B * s->T, P = 2 * s->T + 1, half = s->D / 2;
    const int64_t q_stride = s->packed ? (s->H + 2 * s->K) * s->D : s->H * s->D;
    const int64_t kv_stride = s->packed ? q_stride : s->K * s->D;
    switch (kernel) {
    case SW_KERNEL_ROTARY_PLACED:
        DIMS(s->B, s->T, s->H, 2 * half, P, turned_stride(s));
        ADD(ACTIVATION, tokens * turned_stride(s), IN, "");
        ADD(REAL, P * half * 2, IN, "");
        add_places(arena, &c, &seed, s);
        ADD(ACTIVATION, tokens * turned_stride(s), OUT, "");
        break;
    case SW_KERNEL_ADD_POSITIONS_PLACED:
        DIMS(s->B, s->T, s->C, P);
        ADD(ACTIVATION, tokens * s->C, IN, "");
        ADD(PARAMETER, P * s->C, IN, "");
        add_places(arena, &c, &seed, s);
        ADD(ACTIVATION, tokens * s->C, OUT, "");
        break;
    case SW_KERNEL_ATTENTION_CACHED:
        DIMS(s->B, s->T, s->H, s->K, s->D, q_stride, kv_stride, P);
        c.attribute[0] = 1 / sqrt((double)s->D);
        c.attribute[1] = (double)s->span;
        ADD(ACTIVATION, (tokens - 1) * q_stride + s->H * s->D, IN, "");
        ADD(ACTIVATION, (tokens - 1) * kv_stride + s->K * s->D, IN, "");
        ADD(ACTIVATION, (tokens - 1) * kv_stride + s->K * s->D, IN, "");
        add_places(arena, &c, &seed, s);
        ADD(ACTIVATION, s->B * s->K * P * s->D, UPDATE, "");
        ADD(ACTIVATION, s->B * s->K * P * s->D, UPDATE, "");
        ADD(ACTIVATION, tokens * s->H * s->D, OUT, "");
        break;
    default:
        DIMS(s->B, s->T, s->C);
        ADD(ACTIVATION, tokens * s->C, IN, "");
        add_places(arena, &c, &seed, s);
        ADD(ACTIVATION, s->B * s->C, OUT, "");
        break;
    }
    return c;
}

/* Any optimizer: its row says what it is given. */
static device_case make_optimizer(sw_arena *arena, sw_kernel kernel, sw_optimizer_kind kind,
                                  int64_t block, uint64_t seed) {
    device_case c = {.kernel = kernel,
                     .scalars = {.proceed = 1, .learning_rate = 0.01, .clip_factor = 0.7}};
    const sw_optimizer_spec all = {.beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .epsilon = 1e-6,
                                   .weight_decay = 0.1,
                                   .momentum = 0.9,
                                   .kind = kind};
    const sw_optimizer_spec least = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .kind = kind};
    c.scalars.bias_correction1 = 1 - pow(all.beta1, 3);
    c.scalars.bias_correction2 = 1 - pow(all.beta2, 3);
    sw_optimizer_attributes(&all, c.attribute);
    DIMS(block);
    ADD(MASTER, block, UPDATE, "");
    ADD(LOW, block, UPDATE, "");
    ADD(REAL, block, IN, "");
    sw_optimizer_state kept;
    bool is_kept;
    for (int at = 0; sw_optimizer_state_at(&all, at, &kept, &is_kept); at++) {
        double *value = ADD(REAL, block, UPDATE, sw_optimizer_keeps(&least, kept) ? "" : "?");
        for (int64_t i = 0; i < block && kept == SW_OPTIMIZER_SECOND_MOMENT; i++)
            value[i] = value[i] * value[i] + 1e-3;
    }
    return c;
}

device_case device_make(sw_arena *arena, sw_kernel kernel, const device_shape *s,
                        const sw_device *oracle, uint64_t seed) {
    device_case c = {.kernel = kernel,
                     .scalars = {.proceed = 1, .seed = 42, .loss_scale = 0.125, .first_row = 5}};
    const int64_t n = s->n, C = s->C, tokens = s->B * s->T,
                  block = (n + SW_BLOCK - 1) / SW_BLOCK * SW_BLOCK;
    int64_t value_n;
    double *value;
    switch (kernel) {
    case SW_KERNEL_EMBEDDING:
        DIMS(n, s->V, C);
        make_indices(ADD(INDEX, n, IN, ""), n, s->V, false);
        ADD(PARAMETER, s->V * C, IN, "");
        ADD(ACTIVATION, n * C, OUT, "");
        break;
    case SW_KERNEL_EMBEDDING_GRAD:
        DIMS(n, s->V, C);
        make_indices(ADD(INDEX, n, IN, ""), n, s->V, false);
        ADD(ACTIVATION, n * C, IN, "");
        ADD(REAL, s->V * C, OUT, "+");
        break;
    case SW_KERNEL_ADD_POSITIONS:
        DIMS(s->B, s->T, C, s->T + 2);
        ADD(ACTIVATION, tokens * C, IN, "");
        ADD(PARAMETER, (s->T + 2) * C, IN, "");
        ADD(ACTIVATION, tokens * C, OUT, "");
        make_documents(ADD(INDEX, tokens, IN, "?"), s->B, s->T, 5);
        break;
    case SW_KERNEL_ADD_POSITIONS_GRAD:
        DIMS(s->B, s->T, C, s->T + 2);
        ADD(ACTIVATION, tokens * C, IN, "");
        ADD(REAL, (s->T + 2) * C, OUT, "+");
        make_documents(ADD(INDEX, tokens, IN, "?"), s->B, s->T, 5);
        break;
    case SW_KERNEL_LINEAR:
    case SW_KERNEL_LINEAR_GRAD_INPUT:
    case SW_KERNEL_LINEAR_GRAD_WEIGHT:
        return make_linear(arena, kernel, s, seed);
    case SW_KERNEL_RMSNORM:
    case SW_KERNEL_RMSNORM_GRAD:
    case SW_KERNEL_LAYERNORM:
    case SW_KERNEL_LAYERNORM_GRAD:
        return make_norm(arena, kernel, s, oracle, seed);
    case SW_KERNEL_ROTARY_TABLE:
        DIMS(s->T, s->D / 2 * 2, s->ramp);
        memcpy(c.attribute,
               s->ramp == 1 ? (const double[]){10000, 4, 3, 1, 1.25}
                            : (const double[]){10000, 8, 0.01, 0.3, 1},
               sizeof c.attribute);
        ADD(REAL, s->T * (s->D / 2) * 2, OUT, "");
        break;
    case SW_KERNEL_ROTARY:
        DIMS(s->B, s->T, s->H, s->D / 2 * 2, turned_stride(s));
        c.attribute[0] = seed % 2 ? 1 : -1;
        ADD(ACTIVATION, tokens * turned_stride(s), IN, "");
        ADD(REAL, s->T * (s->D / 2) * 2, IN, "");
        ADD(ACTIVATION, tokens * turned_stride(s), OUT, "");
        break;
    case SW_KERNEL_ATTENTION:
    case SW_KERNEL_ATTENTION_GRAD:
        return make_attention(arena, kernel, s, oracle, seed);
    case SW_KERNEL_ACTIVATION:
        DIMS(n * C, s->function);
        value = ADD(ACTIVATION, n * C, IN, "");
        for (int64_t i = 0; i < n * C; i++)
            value[i] *= 6;
        ADD(ACTIVATION, n * C, OUT, "");
        break;
    case SW_KERNEL_ACTIVATION_GRAD:
        DIMS(n * C, s->function);
        ADD(ACTIVATION, n * C, IN, "");
        value = ADD(ACTIVATION, n * C, IN, "");
        for (int64_t i = 0; i < n * C; i++)
            value[i] *= 6;
        ADD(ACTIVATION, n * C, OUT, "+");
        break;
    case SW_KERNEL_SWIGLU:
    case SW_KERNEL_SWIGLU_GRAD:
        value_n = s->packed
                      ? (2 * n - 1) * C
                      : n * C; /* packed: views of one array; the last row needs no full stride */
        DIMS(n, C, s->packed ? 2 * C : C);
        if (kernel == SW_KERNEL_SWIGLU_GRAD)
            ADD(ACTIVATION, n * C, IN, "");
        value = ADD(ACTIVATION, value_n, IN, "");
        for (int64_t i = 0; i < value_n; i++)
            value[i] *= 9;
        ADD(ACTIVATION, value_n, IN, "");
        ADD(ACTIVATION, kernel == SW_KERNEL_SWIGLU ? n * C : value_n, OUT, "");
        if (kernel == SW_KERNEL_SWIGLU_GRAD)
            ADD(ACTIVATION, value_n, OUT, "");
        break;
    case SW_KERNEL_ADD:
        DIMS(n * C);
        ADD(ACTIVATION, n * C, IN, "");
        ADD(ACTIVATION, n * C, IN, "");
        ADD(ACTIVATION, n * C, OUT, "");
        break;
    case SW_KERNEL_DROPOUT:
        DIMS(s->B, s->T, C, 7);
        c.attribute[0] = 0.25;
        ADD(ACTIVATION, tokens * C, IN, "");
        ADD(ACTIVATION, tokens * C, OUT, "+");
        break;
    case SW_KERNEL_SCALE:
        DIMS(n * C);
        c.attribute[0] = 1.7;
        ADD(ACTIVATION, n * C, IN, "");
        ADD(ACTIVATION, n * C, OUT, "+");
        break;
    case SW_KERNEL_CROSS_ENTROPY:
    case SW_KERNEL_CROSS_ENTROPY_GRAD: {
        const int64_t chunk = sw_cross_entropy_chunk(n, s->V);
        DIMS(n, s->V, C, chunk);
        ADD(ACTIVATION, n * C, IN, "");
        value = ADD(PARAMETER, s->V * C, IN, "");
        for (int64_t i = 0; i < s->V * C; i++)
            value[i] *= 3 / sqrt((double)C);
        make_indices(ADD(INDEX, n, IN, ""), n, s->V, true);
        ADD(REAL, chunk * s->V, OUT, "");
        ADD(DOUBLE, 1, OUT, "");
        if (kernel == SW_KERNEL_CROSS_ENTROPY_GRAD) {
            ADD(ACTIVATION, n * C, OUT, "?");
            ADD(REAL, s->V * C, OUT, "+?");
        } else
            ADD(REAL, n, OUT, "?");
        break;
    }
    case SW_KERNEL_LOGITS:
        DIMS(n, s->V, C);
        ADD(ACTIVATION, n * C, IN, "");
        ADD(PARAMETER, s->V * C, IN, "");
        ADD(REAL, n * s->V, OUT, "");
        break;
    case SW_KERNEL_SELECT_POSITION:
        DIMS(s->B, s->T, C);
        c.scalars.position = (int32_t)(s->T / 2);
        ADD(ACTIVATION, tokens * C, IN, "");
        ADD(ACTIVATION, s->B * C, OUT, "");
        break;
    case SW_KERNEL_ROTARY_PLACED:
    case SW_KERNEL_ADD_POSITIONS_PLACED:
    case SW_KERNEL_ATTENTION_CACHED:
    case SW_KERNEL_SELECT_LAST:
        return make_decoding(arena, kernel, s, seed);
    case SW_KERNEL_ZERO:
        DIMS(n);
        ADD(REAL, n, OUT, "+");
        break;
    case SW_KERNEL_FOLD:
        DIMS(block);
        ADD(REAL, block, IN, "");
        ADD(REAL, block, OUT, "+");
        break;
    case SW_KERNEL_FOLD_VALUES:
        DIMS(n * C);
        ADD(ACTIVATION, n * C, IN, "");
        ADD(REAL, n * C, OUT, "+");
        break;
    case SW_KERNEL_ROUND_SUM:
        DIMS(n * C);
        ADD(REAL, n * C, IN, "");
        ADD(ACTIVATION, n * C, OUT, "");
        break;
#define OPTIMIZER(NAME, ...) \
    case SW_KERNEL_##NAME:   \
        return make_optimizer(arena, kernel, SW_OPTIMIZER_##NAME, block, seed);
        SW_OPTIMIZERS(OPTIMIZER)
#undef OPTIMIZER
    case SW_KERNEL_SPLIT:
        DIMS(block);
        ADD(REAL, block, IN, "");
        ADD(MASTER, block, OUT, "");
        ADD(LOW, block, OUT, "");
        break;
    case SW_KERNEL_JOIN:
        DIMS(block);
        ADD(MASTER, block, IN, "");
        ADD(LOW, block, IN, "");
        ADD(REAL, block, OUT, "");
        break;
    case SW_KERNEL_NORMAL:
        DIMS(n, 3, 1001);
        c.attribute[0] = 1;
        ADD(REAL, n, OUT, "");
        break;
    case SW_KERNEL_SQUARES: /* its result is no array of numbers: tests/device/test_numbers.c */
    case SW_N_KERNELS:
        fatal("no such case");
    }
    return c;
}

/* What an operand lies in; of a master, its copy. */
static sw_dtype type_of(device_type type, sw_number_kind numbers) {
    switch (type) {
    case DEVICE_ACTIVATION:
        return sw_activation_type(numbers);
    case DEVICE_PARAMETER:
    case DEVICE_MASTER:
        return sw_parameter_type(numbers);
    case DEVICE_LOW:
        return SW_U16;
    case DEVICE_INDEX:
        return SW_I32;
    case DEVICE_DOUBLE:
        return SW_F64;
    case DEVICE_REAL:
        break;
    }
    return sw_real_type(numbers);
}

void device_round(device_case *c, sw_number_kind numbers) {
    for (int i = 0; i < c->n_operands; i++) {
        const device_operand *o = &c->operand[i];
        const sw_dtype type = type_of(o->type, numbers);
        for (int64_t j = 0; j < o->n; j++)
            if (type == SW_BF16 &&
                o->type !=
                    DEVICE_MASTER) /* a master is all there: its other half lies in DEVICE_LOW */
                o->value[j] = (double)sw_bf16_to_float(sw_float_to_bf16((float)o->value[j]));
            else if (numbers != SW_NUMBERS_F64 && type != SW_I32 && type != SW_F64)
                o->value[j] = (double)(float)o->value[j];
    }
}

static size_t element_bytes(device_type type, sw_number_kind numbers) {
    return (size_t)sw_dtype_bytes(type_of(type, numbers));
}

static void write_value(device_type type, sw_number_kind numbers, int64_t i, double x, void *to) {
    const float f = (float)x;
    switch (type_of(type, numbers)) {
    case SW_I32:
        ((int32_t *)to)[i] = (int32_t)x;
        break;
    case SW_U16:
        ((uint16_t *)to)[i] = sw_split_low(f);
        break;
    case SW_BF16:
        ((uint16_t *)to)[i] = type == DEVICE_MASTER ? sw_split_high(f) : sw_float_to_bf16(f);
        break;
    case SW_F64:
        ((double *)to)[i] = x;
        break;
    default:
        ((float *)to)[i] = f;
    }
}

static double read_value(device_type type, sw_number_kind numbers, int64_t i, const void *from,
                         const void *low) {
    switch (type_of(type, numbers)) {
    case SW_BF16:
        return (double)(type == DEVICE_MASTER
                            ? sw_split_join(((const uint16_t *)from)[i], ((const uint16_t *)low)[i])
                            : sw_bf16_to_float(((const uint16_t *)from)[i]));
    case SW_F64:
        return ((const double *)from)[i];
    default:
        return (double)((const float *)from)[i];
    }
}

enum { GUARD = 128 };

/* `bytes` that begin `offset` after an aligned address, all of it 0xff: NaN, and guards. */
static char *guarded(sw_arena *arena, size_t bytes, size_t offset) {
    char *p = take(arena, bytes + 3 * GUARD);
    p = (char *)(((uintptr_t)p + GUARD + 63) / 64 * 64) + offset;
    memset(p - GUARD / 4, 0xff, bytes + GUARD / 2);
    return p;
}

static void check_guards(const device_case *c, const char *what, const char *p, size_t bytes) {
    for (int i = 0; i < GUARD / 4; i++)
        if (p[-1 - i] != (char)0xff || p[bytes + (size_t)i] != (char)0xff) {
            fprintf(stderr, "%s: writes outside its %s\n", sw_kernel_name(c->kernel), what);
            abort();
        }
}

/* The case is a call as the table of kernels has it, and may do all that the table allows. */
static void check_table(const device_case *c, sw_number_kind numbers, const sw_kernel_call *call) {
    static const sw_element elements[] = {
        [DEVICE_REAL] = SW_ELEMENT_R,      [DEVICE_ACTIVATION] = SW_ELEMENT_A,
        [DEVICE_PARAMETER] = SW_ELEMENT_P, [DEVICE_MASTER] = SW_ELEMENT_P,
        [DEVICE_LOW] = SW_ELEMENT_U16,     [DEVICE_INDEX] = SW_ELEMENT_I32,
        [DEVICE_DOUBLE] = SW_ELEMENT_F64};
    sw_given_call given = {.n_operands = c->n_operands, .accumulate = c->accumulate};
    memcpy(given.dim, c->dim, sizeof given.dim);
    memcpy(given.attribute, c->attribute, sizeof given.attribute);
    for (int i = 0; i < c->n_operands; i++)
        given.operand[i] = (sw_given_operand){
            .buffer = !call->operand[i] ? -1
                      : c->shares[i]    ? c->shares[i] - 1
                                        : i,
            .bytes = (int64_t)element_bytes(c->operand[i].type, numbers) * c->operand[i].n,
            .element = elements[c->operand[i].type],
            .is_written = c->operand[i].is_written};
    sw_error err;
    if (sw_kernel_check(c->kernel, numbers, &given, &err) != SW_OK)
        fatal(err.message);
}

void device_run(sw_arena *arena, const sw_device *device, sw_number_kind numbers,
                const device_case *c, double *result[SW_MAX_OPERANDS]) {
    sw_kernel_call call = {.accumulate = c->accumulate, .scalars = &c->scalars};
    char *at[SW_MAX_OPERANDS] = {0};
    memcpy(call.dim, c->dim, sizeof call.dim);
    memcpy(call.attribute, c->attribute, sizeof call.attribute);
    for (int i = 0; i < c->n_operands; i++) {
        const device_operand *o = &c->operand[i];
        const size_t bytes = element_bytes(o->type, numbers);
        if (c->absent >> i & 1 || o->n == 0 ||
            (o->type == DEVICE_LOW && numbers != SW_NUMBERS_BF16))
            continue;
        at[i] = c->shares[i] ? at[c->shares[i] - 1]
                             : guarded(arena, bytes * (size_t)o->n, bytes * (size_t)c->shift);
        call.operand[i] = at[i];
        if (o->is_read || c->accumulate >> i & 1)
            for (int64_t j = 0; j < o->n; j++)
                write_value(o->type, numbers, j,
                            o->type == DEVICE_LOW ? c->operand[i - 1].value[j] : o->value[j],
                            at[i]);
    }
    check_table(c, numbers, &call);
    const size_t scratch =
        (size_t)sw_kernel_scratch_bytes(c->kernel, c->dim, numbers, device->n_threads);
    char *space = guarded(arena, scratch, 0);
    call.scratch = space;
    sw_device_kernel(device, numbers, c->kernel)(device, &call);
    check_guards(c, "scratch", space, scratch);
    for (int i = 0; i < c->n_operands; i++) {
        const device_operand *o = &c->operand[i];
        result[i] = NULL;
        if (!at[i])
            continue;
        check_guards(c, "operand", at[i], element_bytes(o->type, numbers) * (size_t)o->n);
        if (!o->is_written || o->type == DEVICE_LOW)
            continue;
        result[i] = take(arena, sizeof(double) * (size_t)o->n);
        for (int64_t j = 0; j < o->n; j++)
            result[i][j] =
                read_value(o->type, numbers, j, at[i], at[i + 1 < SW_MAX_OPERANDS ? i + 1 : i]);
    }
}

/* Elements of dq, dk, dv, or of dgate and dup, that belong to other tensors of a packed array stay
 * as they were. */
static bool is_of_another_tensor(const device_case *c, int operand, int64_t i) {
    if (c->kernel == SW_KERNEL_SWIGLU_GRAD)
        return i % c->dim[2] >= c->dim[1];
    if (c->kernel != SW_KERNEL_ATTENTION_GRAD || operand < 6)
        return false;
    const int64_t stride = operand == 6 ? c->dim[5] : c->dim[6],
                  width = (operand == 6 ? c->dim[2] : c->dim[3]) * c->dim[4];
    return i % stride >= width;
}

/* Some gradients vanish exactly, with one key or one channel; what is left then is rounding of the
 * terms that cancel, which are as large as the inputs. */
static double largest_term(const device_case *c) {
    const bool cancels = (c->kernel == SW_KERNEL_ATTENTION_GRAD &&
                          (c->dim[1] == 1 || (c->dim[7] == 1 && c->dim[8] == SW_MASK_CAUSAL))) ||
                         (c->kernel == SW_KERNEL_RMSNORM_GRAD && c->dim[1] == 1);
    double largest = 0;
    for (int i = 0; cancels && i < c->n_operands; i++)
        for (int64_t j = 0; c->operand[i].is_read && j < c->operand[i].n; j++)
            largest = fmax(largest, fabs(c->operand[i].value[j]));
    return largest;
}

double device_half_unit(double x) {
    return isfinite(x) && x != 0 ? ldexp(1, ilogb(x) - 8) : 0;
}

double device_distance(const device_case *c, sw_number_kind numbers, int operand, const double *got,
                       const double *expected) {
    const bool is_rounded = type_of(c->operand[operand].type, numbers) == SW_BF16 &&
                            c->operand[operand].type != DEVICE_MASTER;
    double largest = largest_term(c), difference = 0;
    for (int64_t i = 0; i < c->operand[operand].n; i++) {
        if (is_of_another_tensor(c, operand, i)) {
            if (!isnan(got[i]))
                return INFINITY;
            continue;
        }
        if (!(fabs(got[i] - expected[i]) <= 1e30))
            return INFINITY;
        const double rounding =
            is_rounded ? device_half_unit(fmax(fabs(got[i]), fabs(expected[i]))) : 0;
        largest = fmax(largest, fabs(expected[i]));
        difference = fmax(difference, fabs(got[i] - expected[i]) - rounding);
    }
    return difference / (largest > 0 ? largest : 1);
}

const char *device_describe(sw_arena *arena, const device_case *c) {
    return sw_arena_format(arena, "%s[%ld %ld %ld %ld %ld %ld %ld %ld %ld] accumulate %x absent %x",
                           sw_kernel_name(c->kernel), (long)c->dim[0], (long)c->dim[1],
                           (long)c->dim[2], (long)c->dim[3], (long)c->dim[4], (long)c->dim[5],
                           (long)c->dim[6], (long)c->dim[7], (long)c->dim[8], c->accumulate,
                           c->absent);
}

sw_device *device_open(sw_kernel_set set, sw_gemm_kind gemm) {
    sw_device *device;
    sw_error err;
    if (sw_cpu_open(&(sw_cpu_options){.set = set, .gemm = gemm}, &device, &err) != SW_OK)
        fatal(err.message);
    return device;
}
