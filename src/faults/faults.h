/* faults.h: faults on purpose, for drills and tests: what can be injected into a run, and where it
 * strikes.
 *
 * A fault is one line, "kind:key=value,key=value". One table of kinds and keys (faults_parse.c)
 * makes the parser, the help and the page of the reference. Faults of signals, sleeps and bits
 * strike between two instructions, by an observer of the executor (faults.c); those of allocations
 * and files by a library that is loaded before all others (fault_calls.h). A run without faults has
 * no observer and no such library. See docs/design/faults.md.
 */
#ifndef SW_FAULTS_FAULTS_H
#define SW_FAULTS_FAULTS_H

#include <stdatomic.h>
#include <time.h>

#include "execute/executor.h"

typedef enum sw_fault_kind {
    SW_FAULT_KILL,
    SW_FAULT_STOP,
    SW_FAULT_SLOW,
    SW_FAULT_DELAY,
    SW_FAULT_FLIP,
    SW_FAULT_ALLOCATION,
    SW_FAULT_WRITE
} sw_fault_kind;

typedef enum sw_fault_buffer {
    SW_FAULT_NO_BUFFER,
    SW_FAULT_PARAMETERS, /* the compute copy: this rank's slice, or all where it is replicated */
    SW_FAULT_MOMENTS,    /* first moments, or momentum */
    SW_FAULT_GRADIENTS,  /* own slice, summed over ranks, before the norm */
    SW_FAULT_ACTIVATIONS /* what a kernel of the forward pass has just written */
} sw_fault_buffer;

enum { SW_FAULT_EVERY_RANK = -1, SW_FAULT_SUPERVISOR = -2 };
enum { SW_MAX_FAULTS = 16, SW_FAULT_TEXT_BYTES = 96 };
#define SW_FAULT_CUT_SHORT 0 /* in place of an errno: the write takes half of what it is given */

/* One fault. Where a key is not given: rank SW_FAULT_EVERY_RANK, step 0, at -1, texts "", n 1,
 * numbers 0. */
typedef struct sw_fault {
    sw_fault_kind kind;
    char text[2 * SW_FAULT_TEXT_BYTES]; /* as it was given */
    int64_t rank;
    int64_t step;                          /* its number in the metrics */
    double at;                             /* seconds after the process began its part */
    char instruction[SW_FAULT_TEXT_BYTES]; /* patterns, of fnmatch */
    char unit[SW_FAULT_TEXT_BYTES];
    char file[SW_FAULT_TEXT_BYTES];
    double factor, seconds;
    int64_t buffer; /* sw_fault_buffer */
    int64_t bit;
    int64_t k, n;
    int64_t error; /* errno, or SW_FAULT_CUT_SHORT */
} sw_fault;

/* Who is told when a call fails. */
typedef struct sw_call_teller {
    struct sw_rank_faults *rank; /* NULL: the supervisor, which has no file of events open */
    struct sw_faults *faults;
    int fault;
} sw_call_teller;

typedef struct sw_rank_faults sw_rank_faults;
typedef struct sw_faults sw_faults;

/* All of a run. How often each has struck is known to all processes, so that one that has is not
 * repeated by ranks that are started again. */
struct sw_faults {
    int n;
    sw_fault item[SW_MAX_FAULTS];
    sw_call_teller teller[SW_MAX_FAULTS]; /* the supervisor's, as are */
    timer_t timer[SW_MAX_FAULTS];         /* [n_timers] which must not outlive the run */
    int n_timers;
    _Atomic int32_t *n_struck; /* [SW_MAX_FAULTS] shared memory */
};

/* ---- faults_parse.c ---- */

/* Errors: SW_BAD_CONFIG, with the fault, what is wrong with it, and what there is. */
sw_status sw_fault_parse(const char *text, sw_fault *fault, sw_error *err);

/* The grammar, for --help and the reference. */
void sw_faults_reference(void (*line)(void *to, const char *text), void *to, bool as_markdown);

/* ---- faults.c: before ranks exist ---- */

/* Read `texts` [n]. Ownership: sw_faults_close, which takes NULL; *faults is NULL when n is 0.
 * Errors: SW_BAD_CONFIG. */
sw_status sw_faults_open(const char *const *texts, int n, sw_faults **faults, sw_error *err);
void sw_faults_close(sw_faults *faults);

/* Set up what is to strike the supervisor. Errors: SW_NO_MEMORY; SW_BAD_CONFIG: the library of
 * fault_calls.h is needed and not loaded.
 */
sw_status sw_faults_begin(sw_faults *faults, sw_error *err);

/* Does any need the library of fault_calls.h? Is it loaded? */
bool sw_faults_need_calls(const sw_faults *faults);
bool sw_fault_calls_are_loaded(void);

/* Is there a rank for each? Errors: SW_BAD_CONFIG. */
sw_status sw_faults_check(const sw_faults *faults, int n_ranks, sw_error *err);

/* Has the i-th struck, in any process? */
bool sw_fault_has_struck(const sw_faults *faults, int i);

/* ---- faults.c: in a rank ---- */

/* First of all in a rank of the run whose folder that is. faults may be NULL, and must outlive it;
 * *mine is NULL when none is for it. Ownership: sw_rank_faults_close, which takes NULL. */
sw_status sw_rank_faults_open(sw_faults *faults, const char *folder, sw_comm *comm,
                              sw_rank_faults **mine, sw_error *err);
void sw_rank_faults_close(sw_rank_faults *mine);

/* Strike where this executor comes by; mine may be NULL. */
sw_status sw_rank_faults_watch(sw_rank_faults *mine, sw_executor *executor, sw_error *err);

/* ---- faults_flip.c ---- */

/* Is this boundary the place for the fault? Is its file there? */
bool sw_fault_flip_is_due(const sw_executor *executor, const sw_fault *fault,
                          const sw_boundary *boundary, bool is_after);
bool sw_fault_flip_file_is_due(const char *folder, const sw_fault *fault);

/* Flip the fault's bit, which is due. Errors: SW_BAD_CONFIG: the buffer or file has no such bit. */
sw_status sw_fault_flip(sw_executor *executor, const sw_fault *fault, const sw_boundary *boundary,
                        sw_error *err);
sw_status sw_fault_flip_file(const char *folder, const sw_fault *fault, sw_error *err);

#endif
