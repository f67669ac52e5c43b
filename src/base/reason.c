/* reason.c: see reason.h. One row for each cause. */
#include "base/reason.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    int error;
    bool is_shortage; /* of the process or the machine: nothing is wrong with the file */
    const char *reading, *writing; /* NULL: the same as reading */
} row;

static const row rows[] = {
    {ENOENT, false, "check the path", "make the folder first, or check the path"},
    {ENOTDIR, false, "a part of the path is a file and no folder; check the path", NULL},
    {EISDIR, false, "a folder has this name; check the path",
     "a folder has this name; choose another name"},
    {ELOOP, false, "it is a link, or links lead in a circle; check the path",
     "it is a link, or links lead in a circle; choose another name"},
    {ENAMETOOLONG, false, "the name is longer than the file system takes; use a shorter one", NULL},
    {EACCES, false, "give this user the right to read it",
     "choose a folder that this user may write to"},
    {EPERM, false, "give this user the right to read it",
     "choose a folder that this user may write to"},
    {EROFS, false, "the file system can only be read; write elsewhere", NULL},
    {ENOSPC, false, "the disk is full; free some space",
     "free some space, or entries for files (df -i), or write elsewhere"},
    {EDQUOT, false, "the quota is used up; free some space",
     "the quota is used up, free some space or write elsewhere"},
    {EFBIG, false, "it is larger than can be read here",
     "the file size limit (ulimit -f) or the file system forbids it"},
    {EMLINK, false, "the folder has as many entries as it can hold; use another one", NULL},
    {EIO, false, "the disk may be failing, restore the file from a copy",
     "the disk may be failing, write to another one"},
    {ESTALE, false, "the network file system has lost it; look whether it is mounted", NULL},
    {ETIMEDOUT, false, "the network file system does not answer; look whether its server is up",
     NULL},
    {EHOSTDOWN, false, "the network file system does not answer; look whether its server is up",
     NULL},
    {ECONNREFUSED, false, "the network file system does not answer; look whether its server is up",
     NULL},
    {ENXIO, false, "the device is not there; look whether it is mounted", NULL},
    {ENODEV, false, "the device is not there; look whether it is mounted", NULL},
    {ENOLCK, true, "the file system has no locks; mount it with locks, or use another one", NULL},
    {EBUSY, false, "something else uses it; end that, or use another name", NULL},
    {ETXTBSY, false, "a program is running from it; end that, or use another name", NULL},
    {EOPNOTSUPP, false,
     "the file system, or a sandbox, does not have this call; use another file system", NULL},
    {ENOSYS, false,
     "the kernel, or a sandbox, does not have this call; use another machine or sandbox", NULL},
    {EINVAL, false, "the file system does not take this call; use another one", NULL},
    {EMFILE, true, "raise the limit with ulimit -n", NULL},
    {ENFILE, true,
     "the machine has too many open files; end other programs, or raise fs.file-max (for this "
     "process: ulimit -n)",
     NULL},
    {ENOMEM, true, "free some memory", NULL},
    {ENOBUFS, true, "free some memory", NULL},
    {EAGAIN, true, "the machine is short of something for the moment; try again", NULL},
    {EINTR, true, "signals interrupt it again and again; is a profiler or a timer at work?", NULL},
};

static const row *find(int error) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].error == error)
            return &rows[i];
    return NULL;
}

const char *sw_call_hint(sw_call_kind kind, int error) {
    const row *r = find(error);
    if (kind == SW_CALL_PROCESS && error == EAGAIN)
        return "raise the limit on processes (ulimit -u, the container's pids limit), or free "
               "memory";
    if (kind == SW_CALL_PROCESS && error == EPERM)
        return "a sandbox forbids it; run without it";
    if (kind == SW_CALL_MEMORY && (error == ENOMEM || error == EAGAIN))
        return "free some memory, or raise the limit on it (ulimit -v, the container's)";
    if (kind == SW_CALL_MEMORY && (error == EACCES || error == EPERM))
        return "a sandbox forbids it; run without it";
    if (!r)
        return "";
    return kind == SW_CALL_WRITE && r->writing ? r->writing : r->reading;
}

sw_status sw_call_status(sw_call_kind kind, int error) {
    const row *r = find(error);
    if (kind == SW_CALL_WRITE)
        return SW_NO_SPACE;
    return kind == SW_CALL_READ && !(r && r->is_shortage) ? SW_BAD_FILE : SW_NO_MEMORY;
}

sw_status sw_fail_call(sw_error *err, sw_call_kind kind, int error, const char *format, ...) {
    char what[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    error = abs(error);
    const char *hint = sw_call_hint(kind, error);
    return sw_fail(err, sw_call_status(kind, error), "%s: %s%s%s", what, strerror(error),
                   *hint ? "; " : "", hint);
}

sw_status sw_cannot_read(const char *path, int error, sw_error *err) {
    return sw_fail_call(err, SW_CALL_READ, error, "%s: cannot be read", path);
}

sw_status sw_cannot_write(const char *path, int error, sw_error *err) {
    return sw_fail_call(err, SW_CALL_WRITE, error, "%s: cannot be written", path);
}

bool sw_is_same_cause(const char *a, const char *b) {
    static const char digits[] = "0123456789", refused[] = "cannot be ";
    const char *why_a = strstr(a, refused),
               *why_b = strstr(b, refused); /* behind the name of a file */
    if (why_a && why_b)
        a = why_a, b = why_b;
    for (;; a++, b++) {
        size_t n = strspn(a, digits), m = strspn(b, digits);
        a += n, b += m;
        if ((n > 0) != (m > 0) || *a != *b)
            return false;
        if (!*a)
            return true;
    }
}
