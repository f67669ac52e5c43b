/* dataset_files.c: from the settings' names, folders and patterns to pieces: token files, text that
 * is tokenized, marks. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"
#include "data/dataset_internal.h"
#include "data/json_document.h"
#include "data/pattern.h"

enum { LENGTHS_AT_ONCE = 2048 };

static bool ends_with(const char *text, const char *ending) {
    size_t n_text = strlen(text), n_ending = strlen(ending);
    return n_text >= n_ending && strcmp(text + n_text - n_ending, ending) == 0;
}

static int by_entry_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static sw_status check_tokens(sw_dataset_opening *o, const char *path, bool is_text,
                              sw_token_file *file) {
    const int64_t most = INT64_C(1) << 31,
                  vocabulary = o->options->vocabulary; /* ids travel as int32 */
    const bool is_limited = vocabulary > 0 && vocabulary < most;
    const sw_token_rule rule = {"id", is_limited ? vocabulary : most,
                                is_limited ? "the vocabulary" : "int32"};
    sw_status status = sw_token_file_check(path, is_text, &rule, file, o->err);
    if (status == SW_OK && file->largest_id > o->dataset->facts.largest_id)
        o->dataset->facts.largest_id = file->largest_id;
    return status;
}

sw_status sw_dataset_check_marks(sw_dataset_opening *o, const char *path, int64_t n_tokens,
                                 sw_token_file *file) {
    const sw_token_rule rule = {"mark", 2, "a mask"};
    sw_status status = sw_token_file_check(path, false, &rule, file, o->err);
    if (status != SW_OK)
        return status;
    if (file->n_tokens != n_tokens)
        return sw_fail(o->err, SW_BAD_FILE,
                       "%s: has %" PRId64 " %s, the data has %" PRId64
                       " %s; there must be one for each",
                       path, file->n_tokens, sw_text_noun(file->n_tokens, "mark", "marks"),
                       n_tokens, sw_text_noun(n_tokens, "token", "tokens"));
    return SW_OK;
}

/* Two lists of numbers, read side by side. */
typedef struct length_files {
    sw_token_file lengths, whole;
    int lengths_open, whole_open; /* descriptors; -1: none */
} length_files;

static sw_status open_lengths(sw_dataset_opening *o, const sw_lengths *from, length_files *files) {
    const sw_token_rule length_rule = {"length", INT64_C(1) << 31, "a document"},
                        whole_rule = {"mark", 2, "a list of yes and no"};
    *files = (length_files){.lengths_open = -1, .whole_open = -1};
    sw_status status =
        sw_token_file_check(from->path, false, &length_rule, &files->lengths, o->err);
    if (status == SW_OK && from->whole)
        status = sw_token_file_check(from->whole, false, &whole_rule, &files->whole, o->err);
    if (status == SW_OK && from->whole && files->whole.n_tokens != files->lengths.n_tokens)
        status = sw_fail(o->err, SW_BAD_FILE,
                         "%s: has %" PRId64 " numbers, there are %" PRId64 " documents",
                         from->whole, files->whole.n_tokens, files->lengths.n_tokens);
    if (status == SW_OK)
        status = sw_token_file_open(&files->lengths, &files->lengths_open, o->err);
    if (status == SW_OK && from->whole)
        status = sw_token_file_open(&files->whole, &files->whole_open, o->err);
    return status;
}

/* Documents done .. done + n - 1 of the list. *left: tokens that are not in a document yet; *bound:
 * the next. */
static sw_status add_lengths(sw_dataset_opening *o, const sw_lengths *from, const int32_t *lengths,
                             const int32_t *whole, int64_t done, int64_t n, int64_t *left,
                             int *bound) {
    sw_documents *documents = &o->dataset->documents;
    sw_status status = SW_OK;
    for (int64_t i = 0; i < n && status == SW_OK; i++) {
        int64_t length = lengths[i], position = sw_document_first(documents, documents->n);
        if (length > *left)
            return sw_fail(o->err, SW_BAD_FILE,
                           "%s: the lengths add up to more than the %" PRId64
                           " %s of the data; document %" PRId64 " is the first beyond them",
                           from->path, from->n_tokens,
                           sw_text_noun(from->n_tokens, "token", "tokens"), done + i);
        for (*left -= length; length > 0 && status == SW_OK;) {
            while (*bound < from->n_bounds && from->bounds[*bound].end <= position)
                ++*bound;
            int64_t here = *bound < from->n_bounds && from->bounds[*bound].end - position < length
                               ? from->bounds[*bound].end - position
                               : length;
            status =
                sw_documents_add(documents, here, from->whole ? whole[i] : from->are_whole, o->err);
            position += here, length -= here;
        }
    }
    return status;
}

sw_status sw_dataset_read_lengths(sw_dataset_opening *o, const sw_lengths *from) {
    int32_t lengths[LENGTHS_AT_ONCE], whole[LENGTHS_AT_ONCE];
    length_files files;
    int bound = 0;
    int64_t left = from->n_tokens;
    sw_status status = open_lengths(o, from, &files);
    for (int64_t done = 0; status == SW_OK && done < files.lengths.n_tokens;
         done += LENGTHS_AT_ONCE) {
        int64_t n = files.lengths.n_tokens - done < LENGTHS_AT_ONCE ? files.lengths.n_tokens - done
                                                                    : LENGTHS_AT_ONCE;
        status = sw_token_file_read(&files.lengths, files.lengths_open, done, n, lengths, o->err);
        if (status == SW_OK && from->whole)
            status = sw_token_file_read(&files.whole, files.whole_open, done, n, whole, o->err);
        if (status == SW_OK)
            status = add_lengths(o, from, lengths, whole, done, n, &left, &bound);
    }
    if (files.lengths_open >= 0)
        close(files.lengths_open);
    if (files.whole_open >= 0)
        close(files.whole_open);
    if (status == SW_OK && left > 0)
        status = sw_fail(o->err, SW_BAD_FILE,
                         "%s: the lengths add up to %" PRId64 ", the data has %" PRId64 " %s",
                         from->path, from->n_tokens - left, from->n_tokens,
                         sw_text_noun(from->n_tokens, "token", "tokens"));
    return status;
}

static sw_status add_plain(sw_dataset_opening *o, const char *path, bool is_text) {
    sw_piece piece = {0};
    sw_status status = check_tokens(o, path, is_text, &piece.tokens);
    if (status == SW_OK && !is_text)
        status = sw_token_record_check(path, piece.tokens.n_tokens, &o->reader, o->err);
    if (status != SW_OK)
        return status;
    piece.n = piece.tokens.n_tokens;
    status = sw_pieces_add(&o->dataset->pieces, &o->dataset->arena, &piece, o->err);
    return status == SW_OK ? sw_documents_add(&o->dataset->documents, piece.n, false, o->err)
                           : status;
}

/* "line 3 of a.jsonl", or the name of the .txt file. */
static const char *place_words(sw_dataset_opening *o, const char *const *paths, int n_paths,
                               int64_t number) {
    if (ends_with(paths[0], ".jsonl"))
        return sw_arena_format(&o->dataset->arena, "line %" PRId64 " of %s", number, paths[0]);
    return paths[number >= 1 && number <= n_paths ? number - 1 : 0];
}

static void add_facts(sw_dataset_opening *o, const char *const *paths, int n_paths,
                      const sw_text_facts *facts) {
    sw_text_facts *sum = &o->dataset->facts.text;
    if (facts->n_empty && !sum->n_empty)
        o->dataset->first_empty = place_words(o, paths, n_paths, facts->first_empty);
    if (facts->n_unsupervised && !sum->n_unsupervised)
        o->dataset->first_unsupervised = place_words(o, paths, n_paths, facts->first_unsupervised);
    sum->n_samples += facts->n_samples;
    sum->n_empty += facts->n_empty;
    sum->n_unsupervised += facts->n_unsupervised;
    sum->n_ended += facts->n_ended;
    sum->n_supervised += facts->n_supervised;
    sum->n_double_begin += facts->n_double_begin;
    sum->has_marks |= facts->has_marks;
    sw_unread_keys_add(&sum->unread, &facts->unread);
}

/* Where in the sources a document comes from that lines.npy gives the number of. */
static sw_status refuse_long(const sw_dataset_opening *o, const char *const *paths, int n_paths,
                             const char *lines, int64_t document, int64_t n_tokens) {
    const sw_token_rule rule = {"number", INT64_C(1) << 31, "a list of lines"};
    sw_token_file file;
    int descriptor;
    int32_t number = 0;
    sw_status status = sw_token_file_check(lines, false, &rule, &file, o->err);
    if (status != SW_OK || (status = sw_token_file_open(&file, &descriptor, o->err)) != SW_OK)
        return status;
    status = sw_token_file_read(&file, descriptor, document, 1, &number, o->err);
    close(descriptor);
    if (status != SW_OK)
        return status;
    bool is_row = ends_with(paths[0], ".jsonl");
    sw_fail(o->err, SW_BAD_FILE,
            "has %" PRId64 " tokens, a row takes %" PRId64
            "; data.long: split cuts such documents, drop leaves them out",
            n_tokens, o->options->sequence_length + 1);
    if (is_row)
        return sw_fail_within(o->err, "%s: line %d", paths[0], number);
    return sw_fail_within(o->err, "%s", paths[number >= 1 && number <= n_paths ? number - 1 : 0]);
}

/* Where long documents are refused, the first one is named by its place in the sources. */
static sw_status check_long(const sw_dataset_opening *o, const char *const *paths, int n_paths,
                            const sw_tokenized *text, int64_t first) {
    const sw_documents *documents = &o->dataset->documents;
    if (o->options->long_documents != SW_LONG_ERROR ||
        (!o->options->packing && !ends_with(paths[0], ".jsonl")))
        return SW_OK;
    for (int64_t d = first; d < documents->n; d++) {
        int64_t n = documents->end[d] - sw_document_first(documents, d);
        if (n - 1 > o->options->sequence_length)
            return refuse_long(o, paths, n_paths, text->lines, d - first, n);
    }
    return SW_OK;
}

/* The tokens of a text, whose checksum is right: their largest is known. */
static sw_status describe_tokens(sw_dataset_opening *o, const sw_tokenized *text,
                                 sw_token_file *file) {
    const int64_t vocabulary = o->options->vocabulary;
    if (vocabulary > 0 && text->facts.largest_id >= vocabulary)
        return check_tokens(o, text->tokens, false, file); /* which names the place */
    if (text->facts.largest_id > o->dataset->facts.largest_id)
        o->dataset->facts.largest_id = text->facts.largest_id;
    return sw_token_file_describe(text->tokens, text->facts.largest_id, file, o->err);
}

/* Conversations in which no assistant speaks are a mistake. */
static sw_status describe_marks(const sw_dataset_opening *o, const sw_tokenized *text,
                                const char *source, sw_token_file *file) {
    if (text->facts.n_supervised == 0)
        return sw_fail(o->err, SW_BAD_FILE,
                       "%s: no token counts as a target, so there is nothing to learn from it; a "
                       "conversation needs a turn of the "
                       "assistant, a prompt a completion",
                       source);
    return sw_token_file_describe(text->marks, 1, file, o->err);
}

/* One .jsonl file, or .txt files. */
static sw_status add_text(sw_dataset_opening *o, const char *const *paths, int n_paths) {
    sw_piece piece = {0};
    sw_tokenized text;
    int64_t first = o->dataset->documents.n;
    sw_status status =
        sw_text_tokenize(&o->options->text, paths, n_paths, &o->dataset->arena, &text, o->err);
    if (status != SW_OK)
        return status;
    add_facts(o, paths, n_paths, &text.facts);
    if (text.facts.n_samples == text.facts.n_empty)
        return sw_fail(o->err, SW_BAD_FILE, "%s: holds no token in %" PRId64 " %s", paths[0],
                       text.facts.n_samples,
                       sw_text_noun(text.facts.n_samples, "sample", "samples"));
    if (describe_tokens(o, &text, &piece.tokens) != SW_OK)
        return sw_fail_within(o->err, "%s", paths[0]);
    piece.n = piece.tokens.n_tokens;
    piece.has_marks = text.marks != NULL;
    if (piece.has_marks && (status = describe_marks(o, &text, paths[0], &piece.marks)) != SW_OK)
        return status;
    status = sw_pieces_add(&o->dataset->pieces, &o->dataset->arena, &piece, o->err);
    if (status == SW_OK)
        status = sw_dataset_read_lengths(
            o, &(sw_lengths){.path = text.documents, .n_tokens = piece.n, .whole = text.whole});
    return status == SW_OK ? check_long(o, paths, n_paths, &text, first) : status;
}

/* Tokenize the .txt files that wait. They are one entry of the cache, however many they are. */
static sw_status add_waiting(sw_dataset_opening *o) {
    int n = o->n_waiting;
    const char **paths = o->waiting;
    o->waiting = NULL; /* the names live on in the arena, as messages need them */
    o->n_waiting = o->waiting_capacity = 0;
    return n ? add_text(o, paths, n) : SW_OK;
}

static sw_status wait_for_more(sw_dataset_opening *o, const char *path) {
    const char **grown = sw_arena_grow(&o->dataset->arena, o->waiting, o->n_waiting,
                                       &o->waiting_capacity, sizeof *grown);
    if (!grown)
        return sw_fail(o->err, SW_NO_MEMORY, "%s: no memory for the list of data files", path);
    o->waiting = grown;
    grown[o->n_waiting++] = path;
    return SW_OK;
}

static sw_status add_file(sw_dataset_opening *o, const char *path) {
    const sw_dataset_options *options = o->options;
    bool is_text = ends_with(path, ".txt"), is_jsonl = ends_with(path, ".jsonl");
    if (ends_with(path, ".json"))
        return sw_json_document_refuse_file(path, o->err);
    if (!is_text && !is_jsonl && !ends_with(path, ".npy"))
        return sw_fail(
            o->err, SW_BAD_FILE,
            "%s: is not .txt, .jsonl or .npy; the ending decides how a data file is read", path);
    if ((is_text || is_jsonl) && !options->is_bytes && !options->text.tokenizer)
        return sw_fail(o->err, SW_BAD_CONFIG,
                       "%s: is text, which needs a tokenizer; try data.tokenizer: bytes, or a "
                       "folder with a tokenizer.json",
                       path);
    const char *kept = sw_arena_text(&o->dataset->arena, path);
    if (!kept)
        return sw_fail(o->err, SW_NO_MEMORY, "%s: no memory for the list of data files", path);
    o->first_file = o->first_file ? o->first_file : kept;
    o->first_jsonl = o->first_jsonl || !is_jsonl ? o->first_jsonl : kept;
    o->n_files++;
    o->n_text += is_text;
    o->n_jsonl += is_jsonl;
    if (is_text && !options->is_bytes)
        return wait_for_more(o, kept);
    sw_status status = add_waiting(o);
    if (status == SW_OK)
        status = is_jsonl ? add_text(o, &kept, 1) : add_plain(o, kept, is_text);
    return status;
}

static sw_status add_folder(sw_dataset_opening *o, const char *path) {
    struct dirent **entries;
    int n_before = o->n_files, n = scandir(path, &entries, NULL, by_entry_name);
    sw_status status = SW_OK;
    if (n < 0)
        return sw_fail_call(o->err, SW_CALL_READ, errno, "%s: the folder cannot be read", path);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char file[SW_PATH_BYTES];
        if (status == SW_OK && name[0] != '.' &&
            (ends_with(name, ".txt") || ends_with(name, ".jsonl"))) {
            status = sw_path_join(file, path, name, o->err);
            if (status == SW_OK)
                status = add_file(o, file);
        }
        free(entries[i]);
    }
    free(entries);
    if (status == SW_OK && o->n_files == n_before)
        status = sw_fail(o->err, SW_BAD_FILE, "%s: the folder has no .txt or .jsonl file", path);
    return status;
}

static sw_status add_pattern(sw_dataset_opening *o, const char *pattern) {
    struct stat info;
    sw_matches matches;
    sw_status status = sw_pattern_find(pattern, &matches, o->err);
    bool is_folder =
        status == SW_OK && matches.itself && stat(pattern, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder)
        status = add_folder(o, pattern);
    for (size_t i = 0; i < matches.n && status == SW_OK && !is_folder; i++)
        status = add_file(o, matches.path[i]);
    sw_matches_free(&matches);
    return status;
}

sw_status sw_dataset_add_files(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    dataset->n_streams = o->options->mix ? o->options->n_paths : 1;
    dataset->streams =
        sw_arena_take(&dataset->arena, (size_t)dataset->n_streams * sizeof *dataset->streams);
    if (!dataset->streams)
        return sw_fail(o->err, SW_NO_MEMORY, "no memory for the data's description");
    for (int i = 0; i < o->options->n_paths; i++) {
        sw_stream *of = &dataset->streams[o->options->mix ? i : 0];
        of->first = o->options->mix ? dataset->pieces.n_tokens : 0;
        sw_status status = add_pattern(o, o->options->paths[i]);
        if (status == SW_OK)
            status = add_waiting(o);
        if (status != SW_OK)
            return status;
        of->end = dataset->pieces.n_tokens;
    }
    return SW_OK;
}
