/* expansion.h: paths that a shell would have expanded, and settings do not. */
#ifndef SW_CONFIG_EXPANSION_H
#define SW_CONFIG_EXPANSION_H

#include <stdbool.h>
#include <stddef.h>

enum { SW_EXPANSION_BYTES = 80 };

typedef struct sw_expansion {
    char word[SW_EXPANSION_BYTES]; /* what would be expanded: "~", "~name", "$NAME", "${NAME}" */
    char whole[512];               /* the path with the word replaced; "": that is not known */
} sw_expansion;

/* Does `path`, relative to `directory`, begin with ~ or hold a variable, and no file or folder is
 * really called so? A path that begins with "./" is meant as it stands. */
bool sw_path_wants_expansion(const char *path, const char *directory, sw_expansion *found);

#endif
