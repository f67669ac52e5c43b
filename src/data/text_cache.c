/* text_cache.c: from a file to the name of its folder in the cache, and the folder made where it is
 * not there yet. */
#include "data/text_cache.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "base/reason.h"
#include "data/cache_entry.h"
#include "data/token_file.h"
#include "data/tokenize.h"
#include "tokenizer/tokenizer.h"

/* Of what is written. It changes with every change that gives other tokens for the same text. */
#define FORMAT_VERSION "shardwise tokens 3"

enum { N_FACTS = sizeof(sw_text_facts) / sizeof(int64_t), KEY_BYTES = 33 };

/* ---- where ---- */

/* Where entries may be: the cache of the user, and where that cannot be, the fallback. */
typedef enum place { USERS_CACHE, FALLBACK, N_PLACES } place;

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
                           "%s: the cache of tokenized text cannot be made: %s; %s, or set "
                           "XDG_CACHE_HOME to another folder",
                           path, strerror(failed), sw_call_hint(SW_CALL_WRITE, failed));
        if (!kept)
            return SW_OK;
    }
}

static sw_status users_cache(const sw_text_options *options, char folder[SW_PATH_BYTES],
                             sw_error *err) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (options->cache)
        n = snprintf(folder, SW_PATH_BYTES, "%s", options->cache);
    else if (base && base[0] == '/')
        n = snprintf(folder, SW_PATH_BYTES, "%s/shardwise/tokens", base);
    else if (home && home[0] == '/')
        n = snprintf(folder, SW_PATH_BYTES, "%s/.cache/shardwise/tokens", home);
    else
        return sw_fail(err, SW_NO_SPACE,
                       "there is no place for the cache of tokenized text: neither XDG_CACHE_HOME "
                       "nor HOME names a folder");
    if (n < 1 || n >= SW_PATH_BYTES - 64)
        return sw_fail(
            err, SW_NO_SPACE,
            "the name of the cache of tokenized text is %d bytes long, too long for a path", n);
    return SW_OK;
}

sw_status sw_text_cache_temporary(bool makes, char folder[SW_PATH_BYTES], sw_error *err) {
    const char *base = getenv("TMPDIR");
    struct stat info;
    int n = snprintf(folder, SW_PATH_BYTES, "%s/shardwise-%lld",
                     base && base[0] == '/' ? base : "/tmp", (long long)geteuid());
    if (n < 1 || n >= SW_PATH_BYTES - 64)
        return sw_fail(err, SW_NO_SPACE, "TMPDIR is %d bytes long, too long for a path", n);
    if (makes && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return sw_fail_call(err, SW_CALL_WRITE, errno,
                            "%s: the cache of tokenized text cannot be made", folder);
    /* Anybody may have made a folder of this name. */
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
        info.st_mode & 022)
        return sw_fail(err, SW_NO_SPACE, "%s: is not a folder that this user alone may write",
                       folder);
    return SW_OK;
}

/* The folder of a place, which is made where `why` says what is wrong with the one before, or is
 * "". NULL: only its name. */
static sw_status place_folder(const sw_text_options *options, place p, const char *why,
                              char folder[SW_PATH_BYTES], sw_error *err) {
    sw_status status =
        p == USERS_CACHE    ? users_cache(options, folder, err)
        : options->fallback ? options->fallback(options->told, why, folder, err)
        : options->cache
            ? sw_fail(err, SW_NO_SPACE, "no other cache may be taken than %s", options->cache)
            : sw_text_cache_temporary(why != NULL, folder, err);
    return status == SW_OK && why ? make_folders(folder, err) : status;
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
    struct stat info;
    hash_number(hash, stat(path, &info) == 0 ? (int64_t)info.st_size : -1);
    return sw_file_see(path, seen_bytes, hash, err);
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

/* What rows depend on besides their text: the chat template and what it sees, the names of their
 * keys. */
static void hash_rows(XXH3_state_t *hash, const sw_text_options *options) {
    const sw_columns columns = options->columns ? *options->columns : SW_USUAL_COLUMNS;
    const char *const *names = (const char *const *)&columns;
    for (int i = 0; i < SW_N_COLUMNS; i++)
        hash_text(hash, names[i] ? names[i] : "");
    hash_number(hash, options->chat != NULL);
    if (options->chat)
        sw_chat_hash(options->chat, seen_bytes, hash);
}

/* The files' chunks and their key. */
static sw_status read_key(const sw_text_options *options, const sw_text_files *files,
                          sw_text_chunks *chunks, char key[KEY_BYTES], sw_error *err) {
    XXH3_state_t hash; /* on the stack: it must be aligned as its type says */
    XXH3_128bits_reset(&hash);
    hash_text(&hash, FORMAT_VERSION);
    hash_number(&hash, files->are_rows);
    sw_status status = hash_tokenizer(&hash, options, err);
    if (status != SW_OK)
        return status;
    if (files->are_rows)
        hash_rows(&hash, options);
    if ((status = sw_text_scan(files, seen_bytes, &hash, chunks, err)) != SW_OK)
        return status;
    XXH128_hash_t digest = XXH3_128bits_digest(&hash);
    snprintf(key, KEY_BYTES, "%016" PRIx64 "%016" PRIx64, (uint64_t)digest.high64,
             (uint64_t)digest.low64);
    return SW_OK;
}

/* ---- entries ---- */

/* Tokenize into a new folder beside the entry, and give it the entry's name. */
static sw_status make(const sw_text_options *options, const sw_text_files *files,
                      const sw_text_chunks *chunks, const char *folder, const char *key,
                      sw_error *err) {
    char made[SW_PATH_BYTES];
    int failed = EEXIST;
    for (int i = 0; i < 1000 && failed == EEXIST;
         i++) { /* who may read it the umask says, which mkdtemp would not ask */
        snprintf(made, sizeof made, "%.4000s-%lld.%d", folder, (long long)getpid(), i);
        failed = mkdir(made, 0777) != 0 ? errno : 0;
    }
    if (failed)
        return sw_fail_call(err, SW_CALL_WRITE, failed,
                            "%s: a folder of the cache of tokenized text cannot be made", made);
    sw_status status = sw_text_write(options, files, chunks, made, err);
    if (status == SW_OK)
        status = sw_entry_seal(made, key, err);
    if (status == SW_OK)
        return sw_entry_place(made, folder, key, err);
    sw_entry_remove(made);
    return status;
}

static sw_status read_facts(const char *folder, sw_text_facts *facts, sw_error *err) {
    sw_token_file file;
    char path[SW_PATH_BYTES];
    int descriptor;
    sw_status status = sw_path_join(path, folder, sw_entry_names[SW_ENTRY_FACTS], err);
    if (status == SW_OK)
        status = sw_token_file_describe(path, INT64_MAX, &file, err);
    if (status == SW_OK && (file.n_tokens != N_FACTS || file.dtype != SW_I64))
        status = sw_fail(err, SW_BAD_FILE, "%s: is not a list of facts", path);
    if (status != SW_OK || (status = sw_token_file_open(&file, &descriptor, err)) != SW_OK)
        return status;
    status = sw_file_read_at(descriptor, path, facts, sizeof *facts, file.data_first, err);
    close(descriptor);
    return status;
}

static sw_status name_files(const char *folder, const char *source, sw_arena *arena,
                            sw_tokenized *out, sw_error *err) {
    const char *path[SW_N_ENTRY_FILES];
    for (int i = 0; i < SW_N_ENTRY_FILES; i++)
        if (!(path[i] = sw_arena_format(arena, "%s/%s", folder, sw_entry_names[i])))
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the names of its token files",
                           source);
    out->tokens = path[SW_ENTRY_TOKENS];
    out->marks = path[SW_ENTRY_MARKS];
    out->documents = path[SW_ENTRY_DOCUMENTS];
    out->whole = path[SW_ENTRY_WHOLE];
    out->lines = path[SW_ENTRY_LINES];
    return SW_OK;
}

static void tell(const sw_text_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void tell(const sw_text_options *options, const char *format, ...) {
    char line[SW_MESSAGE_BYTES];
    va_list arguments;
    if (!options->tell)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    options->tell(options->told, line);
}

/* An entry that is there and right, in any place: its folder, else "". One that is not right is
 * told of. */
static sw_status find(const sw_text_options *options, const char *source, const char *key,
                      char folder[SW_PATH_BYTES], sw_error *err) {
    for (int p = 0; p < N_PLACES; p++) {
        char base[SW_PATH_BYTES];
        sw_error damage = {.message = ""};
        if (place_folder(options, (place)p, NULL, base, NULL) != SW_OK ||
            sw_path_join(folder, base, key, NULL) != SW_OK || !sw_file_exists(folder))
            continue;
        sw_status status = sw_entry_check(folder, key, &damage);
        if (status == SW_OK)
            return SW_OK;
        if (status == SW_NO_MEMORY)
            return sw_fail(err, status, "%s", damage.message);
        tell(options, "the tokens of %s in the cache are damaged: %s: %s; they are made anew",
             source, folder, damage.message);
    }
    folder[0] = 0;
    return SW_OK;
}

/* Make the entry in the first place that can be written. */
static sw_status make_somewhere(const sw_text_options *options, const sw_text_files *files,
                                const sw_text_chunks *chunks, const char *key,
                                char folder[SW_PATH_BYTES], sw_error *err) {
    sw_error why = {.message = ""};
    for (int p = 0; p < N_PLACES; p++) {
        char base[SW_PATH_BYTES];
        sw_error failure = {.message = ""};
        sw_status status = place_folder(options, (place)p, why.message, base, &failure);
        if (status == SW_OK)
            status = sw_path_join(folder, base, key, &failure);
        if (status == SW_OK)
            status = make(options, files, chunks, folder, key, &failure);
        if (status == SW_OK)
            return SW_OK;
        if (status != SW_NO_SPACE && p == USERS_CACHE)
            return sw_fail(err, status, "%s", failure.message);
        if (p == USERS_CACHE)
            why = failure;
        else if (status != SW_NO_SPACE)
            return sw_fail(err, status, "%s", failure.message);
        else if (!options->cache || options->fallback)
            return sw_fail(err, SW_NO_SPACE, "%.800s; nor can they be kept elsewhere: %.200s",
                           why.message, failure.message);
    }
    return sw_fail(err, SW_NO_SPACE, "%s", why.message);
}

sw_status sw_text_tokenize(const sw_text_options *options, const char *const *paths, int n_paths,
                           sw_arena *arena, sw_tokenized *out, sw_error *err) {
    char folder[SW_PATH_BYTES] = "", key[KEY_BYTES];
    size_t n_path = strlen(paths[0]);
    const sw_text_files files = {paths, n_paths,
                                 n_path >= 6 && strcmp(paths[0] + n_path - 6, ".jsonl") == 0};
    sw_text_chunks chunks = {0};
    *out = (sw_tokenized){0};
    sw_status status = read_key(options, &files, &chunks, key, err);
    if (status == SW_OK)
        status = find(options, paths[0], key, folder, err);
    if (status == SW_OK && !folder[0])
        status = make_somewhere(options, &files, &chunks, key, folder, err);
    if (status == SW_OK)
        status = name_files(folder, paths[0], arena, out, err);
    if (status == SW_OK)
        status = read_facts(folder, &out->facts, err);
    if (status == SW_OK && !out->facts.has_marks)
        out->marks = NULL;
    free(chunks.chunk);
    return status;
}

void sw_text_cache_remove(const char *folder) {
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        char path[SW_PATH_BYTES];
        if (strlen(entry->d_name) >= KEY_BYTES - 1 &&
            sw_path_join(path, folder, entry->d_name, NULL) == SW_OK)
            sw_entry_remove(path);
    }
    if (entries)
        closedir(entries);
    rmdir(folder);
}
