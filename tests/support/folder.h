/* folder.h: a folder for what a test writes. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER_BYTES 32

/* Make a new one; out: its path. */
static inline bool folder_make(char path[FOLDER_BYTES]) {
    strcpy(path, "/tmp/shardwise-test-XXXXXX");
    return mkdtemp(path) != NULL;
}

/* Remove a folder with all that is in it; 0: done. */
static inline int folder_remove(const char *path) {
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command);
}

#endif
