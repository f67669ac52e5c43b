/* kernel.h: the kernels that a device has, and how each is called.
 *
 * This table is the contract between graph/ops (which emit kernels) and device/ (which implement them). A call carries operands
 * by position, dimensions and attributes; the comment of each kernel gives them in that order, with shapes.
 *
 *   R   the real type that everything is computed in, and that statistics and gradients of parameters lie in: float, or double
 *       (the oracle)
 *   A   what activations, their gradients and caches lie in: R, or bf16 beside float.
 *   P   what gathered parameters lie in: R, or bf16 beside float
 *   *   behind an operand: it is written. `+` : it is written, or added to when its bit in `accumulate` is set
 *   ?   the operand may be NULL: input absent, or output not wanted
 *
 * A written operand may share its bytes with an input where the comment says "in place": then element i of the output depends on
 * no element of that input but i, and is written after it was read.
 */
#ifndef SW_DEVICE_KERNEL_H
#define SW_DEVICE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/activation.h>
#include <shardwise/attention.h>

#include "base/dtype.h"
#include "optim/optimizers.h"

/* X(NAME, "name", and of optimizers what else is in their rows) */
#define SW_KERNELS(X)                                                                                                            \
    /* tokens i32[n], table P[V,C], y A[n,C]*                                     dims n V C */                                  \
    X(EMBEDDING, "embedding")                                                                                                    \
    /* tokens i32[n], dy A[n,C], dtable R[V,C]+                        dims n V C padding: 1 + an id that is passed over, 0:     \
       none. Without accumulate: rows that no other token names become zero */                                                   \
    X(EMBEDDING_GRAD, "embedding_grad")                                                                                          \
    /* x A[B*T,C], table P[Tmax,C], y A[B*T,C]* (in place on x), documents i32[B*T]?          dims B T C Tmax. Token t of a row  \
       has position t, or t - documents[t]: documents says at which token of its row a token's document begins */                \
    X(ADD_POSITIONS, "add_positions")                                                                                            \
    /* dy A[B*T,C], dtable R[Tmax,C]+, documents i32[B*T]?                        dims B T C Tmax. Rows of no token become zero  \
       without accumulate */                                                                                                     \
    X(ADD_POSITIONS_GRAD, "add_positions_grad")                                                                                  \
    /* x A[n,in], w0 P, w1 P?, w2 P?, b0 P[out0]?, b1 P[out1]?, b2 P[out2]?, residual A[n,out]?, y A[n,out]* (in place on        \
       residual), table R[T,D/2,2]?                     dims n in layout out0 out1 out2 heads D T. Up to three products of one   \
       x, side by side: columns out_i of y are x w_i + b_i + residual, rounded once. w_i is [out_i,in] (layout 0) or [in,out_i]  \
       (1); out = out0 + out1 + out2, where 0 stands for absent. With a table the first `heads` heads of D columns are turned    \
       as by ROTARY: before they are rounded where a block of whole heads fits (tuned/finish.h), else after, and rounded         \
       again */                                                                                                                  \
    X(LINEAR, "linear")                                                                                                          \
    /* dy A[n,out], w0, w1?, w2?, dx A[n,in]+             dims as LINEAR */                                                      \
    X(LINEAR_GRAD_INPUT, "linear_grad_input")                                                                                    \
    /* dy A[n,out], x A[n,in], dw0 R+?, dw1 R+?, dw2 R+? (as the weights lie), db0 R[out0]+?, db1 R[out1]+?, db2 R[out2]+?       \
       dims as LINEAR */                                                                                                         \
    X(LINEAR_GRAD_WEIGHT, "linear_grad_weight")                                                                                  \
    /* x A[n,C], weight P[C], y A[n,C]*, inverse_rms R[n]*                        dims n C; attr epsilon */                      \
    X(RMSNORM, "rmsnorm")                                                                                                        \
    /* dy A[n,C], x A[n,C], weight P[C], inverse_rms R[n], dx A[n,C]+? , dweight R[C]+?      dims n C. dx in place on dy when    \
       dx does not accumulate */                                                                                                 \
    X(RMSNORM_GRAD, "rmsnorm_grad")                                                                                              \
    /* x A[n,C], weight P[C], bias P[C]?, y A[n,C]*, mean R[n]*, inverse_deviation R[n]*     dims n C; attr epsilon */           \
    X(LAYERNORM, "layernorm")                                                                                                    \
    /* dy A[n,C], x A[n,C], weight P[C], mean R[n], inverse_deviation R[n], dx A[n,C]+?, dweight R[C]+?, dbias R[C]+?            \
       dims n C. dx in place on dy when dx does not accumulate */                                                                \
    X(LAYERNORM_GRAD, "layernorm_grad")                                                                                          \
    /* table R[T,D/2,2]* of amplitude (cos, sin)      dims T D ramp; attrs theta factor from to amplitude. Angles in double.     \
       f = theta^(-2i/D); kept = 0 (ramp 0), or (m - from) / (to - from) held within 0 .. 1, m being i (ramp 1) or f (ramp 2);   \
       the angle of token t is t f (kept + (1 - kept) / factor) */                                                               \
    X(ROTARY_TABLE, "rotary_table")                                                                                              \
    /* x A[B*T,stride], table R[T,D/2,2], y A[B*T,stride]* (in place on x)      dims B T heads D stride; attr direction: 1, or   \
       -1 turns back, which is the gradient. Channels from heads*D on pass unturned */                                           \
    X(ROTARY, "rotary")                                                                                                          \
    /* q A[B*T,H*D], k A[B*T,K*D], v A[B*T,K*D], out A[B*T,H*D]*, log_sum R[B,H,T]*, documents i32[B*T]?                         \
       dims B T H K D q_stride kv_stride span mask; attrs scale > 0, probability, stream. Strides: elements from one token       \
       to the next of q, of k and v; out is dense. Query t sees keys max(0, t - span + 1) .. t, or with SW_MASK_FULL             \
       max(0, t - span) .. min(T - 1, t + span), of these those of its document (documents[t] is its first token); span 0:       \
       no limit. With a probability, weight (row, head, t, key) is divided by 1 - probability where sw_attention_keeps(seed,     \
       stream, first_row + row, head, t, key, probability) (base/philox.h), else 0; log_sum is of the weights before that */     \
    X(ATTENTION, "attention")                                                                                                    \
    /* dout A[B*T,H*D], q, k, v, out, log_sum, dq*, dk*, dv* (strides as q, k, v), documents?, table R[T,D/2,2]?                 \
       dims, attrs as ATTENTION. With a table dq and dk are turned back as by ROTARY before they are rounded */                  \
    X(ATTENTION_GRAD, "attention_grad")                                                                                          \
    /* x A[n], y A[n]* (in place)                                                 dims n function: an sw_activation */           \
    X(ACTIVATION, "activation")                                                                                                  \
    /* dy A[n], x A[n], dx A[n]+ (in place on dy when not accumulating)           dims n function */                             \
    X(ACTIVATION_GRAD, "activation_grad")                                                                                        \
    /* gate A[n,F], up A[n,F], y A[n,F]* (in place on either where stride is F)   dims n F stride: elements from one row of      \
       gate, and of up, to the next; y is dense */                                                                               \
    X(SWIGLU, "swiglu")                                                                                                          \
    /* dy A[n,F], gate, up, dgate*, dup* (in place on gate, up, and on dy where stride is F)   dims n F stride, of gate, up,     \
       dgate and dup */                                                                                                          \
    X(SWIGLU_GRAD, "swiglu_grad")                                                                                                \
    /* a A[n], b A[n], y A[n]* (in place on either)                               dims n */                                      \
    X(ADD, "add")                                                                                                                \
    /* x A[B*T,C], y A[B*T,C]+ (in place on x)        dims B T C stream; attr probability. Element (row, t, c) is kept when      \
       sw_dropout_keeps(seed, stream, first_row + row, t*C + c, probability) (base/philox.h); kept ones scale by 1/(1-p).        \
       The gradient is the same kernel on dy */                                                                                  \
    X(DROPOUT, "dropout")                                                                                                        \
    /* x A[n], y A[n]+ (in place on x when not accumulating)       dims n; attr factor. The gradient is the same on dy */        \
    X(SCALE, "scale")                                                                                                            \
    /* x A[n,C], head P[V,C], targets i32[n], logits R[chunk,V]*, loss double[1]*, losses R[n]*?                                 \
       dims n V C chunk. The sum over supervised targets, in double, token after token. `logits` is working space of one         \
       chunk; `losses` is each position's, 0 where there is no target */                                                         \
    X(CROSS_ENTROPY, "cross_entropy")                                                                                            \
    /* x A[n,C], head P[V,C], targets i32[n], logits R[chunk,V]*, loss double[1]*, dx A[n,C]*?, dhead R[V,C]+?                   \
       dims n V C chunk. As CROSS_ENTROPY, and the gradients of loss * scalars->loss_scale */                                    \
    X(CROSS_ENTROPY_GRAD, "cross_entropy_grad")                                                                                  \
    /* x A[n,C], head P[V,C], logits R[n,V]*          dims n V C */                                                              \
    X(LOGITS, "logits")                                                                                                          \
    /* x A[B*T,C], y A[B,C]*                          dims B T C. Row scalars->position of each B */                             \
    X(SELECT_POSITION, "select_position")                                                                                        \
    /* ---- decoding: rows go on from what a cache holds. places i32[B,3]: for each row of the micro-batch its row of the        \
       cache, the position of its first token, and how many of its tokens are real; nobody reads the rest ---- */                \
    /* x A[B*T,stride], table R[P,D/2,2], places, y A[B*T,stride]* (in place on x)    dims B T heads D P stride, as ROTARY */    \
    X(ROTARY_PLACED, "rotary_placed")                                                                                            \
    /* x A[B*T,C], table P[P,C], places, y A[B*T,C]* (in place on x)    dims B T C P */                                          \
    X(ADD_POSITIONS_PLACED, "add_positions_placed")                                                                              \
    /* q A[B*T,H*D], k A[B*T,K*D], v A[B*T,K*D], places, keys A[rows,K,P,D], values A[rows,K,P,D] (both updated),                \
       out A[B*T,H*D]*                                dims B T H K D q_stride kv_stride P. k and v go into the cache at their    \
       positions; each token sees its row of the cache up to its own position. attrs scale, span (0: from position 0) */         \
    X(ATTENTION_CACHED, "attention_cached")                                                                                      \
    /* x A[B*T,C], places, y A[B,C]*    dims B T C. The last real token of each row; the first of a row without */               \
    X(SELECT_LAST, "select_last")                                                                                                \
    /* y R[n]*                                        dims n */                                                                  \
    X(ZERO, "zero")                                                                                                              \
    /* ---- on shards: whole blocks of SW_BLOCK elements, padding included; always fp32 beside P = fp32 or bf16 ---- */          \
    /* source R[n], sum R[n]+                         dims n. sum = source, or sum += source */                                  \
    X(FOLD, "fold")                                                                                                              \
    /* gradient R[n], wide sum struct sw_wide_sum[1] (added to)     dims n. Squares of each block of SW_BLOCK in double in a     \
       fixed order, each block's sum added exactly */                                                                            \
    X(SQUARES, "squares")                                                                                                        \
    /* The optimizers: copy P[n] (updated), low u16[n]? (updated; with P = bf16 the low halves, else NULL), gradient R[n], then  \
       the states of the row, each R[n]? (updated); dims n; attrs the numbers of the row, but that the weight decay is 0 where a \
       parameter does not decay. With scalars: learning_rate, clip_factor, bias_correction1, bias_correction2; nothing is        \
       written unless scalars->proceed. */                                                                                       \
    SW_OPTIMIZERS(X)                                                                                                             \
    /* master R[n], copy P[n]*, low u16[n]*?          dims n. Split masters into compute copy and low halves (P = R: a copy) */  \
    X(SPLIT, "split")                                                                                                            \
    /* copy P[n], low u16[n]?, master R[n]*           dims n. The inverse */                                                     \
    X(JOIN, "join")                                                                                                              \
    /* y R[n]*                                        dims n stream first; attr std. Element i is normal number `first` + i of   \
       (scalars->seed, stream): independent of how a parameter is cut */                                                         \
    X(NORMAL, "normal")

typedef enum sw_kernel {
#define SW_KERNEL_ENUM(name, ...) SW_KERNEL_##name,
    SW_KERNELS(SW_KERNEL_ENUM)
#undef SW_KERNEL_ENUM
        SW_N_KERNELS
} sw_kernel;

/* What a step is computed in: the three columns of the kernel table. */
typedef enum sw_number_kind { SW_NUMBERS_F32, SW_NUMBERS_BF16, SW_NUMBERS_F64, SW_N_NUMBER_KINDS } sw_number_kind;

/* The types R, A and P of a kind. A is widened as it is read, and rounded once, as a result is stored: to nearest, ties to even.
 */
static inline sw_dtype sw_real_type(sw_number_kind numbers) {
    return numbers == SW_NUMBERS_F64 ? SW_F64 : SW_F32;
}
static inline sw_dtype sw_activation_type(sw_number_kind numbers) {
    return numbers == SW_NUMBERS_BF16 ? SW_BF16 : sw_real_type(numbers);
}
static inline sw_dtype sw_parameter_type(sw_number_kind numbers) {
    return numbers == SW_NUMBERS_BF16 ? SW_BF16 : sw_real_type(numbers);
}

#define SW_BLOCK 256 /* elements; offsets and cuts of shards are multiples of it */
#define SW_MAX_OPERANDS 11
#define SW_MAX_DIMENSIONS 9
#define SW_MAX_ATTRIBUTES 5

/* What changes from step to step and from slot to slot; all else in a program is fixed. */
typedef struct sw_scalars {
    uint64_t seed;
    int64_t step;           /* completed steps before this one: the first step has 0 */
    int64_t first_row;      /* logical row number, over the whole run, of the micro-batch's first row */
    int32_t slot;           /* of the micro-batch in this rank's schedule */
    int32_t n_contributors; /* ranks that have a micro-batch in this slot: ranks 0 .. n-1 */
    int32_t position;       /* for generation */
    int32_t proceed;        /* 0: the update writes nothing */
    double loss_scale;      /* 1 / supervised tokens of the whole step */
    double learning_rate;
    double clip_factor;
    double bias_correction1; /* 1 - beta1^t */
    double bias_correction2; /* 1 - beta2^t */
} sw_scalars;

typedef struct sw_kernel_call {
    void *operand[SW_MAX_OPERANDS];
    int64_t dim[SW_MAX_DIMENSIONS];
    double attribute[SW_MAX_ATTRIBUTES];
    uint32_t accumulate; /* bit i: operand i is added to */
    void *scratch;       /* sw_kernel_scratch_bytes() bytes, 64-byte aligned */
    const sw_scalars *scalars;
} sw_kernel_call;

typedef struct sw_device sw_device;
typedef void (*sw_kernel_fn)(const sw_device *device, const sw_kernel_call *call);

const char *sw_kernel_name(sw_kernel kernel);

/* Working space of one call on `n_threads` threads, from its dimensions alone: the same on every machine, so that a plan made
 * anywhere holds. */
int64_t sw_kernel_scratch_bytes(sw_kernel kernel, const int64_t dim[SW_MAX_DIMENSIONS], sw_number_kind numbers, int n_threads);

/* Tokens whose logits exist at once, from the shape alone. */
int64_t sw_cross_entropy_chunk(int64_t n_tokens, int64_t n_vocabulary);

#endif
