/* run_lock.c: see run_lock.h. */
#include "checkpoint/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"

enum { HOLDER_BYTES = 256 };

/* Leave word of who holds the lock: for messages alone, so what cannot be written is left out. */
static void sign(int descriptor) {
    char host[128] = "?", text[HOLDER_BYTES];
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on host %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) == 0)
        (void)!pwrite(descriptor, text, (size_t)n, 0);
}

static void read_holder(int descriptor, char holder[HOLDER_BYTES]) {
    ssize_t n = pread(descriptor, holder, HOLDER_BYTES - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    for (char *c = holder; *c; c++) /* one line, whatever is in the file */
        if (*c < ' ' || *c > '~')
            *c = 0;
    if (!*holder)
        snprintf(holder, HOLDER_BYTES, "another process");
}

static sw_status cannot_lock(const char *folder, int error, sw_error *err) {
    char owner[SW_USER_BYTES];
    if ((error == EACCES || error == EPERM) && sw_file_is_foreign(folder, owner))
        return sw_fail(err, SW_NO_SPACE,
                       "%s belongs to user %s: %s; take a checkpoint.path of your own", folder,
                       owner, strerror(error));
    if (error == ELOOP)
        return sw_fail(err, SW_NO_SPACE,
                       "%s: its lock cannot be taken: its file .lock is a link (%s); take another "
                       "checkpoint.path",
                       folder, strerror(error));
    return sw_fail_call(err, SW_CALL_WRITE, error, "%s: its lock cannot be taken", folder);
}

/* Is it how file systems say that they have no locks? The call itself is right, so EINVAL says so
 * too. */
static bool has_no_locks(int error) {
    return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == EINVAL;
}

sw_status sw_run_lock_take(const char *folder, sw_run_lock *lock, sw_error *err) {
    char path[SW_PATH_BYTES], holder[HOLDER_BYTES];
    *lock = (sw_run_lock){.descriptor = -1};
    sw_status status = sw_path_join(path, folder, ".lock", err);
    if (status != SW_OK)
        return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666), error,
        n_tries = 0;
    if (fd < 0)
        return cannot_lock(folder, errno, err);
    do
        error = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
    while (sw_is_interruption(error, &n_tries));
    if (!error || has_no_locks(error)) {
        sign(fd);
        *lock = (sw_run_lock){.descriptor = fd, .missing = error};
        return SW_OK;
    }
    if (error == EWOULDBLOCK) {
        read_holder(fd, holder);
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s: a run is using it (%s) · wait until it has ended, stop it, or take "
                         "another checkpoint.path",
                         folder, holder);
    } else {
        status = cannot_lock(folder, error, err);
    }
    close(fd);
    return status;
}

void sw_run_lock_warning(const sw_run_lock *lock, const char *folder, char *text, size_t bytes) {
    snprintf(text, bytes,
             "%s: its file system has no locks (flock: %s), so nothing stops a second run from "
             "using it; start only one",
             folder, strerror(lock->missing));
}

void sw_run_lock_release(sw_run_lock *lock) {
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}
