/* storage.h: what saving asks of the system, as a table of calls.
 *
 * Every change that a checkpoint makes on a disk goes through such a table, so that tests can record the changes, refuse them one
 * by one, cut them short, or forget those that no sync had made lasting. Reading needs no table: a damaged file is a file.
 */
#ifndef SW_CHECKPOINT_STORAGE_H
#define SW_CHECKPOINT_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

/* Each returns 0 (open: a descriptor; write: the bytes that it took, which may be fewer than asked), or -errno. */
typedef struct sw_storage {
    void *self;
    int (*make_folder)(void *self, const char *path);
    int (*open)(void *self, const char *path, bool is_direct); /* for writing, made if it is not there; links are not followed */
    int64_t (*write)(void *self, int descriptor, const void *data, int64_t bytes, int64_t offset);
    int (*reserve)(void *self, int descriptor,
                   int64_t bytes); /* the file's size; blocks for all of it where the disk can say so */
    int (*sync)(void *self, int descriptor);
    int (*close)(void *self, int descriptor);
    int (*sync_folder)(void *self, const char *path);
    int (*rename)(void *self, const char *from, const char *to);   /* replaces a file or a link, or an empty folder */
    int (*exchange)(void *self, const char *a, const char *b);     /* both exist; -EINVAL where the file system cannot */
    int (*link)(void *self, const char *target, const char *path); /* a symbolic link */
    int (*remove)(void *self, const char *path);                   /* a file or a link */
    int (*remove_folder)(void *self, const char *path);            /* an empty one */
    bool allows_ring; /* writes may go past the table, through an io_uring: true of the system's alone */
} sw_storage;

/* The system's own calls. */
const sw_storage *sw_storage_system(void);

/* SW_NO_SPACE: "PATH: byte OFFSET cannot be written: reason; what to try". `result` is what a call returned; offset -1: none. */
sw_status sw_storage_fail(sw_error *err, const char *path, int64_t offset, int result);

/* All of data [bytes] at `offset`: what is written in parts or interrupted goes on. `path` is for messages. */
sw_status sw_storage_write(const sw_storage *storage, const char *path, int descriptor, const void *data, int64_t bytes,
                           int64_t offset, sw_error *err);

#endif
