/* test_packed_rows.c: rows that hold documents whole: every token but the first of a document is a
 * target once, and a document that fits lies in one row.
 */
#include "scratch.h"

#include "base/philox.h"
#include "data/dataset.h"
#include "data/rows.h"

static uint32_t draw(uint64_t seed, uint32_t i, uint32_t below) {
    uint32_t counter[4] = {i}, word[4];
    sw_philox(counter, seed, word);
    return word[0] % below;
}

/* ---- where rows lie ---- */

typedef struct tried {
    sw_documents documents;
    sw_rows rows;
    int64_t n_tokens;
    bool keeps_all, leaves_out;
} tried;

static tried make(uint64_t seed) {
    tried t = {.keeps_all = seed % 4 == 1, .leaves_out = seed % 3 == 1};
    uint32_t n = 1 + draw(seed, 0, 60), longest = 1 + draw(seed, 1, 50),
             length = 1 + draw(seed, 2, 40);
    for (uint32_t d = 0; d < n; d++) {
        uint32_t n_tokens = 1 + draw(seed, 10 + 2 * d, longest);
        assert_int_equal(
            sw_documents_add(&t.documents, n_tokens, draw(seed, 11 + 2 * d, 3) > seed % 3, NULL),
            SW_OK);
        t.n_tokens += n_tokens;
    }
    assert_int_equal(
        sw_rows_pack(&t.rows, 0, t.n_tokens, length, &t.documents, t.keeps_all, t.leaves_out, NULL),
        SW_OK);
    return t;
}

static bool is_whole(const tried *t, int64_t d) {
    return t->keeps_all || sw_document_is_whole(&t->documents, d);
}

static void every_target_is_in_one_row_and_whole_documents_in_one_part(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        tried t = make(seed);
        const int64_t L = t.rows.length;
        int64_t sum = 0, before = -1, n_left_out = 0;
        int *n_seen = calloc((size_t)t.n_tokens + 1, sizeof *n_seen),
            *n_parts = calloc((size_t)t.documents.n, sizeof *n_parts);
        for (int64_t i = 0; i < t.rows.n_rows; i++) {
            int64_t used = 0, last = -1;
            for (int64_t k = 0; k < sw_row_parts(&t.rows, i); k++) {
                sw_row_part part = sw_row_part_at(&t.rows, &t.documents, i, k);
                assert_true(part.n_inputs > 0 && part.n_inputs == part.n_targets &&
                            part.position > last);
                assert_true(k > 0 || part.position > before);
                before = k ? before : part.position;
                last = part.position;
                used += part.n_inputs;
                for (int64_t at = part.position + 1; at <= part.position + part.n_targets; at++)
                    n_seen[at]++;
                int64_t d = sw_documents_at(&t.documents, part.position),
                        d_end = sw_documents_at(&t.documents, part.position + part.n_targets);
                for (int64_t e = d; e <= d_end; e++)
                    n_parts[e]++;
                assert_true(d == d_end || !(is_whole(&t, d) || is_whole(&t, d_end)));
            }
            assert_in_range(used, 1, L);
            sum += used;
        }
        assert_int_equal(t.rows.n_padding, t.rows.n_rows * L - sum);
        for (int64_t d = 0; d < t.documents.n; d++) {
            int64_t first = sw_document_first(&t.documents, d), end = t.documents.end[d],
                    n = end - first;
            bool is_out = t.leaves_out && n > L + 1;
            n_left_out += is_out ? n : 0;
            for (int64_t at = first + 1; at < end; at++)
                if (n_seen[at] != !is_out)
                    fail_msg("seed %d: token %d of document %d is %d times a target", (int)seed,
                             (int)(at - first), (int)d, n_seen[at]);
            if (is_whole(&t, d))
                assert_true(!n_seen[first] && n_parts[d] == (is_out || n == 1 ? 0
                                                             : n <= L + 1     ? 1
                                                                              : (n - 2) / L + 1));
        }
        assert_int_equal(t.rows.n_left_out, n_left_out);
        free(n_seen);
        free(n_parts);
        sw_rows_free(&t.rows);
        sw_documents_free(&t.documents);
    }
}

/* ---- what rows hold ---- */

static sw_dataset *open_or_fail(const sw_dataset_options *options) {
    sw_dataset *dataset;
    sw_error err = {0};
    if (sw_dataset_open(options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    return dataset;
}

static void assert_row(sw_dataset *dataset, int64_t logical, const int32_t *tokens,
                       const int32_t *targets, const int32_t *start) {
    int32_t got[3][6];
    int64_t n_supervised, n = 0;
    assert_int_equal(sw_dataset_row(dataset, logical, got[0], got[1], got[2], NULL), SW_OK);
    assert_memory_equal(got[0], tokens, sizeof got[0]);
    assert_memory_equal(got[1], targets, sizeof got[1]);
    assert_memory_equal(got[2], start, sizeof got[2]);
    for (int i = 0; i < 6; i++)
        n += targets[i] >= 0;
    assert_int_equal(sw_dataset_supervised(dataset, logical, 1, &n_supervised, NULL), SW_OK);
    assert_int_equal(n_supervised, n);
}

/* L = 6. "abcde" takes 4 places, "fg" 1, "hijk" 3, "lmn" 2, and "opqrstuvw", one too long, 6 and
 * 2. */
static const char talks[] = "{\"prompt\": \"ab\", \"completion\": \"cde\"}\n"
                            "{\"prompt\": \"f\", \"completion\": \"g\"}\n"
                            "{\"prompt\": \"hi\", \"completion\": \"jk\"}\n"
                            "{\"prompt\": \"l\", \"completion\": \"mn\"}\n"
                            "{\"prompt\": \"op\", \"completion\": \"qrstuvw\"}\n";

static sw_dataset_options of(scratch *s, const char *const *path) {
    return (sw_dataset_options){.paths = path,
                                .n_paths = 1,
                                .is_bytes = true,
                                .packing = SW_PACKED,
                                .sequence_length = 6,
                                .text = {.cache = scratch_path(s, "cache")}};
}

static void conversations_lie_whole_in_rows(void **state) {
    const char *path = write_text(*state, "a.jsonl", talks);
    const sw_dataset_options options = of(*state, &path);
    sw_dataset *dataset = open_or_fail(&options);
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_rows, 3);
    assert_int_equal(facts.n_long, 1);
    assert_int_equal(facts.n_cut, 1);
    assert_int_equal(facts.n_cut_short, 0);
    assert_int_equal(facts.n_whole_rows, 3);
    assert_int_equal(facts.n_padding, 0);
    assert_int_equal(facts.n_dropped, 0);
    /* The largest first, each into the fullest row: 6 | 4 2 (lmn, the first of two) | 3 2 1 */
    assert_row(dataset, 0, (int32_t[]){'a', 'b', 'c', 'd', 'l', 'm'},
               (int32_t[]){-1, 'c', 'd', 'e', 'm', 'n'}, (int32_t[]){0, 0, 0, 0, 4, 4});
    assert_row(dataset, 1, (int32_t[]){'f', 'h', 'i', 'j', 'u', 'v'},
               (int32_t[]){'g', -1, 'j', 'k', 'v', 'w'}, (int32_t[]){0, 1, 1, 1, 4, 4});
    assert_row(dataset, 2, (int32_t[]){'o', 'p', 'q', 'r', 's', 't'},
               (int32_t[]){-1, 'q', 'r', 's', 't', 'u'}, (int32_t[]){0, 0, 0, 0, 0, 0});
    sw_dataset_close(dataset);
}

static void long_conversations_are_left_out_or_refused(void **state) {
    const char *path = write_text(*state, "a.jsonl", talks);
    sw_dataset_options options = of(*state, &path);
    sw_error err = {0};
    sw_dataset *dataset;
    options.long_documents = SW_LONG_ERROR;
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "a.jsonl: line 5: has 9 tokens, a row takes 7"));
    options.long_documents = SW_LONG_DROP;
    dataset = open_or_fail(&options);
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_rows, 2);
    assert_int_equal(facts.n_tokens, 14);
    assert_int_equal(facts.n_dropped, 9);
    assert_int_equal(facts.n_padding, 2);
    assert_row(dataset, 1, (int32_t[]){'f', 'h', 'i', 'j', 0, 0},
               (int32_t[]){'g', -1, 'j', 'k', -1, -1}, (int32_t[]){0, 1, 1, 1, 4, 4});
    sw_dataset_close(dataset);
}

/* Text that stands among conversations is cut like one document, and what is left of it shares a
 * row. */
static void text_among_conversations_is_cut(void **state) {
    const char *path = write_text(*state, "a.jsonl",
                                  "{\"text\": \"ABCDE\"}\n{\"text\": \"FGHI\"}\n{\"prompt\": "
                                  "\"ab\", \"completion\": \"c\"}\n");
    sw_dataset_options options = of(*state, &path);
    sw_dataset *dataset = open_or_fail(&options);
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_rows, 2);
    assert_int_equal(facts.n_cut, 1);
    assert_int_equal(facts.n_cut_short, 1);
    assert_row(dataset, 0, (int32_t[]){'A', 'B', 'C', 'D', 'E', 'F'},
               (int32_t[]){'B', 'C', 'D', 'E', -1, 'G'}, (int32_t[]){0, 0, 0, 0, 0, 5});
    assert_row(dataset, 1, (int32_t[]){'G', 'H', 'a', 'b', 0, 0},
               (int32_t[]){'H', 'I', -1, 'c', -1, -1}, (int32_t[]){0, 0, 2, 2, 4, 4});
    sw_dataset_close(dataset);
    options.packing = SW_PACKED_WHOLE;
    dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_cut, 0);
    assert_row(dataset, 0, (int32_t[]){'A', 'B', 'C', 'D', 'a', 'b'},
               (int32_t[]){'B', 'C', 'D', 'E', -1, 'c'}, (int32_t[]){0, 0, 0, 0, 4, 4});
    assert_row(dataset, 1, (int32_t[]){'F', 'G', 'H', 0, 0, 0},
               (int32_t[]){'G', 'H', 'I', -1, -1, -1}, (int32_t[]){0, 0, 0, 3, 3, 3});
    sw_dataset_close(dataset);
}

/* Pure text is cut as ever, and whole where that is asked for; one text is a document too. */
static void text_is_whole_where_that_is_asked_for(void **state) {
    const char *path = write_text(
        *state, "a.jsonl", "{\"text\": \"ABCDE\"}\n{\"text\": \"FGHI\"}\n{\"text\": \"JKL\"}\n");
    sw_dataset_options options = of(*state, &path);
    sw_dataset *dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    assert_int_equal(sw_dataset_describe(dataset).n_dropped, 5);
    assert_int_equal(sw_dataset_describe(dataset).n_cut_short, 1);
    assert_int_equal(sw_dataset_describe(dataset).n_whole_rows, 0);
    sw_dataset_close(dataset);
    options.packing = SW_PACKED_WHOLE;
    dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 2);
    assert_int_equal(sw_dataset_describe(dataset).n_dropped, 0);
    assert_row(dataset, 0, (int32_t[]){'A', 'B', 'C', 'D', 'J', 'K'},
               (int32_t[]){'B', 'C', 'D', 'E', 'K', 'L'}, (int32_t[]){0, 0, 0, 0, 4, 4});
    sw_dataset_close(dataset);
    path = write_text(*state, "one.txt", "abc");
    dataset = open_or_fail(&options);
    assert_row(dataset, 0, (int32_t[]){'a', 'b', 0, 0, 0, 0}, (int32_t[]){'b', 'c', -1, -1, -1, -1},
               (int32_t[]){0, 0, 2, 2, 2, 2});
    sw_dataset_close(dataset);
}

/* Tokens with a mask are conversations whose lengths a file says. */
static void masked_token_files_with_lengths_are_whole(void **state) {
    int64_t ids[12], lengths[] = {4, 5, 3}, marks[12] = {0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1};
    for (int i = 0; i < 12; i++)
        ids[i] = i + 10;
    const char *path = write_npy(*state, "t.npy", SW_U8, ids, 12);
    sw_dataset_options options = of(*state, &path);
    options.documents = write_npy(*state, "d.npy", SW_I64, lengths, 3);
    sw_dataset *dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_whole_rows, 0);
    sw_dataset_close(dataset);
    options.labels_mask = write_npy(*state, "m.npy", SW_U8, marks, 12);
    dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_whole_rows, 2);
    assert_row(dataset, 0, (int32_t[]){10, 11, 12, 0, 0, 0}, (int32_t[]){11, 12, 13, -1, -1, -1},
               (int32_t[]){0, 0, 0, 3, 3, 3});
    assert_row(dataset, 1, (int32_t[]){14, 15, 16, 17, 19, 20}, (int32_t[]){-1, 16, 17, 18, 20, 21},
               (int32_t[]){0, 0, 0, 0, 4, 4});
    sw_dataset_close(dataset);
}

/* Rows keep their documents through all epochs, in an order that is drawn anew; the sources of a
 * mix have rows of their own. */
static void packed_rows_are_shuffled_and_mixed_by_logical_number(void **state) {
    const char *paths[] = {write_text(*state, "a.jsonl", talks),
                           write_text(*state, "b.txt", "0123456789012345678")};
    const double weights[] = {3, 1};
    sw_dataset_options options = of(*state, paths);
    options.n_paths = 2;
    options.mix = weights;
    options.shuffle = true;
    options.seed = 7;
    sw_dataset *dataset = open_or_fail(&options), *again = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 3 + 3);
    int n_first[128] = {0}, n_talks = 0;
    for (int64_t logical = 0; logical < 48; logical++) {
        int32_t row[3][6], other[3][6];
        assert_int_equal(sw_dataset_row(dataset, logical, row[0], row[1], row[2], NULL), SW_OK);
        assert_int_equal(sw_dataset_row(again, logical, other[0], other[1], other[2], NULL), SW_OK);
        assert_memory_equal(row, other, sizeof row);
        n_first[row[0][0]]++;
        n_talks += row[0][0] >= 'a';
    }
    assert_int_equal(n_talks, 36);
    assert_true(n_first['a'] == 12 && n_first['f'] == 12 && n_first['o'] == 12);
    sw_dataset_close(dataset);
    sw_dataset_close(again);
}

static void rows_longer_than_can_be_packed_are_refused(void **state) {
    const char *path = write_text(*state, "a.jsonl", talks);
    sw_dataset_options options = of(*state, &path);
    sw_error err = {0};
    sw_dataset *dataset;
    options.sequence_length = INT64_MAX;
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "at most 2147483647 tokens"));
    options.sequence_length =
        INT32_MAX; /* of which no memory is taken but for the rows that are read */
    dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 1);
    sw_dataset_close(dataset);
}

static void documents_of_one_token_have_no_row(void **state) {
    const char *path = write_text(*state, "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
    sw_dataset_options options = of(*state, &path);
    sw_error err = {0};
    sw_dataset *dataset;
    options.packing = SW_PACKED_WHOLE;
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "no document has at least two tokens"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_is_in_one_row_and_whole_documents_in_one_part),
        TEST(conversations_lie_whole_in_rows),
        TEST(long_conversations_are_left_out_or_refused),
        TEST(text_among_conversations_is_cut),
        TEST(text_is_whole_where_that_is_asked_for),
        TEST(masked_token_files_with_lengths_are_whole),
        TEST(packed_rows_are_shuffled_and_mixed_by_logical_number),
        TEST(rows_longer_than_can_be_packed_are_refused),
        TEST(documents_of_one_token_have_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
