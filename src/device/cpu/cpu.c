/* cpu.c: opening the CPU: three tables of kernels, a matrix product that has been tried, and
 * threads. */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cpu/threads.h"

const sw_kernel_set_table *sw_kernel_set_table_of(sw_number_kind numbers, sw_kernel_set set) {
#define SW_TABLES(set, SET) \
    [SW_SET_##SET] = {&sw_table_f32_##set, &sw_table_bf16_##set, &sw_table_f64_##set},
    static const sw_kernel_set_table *const tables[SW_N_KERNEL_SETS][SW_N_NUMBER_KINDS] = {
        SW_COMPILED_SETS(SW_TABLES)};
    return tables[set][numbers];
}

sw_product_fn sw_cpu_multiplier(const sw_device *device, const sw_product *product) {
    const sw_cpu_device *cpu = (const sw_cpu_device *)device;
    if (product->c_type == SW_F64)
        return cpu->multiply_f64;
    return product->a.type == SW_BF16 && product->b.type == SW_BF16 ? cpu->multiply_bf16
                                                                    : cpu->multiply_f32;
}

bool sw_product_turns(const sw_device *device, const sw_product *product, int64_t D) {
    const sw_cpu_device *cpu = (const sw_cpu_device *)device;
    const sw_product_fn multiply = sw_cpu_multiplier(device, product);
    return multiply != cpu->multiply_f64 && multiply != cpu->multiply_plain && !cpu->sgemm &&
           D % SW_TURNED_MULTIPLE == 0;
}

static sw_status load_blas(sw_cpu_device *cpu, sw_error *err) {
    sw_blas blas;
    sw_blas_load(cpu->options.set, &blas);
    memcpy(cpu->note, blas.note, sizeof cpu->note);
    if (!blas.sgemm)
        return SW_OK;
    void *space = aligned_alloc(64, (SW_BLAS_CHECK_BYTES + 63) / 64 * 64);
    if (!space)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory to try the BLAS (%zu bytes)",
                       (size_t)SW_BLAS_CHECK_BYTES);
    if (sw_blas_is_right(&blas, cpu->multiply_plain, space, cpu->note)) {
        cpu->multiply_f32 = cpu->multiply_bf16 = sw_multiply_blas;
        cpu->sgemm = blas.sgemm;
        memcpy(cpu->gemm, blas.name, sizeof cpu->gemm);
    }
    free(space);
    return SW_OK;
}

/* Our own tuned products: for the CPUs that sw_gemm_runs_here says have them. */
static void use_tuned_products(sw_cpu_device *cpu, const sw_cpu_options *options) {
#if defined(__x86_64__)
    cpu->multiply_f32 = cpu->multiply_bf16 =
        options->set == SW_SET_V4 ? sw_multiply_v4 : sw_multiply_v3;
    if (options->gemm == SW_GEMM_OWN_BF16) {
        cpu->multiply_bf16 = sw_multiply_v4_bf16;
        cpu->kernels[SW_NUMBERS_BF16][SW_KERNEL_ATTENTION] = sw_ATTENTION_bf16_v4_dot;
        cpu->kernels[SW_NUMBERS_BF16][SW_KERNEL_ATTENTION_GRAD] = sw_ATTENTION_GRAD_bf16_v4_dot;
    }
#endif
    snprintf(cpu->gemm, sizeof cpu->gemm, "%s", sw_gemm_kind_name(options->gemm));
}

/* What multiplies besides the plain kernels, by the options, which this CPU can fulfil. */
static sw_status choose_multipliers(sw_cpu_device *cpu, const sw_cpu_options *options,
                                    sw_error *err) {
    if (options->gemm == SW_GEMM_BLAS)
        return load_blas(cpu, err);
    if (options->gemm != SW_GEMM_PLAIN)
        use_tuned_products(cpu, options);
    return SW_OK;
}

enum {
    HUGE_PAGES_FROM = 16 << 20
}; /* bytes: beside them the last, unfilled large page is little */

/* Where all of it will be touched, large pages cost nothing and save the first step a fault for
 * every 4 KiB. */
static void *take(const sw_device *device, int64_t bytes, bool is_filled) {
    (void)device;
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (is_filled && bytes >= HUGE_PAGES_FROM)
        (void)madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    return memory;
}

static void give(const sw_device *device, void *memory, int64_t bytes) {
    (void)device;
    munmap(memory, (size_t)bytes);
}

static void copy(const sw_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    memcpy(to, from, (size_t)bytes);
}

static void unpin(const sw_device *device) {
    const sw_cpu_device *cpu = (const sw_cpu_device *)device;
    if (cpu->is_pinned)
        sched_setaffinity(0, sizeof cpu->before, &cpu->before);
}

/* A mask that cannot be had costs speed at most, so no failure stops the run. */
static void pin(sw_cpu_device *cpu, int number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(number, &one);
    cpu->is_pinned = sched_getaffinity(0, sizeof cpu->before, &cpu->before) == 0 &&
                     sched_setaffinity(0, sizeof one, &one) == 0;
}

static void close_cpu(sw_device *device) {
    sw_cpu_device *cpu = (sw_cpu_device *)device;
    unpin(device);
    sw_threads_stop(device->threads);
    free(cpu->alone);
    free(cpu);
}

/* Threads, and the same device without them. */
static sw_status add_threads(sw_cpu_device *cpu, const sw_cpu_options *options, sw_error *err) {
    sw_cpu_device *alone = malloc(sizeof *alone);
    if (!alone)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory (%zu bytes)", sizeof *alone);
    cpu->base.n_threads = 1;
    if (options->cpus)
        pin(cpu, options->cpus[0]);
    *alone = *cpu;
    cpu->alone = alone;
    cpu->base.alone = alone->base.alone = &alone->base;
    if (options->n_threads <= 1)
        return SW_OK;
    cpu->base.n_threads = options->n_threads;
    return sw_threads_start(options->n_threads, options->may_spin, options->cpus,
                            &cpu->base.threads, err);
}

sw_status sw_cpu_open(const sw_cpu_options *options, sw_device **device, sw_error *err) {
    const sw_kernel_set set = options->set;
    *device = NULL;
    sw_status status = sw_kernel_set_check(set, err);
    if (status)
        return status;
    if ((unsigned)options->gemm >= SW_N_GEMM_KINDS || !sw_gemm_runs_here(options->gemm, set))
        return sw_fail(err, SW_BAD_CONFIG,
                       "this CPU cannot multiply matrices by %s with the kernel set %s",
                       sw_gemm_kind_name(options->gemm), sw_kernel_set_name(set));
    if (options->n_threads < 0 || options->n_threads > SW_MAX_THREADS)
        return sw_fail(err, SW_BAD_CONFIG, "%d threads for one rank; 1 to %d are possible",
                       options->n_threads, SW_MAX_THREADS);
    sw_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory (%zu bytes)", sizeof *cpu);
    for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++)
        memcpy(cpu->kernels[numbers], sw_kernel_set_table_of((sw_number_kind)numbers, set)->kernel,
               sizeof cpu->kernels[numbers]);
    snprintf(cpu->gemm, sizeof cpu->gemm, "plain");
    cpu->options = *options;
    cpu->base = (sw_device){
        .name = "cpu",
        .kernel_set = sw_kernel_set_name(set),
        .gemm = cpu->gemm,
        .kernels = (const sw_kernel_fn(*)[SW_N_KERNELS])cpu->kernels,
        .is_host = true,
        .take = take,
        .give = give,
        .copy = copy,
        .unpin = unpin,
        .close = close_cpu,
    };
    cpu->multiply_plain = cpu->multiply_f32 = cpu->multiply_bf16 =
        sw_kernel_set_table_of(SW_NUMBERS_F32, set)->multiply_plain;
    cpu->multiply_f64 = sw_kernel_set_table_of(SW_NUMBERS_F64, set)->multiply_plain;
    status = choose_multipliers(cpu, options, err);
    if (!status)
        status = add_threads(cpu, options, err);
    if (status) {
        close_cpu(&cpu->base);
        return status;
    }
    *device = &cpu->base;
    return SW_OK;
}

const char *sw_cpu_gemm_note(const sw_device *device) {
    return ((const sw_cpu_device *)device)->note;
}
