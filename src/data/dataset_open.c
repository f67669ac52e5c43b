/* dataset_open.c: from pieces (dataset_files.c) to documents and rows. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
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
                       "data.labels_mask is for token files, but %s itself says what is trained "
                       "on; use only one of them",
                       o->first_jsonl);
    sw_status status = sw_dataset_check_marks(o, path, pieces->n_tokens, &marks);
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
                           "data.documents is for token files, but each row of %s is a document "
                           "already; use only one of them",
                           o->first_jsonl);
        /* Tokens with a mask are conversations, of which a part is learned. */
        const sw_lengths lengths = {.path = options->documents,
                                    .n_tokens = dataset->pieces.n_tokens,
                                    .are_whole = options->labels_mask != NULL,
                                    .bounds = dataset->streams,
                                    .n_bounds = options->mix ? dataset->n_streams : 0};
        sw_documents_free(&dataset->documents);
        sw_status status = sw_dataset_read_lengths(o, &lengths);
        if (status != SW_OK)
            return status;
    }
    bool are_rows = o->n_jsonl > 0 || options->documents,
         are_texts = o->n_text > 0 && dataset->documents.n > 1;
    dataset->facts.has_documents = are_rows || (options->packing == SW_PACKED && are_texts) ||
                                   options->packing == SW_PACKED_WHOLE || options->stride;
    return SW_OK;
}

static bool has_whole(const sw_documents *documents, const sw_stream *of) {
    int64_t d, end;
    sw_rows_documents(of->first, of->end, documents, &d, &end);
    while (d < end && !sw_document_is_whole(documents, d))
        d++;
    return d < end;
}

/* How each stream is made into rows. */
static void choose_rows(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    const sw_packing packing = o->options->packing;
    for (int s = 0; s < dataset->n_streams; s++) {
        sw_stream *of = &dataset->streams[s];
        if (o->options->stride)
            of->kind = SW_ROWS_WINDOWS;
        else if (!dataset->facts.has_documents)
            of->kind = SW_ROWS_CUT;
        else if (packing == SW_UNPACKED)
            of->kind = SW_ROWS_ALONE;
        else
            of->kind = packing == SW_PACKED_WHOLE || has_whole(&dataset->documents, of)
                           ? SW_ROWS_PACKED
                           : SW_ROWS_CUT;
    }
}

static sw_status refuse_long_piece(const sw_dataset_opening *o, int64_t document,
                                   int64_t n_tokens) {
    const sw_piece *piece =
        sw_pieces_at(&o->dataset->pieces, sw_document_first(&o->dataset->documents, document));
    return sw_fail(o->err, SW_BAD_FILE,
                   "%s: document %" PRId64 " of the data has %" PRId64
                   " tokens, a row takes %" PRId64 "; data.long: split cuts it, drop leaves it out",
                   piece->tokens.path, document, n_tokens, o->options->sequence_length + 1);
}

/* Leave document d out of the pieces and the streams. */
static sw_status remove_document(sw_dataset_opening *o, int64_t first, int64_t end) {
    sw_dataset *dataset = o->dataset;
    sw_status status = sw_pieces_remove(&dataset->pieces, &dataset->arena, first, end, o->err);
    for (int s = 0; s < dataset->n_streams && status == SW_OK; s++) {
        sw_stream *of = &dataset->streams[s];
        of->first -= of->first > first ? end - first : 0;
        of->end -= of->end > first ? end - first : 0;
    }
    return status;
}

/* Count documents longer than a row. Where they are left out of rows that are cut they go from the
 * pieces, the documents and the streams; other rows are made without them. */
static sw_status treat_long(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    sw_documents *documents = &dataset->documents;
    int64_t first = 0, n_kept = 0, removed = 0;
    int s = 0;
    for (int64_t d = 0; d < documents->n; d++) {
        int64_t end = documents->end[d], n = end - first;
        bool is_long = n - 1 > o->options->sequence_length;
        while (s + 1 < dataset->n_streams && dataset->streams[s].end <= first - removed)
            s++;
        dataset->facts.n_long += is_long;
        if (is_long && o->options->long_documents == SW_LONG_ERROR)
            return refuse_long_piece(o, d, n);
        if (is_long && o->options->long_documents == SW_LONG_DROP &&
            dataset->streams[s].kind == SW_ROWS_CUT) {
            sw_status status = remove_document(o, first - removed, end - removed);
            if (status != SW_OK)
                return status;
            removed += n;
        } else {
            sw_documents_set(documents, n_kept++, end - removed,
                             sw_document_is_whole(documents, d));
        }
        first = end;
    }
    const bool all_are_long = dataset->facts.n_long == documents->n;
    documents->n = n_kept;
    dataset->facts.n_dropped += removed;
    if (all_are_long && o->options->long_documents == SW_LONG_DROP)
        return sw_fail(o->err, SW_BAD_FILE,
                       "%s: every document is longer than a row of %" PRId64
                       " %s, and data.long: drop leaves those out; try split",
                       o->first_file, o->options->sequence_length,
                       sw_text_noun(o->options->sequence_length, "token", "tokens"));
    return SW_OK;
}

/* ---- rows ---- */

static sw_status refuse_short(sw_dataset_opening *o, int s) {
    const sw_stream *of = &o->dataset->streams[s];
    if (of->kind == SW_ROWS_CUT)
        sw_fail(o->err, SW_BAD_FILE,
                "text has %" PRId64 " %s, a row needs %" PRIu64
                "; give more text or a smaller data.sequence_length",
                of->end - of->first, sw_text_noun(of->end - of->first, "token", "tokens"),
                (uint64_t)o->options->sequence_length + 1);
    else if (of->rows.n_left_out)
        sw_fail(o->err, SW_BAD_FILE,
                "no document is left for a row of %" PRId64
                " %s, as data.long: drop leaves longer ones out; try split",
                o->options->sequence_length,
                sw_text_noun(o->options->sequence_length, "token", "tokens"));
    else
        sw_fail(o->err, SW_BAD_FILE,
                "no document has at least two tokens, so there is nothing to predict");
    if (o->options->mix)
        return sw_fail_within(o->err, "%s", o->options->paths[s]);
    return o->n_files > 1
               ? sw_fail_within(o->err, "%s and %d more %s", o->first_file, o->n_files - 1,
                                sw_text_noun(o->n_files - 1, "file", "files"))
               : sw_fail_within(o->err, "%s", o->first_file);
}

static sw_status make_rows(sw_dataset_opening *o, sw_stream *of) {
    const sw_dataset *dataset = o->dataset;
    const sw_documents *documents = dataset->facts.has_documents ? &dataset->documents : NULL;
    const bool leaves_out = o->options->long_documents == SW_LONG_DROP;
    switch (of->kind) {
    case SW_ROWS_ALONE:
        return sw_rows_alone(&of->rows, of->first, of->end, dataset->sequence_length, documents,
                             leaves_out, o->err);
    case SW_ROWS_WINDOWS:
        return sw_rows_windows(&of->rows, of->first, of->end, dataset->sequence_length,
                               o->options->stride, documents, o->err);
    case SW_ROWS_PACKED:
        return sw_rows_pack(&of->rows, of->first, of->end, dataset->sequence_length, documents,
                            o->options->packing == SW_PACKED_WHOLE, leaves_out, o->err);
    default:
        sw_rows_cut(&of->rows, of->first, of->end, dataset->sequence_length, documents);
        return SW_OK;
    }
}

static sw_status find_rows(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    sw_dataset_facts *facts = &dataset->facts;
    facts->n_tokens = dataset->pieces.n_tokens;
    for (int s = 0; s < dataset->n_streams; s++) {
        sw_stream *of = &dataset->streams[s];
        const sw_rows *rows = &of->rows;
        sw_status status = make_rows(o, of);
        if (status != SW_OK)
            return status;
        if (rows->n_rows == 0)
            return refuse_short(o, s);
        facts->n_rows += rows->n_rows;
        facts->n_tokens -= rows->n_left_out;
        facts->n_dropped += rows->n_dropped;
        facts->n_padding += rows->n_padding;
        facts->n_cut += rows->n_cut;
        facts->n_cut_short += rows->n_cut_short;
        facts->n_whole_rows += of->kind == SW_ROWS_PACKED ? rows->n_rows : 0;
        facts->n_whole_padding += of->kind == SW_ROWS_PACKED ? rows->n_padding : 0;
    }
    facts->n_documents = facts->has_documents ? dataset->documents.n : 0;
    dataset->has_marks = sw_pieces_have_marks(&dataset->pieces);
    if (!facts->has_documents)
        sw_documents_free(&dataset->documents);
    return SW_OK;
}

/* Where no mark is zero, a row has no target if it lies in documents of one token each. */
static bool has_tiny_documents(const sw_documents *documents, int64_t length) {
    int64_t n_in_a_row = 0;
    for (int64_t d = 0; d < documents->n && n_in_a_row < length - 1; d++)
        n_in_a_row = documents->end[d] - sw_document_first(documents, d) == 1 ? n_in_a_row + 1 : 0;
    return n_in_a_row >= length - 1;
}

/* May there be rows of which no target counts? Looking takes a while. */
static bool may_be_blank(const sw_dataset *dataset, const sw_stream *of) {
    if (dataset->is_masked || dataset->facts.text.n_unsupervised)
        return true;
    if (of->kind == SW_ROWS_CUT)
        return dataset->facts.has_documents &&
               (dataset->has_marks || has_tiny_documents(&dataset->documents, of->rows.length));
    return dataset->has_marks && of->rows.n_cut; /* a part of a conversation may be all question */
}

static sw_status count_blank(sw_dataset_opening *o) {
    sw_dataset *dataset = o->dataset;
    for (int s = 0; s < dataset->n_streams; s++) {
        const sw_stream *of = &dataset->streams[s];
        int64_t n_blank;
        if (!may_be_blank(dataset, of))
            continue;
        sw_status status = sw_dataset_count_blank(dataset, of, &n_blank, o->err);
        if (status != SW_OK)
            return status;
        dataset->facts.n_blank_rows += n_blank;
        if (n_blank == of->rows.n_rows)
            return sw_fail(
                o->err, SW_BAD_FILE,
                "%s: no token counts as a target in any row, so there is nothing to learn from it",
                o->options->labels_mask ? o->options->labels_mask
                : o->options->mix       ? o->options->paths[s]
                                        : o->first_file);
    }
    return SW_OK;
}

static sw_status check_options(const sw_dataset_options *options, sw_error *err) {
    if (options->n_paths < 1)
        return sw_fail(err, SW_BAD_CONFIG, "there are no data files; name some in data.train");
    if (options->sequence_length < 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.sequence_length is %" PRId64 "; it must be at least 1",
                       options->sequence_length);
    if (options->text.tokenizer && options->vocabulary > 0 &&
        sw_tokenizer_n_ids(options->text.tokenizer) > options->vocabulary)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the tokenizer has %" PRId64 " ids, the model %" PRId64
                       "; is it the tokenizer of this model?",
                       options->text.tokenizer_file, sw_tokenizer_n_ids(options->text.tokenizer),
                       options->vocabulary);
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
    sw_dataset_opening o = {
        .options = options,
        .dataset = opened,
        .reader = {.tokenizer = options->text.tokenizer, .path = options->tokenizer_path},
        .err = err};
    opened->sequence_length = options->sequence_length;
    opened->shuffle = options->shuffle;
    opened->is_masked = options->labels_mask != NULL;
    opened->seed = options->seed;
    if (options->mix)
        status = sw_mix_create(options->mix, options->n_paths, &opened->mix, err);
    if (status == SW_OK)
        status = sw_dataset_add_files(&o);
    if (status == SW_OK && options->labels_mask)
        status = add_mask(&o);
    if (status == SW_OK)
        status = find_documents(&o);
    if (status == SW_OK)
        choose_rows(&o);
    if (status == SW_OK && opened->facts.has_documents)
        status = treat_long(&o);
    if (status == SW_OK)
        status = find_rows(&o);
    if (status == SW_OK)
        status = count_blank(&o);
    sw_tokenizer_free(o.reader.opened);
    if (status != SW_OK) {
        sw_dataset_close(opened);
        return status;
    }
    opened->long_documents = options->long_documents;
    opened->first_rows = o.first_jsonl;
    *dataset = opened;
    return SW_OK;
}
