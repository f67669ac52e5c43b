/* resident.c: numbers from the text files of /proc and /sys/fs/cgroup. */
#include "observe/resident.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/kernel_text.h"

enum { PATH_BYTES = 4096 };

/* ---- a process ---- */

sw_status sw_resident_read(pid_t pid, sw_resident *resident, sw_error *err) {
    char folder[32], path[64], text[SW_KERNEL_TEXT_BYTES];
    int64_t kilobytes, peak_kilobytes;
    snprintf(folder, sizeof folder, pid ? "/proc/%lld" : "/proc/self", (long long)pid);

    snprintf(path, sizeof path, "%s/status", folder);
    if (!sw_kernel_text_read(path, text) || !sw_kernel_text_find(text, "VmRSS:", &kilobytes) ||
        !sw_kernel_text_find(text, "VmHWM:", &peak_kilobytes))
        return sw_fail(err, SW_BAD_CONFIG, "%s: does not tell how much memory the process has; is it alive, and /proc mounted?",
                       path);
    resident->resident = kilobytes * 1024;
    resident->peak = peak_kilobytes * 1024;

    snprintf(path, sizeof path, "%s/smaps_rollup", folder);
    resident->proportional =
        sw_kernel_text_read(path, text) && sw_kernel_text_find(text, "Pss:", &kilobytes) ? kilobytes * 1024 : -1;
    return SW_OK;
}

/* ---- the machine ---- */

/* Files of a control group in the two versions of the interface. */
typedef struct group_files {
    const char *limit, *usage, *inactive, *active; /* the last two: page cache, lines of memory.stat */
} group_files;

/* Lower the available memory `to` to what is left in the group, if it has a limit. */
static void apply_group(void *to, const char *root, const char folder[SW_GROUP_FOLDER_BYTES], bool is_version_1) {
    static const group_files versions[] = {
        {"memory.max", "memory.current", "inactive_file ", "active_file "},
        {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
    };
    const group_files *files = &versions[is_version_1];
    sw_available_memory *available = to;
    char path[2 * PATH_BYTES], text[SW_KERNEL_TEXT_BYTES];
    int64_t limit, usage, inactive = 0, active = 0;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, files->usage);
    if (!sw_kernel_number_read(path, &usage))
        return;
    snprintf(path, sizeof path, "%s%s/memory.stat", root, folder);
    if (sw_kernel_text_read(path, text)) {
        sw_kernel_text_find(text, files->inactive, &inactive);
        sw_kernel_text_find(text, files->active, &active);
    }
    snprintf(path, sizeof path, "%s%s/%s", root, folder, files->limit);
    if (!sw_kernel_number_read(path, &limit)) /* "max", or no such file: no limit */
        return;
    int64_t taken = usage - inactive - active, left = limit - (taken > 0 ? taken : 0);
    if (left >= available->bytes)
        return;
    available->bytes = left > 0 ? left : 0;
    snprintf(available->limit, sizeof available->limit, "%s", path + strlen(root));
}

sw_status sw_available_memory_read(const char *root, sw_available_memory *available, sw_error *err) {
    char path[PATH_BYTES], text[SW_KERNEL_TEXT_BYTES];
    int64_t kilobytes;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!sw_kernel_text_read(path, text) || !sw_kernel_text_find(text, "MemAvailable:", &kilobytes))
        return sw_fail(err, SW_BAD_CONFIG, "%s: does not tell how much memory is available; is /proc mounted?", path);
    available->bytes = kilobytes * 1024;
    snprintf(available->limit, sizeof available->limit, "MemAvailable of /proc/meminfo");
    sw_control_groups_visit(root, "memory", apply_group, available);
    return SW_OK;
}
