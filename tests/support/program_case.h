/* program_case.h: graphs of every shape that matters to sharding, and their programs over many
 * settings. */
#ifndef SW_TESTS_SUPPORT_PROGRAM_CASE_H
#define SW_TESTS_SUPPORT_PROGRAM_CASE_H

#include "shard/program.h"

/* A stack of blocks x + x W^T + b between an embedding and a head, and the ways in which it may be
 * odd. */
typedef enum stack_oddity {
    STACK_PLAIN,
    STACK_NO_BLOCKS,        /* root alone */
    STACK_SECOND_TWICE,     /* the second block is called again after the last */
    STACK_NESTED,           /* every block has a unit inside, whose parameters are its own */
    STACK_EMPTY_UNIT,       /* the second block has no parameters */
    STACK_FROZEN_UNIT,      /* the second block is frozen */
    STACK_FROZEN_MATRICES,  /* units with both groups */
    STACK_ONE_BIAS,         /* everything is frozen but the first block's bias */
    STACK_UNUSED_PARAMETER, /* every block has a parameter that is never used */
    STACK_SWAPPED,          /* the first two blocks run in the other order */
    STACK_SHARED,           /* blocks share what they compute with the other ranks */
    N_STACK_ODDITIES
} stack_oddity;

typedef struct stack {
    stack_oddity oddity;
    int n_blocks;
    int64_t channels, vocabulary;
    bool tied;
    sw_weight_layout layout; /* of the blocks' square weights */
} stack;

/* A recorder: `about` is a stack. Blocks are called blocks.0, blocks.1 and so on. */
void stack_record(sw_graph *graph, const void *about);

/* A graph, and how it is spread. */
typedef struct program_case {
    const char *name;
    void (*record)(sw_graph *graph, const void *about);
    const void *about;
    int64_t n_rows, n_tokens;
    int recompute;   /* 0: nothing, 1: blocks, 2: what is cheap */
    bool is_forward; /* evaluation */
    sw_sharding sharding;
} program_case;

typedef struct built_program {
    const program_case *of;
    sw_graph *graph;
    sw_layout layout;
    sw_states states;
    sw_program program;
} built_program;

/* All graphs: those of small_models.h, and a stack of each oddity. */
int n_program_graphs(void);
program_case program_graph(int i);

/* Fails the test on an error. The built program refers to `c`. */
void program_build(const program_case *c, built_program *built);
void program_free(built_program *built);

/* Stage x accumulate x mode x reshard x prefetch 0..3 over every graph; recompute, wrap, ranks,
 * dtype and optimizer vary along, and some programs are forward ones. */
void for_each_program(void (*check)(const built_program *built));

/* All settings on one line. */
void program_describe(const program_case *c, char *text, size_t bytes);

/* A condition on a program, about one of its instructions (-1: none): what fails is shown with
 * settings and instruction. */
#define holds(built, instruction, condition) \
    ((condition) ? (void)0 : program_fail(built, instruction, #condition, __FILE__, __LINE__))
void program_fail(const built_program *built, int instruction, const char *what, const char *file,
                  int line);

/* Adamw, stage 3, copy mode, resharding, prefetch 1, sharded accumulation, bf16. */
sw_sharding usual_sharding(int n_ranks);

/* The operations that became kernel instructions, in the order of the instructions, [*n].
 * Ownership: free(). */
const sw_op **program_ops(const built_program *built, int *n);

static inline bool is_collective_of_slot(const sw_instruction *i) {
    return i->segment == SW_SEGMENT_FORWARD || i->segment == SW_SEGMENT_BACKWARD;
}

#endif
