/* storage.h: what saving asks of the system, as a table of calls.
 *
 * Every change that a checkpoint makes on a disk goes through such a table, so that tests can
 * record the changes, refuse them one by one, cut them short, or forget those that no sync had made
 * lasting. Reading needs no table: a damaged file is a file.
 */
#ifndef SW_CHECKPOINT_STORAGE_H
#define SW_CHECKPOINT_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

/* The calls, CALL(result, name, parameters). Each returns 0 (open: a descriptor; write: the bytes
 * that it took, which may be fewer than asked), or -errno.
 *
 *   open           for writing, made if it is not there; links are not followed
 *   reserve        the file's size; blocks for all of it where the disk can say so
 *   rename         replaces a file or a link, or an empty folder
 *   exchange       both exist; -EINVAL where the file system cannot
 *   link           a symbolic link; -EOPNOTSUPP where the file system has none
 *   remove         a file or a link
 *   remove_folder  an empty one
 */
#define SW_STORAGE_CALLS(CALL)                                                          \
    CALL(int, make_folder, (void *self, const char *path))                              \
    CALL(int, open, (void *self, const char *path, bool is_direct))                     \
    CALL(int64_t, write,                                                                \
         (void *self, int descriptor, const void *data, int64_t bytes, int64_t offset)) \
    CALL(int, reserve, (void *self, int descriptor, int64_t bytes))                     \
    CALL(int, sync, (void *self, int descriptor))                                       \
    CALL(int, close, (void *self, int descriptor))                                      \
    CALL(int, sync_folder, (void *self, const char *path))                              \
    CALL(int, rename, (void *self, const char *from, const char *to))                   \
    CALL(int, exchange, (void *self, const char *a, const char *b))                     \
    CALL(int, link, (void *self, const char *target, const char *path))                 \
    CALL(int, remove, (void *self, const char *path))                                   \
    CALL(int, remove_folder, (void *self, const char *path))

typedef struct sw_storage {
    void *self;
    bool allows_ring; /* writes may go past the table, through an io_uring: true of the system's
                         alone */
#define SW_STORAGE_MEMBER(result, name, parameters) result(*name) parameters;
    SW_STORAGE_CALLS(SW_STORAGE_MEMBER)
#undef SW_STORAGE_MEMBER
} sw_storage;

/* Fills a table from functions that are called call_NAME: (sw_storage){.self = ...,
 * SW_STORAGE_CALLS(SW_STORAGE_FILL)}. */
#define SW_STORAGE_FILL(result, name, parameters) .name = call_##name,

/* The system's own calls. */
const sw_storage *sw_storage_system(void);

/* SW_NO_SPACE: "PATH: byte OFFSET cannot be written: reason; what to try". `result` is what a call
 * returned; offset -1: none. */
sw_status sw_storage_fail(sw_error *err, const char *path, int64_t offset, int result);

/* A call on a path that must succeed: SW_OK, or sw_storage_fail's error. */
sw_status sw_storage_expect(int result, const char *path, sw_error *err);

/* All of data [bytes] at `offset`: what is written in parts or interrupted goes on. `path` is for
 * messages. */
sw_status sw_storage_write(const sw_storage *storage, const char *path, int descriptor,
                           const void *data, int64_t bytes, int64_t offset, sw_error *err);

#endif
