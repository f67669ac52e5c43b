/* corpus.c: jobs, threads and order.
 *
 * Workers take the next job, cutting it from the current file, into the next slot of a ring, and
 * encode it outside the lock. The caller's thread waits for the oldest slot, hands its samples out
 * and frees the slot. What belongs to whom: `taken`, `handed_out`, the files and the slots' states
 * change under the lock only; a slot's job belongs to its worker until it is done.
 */
#include "data/corpus.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/reason.h"
#include "data/json_document.h"

enum { JOB_BYTES = 1 << 20, MAX_THREADS = 64, SLOTS_PER_THREAD = 3 };

typedef struct source {
    char *text;
    int64_t n_bytes, n_cut; /* n_cut: given to jobs already */
    int64_t n_lines;        /* of what is cut */
    int n_jobs;             /* that still need the text */
    bool is_open, is_over;
} source;

/* A sample of a job. */
typedef struct place {
    int64_t n_ids, n_bytes, line;
} place;

typedef struct job {
    int source;
    const char *text;
    int64_t n_bytes, n_bytes_before, n_lines_before; /* before: in the file */
    bool is_last;                                    /* of its file */
    bool is_done;
    int32_t *ids;   /* of all samples, one behind the other */
    uint8_t *marks; /* as many */
    int64_t n_ids, id_capacity;
    place *places;
    int64_t n_places, place_capacity;
    sw_status status;
    sw_error err;
} job;

typedef struct work {
    const sw_corpus *corpus;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    source *sources;
    int current; /* the file that is being cut */
    job *ring;
    int64_t n_slots, taken, handed_out;
    bool is_over; /* nothing more is to be taken */
    sw_unread_keys unread;
} work;

static bool has_rows(const sw_corpus *corpus, int i) {
    const char *path = corpus->paths[i];
    size_t n = strlen(path);
    return corpus->all_are_rows || (n >= 6 && !strcmp(path + n - 6, ".jsonl"));
}

bool sw_corpus_has_rows(const sw_corpus *corpus) {
    for (int i = 0; i < corpus->n_paths; i++)
        if (has_rows(corpus, i))
            return true;
    return false;
}

/* ---- one job ---- */

static void free_results(job *j) {
    free(j->ids);
    free(j->marks);
    free(j->places);
}

/* Room for so many more ids and one more sample. */
static bool make_room(job *j, int64_t n) {
    if (j->n_ids + n > j->id_capacity) {
        int64_t capacity = 2 * j->id_capacity + n;
        int32_t *ids = realloc(j->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return false;
        j->ids = ids;
        uint8_t *marks = realloc(j->marks, (size_t)capacity);
        if (!marks)
            return false;
        j->marks = marks;
        j->id_capacity = capacity;
    }
    if (j->n_places == j->place_capacity) {
        int64_t capacity = 2 * j->place_capacity + 16;
        place *places = realloc(j->places, (size_t)capacity * sizeof *places);
        if (!places)
            return false;
        j->places = places;
        j->place_capacity = capacity;
    }
    return true;
}

/* Keep the sample that the encoder holds. */
static sw_status keep_sample(const sw_encoder *e, job *j, int64_t n_bytes, int64_t line) {
    const int64_t n = e->ids.n;
    if (!make_room(j, n))
        return sw_fail(&j->err, SW_NO_MEMORY, "no memory for the tokens");
    if (n) {
        memcpy(j->ids + j->n_ids, e->ids.ids, (size_t)n * sizeof *j->ids);
        memcpy(j->marks + j->n_ids, e->marks, (size_t)n);
    }
    j->n_ids += n;
    j->places[j->n_places++] = (place){n, n_bytes, line};
    return SW_OK;
}

static sw_status encode_rows(const work *w, sw_encoder *e, job *j) {
    const char *path = w->corpus->paths[j->source];
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end = false;
    sw_status status = SW_OK;
    if (j->n_bytes_before)
        sw_jsonl_begin_part(&rows, path, j->text, j->n_bytes, j->n_lines_before, j->n_bytes_before,
                            w->corpus->columns);
    else
        status = sw_jsonl_begin(&rows, path, j->text, j->n_bytes, w->corpus->columns, &j->err);
    while (!status && !(status = sw_jsonl_next(&rows, &row, &is_end, &j->err)) && !is_end) {
        status = sw_encode_row(e, &row, &j->err);
        if (!status)
            status = keep_sample(e, j, row.n_bytes, row.line);
        if (status)
            sw_fail_within(&j->err, "%s: line %" PRId64, path, row.line);
    }
    sw_jsonl_end(&rows);
    return status;
}

static sw_status encode_text(const work *w, sw_encoder *e, job *j) {
    sw_slice text = {j->text, j->n_bytes};
    sw_text_skip_mark(&text.text, &text.bytes);
    sw_status status = sw_encode_document(e, text, &j->err);
    if (!status)
        status = keep_sample(e, j, text.bytes, 0);
    return status ? sw_fail_within(&j->err, "%s", w->corpus->paths[j->source]) : SW_OK;
}

static sw_status open_encoder(const sw_corpus *corpus, sw_encoder *e, sw_error *err) {
    const sw_text_options options = {.tokenizer = corpus->tokenizer, .chat = corpus->chat};
    sw_status status = sw_encoder_create(&options, e, err);
    e->text_flags = corpus->flags;
    if (corpus->has_no_end)
        e->end_of_text = -1;
    return status;
}

/* ---- workers ---- */

/* Names that JSON goes by and that rows are not read from. */
static bool is_named_json(const char *path) {
    static const char *const ends[] = {".json", ".jsonl", ".ndjson", ".jsonlines", ".jl"};
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(end, ends[i]) == 0)
            return true;
    return false;
}

/* What is no text is refused, and so is a .json: taken as text, its quotes and brackets would be
 * learned. */
static sw_status check_kind(const sw_corpus *corpus, int i, const source *s, sw_error *err) {
    const char *path = corpus->paths[i];
    bool are_rows = has_rows(corpus, i);
    if (!are_rows && is_named_json(path) &&
        sw_file_format_of(s->text, s->n_bytes, s->n_bytes) == SW_FILE_JSON)
        return sw_json_document_refuse(path, s->text, s->n_bytes, err);
    return are_rows ? SW_OK
                    : sw_file_expect(path, s->text, s->n_bytes, s->n_bytes, SW_FILE_TEXT, err);
}

/* Open the current file. */
static sw_status open_source(work *w, sw_error *err) {
    source *s = &w->sources[w->current];
    sw_status status =
        sw_file_read(w->corpus->paths[w->current], INT64_MAX - 1, &s->text, &s->n_bytes, err);
    s->is_open = true;
    return status ? status : check_kind(w->corpus, w->current, s, err);
}

/* Cut the next job: a whole file of text, or about a megabyte of whole rows. Called with the lock
 * held, and only while there is a file to cut. */
static void cut_job(work *w, job *j) {
    source *s = &w->sources[w->current];
    *j = (job){.source = w->current, .err = {0}};
    if (!s->is_open)
        j->status = open_source(w, &j->err);
    int64_t n = s->n_bytes - s->n_cut;
    j->n_lines_before = s->n_lines;
    j->n_bytes_before = s->n_cut;
    if (!j->status && has_rows(w->corpus, w->current) && n > JOB_BYTES) {
        const char *stop = memchr(s->text + s->n_cut + JOB_BYTES, '\n', (size_t)(n - JOB_BYTES));
        n = stop ? stop + 1 - (s->text + s->n_cut) : n;
        for (const char *at = s->text + s->n_cut, *end = at + n;
             (at = memchr(at, '\n', (size_t)(end - at))); at++)
            s->n_lines++;
    }
    j->text = s->text ? s->text + s->n_cut : "";
    j->n_bytes = n;
    s->n_cut += n;
    s->n_jobs++;
    j->is_last = j->status || s->n_cut == s->n_bytes;
    if (j->is_last) {
        s->is_over = true;
        w->current++;
    }
    w->is_over = w->is_over || j->status || w->current == w->corpus->n_paths;
}

static void *run_worker(void *argument) {
    work *w = argument;
    sw_encoder encoder;
    sw_error err = {0};
    sw_status status = open_encoder(w->corpus, &encoder, &err);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->is_over && w->taken - w->handed_out == w->n_slots)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->is_over)
            break;
        job *j = &w->ring[w->taken++ % w->n_slots];
        cut_job(w, j);
        pthread_mutex_unlock(&w->lock);
        if (!j->status && status) {
            j->status = status;
            j->err = err;
        }
        if (!j->status)
            j->status =
                (has_rows(w->corpus, j->source) ? encode_rows : encode_text)(w, &encoder, j);
        pthread_mutex_lock(&w->lock);
        w->is_over = w->is_over || j->status;
        j->is_done = true;
        pthread_cond_broadcast(&w->changed);
    }
    sw_unread_keys_add(&w->unread, &encoder.unread);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    sw_encoder_free(&encoder);
    return NULL;
}

static sw_status hand_out_job(const work *w, job *j, int64_t *n_samples, sw_corpus_sink sink,
                              sw_error *err) {
    const char *path = w->corpus->paths[j->source];
    int64_t at = 0;
    sw_status status = SW_OK;
    for (int64_t i = 0; !status && i < j->n_places; i++) {
        const place *p = &j->places[i];
        const sw_corpus_sample sample = {j->ids ? j->ids + at : NULL,
                                         j->marks ? j->marks + at : NULL,
                                         p->n_ids,
                                         p->n_bytes,
                                         path,
                                         p->line};
        status = sink.take(sink.to, &sample, err);
        at += p->n_ids;
    }
    *n_samples += j->n_places;
    if (!status && j->status) {
        status = j->status;
        if (err)
            *err = j->err;
    }
    if (!status && j->is_last && !*n_samples)
        status = sw_fail(err, SW_BAD_FILE, "%s: has no rows (every line is blank)", path);
    if (j->is_last)
        *n_samples = 0;
    return status;
}

/* Hand out what is done, in order, until there is no more. */
static sw_status hand_out(work *w, sw_corpus_sink sink, int64_t all_bytes, sw_error *err) {
    sw_status status = SW_OK;
    int64_t done_bytes = 0, n_samples = 0;
    pthread_mutex_lock(&w->lock);
    while (!status) {
        job *j = &w->ring[w->handed_out % w->n_slots];
        while (w->handed_out < w->taken ? !j->is_done : !w->is_over)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->handed_out == w->taken)
            break;
        pthread_mutex_unlock(&w->lock);
        status = hand_out_job(w, j, &n_samples, sink, err);
        done_bytes += j->n_bytes;
        if (!status && sink.progress)
            sink.progress(sink.to, done_bytes, all_bytes);
        free_results(j);
        pthread_mutex_lock(&w->lock);
        source *s = &w->sources[j->source];
        if (--s->n_jobs == 0 && s->is_over) {
            free(s->text);
            s->text = NULL;
        }
        *j = (job){0};
        w->handed_out++;
        w->is_over = w->is_over || status;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* What the files hold together; files that cannot be opened are told when their turn comes. */
static int64_t count_bytes(const sw_corpus *corpus) {
    int64_t all = 0;
    for (int i = 0; i < corpus->n_paths; i++) {
        int descriptor;
        int64_t n_bytes = 0;
        if (!sw_file_open(corpus->paths[i], &descriptor, &n_bytes, NULL)) {
            close(descriptor);
            all += n_bytes;
        }
    }
    return all;
}

sw_status sw_corpus_encode(const sw_corpus *corpus, sw_corpus_sink sink, sw_error *err) {
    pthread_t threads[MAX_THREADS];
    int n_threads = corpus->n_threads < MAX_THREADS ? corpus->n_threads : MAX_THREADS,
        n_started = 0;
    work w = {
        .corpus = corpus, .n_slots = SLOTS_PER_THREAD * n_threads, .is_over = corpus->n_paths == 0};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    sw_status status = SW_OK;
    w.sources = calloc((size_t)corpus->n_paths + 1, sizeof *w.sources);
    w.ring = calloc((size_t)w.n_slots, sizeof *w.ring);
    if (!w.sources || !w.ring)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the tokens");
    int error = 0;
    while (!status && n_started < n_threads &&
           !(error = pthread_create(&threads[n_started], NULL, run_worker, &w)))
        n_started++;
    if (!status && !n_started)
        status = sw_fail_call(err, SW_CALL_PROCESS, error,
                              "no thread can be started to encode the files");
    if (!status)
        status = hand_out(&w, sink, count_bytes(corpus), err);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    if (sink.unread)
        sw_unread_keys_add(sink.unread, &w.unread);
    for (int64_t i = 0; w.ring && i < w.n_slots; i++)
        free_results(&w.ring[i]);
    for (int i = 0; w.sources && i < corpus->n_paths; i++)
        free(w.sources[i].text);
    free(w.sources);
    free(w.ring);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    return status;
}
