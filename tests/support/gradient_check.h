/* gradient_check.h: the gradients of a graph against central differences of its loss, in double. */
#ifndef SW_TESTS_SUPPORT_GRADIENT_CHECK_H
#define SW_TESTS_SUPPORT_GRADIENT_CHECK_H

#include "support/graph_interpreter.h"

/* Records a model that ends in a loss into an empty graph. */
typedef void (*graph_recorder)(sw_graph *graph, const void *about);

enum { RECOMPUTE_NOTHING, RECOMPUTE_BLOCKS, RECOMPUTE_SELECTIVELY, N_RECOMPUTE };

typedef struct gradient_check {
    graph_recorder record;
    const void *about;
    int64_t n_rows, n_tokens, n_vocabulary; /* token ids are below n_vocabulary */
    int n_ranks, n_idle; /* along axis shard, each with other tokens, and how many of the last have
                            none; 0: one */
    int recompute;       /* RECOMPUTE_ */
    sw_number_kind numbers; /* that selective recomputation reckons with */
    bool joins_products;    /* sw_graph_join_products, in the differentiated graph alone */
    bool reuse_in_place;
    double deviation;  /* of the parameters */
    const char *label; /* shown when the check fails; may be NULL */
    uint64_t seed;     /* of a random graph, shown too */
} gradient_check;

enum { GRADIENT_CHECK_RANKS = 4 };

/* For each trainable parameter and several directions v: (L(p + e v) - L(p - e v)) / 2e =
 * <gradient, v>, and for a few single elements too. The forward graph is recorded anew and runs
 * undifferentiated. Fails the test, naming the parameter. */
void gradient_check_run(const sw_device *device, const gradient_check *check);

/* A graph recorded by `record`, differentiated and passed over as `check` says. Fails the test on
 * an error. */
sw_graph *gradient_check_graph(const gradient_check *check, bool differentiate);

/* Where documents begin [n_rows * n_tokens]: in each row at another place. */
void gradient_check_documents(const gradient_check *check, int32_t *documents);

/* Token ids [n_rows * n_tokens], and targets, some of them -1. */
void gradient_check_inputs(const gradient_check *check, int32_t *tokens, int32_t *targets);

#endif
