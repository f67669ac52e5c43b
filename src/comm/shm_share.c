/* shm_share.c: what ranks of a line make of values that each of them has put into its window: all
 * of them side by side, or their sum.
 *
 * Nothing is sent on from rank to rank: everybody reads what it wants from the windows where it
 * lies, each contribution once. A sum is folded in the order of ranks, block by block where it fits
 * in a near cache, and rounded once.
 */
#include "base/integer.h"
#include "comm/shm.h"
#include "device/parallel.h"

enum { BLOCK_BYTES = 16 << 10, TASK_BYTES = 1 << 20 };

typedef struct share_work {
    const sw_collective *c;
    const sw_device *device; /* one thread of it */
    sw_kernel_fn fold, round;
    int64_t size, real_size; /* bytes of an element: of activations, and of what is summed in */
    int64_t offset;          /* of what this rank takes, in each contribution */
    int64_t n_tasks;         /* of one contribution */
} share_work;

static char *contribution(const share_work *w, int64_t place) {
    return w->c->window + w->c->offset + place * w->c->rank_stride + w->offset;
}

/* Ranks without a micro-batch contribute zeros. */
static void gather_task(void *arg, int64_t task, int worker) {
    (void)worker;
    static const char zeros[BLOCK_BYTES];
    const share_work *w = arg;
    const int64_t place = task / w->n_tasks, begin = task % w->n_tasks * TASK_BYTES,
                  bytes = smaller(TASK_BYTES, w->c->shard_bytes - begin);
    char *destination = (char *)w->c->destination + place * w->c->shard_bytes + begin;
    if (place < w->c->n_contributors)
        w->device->copy(w->device, destination, contribution(w, place) + begin, bytes);
    else
        for (int64_t at = 0; at < bytes; at += BLOCK_BYTES)
            w->device->copy(w->device, destination + at, zeros, smaller(BLOCK_BYTES, bytes - at));
}

static void sum_task(void *arg, int64_t task, int worker) {
    (void)worker;
    enum { SOURCE, SUM };
    const share_work *w = arg;
    _Alignas(64) char block[BLOCK_BYTES];
    const int64_t n_of_block = BLOCK_BYTES / w->real_size,
                  end = smaller((task + 1) * TASK_BYTES, w->c->shard_bytes) / w->size;
    for (int64_t at = task * TASK_BYTES / w->size; at < end; at += n_of_block) {
        const int64_t n = smaller(n_of_block, end - at);
        for (int r = 0; r < w->c->n_contributors; r++) {
            const sw_kernel_call call = {.operand = {contribution(w, r) + at * w->size, block},
                                         .dim = {n},
                                         .accumulate = r > 0 ? 1u << SUM : 0};
            w->fold(w->device, &call);
        }
        const sw_kernel_call call = {.operand = {block, (char *)w->c->destination + at * w->size},
                                     .dim = {n}};
        w->round(w->device, &call);
    }
}

sw_status sw_shm_share(sw_comm *comm, const sw_collective *c, const sw_device *device,
                       sw_number_kind numbers, sw_error *err) {
    uint64_t use;
    sw_status status = sw_shm_use_begin(comm, c, &use, err);
    if (status != SW_OK)
        return status;
    const sw_line line = sw_shm_line(comm, c);
    const bool is_slice = c->share == SW_SHARE_SUM_SLICE, is_gather = c->share == SW_SHARE_GATHER;
    share_work work = {.c = c,
                       .device = device->alone,
                       .fold = sw_device_kernel(device, numbers, SW_KERNEL_FOLD_VALUES),
                       .round = sw_device_kernel(device, numbers, SW_KERNEL_ROUND_SUM),
                       .size = sw_dtype_bytes(sw_activation_type(numbers)),
                       .real_size = sw_dtype_bytes(sw_real_type(numbers)),
                       .offset = is_slice ? sw_shm_place(comm, line) * c->shard_bytes : 0,
                       .n_tasks = (c->shard_bytes + TASK_BYTES - 1) / TASK_BYTES};
    if (c->destination)
        sw_parallel(device, work.n_tasks * (is_gather ? line.n : 1),
                    is_gather ? gather_task : sum_task, &work);
    sw_shm_use_end(comm, c, use);
    return SW_OK;
}
