/* dataset.c: the stream of tokens, and the rows cut from it.
 *
 *   files   | a.txt ........ | b.npy ..... | c.txt ... |
 *   rows    |  0  |  1  |  2  |  3  |  4  |  5  |  6  |+1| dropped
 *
 * A row may span files; neighbouring rows share one token, which is the last target of one and the first input of the next. The
 * mask is a stream of the same length: mark i says whether token i counts when it is the target. After sw_dataset_open nothing
 * here is written, so ranks may share one dataset, as processes or as threads.
 */
#include "data/dataset.h"

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "data/shuffle.h"
#include "data/token_file.h"

enum { MARKS_AT_ONCE = 2048 };

typedef struct source {
    sw_token_file file;
    int64_t first; /* place of its token 0 in the stream */
} source;

struct sw_dataset {
    sw_arena arena;
    source *sources; /* at least one, none empty */
    int n_sources;
    bool has_mask;
    sw_token_file mask;
    int64_t sequence_length;
    bool shuffle;
    uint64_t seed;
    sw_dataset_facts facts;
};

static bool ends_with(const char *text, const char *ending) {
    size_t n_text = strlen(text), n_ending = strlen(ending);
    return n_text >= n_ending && strcmp(text + n_text - n_ending, ending) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- opening ---- */

static sw_status add_file(sw_dataset *dataset, const sw_dataset_options *options, const char *path, int *capacity,
                          sw_error *err) {
    bool is_text = ends_with(path, ".txt");
    if (!is_text && !ends_with(path, ".npy"))
        return sw_fail(err, SW_BAD_FILE, "%s: is neither .txt nor .npy; the ending says how a data file is read", path);
    if (is_text && !options->is_bytes)
        return sw_fail(err, SW_BAD_CONFIG, "%s: is text, which needs a tokenizer; try data.tokenizer: bytes", path);

    source *grown = sw_arena_grow(&dataset->arena, dataset->sources, dataset->n_sources, capacity, sizeof *grown);
    char *kept = sw_arena_text(&dataset->arena, path);
    if (!grown || !kept)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the list of data files", path);
    dataset->sources = grown;
    source *new = &grown[dataset->n_sources];

    const int64_t most = INT64_C(1) << 31; /* ids travel as int32 */
    const bool is_limited = options->vocabulary > 0 && options->vocabulary < most;
    const sw_token_rule rule = {"id", is_limited ? options->vocabulary : most, is_limited ? "the vocabulary" : "int32"};
    sw_status status = sw_token_file_check(kept, is_text, &rule, &new->file, err);
    if (status != SW_OK)
        return status;
    new->first = dataset->facts.n_tokens;
    if (__builtin_add_overflow(dataset->facts.n_tokens, new->file.n_tokens, &dataset->facts.n_tokens))
        return sw_fail(err, SW_BAD_FILE, "%s: brings the data to more than 2^63 tokens", path);
    if (new->file.largest_id > dataset->facts.largest_id)
        dataset->facts.largest_id = new->file.largest_id;
    dataset->n_sources++;
    return SW_OK;
}

/* A name that exists is that file, whatever characters it has; anything else is a pattern. */
static sw_status add_pattern(sw_dataset *dataset, const sw_dataset_options *options, const char *pattern, int *capacity,
                             sw_error *err) {
    if (access(pattern, F_OK) == 0 || !strpbrk(pattern, "*?["))
        return add_file(dataset, options, pattern, capacity, err);

    glob_t found = {0};
    sw_status status = SW_OK;
    int result = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &found);
    if (result == GLOB_NOMATCH)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: the pattern matches no file; relative paths count from the folder of the run's file", pattern);
    else if (result == GLOB_NOSPACE)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for the files that the pattern matches", pattern);
    else if (result != 0)
        status = sw_fail(err, SW_BAD_FILE, "%s: the pattern matches no file, because a folder of it cannot be read: %s", pattern,
                         strerror(errno));
    if (status != SW_OK)
        goto done;
    /* glob would sort by the locale; the order of the data must not depend on that. */
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_name);
    for (size_t i = 0; i < found.gl_pathc && status == SW_OK; i++)
        status = add_file(dataset, options, found.gl_pathv[i], capacity, err);
done:
    globfree(&found);
    return status;
}

static sw_status add_mask(sw_dataset *dataset, const char *path, sw_error *err) {
    const sw_token_rule rule = {"mark", 2, "a mask"};
    char *kept = sw_arena_text(&dataset->arena, path);
    if (!kept)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its name", path);
    sw_status status = sw_token_file_check(kept, false, &rule, &dataset->mask, err);
    if (status != SW_OK)
        return status;
    if (dataset->mask.n_tokens != dataset->facts.n_tokens)
        return sw_fail(err, SW_BAD_FILE, "%s: has %" PRId64 " marks, the data has %" PRId64 " tokens; there must be one for each",
                       path, dataset->mask.n_tokens, dataset->facts.n_tokens);
    dataset->has_mask = true;
    return SW_OK;
}

static sw_status count_rows(sw_dataset *dataset, sw_error *err) {
    sw_dataset_facts *facts = &dataset->facts;
    const int64_t length = dataset->sequence_length;
    assert(dataset->sources && facts->n_tokens > 0); /* a pattern adds a file or fails; no file is empty */
    facts->n_rows = (facts->n_tokens - 1) / length;
    if (facts->n_rows == 0) {
        sw_fail(err, SW_BAD_FILE,
                "text has %" PRId64 " tokens, a row needs %" PRIu64 "; give more text or a smaller data.sequence_length",
                facts->n_tokens, (uint64_t)length + 1);
        if (dataset->n_sources > 1)
            return sw_fail_within(err, "%s and %d more files", dataset->sources[0].file.path, dataset->n_sources - 1);
        return sw_fail_within(err, "%s", dataset->sources[0].file.path);
    }
    facts->n_dropped = facts->n_tokens - 1 - facts->n_rows * length;
    return SW_OK;
}

sw_status sw_dataset_open(const sw_dataset_options *options, sw_dataset **dataset, sw_error *err) {
    *dataset = NULL;
    if (options->n_paths < 1)
        return sw_fail(err, SW_BAD_CONFIG, "there are no data files; name some in data.train");
    if (options->sequence_length < 1)
        return sw_fail(err, SW_BAD_CONFIG, "data.sequence_length is %" PRId64 "; it must be at least 1",
                       options->sequence_length);

    int capacity = 0;
    sw_status status = SW_OK;
    sw_dataset *opened = calloc(1, sizeof *opened);
    if (!opened)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the data's description");
    opened->sequence_length = options->sequence_length;
    opened->shuffle = options->shuffle;
    opened->seed = options->seed;
    for (int i = 0; i < options->n_paths && status == SW_OK; i++)
        status = add_pattern(opened, options, options->paths[i], &capacity, err);
    if (status == SW_OK)
        status = count_rows(opened, err);
    if (status == SW_OK && options->labels_mask)
        status = add_mask(opened, options->labels_mask, err);
    if (status != SW_OK) {
        sw_dataset_close(opened);
        return status;
    }
    *dataset = opened;
    return SW_OK;
}

void sw_dataset_close(sw_dataset *dataset) {
    if (!dataset)
        return;
    sw_arena_free(&dataset->arena);
    free(dataset);
}

sw_dataset_facts sw_dataset_describe(const sw_dataset *dataset) {
    return dataset->facts;
}

/* ---- reading ---- */

/* The row of the stream that logical row `logical` of the run is. */
static int64_t row_of(const sw_dataset *dataset, int64_t logical) {
    int64_t epoch = logical / dataset->facts.n_rows, row = logical % dataset->facts.n_rows;
    return dataset->shuffle ? sw_shuffle(dataset->seed, epoch, dataset->facts.n_rows, row) : row;
}

/* The source that holds token `position`: the last that begins at or before it. */
static const source *source_at(const sw_dataset *dataset, int64_t position) {
    int low = 0, high = dataset->n_sources;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (dataset->sources[middle].first <= position)
            low = middle;
        else
            high = middle;
    }
    return &dataset->sources[low];
}

static sw_status read_stream(const sw_dataset *dataset, int64_t position, int64_t n, int32_t *ids, sw_error *err) {
    for (const source *from = source_at(dataset, position); n > 0; from++) {
        int descriptor;
        int64_t within = position - from->first, left = from->file.n_tokens - within, n_here = n < left ? n : left;
        sw_status status = sw_token_file_open(&from->file, &descriptor, err);
        if (status != SW_OK)
            return status;
        status = sw_token_file_read(&from->file, descriptor, within, n_here, ids, err);
        close(descriptor);
        if (status != SW_OK)
            return status;
        position += n_here, ids += n_here, n -= n_here;
    }
    return SW_OK;
}

/* Marks of the targets of `row`: their number, and where `targets` is given, -1 in place of those that do not count. */
static sw_status apply_mask(const sw_dataset *dataset, int descriptor, int64_t row, int32_t *targets, int64_t *n_supervised,
                            sw_error *err) {
    const int64_t length = dataset->sequence_length;
    int32_t marks[MARKS_AT_ONCE];
    for (int64_t done = 0; done < length; done += MARKS_AT_ONCE) {
        int64_t n = length - done < MARKS_AT_ONCE ? length - done : MARKS_AT_ONCE;
        sw_status status = sw_token_file_read(&dataset->mask, descriptor, row * length + 1 + done, n, marks, err);
        if (status != SW_OK)
            return status;
        for (int64_t i = 0; i < n; i++) {
            *n_supervised += marks[i];
            if (targets && !marks[i])
                targets[done + i] = -1;
        }
    }
    return SW_OK;
}

sw_status sw_dataset_row(sw_dataset *dataset, int64_t logical, int32_t *tokens, int32_t *targets, sw_error *err) {
    assert(logical >= 0);
    const int64_t length = dataset->sequence_length, row = row_of(dataset, logical);
    sw_status status = read_stream(dataset, row * length, 1, tokens, err);
    if (status == SW_OK)
        status = read_stream(dataset, row * length + 1, length, targets, err);
    if (status != SW_OK)
        return status;
    memcpy(tokens + 1, targets, (size_t)(length - 1) * sizeof *tokens);
    if (!dataset->has_mask)
        return SW_OK;

    int descriptor;
    int64_t n_supervised = 0;
    if ((status = sw_token_file_open(&dataset->mask, &descriptor, err)) != SW_OK)
        return status;
    status = apply_mask(dataset, descriptor, row, targets, &n_supervised, err);
    close(descriptor);
    return status;
}

sw_status sw_dataset_supervised(sw_dataset *dataset, int64_t first, int64_t n_rows, int64_t *n_supervised, sw_error *err) {
    assert(first >= 0 && n_rows >= 0);
    *n_supervised = dataset->has_mask ? 0 : n_rows * dataset->sequence_length;
    if (!dataset->has_mask)
        return SW_OK;
    int descriptor;
    sw_status status = sw_token_file_open(&dataset->mask, &descriptor, err);
    if (status != SW_OK)
        return status;
    for (int64_t logical = first; logical < first + n_rows && status == SW_OK; logical++)
        status = apply_mask(dataset, descriptor, row_of(dataset, logical), NULL, n_supervised, err);
    close(descriptor);
    return status;
}
