/* settings_text.c: see settings_text.h. */
#include "config/settings_text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/reason.h"
#include "base/text.h"
#include "base/yaml.h"

static sw_status cannot_read(const char *path, int error, sw_error *err) {
    const char *hint = error == ENOENT && !strcmp(path, "-") ? "from standard input: /dev/stdin"
                       : error == ENOENT                     ? "is the path right?"
                                                             : sw_call_hint(SW_CALL_READ, error);
    sw_status status =
        sw_call_status(SW_CALL_READ, error) == SW_NO_MEMORY ? SW_NO_MEMORY : SW_BAD_CONFIG;
    return sw_fail(err, status, "cannot read the settings: %s · %s%s%s", strerror(error), path,
                   *hint ? " · " : "", hint);
}

static sw_status refuse_folder(const char *path, sw_error *err) {
    char config[SW_PATH_BYTES];
    if (sw_path_join(config, path, "config.json", NULL) == SW_OK && sw_file_exists(config))
        return sw_fail(err, SW_BAD_CONFIG,
                       "this is a model, not a file of settings · %s · write a RUN.yaml with "
                       "model: {path: %s}",
                       path, path);
    return sw_fail(err, SW_BAD_CONFIG,
                   "this is a folder, not a file of settings · %s · name the RUN.yaml in it", path);
}

/* A pipe that no file system has a name for: the shell made it, and what writes into it has been
 * started. */
static bool is_pipe_of_shell(int descriptor, unsigned mode) {
    struct statfs system;
    return S_ISFIFO(mode) && fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

static sw_status refuse_kind(const char *path, unsigned mode, sw_error *err) {
    if (S_ISDIR(mode))
        return refuse_folder(path, err);
    return sw_fail(
        err, SW_BAD_CONFIG, "this is a %s, not a file of settings · %s · %s", sw_file_kind(mode),
        path,
        S_ISFIFO(mode)
            ? "write them into a file; a pipe is read from the shell's <(...) or /dev/stdin"
            : "write them into a file");
}

/* out: *descriptor, a file or a pipe of the shell, and which. Nothing is waited for. */
static sw_status open_settings(const char *path, int *descriptor, bool *is_pipe, sw_error *err) {
    struct stat info;
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*descriptor < 0) {
        int error = errno; /* a socket cannot be opened at all, but looked at */
        return error == ENXIO && !stat(path, &info) && !S_ISREG(info.st_mode)
                   ? refuse_kind(path, info.st_mode, err)
                   : cannot_read(path, error, err);
    }
    if (fstat(*descriptor, &info))
        return cannot_read(path, errno, err);
    *is_pipe = is_pipe_of_shell(*descriptor, info.st_mode);
    return *is_pipe || S_ISREG(info.st_mode) ? SW_OK : refuse_kind(path, info.st_mode, err);
}

static sw_status read_all(const char *path, int descriptor, bool is_pipe, char *text,
                          sw_error *err) {
    size_t used = 0;
    int n_tries = 0;
    for (ssize_t n; used <= SW_YAML_MAX_BYTES; used += (size_t)n) {
        n = read(descriptor, text + used, SW_YAML_MAX_BYTES + 1 - used);
        if (!n)
            break;
        if (n > 0)
            continue;
        if (errno == EAGAIN && is_pipe) {
            struct pollfd waited_for = {.fd = descriptor, .events = POLLIN};
            int n_ready = poll(&waited_for, 1, SW_PIPE_SECONDS * 1000);
            if (n_ready < 0 && !sw_is_interruption(errno, &n_tries))
                return cannot_read(path, errno, err);
            if (n_ready == 0)
                return sw_fail(
                    err, SW_BAD_CONFIG,
                    "nothing came through the pipe for %d s · %s · write the settings into a file",
                    SW_PIPE_SECONDS, path);
        } else if (!sw_is_interruption(errno, &n_tries))
            return cannot_read(path, errno, err);
        n = 0;
    }
    text[used] = 0;
    if (!used && is_pipe)
        return sw_fail(err, SW_BAD_CONFIG,
                       "nothing came through the pipe · %s · did the command that writes it fail?",
                       path);
    if (sw_file_expect(path, text, (int64_t)used, (int64_t)used, SW_FILE_YAML, err))
        return sw_fail(err, SW_BAD_CONFIG, "%s", err ? err->message : "");
    if (strlen(text) != used)
        return sw_fail(err, SW_BAD_CONFIG, "a zero byte in the settings · %s · is it a text file?",
                       path);
    return SW_OK;
}

/* The folder from which relative paths count; NULL with errno. Names below /dev and /proc lead to
 * what the shell opened. */
static char *folder_of(const char *path, bool is_pipe) {
    const char *slash = strrchr(path, '/');
    if (is_pipe || !slash || !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6))
        return realpath(".", NULL);
    char *parent = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *folder = parent ? realpath(parent, NULL) : NULL;
    free(parent);
    return folder;
}

static sw_status check_folder_name(const char *folder, const char *path, sw_error *err) {
    if (sw_text_is_utf8(folder, strlen(folder)))
        return SW_OK;
    return sw_fail(
        err, SW_BAD_CONFIG,
        "the name of the folder is not UTF-8 · %s · run.yaml could not be written; rename it",
        path);
}

sw_status sw_settings_folder(const char *directory, char **folder, sw_error *err) {
    const char *path = directory ? directory : ".";
    struct stat info;
    *folder = realpath(path, NULL);
    if (!*folder)
        return sw_fail(err, errno == ENOMEM ? SW_NO_MEMORY : SW_BAD_CONFIG,
                       "cannot resolve the folder of the settings: %s · %s · %s", strerror(errno),
                       path,
                       errno == ENOENT ? "is the path right?" : sw_call_hint(SW_CALL_READ, errno));
    sw_status status =
        stat(*folder, &info) || !S_ISDIR(info.st_mode)
            ? sw_fail(err, SW_BAD_CONFIG,
                      "this is no folder · %s · name one that relative paths count from", path)
            : check_folder_name(*folder, path, err);
    if (status) {
        free(*folder);
        *folder = NULL;
    }
    return status;
}

sw_status sw_settings_text(const char *path, char **text, char **folder, sw_error *err) {
    int descriptor = -1;
    bool is_pipe = false;
    *text = *folder = NULL;
    sw_status status = open_settings(path, &descriptor, &is_pipe, err);
    if (!status && !(*text = malloc(SW_YAML_MAX_BYTES +
                                    2))) /* one more than is taken, so that too many are noticed */
        status = sw_fail(err, SW_NO_MEMORY, "no memory for settings · %s", path);
    if (!status)
        status = read_all(path, descriptor, is_pipe, *text, err);
    if (!status && !(*folder = folder_of(path, is_pipe)))
        status =
            sw_fail(err, SW_BAD_CONFIG, "cannot resolve the folder of the settings: %s · %s · %s",
                    strerror(errno), path, sw_call_hint(SW_CALL_READ, errno));
    if (!status)
        status = check_folder_name(*folder, path, err);
    if (descriptor >= 0)
        close(descriptor);
    if (status) {
        free(*text);
        free(*folder);
        *text = *folder = NULL;
    }
    return status;
}
