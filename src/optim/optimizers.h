/* optimizers.h: every optimizer, a row each: the numbers that its kernel takes, and what it keeps
 * beside each parameter.
 *
 * All else follows from the rows: the words of optimizer.name, the kernel's name, the buffers, the
 * files of a checkpoint, what an update costs. To add an optimizer, add its row here and its kernel
 * in device/cpu/plain/optimizer.c.
 */
#ifndef SW_OPTIM_OPTIMIZERS_H
#define SW_OPTIM_OPTIMIZERS_H

#include <stdbool.h>
#include <stddef.h>

/* What some optimizer keeps, one fp32 number for each trainable element: the name of its buffers,
 * the stem of its file in a checkpoint, and the number without which (0) it is not kept. */
#define SW_OPTIMIZER_STATES(X)                            \
    X(FIRST_MOMENT, "first moment", "first_moment", 0)    \
    X(SECOND_MOMENT, "second moment", "second_moment", 0) \
    X(MOMENTUM, "momentum", "momentum", SW_NUMBER(momentum))

/* X(name, word, NUMBERS in the order of the kernel's attributes, STATES in the order of its
 * operands). Operands before those are compute copy, low halves and gradient. */
#define SW_OPTIMIZERS(X)                                                                       \
    /* Loshchilov and Hutter 2019, in the order of torch.optim.AdamW: docs/design/numbers.md,  \
     * "AdamW" */                                                                              \
    X(ADAMW, "adamw",                                                                          \
      SW_ROW(SW_NUMBER(beta1), SW_NUMBER(beta2), SW_NUMBER(epsilon), SW_NUMBER(weight_decay)), \
      SW_ROW(SW_OPTIMIZER_FIRST_MOMENT, SW_OPTIMIZER_SECOND_MOMENT))                           \
    /* g = clip grad + decay p; buffer = momentum buffer + g; p -= rate buffer (rate g without \
     * one): torch.optim.SGD */                                                                \
    X(SGD, "sgd", SW_ROW(SW_NUMBER(momentum), SW_NUMBER(weight_decay)),                        \
      SW_ROW(SW_OPTIMIZER_MOMENTUM))

#define SW_ROW(...) \
    { __VA_ARGS__ }
#define SW_NUMBER(field) (1 + (int)(offsetof(sw_optimizer_spec, field) / sizeof(double)))

/* In the order of the words of optimizer.name. */
typedef enum sw_optimizer_kind {
#define SW_OPTIMIZER_ENUM(NAME, ...) SW_OPTIMIZER_##NAME,
    SW_OPTIMIZERS(SW_OPTIMIZER_ENUM)
#undef SW_OPTIMIZER_ENUM
        SW_N_OPTIMIZERS
} sw_optimizer_kind;

typedef enum sw_optimizer_state {
#define SW_STATE_ENUM(NAME, ...) SW_OPTIMIZER_##NAME,
    SW_OPTIMIZER_STATES(SW_STATE_ENUM)
#undef SW_STATE_ENUM
        SW_N_OPTIMIZER_STATES
} sw_optimizer_state;

/* "|adamw|sgd": the words of optimizer.name, each behind a bar. */
#define SW_OPTIMIZER_BAR(NAME, word, ...) "|" word
#define SW_OPTIMIZER_WORDS SW_OPTIMIZERS(SW_OPTIMIZER_BAR)

/* Which optimizer, and the numbers of any of them. */
typedef struct sw_optimizer_spec {
    double beta1, beta2, epsilon, weight_decay, momentum;
    sw_optimizer_kind kind;
} sw_optimizer_spec;

enum { SW_MAX_OPTIMIZER_NUMBERS = 5 };

/* "first moment"; "first_moment.safetensors" */
const char *sw_optimizer_state_name(sw_optimizer_state state);
const char *sw_optimizer_state_file(sw_optimizer_state state);

/* The i-th state that the optimizer keeps, in the order of its kernel's operands; false beyond the
 * last. A state that its numbers make needless has its place in that order all the same: *is_kept
 * says so. */
bool sw_optimizer_state_at(const sw_optimizer_spec *spec, int i, sw_optimizer_state *state,
                           bool *is_kept);

/* Does the optimizer keep it? */
bool sw_optimizer_keeps(const sw_optimizer_spec *spec, sw_optimizer_state state);

/* Its kernel's attributes. Returns the index of the weight decay among them, which is 0 for
 * parameters that do not decay. */
int sw_optimizer_attributes(const sw_optimizer_spec *spec,
                            double attribute[SW_MAX_OPTIMIZER_NUMBERS]);

/* Does its kernel take that SW_NUMBER? */
bool sw_optimizer_takes(sw_optimizer_kind kind, int number);

#endif
