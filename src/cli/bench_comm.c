/* bench_comm.c: shardwise bench comm: what each collective costs beside a copy of as many bytes.
 *
 * Ranks are launched once for each mode and go through the sizes together. A call is timed alone,
 * right after a barrier, many times; a figure is the median of a rank's calls, and of the ranks the
 * slowest. `bytes` is the whole unit, all ranks' slices together: as much as a gather brings to
 * every rank, and as a reduce reads in every rank.
 *
 *   memcpy    private memory to private memory, all ranks at the same time: what the others are
 *             held against
 *   gather    publish the own slice, then gather. view: nothing moves. copy: into private memory.
 *             trap: a view, whose foreign slices are opened and closed again
 *   reduce    acquire, post, and sum the own slice over all ranks
 *   exchange  `bytes` of each rank to all (what decides an update); publish: the owner's side of a
 *             gather alone; barrier
 *
 * Up to the size of a cache the data is found there, in training it rarely is: the largest sizes
 * say what a step pays.
 */
#include "cli/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "comm/comm.h"
#include "device/cpu/open.h"
#include "launch/launch.h"

enum {
    MOST_CALLS = 2000,
    LEAST_CALLS = 7,
    WARM_UPS = 3,
    MOST_POINTS = 256,
    SIZE_STEP = 4,
    LEAST_BYTES = 256
};
enum { GATHER_CHANNEL, REDUCE_CHANNEL, PUBLISH_CHANNEL, N_CHANNELS };

/* One line of the report; written by rank 0 into memory that it shares with the caller. */
typedef struct point {
    const char *call, *mode; /* literals; mode "" where it makes no difference */
    int64_t bytes;           /* 0: none move */
    int64_t n_calls;
    double seconds, memcpy_seconds; /* memcpy_seconds: of as many bytes; 0: nothing to compare */
} point;

typedef struct results {
    int n;
    point point[MOST_POINTS];
} results;

typedef struct plan {
    int64_t n_ranks, least_bytes, most_bytes;
    double seconds; /* to spend on each line */
    sw_shm_mode mode;
    results *results;
} plan;

/* One rank on its way through the sizes. */
typedef struct bench_rank {
    const plan *plan;
    sw_comm *comm;
    sw_device *device;
    sw_window parameters, gradients; /* [most], [n_ranks * most] */
    char *from, *to;                 /* [most] private */
    int64_t most, page;              /* most: the largest unit, padded for its cuts */
    uint64_t epoch, publish_epoch;
    int64_t bytes; /* of the unit at hand */
    double samples[MOST_CALLS];
} bench_rank;

typedef sw_status (*call_fn)(bench_rank *b, sw_error *err);

/* ---- the calls that are timed ---- */

static sw_status call_memcpy(bench_rank *b, sw_error *err) {
    (void)err;
    memcpy(b->to, b->from, (size_t)b->bytes);
    __asm__ volatile("" : : "r"(b->to) : "memory"); /* the copy is wanted */
    return SW_OK;
}

static sw_collective gather_of(bench_rank *b) {
    int64_t slice = b->bytes / b->comm->n_ranks;
    return (sw_collective){.channel = GATHER_CHANNEL,
                           .epoch = b->epoch++,
                           .unit_name = "bench",
                           .dtype = SW_F32,
                           .shard_bytes = slice,
                           .window = b->parameters.base,
                           .rank_stride = slice,
                           .destination = b->comm->mode == SW_SHM_COPY ? b->to : NULL};
}

/* Open or close the slices of the other ranks, as the executor does around a unit. */
static sw_status protect_foreign(bench_rank *b, sw_page_access access, sw_error *err) {
    int64_t slice = b->bytes / b->comm->n_ranks;
    sw_status status = SW_OK;
    for (int r = 0; r < b->comm->n_ranks && !status; r++)
        if (r != b->comm->rank)
            status = sw_comm_protect(b->comm, b->parameters.base + r * slice, (size_t)slice, access,
                                     err);
    return status;
}

static sw_status call_gather(bench_rank *b, sw_error *err) {
    sw_collective c = gather_of(b);
    sw_status status = b->comm->vtable->gather_publish(b->comm, &c, err);
    if (!status)
        status = b->comm->vtable->gather(b->comm, &c, err);
    if (!status && b->comm->mode == SW_SHM_TRAP)
        status = protect_foreign(b, SW_PAGE_READ, err);
    if (!status && b->comm->mode == SW_SHM_TRAP)
        status = protect_foreign(b, SW_PAGE_NONE, err);
    return status;
}

static sw_status call_publish(bench_rank *b, sw_error *err) {
    sw_collective c = {.channel = PUBLISH_CHANNEL,
                       .epoch = b->publish_epoch++,
                       .unit_name = "bench",
                       .dtype = SW_F32};
    return b->comm->vtable->gather_publish(b->comm, &c, err);
}

static sw_status call_reduce(bench_rank *b, sw_error *err) {
    sw_collective c = {.channel = REDUCE_CHANNEL,
                       .unit_name = "bench",
                       .dtype = SW_F32,
                       .shard_bytes = b->bytes / b->comm->n_ranks,
                       .window = b->gradients.base,
                       .rank_stride = b->most,
                       .destination = b->to,
                       .n_contributors = b->comm->n_ranks};
    sw_status status = b->comm->vtable->reduce_acquire(b->comm, &c, err);
    if (!status)
        status = b->comm->vtable->reduce_post(b->comm, &c, err);
    return status ? status
                  : b->comm->vtable->reduce_sum(b->comm, &c, b->device, SW_NUMBERS_F32, err);
}

static sw_status call_exchange(bench_rank *b, sw_error *err) {
    return sw_exchange(b->comm, b->from, b->to, (size_t)b->bytes, err);
}

static sw_status call_barrier(bench_rank *b, sw_error *err) {
    return sw_barrier(b->comm, err);
}

/* ---- timing ---- */

static sw_status time_call(bench_rank *b, call_fn call, double *seconds, sw_error *err) {
    sw_status status = sw_barrier(b->comm, err);
    double begin = sw_seconds_now();
    if (!status)
        status = call(b, err);
    *seconds = sw_seconds_now() - begin;
    return status;
}

/* The largest of what the ranks give. */
static sw_status slowest(bench_rank *b, double *seconds, sw_error *err) {
    double all[SW_MAX_RANKS];
    sw_status status = sw_exchange(b->comm, seconds, all, sizeof *seconds, err);
    for (int r = 0; r < b->comm->n_ranks && !status; r++)
        *seconds = fmax(*seconds, all[r]);
    return status;
}

/* Time `call` for about plan->seconds, the same number of calls in all ranks. */
static sw_status measure(bench_rank *b, call_fn call, double *seconds, int64_t *n_calls,
                         sw_error *err) {
    double one = 0;
    sw_status status = SW_OK;
    for (int i = 0; i < WARM_UPS && !status; i++)
        status = time_call(b, call, &one, err);
    if (!status)
        status = slowest(b, &one, err);
    double wanted = b->plan->seconds / fmax(one, 1e-9);
    *n_calls = wanted < LEAST_CALLS  ? LEAST_CALLS
               : wanted > MOST_CALLS ? MOST_CALLS
                                     : (int64_t)wanted;
    for (int64_t i = 0; i < *n_calls && !status; i++)
        status = time_call(b, call, &b->samples[i], err);
    if (status)
        return status;
    *seconds = sw_bench_median(b->samples, *n_calls);
    return slowest(b, seconds, err);
}

static sw_status add_point(bench_rank *b, const char *name, const char *mode, call_fn call,
                           double memcpy_seconds, double *seconds, sw_error *err) {
    int64_t n_calls;
    sw_status status = measure(b, call, seconds, &n_calls, err);
    results *all = b->plan->results;
    if (!status && b->comm->rank == 0 && all->n < MOST_POINTS)
        all->point[all->n++] = (point){name, mode, b->bytes, n_calls, *seconds, memcpy_seconds};
    return status;
}

/* A unit of about `bytes` whose cuts are multiples of `unit`. */
static int64_t padded(int64_t bytes, int64_t n_ranks, int64_t unit) {
    int64_t step = n_ranks * unit;
    return (bytes + step - 1) / step * step;
}

static sw_status measure_size(bench_rank *b, int64_t bytes, sw_error *err) {
    static const char *const modes[] = {"view", "copy", "trap"};
    sw_shm_mode mode = b->comm->mode;
    double copy, ignored;
    int64_t cut = mode == SW_SHM_TRAP ? b->page : SW_BLOCK * (int64_t)sizeof(float),
            before = b->bytes;
    b->bytes = padded(bytes, b->comm->n_ranks, cut);
    if (b->bytes == before)
        return SW_OK;
    sw_status status = mode == SW_SHM_VIEW ? add_point(b, "memcpy", "", call_memcpy, 0, &copy, err)
                                           : measure(b, call_memcpy, &copy, &(int64_t){0}, err);
    if (!status)
        status = add_point(b, "gather", modes[mode], call_gather, mode == SW_SHM_COPY ? copy : 0,
                           &ignored, err);
    if (!status && mode == SW_SHM_TRAP)
        status = protect_foreign(b, SW_PAGE_WRITE, err); /* the next size cuts elsewhere */
    if (!status && mode == SW_SHM_VIEW)
        status = add_point(b, "reduce", "", call_reduce, copy, &ignored, err);
    return status;
}

static sw_status measure_small(bench_rank *b, sw_error *err) {
    double ignored;
    b->bytes = 0;
    sw_status status = add_point(b, "barrier", "", call_barrier, 0, &ignored, err);
    if (!status)
        status = add_point(b, "publish", "", call_publish, 0, &ignored, err);
    for (b->bytes = LEAST_BYTES; b->bytes <= SW_EXCHANGE_BYTES && !status; b->bytes *= SIZE_STEP)
        status = add_point(b, "exchange", "", call_exchange, 0, &ignored, err);
    b->bytes = 0;
    return status;
}

static sw_status open_rank(bench_rank *b, sw_error *err) {
    int64_t n_ranks = b->comm->n_ranks,
            all = b->most > n_ranks * SW_EXCHANGE_BYTES ? b->most : n_ranks * SW_EXCHANGE_BYTES;
    b->from = malloc((size_t)all);
    b->to = malloc((size_t)all);
    if (!b->from || !b->to)
        return sw_fail(err, SW_NO_MEMORY,
                       "rank %d: no memory for units of %" PRId64 " bytes; take a smaller --most",
                       b->comm->rank, b->most);
    memset(b->from, 0, (size_t)all);
    memset(b->to, 0, (size_t)all);
    sw_status status =
        b->comm->vtable->window_create(b->comm, "parameters", b->most, &b->parameters, err);
    if (!status)
        status = b->comm->vtable->window_create(b->comm, "gradients", n_ranks * b->most,
                                                &b->gradients, err);
    for (int channel = 0; channel < N_CHANNELS && !status; channel++)
        status = b->comm->vtable->channel_open(
            b->comm, channel, channel == REDUCE_CHANNEL ? SW_CHANNEL_REDUCES : SW_CHANNEL_GATHERS,
            err);
    if (!status)
        status = sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best(), .n_threads = 1},
                             &b->device, err);
    if (status)
        return status;
    memset(b->parameters.base + b->comm->rank * (b->most / n_ranks), 0,
           (size_t)(b->most / n_ranks));
    memset(b->gradients.base + b->comm->rank * b->most, 0, (size_t)b->most);
    if ((status = sw_barrier(b->comm, err)))
        return status;
    for (int64_t at = 0; at < b->most; at += b->page) /* mapped here too, as after a first step */
        (void)*(volatile const char *)(b->parameters.base + at);
    return SW_OK;
}

static sw_status run_rank(sw_comm *comm, void *arg, sw_error *err) {
    const plan *p = arg;
    bench_rank *b = calloc(1, sizeof *b);
    if (!b)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory", comm->rank);
    b->plan = p;
    b->comm = comm;
    b->page = sysconf(_SC_PAGESIZE);
    b->most = padded(p->most_bytes, comm->n_ranks, b->page);
    sw_status status = open_rank(b, err);
    if (!status && comm->mode == SW_SHM_VIEW)
        status = measure_small(b, err);
    for (int64_t bytes = p->least_bytes; bytes <= p->most_bytes && !status; bytes *= SIZE_STEP)
        status = measure_size(b, bytes, err);
    if (b->device)
        b->device->close(b->device);
    free(b->from);
    free(b->to);
    free(b);
    return status;
}

/* ---- the report ---- */

static void print_table(const plan *p) {
    char bytes[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES], of_memcpy[16];
    printf("%" PRId64 " ranks, kernels %s. A call's median time in the slowest rank; rate: bytes "
           "of the unit / time; of memcpy: a\n"
           "copy of as many bytes by all ranks at once / time.\n\n%-9s %-5s %10s %12s %12s %10s\n",
           p->n_ranks, sw_kernel_set_name(sw_kernel_set_best()), "call", "mode", "bytes", "us",
           "GB/s", "of memcpy");
    for (int i = 0; i < p->results->n; i++) {
        const point *at = &p->results->point[i];
        bool moves = at->bytes && (strcmp(at->call, "gather") != 0 || !strcmp(at->mode, "copy"));
        snprintf(rate, sizeof rate, "%.3f", (double)at->bytes / at->seconds / 1e9);
        snprintf(of_memcpy, sizeof of_memcpy, "%.2f", at->memcpy_seconds / at->seconds);
        printf("%-9s %-5s %10s %12.3f %12s %10s\n", at->call, at->mode,
               at->bytes ? sw_text_bytes(at->bytes, bytes, sizeof bytes) : "", at->seconds * 1e6,
               moves ? rate : "", at->memcpy_seconds > 0 ? of_memcpy : "");
    }
}

static json_t *json_point(const point *at) {
    json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:o}", "call", at->call, "mode", at->mode,
                               "bytes", (json_int_t)at->bytes, "calls", (json_int_t)at->n_calls,
                               "seconds", sw_json_number(at->seconds));
    if (object && at->memcpy_seconds > 0)
        json_object_set_new(object, "memcpy_seconds", sw_json_number(at->memcpy_seconds));
    return object;
}

static json_t *make_report(const plan *p, json_t *machine) {
    json_t *calls = json_array();
    for (int i = 0; i < p->results->n && calls; i++)
        if (json_array_append_new(calls, json_point(&p->results->point[i]))) {
            json_decref(calls);
            calls = NULL;
        }
    return json_pack("{s:{s:I, s:I, s:I, s:o, s:s}, s:o, s:o}", "configuration", "ranks",
                     (json_int_t)p->n_ranks, "least_bytes", (json_int_t)p->least_bytes,
                     "most_bytes", (json_int_t)p->most_bytes, "seconds_per_line",
                     sw_json_number(p->seconds), "kernel_set",
                     sw_kernel_set_name(sw_kernel_set_best()), "machine", machine, "calls", calls);
}

static sw_status run_modes(plan *p, sw_error *err) {
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = (int)p->n_ranks;
    p->results =
        mmap(NULL, sizeof *p->results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->results == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the results: %s · shardwise bench comm",
                       strerror(errno));
    sw_status status = SW_OK;
    for (p->mode = SW_SHM_VIEW; p->mode <= SW_SHM_TRAP && !status; p->mode++) {
        options.mode = p->mode;
        status = sw_launch_as(&sw_launch_plain_words, &options, NULL, run_rank, p, err);
    }
    return status;
}

static sw_status comm(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    sw_bench_output output = {0};
    const char *least = "256", *most = "256MiB";
    plan p = {.n_ranks = 2, .seconds = 0.05};
    const sw_flag flags[] = {
        {"--ranks", "N", "processes that take part (default 2)", SW_FLAG_COUNT, &p.n_ranks, 1,
         SW_MAX_RANKS},
        {"--least", "BYTES", "smallest unit (default 256)", SW_FLAG_TEXT, &least},
        {"--most", "BYTES", "largest unit (default 256MiB)", SW_FLAG_TEXT, &most},
        {"--seconds", "S", "seconds for each line (default 0.05)", SW_FLAG_REAL, &p.seconds, 0, 60},
        SW_BENCH_OUTPUT_FLAGS(output),
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const int64_t largest = INT64_C(1) << 36;
    const char **others;
    int n_others;
    sw_status status =
        sw_arguments_begin(&sw_bench_comm, n_arguments, arguments, flags, N_FLAGS, 0,
                           "shardwise bench comm", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_bench_comm, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others)
        status = sw_fail(err, SW_BAD_CONFIG, "%.100s: no argument is taken · shardwise bench comm",
                         others[0]);
    else if (!sw_text_parse_bytes(least, &p.least_bytes) ||
             !sw_text_parse_bytes(most, &p.most_bytes) || p.least_bytes < 1 ||
             p.least_bytes > p.most_bytes || p.most_bytes > largest)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "--least %.40s --most %.40s: bytes from 1 to 64GiB, the least first · "
                         "shardwise bench comm",
                         least, most);
    if (status)
        goto done;
    json_t *machine = sw_bench_machine(),
           *report = NULL; /* before the load that it tells changes */
    fflush(NULL);          /* a forked rank has a copy of what is in the buffers */
    status = run_modes(&p, err);
    if (!status)
        status = sw_bench_put(report = make_report(&p, machine), &output, err);
    else
        json_decref(machine);
    if (!status && !output.as_json)
        print_table(&p);
    json_decref(report);
    if (p.results && p.results != MAP_FAILED)
        munmap(p.results, sizeof *p.results);
done:
    free(others);
    return status;
}

const sw_verb sw_bench_comm = {
    "bench comm", "", "each collective, compared with a plain copy of as many bytes", comm};
