/* saved_state.h: what a checkpoint holds of an owner's slice, out of this rank's buffers. */
#ifndef SW_TRAIN_SAVED_STATE_H
#define SW_TRAIN_SAVED_STATE_H

#include "checkpoint/save.h"
#include "execute/masters.h"

/* A sw_fetch_state_fn; `masters` is a sw_masters. */
sw_status sw_saved_state_fetch(void *masters, sw_state_kind kind, int group, const sw_piece *piece,
                               int64_t first, int64_t n, float *values, sw_error *err);

#endif
