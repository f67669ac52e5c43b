/* corpus.c: jobs, threads and order.
 *
 * Workers take the next job, cutting it from the current file, into the next slot of a ring, and encode it outside the lock. The
 * caller's thread waits for the oldest slot, hands its documents out and frees the slot. What belongs to whom: `taken`,
 * `handed_out`, the files and the slots' states change under the lock only; a slot's job belongs to its worker until it is done.
 */
#include "data/tokenizer/corpus.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { JOB_BYTES = 1 << 20, MAX_THREADS = 64, SLOTS_PER_THREAD = 3 };

typedef struct source {
    char *text;
    int64_t n_bytes, n_cut; /* n_cut: given to jobs already */
    int64_t line;           /* of what is cut next, from 1 */
    int n_jobs;             /* that still need the text */
    bool is_open, is_over;
} source;

typedef struct job {
    int source;
    const char *text;
    int64_t n_bytes, line;
    bool is_last; /* of its file */
    bool is_done;
    sw_token_list ids;
    int64_t *documents; /* [n_documents][2]: ids, bytes of text */
    int64_t n_documents, capacity;
    sw_status status;
    sw_error err;
} job;

typedef struct work {
    const sw_tokenizer *tokenizer;
    const sw_corpus *corpus;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    source *sources;
    int current; /* the file that is being cut */
    job *ring;
    int64_t n_slots, taken, handed_out;
    bool is_over; /* nothing more is to be taken */
} work;

static bool has_rows(const work *w, int i) {
    const char *path = w->corpus->paths[i];
    size_t n = strlen(path);
    return w->corpus->all_are_rows || (n >= 6 && !strcmp(path + n - 6, ".jsonl"));
}

static bool put_document(job *j, int64_t n_ids, int64_t n_bytes) {
    if (j->n_documents == j->capacity) {
        int64_t capacity = 2 * j->capacity + 16;
        int64_t *documents = realloc(j->documents, (size_t)capacity * 2 * sizeof *documents);
        if (!documents)
            return false;
        j->documents = documents;
        j->capacity = capacity;
    }
    j->documents[2 * j->n_documents] = n_ids;
    j->documents[2 * j->n_documents + 1] = n_bytes;
    j->n_documents++;
    return true;
}

static sw_status encode_document(const work *w, sw_tokenizer_scratch *scratch, job *j, const char *text, size_t n_bytes) {
    int64_t before = j->ids.n;
    sw_status status = sw_tokenizer_encode(w->tokenizer, scratch, text, n_bytes, w->corpus->flags, &j->ids, &j->err);
    if (!status && !put_document(j, j->ids.n - before, (int64_t)n_bytes))
        status = sw_fail(&j->err, SW_NO_MEMORY, "no memory for the documents");
    return status;
}

static sw_status encode_row(const work *w, sw_tokenizer_scratch *scratch, job *j, const char *line, size_t n_bytes,
                            int64_t number) {
    const char *path = w->corpus->paths[j->source];
    json_error_t error;
    /* Other keys may hold anything that JSON has, integers beyond 64 bits too. */
    json_t *row =
        json_loadb(line, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    const json_t *text = json_object_get(row, "text");
    sw_status status;
    if (!row)
        status = sw_fail(&j->err, SW_BAD_FILE, "%s: line %" PRId64 ", column %d: not valid JSON: %s", path, number, error.column,
                         error.text);
    else if (!json_is_object(row))
        status = sw_fail(&j->err, SW_BAD_FILE, "%s: line %" PRId64 " holds no JSON object ({...})", path, number);
    else if (!json_is_string(text))
        status = sw_fail(&j->err, SW_BAD_FILE, "%s: line %" PRId64 ": \"text\" is %s; a string is needed", path, number,
                         text ? "no string" : "missing");
    else {
        status = encode_document(w, scratch, j, json_string_value(text), json_string_length(text));
        if (status)
            sw_fail_within(&j->err, "%s: line %" PRId64, path, number);
    }
    json_decref(row);
    return status;
}

static bool is_blank(const char *line, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++)
        if (!strchr(" \t\r", line[i]) || !line[i])
            return false;
    return true;
}

static void encode_job(const work *w, sw_tokenizer_scratch *scratch, job *j) {
    if (!has_rows(w, j->source)) {
        j->status = encode_document(w, scratch, j, j->text, (size_t)j->n_bytes);
        if (j->status)
            sw_fail_within(&j->err, "%s", w->corpus->paths[j->source]);
        return;
    }
    int64_t number = j->line;
    for (const char *line = j->text, *end = line + j->n_bytes; !j->status && line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((stop ? stop : end) - line);
        if (!is_blank(line, n))
            j->status = encode_row(w, scratch, j, line, n, number);
        line = stop ? stop + 1 : end;
    }
}

/* Open the current file. */
static sw_status open_source(work *w, sw_error *err) {
    source *s = &w->sources[w->current];
    sw_status status = sw_file_read(w->corpus->paths[w->current], INT64_MAX - 1, &s->text, &s->n_bytes, err);
    s->is_open = true;
    s->line = 1;
    if (!status && has_rows(w, w->current) && s->n_bytes >= 3 && !memcmp(s->text, "\xEF\xBB\xBF", 3))
        s->n_cut = 3; /* a byte order mark */
    return status;
}

/* Cut the next job: a whole file of text, or about a megabyte of whole rows. Called with the lock held, and only while there is a
 * file to cut. */
static void cut_job(work *w, job *j) {
    source *s = &w->sources[w->current];
    *j = (job){.source = w->current, .err = {0}};
    if (!s->is_open)
        j->status = open_source(w, &j->err);
    int64_t n = s->n_bytes - s->n_cut;
    j->line = s->line;
    if (!j->status && has_rows(w, w->current) && n > JOB_BYTES) {
        const char *stop = memchr(s->text + s->n_cut + JOB_BYTES, '\n', (size_t)(n - JOB_BYTES));
        n = stop ? stop + 1 - (s->text + s->n_cut) : n;
        for (const char *at = s->text + s->n_cut, *end = at + n; (at = memchr(at, '\n', (size_t)(end - at))); at++)
            s->line++;
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
    sw_tokenizer_scratch *scratch = NULL;
    sw_error err = {0};
    sw_status status = sw_tokenizer_scratch_create(w->tokenizer, &scratch, &err);
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
            encode_job(w, scratch, j);
        pthread_mutex_lock(&w->lock);
        w->is_over = w->is_over || j->status;
        j->is_done = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    sw_tokenizer_scratch_free(scratch);
    return NULL;
}

static sw_status hand_out_job(const work *w, job *j, int64_t *n_rows, sw_corpus_sink sink, sw_error *err) {
    int64_t at = 0;
    sw_status status = SW_OK;
    for (int64_t i = 0; !status && i < j->n_documents; i++) {
        status = sink.take(sink.to, j->ids.ids ? j->ids.ids + at : NULL, j->documents[2 * i], j->documents[2 * i + 1], err);
        at += j->documents[2 * i];
    }
    *n_rows += j->n_documents;
    if (!status && j->status) {
        status = j->status;
        if (err)
            *err = j->err;
    }
    if (!status && j->is_last && !*n_rows)
        status = sw_fail(err, SW_BAD_FILE, "%s: holds no rows", w->corpus->paths[j->source]);
    if (j->is_last)
        *n_rows = 0;
    return status;
}

/* Hand out what is done, in order, until there is no more. */
static sw_status hand_out(work *w, sw_corpus_sink sink, int64_t all_bytes, sw_error *err) {
    sw_status status = SW_OK;
    int64_t done_bytes = 0, n_rows = 0;
    pthread_mutex_lock(&w->lock);
    while (!status) {
        job *j = &w->ring[w->handed_out % w->n_slots];
        while (w->handed_out < w->taken ? !j->is_done : !w->is_over)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->handed_out == w->taken)
            break;
        pthread_mutex_unlock(&w->lock);
        status = hand_out_job(w, j, &n_rows, sink, err);
        done_bytes += j->n_bytes;
        if (!status && sink.progress)
            sink.progress(sink.to, done_bytes, all_bytes);
        sw_token_list_free(&j->ids);
        free(j->documents);
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

sw_status sw_corpus_encode(const sw_tokenizer *tokenizer, const sw_corpus *corpus, sw_corpus_sink sink, sw_error *err) {
    pthread_t threads[MAX_THREADS];
    int n_threads = corpus->n_threads < MAX_THREADS ? corpus->n_threads : MAX_THREADS, n_started = 0;
    work w = {.tokenizer = tokenizer, .corpus = corpus, .n_slots = SLOTS_PER_THREAD * n_threads, .is_over = corpus->n_paths == 0};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    sw_status status = SW_OK;
    w.sources = calloc((size_t)corpus->n_paths + 1, sizeof *w.sources);
    w.ring = calloc((size_t)w.n_slots, sizeof *w.ring);
    if (!w.sources || !w.ring)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the documents");
    while (!status && n_started < n_threads && !pthread_create(&threads[n_started], NULL, run_worker, &w))
        n_started++;
    if (!status && !n_started)
        status = sw_fail(err, SW_NO_MEMORY, "no thread can be started to encode the documents");
    if (!status)
        status = hand_out(&w, sink, count_bytes(corpus), err);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    for (int64_t i = 0; w.ring && i < w.n_slots; i++) {
        sw_token_list_free(&w.ring[i].ids);
        free(w.ring[i].documents);
    }
    for (int i = 0; w.sources && i < corpus->n_paths; i++)
        free(w.sources[i].text);
    free(w.sources);
    free(w.ring);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    return status;
}
