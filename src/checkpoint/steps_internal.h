/* steps_internal.h: names and the folder of checkpoints, shared by the file that lists them and the
 * one that changes them. */
#ifndef SW_CHECKPOINT_STEPS_INTERNAL_H
#define SW_CHECKPOINT_STEPS_INTERNAL_H

#include <dirent.h>

#include "checkpoint/steps.h"

/* The step whose name, without "steps/", these bytes are; -1: it is none's. Steps of more than 8
 * digits have no zeros before them. */
int64_t sw_step_of_name(const char *name, size_t bytes);

/* Is it ".NNNNNNNN.partial", ".NNNNNNNN.removed" or ".NNNNNNNN.removed.N"? */
bool sw_step_is_left_over(const char *name);

/* The folder `folder`/steps; *open_folder is NULL where there is none. Ownership: closedir. */
sw_status sw_steps_open_folder(const char *folder, char path[SW_PATH_BYTES], DIR **open_folder,
                               sw_error *err);

#endif
