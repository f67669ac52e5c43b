/* agree.h: ranks compare what they are about to do before they do it. */
#ifndef SW_EXECUTE_AGREE_H
#define SW_EXECUTE_AGREE_H

#include <shardwise/launch.h>

#include "comm/mesh.h"

/* The i-th line of what is compared, written into line [bytes], and cut there; returns all its
 * bytes, as snprintf does. */
typedef size_t (*sw_line_fn)(const void *self, int64_t i, char *line, size_t bytes);

/* Collective: do all ranks of each class have the same n lines, to their last bytes? `class` is
 * this rank's; NULL: all ranks must have the same. If not, SW_MISMATCH names `what` and the class,
 * the first line that differs, and two ranks' versions of where it does: equal hashes cost one
 * exchange, a difference is found by halving, first of lines and then of the line's bytes. Of
 * several classes whose ranks disagree one is named. SW_NO_MEMORY: for the longest line. */
sw_status sw_agree(sw_comm *comm, const sw_rank_class *class, const char *what, int64_t n_lines,
                   sw_line_fn line, const void *self, sw_error *err);

#endif
