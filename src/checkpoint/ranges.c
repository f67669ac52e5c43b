/* ranges.c: see ranges.h. */
#include "checkpoint/ranges.h"

static int64_t offset_here(const sw_range_walk *walk) {
    return walk->file_offset[walk->piece.parameter->id] +
           (int64_t)sizeof(float) * (walk->piece.first + walk->done);
}

static void next_piece(sw_range_walk *walk) {
    walk->done = 0;
    walk->has_piece =
        sw_layout_next_piece(walk->layout, walk->group, walk->rank, &walk->at, &walk->piece);
}

void sw_range_walk_begin(const sw_layout *layout, const int64_t *file_offset, int group, int rank,
                         sw_range_walk *walk) {
    *walk =
        (sw_range_walk){.layout = layout, .file_offset = file_offset, .group = group, .rank = rank};
    next_piece(walk);
}

bool sw_range_walk_next(sw_range_walk *walk, sw_range_part *part) {
    if (!walk->has_piece)
        return false;
    int64_t offset = offset_here(walk), most = (offset / SW_RANGE_BYTES + 1) * SW_RANGE_BYTES;
    int64_t n = walk->piece.length - walk->done, room = (most - offset) / (int64_t)sizeof(float);
    n = n < room ? n : room;
    *part = (sw_range_part){.piece = walk->piece, .first = walk->done, .n = n, .offset = offset};
    int64_t end = offset + n * (int64_t)sizeof(float);
    walk->done += n;
    if (walk->done == walk->piece.length)
        next_piece(walk);
    part->ends_range = end == most || !walk->has_piece || offset_here(walk) != end;
    return true;
}

int64_t sw_range_count(const sw_layout *layout, const int64_t *file_offset, int group, int rank) {
    sw_range_walk walk;
    int64_t n = 0, end = -1;
    for (sw_range_walk_begin(layout, file_offset, group, rank, &walk); walk.has_piece;
         next_piece(&walk)) {
        int64_t begin = offset_here(&walk);
        bool goes_on =
            begin == end && begin % SW_RANGE_BYTES; /* the last range of the stretch so far */
        end = begin + (int64_t)sizeof(float) * walk.piece.length;
        n += (end - 1) / SW_RANGE_BYTES - begin / SW_RANGE_BYTES + !goes_on;
    }
    return n;
}
