/* copy.h: a checkpoint from elsewhere becomes one of a run's folder, from which the run goes on. */
#ifndef SW_CHECKPOINT_COPY_H
#define SW_CHECKPOINT_COPY_H

#include "checkpoint/load.h"
#include "checkpoint/storage.h"

/* Copy the checkpoint into `folder`/steps, by who holds the lock of `folder`, which is there and
 * has no checkpoint of this step or a later one. The copy is read again, every byte of it checked
 * by n_threads threads, before it has its name: it is there whole and good or not at all. Errors:
 * SW_BAD_CONFIG (a checkpoint of this step or a later one is there), SW_BAD_FILE (this one is
 * damaged), SW_NO_SPACE. */
sw_status sw_checkpoint_copy(const sw_checkpoint *checkpoint, const sw_storage *storage,
                             const char *folder, int n_threads, sw_error *err);

#endif
