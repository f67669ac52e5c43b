/* bench.c: shardwise bench: how fast this machine does what training does, part by part. */
#include "cli/bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static const sw_verb *const parts[] = {&sw_bench_step, &sw_bench_comm, &sw_bench_gemm,
                                       &sw_bench_roofs_part};
enum { N_PARTS = sizeof parts / sizeof *parts, BEFORE_NAME = sizeof "bench " - 1 };

static void read_cpu_name(char *name, size_t bytes) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, bytes, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(name, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}

json_t *sw_bench_machine(void) {
    char cpu[256];
    struct utsname system = {0};
    double load = 0;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    int n_cores = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    read_cpu_name(cpu, sizeof cpu);
    uname(&system);
    if (getloadavg(&load, 1) < 1)
        load = 0;
    return json_pack("{s:s, s:s, s:i, s:I, s:s, s:o}", "version", sw_version(), "cpu", cpu, "cores",
                     n_cores, "memory_bytes",
                     (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), "kernel",
                     system.release, "load_before", sw_json_number(load));
}

sw_status sw_bench_put(const json_t *report, const sw_bench_output *output, sw_error *err) {
    char *text = report ? json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the report · shardwise bench");
    sw_status status =
        output->save ? sw_file_write(output->save, text, (int64_t)strlen(text), err) : SW_OK;
    if (output->as_json)
        puts(text);
    free(text);
    return status;
}

sw_status sw_bench_kernels(const char *name, sw_kernel_set *set, sw_error *err) {
    const char *names[SW_N_KERNEL_SETS];
    *set = sw_kernel_set_best();
    for (sw_kernel_set s = 0; s < SW_N_KERNEL_SETS && name; s++) {
        names[s] = sw_kernel_set_name(s);
        if (strcmp(name, names[s]))
            continue;
        *set = s;
        return sw_kernel_set_check(s, err) ? sw_fail_within(err, "--kernels") : SW_OK;
    }
    if (!name)
        return SW_OK;
    const char *nearest = sw_text_nearest(name, names, SW_N_KERNEL_SETS);
    return sw_fail(err, SW_BAD_CONFIG,
                   "--kernels: there is no set %.100s · shardwise bench · %s%s%s", name,
                   nearest ? "did you mean " : "shardwise doctor lists those that there are",
                   nearest ? nearest : "", nearest ? "?" : "");
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sw_bench_median(double *samples, int64_t n) {
    qsort(samples, (size_t)n, sizeof *samples, by_size);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

static void print_parts(void) {
    printf("shardwise bench PART ...\n\n");
    for (int i = 0; i < N_PARTS; i++)
        printf("  %-6s %-30s %s\n", parts[i]->name + BEFORE_NAME, parts[i]->arguments,
               parts[i]->about);
    printf("\nshardwise bench PART --help says more. For meaningful figures, run nothing else at "
           "the same time.\n");
}

static sw_status bench(int n_arguments, char **arguments, sw_error *err) {
    const char *names[N_PARTS];
    if (n_arguments < 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "a part is missing · shardwise bench · for example: shardwise bench comm");
    const char *part = arguments[0];
    if (!strcmp(part, "--help") || !strcmp(part, "-h")) {
        print_parts();
        return SW_OK;
    }
    for (int i = 0; i < N_PARTS; i++) {
        names[i] = parts[i]->name + BEFORE_NAME;
        if (!strcmp(part, names[i]))
            return parts[i]->run(n_arguments - 1, arguments + 1, err);
    }
    if (part[0] == '-')
        return sw_fail(err, SW_BAD_CONFIG,
                       "unknown flag %.100s · shardwise bench · did you mean --help?", part);
    const char *nearest = sw_text_nearest(part, names, N_PARTS);
    return sw_fail(err, SW_BAD_CONFIG, "there is no part %.100s · shardwise bench · %s%s%s", part,
                   nearest ? "did you mean " : "shardwise bench --help lists what there is",
                   nearest ? nearest : "", nearest ? "?" : "");
}

const sw_verb sw_verb_bench = {"bench", "step|comm|gemm|roofs ...",
                               "measure what this machine can do", bench};
