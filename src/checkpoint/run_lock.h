/* run_lock.h: one run in a folder at a time.
 *
 * The lock is flock(2) on the file `.lock` of the folder, and belongs to the open file that is
 * inherited over fork: a run holds it until the last of its processes has ended, however it ends,
 * and nothing has to be cleaned up. The file stays: removing it would let two runs lock two files
 * of one name.
 *
 * Some file systems have no locks (Lustre mounted without them, NFS without its lock daemon, some
 * of FUSE). There the folder is not protected, which is told, and is no reason not to run.
 */
#ifndef SW_CHECKPOINT_RUN_LOCK_H
#define SW_CHECKPOINT_RUN_LOCK_H

#include <stddef.h>

#include <shardwise/status.h>

typedef struct sw_run_lock {
    int descriptor; /* -1: not held */
    int missing;    /* the errno with which the file system said that it has no locks; 0: it has */
} sw_run_lock;

/* Take the lock of a folder, which exists, without waiting; before ranks are forked. Errors:
 * SW_BAD_CONFIG: another run holds it (its process and host are named); SW_NO_SPACE: the folder
 * cannot be written (its owner is named). */
sw_status sw_run_lock_take(const char *folder, sw_run_lock *lock, sw_error *err);

/* What to say of a folder whose lock is missing. */
void sw_run_lock_warning(const sw_run_lock *lock, const char *folder, char *text, size_t bytes);

/* Give this process's part of it back. */
void sw_run_lock_release(sw_run_lock *lock);

#endif
