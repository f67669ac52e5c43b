/* test_dataset.c: which row a logical index is, and which files are refused.
 *
 * The golden case llama-masked has tokens and a mask; its numbers of supervised tokens are what
 * PyTorch counted.
 */
#include "scratch.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "data/dataset.h"
#include "data/token_file.h"
#include "formats/npy.h"

#define MASKED SW_SOURCE_FOLDER "/tests/golden/llama-masked/"

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
    assert_null(dataset);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" lacks \"%s\"", err.message, says);
}

/* A file of n ids 0, 1, 2 ...: a token says where in the stream it is. */
static const char *write_counting(scratch *s, const char *name, sw_dtype dtype, int64_t n) {
    int64_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    const char *path = write_npy(s, name, dtype, ids, n);
    free(ids);
    return path;
}

/* ---- rows ---- */

static void row_r_of_step_s_begins_at_its_place_in_the_stream(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U16, 1000);
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 32});
    sw_dataset_facts facts = sw_dataset_describe(dataset);
    assert_int_equal(facts.n_tokens, 1000);
    assert_int_equal(facts.n_rows, 31); /* floor(999 / 32) */
    assert_int_equal(facts.n_dropped, 999 - 31 * 32);
    assert_int_equal(facts.largest_id, 999);
    const int64_t batch_size = 5;
    for (int64_t step = 0; step < 6; step++)
        for (int64_t r = 0; r < batch_size; r++) {
            int32_t tokens[32], targets[32];
            assert_int_equal(
                sw_dataset_row(dataset, step * batch_size + r, tokens, targets, NULL, NULL), SW_OK);
            for (int64_t t = 0; t < 32; t++) {
                assert_int_equal(tokens[t], (step * batch_size + r) * 32 + t);
                assert_int_equal(targets[t], tokens[t] + 1);
            }
        }
    sw_dataset_close(dataset);
}

/* n tokens hold floor((n-1)/L) rows: the last token of the last row needs a target. */
static void exactly_one_token_more_than_the_rows_is_needed(void **state) {
    for (int64_t n = 9; n <= 17; n++) {
        const char *path = write_counting(*state, "t.npy", SW_U8, n);
        sw_dataset *dataset =
            open_or_fail(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 8});
        assert_int_equal(sw_dataset_describe(dataset).n_rows, n < 17 ? 1 : 2);
        assert_int_equal(sw_dataset_describe(dataset).n_dropped, n < 17 ? n - 9 : 0);
        sw_dataset_close(dataset);
    }
}

static void rows_of_one_token_are_rows(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U8, 4);
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 1});
    int32_t token, target;
    assert_int_equal(sw_dataset_row(dataset, 2, &token, &target, NULL, NULL), SW_OK);
    assert_int_equal(token, 2);
    assert_int_equal(target, 3);
    sw_dataset_close(dataset);
}

/* Files follow one another without a seam, text and token files alike; bytes has no end-of-text
 * token to put between. */
static void files_in_order_are_one_stream(void **state) {
    const int64_t ids[] = {200, 201, 202};
    const char *paths[] = {write_text(*state, "a.txt", "abcd"),
                           write_npy(*state, "b.npy", SW_I32, ids, 3),
                           write_text(*state, "c.txt", "\xff\n")};
    const int32_t stream[] = {'a', 'b', 'c', 'd', 200, 201, 202, 255, '\n'};
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = paths, .n_paths = 3, .sequence_length = 8, .is_bytes = true, .vocabulary = 256});
    int32_t tokens[8], targets[8];
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, NULL, NULL), SW_OK);
    assert_memory_equal(tokens, stream, sizeof tokens);
    assert_memory_equal(targets, stream + 1, sizeof targets);
    sw_dataset_close(dataset);
}

static void a_pattern_stands_for_its_files_by_name(void **state) {
    scratch *s = *state;
    write_text(s, "b.txt", "B");
    write_text(s, "a2.txt", "2");
    write_text(s, "a10.txt", "1");
    write_text(s, "Z.txt", "Z");
    write_text(s, "other.npy", "never looked at");
    const char *pattern = scratch_path(s, "*.txt");
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &pattern, .n_paths = 1, .sequence_length = 3, .is_bytes = true});
    int32_t tokens[3], targets[3];
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, NULL, NULL), SW_OK);
    const int32_t expected[] = {
        'Z', '1', '2', 'B'}; /* Z.txt, a10.txt, a2.txt, b.txt: bytes of the names compared */
    assert_memory_equal(tokens, expected, sizeof tokens);
    assert_memory_equal(targets, expected + 1, sizeof targets);
    sw_dataset_close(dataset);
}

static void a_file_whose_name_looks_like_a_pattern_is_that_file(void **state) {
    const char *path = write_text(*state, "part[1].txt", "abc");
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &path, .n_paths = 1, .sequence_length = 2, .is_bytes = true});
    assert_int_equal(sw_dataset_describe(dataset).n_tokens, 3);
    sw_dataset_close(dataset);
}

/* ---- order ---- */

/* The first token of each row names the row when rows are `length` long and the stream counts. */
static int64_t row_shown(sw_dataset *dataset, int64_t logical, int64_t length) {
    int32_t tokens[8], targets[8];
    assert_int_equal(sw_dataset_row(dataset, logical, tokens, targets, NULL, NULL), SW_OK);
    assert_int_equal(tokens[0] % length, 0);
    return tokens[0] / length;
}

static void unshuffled_rows_repeat_in_order(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U16, 51);
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 5});
    for (int64_t logical = 0; logical < 35; logical++)
        assert_int_equal(row_shown(dataset, logical, 5), logical % 10);
    sw_dataset_close(dataset);
}

/* 125 rows an epoch, 300 rows read: each epoch shows every row once, and a run that stops anywhere
 * and is opened anew goes on with the very rows that it would have had. */
static void a_stopped_run_goes_on_in_the_order_it_would_have_had(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U16, 125 * 4 + 1);
    const sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .sequence_length = 4, .shuffle = true, .seed = 1234};
    int64_t order[300];
    sw_dataset *dataset = open_or_fail(&options);
    for (int64_t logical = 0; logical < 300; logical++)
        order[logical] = row_shown(dataset, logical, 4);
    sw_dataset_close(dataset);

    int n_unmoved = 0, n_as_before = 0;
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int n_seen[125] = {0};
        for (int64_t i = 0; i < 125; i++)
            n_seen[order[epoch * 125 + i]]++;
        for (int64_t row = 0; row < 125; row++)
            assert_int_equal(n_seen[row], 1);
    }
    for (int64_t i = 0; i < 125; i++)
        n_unmoved += order[i] == i, n_as_before += order[i] == order[125 + i];
    assert_in_range(n_unmoved, 0, 15);
    assert_in_range(n_as_before, 0, 15);

    const int64_t stops[] = {75, 125, 200, 250};
    for (int i = 0; i < 4; i++) {
        dataset = open_or_fail(&options);
        for (int64_t logical = stops[i]; logical < 300; logical++)
            assert_int_equal(row_shown(dataset, logical, 4), order[logical]);
        sw_dataset_close(dataset);
    }
}

/* The dataset is opened before ranks exist and read in each of them. */
static void forked_readers_do_not_disturb_each_other(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U16, 4001);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &path, .n_paths = 1, .sequence_length = 4, .shuffle = true, .seed = 3});
    pid_t readers[3];
    for (int rank = 0; rank < 3; rank++)
        if ((readers[rank] = fork()) == 0) {
            for (int64_t logical = rank; logical < 1000; logical += 3) {
                int32_t tokens[4], targets[4];
                if (sw_dataset_row(dataset, logical, tokens, targets, NULL, NULL) != SW_OK)
                    _exit(1);
                for (int t = 0; t < 4; t++)
                    if (tokens[t] != tokens[0] + t || targets[t] != tokens[t] + 1)
                        _exit(2);
            }
            _exit(0);
        }
    for (int rank = 0; rank < 3; rank++) {
        int status;
        assert_int_equal(waitpid(readers[rank], &status, 0), readers[rank]);
        assert_int_equal(status, 0);
    }
    sw_dataset_close(dataset);
}

/* ---- mask ---- */

static void the_mask_belongs_to_the_token_that_is_predicted(void **state) {
    const int64_t marks[] = {1, 0, 1, 1, 0, 0, 1, 0, 1}; /* token 0 is nobody's target */
    const char *path = write_counting(*state, "t.npy", SW_U16, 9),
               *mask = write_npy(*state, "m.npy", SW_U8, marks, 9);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &path, .n_paths = 1, .labels_mask = mask, .sequence_length = 4});
    int32_t tokens[4], targets[4];
    const int32_t first[] = {-1, 2, 3, -1}, second[] = {-1, 6, -1, 8};
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, NULL, NULL), SW_OK);
    assert_memory_equal(targets, first, sizeof first);
    assert_int_equal(sw_dataset_row(dataset, 1, tokens, targets, NULL, NULL), SW_OK);
    assert_memory_equal(targets, second, sizeof second);
    for (int t = 0; t < 4; t++)
        assert_int_equal(tokens[t], 4 + t);
    int64_t n_supervised;
    assert_int_equal(sw_dataset_supervised(dataset, 1, 4, &n_supervised, NULL),
                     SW_OK); /* rows 1, 0, 1, 0 */
    assert_int_equal(n_supervised, 8);
    sw_dataset_close(dataset);
}

/* The same marks as numpy's bool, which is a byte too. */
static const char *write_bool_mask(scratch *s, const int64_t *marks, int64_t n) {
    const char *mask = write_npy(s, "m.npy", SW_U8, marks, n);
    char head[64];
    FILE *file = fopen(mask, "r+");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    const char *descr = memmem(head, sizeof head, "|u1", 3);
    assert_non_null(descr);
    assert_int_equal(fseek(file, descr - head, SEEK_SET), 0);
    assert_int_equal(fwrite("|b1", 1, 3, file), 3);
    assert_int_equal(fclose(file), 0);
    return mask;
}

static void a_mask_may_be_of_bool(void **state) {
    const int64_t marks[] = {1, 0, 1, 1, 0, 0, 1, 0}, odd[] = {1, 0, 1, 1, 0, 0, 1, 2};
    const char *path = write_counting(*state, "t.npy", SW_U16, 8);
    sw_dataset_options options = {.paths = &path,
                                  .n_paths = 1,
                                  .labels_mask = write_bool_mask(*state, marks, 8),
                                  .sequence_length = 4};
    sw_dataset *dataset = open_or_fail(&options);
    int32_t tokens[4], targets[4];
    const int32_t first[] = {-1, 2, 3, -1};
    assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, NULL, NULL), SW_OK);
    assert_memory_equal(targets, first, sizeof first);
    sw_dataset_close(dataset);
    options.labels_mask = write_bool_mask(*state, odd, 8);
    assert_refused(&options, SW_BAD_FILE, "m.npy: position 7 has mark 2");
    options.labels_mask = NULL;
    path = write_bool_mask(*state, marks, 8); /* as tokens it has no meaning */
    assert_refused(&options, SW_BAD_FILE, "'|b1'");
}

static void supervised_targets_of_the_golden_run_are_counted(void **state) {
    (void)state;
    const int64_t of_step[] = {342, 257, 361, 306, 338, 278, 373, 335, 284, 242, 232, 356};
    const int64_t of_row[] = {4,  21, 32, 6,  3, 8,  9, 10, 8, 11, 6, 2,
                              32, 5,  32, 32, 4, 32, 2, 3,  7, 32, 9, 32}; /* of step 0 */
    const char *path = MASKED "tokens.npy";
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = &path,
                                           .n_paths = 1,
                                           .labels_mask = MASKED "labels-mask.npy",
                                           .sequence_length = 32,
                                           .vocabulary = 259});
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 12 * 24);
    assert_int_equal(sw_dataset_describe(dataset).n_dropped, 0);
    for (int64_t step = 0; step < 12; step++) {
        int64_t n_supervised;
        assert_int_equal(sw_dataset_supervised(dataset, step * 24, 24, &n_supervised, NULL), SW_OK);
        assert_int_equal(n_supervised, of_step[step]);
    }
    for (int64_t row = 0; row < 24; row++) {
        int32_t tokens[32], targets[32];
        int64_t n_supervised = 0;
        assert_int_equal(sw_dataset_row(dataset, row, tokens, targets, NULL, NULL), SW_OK);
        for (int t = 0; t < 32; t++)
            n_supervised += targets[t] >= 0;
        assert_int_equal(n_supervised, of_row[row]);
    }
    sw_dataset_close(dataset);
}

/* Shuffled, the count of a step and the targets of its rows are still the same rows'. */
static void a_shuffled_mask_moves_with_its_rows(void **state) {
    int64_t marks[301];
    for (int64_t i = 0; i < 301; i++)
        marks[i] = i * i % 3 == 1;
    const char *path = write_counting(*state, "t.npy", SW_U16, 301),
               *mask = write_npy(*state, "m.npy", SW_U8, marks, 301);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){.paths = &path,
                                                             .n_paths = 1,
                                                             .labels_mask = mask,
                                                             .sequence_length = 3,
                                                             .shuffle = true,
                                                             .seed = 8});
    for (int64_t logical = 0; logical < 200; logical += 10) {
        int64_t n_counted, n_seen = 0;
        assert_int_equal(sw_dataset_supervised(dataset, logical, 10, &n_counted, NULL), SW_OK);
        for (int64_t i = 0; i < 10; i++) {
            int32_t tokens[3], targets[3];
            assert_int_equal(sw_dataset_row(dataset, logical + i, tokens, targets, NULL, NULL),
                             SW_OK);
            for (int t = 0; t < 3; t++) {
                assert_int_equal(targets[t], marks[tokens[t] + 1] ? tokens[t] + 1 : -1);
                n_seen += targets[t] >= 0;
            }
        }
        assert_int_equal(n_counted, n_seen);
    }
    sw_dataset_close(dataset);
}

static void without_a_mask_every_target_counts(void **state) {
    const char *path = write_counting(*state, "t.npy", SW_U16, 1000);
    sw_dataset *dataset =
        open_or_fail(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 32});
    int64_t n_supervised;
    assert_int_equal(sw_dataset_supervised(dataset, 0, INT64_C(1) << 40, &n_supervised, NULL),
                     SW_OK);
    assert_true(n_supervised == INT64_C(1) << 45);
    sw_dataset_close(dataset);
}

static void a_mask_that_does_not_fit_is_refused(void **state) {
    const int64_t marks[] = {1, 1, 0, 1, 2, 1};
    const char *path = write_counting(*state, "t.npy", SW_U16, 6);
    sw_dataset_options options = {.paths = &path, .n_paths = 1, .sequence_length = 2};
    options.labels_mask = write_npy(*state, "short.npy", SW_U8, marks, 3);
    assert_refused(&options, SW_BAD_FILE, "short.npy: has 3 marks, the data has 6 tokens");
    options.labels_mask = write_npy(*state, "two.npy", SW_U8, marks, 6);
    assert_refused(&options, SW_BAD_FILE, "two.npy: position 4 has mark 2");
    options.labels_mask = scratch_path(*state, "absent.npy");
    assert_refused(&options, SW_BAD_FILE, "absent.npy: ");
}

/* Nothing would ever be learned: the only token that counts is nobody's target, or behind the last
 * row, or none. */
static void a_mask_under_which_no_row_has_a_target_is_refused(void **state) {
    const int64_t zeros[10] = {0}, first[10] = {1}, last[10] = {[9] = 1}, one[10] = {[5] = 1};
    const char *path = write_counting(*state, "t.npy", SW_U16, 10);
    sw_dataset_options options = {.paths = &path, .n_paths = 1, .sequence_length = 4};
    options.labels_mask = write_npy(*state, "zeros.npy", SW_U8, zeros, 10);
    assert_refused(&options, SW_BAD_FILE, "zeros.npy: no token counts as a target");
    options.labels_mask = write_npy(*state, "first.npy", SW_U8, first, 10);
    assert_refused(&options, SW_BAD_FILE, "first.npy: no token counts as a target");
    options.labels_mask = write_npy(*state, "last.npy", SW_U8, last, 10);
    assert_refused(&options, SW_BAD_FILE, "last.npy: no token counts as a target");
    options.labels_mask = write_npy(*state, "one.npy", SW_U8, one, 10);
    sw_dataset *dataset = open_or_fail(&options);
    bool has;
    assert_int_equal(sw_dataset_describe(dataset).n_blank_rows, 1);
    assert_int_equal(sw_dataset_has_target(dataset, 0, 1, &has, NULL), SW_OK);
    assert_false(has);
    assert_int_equal(sw_dataset_has_target(dataset, 0, 2, &has, NULL), SW_OK);
    assert_true(has);
    assert_int_equal(sw_dataset_has_target(dataset, 0, 0, &has, NULL), SW_OK);
    assert_false(has);
    sw_dataset_close(dataset);
}

/* No mask, and still no target: each token begins a document. */
static void documents_of_one_token_each_have_no_target(void **state) {
    const int64_t ones[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, some[6] = {1, 1, 1, 1, 1, 5};
    const char *path = write_counting(*state, "t.npy", SW_U16, 10);
    sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .packing = SW_PACKED, .sequence_length = 4};
    options.documents = write_npy(*state, "ones.npy", SW_I64, ones, 10);
    assert_refused(&options, SW_BAD_FILE, "t.npy: no token counts as a target");
    options.documents = write_npy(*state, "some.npy", SW_I64, some, 6);
    sw_dataset *dataset = open_or_fail(&options);
    assert_int_equal(sw_dataset_describe(dataset).n_rows, 2);
    assert_int_equal(sw_dataset_describe(dataset).n_blank_rows, 1);
    sw_dataset_close(dataset);
}

/* ---- ids ---- */

static void ids_above_16_bits_stay_themselves(void **state) {
    const int64_t ids[] = {65541, 5, 69999};
    const sw_dtype dtypes[] = {SW_I32, SW_U32, SW_I64};
    for (int i = 0; i < 3; i++) {
        const char *path = write_npy(*state, "t.npy", dtypes[i], ids, 3);
        sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
            .paths = &path, .n_paths = 1, .sequence_length = 2, .vocabulary = 70000});
        int32_t tokens[2], targets[2];
        assert_int_equal(sw_dataset_row(dataset, 0, tokens, targets, NULL, NULL), SW_OK);
        assert_int_equal(tokens[0], 65541);
        assert_int_equal(targets[1], 69999);
        assert_int_equal(sw_dataset_describe(dataset).largest_id, 69999);
        sw_dataset_close(dataset);
    }
}

static void an_id_outside_the_vocabulary_is_named_with_file_place_and_limit(void **state) {
    const int64_t large[] = {1, 2, 70000, 4}, negative[] = {1, -1, 3, 4};
    const char *path;
    const sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .sequence_length = 2, .vocabulary = 70000};
    path = write_npy(*state, "large.npy", SW_I32, large, 4);
    assert_refused(&options, SW_BAD_FILE,
                   "large.npy: position 2 has id 70000; the vocabulary allows 0 to 69999");
    path = write_npy(*state, "negative.npy", SW_I32, negative, 4);
    assert_refused(&options, SW_BAD_FILE,
                   "negative.npy: position 1 has id -1; the vocabulary allows 0 to 69999");
    /* Without a vocabulary there is still a range that ids can have. */
    const int64_t wide[] = {1, 2, 3, INT64_C(1) << 31};
    const sw_dataset_options open_ended = {.paths = &path, .n_paths = 1, .sequence_length = 2};
    assert_refused(&open_ended, SW_BAD_FILE, "position 1 has id -1");
    path = write_npy(*state, "wide.npy", SW_U32, wide, 4);
    assert_refused(&open_ended, SW_BAD_FILE,
                   "position 3 has id 2147483648; int32 allows 0 to 2147483647");
}

/* The place is right beyond the first buffer that the check reads. */
static void a_bad_id_far_into_a_file_is_found(void **state) {
    const int64_t n = 700000;
    int64_t *ids = calloc((size_t)n, sizeof *ids);
    ids[n - 3] = 300;
    const char *path = write_npy(*state, "far.npy", SW_U16, ids, n);
    free(ids);
    assert_refused(
        &(sw_dataset_options){
            .paths = &path, .n_paths = 1, .sequence_length = 2, .vocabulary = 300},
        SW_BAD_FILE, "far.npy: position 699997 has id 300");
}

/* A sparse file of 2^31 + 100 ids of 2 bytes: positions beyond 32 bits in bytes and in tokens. It
 * is read through token_file, as checking all of it would take long. */
static void positions_beyond_4_gib_are_read(void **state) {
    const int64_t n = (INT64_C(1) << 31) + 100;
    uint8_t header[256];
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '<u2', 'fortran_order': False, 'shape': (%lld,), }",
             (long long)n);
    size_t first = npy_header(header, 1, dict);
    const char *path = write_bytes(*state, "sparse.npy", header, first);
    int descriptor = open(path, O_RDWR);
    assert_true(descriptor >= 0);
    if (ftruncate(descriptor, (off_t)first + 2 * n) != 0) {
        close(descriptor);
        skip(); /* this file system has no files that large */
    }
    const uint16_t last[] = {7, 8, 9};
    assert_int_equal(pwrite(descriptor, last, sizeof last, (off_t)first + 2 * (n - 3)),
                     sizeof last);

    sw_npy npy;
    assert_int_equal(sw_npy_parse(path, header, (int64_t)first, (int64_t)first + 2 * n, &npy, NULL),
                     SW_OK);
    assert_int_equal(npy.n, n);
    const sw_token_file file = {.path = path,
                                .dtype = npy.dtype,
                                .data_first = npy.first,
                                .n_tokens = npy.n,
                                .largest_id = 9};
    int32_t ids[4];
    assert_int_equal(sw_token_file_read(&file, descriptor, n - 4, 4, ids, NULL), SW_OK);
    close(descriptor);
    const int32_t expected[] = {0, 7, 8, 9};
    assert_memory_equal(ids, expected, sizeof expected);
}

/* ---- files ---- */

static void too_little_text_says_how_much_a_row_needs(void **state) {
    const char *path = write_text(*state, "t.txt", "thirty-seven bytes of text, no more..");
    const sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .sequence_length = 512, .is_bytes = true};
    assert_refused(&options, SW_BAD_FILE, "text has 37 tokens, a row needs 513");
    sw_dataset_options huge = options;
    huge.sequence_length = INT64_MAX;
    assert_refused(&huge, SW_BAD_FILE, "a row needs 9223372036854775808");
}

static void files_that_cannot_be_data_are_refused_by_name(void **state) {
    scratch *s = *state;
    const char *path;
    sw_dataset_options options = {
        .paths = &path, .n_paths = 1, .sequence_length = 2, .is_bytes = true};
    path = scratch_path(s, "absent.txt");
    assert_refused(&options, SW_BAD_FILE, "absent.txt: ");
    path = scratch_path(s, "none-*.txt");
    assert_refused(&options, SW_BAD_FILE, "none-*.txt: the pattern matches no file");
    path = scratch_path(s, "no-folder/*.txt");
    assert_refused(&options, SW_BAD_FILE, "no-folder/*.txt: the pattern matches no file");
    path = write_text(s, "empty.txt", "");
    assert_refused(&options, SW_BAD_FILE, "empty.txt: is empty");
    path = write_npy(s, "empty.npy", SW_U16, NULL, 0);
    assert_refused(&options, SW_BAD_FILE, "empty.npy: is empty");
    path = write_text(s, "t.csv", "1,2,3");
    assert_refused(&options, SW_BAD_FILE, "t.csv: is not .txt, .jsonl or .npy");
    path = write_text(s, "not.npy", "just text");
    assert_refused(&options, SW_BAD_FILE,
                   "not.npy: is plain text (\"just text\"), not a .npy file");
    path = scratch_path(s, "folder.txt");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(&options, SW_BAD_FILE, "folder.txt: the folder has no .txt or .jsonl file");
    path = scratch_path(s, "pipe.txt");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(&options, SW_BAD_FILE, "pipe.txt: is a pipe");
    options.n_paths = 0;
    assert_refused(&options, SW_BAD_CONFIG, "no data files");
}

static void text_without_a_tokenizer_is_refused(void **state) {
    const char *path = write_text(*state, "t.txt", "abc");
    assert_refused(&(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 2},
                   SW_BAD_CONFIG, "data.tokenizer: bytes");
}

/* Root may read everything, so the test steps down for the moment. */
static void an_unreadable_file_is_refused_by_name(void **state) {
    scratch *s = *state;
    const char *path = write_text(s, "secret.txt", "abc");
    assert_int_equal(chmod(s->folder, 0755), 0);
    assert_int_equal(chmod(path, 0), 0);
    const bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    sw_dataset *dataset;
    sw_error err = {0};
    sw_status status = sw_dataset_open(
        &(sw_dataset_options){.paths = &path, .n_paths = 1, .sequence_length = 2, .is_bytes = true},
        &dataset, &err);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, SW_BAD_FILE);
    assert_non_null(strstr(err.message, "secret.txt"));
    assert_non_null(strstr(err.message, "ermission denied"));
}

/* A file that is cut, or given wilder ids, after it was checked is an error, not a crash. */
static void a_file_that_changes_under_the_run_is_noticed(void **state) {
    const int64_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, wilder[] = {1, 2, 3, 4, 5, 6, 7, 8, 1000};
    const char *path = write_npy(*state, "t.npy", SW_U16, ids, 9);
    sw_dataset *dataset = open_or_fail(&(sw_dataset_options){
        .paths = &path, .n_paths = 1, .sequence_length = 4, .vocabulary = 100});
    int32_t tokens[4], targets[4];
    sw_error err;
    write_npy(*state, "t.npy", SW_U16, wilder, 9);
    assert_int_equal(sw_dataset_row(dataset, 1, tokens, targets, NULL, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "t.npy: position 8 has 1000"));
    assert_int_equal(truncate(path, 140), 0);
    assert_int_equal(sw_dataset_row(dataset, 1, tokens, targets, NULL, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "t.npy: ends at byte 140"));
    sw_dataset_close(dataset);
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(row_r_of_step_s_begins_at_its_place_in_the_stream),
        SCRATCH_TEST(exactly_one_token_more_than_the_rows_is_needed),
        SCRATCH_TEST(rows_of_one_token_are_rows),
        SCRATCH_TEST(files_in_order_are_one_stream),
        SCRATCH_TEST(a_pattern_stands_for_its_files_by_name),
        SCRATCH_TEST(a_file_whose_name_looks_like_a_pattern_is_that_file),
        SCRATCH_TEST(unshuffled_rows_repeat_in_order),
        SCRATCH_TEST(a_stopped_run_goes_on_in_the_order_it_would_have_had),
        SCRATCH_TEST(forked_readers_do_not_disturb_each_other),
        SCRATCH_TEST(the_mask_belongs_to_the_token_that_is_predicted),
        SCRATCH_TEST(a_mask_may_be_of_bool),
        cmocka_unit_test(supervised_targets_of_the_golden_run_are_counted),
        SCRATCH_TEST(a_shuffled_mask_moves_with_its_rows),
        SCRATCH_TEST(without_a_mask_every_target_counts),
        SCRATCH_TEST(a_mask_that_does_not_fit_is_refused),
        SCRATCH_TEST(a_mask_under_which_no_row_has_a_target_is_refused),
        SCRATCH_TEST(documents_of_one_token_each_have_no_target),
        SCRATCH_TEST(ids_above_16_bits_stay_themselves),
        SCRATCH_TEST(an_id_outside_the_vocabulary_is_named_with_file_place_and_limit),
        SCRATCH_TEST(a_bad_id_far_into_a_file_is_found),
        SCRATCH_TEST(positions_beyond_4_gib_are_read),
        SCRATCH_TEST(too_little_text_says_how_much_a_row_needs),
        SCRATCH_TEST(files_that_cannot_be_data_are_refused_by_name),
        SCRATCH_TEST(text_without_a_tokenizer_is_refused),
        SCRATCH_TEST(an_unreadable_file_is_refused_by_name),
        SCRATCH_TEST(a_file_that_changes_under_the_run_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
