/* replay.c: a fuzz target without a fuzzer: hands it every file of a folder, and nothing at all, so
 * that what fuzzing has found stays found. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* The target gets an allocation of exactly the file's size, so that a sanitizer sees the first byte
 * read behind it. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        if (file)
            fclose(file);
        return 1;
    }
    size_t n_bytes = (size_t)ftell(file);
    uint8_t *data = malloc(n_bytes ? n_bytes : 1);
    rewind(file);
    int failed = !data || fread(data, 1, n_bytes, file) != n_bytes;
    fclose(file);
    if (failed)
        fprintf(stderr, "replay: %s: cannot be read\n", path);
    else
        LLVMFuzzerTestOneInput(data, n_bytes);
    free(data);
    return failed;
}

int main(int n_arguments, char **arguments) {
    int n_files = 0, n_failed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    DIR *folder = n_arguments == 2 ? opendir(arguments[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER (of inputs, which must exist)\n", arguments[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name) >= (int)sizeof path)
            continue;
        n_files++;
        n_failed += replay_file(path);
    }
    closedir(folder);
    printf("%d inputs replayed\n", n_files);
    return n_failed != 0;
}
