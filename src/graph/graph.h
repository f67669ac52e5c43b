/* graph.h: what a traced graph consists of, and the passes over it that know nothing of ranks.
 *
 * A graph is a list of operations in the order in which they run. After tracing it holds the
 * forward pass; differentiate() appends the backward pass; recompute() re-emits forward operations
 * before the backward of their block. The result is the step graph, and it is one list still:
 * sharding lowers it to instructions without ever asking what a model looks like.
 *
 * Every operation calls one kernel (device/kernel.h) on operands: values, parameters, gradients of
 * parameters. Of ranks a graph knows how many there are along an axis of the mesh: an operation may
 * share a value with them.
 */
#ifndef SW_GRAPH_GRAPH_H
#define SW_GRAPH_GRAPH_H

#include <shardwise/graph.h>

#include "base/arena.h"
#include "comm/mesh.h"
#include "device/kernel.h"

typedef struct sw_op sw_op;

/* A list that grows in the graph's arena. */
#define SW_LIST(type)    \
    struct {             \
        type *item;      \
        int n, capacity; \
    }

struct sw_unit {
    int id; /* in order of declaration; the root has 0 */
    const char *name;
    sw_unit *parent;
};

struct sw_parameter {
    int id; /* in order of declaration */
    const char *name;
    sw_unit *unit;
    int n_dimensions;
    int64_t dimension[4];
    int64_t n_elements;
    bool is_trainable;
    bool decays; /* weight decay applies: two or more dimensions */
    sw_initializer initializer;
    double std;
    bool is_adapter; /* added to a model, and not in its files */
    uint64_t
        stream; /* of its random numbers: a hash of the name, so that neighbours do not matter */
};

typedef enum sw_value_kind {
    SW_VALUE_REAL, /* activations, their gradients, caches of keys and values: A of device/kernel.h
                    */
    SW_VALUE_STATISTIC, /* what is computed about activations, and tables: R */
    SW_VALUE_INDEX,     /* token ids, places of tokens; int32 */
    SW_VALUE_LOGITS,    /* R; planned in the class `logits` */
    SW_VALUE_LOSS       /* double[1] */
} sw_value_kind;

struct sw_value {
    int id;
    sw_value_kind kind;
    int n_dimensions;
    int64_t dimension[4];
    int64_t n_elements;
    sw_op *producer;   /* NULL for inputs */
    sw_value *storage; /* whose bytes hold it: itself, or the value it was written over in place */
    bool is_input;     /* filled from outside before each micro-batch: tokens, targets, documents */
    bool is_constant;  /* computed once, before the first step (rotary tables) */
    bool is_output;    /* read from outside after each micro-batch: loss, logits */
    int state; /* its number, from 1, among the values that live across runs (caches); 0: it does
                  not */
    bool needs_gradient;
    int n_holders; /* while a graph is differentiated: values whose gradient this is */
};

typedef enum sw_operand_kind {
    SW_OPERAND_NONE,
    SW_OPERAND_VALUE,
    SW_OPERAND_PARAMETER,
    SW_OPERAND_GRADIENT
} sw_operand_kind;

typedef enum sw_access {
    SW_READ,
    SW_WRITE, /* every byte is written, none read */
    SW_UPDATE /* added to: the kernel's `accumulate` bit is set */
} sw_access;

typedef struct sw_operand {
    sw_operand_kind kind;
    sw_access access;
    sw_value *value;         /* VALUE */
    sw_parameter *parameter; /* PARAMETER: its compute copy; GRADIENT: its gradient */
    int64_t offset;          /* elements from the start of the value: parts of a packed value */
} sw_operand;

typedef enum sw_phase {
    SW_PHASE_PREPARE, /* once, before the first step: constants */
    SW_PHASE_FORWARD,
    SW_PHASE_BACKWARD /* recomputed forward operations too */
} sw_phase;

/* What an operation family says about its operations (one static row per family, in graph/ops/). */
typedef struct sw_family sw_family;

struct sw_op {
    int id;
    const sw_family *family;
    sw_kernel kernel;
    sw_unit *unit;
    sw_phase phase;
    bool is_recomputed;
    bool is_dropped; /* skipped when lowering: its gradient operation does its work (cross-entropy),
                        or evaluation has no use for it */
    int n_operands;
    sw_operand operand[SW_MAX_OPERANDS];
    int64_t dim[SW_MAX_DIMENSIONS];
    double attribute[SW_MAX_ATTRIBUTES];
    sw_share share; /* over the ranks of an axis (ops/share.c): the kernel puts the first operand
                       where they see it, and the second is what is made of what they put there */
    sw_axis axis;
    int n_sharing; /* ranks of the axis */
};

/* What is asked about every linear layer as it is recorded: returns its output, which is y, or what
 * more is recorded from x and y. NULL after an error. While there is one, layers are recorded one
 * by one. */
typedef sw_value *(*sw_linear_hook)(sw_graph *graph, void *self, sw_value *x, sw_parameter *weight,
                                    sw_weight_layout layout, sw_value *y);

/* What comes into a graph from outside, or is left for those outside, under a name. Its type and
 * shape are the value's. */
typedef struct sw_port {
    const char *name;
    sw_value *value;
    bool is_output;
} sw_port;

#define SW_PORT_TOKENS "tokens"   /* in: int32 [B*T] */
#define SW_PORT_TARGETS "targets" /* in: int32 [B*T], -1: no target */
#define SW_PORT_DOCUMENTS \
    "documents"                 /* in: int32 [B*T], where the token's document begins in its row */
#define SW_PORT_PLACES "places" /* in, of a graph that decodes (sw_graph_decode): int32 [B,3] */
#define SW_PORT_LOSS "loss"     /* out: double [1], the sum over supervised targets */
#define SW_PORT_TOKEN_LOSSES \
    "token_losses"              /* out, where it is wanted: float [B*T], of each position */
#define SW_PORT_LOGITS "logits" /* out: float [B,V] */

struct sw_graph {
    sw_arena arena;
    sw_error error;
    int64_t n_rows, n_tokens; /* B and T */
    int axis_size[SW_N_AXES]; /* of the mesh that it is recorded for */
    sw_unit *current_unit;
    sw_phase current_phase; /* of the operations being emitted */
    SW_LIST(sw_unit *) units;
    SW_LIST(sw_parameter *) parameters;
    int *parameter_of_stream; /* [n_streams] a hash table of their streams: id + 1; 0: free */
    int n_streams;            /* a power of two, or 0 */
    SW_LIST(sw_value *) values;
    SW_LIST(sw_op *)
    ops; /* in the order in which they run; PREPARE operations first; an operation's id is its place
          */
    SW_LIST(sw_port) ports;
    bool wants_token_losses;
    int64_t cached_rows, cached_positions; /* of its caches; 0 */
    int n_states;
    int n_dropouts;             /* streams handed out */
    sw_linear_hook linear_hook; /* NULL: none */
    void *linear_hook_self;
    bool is_differentiated;
};

/* Before anything is recorded: the mesh whose ranks will run the graph. Without, every axis has one
 * coordinate, and nothing is shared along it. */
void sw_graph_spread(sw_graph *graph, const sw_mesh *mesh);

/* The value of that port; NULL: the graph has none of that name. */
sw_value *sw_graph_port(const sw_graph *graph, const char *name);

/* ---- recording: used by graph/ops ---- */

/* Make a value a port. Returns it; NULL, and the graph's error, when memory is short. */
sw_value *sw_graph_add_port(sw_graph *graph, const char *name, bool is_output, sw_value *value);

sw_value *sw_value_create(sw_graph *graph, sw_value_kind kind, int n_dimensions,
                          const int64_t *dimensions);

static inline sw_operand sw_reads(sw_value *v) {
    return (sw_operand){SW_OPERAND_VALUE, SW_READ, v, NULL, 0};
}
static inline sw_operand sw_writes(sw_value *v) {
    return (sw_operand){SW_OPERAND_VALUE, SW_WRITE, v, NULL, 0};
}
static inline sw_operand sw_uses(sw_parameter *p) {
    return (sw_operand){p ? SW_OPERAND_PARAMETER : SW_OPERAND_NONE, SW_READ, NULL, p, 0};
}
static inline sw_operand sw_nothing(void) {
    return (sw_operand){SW_OPERAND_NONE, SW_READ, NULL, NULL, 0};
}
static inline sw_operand sw_reads_if_given(sw_value *v) {
    return v ? sw_reads(v) : sw_nothing();
}

/* Append an operation of the current unit and phase. `operands` are copied. Returns NULL after an
 * error. */
sw_op *sw_op_emit(sw_graph *graph, const sw_family *family, sw_kernel kernel, int n_operands,
                  const sw_operand *operands);

/* Is it one of this graph's? */
bool sw_graph_owns_parameter(const sw_graph *graph, const sw_parameter *parameter);
bool sw_graph_owns_value(const sw_graph *graph, const sw_value *value);

/* Leave the first error in the graph (NULL: nowhere); returns NULL, so that an operation is `return
 * sw_graph_fail(...)`. */
sw_value *sw_graph_fail(sw_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- gradient rules ---- */

typedef struct sw_differentiation sw_differentiation;

struct sw_family {
    const char *name;
    /* Emit the operations that compute the gradients of op's inputs from those of its outputs.
     * NULL: nothing to differentiate. */
    void (*gradient)(sw_differentiation *d, sw_op *op);
    /* Arithmetic and bytes of one operation, from its dimensions. bytes: read and written, each
     * operand once. */
    void (*cost)(const sw_op *op, double *flops, double *bytes);
    bool gradient_computes_forward; /* the gradient operation does the forward's work too: the
                                       forward operation is dropped */
};

sw_graph *sw_differentiation_graph(sw_differentiation *d);

/* The gradient that has arrived for `value`, NULL if none did (then nothing flows back). */
sw_value *sw_gradient_arrived(sw_differentiation *d, sw_value *value);

/* Where the gradient of `value` is to be written: a new value (WRITE), or the one that is there
 * already (UPDATE). NONE if `value` needs no gradient. Where adding in place would change bytes
 * that another value's gradient still needs, as sw_gradient_fresh. */
sw_operand sw_gradient_target(sw_differentiation *d, sw_value *value);

/* The gradient of `value` is `gradient` itself (a residual sum, learned positions): shared, not
 * copied; added if there is one. */
void sw_gradient_pass(sw_differentiation *d, sw_value *value, sw_value *gradient);

/* Like sw_gradient_target, but never UPDATE: for kernels whose outputs only write. When a gradient
 * is there already, a new value is returned, and it is added to the other one by an operation
 * emitted after those of the rule. */
sw_operand sw_gradient_fresh(sw_differentiation *d, sw_value *value);

/* Where a parameter's gradient goes: WRITE at its first use in a micro-batch, UPDATE after; NONE if
 * frozen. */
sw_operand sw_gradient_parameter(sw_differentiation *d, sw_parameter *parameter);

/* Record that the whole gradient of `parameter` is zero (ops/zero.c). NULL after an error. */
sw_op *sw_zero_gradient(sw_graph *graph, sw_parameter *parameter);

/* ---- decoding: graph/ops/decoding.c ---- */

/* Of an empty graph: what is recorded into it goes on from what a cache holds. `places` is one more
 * input, as device/kernel.h describes it; positions are those of the row, not of the micro-batch;
 * attention sees a cache of `n_rows` rows of `n_positions`, which graphs over the same states
 * share; logits are those of each row's last real token. It cannot be differentiated. */
sw_status sw_graph_decode(sw_graph *graph, int64_t n_rows, int64_t n_positions, sw_error *err);

/* Positions that a row can have: its tokens, or in a graph that decodes those of the cache. */
static inline int64_t sw_graph_positions(const sw_graph *graph) {
    return sw_graph_port(graph, SW_PORT_PLACES) ? graph->cached_positions : graph->n_tokens;
}

/* What operations record in such a graph in place of themselves. `dim`: as the operation's kernel
 * has them. */
sw_value *sw_decode_attention(sw_graph *graph, sw_operand q, sw_operand k, sw_operand v,
                              const int64_t dim[8], double scale);
sw_value *sw_decode_rotary(sw_graph *graph, sw_value *x, sw_value *table, int64_t n_heads,
                           int64_t head_channels);
sw_value *sw_decode_positions(sw_graph *graph, sw_value *x, sw_parameter *table);
sw_value *sw_decode_selection(sw_graph *graph, sw_value *x);

/* Of an empty graph: its loss leaves the loss of each position too, as a port. */
static inline void sw_graph_want_token_losses(sw_graph *graph) {
    graph->wants_token_losses = true;
}

/* Of a forward operation: is it a product whose store could add a residual; let it add `residual`
 * and write `sum`, which an operation that is taken out of the graph wrote before.
 * graph/ops/linear.c */
bool sw_linear_takes_residual(const sw_op *op);
void sw_linear_give_residual(sw_op *op, sw_value *residual, sw_value *sum);

/* The same for a rotation (an operation of the kernel ROTARY) of what the product writes, residual
 * included. */
bool sw_linear_takes_rotation(const sw_op *op);
void sw_linear_give_rotation(sw_op *op, const sw_op *rotation);

/* Heads that a product turned as it stored them: the first n_heads of each row of `value`, one
 * after another. */
typedef struct sw_turned_heads {
    sw_value *value;  /* [B*n_tokens, at least n_heads*head_channels] */
    sw_operand table; /* [n_tokens, head_channels/2, 2] */
    int64_t n_heads, head_channels, n_tokens;
} sw_turned_heads;

/* The gradient `dy` of turned->value is turned back: by an operation of its own, which writes the
 * value that is returned; NULL after an error. graph/ops/rotary.c */
sw_value *sw_rotary_turn_back(sw_graph *graph, const sw_turned_heads *turned, sw_value *dy);

/* The same, without an operation or a value, where `dy` is what the last gradient of attention
 * wrote, for queries and keys that lie side by side in turned->value, and nobody has touched it
 * since; else false. graph/ops/attention.c */
bool sw_attention_turns_back(sw_graph *graph, const sw_turned_heads *turned, const sw_value *dy);

/* ---- passes ---- */

/* Of a graph that is not differentiated yet: sums become part of the products that they add to, and
 * rotations part of the products that they turn, where nobody else reads those. */
sw_status sw_graph_join_products(sw_graph *graph, sw_error *err);

/* Append the backward pass of the loss. Parameters that the loss does not depend on get a ZERO
 * operation. */
sw_status sw_graph_differentiate(sw_graph *graph, sw_error *err);

/* Of a graph that will not be differentiated: dropouts pass their input on, as evaluation wants. */
sw_status sw_graph_without_dropout(sw_graph *graph, sw_error *err);

/* What backward computes again instead of keeping it, in the order of the words of
 * shard.recompute. */
typedef enum sw_recompute {
    SW_RECOMPUTE_NONE,
    SW_RECOMPUTE_SELECTIVE,
    SW_RECOMPUTE_BLOCK
} sw_recompute;

/* Re-emit the forward operations of every non-root unit in its backward, each before the first that
 * reads it, so that of what its block computed only its input lives in between. Bits do not change:
 * what is recomputed is what was computed. */
sw_status sw_graph_recompute_blocks(sw_graph *graph, sw_error *err);

/* The same for those forward operations alone that save many bytes, in these numbers, for little
 * arithmetic, by their cost rules, and whose own inputs are kept anyway or made again: outputs of
 * norms, activations and rotations, mostly. */
sw_status sw_graph_recompute_selective(sw_graph *graph, sw_number_kind numbers, sw_error *err);

/* Let outputs take the bytes of inputs that die there, where the kernel allows it (device/kernel.h,
 * "over"). Sets storage. */
sw_status sw_graph_reuse_in_place(sw_graph *graph, sw_error *err);

/* The whole list, one operation a line, for people and tests. */
void sw_graph_print(const sw_graph *graph, void (*line)(void *to, const char *text), void *to);

/* ---- operations that no user's model has asked for ---- */

/* sw_embedding in which the row of id `padding` gets no gradient from here, as torch.nn.Embedding's
 * padding_idx; -1: none. */
sw_value *sw_embedding_padded(sw_graph *graph, sw_value *tokens, sw_parameter *table,
                              int64_t padding);

/* ---- questions ---- */

int64_t sw_value_bytes(const sw_value *value, sw_number_kind numbers);

/* The outermost unit below the root that holds `unit`: what is recomputed at once. NULL for the
 * root. */
sw_unit *sw_unit_block(sw_unit *unit);

enum {
    SW_DRAW_FLOPS = 20
}; /* of a word of random numbers: ten rounds of the generator give four */

/* What one operation costs: additions and multiplications; and bytes read and written with 4-byte
 * reals and parameters, each operand once (UPDATE: twice). Other element types scale the bytes. */
void sw_op_cost(const sw_op *op, double *flops, double *bytes);

/* The `bytes` of sw_op_cost for operations whose operands are whole values, parameters and
 * gradients. */
double sw_op_operand_bytes(const sw_op *op);

#endif
