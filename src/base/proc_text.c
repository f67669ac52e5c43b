/* proc_text.c: see proc_text.h. */
#include "base/proc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"

bool sw_proc_text_read(const char *path, char text[SW_PROC_TEXT_BYTES]) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    size_t n = 0;
    ssize_t got = 0;
    int n_tries = 0;
    while (n < SW_PROC_TEXT_BYTES - 1) {
        got = read(descriptor, text + n, SW_PROC_TEXT_BYTES - 1 - n);
        if (got < 0 && sw_is_interruption(errno, &n_tries))
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(descriptor);
    text[n] = '\0';
    return got >= 0;
}

bool sw_proc_text_find(const char *text, const char *name, int64_t *number) {
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0) {
            char *end;
            *number = strtoll(line + n, &end, 10);
            return end > line + n;
        }
    return false;
}

bool sw_kernel_number_read(const char *path, int64_t *number) {
    char text[SW_PROC_TEXT_BYTES];
    return sw_proc_text_read(path, text) && sw_proc_text_find(text, "", number);
}

/* ---- control groups ---- */

/* The group at `within` its hierarchy and all above it. In a container the names may be the host's
 * and the files not there; the walk then ends at the mount, which is the container's own group.
 * "/../x" is a group outside of what is mounted here. */
static void visit_upwards(const char *root, const char *mount, const char *within,
                          bool is_version_1, sw_group_fn visit, void *to) {
    char folder[SW_GROUP_FOLDER_BYTES];
    size_t n_mount = strlen(mount);
    if (strstr(within, "/..") || n_mount + strlen(within) >= sizeof folder)
        within = "";
    snprintf(folder, sizeof folder, "%s%s", mount, strcmp(within, "/") == 0 ? "" : within);
    for (;;) {
        visit(to, root, folder, is_version_1);
        if (strlen(folder) <= n_mount)
            break;
        *strrchr(folder, '/') = '\0';
    }
}

void sw_control_groups_visit(const char *root, const char *controller, sw_group_fn visit,
                             void *to) {
    char path[SW_GROUP_FOLDER_BYTES], mount[64], text[SW_PROC_TEXT_BYTES];
    /* Lines "0::/path" (version 2) and "4:memory:/path" (version 1; several controllers may share a
     * line). */
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
    if (!sw_proc_text_read(path, text))
        return; /* a kernel without control groups */
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *controllers = strchr(line, ':'),
             *within = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!within)
            continue;
        *within++ = '\0';
        controllers++;
        if (*controllers == '\0')
            visit_upwards(root, "/sys/fs/cgroup", within, false, visit, to);
        else
            for (char *names = controllers, *name; (name = strsep(&names, ","));)
                if (strcmp(name, controller) == 0)
                    visit_upwards(root, mount, within, true, visit, to);
    }
}
