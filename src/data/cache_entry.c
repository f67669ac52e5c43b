/* cache_entry.c: see cache_entry.h. */
#include "data/cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "base/reason.h"

enum { BYTES_AT_ONCE = 256 << 10, CHECKSUMS_BYTES = 1024, LINE_BYTES = 96 };

const char *const sw_entry_names[SW_N_ENTRY_FILES] = {"tokens.npy", "marks.npy", "documents.npy",
                                                      "whole.npy",  "lines.npy", "facts.npy"};
static const char checksums[] = "checksums";

sw_status sw_file_see(const char *path, void (*seen)(void *to, const void *bytes, int64_t n),
                      void *to, sw_error *err) {
    int descriptor;
    int64_t bytes;
    sw_status status = sw_file_open(path, &descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    char *buffer = malloc(BYTES_AT_ONCE);
    if (!buffer)
        status =
            sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d bytes to read it with",
                    path, BYTES_AT_ONCE);
    for (int64_t at = 0; at < bytes && status == SW_OK; at += BYTES_AT_ONCE) {
        int64_t n = bytes - at < BYTES_AT_ONCE ? bytes - at : BYTES_AT_ONCE;
        status = sw_file_read_at(descriptor, path, buffer, n, at, err);
        if (status == SW_OK)
            seen(to, buffer, n);
    }
    free(buffer);
    close(descriptor);
    return status;
}

static void seen_bytes(void *to, const void *bytes, int64_t n) {
    XXH3_128bits_update(to, bytes, (size_t)n);
}

/* One line of the checksums. */
static sw_status describe(const char *folder, const char *name, char line[LINE_BYTES],
                          sw_error *err) {
    XXH3_state_t hash; /* on the stack: it must be aligned as its type says */
    char path[SW_PATH_BYTES];
    XXH3_128bits_reset(&hash);
    sw_status status = sw_path_join(path, folder, name, err);
    if (status == SW_OK)
        status = sw_file_see(path, seen_bytes, &hash, err);
    XXH128_hash_t digest = XXH3_128bits_digest(&hash);
    snprintf(line, LINE_BYTES, "%016" PRIx64 "%016" PRIx64 "  %s\n", (uint64_t)digest.high64,
             (uint64_t)digest.low64, name);
    return status;
}

static int begin(const char *key, char text[CHECKSUMS_BYTES]) {
    return snprintf(text, CHECKSUMS_BYTES, "shardwise tokens %s\n", key);
}

static bool is_there(const char *folder, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, folder, name, NULL) == SW_OK && sw_file_exists(path);
}

sw_status sw_entry_seal(const char *folder, const char *key, sw_error *err) {
    char text[CHECKSUMS_BYTES], line[LINE_BYTES], path[SW_PATH_BYTES];
    int n = begin(key, text);
    sw_status status = sw_path_join(path, folder, checksums, err);
    for (int i = 0; i < SW_N_ENTRY_FILES && status == SW_OK; i++) {
        if (i == SW_ENTRY_MARKS && !is_there(folder, sw_entry_names[i]))
            continue;
        status = describe(folder, sw_entry_names[i], line, err);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s", line);
    }
    return status == SW_OK ? sw_file_write(path, text, n, err) : status;
}

static sw_status read_checksums(const char *folder, const char *key, char text[CHECKSUMS_BYTES],
                                sw_error *err) {
    char path[SW_PATH_BYTES], first[CHECKSUMS_BYTES], *read = NULL;
    int64_t bytes = 0;
    int n = begin(key, first);
    sw_status status = sw_path_join(path, folder, checksums, err);
    if (status == SW_OK)
        status = sw_file_read(path, CHECKSUMS_BYTES - 1, &read, &bytes, err);
    if (status != SW_OK)
        return status == SW_NO_MEMORY ? status
                                      : sw_fail(err, SW_BAD_FILE, "its checksums cannot be read");
    snprintf(text, CHECKSUMS_BYTES, "%s", read);
    free(read);
    return (int64_t)strlen(text) == bytes && strncmp(text, first, (size_t)n) == 0
               ? SW_OK
               : sw_fail(err, SW_BAD_FILE, "its checksums are not those of this text");
}

/* The text is compared piece by piece, so that the file that differs can be named, and the rest
 * need not be read. */
sw_status sw_entry_check(const char *folder, const char *key, sw_error *err) {
    char text[CHECKSUMS_BYTES], line[LINE_BYTES];
    sw_status status = read_checksums(folder, key, text, err);
    if (status != SW_OK)
        return status;
    const char *at = strchr(text, '\n') + 1;
    for (int i = 0; i < SW_N_ENTRY_FILES; i++) {
        if (i == SW_ENTRY_MARKS && !is_there(folder, sw_entry_names[i]))
            continue;
        status = describe(folder, sw_entry_names[i], line, err);
        if (status == SW_NO_MEMORY)
            return status;
        size_t n = strlen(line);
        if (status != SW_OK || strncmp(at, line, n) != 0)
            return sw_fail(err, SW_BAD_FILE,
                           status ? "%s cannot be read" : "%s is not what was written",
                           sw_entry_names[i]);
        at += n;
    }
    return *at ? sw_fail(err, SW_BAD_FILE, "its checksums are not what was written") : SW_OK;
}

void sw_entry_remove(const char *folder) {
    char path[SW_PATH_BYTES];
    struct stat info;
    if (lstat(folder, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        unlink(folder);
        return;
    }
    if ((info.st_mode & S_IRWXU) != S_IRWXU)
        (void)chmod(folder, 0700);
    for (int i = 0; i <= SW_N_ENTRY_FILES; i++)
        if (sw_path_join(path, folder, i < SW_N_ENTRY_FILES ? sw_entry_names[i] : checksums,
                         NULL) == SW_OK &&
            unlink(path) != 0)
            rmdir(path); /* a folder where a file should be, if it is empty */
    rmdir(folder);
}

/* Exchange two names; where the file system cannot, one after the other. out: `made` is what
 * `folder` was. */
static int exchange(const char *made, const char *folder) {
    char aside[SW_PATH_BYTES + 8];
    if (renameat2(AT_FDCWD, made, AT_FDCWD, folder, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP && errno != EPERM)
        return -1;
    snprintf(aside, sizeof aside, "%s-old", made);
    return rename(folder, aside) || rename(made, folder) || rename(aside, made) ? -1 : 0;
}

/* One attempt; -1 with errno: somebody else may have been quicker. */
static int place(const char *made, const char *folder, const char *key) {
    if (rename(made, folder) == 0) /* nothing was there, or an empty folder */
        return 0;
    int failed = errno;
    if (!sw_file_exists(folder)) {
        errno = failed;
        return -1;
    }
    return sw_entry_check(folder, key, NULL) == SW_OK ? 0 : exchange(made, folder);
}

sw_status sw_entry_place(const char *made, const char *folder, const char *key, sw_error *err) {
    enum { N_TRIES = 4 };
    int failed = -1;
    for (int i = 0; i < N_TRIES && failed; i++)
        failed = place(made, folder, key) ? errno : 0;
    sw_entry_remove(made); /* what is there still: not needed, or what had the name before */
    return failed ? sw_fail_call(err, SW_CALL_WRITE, failed, "%s: cannot be renamed to %s", made,
                                 folder)
                  : SW_OK;
}
