/* text_cache.c: from a file to the name of its folder in the cache, and the folder made where it is not there yet. */
#include "data/text_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "base/reason.h"
#include "data/npy.h"
#include "data/token_file.h"
#include "data/tokenize.h"
#include "data/tokenizer/tokenizer.h"

/* Of what is written. It changes with every change that gives other tokens for the same text. */
#define FORMAT_VERSION "shardwise tokens 2"

enum { HASH_BYTES_AT_ONCE = 1 << 20, N_FACTS = sizeof(sw_text_facts) / sizeof(int64_t), KEY_BYTES = 33 };

/* ---- where ---- */

static sw_status make_folders(char *path, sw_error *err) {
    for (char *at = path + 1;; at++) {
        if (*at && *at != '/')
            continue;
        char kept = *at;
        *at = 0;
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST ? errno : 0;
        *at = kept;
        if (failed)
            return sw_fail(err, SW_NO_SPACE,
                           "%s: the cache of tokenized text cannot be made: %s; %s, or set XDG_CACHE_HOME to another folder",
                           path, strerror(failed), sw_call_hint(SW_CALL_WRITE, failed));
        if (!kept)
            return SW_OK;
    }
}

static sw_status cache_folder(const sw_text_options *options, char folder[SW_PATH_BYTES], sw_error *err) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (options->cache)
        n = snprintf(folder, SW_PATH_BYTES, "%s", options->cache);
    else if (base && base[0] == '/')
        n = snprintf(folder, SW_PATH_BYTES, "%s/shardwise/tokens", base);
    else if (home && home[0] == '/')
        n = snprintf(folder, SW_PATH_BYTES, "%s/.cache/shardwise/tokens", home);
    else
        return sw_fail(err, SW_BAD_CONFIG,
                       "there is no place for the cache of tokenized text: neither XDG_CACHE_HOME nor HOME is set");
    if (n < 1 || n >= SW_PATH_BYTES - 64)
        return sw_fail(err, SW_BAD_CONFIG, "the name of the cache of tokenized text is %d bytes long, too long for a path", n);
    return make_folders(folder, err);
}

/* ---- the key ---- */

static void seen_bytes(void *to, const void *bytes, int64_t n) {
    XXH3_128bits_update(to, bytes, (size_t)n);
}

/* A text with its length, so that "ab" "c" is not "a" "bc". */
static void hash_text(XXH3_state_t *hash, const char *text) {
    uint64_t n = strlen(text);
    seen_bytes(hash, &n, sizeof n);
    seen_bytes(hash, text, (int64_t)n);
}

static void hash_number(XXH3_state_t *hash, int64_t number) {
    seen_bytes(hash, &number, sizeof number);
}

static sw_status hash_file(XXH3_state_t *hash, const char *path, sw_error *err) {
    int descriptor;
    int64_t bytes;
    sw_status status = sw_file_open(path, &descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    char *buffer = malloc(HASH_BYTES_AT_ONCE);
    if (!buffer)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d bytes to read it with", path, HASH_BYTES_AT_ONCE);
    hash_number(hash, bytes);
    for (int64_t at = 0; at < bytes && status == SW_OK; at += HASH_BYTES_AT_ONCE) {
        int64_t n = bytes - at < HASH_BYTES_AT_ONCE ? bytes - at : HASH_BYTES_AT_ONCE;
        status = sw_file_read_at(descriptor, path, buffer, n, at, err);
        if (status == SW_OK)
            seen_bytes(hash, buffer, n);
    }
    free(buffer);
    close(descriptor);
    return status;
}

/* A tokenizer is a file, or a folder of which these are read. */
static sw_status hash_tokenizer(XXH3_state_t *hash, const sw_text_options *options, sw_error *err) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt"};
    struct stat info;
    sw_status status = SW_OK;
    hash_number(hash, options->tokenizer != NULL);
    if (!options->tokenizer)
        return SW_OK;
    hash_number(hash, sw_tokenizer_bos_id(options->tokenizer));
    hash_number(hash, sw_tokenizer_eos_id(options->tokenizer));
    if (stat(options->tokenizer_file, &info) != 0 || !S_ISDIR(info.st_mode))
        return hash_file(hash, options->tokenizer_file, err);
    for (size_t i = 0; i < sizeof names / sizeof *names && status == SW_OK; i++) {
        char path[SW_PATH_BYTES];
        status = sw_path_join(path, options->tokenizer_file, names[i], err);
        if (status == SW_OK && sw_file_exists(path))
            status = hash_file(hash, path, err);
    }
    return status;
}

static void hash_chat(XXH3_state_t *hash, const sw_chat *chat) {
    hash_number(hash, chat ? (int64_t)chat->family : -1);
    if (!chat)
        return;
    hash_number(hash, chat->has_default_system);
    hash_text(hash, chat->has_default_system ? chat->default_system : "");
    hash_text(hash, chat->date);
    hash_text(hash, chat->bos);
    hash_text(hash, chat->eos);
}

/* The files' chunks and their key. */
static sw_status read_key(const sw_text_options *options, const sw_text_files *files, sw_text_chunks *chunks, char key[KEY_BYTES],
                          sw_error *err) {
    XXH3_state_t hash; /* on the stack: it must be aligned as its type says */
    XXH3_128bits_reset(&hash);
    hash_text(&hash, FORMAT_VERSION);
    hash_number(&hash, files->are_rows);
    sw_status status = hash_tokenizer(&hash, options, err);
    if (status != SW_OK)
        return status;
    hash_chat(&hash, files->are_rows ? options->chat : NULL);
    if ((status = sw_text_scan(files, seen_bytes, &hash, chunks, err)) != SW_OK)
        return status;
    XXH128_hash_t digest = XXH3_128bits_digest(&hash);
    snprintf(key, KEY_BYTES, "%016" PRIx64 "%016" PRIx64, (uint64_t)digest.high64, (uint64_t)digest.low64);
    return SW_OK;
}

/* ---- the folder ---- */

static void remove_folder(const char *folder) {
    static const char *const names[] = {"tokens.npy", "marks.npy", "documents.npy", "whole.npy", "lines.npy", "facts.npy"};
    char path[SW_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sw_path_join(path, folder, names[i], NULL) == SW_OK)
            unlink(path);
    rmdir(folder);
}

static sw_status make(const sw_text_options *options, const sw_text_files *files, const sw_text_chunks *chunks,
                      const char *folder, sw_error *err) {
    char made[SW_PATH_BYTES];
    if (snprintf(made, sizeof made, "%s-XXXXXX", folder) >= (int)sizeof made || !mkdtemp(made))
        return sw_fail_call(err, SW_CALL_WRITE, errno, "%s: a folder of the cache of tokenized text cannot be made", made);
    sw_status status = sw_text_write(options, files, chunks, made, err);
    if (status == SW_OK && rename(made, folder) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        status = sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be renamed to %s", made, folder);
    if (access(made, F_OK) == 0) /* it failed, or another run made the same folder meanwhile */
        remove_folder(made);
    return status;
}

static sw_status read_facts(const char *path, sw_text_facts *facts, sw_error *err) {
    const sw_token_rule rule = {"number", INT64_MAX, "a list of facts"};
    sw_token_file file;
    int descriptor;
    sw_status status = sw_token_file_check(path, false, &rule, &file, err);
    if (status != SW_OK)
        return status;
    if (file.n_tokens != N_FACTS || file.dtype != SW_I64)
        return sw_fail(err, SW_BAD_FILE, "%s: is not a list of facts; remove its folder", path);
    if ((status = sw_token_file_open(&file, &descriptor, err)) != SW_OK)
        return status;
    status = sw_file_read_at(descriptor, path, facts, sizeof *facts, file.data_first, err);
    close(descriptor);
    return status;
}

sw_status sw_text_tokenize(const sw_text_options *options, const char *const *paths, int n_paths, sw_arena *arena,
                           sw_tokenized *out, sw_error *err) {
    char folder[SW_PATH_BYTES], key[KEY_BYTES];
    size_t n_path = strlen(paths[0]);
    const sw_text_files files = {paths, n_paths, n_path >= 6 && strcmp(paths[0] + n_path - 6, ".jsonl") == 0};
    sw_text_chunks chunks = {0};
    *out = (sw_tokenized){0};
    sw_status status = cache_folder(options, folder, err);
    if (status == SW_OK)
        status = read_key(options, &files, &chunks, key, err);
    if (status != SW_OK)
        goto done;
    size_t n = strlen(folder);
    snprintf(folder + n, sizeof folder - n, "/%s", key);
    const char *facts = sw_arena_format(arena, "%s/facts.npy", folder);
    out->tokens = sw_arena_format(arena, "%s/tokens.npy", folder);
    out->marks = sw_arena_format(arena, "%s/marks.npy", folder);
    out->documents = sw_arena_format(arena, "%s/documents.npy", folder);
    out->whole = sw_arena_format(arena, "%s/whole.npy", folder);
    out->lines = sw_arena_format(arena, "%s/lines.npy", folder);
    if (!facts || !out->tokens || !out->marks || !out->documents || !out->whole || !out->lines) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for the names of its token files", paths[0]);
        goto done;
    }
    if (!sw_file_exists(facts))
        status = make(options, &files, &chunks, folder, err);
    if (status == SW_OK)
        status = read_facts(facts, &out->facts, err);
    if (status == SW_OK && !out->facts.has_marks)
        out->marks = NULL;
done:
    free(chunks.chunk);
    return status;
}
