/* mpi_load.c: see mpi_load.h. */
#include "comm/mpi_load.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sw_mpi_find(const char *kind, char path[SW_MPI_PATH_BYTES]) {
    char own[SW_MPI_PATH_BYTES] = "";
    Dl_info found;
    const char *named = getenv("SHARDWISE_MPI_FOLDER");
    /* Of the shared library, else of the command, which has the code in itself. */
    if (dladdr((void *)(uintptr_t)sw_mpi_find, &found) && found.dli_fname &&
        strchr(found.dli_fname, '/') && strstr(found.dli_fname, "libshardwise")) {
        snprintf(own, sizeof own, "%s", found.dli_fname);
    } else {
        ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
        own[n > 0 ? n : 0] = 0;
    }
    char *name = strrchr(own, '/');
    if (name)
        *name = 0;
    /* Beside it, as built; and where it is installed with it, wherever both were moved to. */
    static const char *const from_own[] = {".", "shardwise", SW_PLUGINS_FROM_COMMAND};
    for (size_t i = 0; i < sizeof from_own / sizeof *from_own; i++) {
        int n = snprintf(path, SW_MPI_PATH_BYTES, "%s/%s/libshardwise-mpi-%s.so",
                         named ? named : own, named ? "." : from_own[i], kind);
        if (n < SW_MPI_PATH_BYTES && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

sw_status sw_mpi_load(const char *kind, const sw_mpi_table **table, sw_error *err) {
    char path[SW_MPI_PATH_BYTES];
    const char *package = strcmp(kind, "openmpi") ? "libmpich-dev" : "libopenmpi-dev";
    if (strcmp(kind, "openmpi") != 0 && strcmp(kind, "mpich") != 0)
        return sw_fail(err, SW_BAD_CONFIG,
                       "SHARDWISE_MPI=%.40s is neither openmpi nor mpich · environment", kind);
    if (!sw_mpi_find(kind, path))
        return sw_fail(err, SW_BAD_CONFIG,
                       "hosts talk by MPI, but libshardwise-mpi-%s.so is not there · beside the "
                       "command, or in %s · install %s and build again",
                       kind, SW_PLUGIN_FOLDER, package);
    /* Global: parts of an MPI that it loads itself look for its functions. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return sw_fail(err, SW_BAD_CONFIG, "%s cannot be loaded: %s · is that MPI installed here?",
                       path, dlerror());
    *table = dlsym(library, SW_MPI_TABLE_NAME);
    if (*table && (*table)->version == SW_MPI_TABLE_VERSION)
        return SW_OK; // cppcheck-suppress resourceLeak
    dlclose(library);
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s is of another version of shardwise · install both from one build", path);
}
