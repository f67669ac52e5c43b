/* dataset.c: the rows found in the stream and its documents.
 *
 *   files      | a.txt ........ | b.npy ..... | c.jsonl .... |        pieces.h
 *   documents  |                |             |  |   |    |  |        documents.h
 *   rows       |  0  |  1  |  2  |  3  |  4  |  5  |  6  |+1| dropped  rows.h
 *
 * After sw_dataset_open nothing here is written, so ranks may share one dataset, as processes or as
 * threads.
 */
#include "data/dataset_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "data/shuffle.h"

enum { MARKS_AT_ONCE = 2048 };

void sw_dataset_close(sw_dataset *dataset) {
    if (!dataset)
        return;
    for (int s = 0; s < dataset->n_streams; s++)
        if (dataset->streams)
            sw_rows_free(&dataset->streams[s].rows);
    sw_documents_free(&dataset->documents);
    sw_mix_free(dataset->mix);
    sw_arena_free(&dataset->arena);
    free(dataset);
}

sw_dataset_facts sw_dataset_describe(const sw_dataset *dataset) {
    return dataset->facts;
}

/* ---- telling ---- */

static const char *named(const char *place) {
    return place ? place : "not named, as memory was short";
}

const char *sw_dataset_first_rows(const sw_dataset *dataset) {
    return dataset->first_rows;
}

void sw_dataset_tell(const sw_dataset *dataset, void (*line)(void *to, const char *text),
                     void *to) {
    const sw_dataset_facts *facts = &dataset->facts;
    const sw_text_facts *text = &facts->text;
    char words[SW_MESSAGE_BYTES], keys[SW_MESSAGE_BYTES / 2];
#define TELL(...) (snprintf(words, sizeof words, __VA_ARGS__), line(to, words))
    if (facts->has_documents)
        TELL("%" PRId64 " %s", facts->n_documents,
             sw_text_noun(facts->n_documents, "document", "documents"));
    if (facts->n_long)
        TELL("%" PRId64 " %s longer than a row and %s (data.long)", facts->n_long,
             sw_text_noun(facts->n_long, "document is", "documents are"),
             dataset->long_documents == SW_LONG_DROP ? "left out" : "cut");
    if (facts->n_cut_short)
        TELL("%" PRId64 " %s, as a row ends in %s; data.packing: whole keeps them whole",
             facts->n_cut_short,
             sw_text_noun(facts->n_cut_short, "document of text would fit into a row and is cut",
                          "documents of text would fit into a row and are cut"),
             sw_text_noun(facts->n_cut_short, "it", "them"));
    if (facts->n_whole_rows) {
        double full = 1 - (double)facts->n_whole_padding /
                              ((double)facts->n_whole_rows * (double)dataset->sequence_length);
        TELL("%" PRId64 " %s documents whole and %s %.1f%% full%s", facts->n_whole_rows,
             sw_text_noun(facts->n_whole_rows, "row holds", "rows hold"),
             sw_text_noun(facts->n_whole_rows, "is", "are"), 100 * full,
             full < 0.8 ? "; a longer data.sequence_length would fill them better" : "");
    }
    if (facts->n_padding > facts->n_whole_padding)
        TELL("%" PRId64 " %s up the rows of an epoch; data.packing: true needs %s",
             facts->n_padding - facts->n_whole_padding,
             sw_text_noun(facts->n_padding - facts->n_whole_padding, "token of padding fills",
                          "tokens of padding fill"),
             dataset->has_marks ? "few" : "none");
    if (text->n_samples)
        TELL("%" PRId64 " %s with %" PRId64 " supervised %s; %" PRId64
             " (%.0f%%) %s in a supervised end of turn or text",
             text->n_samples, sw_text_noun(text->n_samples, "sample", "samples"),
             text->n_supervised, sw_text_noun(text->n_supervised, "token", "tokens"), text->n_ended,
             100.0 * (double)text->n_ended / (double)text->n_samples,
             sw_text_noun(text->n_ended, "ends", "end"));
    if (dataset->is_masked && !facts->has_documents)
        TELL("warning: data.labels_mask without data.documents: rows are cut every %" PRId64
             " tokens, and what belongs together is cut with them; give the lengths of the "
             "documents",
             dataset->sequence_length);
    if (facts->n_blank_rows)
        TELL("warning: %" PRId64 " of %" PRId64 " %s no token that counts as a target",
             facts->n_blank_rows, facts->n_rows,
             facts->n_rows == 1 ? "row has"
                                : sw_text_noun(facts->n_blank_rows, "rows has", "rows have"));
    if (text->n_samples && text->n_ended == 0)
        TELL("warning: no sample ends in a supervised end of turn or text, so the model will not "
             "learn to stop");
    if (text->n_empty)
        TELL("warning: %" PRId64 " %s empty; the first is %s", text->n_empty,
             sw_text_noun(text->n_empty, "sample is", "samples are"), named(dataset->first_empty));
    if (text->n_unsupervised)
        TELL("warning: %" PRId64 " %s nothing to train on; the first is %s", text->n_unsupervised,
             sw_text_noun(text->n_unsupervised, "sample has", "samples have"),
             named(dataset->first_unsupervised));
    if (text->unread.key[0].n_rows)
        TELL("keys of rows without effect: %s",
             sw_unread_keys_tell(&text->unread, keys, sizeof keys));
    if (text->n_double_begin)
        TELL("warning: %" PRId64
             " %s with two begin-of-text tokens; the tokenizer adds one, so the text needs none",
             text->n_double_begin,
             sw_text_noun(text->n_double_begin, "sample begins", "samples begin"));
#undef TELL
}

/* ---- reading ---- */

/* The rows of a stream, and which of them. */
typedef struct place {
    const sw_rows *rows;
    int64_t row;
} place;

static place place_of(const sw_dataset *dataset, int64_t logical) {
    int s = 0;
    int64_t nth = logical;
    if (dataset->mix)
        sw_mix_find(dataset->mix, logical, &s, &nth);
    const sw_rows *rows = &dataset->streams[s].rows;
    int64_t epoch = nth / rows->n_rows, row = nth % rows->n_rows;
    if (dataset->shuffle)
        row = sw_shuffle(dataset->seed + (uint64_t)s, epoch, rows->n_rows, row);
    return (place){rows, row};
}

/* Clear the marks of tokens first .. first + n - 1 that begin a document. */
static void unmark_beginnings(const sw_documents *documents, int64_t first, int64_t n,
                              int32_t *marks) {
    int64_t d = first ? sw_documents_at(documents, first - 1)
                      : 0; /* its end is the first beginning at or after `first` */
    if (!first)
        marks[0] = 0;
    for (; d < documents->n && documents->end[d] < first + n; d++)
        marks[documents->end[d] - first] = 0;
}

/* The number of targets of a part that count, and where `targets` is given, -1 in place of those
 * that do not. */
static sw_status apply_marks(const sw_dataset *dataset, sw_pieces_reader *reader,
                             const sw_row_part *part, int32_t *targets, int64_t *n_supervised,
                             sw_error *err) {
    int32_t marks[MARKS_AT_ONCE];
    for (int64_t i = 0; i < part->n_skipped && targets; i++)
        targets[i] = -1;
    bool is_plain = !dataset->has_marks && !dataset->facts.has_documents;
    if (is_plain) {
        *n_supervised += part->n_targets;
        return SW_OK;
    }
    for (int64_t done = part->n_skipped; done < part->n_targets; done += MARKS_AT_ONCE) {
        int64_t n = part->n_targets - done < MARKS_AT_ONCE ? part->n_targets - done : MARKS_AT_ONCE;
        int64_t first = part->position + 1 + done;
        sw_status status = sw_pieces_read(reader, SW_MARKS, first, n, marks, err);
        if (status != SW_OK)
            return status;
        if (dataset->facts.has_documents)
            unmark_beginnings(&dataset->documents, first, n, marks);
        for (int64_t i = 0; i < n; i++) {
            *n_supervised += marks[i];
            if (targets && !marks[i])
                targets[done + i] = -1;
        }
    }
    return SW_OK;
}

/* For each input of a part, which lies at `at` in its row, where its document begins there. */
static void find_starts(const sw_dataset *dataset, const sw_row_part *part, int64_t at,
                        int32_t *document_start) {
    if (!dataset->facts.has_documents) {
        memset(document_start, 0, (size_t)part->n_inputs * sizeof *document_start);
        return;
    }
    int64_t d = sw_documents_at(&dataset->documents, part->position), start = at;
    for (int64_t i = 0; i < part->n_inputs; i++) {
        if (part->position + i == dataset->documents.end[d])
            d++, start = at + i;
        document_start[i] = (int32_t)start;
    }
}

/* Inputs and targets of a part, into a row with `room` for it. */
static sw_status read_part(sw_pieces_reader *reader, const sw_row_part *part, int64_t room,
                           int32_t *tokens, int32_t *targets, sw_error *err) {
    const int64_t n = part->n_inputs;
    const bool has_next = part->n_targets == n,
               fits = has_next && n < room; /* what is read too far is written over */
    sw_status status = sw_pieces_read(reader, SW_TOKENS, part->position, n + fits, tokens, err);
    if (status == SW_OK && has_next && !fits)
        status = sw_pieces_read(reader, SW_TOKENS, part->position + n, 1, targets + n - 1, err);
    if (status == SW_OK)
        memcpy(targets, tokens + 1, (size_t)(n - 1 + fits) * sizeof *tokens);
    return status;
}

static sw_status read_row(sw_dataset *dataset, const sw_rows *rows, int64_t row, int32_t *tokens,
                          int32_t *targets, int32_t *document_start, sw_error *err) {
    const int64_t length = dataset->sequence_length, n_parts = sw_row_parts(rows, row);
    int64_t n_supervised = 0, at = 0;
    sw_pieces_reader reader = sw_pieces_begin(&dataset->pieces);
    sw_status status = SW_OK;
    for (int64_t k = 0; k < n_parts && status == SW_OK; k++) {
        const sw_row_part part = sw_row_part_at(rows, &dataset->documents, row, k);
        status = read_part(&reader, &part, length - at, tokens + at, targets + at, err);
        if (status == SW_OK)
            status = apply_marks(dataset, &reader, &part, targets + at, &n_supervised, err);
        if (document_start)
            find_starts(dataset, &part, at, document_start + at);
        for (int64_t i = part.n_targets; i < part.n_inputs; i++)
            targets[at + i] = -1;
        at += part.n_inputs;
    }
    sw_pieces_end(&reader);
    for (int64_t i = at; i < length; i++) {
        tokens[i] = 0;
        targets[i] = -1;
        if (document_start)
            document_start[i] = (int32_t)at;
    }
    return status;
}

/* Add the targets of a row that count. */
static sw_status count_supervised(const sw_dataset *dataset, sw_pieces_reader *reader,
                                  const sw_rows *rows, int64_t row, int64_t *n_supervised,
                                  sw_error *err) {
    const int64_t n_parts = sw_row_parts(rows, row);
    sw_status status = SW_OK;
    for (int64_t k = 0; k < n_parts && status == SW_OK; k++) {
        const sw_row_part part = sw_row_part_at(rows, &dataset->documents, row, k);
        status = apply_marks(dataset, reader, &part, NULL, n_supervised, err);
    }
    return status;
}

/* Does any target of a row count? */
static sw_status has_target(const sw_dataset *dataset, sw_pieces_reader *reader,
                            const sw_rows *rows, int64_t row, bool *has, sw_error *err) {
    const int64_t n_parts = sw_row_parts(rows, row);
    int64_t n_supervised = 0;
    sw_status status = SW_OK;
    for (int64_t k = 0; k < n_parts && n_supervised == 0 && status == SW_OK; k++) {
        const sw_row_part part = sw_row_part_at(rows, &dataset->documents, row, k);
        status = apply_marks(dataset, reader, &part, NULL, &n_supervised, err);
    }
    *has = n_supervised > 0;
    return status;
}

sw_status sw_dataset_count_blank(const sw_dataset *dataset, const sw_stream *of, int64_t *n_blank,
                                 sw_error *err) {
    sw_pieces_reader reader = sw_pieces_begin(&dataset->pieces);
    sw_status status = SW_OK;
    *n_blank = 0;
    for (int64_t row = 0; row < of->rows.n_rows && status == SW_OK; row++) {
        bool has;
        status = has_target(dataset, &reader, &of->rows, row, &has, err);
        *n_blank += status == SW_OK && !has;
    }
    sw_pieces_end(&reader);
    return status;
}

sw_status sw_dataset_row(sw_dataset *dataset, int64_t logical, int32_t *tokens, int32_t *targets,
                         int32_t *document_start, sw_error *err) {
    assert(logical >= 0);
    const place at = place_of(dataset, logical);
    return read_row(dataset, at.rows, at.row, tokens, targets, document_start, err);
}

sw_status sw_dataset_fingerprint(sw_dataset *dataset, uint64_t *hash, sw_error *err) {
    enum { N_SAMPLED = 64 };
    const size_t bytes = (size_t)dataset->sequence_length * sizeof(int32_t);
    int32_t *values = calloc(3, bytes); /* tokens, targets, starts of documents: [L] each */
    if (!values)
        return sw_fail(err, SW_NO_MEMORY, "no memory to sample rows of %zu bytes", 3 * bytes);
    int32_t *targets = values + dataset->sequence_length,
            *starts = targets + dataset->sequence_length;
    sw_status status = SW_OK;
    *hash = SW_HASH_START;
    for (int s = 0; s < dataset->n_streams && status == SW_OK; s++) {
        const sw_rows *rows = &dataset->streams[s].rows;
        int64_t n = rows->n_rows < N_SAMPLED ? rows->n_rows : N_SAMPLED;
        for (int64_t i = 0; i < n && status == SW_OK; i++) {
            int64_t row = (int64_t)((__int128)rows->n_rows * i / n);
            status = read_row(dataset, rows, row, values, targets, starts, err);
            *hash = status == SW_OK ? sw_hash_bytes(*hash, values, 3 * bytes) : *hash;
        }
    }
    free(values);
    return status;
}

sw_status sw_dataset_supervised(sw_dataset *dataset, int64_t first, int64_t n_rows,
                                int64_t *n_supervised, sw_error *err) {
    assert(first >= 0 && n_rows >= 0);
    sw_status status = SW_OK;
    *n_supervised = 0;
    if (!dataset->has_marks && !dataset->facts.has_documents) {
        *n_supervised = n_rows * dataset->sequence_length;
        return SW_OK;
    }
    sw_pieces_reader reader = sw_pieces_begin(&dataset->pieces);
    for (int64_t logical = first; logical < first + n_rows && status == SW_OK; logical++) {
        const place at = place_of(dataset, logical);
        status = count_supervised(dataset, &reader, at.rows, at.row, n_supervised, err);
    }
    sw_pieces_end(&reader);
    return status;
}

sw_status sw_dataset_has_target(sw_dataset *dataset, int64_t first, int64_t n_rows, bool *has,
                                sw_error *err) {
    assert(first >= 0 && n_rows >= 0);
    sw_status status = SW_OK;
    *has = dataset->facts.n_blank_rows == 0 && n_rows > 0;
    sw_pieces_reader reader = sw_pieces_begin(&dataset->pieces);
    for (int64_t logical = first; logical < first + n_rows && !*has && status == SW_OK; logical++) {
        const place at = place_of(dataset, logical);
        status = has_target(dataset, &reader, at.rows, at.row, has, err);
    }
    sw_pieces_end(&reader);
    return status;
}
