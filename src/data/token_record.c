/* token_record.c: see token_record.h. */
#include "data/token_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/text.h"

enum { FORMAT = 1, MOST_BYTES = 4096 };

static sw_status with_ending(const char *path, const char *ending, char record[SW_PATH_BYTES],
                             sw_error *err) {
    if (snprintf(record, SW_PATH_BYTES, "%s%s", path, ending) >= SW_PATH_BYTES)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", path);
    return SW_OK;
}

static sw_status record_path(const char *path, char record[SW_PATH_BYTES], sw_error *err) {
    return with_ending(path, ".json", record, err);
}

static sw_status partial_path(const char *path, char partial[SW_PATH_BYTES], sw_error *err) {
    return with_ending(path, ".json.partial", partial, err);
}

static void hash_of(const sw_tokenizer *tokenizer, int64_t n_ids, char text[SW_TOKEN_HASH_BYTES]) {
    snprintf(text, SW_TOKEN_HASH_BYTES, "%016" PRIx64, sw_tokenizer_fingerprint(tokenizer, n_ids));
}

sw_status sw_token_record_write(const char *path, const sw_tokenizer *tokenizer, int64_t n_tokens,
                                sw_error *err) {
    char partial[SW_PATH_BYTES], hash[SW_TOKEN_HASH_BYTES], text[256];
    const int64_t n_ids = sw_tokenizer_n_ids(tokenizer);
    hash_of(tokenizer, n_ids, hash);
    const int n = snprintf(text, sizeof text,
                           "{\"format\": %d, \"tokens\": %" PRId64 ", \"ids\": %" PRId64
                           ", \"tokenizer\": \"%s\"}\n",
                           FORMAT, n_tokens, n_ids, hash);
    sw_status status = partial_path(path, partial, err);
    return status ? status : sw_file_write(partial, text, n, err);
}

sw_status sw_token_record_publish(const char *path, sw_error *err) {
    char record[SW_PATH_BYTES], partial[SW_PATH_BYTES];
    sw_status status = record_path(path, record, err);
    if (!status)
        status = partial_path(path, partial, err);
    if (!status && rename(partial, record))
        status = sw_cannot_write(record, errno, err);
    return status;
}

void sw_token_record_abandon(const char *path) {
    char partial[SW_PATH_BYTES];
    if (!partial_path(path, partial, NULL))
        unlink(partial);
}

/* The tokenizer that the reader stands for; NULL where none is known. */
static sw_status tokenizer_of(sw_token_reader *reader, const sw_tokenizer **tokenizer,
                              sw_error *err) {
    *tokenizer = reader->tokenizer ? reader->tokenizer : reader->opened;
    if (*tokenizer || !reader->path)
        return SW_OK;
    char folder[SW_PATH_BYTES], file[SW_PATH_BYTES];
    sw_status status = sw_tokenizer_folder(reader->path, folder, err);
    if (!status)
        status = sw_path_join(file, folder, "tokenizer.json", err);
    if (!status && sw_file_exists(file)) {
        status = sw_tokenizer_read(reader->path, &reader->opened, err);
        *tokenizer = reader->opened;
    }
    return status;
}

static bool is_hash(const char *text) {
    return strlen(text) == SW_TOKEN_HASH_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == SW_TOKEN_HASH_BYTES - 1;
}

sw_status sw_token_record_parse(const char *name, const char *text, int64_t n_bytes,
                                sw_token_record *record, sw_error *err) {
    sw_json *document = NULL;
    const char *tokenizer = "";
    int64_t format = FORMAT;
    sw_status status = sw_json_parse(name, text, n_bytes, &document, err);
    const sw_json_object root = document ? sw_json_root(document) : (sw_json_object){0};
    if (!status)
        status = sw_json_integer(&root, "format", SW_JSON_REQUIRED, &format, err);
    if (!status && format != FORMAT)
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: has format %" PRId64 ", this version reads %d; make the token file again",
                    name, format, FORMAT);
    if (!status)
        status = sw_json_integer(&root, "tokens", SW_JSON_REQUIRED, &record->n_tokens, err);
    if (!status)
        status = sw_json_integer(&root, "ids", SW_JSON_REQUIRED, &record->n_ids, err);
    if (!status)
        status = sw_json_text(&root, "tokenizer", SW_JSON_REQUIRED, &tokenizer, err);
    if (!status && (record->n_tokens < 0 || record->n_ids < 1 || !is_hash(tokenizer)))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: %" PRId64 " tokens of %" PRId64
                         " ids and the hash \"%.40s\" do not fit a token file; make the file again",
                         name, record->n_tokens, record->n_ids, tokenizer);
    if (!status)
        memcpy(record->tokenizer, tokenizer, sizeof record->tokenizer);
    sw_json_free(document);
    return status;
}

/* One of another format is a record too: it is replaced by one that this version knows. */
sw_status sw_token_record_look(const char *path, sw_error *err) {
    char name[SW_PATH_BYTES];
    struct stat info;
    sw_json *document = NULL;
    int64_t number;
    sw_status status = record_path(path, name, err);
    if (!status)
        status = sw_file_check_name(name, err);
    if (status || !sw_file_exists(name))
        return status;
    if (lstat(name, &info))
        return sw_cannot_write(name, errno, err);
    status = sw_json_read(name, MOST_BYTES, &document, err);
    const sw_json_object root = document ? sw_json_root(document) : (sw_json_object){0};
    if (!status)
        status = sw_json_integer(&root, "format", SW_JSON_REQUIRED, &number, err);
    if (!status)
        status = sw_json_integer(&root, "tokens", SW_JSON_REQUIRED, &number, err);
    sw_json_free(document);
    if (status)
        return sw_fail_within(
            err, "-o %.200s: its record would replace a file that is none; move that away", path);
    return SW_OK;
}

sw_status sw_token_record_check(const char *path, int64_t n_tokens, sw_token_reader *reader,
                                sw_error *err) {
    char name[SW_PATH_BYTES], hash[SW_TOKEN_HASH_BYTES], *text = NULL;
    const sw_tokenizer *tokenizer = NULL;
    sw_token_record r = {0};
    int64_t n_bytes = 0;
    sw_status status = record_path(path, name, err);
    if (status || !sw_file_exists(name))
        return status;
    status = sw_file_read(name, MOST_BYTES, &text, &n_bytes, err);
    if (!status)
        status = sw_token_record_parse(name, text, n_bytes, &r, err);
    if (!status && r.n_tokens != n_tokens)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: says %" PRId64 " tokens, %s has %" PRId64
                         "; if the file was replaced on purpose, move its record away",
                         name, r.n_tokens, path, n_tokens);
    if (!status)
        status = tokenizer_of(reader, &tokenizer, err);
    if (!status && tokenizer) {
        hash_of(tokenizer, r.n_ids, hash);
        if (strcmp(hash, r.tokenizer) != 0)
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: was made by another tokenizer of %" PRId64
                             " ids: their texts have the hash %.40s, those of the run's tokenizer "
                             "%s; give data.tokenizer the one that "
                             "the file was made with, or make the file anew (shardwise tokenize)",
                             path, r.n_ids, r.tokenizer, hash);
    }
    free(text);
    return status;
}
