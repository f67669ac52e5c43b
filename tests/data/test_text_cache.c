/* test_text_cache.c: text tokenized once: the same files from any number of processes, never stale,
 * never half. */
#include "chats.h"
#include "scratch.h"

#include <dirent.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/file.h"
#include "data/cache_entry.h"
#include "data/dataset.h"
#include "data/text_cache.h"
#include "data/token_file.h"
#include "formats/npy.h"
#include "tokenizer/tokenizer.h"

#define JSONL SW_SOURCE_FOLDER "/tests/data/jsonl/"
#define TOKENIZER SW_SOURCE_FOLDER "/tests/tokenizer/golden/llama3-style"

static sw_tokenized tokenize(const sw_text_options *options, const char *path, sw_arena *arena) {
    sw_tokenized out;
    sw_error err = {0};
    if (sw_text_tokenize(options, &path, 1, arena, &out, &err) != SW_OK)
        fail_msg("%s", err.message);
    return out;
}

static void assert_refused(const sw_text_options *options, const char *path, const char *says) {
    sw_arena arena = {0};
    sw_tokenized out;
    sw_error err = {0};
    assert_int_equal(sw_text_tokenize(options, &path, 1, &arena, &out, &err), SW_BAD_FILE);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" lacks \"%s\"", err.message, says);
    sw_arena_free(&arena);
}

static int n_entries(const char *folder) {
    int n = 0;
    DIR *entries = opendir(folder);
    if (!entries)
        return 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(entries);
    return n;
}

static void assert_same_file(const char *a, const char *b) {
    char *text[2];
    int64_t bytes[2];
    assert_int_equal(sw_file_read(a, 1 << 30, &text[0], &bytes[0], NULL), SW_OK);
    assert_int_equal(sw_file_read(b, 1 << 30, &text[1], &bytes[1], NULL), SW_OK);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], (size_t)bytes[0]);
    free(text[0]);
    free(text[1]);
}

/* ---- what is written ---- */

static void a_prompt_is_no_target_and_lengths_are_those_of_the_rows(void **state) {
    sw_arena arena = {0};
    const char *path = write_text(
        *state, "a.jsonl",
        "{\"text\": \"abc\"}\n\n{\"text\": \"\"}\n{\"prompt\": \"de\", \"completion\": \"f\"}\n");
    sw_text_options options = {.cache = scratch_path(*state, "cache")};
    sw_tokenized out = tokenize(&options, path, &arena);
    assert_int_equal(out.facts.n_samples, 3);
    assert_int_equal(out.facts.n_empty, 1);
    assert_int_equal(out.facts.first_empty, 3);
    assert_int_equal(out.facts.n_supervised, 3); /* b, c, f */
    assert_int_equal(out.facts.has_marks, 1);
    char *text;
    int64_t bytes;
    assert_int_equal(sw_file_read(out.tokens, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_int_equal(bytes, SW_NPY_HEADER + 6 * 2);
    assert_memory_equal(text + SW_NPY_HEADER, "a\0b\0c\0d\0e\0f\0", 12);
    free(text);
    assert_int_equal(sw_file_read(out.marks, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_memory_equal(text + SW_NPY_HEADER, "\1\1\1\0\0\1", 6);
    free(text);
    assert_int_equal(sw_file_read(out.lines, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_memory_equal(text + SW_NPY_HEADER, ((int64_t[]){1, 4}), 16);
    free(text);
    assert_int_equal(sw_file_read(out.documents, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_memory_equal(text + SW_NPY_HEADER, ((int64_t[]){3, 3}), 16);
    free(text);
    assert_int_equal(sw_file_read(out.whole, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_int_equal(bytes, SW_NPY_HEADER + 2);
    assert_memory_equal(text + SW_NPY_HEADER, "\0\1", 2); /* a text; a prompt with its completion */
    free(text);
    sw_arena_free(&arena);
}

/* ---- the key ---- */

static void the_same_content_is_tokenized_once_under_any_name(void **state) {
    sw_arena arena = {0};
    const char *cache = scratch_path(*state, "cache");
    sw_text_options options = {.cache = cache};
    sw_tokenized a =
        tokenize(&options, write_text(*state, "a.jsonl", "{\"text\": \"abc\"}"), &arena);
    sw_tokenized b =
        tokenize(&options, write_text(*state, "b.jsonl", "{\"text\": \"abc\"}"), &arena);
    assert_string_equal(a.tokens, b.tokens);
    assert_int_equal(n_entries(cache), 1);
    tokenize(&options, write_text(*state, "a.jsonl", "{\"text\": \"abd\"}"), &arena);
    assert_int_equal(n_entries(cache), 2);
    sw_arena_free(&arena);
}

/* Everything that the tokens depend on makes another key. */
static void another_tokenizer_or_chat_format_is_another_key(void **state) {
    sw_arena arena = {0};
    sw_error err = {0};
    sw_tokenizer *tokenizer;
    const char *cache = scratch_path(*state, "cache");
    const char *path = write_text(*state, "a.jsonl", "{\"text\": \"abc\"}");
    if (sw_tokenizer_read(TOKENIZER, &tokenizer, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_chat *chat = open_chat(NULL, "chatml");
    sw_chat *other = open_chat(NULL, "zephyr");
    const sw_text_options options[] = {
        {.cache = cache},
        {.cache = cache, .chat = chat},
        {.cache = cache, .chat = other},
        {.cache = cache, .tokenizer = tokenizer, .tokenizer_file = TOKENIZER},
        {.cache = cache, .tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .chat = chat}};
    for (int i = 0; i < 5; i++) {
        tokenize(&options[i], path, &arena);
        assert_int_equal(n_entries(cache), i + 1);
    }
    sw_tokenizer_free(tokenizer);
    sw_arena_free(&arena);
    sw_chat_free(chat);
    sw_chat_free(other);
}

static void the_cache_lies_where_caches_do(void **state) {
    scratch *s = *state;
    sw_arena arena = {0};
    char folder[160];
    snprintf(folder, sizeof folder, "%s/shardwise/tokens", s->folder);
    const char *kept = getenv("XDG_CACHE_HOME");
    char *before = kept ? strdup(kept) : NULL;
    setenv("XDG_CACHE_HOME", s->folder, 1);
    sw_text_options options = {0};
    sw_tokenized out = tokenize(&options, write_text(s, "a.jsonl", "{\"text\": \"abc\"}"), &arena);
    assert_memory_equal(out.tokens, folder, strlen(folder));
    if (before)
        setenv("XDG_CACHE_HOME", before, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(before);
    sw_arena_free(&arena);
}

static void a_cache_that_cannot_be_made_says_what_to_set(void **state) {
    sw_arena arena = {0};
    sw_tokenized out;
    sw_error err = {0};
    const char *path = write_text(*state, "a.jsonl", "{\"text\": \"abc\"}");
    sw_text_options options = {.cache = scratch_path(*state, "a.jsonl/below-a-file")};
    assert_int_equal(sw_text_tokenize(&options, &path, 1, &arena, &out, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "XDG_CACHE_HOME"));
    sw_arena_free(&arena);
}

/* ---- damage ---- */

typedef struct lines {
    char text[2048];
} lines;

/* What the cache keeps of a text, and where. */
typedef struct kept {
    sw_text_options options;
    const char *path;
    char folder[160]; /* of the entry */
    lines told;
} kept;

static void keep_line(void *to, const char *line) {
    lines *kept = to;
    strncat(kept->text, line, sizeof kept->text - strlen(kept->text) - 2);
    strcat(kept->text, "\n");
}

static void keep(scratch *s, kept *k, const char *cache) {
    sw_arena arena = {0};
    *k = (kept){.options = {.cache = scratch_path(s, cache), .tell = keep_line}};
    k->options.told = &k->told;
    k->path = write_text(s, "a.jsonl",
                         "{\"text\": \"abc\"}\n{\"prompt\": \"de\", \"completion\": \"fg\"}\n");
    sw_tokenized out = tokenize(&k->options, k->path, &arena);
    snprintf(k->folder, sizeof k->folder, "%.*s", (int)(strrchr(out.tokens, '/') - out.tokens),
             out.tokens);
    sw_arena_free(&arena);
}

/* The entry is made anew, with a word that says `says` (NULL: none), and is then as it should
 * be. */
static void assert_mended(kept *k, const char *says) {
    sw_arena arena = {0};
    char *text;
    int64_t bytes;
    for (int i = 0; i < 2; i++) {
        k->told.text[0] = 0;
        sw_tokenized out = tokenize(&k->options, k->path, &arena);
        if (i == 0 && says &&
            !(strstr(k->told.text, "a.jsonl in the cache are damaged") &&
              strstr(k->told.text, says)))
            fail_msg("\"%s\" lacks \"%s\"", k->told.text, says);
        if ((i > 0 || !says) && k->told.text[0])
            fail_msg("told without need: %s", k->told.text);
        assert_memory_equal(out.tokens, k->folder, strlen(k->folder));
        assert_int_equal(out.facts.n_samples, 2);
        assert_int_equal(sw_file_read(out.tokens, 1 << 20, &text, &bytes, NULL), SW_OK);
        assert_int_equal(bytes, SW_NPY_HEADER + 7 * 2);
        assert_memory_equal(text + SW_NPY_HEADER, "a\0b\0c\0d\0e\0f\0g\0", 14);
        free(text);
        assert_int_equal(sw_file_read(out.marks, 1 << 20, &text, &bytes, NULL), SW_OK);
        assert_memory_equal(text + SW_NPY_HEADER, "\1\1\1\0\0\1\1", 7);
        free(text);
    }
    assert_int_equal(n_entries(k->options.cache), 1);
    sw_arena_free(&arena);
}

static const char *const entry_files[] = {"tokens.npy", "marks.npy", "documents.npy", "whole.npy",
                                          "lines.npy",  "facts.npy", "checksums"};
enum { N_ENTRY_FILES = sizeof entry_files / sizeof *entry_files };

/* A command of the shell, in the entry's folder. */
static void in_entry(const kept *k, const char *format, ...) {
    char command[512];
    int n = snprintf(command, sizeof command, "cd %s && ", k->folder);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + n, sizeof command - (size_t)n, format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        fail_msg("%s", command);
}

/* Every bit of every file. */
static void a_bit_that_flips_anywhere_is_noticed(void **state) {
    kept k;
    keep(*state, &k, "cache");
    assert_mended(&k, NULL);
    for (int f = 0; f < N_ENTRY_FILES; f++) {
        char path[256], *text;
        int64_t bytes;
        snprintf(path, sizeof path, "%s/%s", k.folder, entry_files[f]);
        assert_int_equal(sw_file_read(path, 1 << 20, &text, &bytes, NULL), SW_OK);
        for (int64_t at = 0; at <= bytes; at++) { /* and last of all none */
            const int bit = 1 << at % 8;
            text[at] ^= (char)(at < bytes ? bit : 0);
            FILE *file = fopen(path, "wb");
            assert_int_equal(fwrite(text, 1, (size_t)bytes, file), bytes);
            fclose(file);
            sw_status wanted = at < bytes ? SW_BAD_FILE : SW_OK;
            if (sw_entry_check(k.folder, strrchr(k.folder, '/') + 1, NULL) != wanted)
                fail_msg("byte %d of %s", (int)at, entry_files[f]);
            text[at] ^= (char)(at < bytes ? bit : 0);
        }
        free(text);
    }
    assert_mended(&k, NULL);
}

static void an_entry_that_is_damaged_in_any_way_is_made_anew(void **state) {
    kept k;
    keep(*state, &k, "cache");
    static const char *const ways[] = {"truncate -s -1 %s",
                                       "truncate -s 0 %s",
                                       "printf x >> %s",
                                       "printf '\\0' >> %s",
                                       "rm %s",
                                       "rm %1$s && mkdir %1$s",
                                       "rm %1$s && mkfifo %1$s",
                                       "ln -sf /dev/zero %s"};
    for (int way = 0; way < 8; way++)
        for (int f = way % 2; f < N_ENTRY_FILES; f += 3) {
            in_entry(&k, ways[way], entry_files[f]);
            assert_mended(&k, "damaged");
        }
    in_entry(&k, "rm -f *.npy checksums");
    assert_mended(&k, "checksums cannot be read"); /* an empty folder */
    in_entry(&k, "cd .. && rm -r %s && mkfifo %s", k.folder, k.folder);
    assert_mended(&k, "checksums cannot be read");
    in_entry(&k, "cd .. && rm -r %s && echo file > %s", k.folder, k.folder);
    assert_mended(&k, "checksums cannot be read");
    in_entry(&k, "cd .. && rm -r %s && ln -s nowhere %s", k.folder, k.folder);
    assert_mended(&k, "checksums cannot be read");
    in_entry(&k, "touch beside && cp tokens.npy copy.npy"); /* what nobody reads does no harm */
    assert_mended(&k, NULL);
}

static void an_entry_of_another_text_is_not_taken(void **state) {
    kept k;
    sw_arena arena = {0};
    keep(*state, &k, "cache");
    sw_text_options elsewhere = {.cache = scratch_path(*state, "other")};
    tokenize(&elsewhere,
             write_text(*state, "b.jsonl",
                        "{\"text\": \"xyz\"}\n{\"prompt\": \"de\", \"completion\": \"fg\"}\n"),
             &arena);
    in_entry(&k, "cp %s/*/* .", elsewhere.cache); /* all of it */
    assert_mended(&k, "checksums are not those of this text");
    in_entry(&k, "cp %s/*/tokens.npy .", elsewhere.cache);
    assert_mended(&k, "tokens.npy is not what was written");
    in_entry(&k, "rm marks.npy");
    assert_mended(&k, "is not what was written");
    /* Text of which all counts has no marks; some that lie beside its tokens are not taken
     * either. */
    const char *plain = write_text(*state, "a.jsonl", "{\"text\": \"abc\"}\n");
    sw_tokenized out = tokenize(&k.options, plain, &arena);
    assert_null(out.marks);
    char command[512];
    snprintf(command, sizeof command, "cp %s/marks.npy %.*s/", k.folder,
             (int)(strrchr(out.tokens, '/') - out.tokens), out.tokens);
    assert_int_equal(system(command), 0);
    k.told.text[0] = 0;
    out = tokenize(&k.options, plain, &arena);
    assert_null(out.marks);
    assert_non_null(strstr(k.told.text, "marks.npy is not what was written"));
    sw_arena_free(&arena);
}

/* Many runs begin at once, over an entry that is damaged, or not there: all of them find the
 * tokens, at any moment. */
static void runs_that_begin_at_once_share_an_entry(void **state) {
    enum { N = 4, N_ROUNDS = 4 };
    kept k;
    keep(*state, &k, "cache");
    for (int round = 0; round < N_ROUNDS; round++) {
        in_entry(&k, round % 2 ? "printf x >> tokens.npy" : "rm -r ../*");
        pid_t run[N];
        for (int i = 0; i < N; i++)
            if ((run[i] = fork()) == 0) {
                sw_arena arena = {0};
                sw_tokenized out;
                sw_token_file file;
                for (int j = 0; j < 5; j++)
                    if (sw_text_tokenize(&k.options, &k.path, 1, &arena, &out, NULL) ||
                        sw_token_file_describe(out.tokens, 255, &file, NULL) || file.n_tokens != 7)
                        _exit(1);
                _exit(0);
            }
        for (int i = 0; i < N; i++) {
            int how;
            assert_int_equal(waitpid(run[i], &how, 0), run[i]);
            assert_int_equal(how, 0);
        }
        assert_mended(&k, NULL);
    }
}

/* ---- no place for it ---- */

typedef struct other_place {
    char folder[160];
    int n_asked;
    lines why;
} other_place;

static sw_status give_place(void *to, const char *why, char folder[SW_PATH_BYTES], sw_error *err) {
    other_place *p = to;
    (void)err;
    p->n_asked += why != NULL;
    snprintf(p->why.text, sizeof p->why.text, "%s", why ? why : "");
    snprintf(folder, SW_PATH_BYTES, "%s", p->folder);
    return SW_OK;
}

static void tokens_are_kept_elsewhere_where_the_cache_cannot_be_written(void **state) {
    scratch *s = *state;
    sw_arena arena = {0};
    other_place other = {.n_asked = 0};
    snprintf(other.folder, sizeof other.folder, "%s/run/cache", s->folder);
    const char *path = write_text(s, "a.jsonl", "{\"text\": \"abc\"}");
    sw_text_options options = {
        .cache = scratch_path(s, "a.jsonl/below-a-file"), .fallback = give_place, .told = &other};
    sw_tokenized out = tokenize(&options, path, &arena);
    assert_memory_equal(out.tokens, other.folder, strlen(other.folder));
    assert_non_null(strstr(other.why.text, "a.jsonl/below-a-file"));
    assert_int_equal(other.n_asked, 1);
    out = tokenize(&options, path, &arena); /* and found there */
    assert_memory_equal(out.tokens, other.folder, strlen(other.folder));
    assert_int_equal(other.n_asked, 1);
    options.cache = scratch_path(s, "cache"); /* in place of making what is there already */
    out = tokenize(&options, path, &arena);
    assert_memory_equal(out.tokens, other.folder, strlen(other.folder));
    assert_int_equal(n_entries(options.cache), 0);
    sw_text_cache_remove(other.folder);
    assert_int_equal(access(other.folder, F_OK), -1);
    sw_arena_free(&arena);
}

static void neither_place_is_two_reasons(void **state) {
    scratch *s = *state;
    sw_arena arena = {0};
    sw_tokenized out;
    sw_error err = {0};
    other_place other = {.n_asked = 0};
    snprintf(other.folder, sizeof other.folder, "%s/a.jsonl/here", s->folder);
    const char *path = write_text(s, "a.jsonl", "{\"text\": \"abc\"}");
    sw_text_options options = {
        .cache = scratch_path(s, "a.jsonl/there"), .fallback = give_place, .told = &other};
    assert_int_equal(sw_text_tokenize(&options, &path, 1, &arena, &out, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "a.jsonl/there"));
    assert_non_null(strstr(err.message, "a.jsonl/here"));
    sw_arena_free(&arena);
}

/* A folder that anybody may have put there is none to trust. */
static void temporary_files_of_others_are_not_taken(void **state) {
    scratch *s = *state;
    char folder[SW_PATH_BYTES], expected[160];
    const char *kept = getenv("TMPDIR");
    char *before = kept ? strdup(kept) : NULL;
    setenv("TMPDIR", s->folder, 1);
    snprintf(expected, sizeof expected, "%s/shardwise-%d", s->folder, (int)geteuid());
    assert_int_equal(sw_text_cache_temporary(false, folder, NULL), SW_NO_SPACE);
    assert_int_equal(symlink(s->folder, expected), 0);
    assert_int_equal(sw_text_cache_temporary(true, folder, NULL), SW_NO_SPACE);
    assert_int_equal(unlink(expected), 0);
    assert_int_equal(sw_text_cache_temporary(true, folder, NULL), SW_OK);
    assert_string_equal(folder, expected);
    assert_int_equal(chmod(expected, 0777), 0);
    assert_int_equal(sw_text_cache_temporary(true, folder, NULL), SW_NO_SPACE);
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

/* ---- processes ---- */

typedef struct progress {
    int64_t n_calls, last, all;
} progress;

static void note(void *to, const char *path, int64_t done, int64_t all) {
    progress *p = to;
    (void)path;
    assert_true(done >= p->last && done <= all);
    *p = (progress){p->n_calls + 1, done, all};
}

static const char *write_large(scratch *s, int64_t n_rows, int64_t bad_row) {
    const char *path = scratch_path(s, "large.jsonl");
    FILE *file = fopen(path, "w");
    for (int64_t i = 0; i < n_rows; i++)
        fprintf(file,
                i == bad_row ? "{\"txt\": %lld}\n"
                             : "{\"prompt\": \"row %lld\", \"completion\": \"%0*d\"}\n",
                (long long)i, (int)(i % 1000), 7);
    fclose(file);
    return path;
}

static void any_number_of_processes_makes_the_same_files(void **state) {
    sw_arena arena = {0};
    const char *path = write_large(*state, 60000, -1);
    progress told = {0};
    sw_text_options alone = {.cache = scratch_path(*state, "one")};
    sw_text_options several = {.cache = scratch_path(*state, "three"),
                               .n_workers = 3,
                               .progress = note,
                               .progress_to = &told};
    sw_tokenized a = tokenize(&alone, path, &arena), b = tokenize(&several, path, &arena);
    assert_int_equal(a.facts.n_samples, 60000);
    assert_memory_equal(&a.facts, &b.facts, sizeof a.facts);
    assert_same_file(a.tokens, b.tokens);
    assert_same_file(a.marks, b.marks);
    assert_same_file(a.documents, b.documents);
    assert_same_file(a.lines, b.lines);
    assert_true(told.n_calls > 0);
    assert_int_equal(told.last, told.all);
    sw_arena_free(&arena);
}

/* The first fault of the file is named, whoever finds one first, and nothing stays in the cache. */
static void a_bad_row_in_a_later_part_is_named_by_its_line(void **state) {
    const char *cache = scratch_path(*state, "cache");
    sw_text_options options = {.cache = cache, .n_workers = 3};
    assert_refused(&options, write_large(*state, 60000, 50000),
                   "line 50001: the key `txt` is unknown");
    assert_int_equal(n_entries(cache), 0);
    options.n_workers = 1;
    assert_refused(&options, write_large(*state, 60000, 0), "line 1: the key `txt` is unknown");
    assert_int_equal(n_entries(cache), 0);
}

static void a_conversation_without_a_format_names_line_and_setting(void **state) {
    sw_text_options options = {.cache = scratch_path(*state, "cache")};
    const char *path = write_text(*state, "a.jsonl",
                                  "\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_refused(&options, path, "a.jsonl: line 2: a conversation needs a chat template");
    assert_refused(&options, path, "data.chat_format");
}

static void roles_out_of_order_are_named_by_line_and_message(void **state) {
    sw_chat *chat = open_chat(NULL, "mistral");
    sw_text_options options = {.cache = scratch_path(*state, "cache"), .chat = chat};
    const char *path = write_text(*state, "a.jsonl",
                                  "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, "
                                  "{\"role\": \"user\", \"content\": \"y\"}]}");
    assert_refused(&options, path, "a.jsonl: line 1: ");
    assert_refused(&options, path, "message 2 is of role `user`");
    sw_chat_free(chat);
}

/* ---- as a dataset ---- */

static void assert_told(const sw_dataset *dataset, const char *says) {
    lines kept = {""};
    sw_dataset_tell(dataset, keep_line, &kept);
    if (!strstr(kept.text, says))
        fail_msg("\"%s\" lacks \"%s\"", kept.text, says);
}

static void rows_of_conversations_are_told_about(void **state) {
    sw_dataset *dataset;
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    const char *paths[] = {JSONL "good/no-assistant.jsonl", JSONL "good/messages.jsonl",
                           JSONL "good/empty-text.jsonl"};
    assert_int_equal(sw_tokenizer_read(TOKENIZER, &tokenizer, &err), SW_OK);
    sw_chat *chat = open_chat(TOKENIZER, "llama3");
    sw_dataset_options options = {.paths = paths,
                                  .n_paths = 3,
                                  .packing = true,
                                  .sequence_length = 8,
                                  .text = {.tokenizer = tokenizer,
                                           .tokenizer_file = TOKENIZER,
                                           .chat = chat,
                                           .cache = scratch_path(*state, "cache")}};
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.text.n_samples, 6);
    assert_int_equal(facts.text.n_empty, 1);
    assert_int_equal(facts.text.n_unsupervised, 1);
    assert_int_equal(facts.n_documents, 5);
    assert_int_equal(facts.text.n_ended, 4);
    assert_told(dataset, "6 samples");
    assert_told(dataset, "4 (67%) end in a supervised end of turn or text");
    assert_told(dataset, "warning: 1 sample has nothing to train on; the first is line 1 of " JSONL
                         "good/no-assistant.jsonl");
    assert_told(dataset, "warning: 1 sample is empty; the first is line 1 of " JSONL
                         "good/empty-text.jsonl");
    sw_dataset_close(dataset);
    options.vocabulary = sw_tokenizer_n_ids(tokenizer) - 1;
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "is it the tokenizer of this model?"));
    sw_tokenizer_free(tokenizer);
    sw_chat_free(chat);
}

static void a_file_without_a_supervised_token_is_refused(void **state) {
    sw_dataset *dataset;
    sw_error err = {0};
    sw_chat *chat = open_chat(NULL, "chatml");
    const char *path =
        write_text(*state, "a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    sw_dataset_options options = {.paths = &path,
                                  .n_paths = 1,
                                  .is_bytes = true,
                                  .sequence_length = 8,
                                  .text = {.chat = chat, .cache = scratch_path(*state, "cache")}};
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "a.jsonl: no token counts as a target"));
    sw_chat_free(chat);
}

/* A folder of text with a tokenizer: each file is a document, ended by the end-of-text token;
 * together they are one entry of the cache. Other files in the folder are left aside. */
static void a_folder_of_text_is_documents_that_end(void **state) {
    scratch *s = *state;
    sw_dataset *dataset;
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    const char *folder = scratch_path(s, "corpus"), *cache = scratch_path(s, "cache");
    assert_int_equal(mkdir(folder, 0777), 0);
    write_text(s, "corpus/b.txt", "The first rank reads.");
    write_text(s, "corpus/a.txt", "The others wait.");
    write_text(s, "corpus/c.txt", "");
    write_text(s, "corpus/notes.md", "not data");
    assert_int_equal(sw_tokenizer_read(TOKENIZER, &tokenizer, &err), SW_OK);
    sw_token_list expected = {0};
    sw_tokenizer_scratch *words;
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &words, &err), SW_OK);
    static const char *const texts[] = {"The others wait.", "The first rank reads."};
    int64_t first_bytes = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sw_tokenizer_encode(tokenizer, words, texts[i], strlen(texts[i]),
                                             SW_ENCODE_SPECIALS, &expected, &err),
                         SW_OK);
        assert_true(sw_token_list_put(&expected, sw_tokenizer_eos_id(tokenizer)));
        first_bytes = i ? first_bytes : expected.n;
    }
    int64_t length = expected.n - 1;
    sw_dataset_options options = {
        .paths = &folder,
        .n_paths = 1,
        .packing = true,
        .sequence_length = length,
        .text = {.tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .cache = cache}};
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    int32_t *tokens = calloc((size_t)length, 12), *targets = tokens + length,
            *start = targets + length;
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    assert_int_equal(sw_dataset_describe(dataset).n_documents, 2);
    assert_int_equal(n_entries(cache), 1);
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, start, NULL), SW_OK);
    assert_memory_equal(tokens, expected.ids, (size_t)length * sizeof *tokens);
    for (int64_t i = 0; i < length; i++) {
        assert_int_equal(start[i], i < first_bytes ? 0 : first_bytes);
        assert_int_equal(targets[i], i + 1 == first_bytes ? -1 : expected.ids[i + 1]);
    }
    assert_told(dataset, "warning: 1 sample is empty; the first is ");
    assert_told(dataset, "corpus/c.txt");
    sw_dataset_close(dataset);
    free(tokens);
    sw_token_list_free(&expected);
    sw_tokenizer_scratch_free(words);
    sw_tokenizer_free(tokenizer);
}

static void a_document_too_long_is_named_by_its_line(void **state) {
    sw_dataset *dataset;
    sw_error err = {0};
    const char *path = write_text(
        *state, "a.jsonl", "{\"text\": \"\"}\n\n{\"text\": \"abc\"}\n\n{\"text\": \"abcdef\"}\n");
    sw_dataset_options options = {.paths = &path,
                                  .n_paths = 1,
                                  .is_bytes = true,
                                  .sequence_length = 4,
                                  .long_documents = SW_LONG_ERROR,
                                  .text = {.cache = scratch_path(*state, "cache")}};
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "a.jsonl: line 5: has 6 tokens, a row takes 5"));
    options.long_documents = SW_LONG_DROP;
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(sw_dataset_describe(dataset).n_long, 1);
    assert_told(dataset, "1 document is longer than a row and left out");
    sw_dataset_close(dataset);
}

static void text_that_is_not_utf8_is_refused_by_name(void **state) {
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    assert_int_equal(sw_tokenizer_read(TOKENIZER, &tokenizer, &err), SW_OK);
    sw_text_options options = {.tokenizer = tokenizer,
                               .tokenizer_file = TOKENIZER,
                               .cache = scratch_path(*state, "cache")};
    assert_refused(&options, write_text(*state, "a.txt", "caf\xE9 au lait"), "a.txt: ");
    sw_tokenizer_free(tokenizer);
}

/* Unpacked rows of bytes: prompt and padding are no targets. */
static void padding_and_prompts_are_no_targets(void **state) {
    sw_dataset *dataset;
    sw_error err = {0};
    const char *path =
        write_text(*state, "a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}");
    sw_dataset_options options = {.paths = &path,
                                  .n_paths = 1,
                                  .is_bytes = true,
                                  .sequence_length = 6,
                                  .text = {.cache = scratch_path(*state, "cache")}};
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    int32_t tokens[6], targets[6], start[6];
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, start, NULL), SW_OK);
    assert_memory_equal(tokens, ((int32_t[]){'a', 'b', 'c', 'd', 0, 0}), sizeof tokens);
    assert_memory_equal(targets, ((int32_t[]){-1, 'c', 'd', -1, -1, -1}), sizeof targets);
    assert_memory_equal(start, ((int32_t[]){0, 0, 0, 0, 4, 4}), sizeof start);
    sw_dataset_close(dataset);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_prompt_is_no_target_and_lengths_are_those_of_the_rows),
        TEST(the_same_content_is_tokenized_once_under_any_name),
        TEST(another_tokenizer_or_chat_format_is_another_key),
        TEST(the_cache_lies_where_caches_do),
        TEST(a_cache_that_cannot_be_made_says_what_to_set),
        TEST(a_bit_that_flips_anywhere_is_noticed),
        TEST(an_entry_that_is_damaged_in_any_way_is_made_anew),
        TEST(an_entry_of_another_text_is_not_taken),
        TEST(runs_that_begin_at_once_share_an_entry),
        TEST(tokens_are_kept_elsewhere_where_the_cache_cannot_be_written),
        TEST(neither_place_is_two_reasons),
        TEST(temporary_files_of_others_are_not_taken),
        TEST(any_number_of_processes_makes_the_same_files),
        TEST(a_bad_row_in_a_later_part_is_named_by_its_line),
        TEST(a_conversation_without_a_format_names_line_and_setting),
        TEST(roles_out_of_order_are_named_by_line_and_message),
        TEST(rows_of_conversations_are_told_about),
        TEST(a_file_without_a_supervised_token_is_refused),
        TEST(a_folder_of_text_is_documents_that_end),
        TEST(a_document_too_long_is_named_by_its_line),
        TEST(text_that_is_not_utf8_is_refused_by_name),
        TEST(padding_and_prompts_are_no_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
