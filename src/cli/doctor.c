/* doctor.c: shardwise doctor: what this machine has, what is missing, how to get it. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <yaml.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/reason.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "comm/mpi_load.h"
#include "device/cpu/choice.h"
#include "device/cpu/cores.h"
#include "device/cpu/cpu.h"
#include "device/cpu/open.h"
#include "observe/resident.h"

/* The value after "key :" in a file of such lines, as in /proc/cpuinfo; "" if there is none. */
static char *read_field(const char *path, const char *key, char *buffer, size_t bytes) {
    char line[4096];
    FILE *file = fopen(path, "re");
    *buffer = 0;
    while (file && !*buffer && fgets(line, sizeof line, file)) {
        size_t n_key = strlen(key);
        char *colon = strchr(line, ':');
        if (strncmp(line, key, n_key) || !colon ||
            line + n_key + strspn(line + n_key, " \t") != colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(buffer, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (file)
        fclose(file);
    return buffer;
}

/* The first line of a file, "" if there is none. */
static char *read_line(const char *path, char *buffer, size_t bytes) {
    FILE *file = fopen(path, "re");
    *buffer = 0;
    if (file && fgets(buffer, (int)bytes, file))
        buffer[strcspn(buffer, "\n")] = 0;
    if (file)
        fclose(file);
    return buffer;
}

/* What the CPU is called. */
static const char *cpu_model(char *model, size_t bytes) {
#if defined(__x86_64__)
    return read_field("/proc/cpuinfo", "model name", model, bytes);
#else
    char name[SW_CPU_NAME_BYTES];
    sw_cpu_name(name);
    snprintf(model, bytes, "%s", name);
    return model;
#endif
}

/* How many cores ranks and threads are shared out over. */
static void show_cores(void) {
    sw_cores cores;
    const double quota = sw_cores_quota("");
    sw_cores_find(&cores);
    printf("cores      %d", cores.n);
    if (cores.n < cores.n_found)
        printf(" of %d: the control group allows %g processors' time, so none is pinned",
               cores.n_found, quota);
    printf("\n");
}

static void show_flags(void) {
#if defined(__x86_64__)
    static const char *const matter[] = {"avx2",     "fma",         "avx512f",
                                         "avx512bw", "avx512_bf16", "amx_bf16"};
    char flags[4096];
    read_field("/proc/cpuinfo", "flags", flags, sizeof flags);
    printf("flags     ");
    for (size_t i = 0; i < sizeof matter / sizeof *matter; i++) {
        const char *found = strstr(flags, matter[i]);
        char after = found ? found[strlen(matter[i])] : 'x';
        printf(" %s%s", after == ' ' || !after ? "" : "no ", matter[i]);
        printf(i + 1 < sizeof matter / sizeof *matter ? "," : "\n");
    }
#else
    printf("tuned      no kernels are tuned for this kind of CPU yet; the portable ones give the "
           "same bits as on any other\n");
#endif
}

static void show_cpu(void) {
    char model[256];
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    int n_cores = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    printf("CPU        %s, %d of %ld threads of it may be used\n", cpu_model(model, sizeof model),
           n_cores, sysconf(_SC_NPROCESSORS_ONLN));
    show_flags();
    printf("kernels   ");
    for (sw_kernel_set set = 0;
         set < SW_N_KERNEL_SETS && sw_kernel_set_table_of(SW_NUMBERS_F32, set); set++)
        printf("%s%s%s", set ? ", " : " ", sw_kernel_set_runs_here(set) ? "" : "no ",
               sw_kernel_set_name(set));
    printf("; used: %s, unless train.kernels names another\n",
           sw_kernel_set_name(sw_kernel_set_best()));
}

/* Who multiplies matrices in runs, and whether the machine file says so. */
static void show_products(void) {
    const sw_kernel_set set = sw_kernel_set_best();
    for (int numbers = 0; numbers < 2; numbers++) {
        sw_gemm_choice choice;
        sw_gemm_choose(set, numbers ? SW_NUMBERS_BF16 : SW_NUMBERS_F32, false, &choice);
        printf("products   %s: %s; %s\n", numbers ? "bf16" : "fp32", sw_gemm_kind_name(choice.kind),
               choice.reason);
    }
    char path[SW_PATH_BYTES];
    sw_machine machine;
    sw_error err = {0};
    if (sw_machine_path(path, &err))
        printf("measured   %s\n", err.message);
    else if (!sw_file_exists(path))
        printf("measured   there is no machine file %s; shardwise bench gemm writes one\n", path);
    else if (sw_machine_read(path, &machine, &err))
        printf("measured   not usable: %s\n", err.message);
    else if (!sw_machine_is_this(&machine, set))
        printf("measured   %s is of %s, kernels %s, version %s: not this machine; measure again: "
               "shardwise bench gemm\n",
               path, machine.cpu, sw_kernel_set_name(machine.set), machine.version);
    else
        printf("measured   %s\n", path);
}

/* The BLAS as ranks would open it. */
static void show_blas(void) {
    sw_device *device = NULL;
    sw_error err = {0};
    if (sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best(), .gemm = SW_GEMM_BLAS}, &device,
                    &err)) {
        printf("BLAS       cannot be opened: %s\n", err.message);
        return;
    }
    bool is_found = strcmp(device->gemm, "plain") != 0;
    const char *note = sw_cpu_gemm_note(device);
    printf("BLAS       %s%s%s\n",
           is_found ? device->gemm : "none; it is used only where it is measured to be the fastest",
           *note ? "; " : "", note);
    device->close(device);
}

static void show_memory(void) {
    char total[64], available[64], first[SW_TEXT_NUMBER_BYTES], second[SW_TEXT_NUMBER_BYTES];
    sw_available_memory left;
    int64_t total_bytes =
        strtoll(read_field("/proc/meminfo", "MemTotal", total, sizeof total), NULL, 10) * 1024;
    int64_t available_bytes =
        strtoll(read_field("/proc/meminfo", "MemAvailable", available, sizeof available), NULL,
                10) *
        1024;
    printf("memory     %s, %s available", sw_text_bytes(total_bytes, first, sizeof first),
           sw_text_bytes(available_bytes, second, sizeof second));
    if (!sw_available_memory_read("", &left, NULL) && left.bytes < available_bytes)
        printf("; runs can take %s of it: what the control group leaves (%s)",
               sw_text_bytes(left.bytes, first, sizeof first), left.limit);
    char overcommit[32];
    printf("; overcommit mode %s\n",
           read_line("/proc/sys/vm/overcommit_memory", overcommit, sizeof overcommit));
}

/* Ranks share windows through memfd. Returns 0 where that works, else why not. */
static int show_shared_memory(bool is_silent) {
    enum { WINDOW_BYTES = 4096 };
    int window = memfd_create("shardwise-doctor", MFD_CLOEXEC);
    bool works = window >= 0 && !ftruncate(window, WINDOW_BYTES);
    void *map = works ? mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, window, 0)
                      : MAP_FAILED;
    int error = map != MAP_FAILED ? 0 : errno;
    const char *problem = error ? strerror(error) : "works";
    if (map != MAP_FAILED)
        munmap(map, WINDOW_BYTES);
    if (window >= 0)
        close(window);
    if (is_silent)
        return error;
    struct statvfs facts;
    char size[SW_TEXT_NUMBER_BYTES] = "absent";
    if (!statvfs("/dev/shm", &facts))
        sw_text_bytes((int64_t)facts.f_blocks * (int64_t)facts.f_frsize, size, sizeof size);
    printf("windows    memfd: %s; /dev/shm: %s (not needed)\n", problem, size);
    return error;
}

/* Hosts talk by MPI; one host needs none. */
static void show_mpi(void) {
    static const char *const kinds[] = {"openmpi", "mpich"};
    char path[SW_MPI_PATH_BYTES];
    int n = 0;
    printf("hosts      ");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (sw_mpi_find(kinds[i], path))
            printf("%s%s", n++ ? ", " : "by MPI: ", kinds[i]);
    printf("%s\n", n ? ""
                     : "one: no plug-in for MPI was built, which only several hosts need; install "
                       "libopenmpi-dev or libmpich-dev and build again");
}

static void show_limit(const char *name, int resource, bool is_bytes) {
    struct rlimit limit;
    char text[SW_TEXT_NUMBER_BYTES];
    if (getrlimit((__rlimit_resource_t)resource, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, sizeof text, "unlimited");
    else if (is_bytes)
        sw_text_bytes((int64_t)limit.rlim_cur, text, sizeof text);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur);
    printf("%s %s", name, text);
}

static void show_limits(void) {
    show_limit("limits     processes", RLIMIT_NPROC, false);
    show_limit(", open files", RLIMIT_NOFILE, false);
    show_limit(", locked memory", RLIMIT_MEMLOCK, true);
    show_limit(", address space", RLIMIT_AS, true);
    printf("\n");
}

static sw_status refuse_windows(int error, sw_error *err) {
    const char *hint = sw_call_hint(SW_CALL_MEMORY, error);
    return sw_fail(err, SW_BAD_CONFIG, "ranks cannot share memory: %s · this machine (memfd) · %s",
                   strerror(error), *hint ? hint : "is a sandbox in the way?");
}

static sw_status show_json(sw_error *err) {
    char model[256], flags[4096];
    int error = show_shared_memory(true);
    json_t *object =
        sw_doctor_object(cpu_model(model, sizeof model),
                         read_field("/proc/cpuinfo", "flags", flags, sizeof flags), !error);
    if (!object)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the report · shardwise doctor");
    json_dumpf(object, stdout, 0);
    putchar('\n');
    json_decref(object);
    return error ? refuse_windows(error, err) : SW_OK;
}

static sw_status doctor(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, as_json = false, goes_on;
    const sw_flag flags[] = {{"--json", NULL, "print one JSON object", SW_FLAG_SWITCH, &as_json},
                             {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help}};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others = 0;
    sw_status status = sw_arguments_begin(&sw_verb_doctor, n_arguments, arguments, flags, N_FLAGS,
                                          0, "shardwise doctor", &others, &n_others, &goes_on, err);
    if (!status && n_others)
        status = sw_fail(err, SW_BAD_CONFIG, "%.100s: no argument is taken · shardwise doctor",
                         others[0]);
    free(others);
    if (!status && help)
        sw_arguments_help(&sw_verb_doctor, flags, N_FLAGS);
    if (status || !goes_on)
        return status;
    if (as_json)
        return show_json(err);
    char pcre2[64] = "?";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    printf("shardwise  %s, built with %s; glibc %s, jansson %s, libyaml %s, PCRE2 %s\n",
           sw_version(),
#ifdef __clang__
           "clang " __clang_version__,
#else
           "gcc " __VERSION__,
#endif
           gnu_get_libc_version(), jansson_version_str(), yaml_get_version_string(), pcre2);
    show_cpu();
    show_cores();
    show_products();
    show_blas();
    show_memory();
    int error = show_shared_memory(false);
    show_mpi();
    show_limits();
    if (!error)
        printf("\nNothing is missing.\n");
    if (error)
        return refuse_windows(error, err);
    return SW_OK;
}

const sw_verb sw_verb_doctor = {
    "doctor", "", "what this machine has, what is missing, and how to get it", doctor};
