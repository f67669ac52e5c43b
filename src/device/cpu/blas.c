/* blas.c: OpenBLAS, loaded when it is wanted rather than linked: it reads its environment when it
 * is loaded, and both the number of threads and the core type have to be settled before.
 *
 * Versions of OpenBLAS older than a CPU take it for a generic one, several times slower; so the
 * core type follows from the kernel set, unless the user has set OPENBLAS_CORETYPE.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cpu/cpu.h"
#include "device/cpu/open.h"

/* The core type to ask for; NULL: leave it to the library. Haswell's kernels need AVX2 and FMA,
 * SkylakeX's AVX-512. */
static const char *core_type(sw_kernel_set set) {
    return set == SW_SET_V4 ? "SkylakeX" : set == SW_SET_V3 ? "Haswell" : NULL;
}

/* An environment variable that has a value for a while. */
typedef struct lent_variable {
    const char *name;
    char *before; /* NULL: it was not set */
    bool is_set;
} lent_variable;

static lent_variable lend_variable(const char *name, const char *value) {
    const char *before = getenv(name);
    lent_variable lent = {name, before ? strdup(before) : NULL, false};
    if (!before || lent.before)
        lent.is_set = setenv(name, value, 1) == 0;
    return lent;
}

static void restore_variable(lent_variable *lent) {
    if (lent->is_set && lent->before)
        setenv(lent->name, lent->before, 1);
    else if (lent->is_set)
        unsetenv(lent->name);
    free(lent->before);
}

static void *load_library(void) {
    static const char *const names[] = {
        "libopenblas.so.0",
#if defined(__x86_64__)
        "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
#elif defined(__aarch64__)
        "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
#endif
        "libopenblas.so"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

/* Second word of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
static void version_of(const char *config, char version[16]) {
    if (!config || sscanf(config, "%*s %15s", version) != 1)
        snprintf(version, 16, "?");
}

/* The environment is the process's: ranks that are threads take turns. `*core`: the core type that
 * was asked for, or NULL. */
static void *load_with_settings(sw_kernel_set set, const char **core) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    *core = getenv("OPENBLAS_CORETYPE") ? NULL : core_type(set);
    lent_variable threads = lend_variable("OPENBLAS_NUM_THREADS", "1"), type = {0};
    if (*core)
        type = lend_variable("OPENBLAS_CORETYPE", *core);
    void *library = load_library();
    if (*core)
        restore_variable(&type);
    restore_variable(&threads);
    pthread_mutex_unlock(&turn);
    return library;
}

/* At its first product OpenBLAS maps 128 MiB to work in, and where these cannot be had (ulimit -v)
 * it tries for ever. So look first, with some room for what else is mapped until then. */
static bool has_room_to_work(void) {
    const size_t bytes = (128 + 2) << 20;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
}

void sw_blas_load(sw_kernel_set set, sw_blas *blas) {
    *blas = (sw_blas){0};
    const char *core;
    void *library = load_with_settings(set, &core);
    if (!library) {
        snprintf(blas->note, sizeof blas->note,
                 "no OpenBLAS was found (libopenblas.so.0): the plain kernel multiplies, more "
                 "slowly; install OpenBLAS");
        return;
    }
    sw_cblas_sgemm_fn sgemm;
    char *(*corename)(void), *(*config)(void);
    int (*n_threads)(void);
    void (*set_threads)(int);
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&corename = dlsym(library, "openblas_get_corename");
    *(void **)&config = dlsym(library, "openblas_get_config");
    *(void **)&n_threads = dlsym(library, "openblas_get_num_threads");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (!sgemm || !corename || !config || !n_threads || !set_threads) {
        snprintf(blas->note, sizeof blas->note,
                 "the libopenblas.so.0 found lacks cblas_sgemm or openblas_get_...: the plain "
                 "kernel multiplies");
        return; /* a library that started threads must not be unloaded */
    }
    if (!has_room_to_work()) {
        snprintf(blas->note, sizeof blas->note,
                 "no address space for the 128 MiB in which OpenBLAS works: the plain kernel "
                 "multiplies, more slowly; raise "
                 "ulimit -v");
        return;
    }
    if (n_threads() != 1)
        set_threads(1); /* it was loaded before us, by the program or its environment */
    char version[16];
    version_of(config(), version);
    snprintf(blas->name, sizeof blas->name, "openblas %s %s", version, corename());
    blas->sgemm = sgemm;
    if (core && strcasecmp(core, corename()) != 0)
        snprintf(blas->note, sizeof blas->note,
                 "OpenBLAS %s runs as %s where %s was asked for: it may be slower than it could be",
                 version, corename(), core);
}
