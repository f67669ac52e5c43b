/* checkpoint_import.c: shardwise checkpoint import: models of other kinds as Hugging Face folders. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/convert.h"
#include "cli/checkpoint.h"

sw_status sw_checkpoint_action_import(int n_arguments, char **arguments, sw_error *err) {
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
    else if (!sw_checkpoint_parse_dtype(dtype_word, &dtype))
        status =
            sw_fail(err, SW_BAD_CONFIG, "--dtype is fp32, bf16 or fp16, not %.100s · shardwise checkpoint import", dtype_word);
    else if (!sw_text_parse_bytes(size, &max_shard_size) || max_shard_size < 1)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--max-shard-size takes a size such as 512MiB or 5GiB, not %.100s · shardwise checkpoint import", size);
    else if (sw_is_checkpoint_folder(others[0]))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s: is a run's checkpoint · shardwise checkpoint export makes a model's folder of it", others[0]);
    else
        status = sw_checkpoint_import(others[0], others[1], dtype, max_shard_size, err);
    if (!status)
        printf("model: %s\n", others[1]);
done:
    free(others);
    return status;
}
