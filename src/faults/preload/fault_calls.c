/* fault_calls.c: a library that stands before libc and lets chosen calls fail. See
 * faults/fault_calls.h.
 *
 * An interposer has no caller that could hand it a state, so what is armed lies in variables of
 * this file, as nowhere else in the project. Calls are counted with atomics: all threads of a
 * process count together. A call made while one is being told of goes through. Writes of an
 * io_uring cannot be taken, so rings are refused as an old kernel would, and all writes are calls.
 */
#include "faults/fault_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct armed_fault {
    sw_call_fault fault;
    pid_t pid;
    _Atomic int64_t n_calls;
} armed_fault;

static armed_fault armed[SW_MAX_CALL_FAULTS];
static _Atomic int n_armed;
static __thread bool passes; /* this thread's calls go through */

EXPORTED bool sw_fault_calls_arm(const sw_call_fault *fault);
EXPORTED bool sw_fault_calls_arm(const sw_call_fault *fault) {
    int n = atomic_load(&n_armed);
    if (!fault)
        atomic_store(&n_armed, 0);
    if (!fault || n == SW_MAX_CALL_FAULTS)
        return !fault;
    armed[n].fault = *fault;
    armed[n].pid = getpid();
    atomic_store(&armed[n].n_calls, 0);
    atomic_store(&n_armed, n + 1);
    return true;
}

EXPORTED bool sw_fault_calls_pass(bool now);
EXPORTED bool sw_fault_calls_pass(bool now) {
    bool before = passes;
    passes = now;
    return before;
}

/* Is it this call's turn? */
static bool is_due(armed_fault *a, const char *call) {
    int64_t count = atomic_fetch_add(&a->n_calls, 1) + 1;
    if (count < a->fault.k || count - a->fault.k >= a->fault.n)
        return false;
    passes = true;
    a->fault.told(a->fault.self, call);
    passes = false;
    return true;
}

static bool is_refused(const char *call) {
    int n = atomic_load(&n_armed);
    if (!n || passes)
        return false;
    for (int i = 0; i < n; i++)
        if (!armed[i].fault.is_write && armed[i].pid == getpid() && is_due(&armed[i], call)) {
            errno = ENOMEM;
            return true;
        }
    return false;
}

/* ---- memory ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

EXPORTED void *malloc(size_t bytes) {
    return is_refused("malloc") ? NULL : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t n, size_t bytes) {
    return is_refused("calloc") ? NULL : __libc_calloc(n, bytes);
}

EXPORTED void *realloc(void *memory, size_t bytes) {
    return is_refused("realloc") ? NULL : __libc_realloc(memory, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) {
    return is_refused("aligned_alloc") ? NULL : __libc_memalign(alignment, bytes);
}

EXPORTED int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    *memory = is_refused("posix_memalign") ? NULL : __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

EXPORTED void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor,
                    off_t offset) {
    if (is_refused("mmap"))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
}

/* hwloc does not look whether it got what it asked for: a process that is short of memory while it
 * reads the machine ends there, and nothing of ours can help it. What it asks for does not
 * count. */
static int pass_over(const char *name, void *topology) {
    int (*call)(void *);
    *(void **)&call = dlsym(RTLD_NEXT, name);
    bool passed = passes;
    passes = true;
    int result = call ? call(topology) : -1;
    passes = passed;
    return result;
}

EXPORTED int hwloc_topology_init(void *topology);
EXPORTED int hwloc_topology_init(void *topology) {
    return pass_over("hwloc_topology_init", topology);
}

EXPORTED int hwloc_topology_load(void *topology);
EXPORTED int hwloc_topology_load(void *topology) {
    return pass_over("hwloc_topology_load", topology);
}

/* ---- files ---- */

/* A path that lies in the file system, "" for pipes, terminals and memory. */
static void find_path(int descriptor, char path[PATH_MAX]) {
    char link[64];
    struct stat info;
    *path = 0;
    if (fstat(descriptor, &info) || !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    if (!strncmp(path, "/memfd:", 7))
        *path = 0;
}

/* The errno that the call shall give, 0: none. *is_cut: the write shall take half. `bytes`: of a
 * write, else 0. */
static int error_of(const char *call, int descriptor, const char *name, size_t bytes,
                    bool *is_cut) {
    int n = atomic_load(&n_armed), kept = errno, error = 0;
    char path[PATH_MAX] = "";
    bool is_known = false;
    *is_cut = false;
    for (int i = 0; i < n && !passes && !error && !*is_cut; i++) {
        armed_fault *a = &armed[i];
        if (!a->fault.is_write || a->pid != getpid() || (!a->fault.error && bytes < 2))
            continue;
        if (!is_known && name)
            snprintf(path, sizeof path, "%s", name);
        else if (!is_known)
            find_path(descriptor, path);
        is_known = true;
        if (!*path || (*a->fault.file && fnmatch(a->fault.file, path, 0)) || !is_due(a, call))
            continue;
        error = a->fault.error;
        *is_cut = !error;
    }
    errno = kept;
    return error;
}

static bool is_failed(const char *call, int descriptor, const char *name) {
    bool is_cut;
    int error = error_of(call, descriptor, name, 0, &is_cut);
    if (error)
        errno = error;
    return error;
}

EXPORTED ssize_t write(int descriptor, const void *data, size_t bytes) {
    bool is_cut;
    int error = error_of("write", descriptor, NULL, bytes, &is_cut);
    if (!error)
        return syscall(SYS_write, descriptor, data, is_cut ? bytes / 2 : bytes);
    errno = error;
    return -1;
}

EXPORTED ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
    bool is_cut;
    int error = error_of("pwrite", descriptor, NULL, bytes, &is_cut);
    if (!error)
        return syscall(SYS_pwrite64, descriptor, data, is_cut ? bytes / 2 : bytes, offset);
    errno = error;
    return -1;
}

EXPORTED int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    bool changes = flags & O_CREAT || (flags & O_ACCMODE) != O_RDONLY;
    if (changes && is_failed("open", -1, path))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

EXPORTED int fsync(int descriptor) {
    return is_failed("fsync", descriptor, NULL) ? -1 : (int)syscall(SYS_fsync, descriptor);
}

EXPORTED int ftruncate(int descriptor, off_t bytes) {
    return is_failed("ftruncate", descriptor, NULL)
               ? -1
               : (int)syscall(SYS_ftruncate, descriptor, bytes);
}

EXPORTED int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
    return is_failed("fallocate", descriptor, NULL)
               ? -1
               : (int)syscall(SYS_fallocate, descriptor, mode, offset, bytes);
}

EXPORTED int rename(const char *from, const char *to) {
    return is_failed("rename", -1, from)
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORTED int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                       unsigned int flags) {
    return is_failed("renameat2", -1, from)
               ? -1
               : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

EXPORTED int mkdir(const char *path, mode_t mode) {
    return is_failed("mkdir", -1, path) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

EXPORTED int symlink(const char *target, const char *path) {
    return is_failed("symlink", -1, path) ? -1
                                          : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

struct io_uring;
EXPORTED int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
EXPORTED int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags) {
    (void)entries, (void)ring, (void)flags;
    return -ENOSYS;
}
