/* checkpoint_export.c: shardwise checkpoint export: a model as a GGUF file, a checkpoint as a
 * Hugging Face folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"
#include "checkpoint/export.h"
#include "cli/checkpoint.h"
#include "config/settings.h"
#include "data/chat.h"
#include "hf/convert.h"
#include "plan/assembly.h"
#include "tokenizer/tokenizer.h"

bool sw_checkpoint_parse_dtype(const char *word, sw_dtype *dtype) {
    static const struct {
        const char *word, *other;
        sw_dtype dtype;
    } words[] = {{"fp32", "F32", SW_F32}, {"bf16", "BF16", SW_BF16}, {"fp16", "F16", SW_F16}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i].word) || !strcmp(word, words[i].other)) {
            *dtype = words[i].dtype;
            return true;
        }
    return false;
}

static sw_status export_gguf(const char *from, const char *to, const char *type_word,
                             bool without_tokenizer, sw_error *err) {
    sw_dtype dtype;
    if (!sw_checkpoint_parse_dtype(type_word ? type_word : "F16", &dtype))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--type is F16, BF16 or F32, not %.100s · shardwise checkpoint export",
                       type_word);
    if (sw_is_run_folder(from) || sw_is_checkpoint_folder(from))
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s: a checkpoint is exported as a folder, and that as a GGUF file · "
                       "shardwise checkpoint export %s OUT_DIR, "
                       "then shardwise checkpoint export OUT_DIR %s",
                       from, from, to);
    sw_status status = sw_checkpoint_export_gguf(from, to, dtype, !without_tokenizer, err);
    if (status == SW_OK)
        printf("model: %s\n", to);
    return status;
}

/* ---- a checkpoint ---- */

/* The folder of the run that `from` is, or that a checkpoint lies in: two above its own; "": in
 * none. It is asked for before anything is opened, as a run may remove the checkpoint at any
 * time. */
static sw_status find_run_folder(const char *from, bool is_run, char folder[SW_PATH_BYTES],
                                 sw_error *err) {
    if (!realpath(from, folder)) {
        int error = errno;
        sw_status status = sw_cannot_read(from, error, err);
        return error == EACCES ? sw_fail(err, SW_BAD_CONFIG, "%s", err->message) : status;
    }
    for (int n_up = is_run ? 0 : 2; n_up > 0; n_up--) {
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            *folder = 0;
        else
            *slash = 0;
    }
    return SW_OK;
}

/* The settings of the run of this folder; *is_there: are there any? */
static sw_status read_run_settings(const char *folder, bool *is_there, sw_settings *settings,
                                   sw_error *err) {
    char yaml[SW_PATH_BYTES];
    *is_there = false;
    if (!*folder)
        return SW_OK;
    sw_status status = sw_path_join(yaml, folder, "run.yaml", err);
    if (status != SW_OK || !sw_file_exists(yaml))
        return status;
    status = sw_settings_read(yaml, NULL, 0, settings, err);
    *is_there = status == SW_OK;
    return status;
}

/* What was trained, as the checkpoint itself says it: `settings` has model.train and model.lora,
 * and defaults. */
static sw_status read_trained(const sw_checkpoint *checkpoint, sw_settings *settings,
                              sw_error *err) {
    const char *train = sw_checkpoint_find_setting(checkpoint, "model.train");
    const char *lora = sw_checkpoint_find_setting(checkpoint, "model.lora");
    char *yaml = NULL;
    size_t bytes;
    FILE *out = open_memstream(&yaml, &bytes);
    if (out && train && lora)
        fprintf(out, "model: {train: %s, lora: %s}\n", train, lora);
    if (!sw_text_close(out, &yaml))
        return sw_fail(err, SW_NO_MEMORY, "no memory for the settings of %s",
                       sw_checkpoint_path(checkpoint));
    sw_status status =
        sw_settings_parse(sw_checkpoint_path(checkpoint), "/", yaml, NULL, 0, settings, err);
    free(yaml);
    return status;
}

/* Tokenizer and model are those of the run, as in its final model. */
static sw_status read_options(const char *run_folder, const char *model, bool without_tokenizer,
                              sw_settings *run, char tokenizer[SW_PATH_BYTES], char **chat_template,
                              sw_export_options *options, sw_error *err) {
    bool has_settings = false;
    sw_status status = read_run_settings(run_folder, &has_settings, run, err);
    options->model = model ? model : has_settings ? run->model.path : NULL;
    options->is_model_given = model != NULL;
    if (status != SW_OK || without_tokenizer)
        return status;
    options->is_bytes = has_settings && sw_settings_is_bytes(run);
    options->companions = options->model;
    if (has_settings && !options->is_bytes && run->data.tokenizer) {
        status = sw_tokenizer_folder(run->data.tokenizer, tokenizer, err);
        options->companions = tokenizer;
    }
    if (status != SW_OK || !has_settings)
        return status;
    const sw_chat_options chat = {.folder = options->is_bytes ? NULL : options->companions,
                                  .format = sw_settings_chat_format(run),
                                  .template_path = run->data.chat_template};
    status = sw_chat_chosen(&chat, chat_template, err);
    options->chat_template = *chat_template;
    return status ? sw_fail_within(err, "the chat template goes with the tokenizer's files, which "
                                        "--no-tokenizer leaves out")
                  : status;
}

static sw_status export_folder(const char *from, const char *to, const char *type_word,
                               int64_t max_shard_size, const char *model, bool without_tokenizer,
                               sw_error *err) {
    sw_export_options options = {.dtype = SW_F32, .max_shard_size = max_shard_size};
    sw_checkpoint *checkpoint = NULL;
    sw_settings run = {0}, trained = {0};
    char run_folder[SW_PATH_BYTES], tokenizer[SW_PATH_BYTES], *chat_template = NULL;
    if (type_word && !sw_checkpoint_parse_dtype(type_word, &options.dtype))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--type is F16, BF16 or F32, not %.100s · shardwise checkpoint export",
                       type_word);
    const bool is_run = sw_is_run_folder(from); /* asked once: nothing below may think otherwise */
    if (sw_file_exists(from) && !is_run && !sw_is_checkpoint_folder(from))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is neither a run's folder nor a checkpoint's · for a GGUF file give "
                       "OUT.gguf; a model's folder in another "
                       "type is made by shardwise checkpoint import",
                       from);
    sw_status status = find_run_folder(from, is_run, run_folder, err);
    if (status == SW_OK)
        status = sw_checkpoint_at(from, &checkpoint, err);
    if (status == SW_OK)
        status = read_options(run_folder, model, without_tokenizer, &run, tokenizer, &chat_template,
                              &options, err);
    if (status == SW_OK)
        status = read_trained(checkpoint, &trained, err);
    sw_lora lora = sw_assembly_lora(&trained);
    options.lora = status == SW_OK && lora.rank ? &lora : NULL;
    if (status == SW_OK)
        status = sw_checkpoint_export_model(checkpoint, to, &options, err);
    free(chat_template);
    sw_settings_free(&run);
    sw_settings_free(&trained);
    sw_checkpoint_close(checkpoint);
    if (status == SW_OK)
        printf("%s: %s\n", options.lora ? "adapter" : "model", to);
    return status;
}

/* ---- the action ---- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

sw_status sw_checkpoint_action_export(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, without_tokenizer = false, goes_on;
    const char *format = NULL, *type_word = NULL, *size = NULL, *model = NULL;
    const sw_flag flags[] = {
        {"--format", "FORMAT", "gguf or huggingface (default: by the name of the output)",
         SW_FLAG_TEXT, &format},
        {"--type", "TYPE",
         "element type: F16, BF16 or F32 (default F16 for the matrices of a GGUF file, F32 for a "
         "folder)",
         SW_FLAG_TEXT, &type_word},
        {"--max-shard-size", "SIZE", "largest file of a folder (default 5GiB)", SW_FLAG_TEXT,
         &size},
        {"--model", "MODEL_DIR",
         "the model that the run started from, if it has moved since; the frozen weights are taken "
         "from it",
         SW_FLAG_TEXT, &model},
        {"--no-tokenizer", NULL, "leave the tokenizer out", SW_FLAG_SWITCH, &without_tokenizer},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {"checkpoint export",
                                 "MODEL_DIR FILE.gguf | RUN_DIR|CHECKPOINT_DIR OUT_DIR",
                                 "make a GGUF file of a Hugging Face folder, or a Hugging Face "
                                 "folder of a checkpoint (for a run, its "
                                 "newest); adapters become a PEFT folder",
                                 NULL};
    const char **others;
    int n_others;
    int64_t max_shard_size;
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 2,
                                          "shardwise checkpoint export runs/x/model model.gguf",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (!format)
        format = ends_with(others[1], ".gguf") ? "gguf" : "huggingface";
    if (n_others > 2)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: give one folder and one output · shardwise checkpoint export",
                         others[2]);
    else if (strcmp(format, "gguf") && strcmp(format, "huggingface"))
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "--format is gguf or huggingface, not %.100s · shardwise checkpoint export", format);
    else if ((status = sw_arguments_size("checkpoint export", "--max-shard-size",
                                         size ? size : "5GiB", &max_shard_size, err)))
        ;
    else if (!strcmp(format, "gguf") && (model || size))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s is for a folder that is made of a checkpoint, and %s is a GGUF file · "
                         "shardwise checkpoint export",
                         model ? "--model" : "--max-shard-size", others[1]);
    else if (!strcmp(format, "gguf"))
        status = export_gguf(others[0], others[1], type_word, without_tokenizer, err);
    else
        status = export_folder(others[0], others[1], type_word, max_shard_size, model,
                               without_tokenizer, err);
done:
    free(others);
    return status;
}
