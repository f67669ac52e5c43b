/* saved_state.c: see saved_state.h. */
#include "train/saved_state.h"

sw_status sw_saved_state_fetch(void *masters, sw_state_kind kind, int group, const sw_piece *piece,
                               int64_t first, int64_t n, float *values, sw_error *err) {
    if (kind == SW_STATE_MASTER)
        return sw_masters_fetch(masters, group, piece, first, n, values, err);
    sw_masters_fetch_state(masters, sw_state_of_optimizer(kind), group, piece, first, n, values);
    return SW_OK;
}
