/* cores.c: reading the machine with hwloc, and sharing its cores out. */
#include "device/cpu/cores.h"

#include <hwloc.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

static void add(sw_cores *cores, int cpu) {
    if (cpu >= 0 && cores->n < SW_MAX_CORES)
        cores->cpu[cores->n++] = cpu;
}

/* Without a /sys that shows the processors (some containers) hwloc's readers of this machine find none, and say so on stderr. */
static bool shows_processors(void) {
    return access("/sys/devices/system/cpu", R_OK | X_OK) == 0 || access("/sys/bus/cpu/devices", R_OK | X_OK) == 0;
}

/* Packages and caches are kept for the order of cores that follows from them; nothing else is asked for, as asking takes time. */
static void read_machine(sw_cores *cores) {
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine))
        return;
    hwloc_topology_set_all_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(machine, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_flags(machine, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
    if (!shows_processors()) {
        hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
        hwloc_topology_set_components(machine, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    }
    if (!hwloc_topology_load(machine)) {
        int n = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_CORE);
        for (int c = 0; c < n; c++)
            add(cores, hwloc_bitmap_first(hwloc_get_obj_by_type(machine, HWLOC_OBJ_CORE, (unsigned)c)->cpuset));
    }
    hwloc_topology_destroy(machine);
}

void sw_cores_find(sw_cores *cores) {
    cores->n = 0;
    read_machine(cores);
    cpu_set_t allowed;
    if (cores->n == 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed))
                add(cores, cpu);
    if (cores->n == 0)
        add(cores, 0);
}

int sw_cores_count(void) {
    sw_cores cores;
    sw_cores_find(&cores);
    return cores.n;
}

bool sw_cores_of_rank(const sw_cores *cores, int n_ranks, int n_threads, int rank, int *cpus) {
    if ((int64_t)n_ranks * n_threads > cores->n)
        return false;
    int first = (int)((int64_t)rank * cores->n / n_ranks);
    for (int t = 0; t < n_threads; t++)
        cpus[t] = cores->cpu[first + t];
    return true;
}
