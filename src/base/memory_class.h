/* memory_class.h: the classes that memory is planned, measured and reported in.
 *
 * One table: plan.json, metrics.jsonl, the start report and the message of a refused run all use these words, in this order.
 */
#ifndef SW_BASE_MEMORY_CLASS_H
#define SW_BASE_MEMORY_CLASS_H

/* X(NAME, "name") */
#define SW_MEMORY_CLASSES(X)                                                                        \
    X(PARAMETERS, "parameters")   /* own compute copies; full ones where a stage replicates them */ \
    X(GRADIENTS, "gradients")     /* the fp32 slices that contributions are folded into */          \
    X(OPTIMIZER, "optimizer")     /* moments and the low halves of masters */                       \
    X(ACTIVATIONS, "activations") /* values of the step graph */                                    \
    X(GATHER, "gather")           /* rings that units are gathered into */                          \
    X(REDUCE, "reduce")           /* rings that gradients are reduced from */                       \
    X(LOGITS, "logits")           /* the chunk of the output projection */                          \
    X(SCRATCH, "scratch")         /* working space of kernels */                                    \
    X(TRANSPORT, "transport")     /* control pages and staging of the transport */

typedef enum sw_memory_class {
#define SW_MEMORY_CLASS_ENUM(name, text) SW_MEMORY_##name,
    SW_MEMORY_CLASSES(SW_MEMORY_CLASS_ENUM)
#undef SW_MEMORY_CLASS_ENUM
        SW_N_MEMORY_CLASSES
} sw_memory_class;

static inline const char *sw_memory_class_name(sw_memory_class class) {
    static const char *const names[] = {
#define SW_MEMORY_CLASS_NAME(name, text) text,
        SW_MEMORY_CLASSES(SW_MEMORY_CLASS_NAME)
#undef SW_MEMORY_CLASS_NAME
    };
    return names[class];
}

#endif
