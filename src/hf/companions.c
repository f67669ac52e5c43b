/* companions.c: see companions.h. Copied byte by byte: what a tokenizer's file says is not for this
 * folder to know. */
#include "hf/companions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "hf/chat_template.h"

enum { CHUNK_BYTES = 1 << 20 };

static const struct {
    const char *name;
    bool is_tokenizer;
} companions[] = {
    {"tokenizer.json", true},
    {"tokenizer_config.json", true},
    {"special_tokens_map.json", true},
    {"vocab.json", true},
    {"merges.txt", true},
    {"tokenizer.model", true},
    {"vocab.txt", true},
    {"added_tokens.json", true},
    {"chat_template.jinja", true},
    {"chat_template.json", true},
    {"generation_config.json", false},
};
enum { N_COMPANIONS = sizeof companions / sizeof *companions };

const char *sw_companion_name(int i, bool *is_tokenizer) {
    if (i >= N_COMPANIONS)
        return NULL;
    if (is_tokenizer)
        *is_tokenizer = companions[i].is_tokenizer;
    return companions[i].name;
}

int64_t sw_companions_bytes(const char *folder) {
    int64_t bytes = 0;
    char path[SW_PATH_BYTES];
    struct stat info;
    for (int i = 0; i < N_COMPANIONS; i++)
        if (sw_path_join(path, folder, companions[i].name, NULL) == SW_OK && stat(path, &info) == 0)
            bytes += info.st_size;
    if (sw_path_join(path, folder, SW_MORE_TEMPLATES, NULL) == SW_OK)
        bytes += sw_folder_blocks(path);
    return bytes;
}

sw_status sw_companion_copy_file(const char *from, const char *to, sw_error *err) {
    int in, out = -1;
    int64_t bytes;
    char *chunk = NULL;
    sw_status status = sw_file_open(from, &in, &bytes, err);
    if (status != SW_OK)
        return status;
    chunk = malloc(CHUNK_BYTES);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (!chunk)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory to copy it", from);
    else if (out < 0)
        status = sw_cannot_write(to, errno, err);
    for (int64_t at = 0; status == SW_OK && at < bytes; at += CHUNK_BYTES) {
        int64_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        status = sw_file_read_at(in, from, chunk, n, at, err);
        if (status == SW_OK)
            status = sw_file_write_at(out, to, chunk, n, at, err);
    }
    if (out >= 0 && close(out) != 0 && status == SW_OK)
        status = sw_cannot_write(to, errno, err);
    free(chunk);
    close(in);
    return status;
}

sw_status sw_companions_copy(const char *from, const char *to, bool with_tokenizer,
                             const char *chat_template, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; i < N_COMPANIONS && status == SW_OK; i++) {
        char source[SW_PATH_BYTES], target[SW_PATH_BYTES];
        if (companions[i].is_tokenizer &&
            (!with_tokenizer || (chat_template && sw_chat_template_is_in(companions[i].name))))
            continue;
        status = sw_path_join(source, from, companions[i].name, err);
        if (status == SW_OK && sw_file_exists(source) &&
            (status = sw_path_join(target, to, companions[i].name, err)) == SW_OK)
            status = sw_companion_copy_file(source, target, err);
    }
    if (status == SW_OK && with_tokenizer)
        status = sw_chat_templates_copy(from, to, chat_template != NULL, err);
    return status || !chat_template
               ? status
               : sw_chat_template_put(with_tokenizer ? from : NULL, to, chat_template, err);
}
