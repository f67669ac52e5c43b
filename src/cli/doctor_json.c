/* doctor_json.c: see doctor.h. */
#include "cli/doctor.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <shardwise/status.h>

#include "device/cpu/choice.h"
#include "device/cpu/cores.h"
#include "device/cpu/open.h"
#include "observe/resident.h"

static json_t *features(const char *flags) {
    static const char *const matter[] = {"avx2",     "fma",         "avx512f",
                                         "avx512bw", "avx512_bf16", "amx_bf16"};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof matter / sizeof *matter; i++) {
        size_t n = strlen(matter[i]);
        bool is_there = false;
        for (const char *at = flags; (at = strstr(at, matter[i])); at += n)
            is_there = is_there || ((at == flags || at[-1] == ' ') && (at[n] == ' ' || !at[n]));
        json_object_set_new(object, matter[i], json_boolean(is_there));
    }
    return object;
}

static json_t *kernels(void) {
    json_t *runs = json_array();
    for (sw_kernel_set set = 0; set < SW_N_KERNEL_SETS; set++)
        if (sw_kernel_set_runs_here(set))
            json_array_append_new(runs, json_string(sw_kernel_set_name(set)));
    return json_pack("{s:o, s:s}", "run_here", runs, "used",
                     sw_kernel_set_name(sw_kernel_set_best()));
}

static json_t *product(sw_number_kind numbers) {
    sw_gemm_choice choice;
    sw_gemm_choose(sw_kernel_set_best(), numbers, false, &choice);
    return json_pack("{s:s, s:s}", "by", sw_gemm_kind_name(choice.kind), "reason", choice.reason);
}

static json_t *memory(void) {
    sw_available_memory available;
    json_t *bytes = json_null(), *limit = json_null();
    if (!sw_available_memory_read("", &available, NULL)) {
        bytes = json_integer(available.bytes);
        limit = json_string(available.limit);
    }
    return json_pack("{s:I, s:o, s:o}", "bytes",
                     (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), "available_bytes",
                     bytes, "limited_by", limit);
}

static json_t *limit(int resource) {
    struct rlimit found;
    bool is_known =
        !getrlimit((__rlimit_resource_t)resource, &found) && found.rlim_cur != RLIM_INFINITY;
    return is_known ? json_integer((json_int_t)found.rlim_cur) : json_null();
}

json_t *sw_doctor_object(const char *cpu, const char *cpu_flags, bool has_windows) {
    sw_cores cores;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sw_cores_find(&cores);
    int n_threads = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:o, s:o, s:{s:o, s:o}, s:o, s:{s:o, s:o, s:o, s:o}, s:o}", "version",
        sw_version(), "cpu", cpu, "threads", n_threads, "cores", cores.n, "features",
        features(cpu_flags), "kernels", kernels(), "products", "fp32", product(SW_NUMBERS_F32),
        "bf16", product(SW_NUMBERS_BF16), "memory", memory(), "limits", "processes",
        limit(RLIMIT_NPROC), "open_files", limit(RLIMIT_NOFILE), "locked_memory_bytes",
        limit(RLIMIT_MEMLOCK), "address_space_bytes", limit(RLIMIT_AS), "missing",
        has_windows ? json_array() : json_pack("[s]", "memfd"));
}
