/* settings_text.h: the text of RUN.yaml, from a file or from a pipe of the shell. */
#ifndef SW_CONFIG_SETTINGS_TEXT_H
#define SW_CONFIG_SETTINGS_TEXT_H

#include <shardwise/status.h>

/* The settings as text, and the folder from which relative paths in them count: the file's own.
 * What comes through the shell, `<(command)` or `command | shardwise train /dev/stdin`, has no
 * folder: the working directory stands for it. A pipe with a name of its own, a socket or a device
 * is refused without waiting; a pipe of the shell that is silent for SW_PIPE_SECONDS too. Errors:
 * SW_BAD_CONFIG, SW_NO_MEMORY. Ownership: free(*text), free(*folder); both are NULL after an
 * error. */
#define SW_PIPE_SECONDS 10
sw_status sw_settings_text(const char *path, char **text, char **folder, sw_error *err);

/* The absolute name of the folder from which relative paths count in settings that are no file;
 * NULL: the working directory. Errors: SW_BAD_CONFIG: it is no folder, or its name could not be
 * written into run.yaml; SW_NO_MEMORY. free(*folder). */
sw_status sw_settings_folder(const char *directory, char **folder, sw_error *err);

#endif
