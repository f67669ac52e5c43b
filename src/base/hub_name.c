/* hub_name.c: see hub_name.h. */
#include "base/hub_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"

enum { LONGEST_PART = 96 }; /* the Hub's own limit */

/* A name of a repository's, or its owner's: no path of a file or a hidden folder looks so. */
static bool is_part(const char *text, size_t n) {
    static const char *const endings[] = {".json",  ".jsonl",       ".yaml",  ".yml", ".txt",
                                          ".npy",   ".safetensors", ".gguf",  ".bin", ".pt",
                                          ".jinja", ".py",          ".model", ".md"};
    if (n < 1 || n > LONGEST_PART || text[0] == '.' || text[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)text[i]) ||
            !(isalnum((unsigned char)text[i]) || strchr("._-", text[i])))
            return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n_ending = strlen(endings[i]);
        if (n > n_ending && memcmp(text + n - n_ending, endings[i], n_ending) == 0)
            return false;
    }
    return true;
}

static bool is_there(const char *folder, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, folder, name, NULL) == SW_OK && sw_file_exists(path);
}

bool sw_is_hub_name(const char *folder, const char *path, const char **name) {
    static const char *const addresses[] = {"https://huggingface.co/",
                                            "http://huggingface.co/",
                                            "huggingface.co/",
                                            "https://hf.co/",
                                            "hf.co/",
                                            "hf://"};
    char owner[LONGEST_PART + 1];
    bool is_address = false;
    if (is_there(folder, path))
        return false;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses && !is_address; i++)
        if ((is_address = strncmp(path, addresses[i], strlen(addresses[i])) == 0))
            path += strlen(addresses[i]);
    *name = path;
    const char *slash = strchr(path, '/');
    if (!slash)
        return is_part(path, strlen(path));
    if (!is_part(path, (size_t)(slash - path)) || !is_part(slash + 1, strlen(slash + 1)))
        return false;
    snprintf(owner, sizeof owner, "%.*s", (int)(slash - path), path);
    return is_address || !is_there(folder, owner);
}

const char *sw_hub_base_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

void sw_hub_fetch_command(const char *name, const char *folder, const char *pattern,
                          char text[SW_FETCH_BYTES]) {
    char path[SW_PATH_BYTES + LONGEST_PART + 2], word[300];
    bool is_here = !strcmp(folder, "."), is_data = pattern && !strcmp(pattern, SW_HUB_DATA_SET);
    pattern = is_data ? NULL : pattern;
    snprintf(path, sizeof path, "%s%s%s", is_here ? "" : folder, is_here ? "" : "/",
             sw_hub_base_name(name));
    snprintf(text, SW_FETCH_BYTES, "hf download %s%s --local-dir %s%s%s%s", name,
             is_data ? " --repo-type dataset" : "", sw_text_shell_word(path, word, sizeof word),
             pattern ? " --include '" : "", pattern ? pattern : "", pattern ? "'" : "");
}

sw_status sw_path_must_exist(const char *path, const char *pattern, sw_error *err) {
    char command[SW_FETCH_BYTES], target[256];
    const char *name;
    struct stat info;
    if (stat(path, &info) == 0)
        return SW_OK;
    int error = errno;
    if (error == ENOENT && sw_is_hub_name(".", path, &name)) {
        sw_hub_fetch_command(name, ".", pattern, command);
        return sw_fail(err, SW_BAD_FILE,
                       "%s: cannot be read: %s; check the path, or if it is a name of the Hugging "
                       "Face Hub, fetch it: %s (hf comes "
                       "with pip install huggingface_hub), and write ./%s",
                       path, strerror(error), command, sw_hub_base_name(name));
    }
    ssize_t n = error == ENOENT ? readlink(path, target, sizeof target) : -1;
    return n < 0 ? sw_cannot_read(path, error, err)
                 : sw_fail(err, SW_BAD_FILE,
                           "%s: cannot be read: it is a link to %.*s, which is not there", path,
                           (int)n, target);
}
