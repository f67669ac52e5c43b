/* hf_folder.c: see hf_folder.h. */
#include "hf/hf_folder.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/hub_name.h"
#include "base/text.h"

enum { NAME_BYTES = 256 };

static bool has_file(const char *folder, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, folder, name, NULL) == SW_OK && sw_file_exists(path);
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* The first name in the order of the alphabet that fits the pattern. */
static bool find_name(const char *folder, const char *pattern, char name[NAME_BYTES]) {
    struct dirent **entries;
    bool is_found = false;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        if (!is_found && fnmatch(pattern, entries[i]->d_name, 0) == 0) {
            snprintf(name, NAME_BYTES, "%s", entries[i]->d_name);
            is_found = true;
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return is_found;
}

/* ---- files ---- */

static sw_status refuse_file(const char *path, sw_error *err) {
    char head[SW_FILE_HEAD_BYTES];
    int descriptor;
    int64_t bytes;
    sw_status status = sw_file_open(path, &descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    int64_t n = bytes < SW_FILE_HEAD_BYTES ? bytes : SW_FILE_HEAD_BYTES;
    status = sw_file_read_at(descriptor, path, head, n, 0, err);
    close(descriptor);
    if (status != SW_OK)
        return status;
    sw_file_format kind = sw_file_format_of(head, n, bytes);
    switch (kind) {
    case SW_FILE_GGUF:
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is a GGUF file, not a model's folder; make one of it: shardwise "
                       "checkpoint import %s DIR",
                       path, path);
    case SW_FILE_SAFETENSORS:
    case SW_FILE_JSON:
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is %s, not a model's folder; name the folder that holds config.json "
                       "and model.safetensors",
                       path, kind == SW_FILE_JSON ? "a file of JSON" : "a safetensors file");
    case SW_FILE_LFS_POINTER:
    case SW_FILE_TORCH:
    case SW_FILE_PICKLE:
    case SW_FILE_HDF5:
        return sw_file_expect(path, head, n, bytes, SW_FILE_SAFETENSORS, err);
    default:
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: is %s, not a model's folder, which holds config.json and model.safetensors", path,
            sw_file_format_words(kind) ? sw_file_format_words(kind) : "a file");
    }
}

/* ---- folders without config.json ---- */

static sw_status refuse_cache(const char *folder, sw_error *err) {
    char snapshots[SW_PATH_BYTES], name[NAME_BYTES];
    sw_status status = sw_path_join(snapshots, folder, "snapshots", err);
    if (status != SW_OK || !find_name(snapshots, "*", name))
        return status ? status
                      : sw_fail(
                            err, SW_BAD_FILE,
                            "%s: is a cache of the Hugging Face Hub without a model; fetch it anew",
                            folder);
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: is the cache of a model from the Hugging Face Hub; take the folder %s/%s in it",
        folder, snapshots, name);
}

static sw_status refuse_gguf(const char *folder, const char *name, sw_error *err) {
    return sw_fail(err, SW_BAD_FILE,
                   "%s: holds a model as GGUF (%s); make a folder of it: shardwise checkpoint "
                   "import %s/%s DIR",
                   folder, name, folder, name);
}

/* Ours, which a run leaves behind. */
static sw_status check_run_folder(const char *folder, sw_error *err) {
    if (has_file(folder, "adapter_config.json"))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds an adapter, not a model; name the model that it is for, and "
                       "--adapter %s (eval, generate) or "
                       "model.lora.adapter (train), or make "
                       "one model of both: shardwise checkpoint merge MODEL_DIR %s OUT_DIR",
                       folder, folder, folder);
    if (has_file(folder, "model/config.json") || has_file(folder, "model/adapter_config.json"))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is the folder of a run, not of a model; take the folder model in it",
                       folder);
    if (has_file(folder, "steps") ||
        (has_file(folder, "manifest.json") && has_file(folder, "parameters.safetensors")))
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: is %s, not a model; make one of it: shardwise checkpoint export %s OUT_DIR",
            folder,
            has_file(folder, "steps") ? "the folder of a run that has no model yet"
                                      : "a checkpoint",
            folder);
    return SW_OK;
}

sw_status sw_hf_folder_check(const char *path, sw_error *err) {
    struct stat info;
    char name[NAME_BYTES];
    sw_status status = sw_path_must_exist(path, NULL, err);
    if (status == SW_OK && stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return refuse_file(path, err);
    if (status != SW_OK || has_file(path, "config.json"))
        return status;
    if ((status = check_run_folder(path, err)) != SW_OK)
        return status;
    if (has_file(path, "snapshots") && has_file(path, "blobs"))
        return refuse_cache(path, err);
    if (has_file(path, "model_index.json"))
        return sw_fail(err, SW_BAD_FILE, "%s: is a pipeline of diffusers; models of text are read",
                       path);
    if (find_name(path, "*.gguf", name))
        return refuse_gguf(path, name, err);
    if (has_file(path, "params.json"))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds a model in its makers' format (params.json), not in that of "
                       "Hugging Face; fetch the folder "
                       "with config.json: hf download OWNER/NAME --local-dir DIR",
                       path);
    if (find_name(path, "*.safetensors", name) || find_name(path, "*.bin", name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds %s but no config.json, which says what the weights are; fetch "
                       "it: hf download OWNER/NAME "
                       "config.json --local-dir %s",
                       path, name, path);
    return SW_OK;
}

/* ---- folders without weights that are read ---- */

static sw_status refuse_torch(const char *folder, const char *name, sw_error *err) {
    char word[400];
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: holds its weights as PyTorch pickles (%s), which are not read because they can run "
        "code; write "
        "model.safetensors beside them: python3 -c \"import sys; from transformers import "
        "AutoModelForCausalLM as M; "
        "M.from_pretrained(sys.argv[1], torch_dtype='auto').save_pretrained(sys.argv[1])\" %s",
        folder, name, sw_text_shell_word(folder, word, sizeof word));
}

sw_status sw_hf_folder_refuse_weights(const char *folder, sw_error *err) {
    static const char *const torch[] = {"pytorch_model*.bin*", "consolidated*.pth", "*.pth", "*.pt",
                                        "*.bin"};
    static const char *const others[] = {"tf_model.h5", "flax_model*.msgpack", "*.h5", "*.ckpt*",
                                         "*.onnx"};
    char name[NAME_BYTES];
    if (find_name(folder, "model-*-of-*.safetensors", name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds parts of a model (%s) without model.safetensors.index.json, "
                       "which lists them; fetch it: hf "
                       "download OWNER/NAME model.safetensors.index.json --local-dir %s",
                       folder, name, folder);
    if (find_name(folder, "adapter_model.safetensors", name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds an adapter and no model's weights; name the model that it is "
                       "for, and --adapter %s (eval, "
                       "generate) or model.lora.adapter (train)",
                       folder, folder);
    if (find_name(folder, "consolidated*.safetensors", name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds weights under their makers' names (%s), not those of Hugging "
                       "Face; fetch model.safetensors: hf "
                       "download OWNER/NAME --local-dir %s",
                       folder, name, folder);
    if (find_name(folder, "*.safetensors", name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds %s, but only model.safetensors is read; if that is the whole "
                       "model, rename it to model.safetensors",
                       folder, name);
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        if (find_name(folder, torch[i], name) && strcmp(name, "training_args.bin") != 0)
            return refuse_torch(folder, name, err);
    if (find_name(folder, "*.gguf", name))
        return refuse_gguf(folder, name, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (find_name(folder, others[i], name))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: holds its weights as %s, which is not read; fetch its safetensors: "
                           "hf download OWNER/NAME "
                           "--local-dir %s",
                           folder, name, folder);
    return sw_fail(err, SW_BAD_FILE,
                   "%s: holds neither model.safetensors nor model.safetensors.index.json; is the "
                   "download complete?",
                   folder);
}
