/* shm_trap.c: a fault in a window becomes an error with a name.
 *
 * In trap mode the executor forbids what is not gathered (sw_comm_protect). A use of it faults at
 * the exact instruction; the handler says which window, where, and what the lane had entered,
 * raises the abort word and ends the process. Any other fault is left to kill the process as usual.
 * Everything here is async-signal-safe: no allocation, no stdio.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/reason.h"
#include "comm/shm.h"

enum { STACK_BYTES = 64 << 10 };

/* A signal handler has no argument: the one piece of process-wide state. Written once, before the
 * handler is installed. */
static sw_comm *trapped_comm;

typedef struct line {
    char *text;
    size_t length, capacity;
} line;

static void add_text(line *l, const char *text) {
    for (; *text && l->length + 1 < l->capacity; text++)
        l->text[l->length++] = *text;
    l->text[l->length] = 0;
}

static void add_number(line *l, int64_t number) {
    char digits[24];
    int n = sizeof digits - 1;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    digits[n] = 0;
    do
        digits[--n] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--n] = '-';
    add_text(l, digits + n);
}

static const char *verb_of_fault(const void *context) {
#if defined(__x86_64__)
    enum { WAS_WRITE = 2 };
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WAS_WRITE ? "wrote" : "read";
#elif defined(__aarch64__)
    /* Records follow the registers; an emulator may leave out the one with the cause of the
     * fault. */
    enum { WAS_WRITE = 1 << 6 };
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
    const struct _aarch64_ctx *record = (const struct _aarch64_ctx *)machine->__reserved;
    while (record->magic && record->magic != ESR_MAGIC && record->size)
        record = (const struct _aarch64_ctx *)((const char *)record + record->size);
    if (record->magic == ESR_MAGIC)
        return ((const struct esr_context *)record)->esr & WAS_WRITE ? "wrote" : "read";
    return "used";
#else
    (void)context;
    return "used";
#endif
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    sw_comm *comm = trapped_comm;
    const sw_shm *shm = comm->transport;
    const char *address = info->si_code > 0
                              ? info->si_addr
                              : NULL; /* a process that sends the signal gives no address */
    const sw_shm_window *window = shm->windows;
    while (window && !(address >= window->base && address < window->base + window->bytes))
        window = window->next;
    if (!window) { /* none of ours: fault again, without a handler; a signal that someone sent does
                      not come again by itself */
        signal(signal_number, SIG_DFL);
        if (info->si_code <= 0)
            raise(signal_number);
        errno = saved_errno;
        return;
    }
    /* Who has entered something is a lane's own thread; all others compute for the first lane. */
    int lane = SW_LANES - 1;
    while (lane >= 0 && atomic_load(&shm->mine->lane[lane].thread) != gettid())
        lane--;
    sw_lane_record doing;
    sw_lane_load(&shm->mine->lane[lane < 0 ? SW_LANE_COMPUTE : lane], &doing);
    sw_error error = {.status = SW_BUG};
    line l = {error.message, 0, sizeof error.message};
    add_text(&l, "rank "), add_number(&l, comm->rank),
        add_text(&l, lane < 0                        ? " (a compute thread of lane 0) "
                     : lane == SW_LANE_COMMUNICATION ? " (lane 1, which moves bytes) "
                                                     : " "),
        add_text(&l, verb_of_fault(context));
    add_text(&l, " window \""), add_text(&l, window->name), add_text(&l, "\" at offset "),
        add_number(&l, address - window->base);
    add_text(&l, ", which is not open to it now, while in \""), add_text(&l, doing.label);
    add_text(&l, "\"");
    if (doing.step)
        add_text(&l, " at step "), add_number(&l, doing.step), add_text(&l, ", slot "),
            add_number(&l, doing.slot);
    add_text(&l, "; a parameter is used outside its gather, or a slice written outside the update");
    sw_control_abort(comm->control, &error);
    _exit(1);
}

sw_status sw_shm_trap_install(sw_comm *comm, sw_error *err) {
    void *memory =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory, .ss_size = STACK_BYTES};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (memory == MAP_FAILED)
        return sw_fail_call(err, SW_CALL_MEMORY, errno,
                            "rank %d: no stack for the handler of trap mode", comm->rank);
    trapped_comm = comm;
    if (sigaltstack(&stack, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0)
        return SW_OK;
    sw_fail_call(err, SW_CALL_MEMORY, errno,
                 "rank %d: the handler of trap mode could not be installed", comm->rank);
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(memory, STACK_BYTES);
    return SW_NO_MEMORY;
}
