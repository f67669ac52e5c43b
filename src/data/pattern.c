/* pattern.c: where a pattern begins, and what it matches. */
#include "data/pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"

/* Is something there? What cannot be looked at counts as a name too: a pattern would find something
 * else in its stead. */
static bool exists(const char *path) {
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* The byte at which the folders end that exist under their names. */
static size_t literal_bytes(const char *text) {
    char folder[SW_PATH_BYTES];
    size_t n = 0;
    for (const char *slash = strchr(text, '/'); slash && slash - text < SW_PATH_BYTES - 1;
         slash = strchr(slash + 1, '/')) {
        size_t bytes = (size_t)(slash - text);
        memcpy(folder, text, bytes);
        folder[bytes] = 0;
        if (bytes && !exists(folder))
            break;
        n = bytes + 1;
    }
    return n;
}

/* Every character of the first n stands for itself. NULL: no memory. */
static char *escape(const char *text, size_t n) {
    char *escaped = malloc(2 * n + strlen(text + n) + 1), *to = escaped;
    for (size_t i = 0; escaped && i < n; i++) {
        if (strchr("*?[\\", text[i]))
            *to++ = '\\';
        *to++ = text[i];
    }
    if (escaped)
        strcpy(to, text + n);
    return escaped;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static sw_status match(const char *text, size_t n_literal, sw_matches *matches, sw_error *err) {
    char *pattern = escape(text, n_literal);
    errno = 0;
    matches->itself = NULL;
    matches->n = 0;
    int result =
        pattern ? glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &matches->found) : GLOB_NOSPACE;
    free(pattern);
    if (result == GLOB_NOMATCH)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the pattern matches no file; relative paths count from the folder of "
                       "the run's file",
                       text);
    if (result == GLOB_NOSPACE)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the files that the pattern matches",
                       text);
    if (result != 0)
        return sw_fail_call(
            err, SW_CALL_READ, errno,
            "%s: the pattern matches no file, because a folder of it cannot be read", text);
    /* glob would sort by the locale; the order of the data must not depend on that. */
    qsort(matches->found.gl_pathv, matches->found.gl_pathc, sizeof *matches->found.gl_pathv,
          by_name);
    matches->path = (const char *const *)matches->found.gl_pathv;
    matches->n = matches->found.gl_pathc;
    return SW_OK;
}

sw_status sw_pattern_find(const char *text, sw_matches *matches, sw_error *err) {
    *matches = (sw_matches){.n = 1, .itself = text};
    matches->path = &matches->itself;
    size_t n_literal = literal_bytes(text);
    if (exists(text) || !strpbrk(text + n_literal, "*?["))
        return SW_OK;
    return match(text, n_literal, matches, err);
}

void sw_matches_free(sw_matches *matches) {
    globfree(&matches->found);
    *matches = (sw_matches){.n = 0};
}
