/* fault_calls.h: what a run says to the library that lets system calls fail
 * (preload/fault_calls.c).
 *
 * The library stands before libc: it is loaded first (LD_PRELOAD), and takes the calls that get
 * memory and those that change files. It reads nothing by itself; until it is armed, every call
 * goes through. The run finds it by the names of its two functions.
 */
#ifndef SW_FAULTS_FAULT_CALLS_H
#define SW_FAULTS_FAULT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sw_call_fault {
    bool is_write; /* calls that change a file; else calls that get memory */
    int64_t k, n; /* the k-th of this process from now on fails, counted from 1, and those after it:
                     n in all */
    int error;    /* errno; 0: writes take half of what they are given, and only writes of several
                     bytes count */
    const char *file; /* a pattern of fnmatch over the whole path, "": any file */
    void (*told)(void *self, const char *call); /* before a call fails; must not allocate */
    void *self;
} sw_call_fault;

enum { SW_MAX_CALL_FAULTS = 16 };

/* In the process that calls it, not in those that it forks. False: there are SW_MAX_CALL_FAULTS
 * already. `file` and `self` must stay until it is called with NULL, which lets all calls through
 * again. Not by two threads at once. */
typedef bool (*sw_fault_calls_arm_fn)(const sw_call_fault *fault);
#define SW_FAULT_CALLS_ARM "sw_fault_calls_arm"

/* While a thread passes, its calls go through and do not count: those that write down what has
 * struck. Returns whether it passed before. */
typedef bool (*sw_fault_calls_pass_fn)(bool passes);
#define SW_FAULT_CALLS_PASS "sw_fault_calls_pass"

#define SW_FAULT_CALLS_FILE "libshardwise-faults.so"

#endif
