/* bench_roofs.c: shardwise bench roofs: the arithmetic of the cores that a run would use, all at
 * work at once.
 *
 * Ranks are launched and placed as a training run places them. Together they run bare loops of
 * multiply-adds (the roofs), then the products of matrices that the run's device would choose, of
 * the shape of a feed-forward layer. The clock moves with the work of all cores and the
 * neighbours', so whoever holds a figure against these samples them around it.
 */
#include "cli/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "device/cpu/choice.h"
#include "device/cpu/gemm.h"
#include "device/cpu/open.h"
#include "device/parallel.h"
#include "device/sizes.h"
#include "execute/rank_device.h"
#include "launch/launch.h"

static const double roof_seconds = 0.05, gemm_seconds = 0.1;

typedef struct sampling {
    const sw_bench_cores *cores;
    sw_cores found;
    sw_gemm_choice gemm;
    sw_bench_roofs *roofs; /* shared with the ranks; rank 0 writes */
} sampling;

typedef struct roof_tasks {
    sw_roof roof;
    double rate[SW_MAX_THREADS];
} roof_tasks;

static void run_roof(void *arg, int64_t task, int worker) {
    roof_tasks *tasks = arg;
    (void)worker;
    tasks->rate[task] = sw_roof_measure(tasks->roof, roof_seconds);
}

/* One task for each thread, and each keeps its thread busy for as long as the others. */
static double roof_of_rank(const sw_device *device, sw_roof roof) {
    roof_tasks tasks = {.roof = roof};
    double sum = 0;
    sw_parallel(device, device->n_threads, run_roof, &tasks);
    for (int i = 0; i < device->n_threads; i++)
        sum += tasks.rate[i];
    return sum;
}

/* y = x W: x [m,k], W [n,k], y [m,n], all of `type`. Operations per second of this rank; 0 without
 * memory. */
static double gemm_of_rank(const sw_device *device, const sw_bench_cores *cores) {
    int64_t size = sw_dtype_bytes(cores->type), m = cores->m, n = cores->n, k = cores->k;
    size_t bytes = (size_t)(size * (m * k + n * k + m * n)),
           workspace = (size_t)device->n_threads * SW_PRODUCT_WORKSPACE;
    char *operands = aligned_alloc(64, (bytes + workspace + 127) / 64 * 64);
    if (!operands)
        return 0;
    memset(operands, 0, bytes);
    char *x = operands, *w = x + size * m * k, *y = w + size * n * k;
    sw_product product = {
        .m = m, .n = n, .k = k, .alpha = 1, .c = y, .c_stride = n, .c_type = cores->type};
    product.a = (sw_matrix){x, k, false, cores->type};
    product.b = (sw_matrix){w, k, true, cores->type};
    product.workspace = operands + (bytes + 63) / 64 * 64;
    sw_multiply(device, &product);
    double begin = sw_seconds_now(), now = begin, n_calls = 0;
    for (; now - begin < gemm_seconds || n_calls < 1; now = sw_seconds_now(), n_calls++)
        sw_multiply(device, &product);
    free(operands);
    return n_calls * 2 * (double)m * (double)n * (double)k / (now - begin);
}

static sw_status sample_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    const sampling *s = arg;
    sw_sharding sharding = {.mesh = sw_mesh_flat(sw_comm_size(comm)),
                            .n_threads = (int)s->cores->n_threads,
                            .mode = SW_SHM_VIEW};
    double mine[SW_N_ROOFS + 1], all[SW_MAX_RANKS * (SW_N_ROOFS + 1)];
    sw_device *device = NULL;
    sw_status status =
        sw_rank_device_open(comm, &sharding, &s->found, s->cores->set, s->gemm.kind, &device, err);
    for (int i = 0; i <= SW_N_ROOFS && !status; i++) {
        status = sw_barrier(comm, err);
        mine[i] =
            i < SW_N_ROOFS ? roof_of_rank(device, (sw_roof)i) : gemm_of_rank(device, s->cores);
    }
    if (!status)
        status = sw_exchange(comm, mine, all, sizeof mine, err);
    if (!status && sw_comm_rank(comm) == 0) {
        for (int i = 0; i < sharding.mesh.n_ranks * (SW_N_ROOFS + 1); i++)
            s->roofs->rate[i % (SW_N_ROOFS + 1)] += all[i];
        s->roofs->set = s->cores->set;
        snprintf(s->roofs->gemm, sizeof s->roofs->gemm, "%s", device->gemm);
    }
    if (device)
        device->close(device);
    return status;
}

sw_status sw_bench_roofs_sample(const sw_bench_cores *cores, sw_bench_roofs *roofs, sw_error *err) {
    sampling s = {.cores = cores};
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = (int)cores->n_ranks;
    s.roofs =
        mmap(NULL, sizeof *s.roofs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.roofs == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the roofs: %s · shardwise bench",
                       strerror(errno));
    sw_cores_find(&s.found);
    sw_gemm_choose(cores->set, cores->type == SW_BF16 ? SW_NUMBERS_BF16 : SW_NUMBERS_F32, false,
                   &s.gemm);
    fflush(NULL); /* a forked rank has a copy of what is in the buffers */
    sw_status status =
        sw_launch_as(&sw_launch_plain_words, &options, NULL, sample_in_rank, &s, err);
    *roofs = *s.roofs;
    munmap(s.roofs, sizeof *s.roofs);
    return status;
}

double sw_bench_fma_roof(const sw_bench_roofs *roofs) {
    double best = 0;
    for (sw_roof roof = SW_ROOF_FP32_128; roof <= sw_roof_of_set(roofs->set); roof++)
        best = roofs->rate[roof] > best ? roofs->rate[roof] : best;
    return best;
}

static sw_status roofs(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, is_fp32 = false, goes_on;
    const char *kernels = NULL;
    sw_bench_cores cores = {
        .n_ranks = 2, .n_threads = 1, .m = 1024, .n = 3072, .k = 576, .type = SW_BF16};
    sw_bench_output output = {0};
    const sw_flag flags[] = {
        {"--ranks", "N", "processes (default 2)", SW_FLAG_COUNT, &cores.n_ranks, 1, SW_MAX_RANKS},
        {"--threads", "N", "threads of each process (default 1)", SW_FLAG_COUNT, &cores.n_threads,
         1, SW_MAX_THREADS},
        {"--fp32", NULL, "multiply fp32 matrices, not bf16", SW_FLAG_SWITCH, &is_fp32},
        SW_BENCH_KERNELS_FLAG(kernels),
        SW_BENCH_OUTPUT_FLAGS(output),
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_bench_roofs found = {0};
    sw_status status =
        sw_arguments_begin(&sw_bench_roofs_part, n_arguments, arguments, flags, N_FLAGS, 0,
                           "shardwise bench roofs", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_bench_roofs_part, flags, N_FLAGS);
    if (!status && goes_on && n_others)
        status = sw_fail(err, SW_BAD_CONFIG, "%.100s: no argument is taken · shardwise bench roofs",
                         others[0]);
    free(others);
    if (status || !goes_on)
        return status;
    cores.type = is_fp32 ? SW_F32 : SW_BF16;
    if ((status = sw_bench_kernels(kernels, &cores.set, err)))
        return status;
    json_t *machine = sw_bench_machine(), *report = NULL;
    if ((status = sw_bench_roofs_sample(&cores, &found, err))) {
        json_decref(machine);
        return status;
    }
    report = json_pack("{s:{s:I, s:I, s:s, s:s}, s:o, s:o}", "configuration", "ranks",
                       (json_int_t)cores.n_ranks, "threads", (json_int_t)cores.n_threads,
                       "kernel_set", sw_kernel_set_name(found.set), "gemm", found.gemm, "machine",
                       machine, "roofs", sw_bench_roofs_json(&found));
    status = sw_bench_put(report, &output, err);
    json_decref(report);
    if (status || output.as_json)
        return status;
    for (sw_roof roof = 0; roof < SW_N_ROOFS; roof++)
        printf("%-16s %8.1f GFLOP/s\n", sw_roof_name(roof), found.rate[roof] / 1e9);
    printf("%-16s %8.1f GFLOP/s   %" PRId64 " x %" PRId64 " x %" PRId64 " of %s by %s\n",
           "products", found.rate[SW_N_ROOFS] / 1e9, cores.m, cores.n, cores.k,
           sw_dtype_name(cores.type), found.gemm);
    return SW_OK;
}

json_t *sw_bench_roofs_json(const sw_bench_roofs *roofs) {
    json_t *object = json_object();
    for (sw_roof roof = 0; roof < SW_N_ROOFS; roof++)
        json_object_set_new(object, sw_roof_name(roof), sw_json_number(roofs->rate[roof]));
    json_object_set_new(object, "fma", sw_json_number(sw_bench_fma_roof(roofs)));
    json_object_set_new(object, "gemm", sw_json_number(roofs->rate[SW_N_ROOFS]));
    return object;
}

const sw_verb sw_bench_roofs_part = {
    "bench roofs", "", "the most arithmetic that the cores can do together (roofs)", roofs};
