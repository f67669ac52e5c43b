/* memory_class.h: the classes that memory is planned, measured and reported in.
 *
 * One table: plan.json, metrics.jsonl, the start report and the message of a refused run all use
 * these words, in this order.
 */
#ifndef SW_BASE_MEMORY_CLASS_H
#define SW_BASE_MEMORY_CLASS_H

#include <stdint.h>

/* X(NAME, "name") */
#define SW_MEMORY_CLASSES(X)                                                                      \
    X(PARAMETERS, "parameters") /* own compute copies; full ones where a stage replicates them */ \
    X(GRADIENTS, "gradients")   /* the fp32 slices that contributions are folded into */          \
    X(OPTIMIZER, "optimizer")   /* moments and the low halves of masters */                       \
    X(ACTIVATIONS, "activations") /* values of the step graph */                                  \
    X(GATHER, "gather")           /* rings that units are gathered into */                        \
    X(REDUCE, "reduce")           /* rings that gradients are reduced from */                     \
    X(LOGITS, "logits")           /* the chunk of the output projection */                        \
    X(SCRATCH, "scratch")         /* working space of kernels */                                  \
    X(TRANSPORT, "transport")     /* control pages and staging of the transport */

typedef enum sw_memory_class {
#define SW_MEMORY_CLASS_ENUM(name, text) SW_MEMORY_##name,
    SW_MEMORY_CLASSES(SW_MEMORY_CLASS_ENUM)
#undef SW_MEMORY_CLASS_ENUM
        SW_N_MEMORY_CLASSES
} sw_memory_class;

/* Where a class lies: in a section of its own, or in another's (shard/memory_map.c). */
static inline sw_memory_class sw_memory_section(sw_memory_class class) {
    return class == SW_MEMORY_LOGITS || class == SW_MEMORY_SCRATCH ? SW_MEMORY_ACTIVATIONS : class;
}

/* Bytes of each class from the highest byte that each has in its section: of classes that share
 * one, what each adds to the ones before it. So their sum is what there is, planned or touched. */
static inline void sw_memory_figures(const int64_t end[SW_N_MEMORY_CLASSES],
                                     int64_t bytes[SW_N_MEMORY_CLASSES]) {
    int64_t used[SW_N_MEMORY_CLASSES] = {0}; /* of each section */
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++) {
        int64_t *section = &used[sw_memory_section((sw_memory_class)c)];
        bytes[c] = end[c] > *section ? end[c] - *section : 0;
        *section += bytes[c];
    }
}

static inline const char *sw_memory_class_name(sw_memory_class class) {
    static const char *const names[] = {
#define SW_MEMORY_CLASS_NAME(name, text) text,
        SW_MEMORY_CLASSES(SW_MEMORY_CLASS_NAME)
#undef SW_MEMORY_CLASS_NAME
    };
    return names[class];
}

#endif
