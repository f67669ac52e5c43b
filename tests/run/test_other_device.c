/* A device whose memory nobody reaches but itself: it is the CPU's, and cannot be touched except
 * while one of the device's own functions runs. Whole runs on it, which train, cross-check, save,
 * go on, evaluate and generate, end in the same bits as those on the CPU: so nothing above a device
 * follows an address of its. (Mode `copy` is left out: what a transport copies into a device's
 * memory is the transport's business.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <shardwise.h>

#include "base/file.h"
#include "device/cpu/open.h"
#include "execute/rank_device.h"
#include "infer/generate.h"
#include "infer/score.h"
#include "support/folder.h"

/* ---- the device ---- */

enum { MAX_PARTS = 64 };

static bool is_other; /* ranks get that device; else the CPU */

/* Of one process: a rank. */
static struct {
    pthread_mutex_t lock;
    int n_inside, n_parts;
    struct {
        char *at;
        size_t bytes;
    } part[MAX_PARTS];
    sw_device *cpu;
    sw_device other, alone;
} guarded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void protect(int protection) {
    for (int i = 0; i < guarded.n_parts; i++)
        if (mprotect(guarded.part[i].at, guarded.part[i].bytes, protection))
            abort();
}

static void enter(void) {
    pthread_mutex_lock(&guarded.lock);
    if (guarded.n_inside++ == 0)
        protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&guarded.lock);
}

static void leave(void) {
    pthread_mutex_lock(&guarded.lock);
    if (--guarded.n_inside == 0)
        protect(PROT_NONE);
    pthread_mutex_unlock(&guarded.lock);
}

static bool is_ours(const void *address) {
    for (int i = 0; i < guarded.n_parts; i++)
        if ((const char *)address >= guarded.part[i].at &&
            (const char *)address < guarded.part[i].at + guarded.part[i].bytes)
            return true;
    return false;
}

static void *take(const sw_device *device, int64_t bytes, bool is_filled) {
    (void)device;
    void *memory = guarded.cpu->take(guarded.cpu, bytes, is_filled);
    if (!memory || guarded.n_parts == MAX_PARTS)
        return NULL;
    enter();
    guarded.part[guarded.n_parts].at = memory;
    guarded.part[guarded.n_parts++].bytes = ((size_t)bytes + 4095) / 4096 * 4096;
    leave();
    return memory;
}

static void give(const sw_device *device, void *memory, int64_t bytes) {
    (void)device;
    for (int i = 0; i < guarded.n_parts; i++)
        if (guarded.part[i].at == memory)
            guarded.part[i] = guarded.part[--guarded.n_parts];
    guarded.cpu->give(guarded.cpu, memory, bytes);
}

static void copy(const sw_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    enter();
    guarded.cpu->copy(guarded.cpu, to, from, bytes);
    leave();
}

static void run_kernel(const sw_device *device, sw_number_kind numbers, sw_kernel kernel,
                       const sw_kernel_call *call) {
    const int host = kernel == SW_KERNEL_SPLIT || kernel == SW_KERNEL_NORMAL ? 0
                     : kernel == SW_KERNEL_JOIN                              ? 2
                                                                             : -1;
    if (host >= 0 &&
        !is_ours(call->operand[host])) { /* values of the host are brought here first */
        fprintf(stderr, "%s is given the host's memory\n", sw_kernel_name(kernel));
        abort();
    }
    const sw_device *cpu = device == &guarded.alone ? guarded.cpu->alone : guarded.cpu;
    enter();
    sw_device_kernel(cpu, numbers, kernel)(cpu, call);
    leave();
}

#define WRAP(NAME, ...)                                                            \
    static void f32_##NAME(const sw_device *device, const sw_kernel_call *call) {  \
        run_kernel(device, SW_NUMBERS_F32, SW_KERNEL_##NAME, call);                \
    }                                                                              \
    static void bf16_##NAME(const sw_device *device, const sw_kernel_call *call) { \
        run_kernel(device, SW_NUMBERS_BF16, SW_KERNEL_##NAME, call);               \
    }
SW_KERNELS(WRAP, WRAP)
#define F32(NAME, ...) [SW_KERNEL_##NAME] = f32_##NAME,
#define BF16(NAME, ...) [SW_KERNEL_##NAME] = bf16_##NAME,
static const sw_kernel_fn kernels[SW_N_NUMBER_KINDS][SW_N_KERNELS] = {
    [SW_NUMBERS_F32] = {SW_KERNELS(F32, F32)}, [SW_NUMBERS_BF16] = {SW_KERNELS(BF16, BF16)}};

static void unpin(const sw_device *device) {
    (void)device;
    guarded.cpu->unpin(guarded.cpu);
}

static void close_other(sw_device *device) {
    (void)device;
    guarded.cpu->close(guarded.cpu);
}

/* Linked in place of sw_rank_device_open, which is __real_... */
sw_status __real_sw_rank_device_open(const sw_comm *comm, const sw_sharding *sharding,
                                     const sw_cores *cores, sw_kernel_set set, sw_gemm_kind gemm,
                                     sw_device **device, sw_error *err);
sw_status __wrap_sw_rank_device_open(const sw_comm *comm, const sw_sharding *sharding,
                                     const sw_cores *cores, sw_kernel_set set, sw_gemm_kind gemm,
                                     sw_device **device, sw_error *err);
sw_status __wrap_sw_rank_device_open(const sw_comm *comm, const sw_sharding *sharding,
                                     const sw_cores *cores, sw_kernel_set set, sw_gemm_kind gemm,
                                     sw_device **device, sw_error *err) {
    sw_status status = __real_sw_rank_device_open(comm, sharding, cores, set, gemm, device, err);
    if (status || !is_other)
        return status;
    guarded.cpu = *device;
    sw_device *devices[] = {&guarded.other, &guarded.alone};
    for (int i = 0; i < 2; i++) {
        *devices[i] = i ? *guarded.cpu->alone : *guarded.cpu;
        devices[i]->name = "other";
        devices[i]->kernels = kernels;
        devices[i]->alone = &guarded.alone;
        devices[i]->is_host = false;
        devices[i]->take = take;
        devices[i]->give = give;
        devices[i]->copy = copy;
        devices[i]->unpin = unpin;
        devices[i]->close = close_other;
    }
    *device = &guarded.other;
    return SW_OK;
}

/* ---- runs ---- */

typedef struct run_folder {
    char path[256], yaml[300];
} run_folder;

static const char settings[] =
    "model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, max_positions: 32, "
    "dropout: 0.1, save_dtype: fp32}\n"
    "data: {train: [text.txt], validation: [text.txt], validation_rows: 5, tokenizer: bytes, "
    "sequence_length: 16}\n"
    "train: {batch_size: 5, micro_batch_size: 1, validate_every: 2, threads: 2}\n"
    "optimizer: {learning_rate: 1e-2}\n"
    "guard: {verify_every: 1}\n"
    "shard: {mode: view}\n"
    "log: {every: 1}\n";

static void write_ids(const char *path) {
    char npy[128 + 4 * 100] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': False, 'shape': (100,), }";
    npy[6] = 1, npy[7] = 0, npy[8] = 118, npy[9] = 0;
    for (size_t i = 10 + strlen(npy + 10); i < 128; i++)
        npy[i] = i == 127 ? '\n' : ' ';
    for (int i = 0; i < 100; i++)
        memcpy(npy + 128 + 4 * i, &(int32_t){'a' + i * i % 23}, 4);
    assert_int_equal(sw_file_write(path, npy, sizeof npy, NULL), SW_OK);
}

static int make_folder(void **state) {
    run_folder *folder = calloc(1, sizeof *folder);
    char path[300], text[2048];
    if (!folder)
        return -1;
    if (!folder_make(folder->path))
        return -1;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    snprintf(path, sizeof path, "%s/ids.npy", folder->path);
    write_ids(path);
    snprintf(path, sizeof path, "%s/text.txt", folder->path);
    snprintf(folder->yaml, sizeof folder->yaml, "%s/run.yaml", folder->path);
    *state = folder;
    return sw_file_write(path, text, sizeof text, NULL) ||
                   sw_file_write(folder->yaml, settings, sizeof settings - 1, NULL)
               ? -1
               : 0;
}

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...) {
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static int remove_folder(void **state) {
    run_folder *folder = *state;
    int code = shell("rm -rf '%s'", folder->path);
    free(folder);
    return code;
}

typedef struct choice {
    int stage, n_ranks;
    const char *dtype, *accumulate;
} choice;

static void train(const run_folder *folder, const choice *c, const char *name, int n_steps) {
    char text[6][64];
    snprintf(text[0], 64, "checkpoint.path=%s", name);
    snprintf(text[1], 64, "shard.stage=%d", c->stage);
    snprintf(text[2], 64, "shard.ranks=%d", c->n_ranks);
    snprintf(text[3], 64, "shard.param_dtype=%s", c->dtype);
    snprintf(text[4], 64, "shard.accumulate=%s", c->accumulate);
    snprintf(text[5], 64, "train.steps=%d", n_steps);
    const char *overrides[] = {
        text[0], text[1], text[2], text[3], text[4], text[5], "checkpoint.every=1"};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    sw_error err = {0};
    if (sw_train_file(folder->yaml, overrides, 7, &options, &err) != SW_OK)
        fail_msg("%s: stage %d, %d ranks, %s, %s: %s", name, c->stage, c->n_ranks, c->dtype,
                 c->accumulate, err.message);
}

static const choice CHOICES[] = {{3, 1, "fp32", "sharded"},   {3, 2, "bf16", "sharded"},
                                 {3, 3, "fp32", "unsharded"}, {2, 2, "fp32", "sharded"},
                                 {1, 2, "bf16", "unsharded"}, {0, 2, "bf16", "sharded"},
                                 {0, 1, "fp32", "sharded"}};

static void training_ends_in_the_same_bits(void **state) {
    const run_folder *folder = *state;
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        char cpu[16], other[16];
        snprintf(cpu, sizeof cpu, "cpu%zu", i);
        snprintf(other, sizeof other, "other%zu", i);
        for (int n_steps = 2; n_steps <= 3; n_steps++) { /* the second time it goes on */
            is_other = false;
            train(folder, &CHOICES[i], cpu, n_steps);
            is_other = true;
            train(folder, &CHOICES[i], other, n_steps);
        }
        assert_int_equal(shell("cd '%s/%s' && n=0 && for f in $(find . -name '*.safetensors'); do "
                               "cmp $f ../%s/$f || exit 1; "
                               "n=$((n + 1)); done; test $n -ge 4",
                               folder->path, cpu, other),
                         0);
    }
}

static void keep_token(void *to, int64_t text, int32_t id) {
    FILE *file = fopen(to, "a");
    if (file) {
        fprintf(file, "%d %d\n", (int)text, id);
        fclose(file);
    }
}

static void generation_gives_the_same_tokens(void **state) {
    const run_folder *folder = *state;
    static const int32_t ids[] = {'a', 'b', 'e', 'j'};
    const sw_prompt prompts[] = {
        {.ids = ids, .n_ids = 4}, {.ids = ids + 1, .n_ids = 2}, {.ids = ids, .n_ids = 1}};
    char model[300], path[2][300];
    snprintf(model, sizeof model, "%s/cpu0/model", folder->path);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/tokens%d", folder->path, i);
        const sw_generate_options options = {.model = {.folder = model},
                                             .prompts = prompts,
                                             .n_prompts = 3,
                                             .max_tokens = 40, /* beyond the model's positions */
                                             .temperature = 1,
                                             .top_p = 1,
                                             .seed = 7,
                                             .n_ranks = 2,
                                             .passes_end = true,
                                             .parameter_dtype = SW_F32,
                                             .sink = {.to = path[i], .token = keep_token}};
        sw_error err = {0};
        is_other = i == 1;
        if (sw_generate(&options, &err) != SW_OK)
            fail_msg("%s", err.message);
    }
    assert_int_equal(
        shell("test $(wc -l <'%s') -ge 40 && sort '%s' >'%s.s' && sort '%s' | cmp - '%s.s'",
              path[0], path[0], path[0], path[1], path[0]),
        0);
}

static void evaluation_gives_the_same_loss(void **state) {
    const run_folder *folder = *state;
    char model[300], ids[300];
    snprintf(model, sizeof model, "%s/cpu0/model", folder->path);
    snprintf(ids, sizeof ids, "%s/ids.npy", folder->path);
    const char *const paths[] = {ids};
    sw_source_score scores[2] = {0};
    for (int i = 0; i < 2; i++) {
        const sw_score_options options = {.model = {.folder = model},
                                          .paths = paths,
                                          .n_paths = 1,
                                          .sequence_length = 16,
                                          .stride = 8,
                                          .n_ranks = 2,
                                          .parameter_dtype = SW_F32};
        sw_choices_score none;
        sw_error err = {0};
        is_other = i == 1;
        if (sw_score(&options, &scores[i], &none, &err) != SW_OK)
            fail_msg("%s", err.message);
    }
    assert_memory_equal(&scores[0], &scores[1], sizeof scores[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_ends_in_the_same_bits),
        cmocka_unit_test(generation_gives_the_same_tokens),
        cmocka_unit_test(evaluation_gives_the_same_loss),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
