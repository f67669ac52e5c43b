/* bounce.h: a few buffers on their way to the disk.
 *
 * Who saves takes a buffer, fills it, and sends it off; writing goes on while the next one is
 * filled. Writes go through an io_uring where the kernel has one for us, else they are made at
 * once. What covers whole blocks of the disk goes past the page cache where the file system can do
 * that: a buffer is aligned as its place in the file is.
 */
#ifndef SW_CHECKPOINT_BOUNCE_H
#define SW_CHECKPOINT_BOUNCE_H

#include "checkpoint/storage.h"

#include <shardwise/status.h>

/* Buffers of one rank. */
#define SW_BOUNCE_BUFFERS 4

/* A file that is written: twice open. */
typedef struct sw_bounce_file {
    const char *path;  /* for messages */
    int plain, direct; /* direct: -1 where the file system has no such thing */
} sw_bounce_file;

typedef struct sw_bounce sw_bounce;

/* Errors: SW_NO_MEMORY. Ownership: sw_bounce_close, which takes NULL too and waits for what is on
 * its way. */
sw_status sw_bounce_open(const sw_storage *storage, sw_bounce **bounce, sw_error *err);
void sw_bounce_close(sw_bounce *bounce);

/* Bytes that sw_bounce_open allocates. */
int64_t sw_bounce_memory(void);

/* A free buffer for at most SW_RANGE_BYTES that belong at `offset` of a file; waits until there is
 * one. out: *data, which stays the caller's until it is sent. Errors: an earlier write failed. */
sw_status sw_bounce_take(sw_bounce *bounce, int64_t offset, void **data, sw_error *err);

/* Write the buffer that was taken last: `bytes` from *data at its offset of `file`, which stays
 * open until sw_bounce_wait. */
sw_status sw_bounce_send(sw_bounce *bounce, const sw_bounce_file *file, int64_t bytes,
                         sw_error *err);

/* Wait until all that was sent is written. Errors: the first write that failed; afterwards the
 * buffers may be used anew. */
sw_status sw_bounce_wait(sw_bounce *bounce, sw_error *err);

#endif
