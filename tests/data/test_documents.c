/* test_documents.c: rows of documents, packed and unpacked.
 *
 * The golden cases packed and packed-gpt2 have tokens and lengths of documents; expected here is
 * what their definition says, worked out token by token: pieces, positions that restart, and a
 * target for every token but the first of a document, exactly once.
 */
#include "scratch.h"

#include "data/dataset.h"
#include "data/token_file.h"
#include "formats/npy.h"

enum { L = 64 };

typedef struct numbers {
    int32_t *number;
    int64_t n;
} numbers;

static numbers read_npy(const char *path) {
    const sw_token_rule rule = {"id", INT64_C(1) << 31, "int32"};
    sw_token_file file;
    sw_error err = {0};
    int descriptor;
    if (sw_token_file_check(path, false, &rule, &file, &err) != SW_OK)
        fail_msg("%s", err.message);
    numbers out = {malloc((size_t)file.n_tokens * sizeof *out.number), file.n_tokens};
    assert_int_equal(sw_token_file_open(&file, &descriptor, NULL), SW_OK);
    assert_int_equal(sw_token_file_read(&file, descriptor, 0, out.n, out.number, NULL), SW_OK);
    close(descriptor);
    return out;
}

static sw_dataset *open_or_fail(const sw_dataset_options *options) {
    sw_dataset *dataset;
    sw_error err = {0};
    if (sw_dataset_open(options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    return dataset;
}

static void assert_refused(const sw_dataset_options *options, sw_status status, const char *says) {
    sw_dataset *dataset;
    sw_error err = {0};
    assert_int_equal(sw_dataset_open(options, &dataset, &err), status);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" lacks \"%s\"", err.message, says);
}

/* For each token of the stream, the place where its document begins. */
static int64_t *beginnings(const numbers *lengths, int64_t n) {
    int64_t *begin = malloc((size_t)n * sizeof *begin), at = 0;
    for (int64_t d = 0; d < lengths->n; d++)
        for (int64_t first = at, end = at + lengths->number[d]; at < end; at++)
            begin[at] = first;
    assert_int_equal(at, n);
    return begin;
}

static void check_golden(const char *folder) {
    char tokens_path[256], documents_path[256];
    snprintf(tokens_path, sizeof tokens_path, SW_SOURCE_FOLDER "/tests/data/%s/tokens.npy", folder);
    snprintf(documents_path, sizeof documents_path, SW_SOURCE_FOLDER "/tests/data/%s/documents.npy",
             folder);
    numbers ids = read_npy(tokens_path), lengths = read_npy(documents_path);
    int64_t *begin = beginnings(&lengths, ids.n), *n_seen = calloc((size_t)ids.n, sizeof *n_seen);
    const char *path = tokens_path;
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){.paths = &path,
                                                             .n_paths = 1,
                                                             .documents = documents_path,
                                                             .packing = true,
                                                             .sequence_length = L});
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_true(facts.has_documents);
    assert_int_equal(facts.n_rows, (ids.n - 1) / L);
    int64_t n_targets = 0;
    for (int64_t r = 0; r < facts.n_rows; r++) {
        int32_t tokens[L], targets[L], start[L];
        int64_t n_supervised;
        assert_int_equal(sw_dataset_row(dataset, r, tokens, targets, start, NULL), SW_OK);
        int64_t in_row = 0;
        for (int64_t i = 0; i < L; i++) {
            int64_t at = r * L + i, piece = begin[at] > r * L ? begin[at] : r * L;
            assert_int_equal(tokens[i], ids.number[at]);
            assert_int_equal(start[i], piece - r * L);
            bool counts = begin[at + 1] != at + 1;
            assert_int_equal(targets[i], counts ? ids.number[at + 1] : -1);
            n_seen[at + 1] += counts;
            in_row += counts;
        }
        assert_int_equal(sw_dataset_supervised(dataset, r, 1, &n_supervised, NULL), SW_OK);
        assert_int_equal(n_supervised, in_row);
        n_targets += in_row;
    }
    for (int64_t at = 0; at <= facts.n_rows * L; at++)
        assert_int_equal(n_seen[at], begin[at] != at);
    assert_true(n_targets < facts.n_rows * L);
    sw_dataset_close(dataset);
    free(begin);
    free(n_seen);
    free(ids.number);
    free(lengths.number);
}

static void every_token_but_the_first_of_a_document_is_a_target_once(void **state) {
    (void)state;
    check_golden("packed");
    check_golden("packed-gpt2");
}

/* ---- small streams: token i is i + 10, documents of 3, 1, 5, 9 ---- */

typedef struct small {
    const char *tokens, *documents;
    int64_t n;
} small;

static small write_small(scratch *s) {
    int64_t ids[18], lengths[] = {3, 1, 0, 5, 9};
    for (int i = 0; i < 18; i++)
        ids[i] = i + 10;
    return (small){write_npy(s, "t.npy", SW_U8, ids, 18), write_npy(s, "d.npy", SW_I32, lengths, 5),
                   18};
}

static void assert_row(sw_dataset *dataset, int64_t logical, const int32_t *tokens,
                       const int32_t *targets, const int32_t *start) {
    int32_t got[3][4];
    int64_t n_supervised, n = 0;
    assert_int_equal(sw_dataset_row(dataset, logical, got[0], got[1], got[2], NULL), SW_OK);
    assert_memory_equal(got[0], tokens, sizeof got[0]);
    assert_memory_equal(got[1], targets, sizeof got[1]);
    assert_memory_equal(got[2], start, sizeof got[2]);
    for (int i = 0; i < 4; i++)
        n += targets[i] >= 0;
    assert_int_equal(sw_dataset_supervised(dataset, logical, 1, &n_supervised, NULL), SW_OK);
    assert_int_equal(n_supervised, n);
}

/* L = 4: the document of 3 fills a row up; that of 1 has none; that of 5 fits exactly; that of 9
 * takes two. */
static void unpacked_documents_have_rows_of_their_own(void **state) {
    small data = write_small(*state);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &data.tokens, .n_paths = 1, .documents = data.documents, .sequence_length = 4});
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_rows, 4);
    assert_int_equal(facts.n_documents, 4);
    assert_int_equal(facts.n_long, 1);
    assert_int_equal(facts.n_dropped, 1);
    assert_int_equal(facts.n_padding, 1);
    assert_row(dataset, 0, (int32_t[]){10, 11, 12, 0}, (int32_t[]){11, 12, -1, -1},
               (int32_t[]){0, 0, 0, 3});
    assert_row(dataset, 1, (int32_t[]){14, 15, 16, 17}, (int32_t[]){15, 16, 17, 18},
               (int32_t[]){0, 0, 0, 0});
    assert_row(dataset, 2, (int32_t[]){19, 20, 21, 22}, (int32_t[]){20, 21, 22, 23},
               (int32_t[]){0, 0, 0, 0});
    assert_row(dataset, 3, (int32_t[]){23, 24, 25, 26}, (int32_t[]){24, 25, 26, 27},
               (int32_t[]){0, 0, 0, 0});
    assert_row(dataset, 4, (int32_t[]){10, 11, 12, 0}, (int32_t[]){11, 12, -1, -1},
               (int32_t[]){0, 0, 0, 3});
    sw_dataset_close(dataset);
}

static void packed_rows_hold_pieces(void **state) {
    small data = write_small(*state);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){.paths = &data.tokens,
                                                             .n_paths = 1,
                                                             .documents = data.documents,
                                                             .packing = true,
                                                             .sequence_length = 4});
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 4);
    assert_row(dataset, 0, (int32_t[]){10, 11, 12, 13}, (int32_t[]){11, 12, -1, -1},
               (int32_t[]){0, 0, 0, 3});
    assert_row(dataset, 2, (int32_t[]){18, 19, 20, 21}, (int32_t[]){-1, 20, 21, 22},
               (int32_t[]){0, 1, 1, 1});
    sw_dataset_close(dataset);
}

/* Left out or refused, packed or not. */
static void long_documents_are_left_out_or_refused_by_name(void **state) {
    small data = write_small(*state);
    sw_dataset_options options = {.paths = &data.tokens,
                                  .n_paths = 1,
                                  .documents = data.documents,
                                  .long_documents = SW_LONG_DROP,
                                  .sequence_length = 4};
    sw_dataset *dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 2);
    assert_int_equal(sw_dataset_describe(dataset).n_dropped, 10);
    assert_row(dataset, 1, (int32_t[]){14, 15, 16, 17}, (int32_t[]){15, 16, 17, 18},
               (int32_t[]){0, 0, 0, 0});
    sw_dataset_close(dataset);
    options.packing = true;
    options.sequence_length = 3; /* documents of 5 and 9 go: 4 tokens are left */
    dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    sw_dataset_close(dataset);
    options.long_documents = SW_LONG_ERROR;
    assert_refused(&options, SW_BAD_FILE, "t.npy: document 2");
    assert_refused(&options, SW_BAD_FILE, "5 tokens, a row takes 4");
    options.long_documents = SW_LONG_DROP;
    options.sequence_length =
        1; /* documents of 3, 5 and 9 go; that of 1 is left, and fills no row */
    assert_refused(&options, SW_BAD_FILE, "a row needs 2");
}

/* A hole in the middle: what follows a document that is left out is read from behind it. */
static void tokens_behind_a_hole_are_read_from_there(void **state) {
    int64_t ids[12], lengths[] = {3, 6, 3};
    for (int i = 0; i < 12; i++)
        ids[i] = i + 10;
    const char *tokens = write_npy(*state, "t.npy", SW_U8, ids, 12),
               *documents = write_npy(*state, "d.npy", SW_I32, lengths, 3);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){.paths = &tokens,
                                                             .n_paths = 1,
                                                             .documents = documents,
                                                             .packing = SW_PACKED,
                                                             .long_documents = SW_LONG_DROP,
                                                             .sequence_length = 4});
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    assert_row(dataset, 0, (int32_t[]){10, 11, 12, 19}, (int32_t[]){11, 12, -1, 20},
               (int32_t[]){0, 0, 0, 3});
    sw_dataset_close(dataset);
}

/* The text of one source loses a document; the conversations of the next stay with their marks, the
 * long one among them too. */
static void a_hole_in_one_source_moves_no_mark_of_the_next(void **state) {
    const char *paths[] = {
        write_text(*state, "a.jsonl",
                   "{\"text\": \"ABC\"}\n{\"text\": \"DEFGHI\"}\n{\"text\": \"JKL\"}\n"),
        write_text(*state, "b.jsonl",
                   "{\"prompt\": \"opqrst\", \"completion\": \"u\"}\n"
                   "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n")};
    const double weights[] = {1, 1};
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = paths,
                                           .n_paths = 2,
                                           .mix = weights,
                                           .is_bytes = true,
                                           .packing = SW_PACKED,
                                           .long_documents = SW_LONG_DROP,
                                           .sequence_length = 4,
                                           .text = {.cache = scratch_path(*state, "cache")}});
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_rows, 2);
    assert_int_equal(facts.n_tokens, 10);
    assert_int_equal(facts.n_long, 2);
    assert_row(dataset, 0, (int32_t[]){'A', 'B', 'C', 'J'}, (int32_t[]){'B', 'C', -1, 'K'},
               (int32_t[]){0, 0, 0, 3});
    assert_row(dataset, 1, (int32_t[]){'a', 'b', 'c', 0}, (int32_t[]){-1, 'c', 'd', -1},
               (int32_t[]){0, 0, 0, 3});
    sw_dataset_close(dataset);
}

static void lengths_must_add_up(void **state) {
    small data = write_small(*state);
    sw_dataset_options options = {
        .paths = &data.tokens, .n_paths = 1, .packing = true, .sequence_length = 4};
    int64_t more[] = {10, 9}, less[] = {10, 7};
    options.documents = write_npy(*state, "more.npy", SW_I32, more, 2);
    assert_refused(&options, SW_BAD_FILE, "more than the 18 tokens");
    options.documents = write_npy(*state, "less.npy", SW_I32, less, 2);
    assert_refused(&options, SW_BAD_FILE, "add up to 17, the data has 18");
}

/* A row is of a document that no rank holds; its place comes from the seed, so every rank
 * agrees. */
static void every_epoch_has_each_row_once_in_an_order_of_its_own(void **state) {
    small data = write_small(*state);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){.paths = &data.tokens,
                                                             .n_paths = 1,
                                                             .documents = data.documents,
                                                             .shuffle = true,
                                                             .seed = 3,
                                                             .sequence_length = 4});
    for (int epoch = 0; epoch < 5; epoch++) {
        int seen = 0;
        for (int r = 0; r < 4; r++) {
            int32_t tokens[4], targets[4];
            assert_int_equal(sw_dataset_row(dataset, epoch * 4 + r, tokens, targets, NULL, NULL),
                             SW_OK);
            seen |= tokens[0] == 10   ? 1
                    : tokens[0] == 14 ? 2
                    : tokens[0] == 19 ? 4
                    : tokens[0] == 23 ? 8
                                      : 16;
        }
        assert_int_equal(seen, 15);
    }
    sw_dataset_close(dataset);
}

/* ---- text ---- */

/* Two texts of bytes packed: the second begins anew. Without packing, one stream as ever. */
static void files_of_text_are_documents_where_rows_are_packed(void **state) {
    const char *paths[] = {write_text(*state, "a.txt", "abc"), write_text(*state, "b.txt", "defg")};
    sw_dataset_options options = {
        .paths = paths, .n_paths = 2, .is_bytes = true, .packing = true, .sequence_length = 4};
    sw_dataset *dataset = open_or_fail(&options);
    assert_row(dataset, 0, (int32_t[]){'a', 'b', 'c', 'd'}, (int32_t[]){'b', 'c', -1, 'e'},
               (int32_t[]){0, 0, 0, 3});
    sw_dataset_close(dataset);
    options.packing = false;
    dataset = open_or_fail(&options);
    assert_false(sw_dataset_describe(dataset).has_documents);
    assert_row(dataset, 0, (int32_t[]){'a', 'b', 'c', 'd'}, (int32_t[]){'b', 'c', 'd', 'e'},
               (int32_t[]){0, 0, 0, 0});
    sw_dataset_close(dataset);
}

static void a_single_text_has_no_boundaries(void **state) {
    const char *path = write_text(*state, "a.txt", "abcdefgh");
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &path, .n_paths = 1, .is_bytes = true, .packing = true, .sequence_length = 4});
    assert_false(sw_dataset_describe(dataset).has_documents);
    sw_dataset_close(dataset);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_but_the_first_of_a_document_is_a_target_once),
        TEST(unpacked_documents_have_rows_of_their_own),
        TEST(packed_rows_hold_pieces),
        TEST(long_documents_are_left_out_or_refused_by_name),
        TEST(tokens_behind_a_hole_are_read_from_there),
        TEST(a_hole_in_one_source_moves_no_mark_of_the_next),
        TEST(lengths_must_add_up),
        TEST(every_epoch_has_each_row_once_in_an_order_of_its_own),
        TEST(files_of_text_are_documents_where_rows_are_packed),
        TEST(a_single_text_has_no_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
