/* test_windows.c: rows for scoring: every token but the first of a document is a target that counts
 * once, with as much before it as the recipe for models with fixed lengths gives it: Hugging
 * Face's, written out here as its page has it.
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

/* For each token of a document of n, the first token that its window shows before it; -1 where it
 * is no target. */
static void recipe(int64_t n, int64_t length, int64_t stride, int64_t *first_seen) {
    int64_t end_before = 0;
    for (int64_t t = 0; t < n; t++)
        first_seen[t] = -1;
    for (int64_t begin = 0; begin < n; begin += stride) {
        const int64_t end = begin + length < n ? begin + length : n;
        for (int64_t t = end_before > begin ? end_before : begin + 1; t < end; t++)
            first_seen[t] = begin;
        end_before = end;
        if (end == n)
            break;
    }
}

/* Rows of L inputs, each with the target behind it: what there is without a stride. */
static void cut(int64_t n, int64_t length, int64_t *first_seen) {
    first_seen[0] = -1;
    for (int64_t t = 1; t < n; t++)
        first_seen[t] = (t - 1) / length * length;
}

static void every_target_counts_once_and_sees_what_the_recipe_shows(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        sw_documents documents = {0};
        sw_rows rows;
        const int64_t length = 1 + draw(seed, 0, 24),
                      stride = seed % 3 ? 1 + draw(seed, 1, (uint32_t)length) : length;
        int64_t n_tokens = 0, n_alone = 0, n_used = 0, row = 0;
        for (uint32_t d = 0; d < 1 + seed % 7; d++) {
            const uint32_t n = 1 + draw(seed, 10 + d, d % 2 ? 6 : 90);
            assert_int_equal(sw_documents_add(&documents, n, false, NULL), SW_OK);
            n_tokens += n;
            n_alone += n == 1;
        }
        assert_int_equal(sw_rows_windows(&rows, 0, n_tokens, length, stride, &documents, NULL),
                         SW_OK);
        assert_int_equal(rows.n_dropped, n_alone);
        for (int64_t d = 0; d < documents.n; d++) {
            const int64_t first = sw_document_first(&documents, d), n = documents.end[d] - first;
            int64_t expected[90], found[90];
            for (int64_t t = 0; t < n; t++)
                found[t] = -1;
            if (stride < length)
                recipe(n, length, stride, expected);
            else
                cut(n, length, expected);
            for (; row < rows.n_rows; row++) {
                const sw_row_part part = sw_row_part_at(&rows, &documents, row, 0);
                if (part.position >= documents.end[d])
                    break;
                assert_true(part.n_inputs >= 1 && part.n_inputs <= length &&
                            part.n_targets > part.n_skipped);
                assert_true(part.position + part.n_inputs <= documents.end[d]);
                n_used += part.n_inputs;
                for (int64_t i = part.n_skipped; i < part.n_targets; i++) {
                    const int64_t t = part.position + 1 + i - first;
                    if (found[t] >= 0)
                        fail_msg("seed %d: token %d of document %d counts twice", (int)seed, (int)t,
                                 (int)d);
                    found[t] = part.position - first;
                }
            }
            for (int64_t t = 0; t < n; t++)
                if (found[t] != expected[t])
                    fail_msg("seed %d: token %d of %d of document %d sees what is from %d on, not "
                             "from %d on (length %d, stride %d)",
                             (int)seed, (int)t, (int)n, (int)d, (int)found[t], (int)expected[t],
                             (int)length, (int)stride);
        }
        assert_int_equal(row, rows.n_rows);
        assert_int_equal(rows.n_padding, rows.n_rows * length - n_used);
        sw_rows_free(&rows);
        sw_documents_free(&documents);
    }
}

/* Through files: of a text, the same text as a row of .jsonl and its bytes as tokens; and of
 * conversations the targets that count. */
static void files_of_all_kinds_are_windows(void **state) {
    scratch *s = *state;
    const uint8_t bytes[] = "the lamp went out";
    const char *const paths[] = {write_text(s, "a.txt", "the lamp went out"),
                                 write_text(s, "a.jsonl", "{\"text\": \"the lamp went out\"}\n")};
    for (int kind = 0; kind < 2; kind++)
        for (int64_t stride = 1; stride <= 5; stride++) {
            sw_dataset *dataset;
            sw_error err;
            const sw_dataset_options options = {.paths = &paths[kind],
                                                .n_paths = 1,
                                                .sequence_length = 5,
                                                .stride = stride,
                                                .is_bytes = true};
            if (sw_dataset_open(&options, &dataset, &err))
                fail_msg("%s", err.message);
            int n_seen[17] = {0};
            for (int64_t row = 0; row < sw_dataset_describe(dataset).n_rows; row++) {
                int32_t tokens[5], targets[5], starts[5];
                assert_int_equal(sw_dataset_row(dataset, row, tokens, targets, starts, &err),
                                 SW_OK);
                const int64_t first = row * stride;
                for (int64_t i = 0; i < 5; i++) {
                    const bool is_there = first + i < 17;
                    assert_int_equal(tokens[i], is_there && starts[i] == 0 ? bytes[first + i] : 0);
                    if (targets[i] < 0)
                        continue;
                    assert_int_equal(targets[i], bytes[first + i + 1]);
                    n_seen[first + i + 1]++;
                }
            }
            for (int t = 0; t < 17; t++)
                assert_int_equal(n_seen[t], t > 0);
            sw_dataset_close(dataset);
        }
}

static void a_text_of_one_token_has_nothing_to_predict(void **state) {
    scratch *s = *state;
    const char *const paths[] = {write_text(s, "one.txt", "a")};
    sw_dataset *dataset;
    sw_error err;
    const sw_dataset_options options = {
        .paths = paths, .n_paths = 1, .sequence_length = 5, .stride = 5, .is_bytes = true};
    assert_int_equal(sw_dataset_open(&options, &dataset, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "no document has at least two tokens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_counts_once_and_sees_what_the_recipe_shows),
        cmocka_unit_test_setup_teardown(files_of_all_kinds_are_windows, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_text_of_one_token_has_nothing_to_predict, make_scratch,
                                        remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
