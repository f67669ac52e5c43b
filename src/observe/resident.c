/* resident.c: numbers from the text files of /proc and /sys/fs/cgroup. */
#include "observe/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 16384, FOLDER_BYTES = 2048, PATH_BYTES = 4096 };

/* A small file as text. What does not fit is left out: what is looked for stands near the beginning. */
static bool read_text(const char *path, char text[TEXT_BYTES]) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    size_t n = 0;
    ssize_t got = 0;
    while (n < TEXT_BYTES - 1) {
        got = read(descriptor, text + n, TEXT_BYTES - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(descriptor);
    text[n] = '\0';
    return got >= 0;
}

/* The number after `name` at the beginning of a line. */
static bool find_number(const char *text, const char *name, int64_t *number) {
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0) {
            char *end;
            *number = strtoll(line + n, &end, 10);
            return end > line + n;
        }
    return false;
}

static bool read_number(const char *path, int64_t *number) {
    char text[TEXT_BYTES];
    return read_text(path, text) && find_number(text, "", number);
}

/* ---- a process ---- */

sw_status sw_resident_read(pid_t pid, sw_resident *resident, sw_error *err) {
    char folder[32], path[64], text[TEXT_BYTES];
    int64_t kilobytes, peak_kilobytes;
    snprintf(folder, sizeof folder, pid ? "/proc/%lld" : "/proc/self", (long long)pid);

    snprintf(path, sizeof path, "%s/status", folder);
    if (!read_text(path, text) || !find_number(text, "VmRSS:", &kilobytes) || !find_number(text, "VmHWM:", &peak_kilobytes))
        return sw_fail(err, SW_BAD_CONFIG, "%s: does not tell how much memory the process has; is it alive, and /proc mounted?",
                       path);
    resident->resident = kilobytes * 1024;
    resident->peak = peak_kilobytes * 1024;

    snprintf(path, sizeof path, "%s/smaps_rollup", folder);
    resident->proportional = read_text(path, text) && find_number(text, "Pss:", &kilobytes) ? kilobytes * 1024 : -1;
    return SW_OK;
}

/* ---- the machine ---- */

/* Files of a control group in the two versions of the interface. */
typedef struct group_files {
    const char *mount, *limit, *usage, *inactive, *active; /* the last two: page cache, lines of memory.stat */
} group_files;

static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file ", "total_active_file "};
static const group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "};

/* Lower `available` to what is left in the group at `folder`, if it has a limit. */
static void apply_group(const char *root, const char folder[FOLDER_BYTES], const group_files *files,
                        sw_available_memory *available) {
    char path[2 * PATH_BYTES], text[TEXT_BYTES];
    int64_t limit, usage, inactive = 0, active = 0;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, files->usage);
    if (!read_number(path, &usage))
        return;
    snprintf(path, sizeof path, "%s%s/memory.stat", root, folder);
    if (read_text(path, text)) {
        find_number(text, files->inactive, &inactive);
        find_number(text, files->active, &active);
    }
    snprintf(path, sizeof path, "%s%s/%s", root, folder, files->limit);
    if (!read_number(path, &limit)) /* "max", or no such file: no limit */
        return;
    int64_t taken = usage - inactive - active, left = limit - (taken > 0 ? taken : 0);
    if (left >= available->bytes)
        return;
    available->bytes = left > 0 ? left : 0;
    snprintf(available->limit, sizeof available->limit, "%s", path + strlen(root));
}

/* The group at `within` its hierarchy and all above it. In a container the names may be the host's and the files not there;
 * the walk then ends at the mount, which is the container's own group. "/../x" is a group outside of what is mounted here. */
static void apply_groups(const char *root, const char *within, const group_files *files, sw_available_memory *available) {
    char folder[FOLDER_BYTES];
    size_t n_mount = strlen(files->mount);
    if (strstr(within, "/..") || n_mount + strlen(within) >= sizeof folder)
        within = "";
    snprintf(folder, sizeof folder, "%s%s", files->mount, strcmp(within, "/") == 0 ? "" : within);
    for (;;) {
        apply_group(root, folder, files, available);
        if (strlen(folder) <= n_mount)
            break;
        *strrchr(folder, '/') = '\0';
    }
}

sw_status sw_available_memory_read(const char *root, sw_available_memory *available, sw_error *err) {
    char path[PATH_BYTES], text[TEXT_BYTES];
    int64_t kilobytes;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!read_text(path, text) || !find_number(text, "MemAvailable:", &kilobytes))
        return sw_fail(err, SW_BAD_CONFIG, "%s: does not tell how much memory is available; is /proc mounted?", path);
    available->bytes = kilobytes * 1024;
    snprintf(available->limit, sizeof available->limit, "MemAvailable of /proc/meminfo");

    /* Lines "0::/path" (version 2) and "4:memory:/path" (version 1; several controllers may share a line). */
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text))
        return SW_OK; /* a kernel without control groups */
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *controllers = strchr(line, ':'), *within = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!within)
            continue;
        *within++ = '\0';
        controllers++;
        if (*controllers == '\0')
            apply_groups(root, within, &version_2, available);
        else
            for (char *names = controllers, *name; (name = strsep(&names, ","));)
                if (strcmp(name, "memory") == 0)
                    apply_groups(root, within, &version_1, available);
    }
    return SW_OK;
}
