/* test_text_cache.c: text tokenized once: the same files from any number of processes, never stale, never half. */
#include "scratch.h"

#include <dirent.h>

#include "base/arena.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "data/text_cache.h"
#include "data/tokenizer/tokenizer.h"

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
    const char *path =
        write_text(*state, "a.jsonl", "{\"text\": \"abc\"}\n\n{\"text\": \"\"}\n{\"prompt\": \"de\", \"completion\": \"f\"}\n");
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
    sw_tokenized a = tokenize(&options, write_text(*state, "a.jsonl", "{\"text\": \"abc\"}"), &arena);
    sw_tokenized b = tokenize(&options, write_text(*state, "b.jsonl", "{\"text\": \"abc\"}"), &arena);
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
    sw_chat chat, other;
    const char *cache = scratch_path(*state, "cache");
    const char *path = write_text(*state, "a.jsonl", "{\"text\": \"abc\"}");
    if (sw_tokenizer_read(TOKENIZER, &tokenizer, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(sw_chat_open(NULL, "chatml", &chat, &err), SW_OK);
    assert_int_equal(sw_chat_open(NULL, "zephyr", &other, &err), SW_OK);
    const sw_text_options options[] = {{.cache = cache},
                                       {.cache = cache, .chat = &chat},
                                       {.cache = cache, .chat = &other},
                                       {.cache = cache, .tokenizer = tokenizer, .tokenizer_file = TOKENIZER},
                                       {.cache = cache, .tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .chat = &chat}};
    for (int i = 0; i < 5; i++) {
        tokenize(&options[i], path, &arena);
        assert_int_equal(n_entries(cache), i + 1);
    }
    sw_tokenizer_free(tokenizer);
    sw_arena_free(&arena);
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
        fprintf(file, i == bad_row ? "{\"txt\": %lld}\n" : "{\"prompt\": \"row %lld\", \"completion\": \"%0*d\"}\n", (long long)i,
                (int)(i % 1000), 7);
    fclose(file);
    return path;
}

static void any_number_of_processes_makes_the_same_files(void **state) {
    sw_arena arena = {0};
    const char *path = write_large(*state, 60000, -1);
    progress told = {0};
    sw_text_options alone = {.cache = scratch_path(*state, "one")};
    sw_text_options several = {.cache = scratch_path(*state, "three"), .n_workers = 3, .progress = note, .progress_to = &told};
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
    assert_refused(&options, write_large(*state, 60000, 50000), "line 50001: the key `txt` is unknown");
    assert_int_equal(n_entries(cache), 0);
    options.n_workers = 1;
    assert_refused(&options, write_large(*state, 60000, 0), "line 1: the key `txt` is unknown");
    assert_int_equal(n_entries(cache), 0);
}

static void a_conversation_without_a_format_names_line_and_setting(void **state) {
    sw_text_options options = {.cache = scratch_path(*state, "cache")};
    const char *path = write_text(*state, "a.jsonl", "\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_refused(&options, path, "a.jsonl: line 2: a conversation needs a chat format");
    assert_refused(&options, path, "data.chat_format");
}

static void roles_out_of_order_are_named_by_line_and_message(void **state) {
    sw_chat chat;
    assert_int_equal(sw_chat_open(NULL, "mistral", &chat, NULL), SW_OK);
    sw_text_options options = {.cache = scratch_path(*state, "cache"), .chat = &chat};
    const char *path =
        write_text(*state, "a.jsonl",
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"y\"}]}");
    assert_refused(&options, path, "a.jsonl: line 1: message 2 is of role `user`");
}

/* ---- as a dataset ---- */

typedef struct lines {
    char text[2048];
} lines;

static void keep_line(void *to, const char *line) {
    lines *kept = to;
    strncat(kept->text, line, sizeof kept->text - strlen(kept->text) - 2);
    strcat(kept->text, "\n");
}

static void assert_told(const sw_dataset *dataset, const char *says) {
    lines kept = {""};
    sw_dataset_tell(dataset, keep_line, &kept);
    if (!strstr(kept.text, says))
        fail_msg("\"%s\" lacks \"%s\"", kept.text, says);
}

static void rows_of_conversations_are_told_about(void **state) {
    sw_dataset *dataset;
    sw_tokenizer *tokenizer;
    sw_chat chat;
    sw_error err = {0};
    const char *paths[] = {JSONL "good/no-assistant.jsonl", JSONL "good/messages.jsonl", JSONL "good/empty-text.jsonl"};
    assert_int_equal(sw_tokenizer_read(TOKENIZER, &tokenizer, &err), SW_OK);
    assert_int_equal(sw_chat_open(TOKENIZER, "llama3", &chat, &err), SW_OK);
    sw_dataset_options options = {
        .paths = paths,
        .n_paths = 3,
        .packing = true,
        .sequence_length = 8,
        .text = {.tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .chat = &chat, .cache = scratch_path(*state, "cache")}};
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
    assert_told(dataset, "warning: 1 samples have nothing to train on; the first is line 1 of " JSONL "good/no-assistant.jsonl");
    assert_told(dataset, "warning: 1 samples are empty; the first is line 1 of " JSONL "good/empty-text.jsonl");
    sw_dataset_close(dataset);
    options.vocabulary = sw_tokenizer_n_ids(tokenizer) - 1;
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "is it the tokenizer of this model?"));
    sw_tokenizer_free(tokenizer);
}

static void a_file_without_a_supervised_token_is_refused(void **state) {
    sw_dataset *dataset;
    sw_error err = {0};
    sw_chat chat;
    assert_int_equal(sw_chat_open(NULL, "chatml", &chat, &err), SW_OK);
    const char *path = write_text(*state, "a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    sw_dataset_options options = {.paths = &path,
                                  .n_paths = 1,
                                  .is_bytes = true,
                                  .sequence_length = 8,
                                  .text = {.chat = &chat, .cache = scratch_path(*state, "cache")}};
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "a.jsonl: no token counts as a target"));
}

/* A folder of text with a tokenizer: each file is a document, ended by the end-of-text token; together they are one entry of the
 * cache. Other files in the folder are left aside. */
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
        assert_int_equal(sw_tokenizer_encode(tokenizer, words, texts[i], strlen(texts[i]), SW_ENCODE_SPECIALS, &expected, &err),
                         SW_OK);
        assert_true(sw_token_list_put(&expected, sw_tokenizer_eos_id(tokenizer)));
        first_bytes = i ? first_bytes : expected.n;
    }
    int64_t length = expected.n - 1;
    sw_dataset_options options = {.paths = &folder,
                                  .n_paths = 1,
                                  .packing = true,
                                  .sequence_length = length,
                                  .text = {.tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .cache = cache}};
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    int32_t *tokens = calloc((size_t)length, 12), *targets = tokens + length, *start = targets + length;
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    assert_int_equal(sw_dataset_describe(dataset).n_documents, 2);
    assert_int_equal(n_entries(cache), 1);
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, start, NULL), SW_OK);
    assert_memory_equal(tokens, expected.ids, (size_t)length * sizeof *tokens);
    for (int64_t i = 0; i < length; i++) {
        assert_int_equal(start[i], i < first_bytes ? 0 : first_bytes);
        assert_int_equal(targets[i], i + 1 == first_bytes ? -1 : expected.ids[i + 1]);
    }
    assert_told(dataset, "warning: 1 samples are empty; the first is ");
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
    const char *path = write_text(*state, "a.jsonl", "{\"text\": \"\"}\n\n{\"text\": \"abc\"}\n\n{\"text\": \"abcdef\"}\n");
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
    assert_told(dataset, "1 documents are longer than a row and left out");
    sw_dataset_close(dataset);
}

static void text_that_is_not_utf8_is_refused_by_name(void **state) {
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    assert_int_equal(sw_tokenizer_read(TOKENIZER, &tokenizer, &err), SW_OK);
    sw_text_options options = {.tokenizer = tokenizer, .tokenizer_file = TOKENIZER, .cache = scratch_path(*state, "cache")};
    assert_refused(&options, write_text(*state, "a.txt", "caf\xE9 au lait"), "a.txt: ");
    sw_tokenizer_free(tokenizer);
}

/* Unpacked rows of bytes: prompt and padding are no targets. */
static void padding_and_prompts_are_no_targets(void **state) {
    sw_dataset *dataset;
    sw_error err = {0};
    const char *path = write_text(*state, "a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}");
    sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .is_bytes = true, .sequence_length = 6, .text = {.cache = scratch_path(*state, "cache")}};
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
