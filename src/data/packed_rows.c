/* packed_rows.c: documents of a stream to rows that hold them whole.
 *
 *   stream   | talk | talk | text  text  text | talk ......... | talk |
 *   parts    |  0   |  1   |    L    |  rest  |    L    | rest |  4   |
 *
 * The stream is walked four times, each in the order of its parts: to count fragments, to note
 * their sizes, to number the rows that bins become, and to list the parts of each row. So nothing
 * but sizes and bins is kept meanwhile.
 */
#include <assert.h>
#include <stdlib.h>

#include "data/bins.h"
#include "data/rows.h"

/* Where in the stream the walk is. */
typedef struct walk {
    const sw_documents *documents;
    sw_rows *rows;
    bool keeps_all, leaves_out;
    int64_t d;             /* the next document */
    int64_t position, end; /* what is left of a document, or of text that is cut like one */
    int64_t whole;         /* the document that this is; -1: text, or a part is given out already */
    int64_t n_fragments;   /* given out */
} walk;

typedef struct part {
    uint32_t number;
    int64_t position;
    uint32_t n;
} part;

static walk begin(sw_rows *rows, const sw_documents *documents, bool keeps_all, bool leaves_out) {
    return (walk){documents, rows, keeps_all, leaves_out, rows->first_document, 0, 0, -1, 0};
}

static bool is_whole(const walk *w, int64_t d) {
    return w->keeps_all || sw_document_is_whole(w->documents, d);
}

static bool is_left_out(const walk *w, int64_t d) {
    return w->leaves_out &&
           w->documents->end[d] - sw_document_first(w->documents, d) - 1 > w->rows->length;
}

/* To the next document, or the next text. */
static void take_document(walk *w) {
    const int64_t last = w->rows->first_document + w->rows->n_documents;
    w->position = sw_document_first(w->documents, w->d);
    w->whole = is_whole(w, w->d) ? w->d : -1;
    if (is_left_out(w, w->d)) {
        w->end = w->position;
        w->d++;
        return;
    }
    for (w->d++; w->whole < 0 && w->d < last && !is_whole(w, w->d) && !is_left_out(w, w->d);)
        w->d++;
    w->end = w->documents->end[w->d - 1];
}

/* The next part; false: there are no more. */
static bool next(walk *w, part *out) {
    const int64_t last = w->rows->first_document + w->rows->n_documents;
    while (w->end - w->position < 2) { /* the last token is no input */
        if (w->d == last)
            return false;
        take_document(w);
    }
    int64_t n = w->end - w->position - 1;
    bool fits = n <= w->rows->length;
    *out = (part){0, w->position, (uint32_t)(fits ? n : w->rows->length)};
    out->number = (uint32_t)(fits && w->whole >= 0 ? w->whole - w->rows->first_document
                                                   : w->rows->n_documents + w->n_fragments++);
    w->position += fits ? n + 1 : w->rows->length;
    w->whole = -1;
    return true;
}

/* What no row has, and what is cut. */
static void count(sw_rows *rows, const sw_documents *documents, bool keeps_all, bool leaves_out) {
    walk w = begin(rows, documents, keeps_all, leaves_out);
    const int64_t last = rows->first_document + rows->n_documents;
    while (w.d < last) {
        int64_t d = w.d, first = sw_document_first(documents, d);
        take_document(&w);
        int64_t n = w.end - w.position;
        if (n == 0)
            rows->n_left_out += documents->end[d] - first;
        rows->n_dropped += n == 0 ? documents->end[d] - first : n == 1;
        sw_rows_count_cut(rows, documents, d, n ? w.d : d, first);
    }
}

/* Numbers of rows for bins, in the order of their first parts; counts of their parts in
 * part_end. */
static void number_rows(sw_rows *rows, walk w, const uint32_t *bin, uint32_t *row_of_bin) {
    uint32_t n_rows = 0;
    for (part p; next(&w, &p);) {
        uint32_t *row = &row_of_bin[bin[p.number]];
        if (*row == SW_NO_BIN)
            *row = n_rows++;
        rows->part_end[*row]++;
    }
    assert(n_rows == rows->n_rows);
}

/* part_end comes as counts; meanwhile it is where the next part of a row goes. */
static void list_parts(sw_rows *rows, walk w, const uint32_t *bin, const uint32_t *row_of_bin) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < rows->n_rows; i++) {
        uint32_t n = rows->part_end[i];
        rows->part_end[i] = sum;
        sum += n;
    }
    for (part p; next(&w, &p);)
        rows->part[rows->part_end[row_of_bin[bin[p.number]]]++] = p.number;
}

static sw_status no_memory(const sw_rows *rows, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory to put %lld documents into rows of %lld tokens",
                   (long long)rows->n_documents, (long long)rows->length);
}

/* From sizes to bins to rows. `size_or_bin`: [n_documents + n_fragments] zeros. */
static sw_status place(sw_rows *rows, walk w, uint32_t *size_or_bin, int64_t n_fragments,
                       sw_error *err) {
    int64_t n_parts = 0;
    uint64_t n_tokens = 0;
    uint32_t n_bins, *row_of_bin = NULL;
    walk from = w;
    for (part p; next(&from, &p); n_parts++) {
        size_or_bin[p.number] = p.n;
        n_tokens += p.n;
        if (p.number >= rows->n_documents)
            rows->fragment[p.number - rows->n_documents] = (sw_fragment){p.position, p.n};
    }
    sw_status status = sw_bins_fit(size_or_bin, rows->n_documents + n_fragments,
                                   (uint32_t)rows->length, &n_bins, err);
    if (status || n_parts == 0 || n_bins == 0)
        return status;
    rows->n_rows = n_bins;
    rows->n_padding = (int64_t)((uint64_t)rows->n_rows * (uint64_t)rows->length - n_tokens);
    rows->part = malloc((size_t)n_parts * sizeof *rows->part);
    rows->part_end = calloc((size_t)n_bins, sizeof *rows->part_end);
    row_of_bin = malloc((size_t)n_bins * sizeof *row_of_bin);
    if (!rows->part || !rows->part_end || !row_of_bin) {
        free(row_of_bin);
        return no_memory(rows, err);
    }
    for (uint32_t b = 0; b < n_bins; b++)
        row_of_bin[b] = SW_NO_BIN;
    number_rows(rows, w, size_or_bin, row_of_bin);
    list_parts(rows, w, size_or_bin, row_of_bin);
    free(row_of_bin);
    return SW_OK;
}

sw_status sw_rows_pack(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                       const sw_documents *documents, bool keeps_all, bool leaves_out,
                       sw_error *err) {
    int64_t end_document;
    if (length > INT32_MAX)
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.sequence_length is %lld; packed rows have at most %d tokens",
                       (long long)length, INT32_MAX);
    *rows = (sw_rows){.first = first, .end = end, .length = length};
    sw_rows_documents(first, end, documents, &rows->first_document, &end_document);
    rows->n_documents = end_document - rows->first_document;
    const walk w = begin(rows, documents, keeps_all, leaves_out);
    walk counted = w;
    for (part p; next(&counted, &p);)
        ;
    const int64_t n = rows->n_documents + counted.n_fragments;
    if (n >= SW_NO_BIN)
        return sw_fail(err, SW_BAD_FILE,
                       "%lld documents and parts of documents are more than can be packed into "
                       "rows, %u; split the "
                       "data into several sources (data.mix), or set data.packing: false",
                       (long long)n, SW_NO_BIN - 1);
    count(rows, documents, keeps_all, leaves_out);
    uint32_t *size_or_bin = calloc((size_t)n + 1, sizeof *size_or_bin);
    rows->fragment = calloc((size_t)counted.n_fragments + 1, sizeof *rows->fragment);
    sw_status status = size_or_bin && rows->fragment
                           ? place(rows, w, size_or_bin, counted.n_fragments, err)
                           : no_memory(rows, err);
    free(size_or_bin);
    return status;
}
