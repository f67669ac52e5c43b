/* Which missing paths read like names of the Hugging Face Hub, and the command that fetches
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hub_name.h"
#include "support/folder.h"

static char folder[FOLDER_BYTES];

static int make_folder(void **state) {
    (void)state;
    return folder_make(folder) && chdir(folder) == 0 && mkdir("runs", 0777) == 0 &&
                   mkdir("there", 0777) == 0 && symlink("nowhere/blob", "link") == 0
               ? 0
               : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return unlink("link") || rmdir("runs") || rmdir("there") || chdir("/") || rmdir(folder);
}

static void names_are_told_from_paths(void **state) {
    static const struct {
        const char *path, *name; /* NULL: none */
    } cases[] = {
        {"gpt2", "gpt2"},
        {"HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M"},
        {"meta-llama/Llama-3.2-1B_x", "meta-llama/Llama-3.2-1B_x"},
        {"https://huggingface.co/openai-community/gpt2", "openai-community/gpt2"},
        {"hf.co/gpt2", "gpt2"},
        {"there", NULL},
        {"runs/x", NULL}, /* runs is here */
        {"link", NULL},
        {"./gpt2", NULL},
        {"../gpt2", NULL},
        {"/gpt2", NULL},
        {"a/b/c", NULL},
        {"a/", NULL},
        {"/", NULL},
        {"", NULL},
        {"a b", NULL},
        {"tok.json", NULL},
        {"dir/model.safetensors", NULL},
        {"gpt2\xC3\xA9", NULL},
        {"-x", NULL},
        {"a/.b", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = NULL;
        bool is_name = sw_is_hub_name(".", cases[i].path, &name);
        if (is_name != (cases[i].name != NULL) || (is_name && strcmp(name, cases[i].name) != 0))
            fail_msg("%s: %s", cases[i].path, is_name ? name : "no name");
    }
    char longest[200];
    memset(longest, 'a', sizeof longest);
    longest[97] = 0;
    const char *name;
    assert_false(sw_is_hub_name(".", longest, &name));
    longest[96] = 0;
    assert_true(sw_is_hub_name(".", longest, &name));
}

static void says(const char *path, const char *pattern, const char *words) {
    sw_error err = {0};
    assert_int_equal(sw_path_must_exist(path, pattern, &err), SW_BAD_FILE);
    if (strncmp(err.message, path, strlen(path)) != 0 || !strstr(err.message, words))
        fail_msg("\"%s\" lacks \"%s\"", err.message, words);
}

static void what_is_missing_comes_with_its_command(void **state) {
    (void)state;
    says("openai/gpt2", NULL, "hf download openai/gpt2 --local-dir gpt2 (");
    says("openai/gpt2", NULL, "write ./gpt2");
    says("gpt2", "tokenizer*", "hf download gpt2 --local-dir gpt2 --include 'tokenizer*'");
    says("./gpt2", NULL, "No such file or directory; check the path");
    says("link", NULL, "it is a link to nowhere/blob, which is not there");
    assert_int_equal(sw_path_must_exist("there", NULL, NULL), SW_OK);
    char command[SW_FETCH_BYTES];
    sw_hub_fetch_command("a/b", "/x y", NULL, command);
    assert_string_equal(command, "hf download a/b --local-dir '/x y/b'");
    sw_hub_fetch_command("a/b", "/it's", NULL, command);
    assert_string_equal(command, "hf download a/b --local-dir '/it'\\''s/b'");
    sw_hub_fetch_command("a/b", ".", SW_HUB_DATA_SET, command);
    assert_string_equal(command, "hf download a/b --repo-type dataset --local-dir b");
    sw_hub_fetch_command("b", "/x", NULL, command);
    assert_string_equal(command, "hf download b --local-dir /x/b");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_told_from_paths),
                                       cmocka_unit_test(what_is_missing_comes_with_its_command)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
