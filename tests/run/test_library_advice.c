/* What the command says of settings that cannot be run, sw_train_file says too: a program of
 * somebody's own has no one else to ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "support/folder.h"

static char folder[FOLDER_BYTES];

/* Settings [text] are refused with that status, and with these words. */
static void is_refused(const char *text, sw_status expected, const char *const words[]) {
    char path[64];
    sw_error err = {0};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    sw_status status = sw_train_file(path, NULL, 0, &options, &err);
    if (status != expected)
        fail_msg("status %d: %s", (int)status, err.message);
    for (int i = 0; words[i]; i++)
        if (!strstr(err.message, words[i]))
            fail_msg("no \"%s\": %s", words[i], err.message);
    unlink(path);
}

#define REST "train: {steps: 1}\ncheckpoint: {path: run}\n"
#define NEW \
    "model: {architecture: llama, layers: 1, hidden: 8, heads: 2, ffn: 16, max_positions: 512}\n"

static void names_of_the_hub_have_the_command_that_fetches_them(void **state) {
    (void)state;
    is_refused("model: {path: HuggingFaceTB/SmolLM2-135M}\ndata: {train: [a.txt]}\n" REST,
               SW_BAD_FILE,
               (const char *[]){"run.yaml", "hf download HuggingFaceTB/SmolLM2-135M --local-dir ",
                                "write model.path: SmolLM2-135M", NULL});
    is_refused(NEW "data: {train: [a.txt], tokenizer: gpt2}\n" REST, SW_BAD_FILE,
               (const char *[]){"hf download gpt2 --local-dir ", "--include 'tokenizer*'",
                                "data.tokenizer: gpt2", NULL});
    is_refused(NEW "data: {train: [a/b], tokenizer: bytes}\n" REST, SW_BAD_FILE,
               (const char *[]){"hf download a/b --repo-type dataset", NULL});
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    is_refused("data: {train: [a.txt]}\n" REST, SW_BAD_CONFIG,
               (const char *[]){"run.yaml", "model.path", NULL});
    is_refused(NEW "data: {tokenizer: bytes}\n" REST, SW_BAD_CONFIG,
               (const char *[]){"run.yaml", "write data.train", NULL});
    is_refused(NEW "data: {train: [a.txt], tokenizer: bytes}\ncheckpoint: {path: run}\n",
               SW_BAD_CONFIG, (const char *[]){"run.yaml", "train.steps", NULL});
}

int main(void) {
    if (!folder_make(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_hub_have_the_command_that_fetches_them),
        cmocka_unit_test(what_is_missing_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
