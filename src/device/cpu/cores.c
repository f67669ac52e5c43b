/* cores.c: reading the machine with hwloc and its control groups, and sharing its cores out. */
#include "device/cpu/cores.h"

#include <hwloc.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/proc_text.h"

static void add(sw_cores *cores, int cpu) {
    if (cpu >= 0 && cores->n_found < SW_MAX_CORES)
        cores->cpu[cores->n_found++] = cpu;
}

/* Without a /sys that shows the processors (some containers) hwloc's readers of this machine find
 * none, and say so on stderr. */
static bool shows_processors(void) {
    return access("/sys/devices/system/cpu", R_OK | X_OK) == 0 ||
           access("/sys/bus/cpu/devices", R_OK | X_OK) == 0;
}

/* hwloc asks with larger and larger sets, and for ever where the kernel never answers. */
static bool tells_affinity(void) {
    unsigned long allowed[1024] = {0}; /* 65,536 processors */
    return sched_getaffinity(0, sizeof allowed, (cpu_set_t *)allowed) == 0;
}

/* Packages and caches are kept for the order of cores that follows from them; nothing else is asked
 * for, as asking takes time. */
static void read_machine(sw_cores *cores) {
    hwloc_topology_t machine;
    if (!tells_affinity())
        return;
    if (hwloc_topology_init(&machine))
        return;
    hwloc_topology_set_all_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_flags(machine, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
                                          HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
    if (!shows_processors()) {
        hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
        hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    }
    if (!hwloc_topology_load(machine)) {
        int n = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_CORE);
        for (int c = 0; c < n; c++)
            add(cores, hwloc_bitmap_first(
                           hwloc_get_obj_by_type(machine, HWLOC_OBJ_CORE, (unsigned)c)->cpuset));
    }
    hwloc_topology_destroy(machine);
}

/* Lower the quota `to` to that of the group: microseconds of running in a period of so many. */
static void apply_quota(void *to, const char *root, const char folder[SW_GROUP_FOLDER_BYTES],
                        bool is_version_1) {
    char path[2 * SW_GROUP_FOLDER_BYTES], text[SW_PROC_TEXT_BYTES];
    double *quota = to;
    int64_t running, period = 0;
    snprintf(path, sizeof path, "%s%s/%s", root, folder,
             is_version_1 ? "cpu.cfs_quota_us" : "cpu.max");
    if (!sw_proc_text_read(path, text) || !sw_proc_text_find(text, "", &running) || running <= 0)
        return; /* "max", -1, or no such file: no limit */
    snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, folder);
    if (is_version_1 ? sw_kernel_number_read(path, &period)
                     : sscanf(text, "%*s %" SCNd64, &period) == 1)
        *quota = period > 0 ? fmin(*quota, (double)running / (double)period) : *quota;
}

double sw_cores_quota(const char *root) {
    double quota = INFINITY;
    sw_control_groups_visit(root, "cpu", apply_quota, &quota);
    return quota;
}

void sw_cores_find(sw_cores *cores) {
    cores->n_found = 0;
    read_machine(cores);
    cpu_set_t allowed;
    if (cores->n_found == 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed))
                add(cores, cpu);
    if (cores->n_found == 0)
        add(cores, 0);
    cores->n = (int)fmin(cores->n_found, ceil(sw_cores_quota("")));
}

int sw_cores_count(void) {
    sw_cores cores;
    sw_cores_find(&cores);
    return cores.n;
}

bool sw_cores_of_rank(const sw_cores *cores, int n_ranks, int n_threads, int rank, int *cpus) {
    if (cores->n < cores->n_found || (int64_t)n_ranks * n_threads > cores->n)
        return false;
    int first = (int)((int64_t)rank * cores->n / n_ranks);
    for (int t = 0; t < n_threads; t++)
        cpus[t] = cores->cpu[first + t];
    return true;
}
