/* machine_folder.c: see machine_folder.h. */
#include "support/machine_folder.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

int make_machine(void **state) {
    char *root = malloc(FOLDER_BYTES);
    *state = root;
    return root && folder_make(root) ? 0 : -1;
}

int remove_machine(void **state) {
    int result = folder_remove(*state);
    free(*state);
    return result;
}

void put_file(void **state, const char *name, const char *text) {
    const char *root = *state;
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}
