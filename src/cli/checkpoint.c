/* checkpoint.c: shardwise checkpoint: models between Hugging Face folders and GGUF files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/convert.h"
#include "cli/command.h"

/* A word for a dtype: "bf16" here, "BF16" in GGUF files. */
static bool parse_dtype(const char *word, sw_dtype *dtype) {
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

static sw_status import(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const char *dtype_word = "fp32", *size = "5GiB";
    const sw_flag flags[] = {
        {"--dtype", "TYPE", "element type of the folder: fp32, bf16 or fp16; fp32", SW_FLAG_TEXT, &dtype_word},
        {"--max-shard-size", "SIZE", "largest file of the folder; 5GiB", SW_FLAG_TEXT, &size},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {"checkpoint import", "FILE.gguf|MODEL_DIR OUT_DIR",
                                 "a GGUF file, or a Hugging Face folder in another element type, as a Hugging Face folder", NULL};
    const char **others;
    int n_others;
    sw_dtype dtype;
    int64_t max_shard_size;
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 2,
                                          "shardwise checkpoint import model.gguf model", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 2)
        status =
            sw_fail(err, SW_BAD_CONFIG, "%.100s: one file and one folder are taken · shardwise checkpoint import", others[2]);
    else if (!parse_dtype(dtype_word, &dtype))
        status =
            sw_fail(err, SW_BAD_CONFIG, "--dtype is fp32, bf16 or fp16, not %.100s · shardwise checkpoint import", dtype_word);
    else if (!sw_text_parse_bytes(size, &max_shard_size) || max_shard_size < 1)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--max-shard-size takes a size such as 512MiB or 5GiB, not %.100s · shardwise checkpoint import", size);
    else
        status = sw_checkpoint_import(others[0], others[1], dtype, max_shard_size, err);
    if (!status)
        printf("model: %s\n", others[1]);
done:
    free(others);
    return status;
}

static sw_status export(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, without_tokenizer = false, goes_on;
    const char *format = "gguf", *type_word = "F16";
    const sw_flag flags[] = {
        {"--format", "FORMAT", "of the file; gguf", SW_FLAG_TEXT, &format},
        {"--type", "TYPE", "element type of matrices: F16, BF16 or F32; F16", SW_FLAG_TEXT, &type_word},
        {"--no-tokenizer", NULL, "leave the tokenizer out", SW_FLAG_SWITCH, &without_tokenizer},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {"checkpoint export", "MODEL_DIR FILE.gguf", "a Hugging Face folder as a GGUF file", NULL};
    const char **others;
    int n_others;
    sw_dtype dtype;
    sw_status status =
        sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 2,
                           "shardwise checkpoint export runs/x/model model.gguf", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 2)
        status =
            sw_fail(err, SW_BAD_CONFIG, "%.100s: one folder and one file are taken · shardwise checkpoint export", others[2]);
    else if (strcmp(format, "gguf"))
        status = sw_fail(err, SW_BAD_CONFIG, "--format is gguf, not %.100s · shardwise checkpoint export", format);
    else if (!parse_dtype(type_word, &dtype))
        status = sw_fail(err, SW_BAD_CONFIG, "--type is F16, BF16 or F32, not %.100s · shardwise checkpoint export", type_word);
    else
        status = sw_checkpoint_export_gguf(others[0], others[1], dtype, !without_tokenizer, err);
    if (!status)
        printf("model: %s\n", others[1]);
done:
    free(others);
    return status;
}

static const struct {
    const char *name, *arguments, *about;
    sw_status (*run)(int n_arguments, char **arguments, sw_error *err);
} actions[] = {
    {"import", "FILE.gguf|MODEL_DIR OUT_DIR", "make a Hugging Face folder of it", import},
    {"export", "MODEL_DIR FILE.gguf", "make a GGUF file of a Hugging Face folder", export},
    {"merge", "MODEL_DIR ADAPTER_DIR OUT_DIR", "make one model of a model and its adapter", sw_checkpoint_merge},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

static void print_actions(void) {
    printf("shardwise checkpoint ACTION ...\n\n");
    for (int i = 0; i < N_ACTIONS; i++)
        printf("  %-8s %-30s %s\n", actions[i].name, actions[i].arguments, actions[i].about);
    printf("\nshardwise checkpoint ACTION --help says more\n");
}

static sw_status checkpoint(int n_arguments, char **arguments, sw_error *err) {
    static const char *const unbuilt[] = {"list", "verify", "diff", "prune"};
    const char *names[N_ACTIONS];
    if (n_arguments < 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "an action is missing · shardwise checkpoint · for example: shardwise checkpoint import model.gguf model");
    const char *action = arguments[0];
    if (!strcmp(action, "--help") || !strcmp(action, "-h")) {
        print_actions();
        return SW_OK;
    }
    for (int i = 0; i < N_ACTIONS; i++) {
        names[i] = actions[i].name;
        if (!strcmp(action, actions[i].name))
            return actions[i].run(n_arguments - 1, arguments + 1, err);
    }
    if (action[0] == '-')
        return sw_fail(err, SW_BAD_CONFIG, "unknown flag %.100s · shardwise checkpoint · did you mean --help?", action);
    for (size_t i = 0; i < sizeof unbuilt / sizeof *unbuilt; i++)
        if (!strcmp(action, unbuilt[i]))
            return sw_fail(err, SW_BAD_CONFIG, "checkpoint %s is not built yet · shardwise checkpoint --help lists what there is",
                           action);
    const char *nearest = sw_text_nearest(action, names, N_ACTIONS);
    return sw_fail(err, SW_BAD_CONFIG, "there is no action %.100s · shardwise checkpoint · %s%s%s", action,
                   nearest ? "did you mean " : "shardwise checkpoint --help lists what there is", nearest ? nearest : "",
                   nearest ? "?" : "");
}

const sw_verb sw_verb_checkpoint = {"checkpoint", "import|export|merge ...",
                                    "models from and to GGUF files, adapters into models", checkpoint};
