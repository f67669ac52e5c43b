/* verify.c: every byte of a checkpoint against its checksums, by several threads that take range
 * after range. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "checkpoint/load_internal.h"

enum { MAX_THREADS = 256 };

typedef struct job {
    const sw_checkpoint *checkpoint;
    atomic_llong next; /* range of all files, one file after the other */
    atomic_llong n_damaged, first_damaged;
    pthread_mutex_t lock; /* of the first error by its range, which all threads may find */
    sw_status status;
    sw_error err;
} job;

/* The i-th range of all files; false beyond the last. */
static bool locate(const sw_checkpoint *c, int64_t i, sw_state_kind *kind, int64_t *range) {
    for (int k = 0; k < SW_N_STATE_KINDS; k++) {
        if (i < c->manifest.file[k].n_ranges) {
            *kind = (sw_state_kind)k;
            *range = i;
            return true;
        }
        i -= c->manifest.file[k].n_ranges;
    }
    return false;
}

static void report(job *j, int64_t i, sw_status status, const sw_error *err) {
    pthread_mutex_lock(&j->lock);
    if (status == SW_BAD_FILE)
        atomic_fetch_add(&j->n_damaged, 1);
    if (j->status == SW_OK || i < atomic_load(&j->first_damaged)) {
        j->status = status;
        j->err = *err;
        atomic_store(&j->first_damaged, i);
    }
    pthread_mutex_unlock(&j->lock);
}

static void *work(void *arg) {
    job *j = arg;
    sw_state_kind kind;
    int64_t range, i;
    sw_error err;
    void *buffer = malloc(SW_RANGE_BYTES);
    if (!buffer) {
        sw_fail(&err, SW_NO_MEMORY, "%s: no memory for %d bytes to read with", j->checkpoint->path,
                SW_RANGE_BYTES);
        report(j, -1, SW_NO_MEMORY, &err);
        return NULL;
    }
    while (locate(j->checkpoint, i = atomic_fetch_add(&j->next, 1), &kind, &range)) {
        sw_status status = sw_range_read(j->checkpoint, kind, range, buffer, &err);
        if (status != SW_OK)
            report(j, i, status, &err);
    }
    free(buffer);
    return NULL;
}

sw_status sw_checkpoint_verify(const sw_checkpoint *checkpoint, int n_threads, sw_error *err) {
    job j = {.checkpoint = checkpoint, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[MAX_THREADS];
    int n_started = 0;
    while (n_started < n_threads - 1 && n_started < MAX_THREADS &&
           pthread_create(&threads[n_started], NULL, work, &j) == 0)
        n_started++; /* one that cannot be had is done without */
    work(&j);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&j.lock);
    int64_t more = atomic_load(&j.n_damaged) - 1;
    if (j.status != SW_OK && more > 0)
        return sw_fail(err, j.status, "%s; and %lld more ranges of this checkpoint are",
                       j.err.message, (long long)more);
    if (j.status != SW_OK && err)
        *err = j.err;
    return j.status;
}

sw_status sw_checkpoint_open_good(const char *path, int n_threads, sw_checkpoint **checkpoint,
                                  sw_error *err) {
    bool was_replaced = true;
    sw_status status = SW_BAD_FILE;
    for (int i = 0; i < 2 && status == SW_BAD_FILE && was_replaced; i++) {
        status = sw_checkpoint_open(path, checkpoint, err);
        if (status != SW_OK)
            return status;
        status = sw_checkpoint_verify(*checkpoint, n_threads, err);
        if (status == SW_OK)
            return status;
        was_replaced = sw_checkpoint_was_replaced(*checkpoint);
        sw_checkpoint_close(*checkpoint);
        *checkpoint = NULL;
    }
    return status == SW_BAD_FILE && was_replaced
               ? sw_fail_within(err, "it was replaced while it was read")
               : status;
}
