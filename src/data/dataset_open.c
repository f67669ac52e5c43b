/* dataset_open.c: from pieces (dataset_files.c) to documents and rows. */
#include <inttypes.h>
#include <stdlib.h>

#include "data/dataset_internal.h"

/* ---- marks and documents ---- */

static sw_status add_mask(sw_dataset_opening *o) {
    sw_pieces *pieces = &o->dataset->pieces;
    const char *path = sw_arena_text(&o->dataset->arena, o->options->labels_mask);
    sw_token_file marks;
    if (!path)
        return sw_fail(o->err, SW_NO_MEMORY, "%s: no memory for its name", o->options->labels_mask);
    if (o->n_jsonl)
        return sw_fail(o->err, SW_BAD_CONFIG,
                       "data.labels_mask stands beside token files, and %s says itself what counts; give one of them",
                       o->first_jsonl);
    sw_status status = sw_dataset_check_marks(o, path, NULL, pieces->n_tokens, &marks);
    for (int i = 0; i < pieces->n && status == SW_OK; i++) {
        pieces->piece[i].marks = marks;
        pieces->piece[i].marks_skip = pieces->piece[i].first;
        pieces->piece[i].has_marks = true;
    }
    return status;
}

static sw_status find_documents(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    const sw_dataset_options *options = o->options;
    if (options->documents) {
        if (o->n_jsonl)
            return sw_fail(o->err, SW_BAD_CONFIG,
                           "data.documents stands beside token files, and the rows of %s are documents; give one of them",
                           o->first_jsonl);
        sw_documents_free(&dataset->documents);
        sw_status status = sw_dataset_read_lengths(o, options->documents, dataset->pieces.n_tokens, dataset->streams,
                                                   options->mix ? dataset->n_streams : 0);
        if (status != SW_OK)
            return status;
    }
    bool are_rows = o->n_jsonl > 0 || options->documents;
    dataset->facts.has_documents = are_rows || (options->packing && o->n_text > 0 && dataset->documents.n > 1);
    return SW_OK;
}

static sw_status refuse_long_piece(const sw_dataset_opening *o, int64_t document, int64_t n_tokens) {
    const sw_piece *piece = sw_pieces_at(&o->dataset->pieces, sw_document_first(&o->dataset->documents, document));
    return sw_fail(o->err, SW_BAD_FILE,
                   "%s: document %" PRId64 " of the data has %" PRId64 " tokens, a row takes %" PRId64
                   "; data.long: split cuts it, drop leaves it out",
                   piece->tokens.path, document, n_tokens, o->options->sequence_length + 1);
}

/* Count documents longer than a row; leave them out if that is asked for, from the pieces, the documents and the streams. */
static sw_status treat_long(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    sw_documents *documents = &dataset->documents;
    int64_t most = o->options->sequence_length + 1, first = 0, n_kept = 0, removed = 0;
    for (int64_t d = 0; d < documents->n; d++) {
        int64_t end = documents->end[d], n = end - first;
        bool is_long = n > most;
        dataset->facts.n_long += is_long;
        if (is_long && o->options->long_documents == SW_LONG_ERROR)
            return refuse_long_piece(o, d, n);
        if (is_long && o->options->long_documents == SW_LONG_DROP) {
            sw_status status = sw_pieces_remove(&dataset->pieces, &dataset->arena, first - removed, end - removed, o->err);
            if (status != SW_OK)
                return status;
            for (int s = 0; s < dataset->n_streams; s++) {
                dataset->streams[s].first -= dataset->streams[s].first > first - removed ? n : 0;
                dataset->streams[s].end -= dataset->streams[s].end > first - removed ? n : 0;
            }
            removed += n;
        } else {
            documents->end[n_kept++] = end - removed;
        }
        first = end;
    }
    documents->n = n_kept;
    dataset->facts.n_dropped += removed;
    if (n_kept == 0)
        return sw_fail(o->err, SW_BAD_FILE,
                       "%s: every document is longer than a row of %" PRId64
                       " tokens, and data.long: drop leaves those out; try split",
                       o->first_file, most - 1);
    return SW_OK;
}

/* ---- rows ---- */

static sw_status refuse_short(sw_dataset_opening *o, int s) {
    const sw_stream *of = &o->dataset->streams[s];
    sw_fail(o->err, SW_BAD_FILE,
            "text has %" PRId64 " tokens, a row needs %" PRIu64 "; give more text or a smaller data.sequence_length",
            of->end - of->first, (uint64_t)o->options->sequence_length + 1);
    if (o->options->mix)
        return sw_fail_within(o->err, "%s", o->options->paths[s]);
    return o->n_files > 1 ? sw_fail_within(o->err, "%s and %d more files", o->first_file, o->n_files - 1)
                          : sw_fail_within(o->err, "%s", o->first_file);
}

static sw_status find_rows(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    sw_dataset_facts *facts = &dataset->facts;
    for (int s = 0; s < dataset->n_streams; s++) {
        sw_stream *of = &dataset->streams[s];
        if (facts->has_documents && !o->options->packing) {
            sw_status status =
                sw_rows_of_documents(&of->rows, of->first, of->end, dataset->sequence_length, &dataset->documents, o->err);
            if (status != SW_OK)
                return status;
        } else {
            sw_rows_cut(&of->rows, of->first, of->end, dataset->sequence_length);
        }
        if (of->rows.n_rows == 0)
            return refuse_short(o, s);
        facts->n_rows += of->rows.n_rows;
        facts->n_dropped += of->rows.n_dropped;
        facts->n_padding += of->rows.n_padding;
    }
    facts->n_tokens = dataset->pieces.n_tokens;
    facts->n_documents = facts->has_documents ? dataset->documents.n : 0;
    dataset->has_marks = sw_pieces_have_marks(&dataset->pieces);
    if (!facts->has_documents)
        sw_documents_free(&dataset->documents);
    return SW_OK;
}

static sw_status check_options(const sw_dataset_options *options, sw_error *err) {
    if (options->n_paths < 1)
        return sw_fail(err, SW_BAD_CONFIG, "there are no data files; name some in data.train");
    if (options->sequence_length < 1)
        return sw_fail(err, SW_BAD_CONFIG, "data.sequence_length is %" PRId64 "; it must be at least 1",
                       options->sequence_length);
    if (options->text.tokenizer && options->vocabulary > 0 && sw_tokenizer_n_ids(options->text.tokenizer) > options->vocabulary)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the tokenizer has %" PRId64 " ids, the model %" PRId64 "; is it the tokenizer of this model?",
                       options->text.tokenizer_file, sw_tokenizer_n_ids(options->text.tokenizer), options->vocabulary);
    return SW_OK;
}

sw_status sw_dataset_open(const sw_dataset_options *options, sw_dataset **dataset, sw_error *err) {
    *dataset = NULL;
    sw_status status = check_options(options, err);
    if (status != SW_OK)
        return status;
    sw_dataset *opened = calloc(1, sizeof *opened);
    if (!opened)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the data's description");
    sw_dataset_opening o = {.options = options,
                            .dataset = opened,
                            .reader = {.tokenizer = options->text.tokenizer, .path = options->tokenizer_path},
                            .err = err};
    opened->sequence_length = options->sequence_length;
    opened->shuffle = options->shuffle;
    opened->seed = options->seed;
    if (options->mix)
        status = sw_mix_create(options->mix, options->n_paths, &opened->mix, err);
    if (status == SW_OK)
        status = sw_dataset_add_files(&o);
    if (status == SW_OK && options->labels_mask)
        status = add_mask(&o);
    if (status == SW_OK)
        status = find_documents(&o);
    if (status == SW_OK && opened->facts.has_documents)
        status = treat_long(&o);
    if (status == SW_OK)
        status = find_rows(&o);
    sw_tokenizer_free(o.reader.opened);
    if (status != SW_OK) {
        sw_dataset_close(opened);
        return status;
    }
    opened->long_documents = options->long_documents;
    *dataset = opened;
    return SW_OK;
}
