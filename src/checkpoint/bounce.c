/* bounce.c: see bounce.h. */
#include "checkpoint/bounce.h"
#include "checkpoint/manifest.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <time.h>

/* Offsets, lengths and memory of direct writes are multiples of this. Shorter stretches gain
 * nothing by going past the cache. */
enum { BLOCK_BYTES = 4096, LEAST_DIRECT_BYTES = 64 << 10 };

/* Calls on the ring that may fail one after the other, and the pause between two looks at one that
 * cannot be waited for. */
enum { MOST_TRIES = 10000, LOOK_NS = 200000 };

typedef struct buffer {
    char *memory; /* [SW_RANGE_BYTES + BLOCK_BYTES] aligned to BLOCK_BYTES */
    bool is_on_its_way;
    /* the write that is on its way */
    const sw_bounce_file *file;
    char *data;
    int64_t bytes, offset;
} buffer;

struct sw_bounce {
    const sw_storage *storage;
    bool has_ring;  /* there is one, to be given back in the end */
    bool is_broken; /* and it takes no more writes: a call on it has failed */
    struct io_uring ring;
    char *memory;
    buffer buffer[SW_BOUNCE_BUFFERS];
    int taken;        /* index of the buffer that was taken last */
    sw_status status; /* of the first write that failed */
    sw_error err;
};

enum { BUFFER_BYTES = SW_RANGE_BYTES + BLOCK_BYTES };

int64_t sw_bounce_memory(void) {
    return (int64_t)sizeof(sw_bounce) + (int64_t)SW_BOUNCE_BUFFERS * BUFFER_BYTES;
}

sw_status sw_bounce_open(const sw_storage *storage, sw_bounce **bounce, sw_error *err) {
    sw_bounce *b = calloc(1, sizeof *b);
    if (b)
        b->memory = aligned_alloc(BLOCK_BYTES, (size_t)SW_BOUNCE_BUFFERS * BUFFER_BYTES);
    if (!b || !b->memory) {
        free(b);
        return sw_fail(err, SW_NO_MEMORY, "no memory for %d buffers of %d bytes to save with",
                       SW_BOUNCE_BUFFERS, BUFFER_BYTES);
    }
    b->storage = storage;
    for (int i = 0; i < SW_BOUNCE_BUFFERS; i++)
        b->buffer[i].memory = b->memory + (size_t)i * BUFFER_BYTES;
    /* A kernel that refuses (too old, forbidden, limits) is no error: writes are made at once
     * then. */
    b->has_ring = storage->allows_ring && io_uring_queue_init(SW_BOUNCE_BUFFERS, &b->ring, 0) == 0;
    *bounce = b;
    return SW_OK;
}

void sw_bounce_close(sw_bounce *bounce) {
    if (!bounce)
        return;
    sw_bounce_wait(bounce, NULL);
    if (bounce->has_ring)
        io_uring_queue_exit(&bounce->ring);
    free(bounce->memory);
    free(bounce);
}

static void note(sw_bounce *b, sw_status status) {
    if (b->status == SW_OK)
        b->status = status;
}

/* A write came back from the ring. What it left undone, or could not do in this way, is done in the
 * plain way, which also finds the reason if there is one. */
static void complete(sw_bounce *b, buffer *of, int64_t result) {
    int64_t done = result > 0 ? result : 0;
    sw_error err;
    of->is_on_its_way = false;
    if (b->status == SW_OK && done < of->bytes &&
        sw_storage_write(b->storage, of->file->path, of->file->plain, of->data + done,
                         of->bytes - done, of->offset + done, &err) != SW_OK) {
        note(b, err.status);
        b->err = err;
    }
}

/* May a call on the ring be made again? Where it fails otherwise, or again and again (a sandbox
 * forbids it, memory is short), the ring takes no more: what it has taken is waited for, and all
 * else is written in the plain way. */
static bool may_try_again(sw_bounce *b, int result, int *n_tries) {
    b->is_broken |= result < 0 && ((result != -EINTR && result != -EAGAIN && result != -EBUSY) ||
                                   ++*n_tries >= MOST_TRIES);
    return result < 0 && !b->is_broken;
}

/* Wait until one write is done. The ring holds at least one; where the kernel cannot be asked to
 * wait, its memory is looked at until it says so. */
static void wait_for_one(sw_bounce *b) {
    struct io_uring_cqe *cqe = NULL;
    int result = -1, n_tries = 0;
    while (result && !b->is_broken) {
        result = io_uring_wait_cqe(&b->ring, &cqe);
        may_try_again(b, result, &n_tries);
    }
    while (result && io_uring_peek_cqe(&b->ring, &cqe))
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    complete(b, io_uring_cqe_get_data(cqe), cqe->res);
    io_uring_cqe_seen(&b->ring, cqe);
}

static sw_status failure(sw_bounce *b, sw_error *err) {
    if (err)
        *err = b->err;
    return b->status;
}

sw_status sw_bounce_take(sw_bounce *bounce, int64_t offset, void **data, sw_error *err) {
    for (;;) {
        if (bounce->status != SW_OK)
            return failure(bounce, err);
        for (int i = 0; i < SW_BOUNCE_BUFFERS; i++) {
            buffer *free_one = &bounce->buffer[i];
            if (free_one->is_on_its_way)
                continue;
            bounce->taken = i;
            free_one->offset = offset;
            free_one->data = free_one->memory + offset % BLOCK_BYTES;
            *data = free_one->data;
            return SW_OK;
        }
        wait_for_one(bounce);
    }
}

/* Give a buffer's write to the ring. A buffer has one at most, and the ring has room for all. What
 * the kernel does not take is left in the ring, which is never handed to the kernel again, and is
 * written in the plain way. */
static void submit(sw_bounce *b, buffer *of, int descriptor) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&b->ring);
    assert(sqe);
    io_uring_prep_write(sqe, descriptor, of->data, (unsigned)of->bytes, (uint64_t)of->offset);
    io_uring_sqe_set_data(sqe, of);
    of->is_on_its_way = true;
    int n_tries = 0;
    while (may_try_again(b, io_uring_submit(&b->ring), &n_tries))
        ;
    if (b->is_broken && io_uring_sq_ready(&b->ring))
        complete(b, of, 0);
}

sw_status sw_bounce_send(sw_bounce *bounce, const sw_bounce_file *file, int64_t bytes,
                         sw_error *err) {
    buffer *of = &bounce->buffer[bounce->taken];
    int64_t begin = of->offset, end = begin + bytes;
    int64_t first = (begin + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES,
            last = end / BLOCK_BYTES * BLOCK_BYTES;
    char *data = of->data;
    of->file = file;
    of->bytes = bytes;
    if (!bounce->has_ring || bounce->is_broken)
        return sw_storage_write(bounce->storage, file->path, file->plain, data, bytes, begin, err);
    if (file->direct < 0 || last - first < LEAST_DIRECT_BYTES) {
        submit(bounce, of, file->plain);
        return SW_OK;
    }
    /* The ends share their blocks with other ranges. */
    sw_status status =
        sw_storage_write(bounce->storage, file->path, file->plain, data, first - begin, begin, err);
    if (status == SW_OK)
        status = sw_storage_write(bounce->storage, file->path, file->plain, data + (last - begin),
                                  end - last, last, err);
    if (status != SW_OK)
        return status;
    of->data = data + (first - begin);
    of->offset = first;
    of->bytes = last - first;
    submit(bounce, of, file->direct);
    return SW_OK;
}

sw_status sw_bounce_wait(sw_bounce *bounce, sw_error *err) {
    for (int i = 0; i < SW_BOUNCE_BUFFERS; i++)
        while (bounce->buffer[i].is_on_its_way)
            wait_for_one(bounce);
    sw_status status = bounce->status != SW_OK ? failure(bounce, err) : SW_OK;
    bounce->status = SW_OK;
    return status;
}
