/* checkpoint_import.c: shardwise checkpoint import: models of other kinds as Hugging Face folders;
 * checkpoints of other runs as those of a run.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/steps.h"
#include "cli/checkpoint.h"
#include "device/cpu/cores.h"
#include "hf/convert.h"

/* ---- a checkpoint ---- */

/* A new folder holds its lock, and perhaps steps/, when nothing came of it. */
static void remove_new_folder(const char *folder) {
    static const char *const names[] = {"steps", ".lock"};
    char path[SW_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sw_path_join(path, folder, names[i], NULL) == SW_OK)
            (void)remove(path);
    (void)rmdir(folder);
}

/* Empty, or what was left when this was killed before. */
static bool is_begun(const char *folder) {
    bool is = false;
    return sw_run_folder_is_begun(folder, &is, NULL) == SW_OK && is;
}

/* Into the folder `to` of a run, or a new one, from which `train` then goes on. */
static sw_status import_checkpoint(const char *from, const char *to, sw_error *err) {
    char whole[SW_PATH_BYTES]; /* which train does not count from RUN.yaml's folder */
    sw_checkpoint *checkpoint;
    sw_run_lock lock = {.descriptor = -1};
    sw_status status = sw_checkpoint_at(from, &checkpoint, err);
    if (status != SW_OK)
        return status;
    bool is_new = mkdir(to, 0777) == 0;
    if (!is_new && errno != EEXIST)
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be made", to);
    else if (!is_new && !sw_is_run_folder(to) && !is_begun(to))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s: exists and is not the folder of a run; a checkpoint is imported into "
                         "a run's folder or a new one · "
                         "to make a model's folder of it: shardwise checkpoint export",
                         to);
    if (status == SW_OK)
        status = sw_checkpoint_lock(to, &lock, err);
    if (status == SW_OK && !realpath(to, whole))
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be found any more", to);
    if (status == SW_OK)
        status = sw_checkpoint_copy(checkpoint, sw_storage_system(), to, sw_cores_count(), err);
    if (status == SW_OK)
        printf("checkpoint: %s/steps/%08" PRId64
               "; shardwise train RUN.yaml checkpoint.path=%s continues from it\n",
               to, sw_checkpoint_step(checkpoint), whole);
    else if (is_new && lock.descriptor >= 0)
        remove_new_folder(to);
    else if (is_new) /* a lock in it is another's */
        (void)rmdir(to);
    sw_run_lock_release(&lock);
    sw_checkpoint_close(checkpoint);
    return status;
}

/* ---- a model ---- */

static sw_status import_model(const char *from, const char *to, const char *dtype_word,
                              const char *size, sw_error *err) {
    sw_dtype dtype;
    int64_t max_shard_size;
    if (!sw_checkpoint_parse_dtype(dtype_word ? dtype_word : "fp32", &dtype))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--dtype is fp32, bf16 or fp16, not %.100s · shardwise checkpoint import",
                       dtype_word);
    sw_status status = sw_arguments_size("checkpoint import", "--max-shard-size",
                                         size ? size : "5GiB", &max_shard_size, err);
    if (status)
        return status;
    status = sw_checkpoint_import(from, to, dtype, max_shard_size, err);
    if (status == SW_OK)
        printf("model: %s\n", to);
    return status;
}

/* ---- the action ---- */

sw_status sw_checkpoint_action_import(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const char *dtype_word = NULL, *size = NULL;
    const sw_flag flags[] = {
        {"--dtype", "TYPE", "element type of a model's folder: fp32, bf16 or fp16 (default fp32)",
         SW_FLAG_TEXT, &dtype_word},
        {"--max-shard-size", "SIZE", "largest file of a model's folder (default 5GiB)",
         SW_FLAG_TEXT, &size},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {"checkpoint import",
                                 "FILE.gguf|MODEL_DIR OUT_DIR | RUN_DIR|CHECKPOINT_DIR RUN_DIR",
                                 "make a Hugging Face folder of a GGUF file or, in another element "
                                 "type, of such a folder; or verify a "
                                 "checkpoint (for a run, its newest) and copy it into another run",
                                 NULL};
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 2,
                                          "shardwise checkpoint import model.gguf model", &others,
                                          &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    bool is_of_a_run = sw_is_checkpoint_folder(others[0]) || sw_is_run_folder(others[0]);
    if (n_others > 2)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: one file and one folder are taken · shardwise checkpoint import",
                         others[2]);
    else if (is_of_a_run && (dtype_word || size))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s: a checkpoint keeps its element types and files, so there is no %s · "
                         "shardwise checkpoint import · to make "
                         "a model's folder of it: shardwise checkpoint export",
                         others[0], dtype_word ? "--dtype" : "--max-shard-size");
    else if (is_of_a_run)
        status = import_checkpoint(others[0], others[1], err);
    else
        status = import_model(others[0], others[1], dtype_word, size, err);
done:
    free(others);
    return status;
}
