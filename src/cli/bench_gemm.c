/* bench_gemm.c: shardwise bench gemm: who multiplies matrices fastest on this machine, on the
 * shapes of training.
 *
 * Every way to multiply that runs here gets every shape, on one core, with the roof of the
 * arithmetic that it uses sampled before and after each. What came out goes into the machine file,
 * by which later runs choose (device/cpu/choice.h).
 */
#include "cli/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/cpu/choice.h"
#include "device/cpu/gemm.h"
#include "device/cpu/open.h"
#include "device/sizes.h"

enum { N_ROUNDS = 3, ROOF_PARTS = 4 /* a roof is sampled for a fourth of the time of a round */ };

/* C[m,n] = op(A) op(B), or added to C. `is_sum`: C is a gradient of parameters, fp32 whatever the
 * operands are. */
typedef struct bench_shape {
    const char *name;
    int64_t m, n, k;
    bool a_is_turned, b_is_turned, is_sum, adds;
} bench_shape;

enum { N_SHAPES = 13, TOKENS = 1024, VOCABULARY = 16384 };

/* Of the head: as many rows as have their logits at once. */
static void list_shapes(bench_shape shapes[N_SHAPES]) {
    const int64_t chunk = sw_cross_entropy_chunk(TOKENS, VOCABULARY);
    const bench_shape all[N_SHAPES] = {
        {"forward", TOKENS, 960, 576, false, true, false, false},
        {"forward", TOKENS, 3072, 576, false, true, false, false},
        {"forward", TOKENS, 576, 1536, false, true, false, true},
        {"forward", TOKENS, 768, 3072, false, true, false, false},
        {"forward, few", 64, 3072, 576, false, true, false, false},
        {"input grad", TOKENS, 576, 3072, false, false, false, false},
        {"input grad", TOKENS, 1536, 576, false, false, false, false},
        {"weight grad", 3072, 576, TOKENS, true, false, true, false},
        {"weight grad", 576, 1536, TOKENS, true, false, true, true},
        {"weight grad", 576, 576, TOKENS, true, false, true, false},
        {"logits", chunk, VOCABULARY, 576, false, true, true, false},
        {"head dx", chunk, 576, VOCABULARY, false, false, false, false},
        {"head dw", VOCABULARY, 576, chunk, true, false, true, true},
    };
    memcpy(shapes, all, sizeof all);
}

/* One way to multiply operands of one type, and what it is held against. */
typedef struct contender {
    sw_gemm_kind kind;
    sw_dtype type;
    sw_roof roof;
    char name[96];
    sw_device *device;
    double rate[N_SHAPES], of_roof[N_SHAPES]; /* medians */
    double all;                               /* operations per second over all shapes */
} contender;
enum { MOST_CONTENDERS = 2 * SW_N_GEMM_KINDS };

typedef struct contest {
    bench_shape shapes[N_SHAPES];
    contender contenders[MOST_CONTENDERS];
    int n;
    char *memory;   /* workspace, then operands */
    double seconds; /* of a round */
    sw_machine machine;
} contest;

static int64_t largest_operands(const bench_shape shapes[N_SHAPES]) {
    int64_t most = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        const bench_shape *s = &shapes[i];
        const int64_t bytes = 4 * (s->m * s->k + s->k * s->n + s->m * s->n) + 3 * 64;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t up_to_lines(int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static sw_product product_of(const bench_shape *s, sw_dtype type, char *memory) {
    const sw_dtype c_type = s->is_sum ? SW_F32 : type;
    char *a = memory + SW_PRODUCT_WORKSPACE,
         *b = a + up_to_lines(s->m * s->k * sw_dtype_bytes(type)),
         *c = b + up_to_lines(s->k * s->n * sw_dtype_bytes(type));
    return (sw_product){.m = s->m,
                        .n = s->n,
                        .k = s->k,
                        .alpha = 1,
                        .a = {a, s->a_is_turned ? s->m : s->k, s->a_is_turned, type},
                        .b = {b, s->b_is_turned ? s->k : s->n, s->b_is_turned, type},
                        .c = c,
                        .c_stride = s->n,
                        .c_type = c_type,
                        .addend = s->adds ? c : NULL,
                        .addend_stride = s->n,
                        .workspace = memory};
}

/* Numbers of one size: sums that are added to again and again stay finite. */
static void fill(const bench_shape *s, sw_dtype type, const sw_product *p) {
    const int64_t n_a = s->m * s->k, n_b = s->k * s->n;
    for (int64_t i = 0; i < n_a + n_b; i++) {
        const float x = i % 3 == 0 ? 0.5f : -0.25f;
        void *at = (void *)(uintptr_t)(i < n_a ? p->a.at : p->b.at);
        const int64_t place = i < n_a ? i : i - n_a;
        if (type == SW_BF16)
            ((uint16_t *)at)[place] = sw_float_to_bf16(x);
        else
            ((float *)at)[place] = x;
    }
    memset(p->c, 0, (size_t)(s->m * s->n * sw_dtype_bytes(p->c_type)));
}

static void try_shape(contest *all, contender *c, int shape) {
    const bench_shape *s = &all->shapes[shape];
    const sw_product product = product_of(s, c->type, all->memory);
    double rates[N_ROUNDS], parts[N_ROUNDS];
    if (c == all->contenders || c[-1].type != c->type)
        fill(s, c->type, &product);
    sw_multiply(c->device, &product);
    for (int round = 0; round < N_ROUNDS; round++) {
        const double before = sw_roof_measure(c->roof, all->seconds / ROOF_PARTS),
                     begin = sw_seconds_of_thread();
        double now = begin, n_calls = 0;
        for (; now - begin < all->seconds || n_calls < 1; now = sw_seconds_of_thread(), n_calls++)
            sw_multiply(c->device, &product);
        rates[round] = n_calls * 2 * (double)s->m * (double)s->n * (double)s->k / (now - begin);
        parts[round] =
            rates[round] / ((before + sw_roof_measure(c->roof, all->seconds / ROOF_PARTS)) / 2);
    }
    c->rate[shape] = sw_bench_median(rates, N_ROUNDS);
    c->of_roof[shape] = sw_bench_median(parts, N_ROUNDS);
}

/* Operations of all shapes over the time that they take one after the other. */
static double rate_of_all(const bench_shape shapes[N_SHAPES], const contender *c) {
    double operations = 0, seconds = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        const double n = 2 * (double)shapes[i].m * (double)shapes[i].n * (double)shapes[i].k;
        operations += n;
        seconds += n / c->rate[i];
    }
    return operations / seconds;
}

static sw_status add_contender(contest *all, sw_gemm_kind kind, sw_dtype type, sw_error *err) {
    const sw_kernel_set set = all->machine.set;
    contender *c = &all->contenders[all->n];
    *c = (contender){.kind = kind, .type = type};
    sw_status status =
        sw_cpu_open(&(sw_cpu_options){.set = set, .gemm = kind, .n_threads = 1}, &c->device, err);
    if (status)
        return status;
    if (kind == SW_GEMM_BLAS &&
        !strcmp(c->device->gemm, sw_gemm_kind_name(SW_GEMM_PLAIN))) { /* none was found */
        c->device->close(c->device);
        return SW_OK;
    }
    c->roof = kind == SW_GEMM_OWN_BF16 ? SW_ROOF_BF16_512 : sw_roof_of_set(set);
    snprintf(c->name, sizeof c->name, "%s, %s", c->device->gemm, sw_dtype_name(type));
    all->n++;
    return SW_OK;
}

/* The plain product is for where there is no tuned one; and what own-bf16 does with fp32, own
 * does. */
static bool takes_part(sw_gemm_kind kind, sw_dtype type, sw_kernel_set set) {
    return sw_gemm_runs_here(kind, set) &&
           !(kind == SW_GEMM_PLAIN && sw_gemm_runs_here(SW_GEMM_OWN, set)) &&
           !(kind == SW_GEMM_OWN_BF16 && type != SW_BF16);
}

static sw_status hold(contest *all, sw_error *err) {
    sw_machine *machine = &all->machine;
    sw_cpu_name(machine->cpu);
    snprintf(machine->version, sizeof machine->version, "%s", sw_version());
    list_shapes(all->shapes);
    for (int roof = 0; roof < SW_N_ROOFS; roof++)
        machine->roof[roof] = sw_roof_measure((sw_roof)roof, all->seconds);
    all->memory = aligned_alloc(
        64, (size_t)up_to_lines(SW_PRODUCT_WORKSPACE + largest_operands(all->shapes)));
    if (!all->memory)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the matrices · shardwise bench gemm");
    sw_status status = SW_OK;
    for (int type = 0; type < 2 && !status; type++)
        for (int kind = 0; kind < SW_N_GEMM_KINDS && !status; kind++)
            if (takes_part((sw_gemm_kind)kind, type ? SW_BF16 : SW_F32, machine->set))
                status = add_contender(all, (sw_gemm_kind)kind, type ? SW_BF16 : SW_F32, err);
    for (int shape = 0; shape < N_SHAPES && !status; shape++)
        for (int i = 0; i < all->n; i++)
            try_shape(all, &all->contenders[i], shape);
    for (int i = 0; i < all->n && !status; i++) {
        contender *c = &all->contenders[i];
        c->all = rate_of_all(all->shapes, c);
        (c->type == SW_BF16 ? machine->bf16 : machine->fp32)[c->kind] = c->all;
    }
    return status;
}

static void print_table(const contest *all) {
    printf("%s, kernels %s, one core\n\n", all->machine.cpu, sw_kernel_set_name(all->machine.set));
    for (sw_roof roof = 0; roof < SW_N_ROOFS; roof++)
        if (all->machine.roof[roof] > 0)
            printf("%-16s %7.1f GFLOP/s\n", sw_roof_name(roof), all->machine.roof[roof] / 1e9);
    printf("\nGFLOP/s, and the fraction of the roof of the arithmetic used\n\n%-28s", "C[m,n] k");
    for (int i = 0; i < all->n; i++)
        printf("  %s", all->contenders[i].name);
    for (int shape = 0; shape < N_SHAPES; shape++) {
        const bench_shape *s = &all->shapes[shape];
        printf("\n%-12s %5" PRId64 " %5" PRId64 " %5" PRId64, s->name, s->m, s->n, s->k);
        for (int i = 0; i < all->n; i++)
            printf("  %*.0f %.2f", (int)strlen(all->contenders[i].name) - 5,
                   all->contenders[i].rate[shape] / 1e9, all->contenders[i].of_roof[shape]);
    }
    printf("\n%-30s", "all together");
    for (int i = 0; i < all->n; i++)
        printf("  %*.0f     ", (int)strlen(all->contenders[i].name) - 5,
               all->contenders[i].all / 1e9);
    printf("\n\n");
}

static json_t *report_of(const contest *all) {
    json_t *list = json_array();
    for (int i = 0; i < all->n; i++) {
        const contender *c = &all->contenders[i];
        json_t *results = json_array();
        for (int shape = 0; shape < N_SHAPES; shape++) {
            const bench_shape *s = &all->shapes[shape];
            json_array_append_new(results, json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "shape",
                                                     s->name, "m", (json_int_t)s->m, "n",
                                                     (json_int_t)s->n, "k", (json_int_t)s->k,
                                                     "flops", sw_json_number(c->rate[shape]),
                                                     "of_roof", sw_json_number(c->of_roof[shape])));
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "kind",
                                              sw_gemm_kind_name(c->kind), "by", c->device->gemm,
                                              "operands", sw_dtype_name(c->type), "roof",
                                              sw_roof_name(c->roof), "flops",
                                              sw_json_number(c->all), "results", results));
    }
    return json_pack("{s:o, s:o}", "machine", sw_bench_machine(), "products", list);
}

/* path: where they are written; NULL: nowhere. */
static void print_choices(const sw_machine *machine, const char *path) {
    for (int type = 0; type < 2; type++) {
        sw_gemm_choice choice;
        if (sw_gemm_choose_by(machine, type ? SW_NUMBERS_BF16 : SW_NUMBERS_F32, &choice))
            printf("shard.param_dtype: %s multiplies by %s\n", type ? "bf16" : "fp32",
                   sw_gemm_kind_name(choice.kind));
    }
    if (path)
        printf("written to %s\n", path);
}

static sw_status gemm(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const char *output = NULL, *kernels = NULL;
    double seconds = 0.02;
    sw_bench_output report_to = {0};
    const sw_flag flags[] = {
        {"--output", "FILE",
         "the machine file to write (default ~/.cache/shardwise/machine.json, which runs read; "
         "with --kernels: none)",
         SW_FLAG_TEXT, &output},
        SW_BENCH_KERNELS_FLAG(kernels),
        {"--seconds", "S", "seconds for each of three rounds of each shape (default 0.02)",
         SW_FLAG_REAL, &seconds, 0, 10},
        SW_BENCH_OUTPUT_FLAGS(report_to),
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    char path[SW_PATH_BYTES];
    sw_status status =
        sw_arguments_begin(&sw_bench_gemm, n_arguments, arguments, flags, N_FLAGS, 0,
                           "shardwise bench gemm", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_bench_gemm, flags, N_FLAGS);
    if (!status && goes_on && n_others)
        status = sw_fail(err, SW_BAD_CONFIG, "%.100s: no argument is taken · shardwise bench gemm",
                         others[0]);
    free(others);
    if (status || !goes_on)
        return status;
    if (output && !*output)
        return sw_fail(err, SW_BAD_CONFIG,
                       "--output: the name is empty · shardwise bench gemm · name a file");
    contest all = {.seconds = seconds};
    if ((status = sw_bench_kernels(kernels, &all.machine.set, err)))
        return status;
    if (!output && !kernels) { /* the file is that of the set which runs take by themselves */
        if ((status = sw_machine_path(path, err)))
            return status;
        output = path;
    }
    status = hold(&all, err);
    if (!status && output)
        status = sw_machine_write(output, &all.machine, err);
    json_t *report = status ? NULL : report_of(&all);
    if (!status)
        status = sw_bench_put(report, &report_to, err);
    json_decref(report);
    if (!status && !report_to.as_json) {
        print_table(&all);
        print_choices(&all.machine, output);
    }
    for (int i = 0; i < all.n; i++)
        all.contenders[i].device->close(all.contenders[i].device);
    free(all.memory);
    return status;
}

const sw_verb sw_bench_gemm = {
    "bench gemm", "",
    "matrix products, by each way to multiply; writes the machine file, which later runs use",
    gemm};
