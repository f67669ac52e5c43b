/* pieces.h: several files of tokens, read as one sequence.
 *
 *   piece     | a.npy .......... | b.npy (part) ... | c.npy ... |
 *   position  0                  n0                 n0+n1
 *
 * Each piece may have marks, one for each token: 1, the token counts when it is the target; without
 * marks all do. Nothing is written after the last piece was added, so ranks may share it, as
 * processes or as threads, each with a reader of its own.
 */
#ifndef SW_DATA_PIECES_H
#define SW_DATA_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"
#include "data/token_file.h"

typedef struct sw_piece {
    sw_token_file tokens, marks;
    bool has_marks;
    int64_t tokens_skip, marks_skip; /* of each file, before the piece */
    int64_t n;
    int64_t first; /* position of its token 0 */
} sw_piece;

typedef struct sw_pieces {
    sw_piece *piece;
    int n, capacity;
    int64_t n_tokens;
} sw_pieces;

/* Add a piece behind the others: `piece` with everything set but `first`, n at least 1. Errors:
 * SW_NO_MEMORY; SW_BAD_FILE beyond 2^63 tokens. */
sw_status sw_pieces_add(sw_pieces *pieces, sw_arena *arena, const sw_piece *piece, sw_error *err);

/* The piece that holds a position. */
const sw_piece *sw_pieces_at(const sw_pieces *pieces, int64_t position);

/* Leave out positions first .. end - 1, which lie behind all that was left out before; later
 * positions are to be given as they are without those. Errors: SW_NO_MEMORY. */
sw_status sw_pieces_remove(sw_pieces *pieces, sw_arena *arena, int64_t first, int64_t end,
                           sw_error *err);

/* Reads pieces, and keeps the files that it read last open: one of tokens, one of marks. For one
 * thread, and for a moment. */
typedef enum sw_number_kind { SW_TOKENS, SW_MARKS, SW_N_NUMBERS } sw_number_kind;
typedef struct sw_pieces_reader {
    const sw_pieces *pieces;
    const char *path[SW_N_NUMBERS]; /* NULL: none is open */
    int descriptor[SW_N_NUMBERS];
} sw_pieces_reader;

/* Ownership: sw_pieces_end, after which it may read on. */
sw_pieces_reader sw_pieces_begin(const sw_pieces *pieces);
void sw_pieces_end(sw_pieces_reader *reader);

/* Tokens, or marks, of positions first .. first + n - 1. No allocation. */
sw_status sw_pieces_read(sw_pieces_reader *reader, sw_number_kind kind, int64_t first, int64_t n,
                         int32_t *numbers, sw_error *err);

/* Has any piece marks? */
bool sw_pieces_have_marks(const sw_pieces *pieces);

#endif
