/* ranges.h: how a rank's part of a group lies in a file, cut into ranges.
 *
 * Pieces that are neighbours in the file form one stretch, whatever parameters they belong to. A
 * range ends with its stretch or at a multiple of SW_RANGE_BYTES of the file, so that large ranges
 * begin and end where the disk's blocks do.
 *
 *      file      |      1 MiB      |      1 MiB      |      1 MiB      |
 *      stretch          | w1 ........... | norm | w2 ............ |
 *      ranges           |          |                 |            |
 */
#ifndef SW_CHECKPOINT_RANGES_H
#define SW_CHECKPOINT_RANGES_H

#include "checkpoint/manifest.h"
#include "shard/layout.h"

typedef struct sw_range_part {
    sw_piece piece;
    int64_t first, n; /* elements of the piece */
    int64_t offset;   /* of the first one's bytes in the file */
    bool ends_range;
} sw_range_part;

typedef struct sw_range_walk {
    const sw_layout *layout;
    const int64_t *file_offset; /* of parameters: sw_state_file.offset */
    int group, rank, at;
    bool has_piece;
    sw_piece piece; /* that is walked now */
    int64_t done;   /* elements of it */
} sw_range_walk;

void sw_range_walk_begin(const sw_layout *layout, const int64_t *file_offset, int group, int rank,
                         sw_range_walk *walk);
bool sw_range_walk_next(sw_range_walk *walk,
                        sw_range_part *part); /* false when there are no more */

/* How many ranges the walk has. Each stretch is counted at once, however long it is. */
int64_t sw_range_count(const sw_layout *layout, const int64_t *file_offset, int group, int rank);

#endif
