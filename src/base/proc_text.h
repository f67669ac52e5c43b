/* proc_text.h: what the kernel tells in small text files of /proc and /sys, read into buffers on
 * the stack: nothing is allocated.
 */
#ifndef SW_BASE_PROC_TEXT_H
#define SW_BASE_PROC_TEXT_H

#include <stdbool.h>
#include <stdint.h>

enum { SW_PROC_TEXT_BYTES = 16384, SW_GROUP_FOLDER_BYTES = 2048 };

/* A small file as text. What does not fit is left out: what is looked for stands near the
 * beginning. */
bool sw_proc_text_read(const char *path, char text[SW_PROC_TEXT_BYTES]);

/* The number after `name` at the beginning of a line; "" for the first number. */
bool sw_proc_text_find(const char *text, const char *name, int64_t *number);

/* The first number of a file. */
bool sw_kernel_number_read(const char *path, int64_t *number);

/* One control group: its folder behind `root`, and which of the two versions of the interface its
 * files are of. */
typedef void (*sw_group_fn)(void *to, const char *root, const char folder[SW_GROUP_FOLDER_BYTES],
                            bool is_version_1);

/* Visit the control group of this process that `controller` ("memory", "cpu") limits, and all above
 * it; in both versions, as a machine may have both. `root` stands before the names /proc and /sys;
 * "" for this machine, a folder in tests. */
void sw_control_groups_visit(const char *root, const char *controller, sw_group_fn visit, void *to);

#endif
