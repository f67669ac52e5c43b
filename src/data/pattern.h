/* pattern.h: the files that a name or a pattern of the settings stands for.
 *
 * What exists under its name is no pattern, whatever characters it has; nor are the folders that a
 * pattern begins with, as far as they exist. So the folder of the settings, which stands before
 * every relative path, is never one, and in "/home/notes [2031]/corpus/?.txt" only the last part
 * is, if there is such a folder. From the first part that is not there on it is a pattern of
 * glob(3), in which a backslash takes the next character as it is.
 */
#ifndef SW_DATA_PATTERN_H
#define SW_DATA_PATTERN_H

#include <glob.h>

#include <shardwise/status.h>

typedef struct sw_matches {
    const char *const *path; /* [n], in the order of their bytes */
    size_t n;
    const char *itself; /* the text where it is a name, else NULL */
    glob_t found;
} sw_matches;

/* Find them. A name stands for itself, also where nothing has it. Ownership: sw_matches_free, also
 * after an error. Errors: SW_BAD_FILE where a pattern matches nothing; SW_NO_MEMORY. */
sw_status sw_pattern_find(const char *text, sw_matches *matches, sw_error *err);
void sw_matches_free(sw_matches *matches);

#endif
