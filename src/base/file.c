/* file.c: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file_format.h"
#include "base/reason.h"
#include "base/text.h"

/* One system call moves at most 2^31 - 4096 bytes on Linux. */
enum { CALL_BYTES = 1 << 30 };

sw_status sw_path_join(char path[SW_PATH_BYTES], const char *folder, const char *name,
                       sw_error *err) {
    size_t folder_bytes = strlen(folder);
    const char *slash = folder_bytes && folder[folder_bytes - 1] == '/' ? "" : "/";
    if (snprintf(path, SW_PATH_BYTES, "%s%s%s", folder, slash, name) >= SW_PATH_BYTES)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%.100s...: the path is longer than %d bytes; use a shorter one", folder,
                       SW_PATH_BYTES - 1);
    return SW_OK;
}

bool sw_file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

sw_status sw_file_must_be_new(const char *path, sw_error *err) {
    struct stat info;
    if (lstat(path, &info) == 0)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "%s: exists already and is not overwritten; move it away or choose another name", path);
    return errno == ENOENT || errno == ENOTDIR ? SW_OK : sw_cannot_write(path, errno, err);
}

bool sw_file_is_foreign(const char *path, char owner[SW_USER_BYTES]) {
    struct stat info;
    struct passwd user, *found = NULL;
    char text[4096];
    if (stat(path, &info) != 0 || info.st_uid == geteuid() ||
        getpwuid_r(info.st_uid, &user, text, sizeof text, &found) != 0 || !found)
        return false;
    snprintf(owner, SW_USER_BYTES, "%s", user.pw_name);
    return true;
}

const char *sw_file_kind(unsigned mode) {
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "folder";
    case S_IFLNK:
        return "link";
    case S_IFIFO:
        return "pipe";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static sw_status refuse_name(const char *path, unsigned mode, sw_error *err) {
    return sw_fail(err, SW_BAD_CONFIG, "%s: is a %s where a file is written; choose another name",
                   path, sw_file_kind(mode));
}

static sw_status no_file(const char *path, unsigned mode, sw_error *err) {
    return sw_fail(err, SW_BAD_FILE, "%s: is a %s, a file is needed; check the path", path,
                   sw_file_kind(mode));
}

/* Of a link that leads nowhere it is said where it leads: caches and repositories keep large files
 * so. */
static sw_status cannot_open(const char *path, int error, sw_error *err) {
    char target[256];
    ssize_t n = error == ENOENT ? readlink(path, target, sizeof target) : -1;
    return n < 0 ? sw_cannot_read(path, error, err)
                 : sw_fail(err, SW_BAD_FILE,
                           "%s: cannot be read: it is a link to %.*s, which is not there; fetch or "
                           "copy it anew",
                           path, (int)n, target);
}

sw_status sw_file_open(const char *path, int *descriptor, int64_t *bytes, sw_error *err) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = errno;
    if (fd < 0) /* a socket cannot be opened at all, nor a device that is not there */
        return error == ENXIO && stat(path, &info) == 0 && !S_ISREG(info.st_mode)
                   ? no_file(path, info.st_mode, err)
                   : cannot_open(path, error, err);
    if (fstat(fd, &info) != 0) {
        error = errno;
        close(fd);
        return sw_cannot_read(path, error, err);
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return no_file(path, info.st_mode, err);
    }
    *descriptor = fd;
    *bytes = info.st_size;
    return SW_OK;
}

sw_status sw_file_create(const char *path, const char *shown, int *descriptor, sw_error *err) {
    struct stat info;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666),
        error = errno;
    if (fd < 0 && (error == ENXIO || error == ELOOP ||
                   error == EISDIR)) /* what it is says more than the error */
        return sw_file_check_name(path, err) ? SW_BAD_CONFIG : sw_cannot_write(shown, error, err);
    if (fd < 0)
        return sw_cannot_write(shown, error, err);
    sw_status status = fstat(fd, &info) != 0 ? sw_cannot_write(shown, errno, err) : SW_OK;
    if (status == SW_OK && !S_ISREG(info.st_mode))
        status = refuse_name(path, info.st_mode, err);
    if (status == SW_OK && ftruncate(fd, 0) != 0)
        status = sw_cannot_write(shown, errno, err);
    if (status != SW_OK)
        close(fd);
    else
        *descriptor = fd;
    return status;
}

sw_status sw_file_read_at(int descriptor, const char *path, void *out, int64_t bytes,
                          int64_t offset, sw_error *err) {
    char *to = out;
    int n_tries = 0;
    while (bytes > 0) {
        ssize_t n =
            pread(descriptor, to, (size_t)(bytes < CALL_BYTES ? bytes : CALL_BYTES), offset);
        if (n < 0 && sw_is_interruption(errno, &n_tries))
            continue;
        if (n < 0)
            return sw_cannot_read(path, errno, err);
        if (n == 0)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: ends at byte %" PRId64 ", %" PRId64
                           " more are needed; was it cut while being read?",
                           path, offset, bytes);
        to += n, offset += n, bytes -= n;
    }
    return SW_OK;
}

/* Too long for what is wanted: another kind of file may be in its place. */
static sw_status refuse_length(int descriptor, const char *path, int64_t bytes, int64_t max_bytes,
                               sw_error *err) {
    char head[SW_FILE_HEAD_BYTES];
    int64_t n = bytes < SW_FILE_HEAD_BYTES ? bytes : SW_FILE_HEAD_BYTES;
    const char *kind = NULL;
    if (sw_file_read_at(descriptor, path, head, n, 0, NULL) == SW_OK)
        kind = sw_file_format_words(sw_file_format_of(head, n, bytes));
    return sw_fail(err, SW_BAD_FILE,
                   "%s: has %" PRId64 " bytes, at most %" PRId64
                   " make sense%s%s; is it the right file?",
                   path, bytes, max_bytes, kind ? ": it is " : "", kind ? kind : "");
}

sw_status sw_file_read(const char *path, int64_t max_bytes, char **text, int64_t *bytes,
                       sw_error *err) {
    int fd;
    int64_t file_bytes = 0;
    sw_status status = sw_file_open(path, &fd, &file_bytes, err);
    if (status != SW_OK)
        return status;
    char *buffer = NULL;
    if (file_bytes > max_bytes) {
        status = refuse_length(fd, path, file_bytes, max_bytes, err);
        goto done;
    }
    buffer = malloc((size_t)file_bytes + 1);
    if (!buffer) {
        status =
            sw_fail(err, SW_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, file_bytes);
        goto done;
    }
    status = sw_file_read_at(fd, path, buffer, file_bytes, 0, err);
    if (status != SW_OK)
        goto done;
    buffer[file_bytes] = 0;
    *text = buffer;
    if (bytes)
        *bytes = file_bytes;
    buffer = NULL;
done:
    free(buffer);
    close(fd);
    return status;
}

sw_status sw_file_write_at(int descriptor, const char *path, const void *data, int64_t bytes,
                           int64_t offset, sw_error *err) {
    const char *from = data;
    int n_tries = 0;
    while (bytes > 0) {
        ssize_t n =
            pwrite(descriptor, from, (size_t)(bytes < CALL_BYTES ? bytes : CALL_BYTES), offset);
        if (n < 0 && sw_is_interruption(errno, &n_tries))
            continue;
        if (n <= 0)
            return sw_cannot_write(path, n < 0 ? errno : ENOSPC, err);
        from += n, offset += n, bytes -= n;
    }
    return SW_OK;
}

sw_status sw_file_check_name(const char *path, sw_error *err) {
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISREG(info.st_mode))
        return SW_OK; /* what else is wrong with it, writing says */
    return refuse_name(path, info.st_mode, err);
}

sw_status sw_file_write(const char *path, const void *data, int64_t bytes, sw_error *err) {
    sw_status named = sw_file_check_name(path, err);
    if (named)
        return named;
    char partial[SW_PATH_BYTES + 16];
    snprintf(partial, sizeof partial, "%s.partial", path);
    int fd;
    sw_status status = sw_file_create(partial, path, &fd, err);
    if (status)
        return status;
    status = sw_file_write_at(fd, path, data, bytes, 0, err);
    if (status == SW_OK)
        status = sw_file_sync(fd, path, err);
    status = sw_file_close(fd, path, status, err);
    if (status == SW_OK && rename(partial, path) != 0)
        status = sw_cannot_write(path, errno, err);
    if (status != SW_OK)
        unlink(partial);
    return status;
}

int sw_reserve(int descriptor, int64_t bytes) {
    static const int is_of_the_disk[] = {ENOSPC, EDQUOT, EFBIG, EIO, EBADF};
    int n_tries = 0, error;
    do
        error = fallocate(descriptor, 0, 0, bytes) ? errno : 0;
    while (sw_is_interruption(error, &n_tries));
    for (size_t i = 0; i < sizeof is_of_the_disk / sizeof *is_of_the_disk; i++)
        if (error == is_of_the_disk[i])
            return error;
    return ftruncate(descriptor, bytes) ? errno : 0; /* a longer one was left by an earlier try */
}

sw_status sw_file_reserve(int descriptor, const char *path, int64_t bytes, sw_error *err) {
    int error = sw_reserve(descriptor, bytes);
    if (!error)
        return SW_OK;
    char needed[SW_TEXT_NUMBER_BYTES], available[SW_TEXT_NUMBER_BYTES];
    sw_cannot_write(path, error, err);
    return sw_fail(err, SW_NO_SPACE, "%s (%s are needed, the disk has %s left)",
                   err ? err->message : "", sw_text_bytes(bytes, needed, sizeof needed),
                   sw_text_bytes(sw_file_space(path), available, sizeof available));
}

/* The folder that the path's last name stands in. */
static bool find_folder(const char *path, struct stat *info) {
    char folder[SW_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + 1 : 0;
    return snprintf(folder, sizeof folder, "%.*s.", n, path) < (int)sizeof folder &&
           stat(folder, info) == 0;
}

bool sw_file_is_same(const char *a, const char *b) {
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    const char *of_a = strrchr(a, '/'), *of_b = strrchr(b, '/');
    return strcmp(of_a ? of_a + 1 : a, of_b ? of_b + 1 : b) == 0 && find_folder(a, &x) &&
           find_folder(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Of the file system of `path` or of its nearest folder that exists. */
static bool find_file_system(const char *path, struct statfs *info) {
    char folder[SW_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    while (statfs(folder, info) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash && strcmp(folder, ".") != 0)
            snprintf(folder, sizeof folder, ".");
        else if (slash && slash > folder)
            *slash = 0;
        else if (slash && slash[1])
            slash[1] = 0;
        else
            return false;
    }
    return true;
}

int64_t sw_file_space(const char *path) {
    struct statfs info;
    int64_t bytes;
    if (!find_file_system(path, &info) ||
        info.f_blocks == 0 || /* without a size, as some of FUSE and of memory: nobody knows */
        __builtin_mul_overflow((int64_t)info.f_bavail, (int64_t)info.f_frsize, &bytes))
        return INT64_MAX;
    return bytes;
}

bool sw_file_is_in_memory(const char *path) {
    struct statfs info;
    return find_file_system(path, &info) &&
           (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

struct dirent *sw_folder_next(DIR *folder, int *error) {
    errno = 0;
    struct dirent *entry = readdir(folder);
    *error = entry ? 0 : errno;
    return entry;
}

int64_t sw_folder_blocks(const char *path) {
    enum { BLOCK_BYTES = 512 };
    DIR *folder = opendir(path);
    struct stat info;
    int64_t blocks = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (!fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(info.st_mode))
            blocks += info.st_blocks;
    if (folder)
        closedir(folder);
    return blocks * BLOCK_BYTES;
}

/* Pipes and the folders of some file systems say EINVAL: they have nothing to sync. */
int sw_sync(int descriptor) {
    int n_tries = 0, error;
    do
        error = fsync(descriptor) ? errno : 0;
    while (sw_is_interruption(error, &n_tries));
    return error == EINVAL ? 0 : error;
}

/* Linux has closed a descriptor whose closing was interrupted. */
int sw_close(int descriptor) {
    return close(descriptor) && errno != EINTR ? errno : 0;
}

sw_status sw_file_sync(int descriptor, const char *path, sw_error *err) {
    int error = sw_sync(descriptor);
    return error ? sw_cannot_write(path, error, err) : SW_OK;
}

sw_status sw_file_close(int descriptor, const char *path, sw_status status, sw_error *err) {
    int error = sw_close(descriptor);
    return error && status == SW_OK ? sw_cannot_write(path, error, err) : status;
}

sw_status sw_folder_sync(const char *path, sw_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? sw_cannot_write(path, errno, err)
                  : sw_file_close(fd, path, sw_file_sync(fd, path, err), err);
}

/* The folder that holds `path`. */
static void parent_of(const char *path, char folder[SW_PATH_BYTES]) {
    snprintf(folder, SW_PATH_BYTES, "%s", path);
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        folder[--length] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash)
        snprintf(folder, SW_PATH_BYTES, ".");
    else
        slash[slash == folder] = 0;
}

sw_status sw_file_publish(const char *from, const char *to, sw_error *err) {
    /* Where the file system cannot refuse to replace by itself, looking first leaves a short race,
     * with ourselves only. */
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
        if (errno != EINVAL && errno != ENOSYS && errno != EEXIST)
            return sw_cannot_write(to, errno, err);
        if (errno == EEXIST || sw_file_exists(to))
            return sw_fail(
                err, SW_NO_SPACE,
                "%s: exists already and is not overwritten; move it away or choose another name",
                to);
        if (rename(from, to) != 0)
            return sw_cannot_write(to, errno, err);
    }
    char folder[SW_PATH_BYTES];
    parent_of(to, folder);
    return sw_folder_sync(folder, err);
}
