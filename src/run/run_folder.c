/* run_folder.c: the folder of a run: a new one, with run.yaml and plan.json in it before the first step. */
#include "run/train.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/model_files.h"

static sw_status exists_already(const char *path, sw_error *err) {
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s exists, and a run is not written over another · take another checkpoint.path, or remove that folder; "
                   "to go on from its weights, set model.path=%s/model",
                   path, path);
}

sw_status sw_run_folder_check(const sw_run *run, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    struct stat info;
    if (lstat(path, &info) == 0)
        return exists_already(path, err);
    if (errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG)
        return sw_fail(err, SW_NO_SPACE, "%s cannot be made: %s; take another checkpoint.path", path, strerror(errno));
    return SW_OK;
}

static sw_dtype save_dtype(const sw_settings *s) {
    static const sw_dtype dtypes[] = {[SW_SAVE_BF16] = SW_BF16, [SW_SAVE_FP32] = SW_F32, [SW_SAVE_FP16] = SW_F16};
    return dtypes[s->model.save_dtype];
}

sw_model_output sw_run_folder_output(const sw_run *run) {
    const sw_settings *s = run->settings;
    if (run->assembly.lora.rank)
        return (sw_model_output){.graph = run->assembly.lora_layers.parameters, .dtype = save_dtype(s), .is_adapter = true};
    return (sw_model_output){
        .graph = run->assembly.graph,
        .dtype = save_dtype(s),
        .max_shard_size = s->model.max_shard_size,
        .config = run->options->model ? NULL : &run->assembly.model,
        .companions = run->options->model ? NULL
                      : run->tokenizer    ? run->tokenizer_folder
                                          : s->model.path,
        .is_bytes = sw_settings_is_bytes(s),
    };
}

/* Make the folder, which must be a new one (another run may have begun since it was looked for), and those above it. */
static sw_status make_folders(const char *path, sw_error *err) {
    char part[SW_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return sw_fail(err, SW_BAD_CONFIG, "checkpoint.path is longer than %d bytes", SW_PATH_BYTES - 1);
    while (length > 1 && path[length - 1] == '/')
        length--;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && i < length)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (!mkdir(part, 0777) || (errno == EEXIST && i < length))
            continue;
        if (errno == EEXIST)
            return exists_already(path, err);
        return sw_fail(err, SW_NO_SPACE, "%s cannot be made: %s; take a checkpoint.path that can be written", part,
                       strerror(errno));
    }
    if (access(path, W_OK))
        return sw_fail(err, SW_NO_SPACE, "%s cannot be written: %s; take another checkpoint.path", path, strerror(errno));
    return SW_OK;
}

static json_t *classes(const int64_t bytes[SW_N_MEMORY_CLASSES]) {
    json_t *object = json_object();
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        json_object_set_new(object, sw_memory_class_name((sw_memory_class)c), json_integer(bytes[c]));
    return object;
}

static char *plan_text(const sw_run *run) {
    const sw_assembly *a = &run->assembly;
    int64_t n_micro_batches = run->settings->train.batch_size / a->choice.micro_batch_size, gather, reduce;
    int n_slots = (int)((n_micro_batches + a->choice.n_ranks - 1) / a->choice.n_ranks);
    sw_program_traffic(&a->program, n_slots, &gather, &reduce);
    char hash[32];
    snprintf(hash, sizeof hash, "%016" PRIx64, sw_program_hash(&a->program));
    json_t *plan = json_pack(
        "{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I}", "version", sw_version(), "ranks",
        a->choice.n_ranks, "threads", a->choice.n_threads, "stage", a->choice.stage, "micro_batch_size",
        (json_int_t)a->choice.micro_batch_size, "parameters", (json_int_t)a->n_parameters, "trained_parameters",
        (json_int_t)a->n_trainable, "slots", n_slots, "instructions", a->program.instructions.n, "program_hash", hash,
        "kernel_set", sw_kernel_set_name(run->kernel_set), "gemm", sw_gemm_kind_name(run->gemm.kind), "memory",
        classes(run->planned), "memory_of_one_rank_alone", classes(run->unsharded), "gather_bytes", (json_int_t)gather,
        "reduce_bytes", (json_int_t)reduce, "transient_bytes_alive", (json_int_t)a->program.packing_live);
    char *text = plan ? json_dumps(plan, JSON_INDENT(2)) : NULL;
    json_decref(plan);
    return text;
}

static sw_status write_text(const char *folder, const char *name, char *text, sw_error *err) {
    char path[SW_PATH_BYTES];
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory to write %s", name);
    sw_status status = sw_path_join(path, folder, name, err);
    return status ? status : sw_file_write(path, text, (int64_t)strlen(text), err);
}

sw_status sw_run_folder_room(const sw_run *run, sw_error *err) {
    const sw_settings *settings = run->settings;
    sw_model_output output = sw_run_folder_output(run);
    int64_t need, model = sw_model_files_bytes(&output);
    if (__builtin_add_overflow(model, 1 << 20, &need))
        need = INT64_MAX;
    int64_t space = sw_file_space(settings->checkpoint.path);
    char needed[SW_TEXT_NUMBER_BYTES], left[SW_TEXT_NUMBER_BYTES];
    if (space < need)
        return sw_fail(err, SW_NO_SPACE,
                       "%s: the final model needs %s and the disk has %s left · free some, or take another checkpoint.path",
                       settings->checkpoint.path, sw_text_bytes(need, needed, sizeof needed),
                       sw_text_bytes(space, left, sizeof left));
    return SW_OK;
}

/* What sw_run_folder_create makes, and nothing else. */
static void remove_folder(const char *path) {
    static const char *const names[] = {"run.yaml", "plan.json"};
    char file[SW_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sw_path_join(file, path, names[i], NULL) == SW_OK)
            unlink(file);
    rmdir(path);
}

sw_status sw_run_folder_create(const sw_run *run, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    sw_status status = make_folders(path, err);
    if (status)
        return status;
    char *yaml = sw_settings_yaml(run->settings), *plan = plan_text(run);
    status = write_text(path, "run.yaml", yaml, err);
    if (!status)
        status = write_text(path, "plan.json", plan, err);
    free(yaml);
    free(plan);
    if (status) /* the way is free for the next attempt */
        remove_folder(path);
    return status;
}

void sw_run_folder_tidy(const sw_run *run) {
    const char *path = run->settings->checkpoint.path;
    char file[SW_PATH_BYTES];
    if (sw_path_join(file, path, "model", NULL) == SW_OK)
        sw_model_files_abandon(file);
    if (sw_path_join(file, path, "events.jsonl", NULL) == SW_OK && !sw_file_exists(file))
        remove_folder(path);
}
