/* kernel.h: the kernels that a device has, and how each is called.
 *
 * This table is the contract between graph/ops (which emit kernels) and device/ (which implement
 * them). A row says which operands a call carries, by position, as "name TYPE[shape]marks", then
 * its dimensions, by whose names shapes are told, and its attributes. Passes ask it, and what is
 * emitted is held to it (operands.h); comments say what else must be known.
 *
 *   R   the real type that everything is computed in, and that statistics and gradients of
 *       parameters lie in: float, or double (the oracle)
 *   A   what activations, their gradients and caches lie in: R, or bf16 beside float.
 *   P   what gathered parameters lie in: R, or bf16 beside float
 *
 *   i32, u16, f64, wide: int32_t, uint16_t, double, sw_wide_sum
 *
 *   [n,F:stride]   rows of F elements, from one to the next `stride`; without one they are dense
 *   any            in a shape: as many as there are
 *
 *   *   the operand is written. `+`: it is written, or added to when its bit in `accumulate` is
 *       set. `!`: it is changed, which is read, and written in part or whole
 *   ?   the operand may be NULL: input absent, or output not wanted. So is one whose shape has no
 *       element; and at the end of the list such operands may be left off
 *
 *   over x   the operand may lie where x does, in place, while it is not added to: element i of the
 *            output depends on no element of that input but i, and is written after it was read.
 *            Else what is written shares no byte with another operand
 */
#ifndef SW_DEVICE_KERNEL_H
#define SW_DEVICE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/activation.h>
#include <shardwise/attention.h>

#include "base/dtype.h"
#include "optim/optimizers.h"

/* X(NAME, "name", "operands", "dimensions", "attributes"), and OPTIMIZER(what is in the rows of
 * optimizers) */
#define SW_KERNELS(X, OPTIMIZER)                                                                   \
    X(EMBEDDING, "embedding", "tokens i32[n], table P[V,C], y A[n,C]*", "n V C padding", "")       \
    /* padding: 1 + an id that is passed over, 0: none. Without accumulate: rows that no other     \
     * token names become zero */                                                                  \
    X(EMBEDDING_GRAD, "embedding_grad", "tokens i32[n], dy A[n,C], dtable R[V,C]+",                \
      "n V C padding", "")                                                                         \
    /* Token t of a row has position t, or t - documents[t]: documents says at which token of its  \
     * row a token's document begins */                                                            \
    X(ADD_POSITIONS, "add_positions",                                                              \
      "x A[B*T,C], table P[Tmax,C], y A[B*T,C]* over x, documents i32[B*T]?", "B T C Tmax", "")    \
    /* Rows of no token become zero without accumulate */                                          \
    X(ADD_POSITIONS_GRAD, "add_positions_grad",                                                    \
      "dy A[B*T,C], dtable R[Tmax,C]+, documents i32[B*T]?", "B T C Tmax", "")                     \
    /* Up to three products of one x, side by side: columns out_i of y are x w_i + b_i + residual, \
     * rounded once. w_i is [out_i,in] (layout 0) or [in,out_i] (1); a product that is absent has  \
     * out 0. With a table the first `heads` heads of D columns are turned as by ROTARY: before    \
     * they are rounded where a block of whole heads fits (tuned/finish.h), else after, and        \
     * rounded again */                                                                            \
    X(LINEAR, "linear",                                                                            \
      "x A[n,in], weight P[out0,in], weight P[out1,in], weight P[out2,in], "                       \
      "bias P[out0]?, bias P[out1]?, bias P[out2]?, residual A[n,out0+out1+out2]?, "               \
      "y A[n,out0+out1+out2]* over residual, table R[T,D/2,2]?",                                   \
      "n in layout out0 out1 out2 heads D T", "")                                                  \
    X(LINEAR_GRAD_INPUT, "linear_grad_input",                                                      \
      "dy A[n,out0+out1+out2], weight P[out0,in], weight P[out1,in], weight P[out2,in], dx "       \
      "A[n,in]+",                                                                                  \
      "n in layout out0 out1 out2", "")                                                            \
    /* Gradients of weights lie as those do */                                                     \
    X(LINEAR_GRAD_WEIGHT, "linear_grad_weight",                                                    \
      "dy A[n,out0+out1+out2], x A[n,in], dweight R[out0,in]+?, dweight R[out1,in]+?, dweight "    \
      "R[out2,in]+?, "                                                                             \
      "dbias R[out0]+?, dbias R[out1]+?, dbias R[out2]+?",                                         \
      "n in layout out0 out1 out2", "")                                                            \
    X(RMSNORM, "rmsnorm", "x A[n,C], weight P[C], y A[n,C]*, inverse_rms R[n]*", "n C", "epsilon") \
    X(RMSNORM_GRAD, "rmsnorm_grad",                                                                \
      "dy A[n,C], x A[n,C], weight P[C], inverse_rms R[n], dx A[n,C]+? over dy, dweight R[C]+?",   \
      "n C", "")                                                                                   \
    X(LAYERNORM, "layernorm",                                                                      \
      "x A[n,C], weight P[C], bias P[C]?, y A[n,C]*, mean R[n]*, inverse_deviation R[n]*", "n C",  \
      "epsilon")                                                                                   \
    X(LAYERNORM_GRAD, "layernorm_grad",                                                            \
      "dy A[n,C], x A[n,C], weight P[C], mean R[n], inverse_deviation R[n], "                      \
      "dx A[n,C]+? over dy, dweight R[C]+?, dbias R[C]+?",                                         \
      "n C", "")                                                                                   \
    /* (cos, sin) times amplitude. Angles in double. f = theta^(-2i/D); kept = 0 (ramp 0), or (m - \
     * from) / (to - from) held within 0 .. 1, m being i (ramp 1) or f (ramp 2); the angle of      \
     * token t is t f (kept + (1 - kept) / factor) */                                              \
    X(ROTARY_TABLE, "rotary_table", "table R[T,D/2,2]*", "T D ramp",                               \
      "theta factor from to amplitude")                                                            \
    /* direction: 1, or -1 turns back, which is the gradient. Channels from heads*D on pass        \
     * unturned */                                                                                 \
    X(ROTARY, "rotary", "x A[B*T,stride], table R[T,D/2,2], y A[B*T,stride]* over x",              \
      "B T heads D stride", "direction")                                                           \
    /* Query t sees keys max(0, t - span + 1) .. t, or with SW_MASK_FULL max(0, t - span) .. min(T \
     * - 1, t + span), of these those of its document (documents[t] is its first token); span 0:   \
     * no limit. scale > 0. With a probability, weight (row, head, t, key) is divided by 1 -       \
     * probability where sw_attention_keeps(seed, stream, first_row + row, head, t, key,           \
     * probability) (base/philox.h), else 0; log_sum is of the weights before that */              \
    X(ATTENTION, "attention",                                                                      \
      "q A[B*T,H*D:q_stride], k A[B*T,K*D:kv_stride], v A[B*T,K*D:kv_stride], out A[B*T,H*D]*, "   \
      "log_sum R[B,H,T]*, "                                                                        \
      "documents i32[B*T]?",                                                                       \
      "B T H K D q_stride kv_stride span mask", "scale probability stream")                        \
    /* With a table dq and dk are turned back as by ROTARY before they are rounded */              \
    X(ATTENTION_GRAD, "attention_grad",                                                            \
      "dout A[B*T,H*D], q A[B*T,H*D:q_stride], k A[B*T,K*D:kv_stride], v A[B*T,K*D:kv_stride], "   \
      "out A[B*T,H*D], "                                                                           \
      "log_sum R[B,H,T], dq A[B*T,H*D:q_stride]*, dk A[B*T,K*D:kv_stride]*, dv "                   \
      "A[B*T,K*D:kv_stride]*, "                                                                    \
      "documents i32[B*T]?, table R[T,D/2,2]?",                                                    \
      "B T H K D q_stride kv_stride span mask", "scale probability stream")                        \
    /* function: an sw_activation */                                                               \
    X(ACTIVATION, "activation", "x A[n], y A[n]* over x", "n function", "")                        \
    X(ACTIVATION_GRAD, "activation_grad", "dy A[n], x A[n], dx A[n]+ over dy", "n function", "")   \
    X(SWIGLU, "swiglu", "gate A[n,F:stride], up A[n,F:stride], y A[n,F]* over gate|up",            \
      "n F stride", "")                                                                            \
    X(SWIGLU_GRAD, "swiglu_grad",                                                                  \
      "dy A[n,F], gate A[n,F:stride], up A[n,F:stride], dgate A[n,F:stride]* over dy|gate|up, "    \
      "dup A[n,F:stride]* over dy|gate|up",                                                        \
      "n F stride", "")                                                                            \
    X(ADD, "add", "a A[n], b A[n], y A[n]* over a|b", "n", "")                                     \
    /* Element (row, t, c) is kept when sw_dropout_keeps(seed, stream, first_row + row, t*C + c,   \
     * probability) (base/philox.h); kept ones scale by 1/(1-p). The gradient is the same kernel   \
     * on dy */                                                                                    \
    X(DROPOUT, "dropout", "x A[B*T,C], y A[B*T,C]+ over x", "B T C stream", "probability")         \
    /* The gradient is the same on dy */                                                           \
    X(SCALE, "scale", "x A[n], y A[n]+ over x", "n", "factor")                                     \
    /* The sum over supervised targets, in double, token after token. `logits` is working space of \
     * one chunk; `losses` is each position's, 0 where there is no target */                       \
    X(CROSS_ENTROPY, "cross_entropy",                                                              \
      "x A[n,C], head P[V,C], targets i32[n], logits R[chunk,V]*, loss f64[1]*, losses R[n]*?",    \
      "n V C chunk", "")                                                                           \
    /* As CROSS_ENTROPY, and the gradients of loss * scalars->loss_scale */                        \
    X(CROSS_ENTROPY_GRAD, "cross_entropy_grad",                                                    \
      "x A[n,C], head P[V,C], targets i32[n], logits R[chunk,V]*, loss f64[1]*, dx A[n,C]*?, "     \
      "dhead R[V,C]+?",                                                                            \
      "n V C chunk", "")                                                                           \
    X(LOGITS, "logits", "x A[n,C], head P[V,C], logits R[n,V]*", "n V C", "")                      \
    /* Row scalars->position of each B */                                                          \
    X(SELECT_POSITION, "select_position", "x A[B*T,C], y A[B,C]*", "B T C", "")                    \
    /* ---- decoding: rows go on from what a cache holds. places: for each row of the micro-batch  \
     * its row of the cache, the position of its first token, and how many of its tokens are real; \
     * nobody reads the rest ---- */                                                               \
    /* As ROTARY */                                                                                \
    X(ROTARY_PLACED, "rotary_placed",                                                              \
      "x A[B*T,stride], table R[P,D/2,2], places i32[B,3], y A[B*T,stride]* over x",               \
      "B T heads D P stride", "")                                                                  \
    X(ADD_POSITIONS_PLACED, "add_positions_placed",                                                \
      "x A[B*T,C], table P[P,C], places i32[B,3], y A[B*T,C]* over x", "B T C P", "")              \
    /* k and v go into the cache at their positions; each token sees its row of the cache up to    \
     * its own position. span 0: from position 0 */                                                \
    X(ATTENTION_CACHED, "attention_cached",                                                        \
      "q A[B*T,H*D:q_stride], k A[B*T,K*D:kv_stride], v A[B*T,K*D:kv_stride], places i32[B,3], "   \
      "keys A[any,K,P,D]!, values A[any,K,P,D]!, out A[B*T,H*D]*",                                 \
      "B T H K D q_stride kv_stride P", "scale span")                                              \
    /* The last real token of each row; the first of a row without */                              \
    X(SELECT_LAST, "select_last", "x A[B*T,C], places i32[B,3], y A[B,C]*", "B T C", "")           \
    /* Added to: it stays as it is */                                                              \
    X(ZERO, "zero", "y R[n]+", "n", "")                                                            \
    /* ---- on shards: whole blocks of SW_BLOCK elements, padding included; always fp32 beside P = \
     * fp32 or bf16 ---- */                                                                        \
    /* sum = source, or sum += source */                                                           \
    X(FOLD, "fold", "source R[n], sum R[n]+", "n", "")                                             \
    /* The same of values that ranks share, and their sum rounded once */                          \
    X(FOLD_VALUES, "fold_values", "source A[n], sum R[n]+", "n", "")                               \
    X(ROUND_SUM, "round_sum", "sum R[n], y A[n]*", "n", "")                                        \
    /* Squares of each block of SW_BLOCK in double in a fixed order, each block's sum added        \
     * exactly */                                                                                  \
    X(SQUARES, "squares", "gradient R[n], sum wide[1]!", "n", "")                                  \
    /* The optimizers (SW_OPTIMIZER_OPERANDS); dims n; attrs the numbers of the row, but that the  \
     * weight decay is 0 where a parameter does not decay. With scalars: learning_rate,            \
     * clip_factor, bias_correction1, bias_correction2; nothing is written unless                  \
     * scalars->proceed. */                                                                        \
    SW_OPTIMIZERS(OPTIMIZER)                                                                       \
    /* Split masters into compute copy and low halves (P = R: a copy) */                           \
    X(SPLIT, "split", "master R[n], copy P[n]*, low u16[n]*?", "n", "")                            \
    /* The inverse */                                                                              \
    X(JOIN, "join", "copy P[n], low u16[n]?, master R[n]*", "n", "")                               \
    /* Element i is normal number `first` + i of (scalars->seed, stream): independent of how a     \
     * parameter is cut */                                                                         \
    X(NORMAL, "normal", "y R[n]*", "n stream first", "std")

/* Low halves: with P = bf16. Then each state of the row: "R[n]!?". */
#define SW_OPTIMIZER_OPERANDS "copy P[n]!, low u16[n]!?, gradient R[n]"

typedef enum sw_kernel {
#define SW_KERNEL_ENUM(name, ...) SW_KERNEL_##name,
    SW_KERNELS(SW_KERNEL_ENUM, SW_KERNEL_ENUM)
#undef SW_KERNEL_ENUM
        SW_N_KERNELS
} sw_kernel;

/* What a step is computed in: the three columns of the kernel table. */
typedef enum sw_number_kind {
    SW_NUMBERS_F32,
    SW_NUMBERS_BF16,
    SW_NUMBERS_F64,
    SW_N_NUMBER_KINDS
} sw_number_kind;

/* The types R, A and P of a kind. A is widened as it is read, and rounded once, as it is stored: to
 * nearest, ties to even. */
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
    int64_t step;      /* completed steps before this one: the first step has 0 */
    int64_t first_row; /* logical row number, over the whole run, of the micro-batch's first row */
    int32_t slot;      /* of the micro-batch in this rank's schedule */
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

/* Working space of one call on `n_threads` threads, from its dimensions alone: the same on every
 * machine, so that a plan made anywhere holds. */
int64_t sw_kernel_scratch_bytes(sw_kernel kernel, const int64_t dim[SW_MAX_DIMENSIONS],
                                sw_number_kind numbers, int n_threads);

/* Tokens whose logits exist at once, from the shape alone. */
int64_t sw_cross_entropy_chunk(int64_t n_tokens, int64_t n_vocabulary);

#endif
