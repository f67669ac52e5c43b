/* resident.c: numbers from the text files of /proc and /sys/fs/cgroup. */
#include "observe/resident.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/proc_text.h"

enum { PATH_BYTES = 4096 };

/* ---- a process ---- */

sw_status sw_resident_read(pid_t pid, sw_resident *resident, sw_error *err) {
    char folder[32], path[64], text[SW_PROC_TEXT_BYTES];
    int64_t kilobytes, peak_kilobytes;
    snprintf(folder, sizeof folder, pid ? "/proc/%lld" : "/proc/self", (long long)pid);

    snprintf(path, sizeof path, "%s/status", folder);
    if (!sw_proc_text_read(path, text) || !sw_proc_text_find(text, "VmRSS:", &kilobytes) ||
        !sw_proc_text_find(text, "VmHWM:", &peak_kilobytes))
        return sw_fail(
            err, SW_BAD_CONFIG,
            "%s: does not tell how much memory the process has; is it alive, and /proc mounted?",
            path);
    resident->resident = kilobytes * 1024;
    resident->peak = peak_kilobytes * 1024;

    snprintf(path, sizeof path, "%s/smaps_rollup", folder);
    resident->proportional =
        sw_proc_text_read(path, text) && sw_proc_text_find(text, "Pss:", &kilobytes)
            ? kilobytes * 1024
            : -1;
    return SW_OK;
}

/* ---- the machine ---- */

/* Files of a control group in the two versions of the interface. */
typedef struct group_files {
    const char *limit[2], *usage; /* limit: the second slows processes down until they barely move;
                                     NULL: there is none */
    const char *given_back[3];    /* lines of memory.stat: page cache and what the kernel can drop;
                                     NULL: no more */
    const char *hierarchical; /* line of memory.stat: the least limit of all groups above, seen here
                                 or not */
} group_files;

/* Lower the available memory `to` to what is left in the group, if it has a limit. */
static void apply_group(void *to, const char *root, const char folder[SW_GROUP_FOLDER_BYTES],
                        bool is_version_1) {
    static const group_files versions[] = {
        {{"memory.max", "memory.high"},
         "memory.current",
         {"inactive_file ", "active_file ", "slab_reclaimable "},
         NULL},
        {{"memory.limit_in_bytes"},
         "memory.usage_in_bytes",
         {"total_inactive_file ", "total_active_file "},
         "hierarchical_memory_limit "},
    };
    const group_files *files = &versions[is_version_1];
    sw_available_memory *available = to;
    char path[2 * PATH_BYTES], text[SW_PROC_TEXT_BYTES];
    int64_t limit, usage, bytes, least = INT64_MAX;
    const char *name = NULL;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, files->usage);
    if (!sw_kernel_number_read(path, &usage))
        return;
    snprintf(path, sizeof path, "%s%s/memory.stat", root, folder);
    if (sw_proc_text_read(path, text)) {
        for (int i = 0; i < 3 && files->given_back[i]; i++)
            usage -= sw_proc_text_find(text, files->given_back[i], &bytes) ? bytes : 0;
        if (files->hierarchical && sw_proc_text_find(text, files->hierarchical, &bytes))
            least = bytes, name = "memory.stat";
    }
    for (int i = 0; i < 2 && files->limit[i]; i++) {
        snprintf(path, sizeof path, "%s%s/%s", root, folder, files->limit[i]);
        if (sw_kernel_number_read(path, &limit) &&
            limit <= least) /* "max", or no such file: no limit */
            least = limit, name = files->limit[i];
    }
    int64_t left = least - (usage > 0 ? usage : 0);
    if (!name || left >= available->bytes)
        return;
    available->bytes = left > 0 ? left : 0;
    snprintf(available->limit, sizeof available->limit, "%s/%s", folder, name);
}

sw_status sw_available_memory_read(const char *root, sw_available_memory *available,
                                   sw_error *err) {
    char path[PATH_BYTES], text[SW_PROC_TEXT_BYTES];
    int64_t kilobytes;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!sw_proc_text_read(path, text) || !sw_proc_text_find(text, "MemAvailable:", &kilobytes))
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s: does not tell how much memory is available; is /proc mounted?", path);
    available->bytes = kilobytes * 1024;
    snprintf(available->limit, sizeof available->limit, "MemAvailable of /proc/meminfo");
    sw_control_groups_visit(root, "memory", apply_group, available);
    return SW_OK;
}
