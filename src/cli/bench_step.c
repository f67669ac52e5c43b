/* bench_step.c: shardwise bench step: what a training step of a model costs on this machine, and of
 * which roof that is.
 *
 * A new model of a named shape, or one of a Hugging Face directory, trains for a few steps on
 * random tokens, in a folder of its own that is removed again. The roofs of the same cores are
 * sampled before the first run, between runs and after the last.
 *
 * Work per token, by convention, forward and backward: 6 operations for each parameter that
 * multiplies (tables that are only looked up left out) and 6 (T + 1) H D in each layer for
 * attention, which sees (T + 1) / 2 positions on average. Nothing that is computed again counts,
 * and neither do norms, softmax and the optimizer.
 */
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory_class.h"
#include "base/philox.h"
#include "base/text.h"
#include "cli/bench.h"
#include "device/cpu/cores.h"
#include "device/cpu/open.h"
#include "formats/npy_writer.h"
#include "plan/assembly.h"
#include "plan/plan.h"

enum { MOST_ROUNDS = 32 };

/* Shapes of models that are well known, and some between. */
static const struct {
    const char *name, *settings;
} shapes[] = {
    {"llama-8m", "{architecture: llama, layers: 8, hidden: 256, heads: 8, kv_heads: 4, ffn: 688, "
                 "vocab: 4096, max_positions: 8192}"},
    {"llama-25m", "{architecture: llama, layers: 12, hidden: 384, heads: 6, kv_heads: 2, ffn: "
                  "1024, vocab: 16384, max_positions: 8192}"},
    {"llama-60m", "{architecture: llama, layers: 16, hidden: 512, heads: 8, kv_heads: 4, ffn: "
                  "1376, vocab: 32768, max_positions: 8192}"},
    {"smollm2-135m", "{architecture: llama, layers: 30, hidden: 576, heads: 9, kv_heads: 3, ffn: "
                     "1536, vocab: 49152, "
                     "max_positions: 8192, rope_theta: 100000}"},
    {"smollm2-360m", "{architecture: llama, layers: 32, hidden: 960, heads: 15, kv_heads: 5, ffn: "
                     "2560, vocab: 49152, "
                     "max_positions: 8192, rope_theta: 100000}"},
    {"gpt2-124m",
     "{architecture: gpt2, layers: 12, hidden: 768, heads: 12, vocab: 50257, max_positions: 1024}"},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct bench {
    const char *model;
    int64_t n_ranks, n_threads, n_rows, n_tokens, n_steps, n_skip, n_rounds;
    const char *const *overrides;
    int n_overrides;
    char folder[SW_PATH_BYTES], run[SW_PATH_BYTES];
    sw_settings settings;
    sw_model_config config;
    sw_bench_roofs roofs[MOST_ROUNDS + 1]; /* before, between and after the rounds */
    json_t *rounds;                        /* of sw_bench_run */
} bench;

/* ---- settings and data ---- */

/* The model as YAML: a shape by name, or a folder. */
static sw_status write_model(const bench *b, char *text, size_t bytes, sw_error *err) {
    const char *names[N_SHAPES];
    for (int i = 0; i < N_SHAPES; i++) {
        names[i] = shapes[i].name;
        if (!strcmp(b->model, names[i])) {
            snprintf(text, bytes, "%s", shapes[i].settings);
            return SW_OK;
        }
    }
    char absolute[SW_PATH_BYTES], quoted[6 * SW_PATH_BYTES + 3];
    if (!realpath(b->model, absolute)) {
        const char *nearest = sw_text_nearest(b->model, names, N_SHAPES);
        return sw_fail(
            err, SW_BAD_CONFIG,
            "%.100s is neither a folder nor a known shape · shardwise bench step · %s%s%s",
            b->model, nearest ? "did you mean " : "shardwise bench step --help lists the shapes",
            nearest ? nearest : "", nearest ? "?" : "");
    }
    sw_json_quote(absolute, quoted);
    snprintf(text, bytes, "{path: %s}", quoted);
    return SW_OK;
}

/* What settings behind MODEL may not say: the bench says it, reads its figures from where it put
 * them, or removes it. */
static sw_status check_overrides(const bench *b, sw_error *err) {
    static const struct {
        const char *key,
            *instead; /* a key, or a section up to its point; NULL: nothing can be said */
    } held[] = {
        {"data.sequence_length=", "--sequence"},
        {"data.", NULL},
        {"train.steps=", "--steps"},
        {"train.micro_batch_size=", "--rows"},
        {"train.epochs=", NULL},
        {"train.tokens=", NULL},
        {"train.batch_size=", "--ranks, --rows"},
        {"checkpoint.", NULL},
        {"log.", NULL},
        {"train.threads=", "--threads"},
        {"shard.ranks=", "--ranks"},
    };
    for (int i = 0; i < b->n_overrides; i++)
        for (size_t k = 0; k < sizeof held / sizeof *held; k++)
            if (!strncmp(b->overrides[i], held[k].key, strlen(held[k].key)))
                return sw_fail(
                    err, SW_BAD_CONFIG,
                    "%.100s: the benchmark sets this itself · shardwise bench step · %s%s",
                    b->overrides[i], held[k].instead ? "say it with " : "leave it out",
                    held[k].instead ? held[k].instead : "");
    return SW_OK;
}

static sw_status make_settings(bench *b, sw_error *err) {
    char model[8 * SW_PATH_BYTES], *text = NULL;
    sw_status status = write_model(b, model, sizeof model, err);
    if (status)
        return status;
    if (asprintf(&text,
                 "model: %s\n"
                 "data: {train: [%s/tokens.npy], shuffle: false, sequence_length: %" PRId64 "}\n"
                 "train: {steps: %" PRId64 ", batch_size: %" PRId64 ", micro_batch_size: %" PRId64
                 ", threads: %" PRId64 "}\n"
                 "optimizer: {learning_rate: 1e-4, schedule: constant, warmup_steps: 0, "
                 "weight_decay: 0.1}\n"
                 "shard: {ranks: %" PRId64 "}\n"
                 "checkpoint: {path: %s}\n"
                 "log: {every: 1}\n",
                 model, b->folder, b->n_tokens, b->n_steps, b->n_ranks * b->n_rows, b->n_rows,
                 b->n_threads, b->n_ranks, b->run) < 0)
        return sw_fail(err, SW_NO_MEMORY, "no memory for settings · shardwise bench step");
    status = sw_settings_parse("settings of bench step", b->folder, text, b->overrides,
                               b->n_overrides, &b->settings, err);
    free(text);
    return status ? status : sw_assembly_model(&b->settings, &b->config, err);
}

/* Tokens for all steps, the same in every run. */
static sw_status write_tokens(const bench *b, sw_error *err) {
    char path[SW_PATH_BYTES];
    int64_t n = b->settings.train.batch_size * b->settings.data.sequence_length * b->n_steps + 1;
    sw_npy_writer tokens = {.descriptor = -1};
    sw_status status = sw_path_join(path, b->folder, "tokens.npy", err);
    if (!status)
        status = sw_npy_open(&tokens, path, SW_I32, err);
    for (int64_t i = 0; i < n && !status; i++) {
        const double drawn = sw_philox_uniform(1, SW_PURPOSE_SAMPLE, 0, (uint64_t)i);
        status = sw_npy_put(&tokens, (int64_t)(drawn * (double)b->config.vocabulary), err);
    }
    if (!status)
        status = sw_npy_finish(&tokens, err);
    if (!status)
        status = sw_npy_publish(&tokens, err);
    sw_npy_close(&tokens);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static sw_status make_folder(bench *b, sw_error *err) {
    const char *temporary = getenv("TMPDIR");
    sw_status status = sw_path_join(b->folder, temporary && *temporary ? temporary : "/tmp",
                                    "shardwise-bench-XXXXXX", err);
    if (!status && !mkdtemp(b->folder)) {
        status =
            sw_fail(err, SW_NO_SPACE,
                    "%s cannot be made; point TMPDIR at a folder that can be written", b->folder);
        b->folder[0] = 0;
    }
    return status ? status : sw_path_join(b->run, b->folder, "run", err);
}

static sw_status run_rounds(bench *b, sw_error *err) {
    const sw_settings *s = &b->settings;
    sw_bench_cores cores = {.n_ranks = b->n_ranks,
                            .n_threads = b->n_threads,
                            .m = b->n_rows * s->data.sequence_length,
                            .n = 2 * b->config.ffn,
                            .k = b->config.hidden,
                            .type = sw_settings_parameter_dtype(s)};
    sw_cores found;
    sw_status status = sw_kernel_set_of(s, &cores.set, err);
    if (status)
        return status;
    sw_cores_find(&found);
    if (cores.n_threads >
        found.n) /* ranks that take turns on a core do not raise what the core does */
        cores.n_threads = found.n;
    if (cores.n_ranks * cores.n_threads > found.n)
        cores.n_ranks = found.n / cores.n_threads;
    status = sw_bench_roofs_sample(&cores, &b->roofs[0], err);
    for (int64_t i = 0; i < b->n_rounds && !status; i++) {
        json_t *round = NULL;
        status = sw_bench_run(s, b->n_skip, &round, err);
        if (!status && json_array_append_new(b->rounds, round))
            status = sw_fail(err, SW_NO_MEMORY, "no memory for a round · shardwise bench step");
        remove_folder(b->run);
        if (!status)
            status = sw_bench_roofs_sample(&cores, &b->roofs[i + 1], err);
    }
    return status;
}

/* ---- figures ---- */

/* The median of `key` over the steps of all rounds but the first n_skip of each. */
static double median_of(const bench *b, const char *key) {
    int64_t n = 0;
    double *samples = calloc((size_t)(b->n_steps * b->n_rounds) + 1, sizeof *samples), median = 0;
    for (size_t r = 0; samples && r < json_array_size(b->rounds); r++) {
        const json_t *steps = json_object_get(json_array_get(b->rounds, r), "steps");
        for (size_t i = (size_t)b->n_skip; i < json_array_size(steps); i++)
            samples[n++] = json_number_value(json_object_get(json_array_get(steps, i), key));
    }
    if (n)
        median = sw_bench_median(samples, n);
    free(samples);
    return median;
}

/* The median over samples of a roof around the rounds. */
static double roof_of(const bench *b, int roof) {
    double samples[MOST_ROUNDS + 1];
    for (int64_t i = 0; i <= b->n_rounds; i++)
        samples[i] = roof < 0 ? sw_bench_fma_roof(&b->roofs[i]) : b->roofs[i].rate[roof];
    return sw_bench_median(samples, b->n_rounds + 1);
}

static double flops_per_token(const bench *b, int64_t n_parameters) {
    const sw_model_config *c = &b->config;
    int64_t n_looked_up = c->architecture == SW_GPT2 ? c->max_positions * c->hidden : 0;
    if (!c->tied)
        n_looked_up += c->vocabulary * c->hidden;
    double attention = 6.0 * (double)(b->settings.data.sequence_length + 1) *
                       (double)(c->heads * c->head_channels * c->layers);
    return 6.0 * (double)(n_parameters - n_looked_up) + attention;
}

/* Keys of metrics that tell of waiting, as medians. */
static json_t *waiting(const bench *b) {
    json_t *object = json_object();
    const json_t *first = json_array_get(json_object_get(json_array_get(b->rounds, 0), "steps"), 0);
    const char ending[] = "wait_seconds", *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)first, key, value) {
        size_t n = strlen(key);
        if (n >= sizeof ending - 1 && !strcmp(key + n - (sizeof ending - 1), ending))
            json_object_set_new(object, key, sw_json_number(median_of(b, key)));
    }
    return object;
}

/* `key` of each step of each round. */
static json_t *each(const bench *b, const char *key) {
    json_t *rounds = json_array();
    for (size_t r = 0; r < json_array_size(b->rounds); r++) {
        const json_t *steps = json_object_get(json_array_get(b->rounds, r), "steps");
        json_t *values = json_array();
        for (size_t i = 0; i < json_array_size(steps); i++)
            json_array_append(values, json_object_get(json_array_get(steps, i), key));
        json_array_append_new(rounds, values);
    }
    return rounds;
}

static json_t *configuration(const bench *b) {
    const sw_settings *s = &b->settings;
    json_t *overrides = json_array();
    for (int i = 0; i < b->n_overrides; i++)
        json_array_append_new(overrides, json_string(b->overrides[i]));
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:s, s:o}", "model", b->model, "ranks",
        (json_int_t)b->n_ranks, "threads", (json_int_t)b->n_threads, "micro_batch",
        (json_int_t)b->n_rows, "sequence", (json_int_t)s->data.sequence_length, "batch",
        (json_int_t)s->train.batch_size, "steps", (json_int_t)b->n_steps, "skip",
        (json_int_t)b->n_skip, "rounds", (json_int_t)b->n_rounds, "stage", (int)s->shard.stage,
        "dtype", s->shard.param_dtype == SW_PARAM_BF16 ? "bf16" : "fp32", "overrides", overrides);
}

static json_t *make_report(const bench *b, json_t *machine) {
    const json_t *last = json_array_get(b->rounds, (size_t)(b->n_rounds - 1)),
                 *plan = json_object_get(last, "plan");
    const json_t *steps = json_object_get(last, "steps"),
                 *step = json_array_get(steps, json_array_size(steps) - 1);
    const json_t *start_event = json_object_get(last, "start");
    double seconds = median_of(b, "step_seconds"), tokens = median_of(b, "tokens");
    double flops = flops_per_token(b, json_integer_value(json_object_get(plan, "parameters")));
    double rate = seconds > 0 ? tokens / seconds : 0, start[MOST_ROUNDS], pss[MOST_ROUNDS];
    json_t *roofs = json_array();
    for (int64_t i = 0; i <= b->n_rounds; i++)
        json_array_append_new(roofs, sw_bench_roofs_json(&b->roofs[i]));
    for (int64_t i = 0; i < b->n_rounds; i++) {
        const json_t *round = json_array_get(b->rounds, (size_t)i);
        start[i] = json_number_value(json_object_get(round, "start_to_step_1_seconds"));
        pss[i] = json_number_value(json_object_get(round, "pss_bytes"));
    }
    const json_t *memory = json_object_get(step, "memory");
    return json_pack("{s:o, s:o, s:s, s:s, s:O, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:O, "
                     "s:O, s:o, s:o, s:o}",
                     "configuration", configuration(b), "machine", machine, "kernel_set",
                     json_string_value(json_object_get(start_event, "kernels")), "gemm",
                     json_string_value(json_object_get(start_event, "gemm")), "parameters",
                     json_object_get(plan, "parameters"), "flops_per_token", sw_json_number(flops),
                     "tokens_per_second", sw_json_number(rate), "step_seconds",
                     sw_json_number(seconds), "flops_per_second", sw_json_number(rate * flops),
                     "of_fma_roof", sw_json_number(rate * flops / roof_of(b, -1)), "of_gemm",
                     sw_json_number(rate * flops / roof_of(b, SW_N_ROOFS)), "waiting", waiting(b),
                     "start_to_step_1_seconds", sw_json_number(sw_bench_median(start, b->n_rounds)),
                     "pss_bytes", (json_int_t)sw_bench_median(pss, b->n_rounds), "memory_planned",
                     json_object_get(memory, "planned"), "memory_measured",
                     json_object_get(memory, "peak"), "roofs", roofs, "step_seconds_each",
                     each(b, "step_seconds"), "loss_each", each(b, "loss"));
}

static double number(const json_t *report, const char *key) {
    return json_number_value(json_object_get(report, key));
}

static void print_report(const json_t *report) {
    char first[SW_TEXT_NUMBER_BYTES], second[SW_TEXT_NUMBER_BYTES];
    const char *key;
    json_t *value;
    printf("kernels         %s, %s\n", json_string_value(json_object_get(report, "kernel_set")),
           json_string_value(json_object_get(report, "gemm")));
    printf("step            %.4f s, %.1f tokens/s (median)\n", number(report, "step_seconds"),
           number(report, "tokens_per_second"));
    printf("work            %.1f MFLOP a token (6 x parameters + causal attention), %.1f GFLOP/s\n",
           number(report, "flops_per_token") / 1e6, number(report, "flops_per_second") / 1e9);
    printf("of roofs        %.3f of fused multiply-adds, %.3f of products of matrices, by the same "
           "cores around the run\n",
           number(report, "of_fma_roof"), number(report, "of_gemm"));
    json_object_foreach(json_object_get(report, "waiting"), key, value) {
        printf("%-27s %.4f s of a step\n", key, json_number_value(value));
    }
    printf("start to step 1 %.2f s\n", number(report, "start_to_step_1_seconds"));
    printf("memory          %s: proportional set sizes, all ranks\n\n%-14s %14s %14s\n",
           sw_text_bytes((int64_t)number(report, "pss_bytes"), first, sizeof first), "per rank",
           "planned", "measured");
    const json_t *measured = json_object_get(report, "memory_measured");
    json_object_foreach(json_object_get(report, "memory_planned"), key, value) {
        printf("%-14s %14s %14s\n", key,
               sw_text_bytes(json_integer_value(value), first, sizeof first),
               sw_text_bytes((int64_t)number(measured, key), second, sizeof second));
    }
}

static sw_status measure(bench *b, const sw_bench_output *output, sw_error *err) {
    json_t *machine = sw_bench_machine(), *report = NULL;
    sw_status status = check_overrides(b, err);
    if (!status)
        status = make_folder(b, err);
    if (!status)
        status = make_settings(b, err);
    if (!status)
        status = write_tokens(b, err);
    if (!status)
        status = run_rounds(b, err);
    if (b->folder[0])
        remove_folder(b->folder);
    if (status) {
        json_decref(machine);
        return status;
    }
    report = make_report(b, machine);
    status = sw_bench_put(report, output, err);
    if (!status && !output->as_json)
        print_report(report);
    json_decref(report);
    return status;
}

static void print_shapes(void) {
    printf("\nMODEL is a Hugging Face directory, or the shape of a new model:");
    for (int i = 0; i < N_SHAPES; i++)
        printf(" %s", shapes[i].name);
    printf(".\nSettings may follow, as for shardwise train: shard.stage=0 shard.mode=copy "
           "shard.param_dtype=fp32\n");
}

static sw_status step(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    sw_bench_output output = {0};
    bench b = {.n_ranks = 2,
               .n_threads = 1,
               .n_rows = 2,
               .n_tokens = 512,
               .n_steps = 6,
               .n_skip = 2,
               .n_rounds = 1};
    const sw_flag flags[] = {
        {"--ranks", "N", "processes (default 2)", SW_FLAG_COUNT, &b.n_ranks, 1, SW_MAX_RANKS},
        {"--threads", "N", "threads of each process (default 1)", SW_FLAG_COUNT, &b.n_threads, 1,
         256},
        {"--rows", "N",
         "rows in a micro-batch; each rank computes one micro-batch a step (default 2)",
         SW_FLAG_COUNT, &b.n_rows, 1, 65536},
        {"--sequence", "N", "tokens in a row (default 512)", SW_FLAG_COUNT, &b.n_tokens, 1,
         1 << 20},
        {"--steps", "N", "steps in each round (default 6)", SW_FLAG_COUNT, &b.n_steps, 1, 10000},
        {"--skip", "N", "leave the first N steps out of the medians (default 2)", SW_FLAG_COUNT,
         &b.n_skip, 0, 9999},
        {"--rounds", "N", "how many times to train (default 1)", SW_FLAG_COUNT, &b.n_rounds, 1,
         MOST_ROUNDS},
        SW_BENCH_OUTPUT_FLAGS(output),
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_status status =
        sw_arguments_begin(&sw_bench_step, n_arguments, arguments, flags, N_FLAGS, 1,
                           "shardwise bench step smollm2-135m", &others, &n_others, &goes_on, err);
    if (!status && help) {
        sw_arguments_help(&sw_bench_step, flags, N_FLAGS);
        print_shapes();
    }
    if (status || !goes_on)
        goto done;
    if (b.n_skip >= b.n_steps) {
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--skip %" PRId64 " leaves none of %" PRId64 " %s · shardwise bench step",
                         b.n_skip, b.n_steps, sw_text_noun(b.n_steps, "step", "steps"));
        goto done;
    }
    b.model = others[0];
    b.overrides = others + 1;
    b.n_overrides = n_others - 1;
    if (!(b.rounds = json_array()))
        status = sw_fail(err, SW_NO_MEMORY, "no memory · shardwise bench step");
    else
        status = measure(&b, &output, err);
done:
    json_decref(b.rounds);
    sw_settings_free(&b.settings);
    free(others);
    return status;
}

const sw_verb sw_bench_step = {"bench step", "MODEL [section.key=value ...]",
                               "a training step, compared with the most that the same cores can do",
                               step};
