/* test_corpus.c: samples that are handed out are those that training reads, in their order, from
 * any number of threads. */
#include "chats.h"
#include "scratch.h"

#include "base/arena.h"
#include "base/file.h"
#include "data/corpus.h"
#include "data/text_cache.h"
#include "formats/npy.h"

/* What came out. */
typedef struct taken {
    int64_t n_samples, n_empty, n_ids, capacity, n_bytes, last_line, done, all;
    int32_t *ids;
    uint8_t *marks;
    int64_t refuses_at; /* this sample; -1: none */
} taken;

static sw_status take(void *to, const sw_corpus_sample *sample, sw_error *err) {
    taken *t = to;
    if (t->n_samples == t->refuses_at)
        return sw_fail(err, SW_NO_SPACE, "the disk is full");
    if (t->n_ids + sample->n > t->capacity) {
        t->capacity = 2 * t->capacity + sample->n;
        t->ids = realloc(t->ids, (size_t)t->capacity * sizeof *t->ids);
        t->marks = realloc(t->marks, (size_t)t->capacity);
        assert_true(t->ids && t->marks);
    }
    if (sample->n) {
        memcpy(t->ids + t->n_ids, sample->ids, (size_t)sample->n * sizeof *t->ids);
        memcpy(t->marks + t->n_ids, sample->marks, (size_t)sample->n);
    }
    assert_true(sample->line > t->last_line || sample->line == 0);
    t->last_line = sample->line;
    t->n_samples++;
    t->n_empty += sample->n == 0;
    t->n_ids += sample->n;
    t->n_bytes += sample->n_bytes;
    return SW_OK;
}

static void note(void *to, int64_t done_bytes, int64_t all_bytes) {
    taken *t = to;
    assert_true(done_bytes >= t->done && done_bytes <= all_bytes);
    t->done = done_bytes;
    t->all = all_bytes;
}

static taken begin_taking(void) {
    return (taken){.refuses_at = -1};
}

static void end_taking(taken *t) {
    free(t->ids);
    free(t->marks);
}

static sw_status encode(const char *path, const sw_chat *chat, int n_threads, taken *t,
                        sw_error *err) {
    const sw_corpus corpus = {.paths = &path, .n_paths = 1, .chat = chat, .n_threads = n_threads};
    return sw_corpus_encode(&corpus, (sw_corpus_sink){take, note, t}, err);
}

/* A byte order mark, then rows of all forms, blank lines and empty texts, in several jobs; row
 * `bad`, from 0, is none. */
static const char *write_rows(scratch *s, int n_rows, int bad) {
    const char *path = scratch_path(s, "rows.jsonl");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("\xEF\xBB\xBF", file);
    for (int i = 0; i < n_rows; i++) {
        if (i == bad)
            fputs("{\"txt\": \"a\"}\n", file);
        else if (i % 5 == 0)
            fprintf(file, "{\"prompt\": \"What is %d? \", \"completion\": \"A number.\"}\n", i);
        else if (i % 5 == 1)
            fprintf(file,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi %d\"}, {\"role\": "
                    "\"assistant\", \"content\": "
                    "\"Yes\"}]}\n",
                    i);
        else
            fprintf(file,
                    i % 5 == 2   ? "{\"text\": \"\", \"n\": %d}\n"
                    : i % 5 == 3 ? "{\"text\": \"row %d\"}\r\n"
                                 : " \n",
                    i);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

static void assert_numbers(const char *path, sw_dtype dtype, const void *numbers, int64_t n) {
    char *file;
    int64_t bytes;
    assert_int_equal(sw_file_read(path, 1 << 30, &file, &bytes, NULL), SW_OK);
    assert_int_equal(bytes, SW_NPY_HEADER + n * sw_dtype_bytes(dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t number =
            dtype == SW_U8 ? ((const uint8_t *)numbers)[i] : ((const int32_t *)numbers)[i];
        assert_int_equal(sw_npy_element(dtype, (uint8_t *)file + SW_NPY_HEADER, i), number);
    }
    free(file);
}

static void samples_are_those_of_training_from_any_number_of_threads(void **state) {
    sw_arena arena = {0};
    sw_error err = {0};
    sw_tokenized trained;
    sw_chat *chat = open_chat(NULL, "chatml");
    const char *path = write_rows(*state, 60000, -1);
    const sw_text_options options = {.chat = chat, .cache = scratch_path(*state, "cache")};
    if (sw_text_tokenize(&options, &path, 1, &arena, &trained, &err) != SW_OK)
        fail_msg("%s", err.message);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        taken t = begin_taking();
        if (encode(path, chat, n_threads, &t, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_int_equal(t.n_samples, trained.facts.n_samples);
        assert_int_equal(t.n_empty, trained.facts.n_empty);
        assert_int_equal(t.n_empty, 12000);
        assert_true(t.all > 2 << 20); /* several jobs */
        assert_int_equal(t.done, t.all);
        assert_numbers(trained.tokens, SW_U16, t.ids, t.n_ids);
        assert_numbers(trained.marks, SW_U8, t.marks, t.n_ids);
        end_taking(&t);
    }
    sw_arena_free(&arena);
    sw_chat_free(chat);
}

/* Its line is counted over all jobs, blank lines too; the samples before it come out. */
static void a_bad_row_in_a_later_job_is_named_by_its_line(void **state) {
    sw_chat *chat = open_chat(NULL, "chatml");
    const char *path = write_rows(*state, 60000, 50000);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        sw_error err = {0};
        taken t = begin_taking();
        assert_int_equal(encode(path, chat, n_threads, &t, &err), SW_BAD_FILE);
        if (!strstr(err.message, "rows.jsonl: line 50001: the key `txt` is unknown"))
            fail_msg("%s", err.message);
        assert_int_equal(t.n_samples, 40000); /* four of five lines hold a row */
        end_taking(&t);
    }
    sw_chat_free(chat);
}

static void what_takes_the_samples_may_stop_the_work(void **state) {
    sw_error err = {0};
    taken t = begin_taking();
    sw_chat *chat = open_chat(NULL, "chatml");
    t.refuses_at = 1000;
    assert_int_equal(encode(write_rows(*state, 60000, -1), chat, 3, &t, &err), SW_NO_SPACE);
    assert_int_equal(t.n_samples, 1000);
    end_taking(&t);
    sw_chat_free(chat);
}

/* A conversation needs a format; the rows before it need none. */
static void a_conversation_without_a_format_is_named_by_its_line(void **state) {
    sw_error err = {0};
    taken t = begin_taking();
    assert_int_equal(encode(write_rows(*state, 10, -1), NULL, 2, &t, &err), SW_BAD_FILE);
    if (!strstr(err.message, "rows.jsonl: line 2: a conversation needs a chat template"))
        fail_msg("%s", err.message);
    assert_int_equal(t.n_samples, 1);
    end_taking(&t);
}

static void a_text_is_one_sample_without_its_byte_order_mark(void **state) {
    sw_error err = {0};
    taken t = begin_taking();
    assert_int_equal(
        encode(write_text(*state, "a.txt", "\xEF\xBB\xBF{\"text\"\n"), NULL, 1, &t, &err), SW_OK);
    assert_int_equal(t.n_samples, 1);
    assert_int_equal(t.n_ids, 8);
    assert_int_equal(t.n_bytes, 8);
    assert_int_equal(t.ids[0], '{');
    assert_int_equal(t.last_line, 0);
    end_taking(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_are_those_of_training_from_any_number_of_threads,
                                        make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(a_bad_row_in_a_later_job_is_named_by_its_line, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(what_takes_the_samples_may_stop_the_work, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_conversation_without_a_format_is_named_by_its_line,
                                        make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(a_text_is_one_sample_without_its_byte_order_mark,
                                        make_scratch, remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
