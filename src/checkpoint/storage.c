/* storage.c: the table of storage.h, filled with the system's calls. */
#include "checkpoint/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return outcome(open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (is_direct ? O_DIRECT : 0), 0666));
}

static int64_t call_write(void *self, int descriptor, const void *data, int64_t bytes, int64_t offset) {
    (void)self;
    ssize_t n = pwrite(descriptor, data, (size_t)bytes, offset);
    return n < 0 ? -errno : n;
}

/* Where the file system cannot reserve blocks, a full disk shows while writing. Never by writing zeros, as posix_fallocate would
 * do then: other ranks write already. */
static int call_reserve(void *self, int descriptor, int64_t bytes) {
    (void)self;
    int result;
    do
        result = outcome(fallocate(descriptor, 0, 0, bytes));
    while (result == -EINTR);
    if (result && result != -EOPNOTSUPP && result != -ENOSYS)
        return result;
    return outcome(ftruncate(descriptor, bytes)); /* a longer one was left by an earlier try */
}

static int call_sync(void *self, int descriptor) {
    (void)self;
    return outcome(fsync(descriptor));
}

static int call_close(void *self, int descriptor) {
    (void)self;
    return outcome(close(descriptor));
}

static int call_sync_folder(void *self, const char *path) {
    (void)self;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Some file systems cannot sync a folder and say EINVAL: they have nothing to sync. */
    int result = outcome(fsync(fd));
    close(fd);
    return result == -EINVAL ? 0 : result;
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
    return result == -EPERM || result == -ENOSYS ? -EOPNOTSUPP : result; /* as this or that file system says it */
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
    int error = -result;
    const char *hint = error == ENOSPC   ? "free some space, or keep fewer checkpoints (checkpoint.keep)"
                       : error == EDQUOT ? "the quota is used up: free some space, or keep fewer checkpoints (checkpoint.keep)"
                       : error == EFBIG  ? "the file size limit (ulimit -f) or the file system forbids it"
                       : error == EIO    ? "the disk may be failing, save to another one (checkpoint.path)"
                       : error == ELOOP  ? "there is a link in its place, remove it"
                       : error == EISDIR ? "there is a folder in its place, remove it"
                       : error == EMFILE || error == ENFILE ? "raise the limit with ulimit -n"
                                                            : "is checkpoint.path a folder that this user may write to?";
    char at[48] = "";
    if (offset >= 0)
        snprintf(at, sizeof at, "byte %" PRId64 " ", offset);
    return sw_fail(err, SW_NO_SPACE, "%s: %scannot be written: %s; %s", path, at, strerror(error), hint);
}

sw_status sw_storage_expect(int result, const char *path, sw_error *err) {
    return result < 0 ? sw_storage_fail(err, path, -1, result) : SW_OK;
}

sw_status sw_storage_write(const sw_storage *storage, const char *path, int descriptor, const void *data, int64_t bytes,
                           int64_t offset, sw_error *err) {
    const char *from = data;
    while (bytes > 0) {
        int64_t n = storage->write(storage->self, descriptor, from, bytes, offset);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return sw_storage_fail(err, path, offset, n < 0 ? (int)n : -ENOSPC);
        from += n, offset += n, bytes -= n;
    }
    return SW_OK;
}
