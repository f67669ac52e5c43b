/* bad_files.h: the verdicts over the files in tests/checkpoint/bad-files, and what every refusal
 * must keep. */
#ifndef TESTS_CHECKPOINT_BAD_FILES_H
#define TESTS_CHECKPOINT_BAD_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/json.h"

#define BAD_FILES SW_SOURCE_FOLDER "/tests/checkpoint/bad-files/"

typedef sw_status (*load_fn)(const char *path, sw_error *err);

/* Load everything under `prefix` ("safetensors/") and compare with the verdicts. Returns how many
 * there were. */
static inline int check_verdicts(const char *prefix, load_fn load) {
    int n = 0, n_wrong = 0;
    char line[4096];
    FILE *verdicts = fopen(BAD_FILES "verdicts.jsonl", "r");
    assert_non_null(verdicts);
    while (fgets(line, sizeof line, verdicts)) {
        sw_json *row;
        sw_error err = {0};
        const char *file, *verdict, *why;
        assert_int_equal(sw_json_parse("verdicts.jsonl", line, (int64_t)strlen(line), &row, &err),
                         SW_OK);
        sw_json_object root = sw_json_root(row);
        assert_int_equal(sw_json_text(&root, "file", SW_JSON_REQUIRED, &file, &err), SW_OK);
        assert_int_equal(sw_json_text(&root, "verdict", SW_JSON_REQUIRED, &verdict, &err), SW_OK);
        assert_int_equal(sw_json_text(&root, "why", SW_JSON_REQUIRED, &why, &err), SW_OK);
        if (strncmp(file, prefix, strlen(prefix)) == 0) {
            char path[1024];
            n++;
            snprintf(path, sizeof path, BAD_FILES "%s", file);
            sw_status status = load(path, &err),
                      expected = strcmp(verdict, "accept") == 0 ? SW_OK : SW_BAD_FILE;
            if (status != SW_OK && getenv("SW_SHOW_MESSAGES"))
                print_message("%s (%s): %s\n", file, why, err.message + strlen(BAD_FILES));
            if (status != expected || (status != SW_OK && !strstr(err.message, path))) {
                print_error("%s: %s (%s), got %s: %s\n", file, verdict, why, sw_status_name(status),
                            err.message);
                n_wrong++;
            }
        }
        sw_json_free(row);
    }
    fclose(verdicts);
    assert_int_equal(n_wrong, 0);
    return n;
}

#endif
