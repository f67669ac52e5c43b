/* storage.c: the table of storage.h, filled with the system's calls. */
#include "checkpoint/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"

/* 0 or more, or -errno. */
static int outcome(int result) {
    return result < 0 ? -errno : result;
}

static int call_make_folder(void *self, const char *path) {
    (void)self;
    return outcome(mkdir(path, 0777));
}

static int call_open(void *self, const char *path, bool is_direct) {
    (void)self;
    return outcome(
        open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (is_direct ? O_DIRECT : 0), 0666));
}

static int64_t call_write(void *self, int descriptor, const void *data, int64_t bytes,
                          int64_t offset) {
    (void)self;
    ssize_t n = pwrite(descriptor, data, (size_t)bytes, offset);
    return n < 0 ? -errno : n;
}

static int call_reserve(void *self, int descriptor, int64_t bytes) {
    (void)self;
    return -sw_reserve(descriptor, bytes);
}

static int call_sync(void *self, int descriptor) {
    (void)self;
    return -sw_sync(descriptor);
}

static int call_close(void *self, int descriptor) {
    (void)self;
    return -sw_close(descriptor);
}

static int call_sync_folder(void *self, const char *path) {
    (void)self;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result = -sw_sync(fd);
    close(fd);
    return result;
}

static int call_rename(void *self, const char *from, const char *to) {
    (void)self;
    return outcome(rename(from, to));
}

static int call_exchange(void *self, const char *a, const char *b) {
    (void)self;
    int result = outcome(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE));
    return result == -ENOSYS ? -EINVAL : result;
}

static int call_link(void *self, const char *target, const char *path) {
    (void)self;
    int result = outcome(symlink(target, path));
    return result == -EPERM || result == -ENOSYS ? -EOPNOTSUPP
                                                 : result; /* as this or that file system says it */
}

static int call_remove(void *self, const char *path) {
    (void)self;
    return outcome(unlink(path));
}

static int call_remove_folder(void *self, const char *path) {
    (void)self;
    return outcome(rmdir(path));
}

const sw_storage *sw_storage_system(void) {
    static const sw_storage calls = {.allows_ring = true, SW_STORAGE_CALLS(SW_STORAGE_FILL)};
    return &calls;
}

sw_status sw_storage_fail(sw_error *err, const char *path, int64_t offset, int result) {
    char at[48] = "";
    if (offset >= 0)
        snprintf(at, sizeof at, "byte %" PRId64 " ", offset);
    return sw_fail_call(err, SW_CALL_WRITE, result, "%s: %scannot be written", path, at);
}

sw_status sw_storage_expect(int result, const char *path, sw_error *err) {
    return result < 0 ? sw_storage_fail(err, path, -1, result) : SW_OK;
}

sw_status sw_storage_write(const sw_storage *storage, const char *path, int descriptor,
                           const void *data, int64_t bytes, int64_t offset, sw_error *err) {
    const char *from = data;
    int n_tries = 0;
    while (bytes > 0) {
        int64_t n = storage->write(storage->self, descriptor, from, bytes, offset);
        if (n < 0 && sw_is_interruption((int)-n, &n_tries))
            continue;
        if (n <= 0)
            return sw_storage_fail(err, path, offset, n < 0 ? (int)n : -ENOSPC);
        from += n, offset += n, bytes -= n;
    }
    return SW_OK;
}
