/* expansion.c: ~ and $NAME in a path. YAML does not expand them, nor does a shell inside quotes;
 * taken literally they would become folders of those names. */
#include "config/expansion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_",
                  digits[] = "0123456789";

/* Bytes of the name that text begins with, as a shell reads it: letters, then digits too. */
static size_t name_length(const char *text) {
    size_t n = strspn(text, letters);
    while (n > 0 && text[n]) {
        size_t more = strspn(text + n, letters) + strspn(text + n, digits);
        if (!more)
            break;
        n += more;
    }
    return n;
}

/* Bytes of the "$NAME" or "${NAME...}" that text begins with; 0: it is neither. */
static size_t variable_length(const char *text) {
    bool is_braced = text[0] == '$' && text[1] == '{';
    size_t n = text[0] == '$' ? name_length(text + 1 + is_braced) : 0;
    if (!is_braced)
        return n ? n + 1 : 0;
    const char *end = strchr(text, '}');
    return n && end ? (size_t)(end - text) + 1 : 0;
}

/* Is there a file or folder called as the path is, up to the end of the component at `end`? */
static bool exists(const char *path, size_t end, const char *directory) {
    char name[SW_PATH_BYTES];
    end += strcspn(path + end, "/");
    int n = *path == '/' ? snprintf(name, sizeof name, "%.*s", (int)end, path)
                         : snprintf(name, sizeof name, "%s/%.*s", directory, (int)end, path);
    return n > 0 && (size_t)n < sizeof name && sw_file_exists(name);
}

/* The value of the variable, or the home folder, that the word stands for; NULL: not known. */
static const char *value_of(const char *word, size_t length) {
    char name[SW_EXPANSION_BYTES];
    if (*word == '~')
        return length == 1 ? getenv("HOME") : NULL;
    const char *start = word + 1 + (word[1] == '{');
    size_t n = name_length(start);
    if (n >= sizeof name || (word[1] == '{' && start[n] != '}'))
        return NULL;
    memcpy(name, start, n);
    name[n] = 0;
    return getenv(name);
}

bool sw_path_wants_expansion(const char *path, const char *directory, sw_expansion *found) {
    size_t at = 0, length = 0;
    if (!strncmp(path, "./", 2))
        return false;
    for (; path[at]; at++) {
        length = at == 0 && *path == '~' ? strcspn(path, "/") : variable_length(path + at);
        if (length && !exists(path, at + length, directory))
            break;
    }
    if (!path[at])
        return false;
    const char *value = value_of(path + at, length);
    snprintf(found->word, sizeof found->word, "%.*s", (int)length, path + at);
    found->whole[0] = 0;
    int n = value ? snprintf(found->whole, sizeof found->whole, "%.*s%s%s", (int)at, path, value,
                             path + at + length)
                  : 0;
    if (n < 0 || (size_t)n >= sizeof found->whole || strchr(found->whole, '$'))
        found->whole[0] = 0;
    return true;
}
