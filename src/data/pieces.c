/* pieces.c: positions to files. */
#include "data/pieces.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

sw_status sw_pieces_add(sw_pieces *pieces, sw_arena *arena, const sw_piece *piece, sw_error *err) {
    assert(piece->n > 0);
    sw_piece *grown =
        sw_arena_grow(arena, pieces->piece, pieces->n, &pieces->capacity, sizeof *grown);
    if (!grown)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the list of data files",
                       piece->tokens.path);
    pieces->piece = grown;
    grown[pieces->n] = *piece;
    grown[pieces->n].first = pieces->n_tokens;
    if (__builtin_add_overflow(pieces->n_tokens, piece->n, &pieces->n_tokens))
        return sw_fail(err, SW_BAD_FILE, "%s: brings the data to more than 2^63 tokens",
                       piece->tokens.path);
    pieces->n++;
    return SW_OK;
}

static int index_at(const sw_pieces *pieces, int64_t position) {
    int low = 0, high = pieces->n; /* the last that begins at or before it */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (pieces->piece[middle].first <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const sw_piece *sw_pieces_at(const sw_pieces *pieces, int64_t position) {
    assert(position >= 0 && position < pieces->n_tokens);
    return &pieces->piece[index_at(pieces, position)];
}

/* Make `position` the beginning of a piece and return which; n if it is the end of all. */
static sw_status split_at(sw_pieces *pieces, sw_arena *arena, int64_t position, int *index,
                          sw_error *err) {
    if (position == pieces->n_tokens) {
        *index = pieces->n;
        return SW_OK;
    }
    int i = index_at(pieces, position);
    int64_t n_before = position - pieces->piece[i].first;
    *index = n_before ? i + 1 : i;
    if (n_before == 0)
        return SW_OK;
    sw_piece *grown =
        sw_arena_grow(arena, pieces->piece, pieces->n, &pieces->capacity, sizeof *grown);
    if (!grown)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the list of data files",
                       pieces->piece[i].tokens.path);
    pieces->piece = grown;
    memmove(grown + i + 1, grown + i, (size_t)(pieces->n - i) * sizeof *grown);
    pieces->n++;
    grown[i].n = n_before;
    grown[i + 1].n -= n_before;
    grown[i + 1].first += n_before;
    grown[i + 1].tokens_skip += n_before;
    grown[i + 1].marks_skip += n_before;
    return SW_OK;
}

sw_status sw_pieces_remove(sw_pieces *pieces, sw_arena *arena, int64_t first, int64_t end,
                           sw_error *err) {
    int from, to;
    sw_status status = split_at(pieces, arena, first, &from, err);
    if (status == SW_OK)
        status = split_at(pieces, arena, end, &to, err);
    if (status != SW_OK)
        return status;
    memmove(pieces->piece + from, pieces->piece + to,
            (size_t)(pieces->n - to) * sizeof *pieces->piece);
    pieces->n -= to - from;
    for (int i = from; i < pieces->n; i++)
        pieces->piece[i].first -= end - first;
    pieces->n_tokens -= end - first;
    return SW_OK;
}

sw_pieces_reader sw_pieces_begin(const sw_pieces *pieces) {
    return (sw_pieces_reader){.pieces = pieces, .descriptor = {-1, -1}};
}

void sw_pieces_end(sw_pieces_reader *reader) {
    for (int kind = 0; kind < SW_N_NUMBERS; kind++)
        if (reader->descriptor[kind] >= 0)
            close(reader->descriptor[kind]);
    *reader = sw_pieces_begin(reader->pieces);
}

/* Numbers of one file, which stays open in place of the one before. */
static sw_status read_part(sw_pieces_reader *reader, sw_number_kind kind, const sw_token_file *file,
                           int64_t first, int64_t n, int32_t *numbers, sw_error *err) {
    if (reader->path[kind] != file->path) {
        int descriptor;
        sw_status status = sw_token_file_open(file, &descriptor, err);
        if (status != SW_OK)
            return status;
        if (reader->descriptor[kind] >= 0)
            close(reader->descriptor[kind]);
        reader->path[kind] = file->path;
        reader->descriptor[kind] = descriptor;
    }
    return sw_token_file_read(file, reader->descriptor[kind], first, n, numbers, err);
}

sw_status sw_pieces_read(sw_pieces_reader *reader, sw_number_kind kind, int64_t first, int64_t n,
                         int32_t *numbers, sw_error *err) {
    sw_status status = SW_OK;
    assert(n == 0 || (first >= 0 && first + n <= reader->pieces->n_tokens));
    for (const sw_piece *from = n ? sw_pieces_at(reader->pieces, first) : NULL;
         n > 0 && status == SW_OK; from++) {
        int64_t within = first - from->first, left = from->n - within, n_here = n < left ? n : left;
        if (kind == SW_TOKENS)
            status = read_part(reader, kind, &from->tokens, from->tokens_skip + within, n_here,
                               numbers, err);
        else if (from->has_marks)
            status = read_part(reader, kind, &from->marks, from->marks_skip + within, n_here,
                               numbers, err);
        else
            for (int64_t i = 0; i < n_here; i++)
                numbers[i] = 1;
        first += n_here, numbers += n_here, n -= n_here;
    }
    return status;
}

bool sw_pieces_have_marks(const sw_pieces *pieces) {
    for (int i = 0; i < pieces->n; i++)
        if (pieces->piece[i].has_marks)
            return true;
    return false;
}
