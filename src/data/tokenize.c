/* tokenize.c: chunks (text_chunks.c) to parts, parts to files.
 *
 * A part is a list of samples as they lie in memory: {line, n, is_whole}, n ids (int32), n marks
 * (uint8). Workers are processes, since the parent may have no threads; they share a page with a
 * word for each of them and the number of the first chunk that failed, take the chunks in turn, and
 * leave the rest once an earlier one has failed.
 */
#include "data/tokenize.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/reason.h"
#include "data/cache_entry.h"
#include "data/encode.h"
#include "formats/npy.h"

enum { COPY_NUMBERS = 4096, MAX_WORKERS = 64 };

/* ---- one chunk ---- */

/* What is known of a chunk when its part is written. */
typedef struct part_facts {
    sw_text_facts facts;
    int64_t n_tokens, n_documents;
} part_facts;

/* What workers share. */
typedef struct board {
    atomic_int first_failed; /* chunk; n_chunks: none */
    atomic_llong bytes_done;
    sw_error errors[MAX_WORKERS];
    int failed[MAX_WORKERS]; /* the chunk of each worker's error */
    part_facts part[];       /* [n_chunks] */
} board;

typedef struct job {
    const sw_text_options *options;
    const sw_text_files *files;
    const char *folder;
    const sw_text_chunks *chunks;
    board *shared;
} job;

typedef struct sample_head {
    int64_t line, n;
    int64_t is_whole; /* a conversation, or a prompt with its completion */
} sample_head;

static sw_status cannot_write(const char *path, sw_error *err) {
    return sw_cannot_write(path, errno, err);
}

static void part_path(const job *j, int chunk, char path[SW_PATH_BYTES]) {
    int n = snprintf(path, SW_PATH_BYTES, "%s/part-%d", j->folder, chunk);
    assert(n < SW_PATH_BYTES);
    (void)n;
}

/* Count a sample and write it. */
static sw_status put_sample(const sw_encoder *e, int64_t line, bool is_whole, part_facts *part,
                            FILE *to, const char *path, sw_error *err) {
    sw_text_facts *facts = &part->facts;
    sample_head head = {line, e->ids.n, is_whole};
    int64_t n_supervised = 0;
    facts->n_samples++;
    if (head.n == 0) {
        facts->first_empty = facts->n_empty++ ? facts->first_empty : line;
        return SW_OK;
    }
    for (int64_t i = 0; i < head.n; i++) {
        n_supervised += i > 0 && e->marks[i]; /* the first token is nobody's target */
        facts->largest_id = e->ids.ids[i] > facts->largest_id ? e->ids.ids[i] : facts->largest_id;
        facts->has_marks |= !e->marks[i];
    }
    if (n_supervised == 0)
        facts->first_unsupervised = facts->n_unsupervised++ ? facts->first_unsupervised : line;
    facts->n_supervised += n_supervised;
    facts->n_ended += sw_encoded_ends(e);
    facts->n_double_begin +=
        head.n > 1 && e->begin >= 0 && e->ids.ids[0] == e->begin && e->ids.ids[1] == e->begin;
    part->n_tokens += head.n;
    part->n_documents++;
    if (fwrite(&head, sizeof head, 1, to) != 1 ||
        fwrite(e->ids.ids, sizeof *e->ids.ids, (size_t)head.n, to) != (size_t)head.n ||
        fwrite(e->marks, 1, (size_t)head.n, to) != (size_t)head.n)
        return cannot_write(path, err);
    return SW_OK;
}

static sw_status encode_rows(const job *j, const sw_text_chunk *chunk, const char *text,
                             sw_encoder *e, part_facts *part, FILE *to, const char *part_name,
                             sw_error *err) {
    const char *name = j->files->paths[chunk->file];
    sw_jsonl rows;
    sw_jsonl_row row;
    bool is_end = false;
    sw_status status = SW_OK;
    if (chunk->first == 0)
        status = sw_jsonl_begin(&rows, name, text, chunk->bytes, j->options->columns, err);
    else
        sw_jsonl_begin_part(&rows, name, text, chunk->bytes, chunk->n_lines_before, chunk->first,
                            j->options->columns);
    while (status == SW_OK && (status = sw_jsonl_next(&rows, &row, &is_end, err)) == SW_OK &&
           !is_end) {
        if ((status = sw_encode_row(e, &row, err)) != SW_OK)
            sw_fail_within(err, "%s: line %" PRId64, name, row.line);
        else
            status = put_sample(e, row.line, row.form != SW_JSONL_TEXT, part, to, part_name, err);
    }
    sw_jsonl_end(&rows);
    part->facts.unread = e->unread;
    e->unread = (sw_unread_keys){.n_more = 0};
    return status;
}

static sw_status encode_text(const job *j, const sw_text_chunk *chunk, const char *text,
                             sw_encoder *e, part_facts *part, FILE *to, const char *part_name,
                             sw_error *err) {
    sw_slice slice = {text, chunk->bytes};
    sw_text_skip_mark(&slice.text, &slice.bytes);
    sw_status status = sw_encode_document(e, slice, err);
    return status == SW_OK ? put_sample(e, chunk->file + 1, false, part, to, part_name, err)
                           : sw_fail_within(err, "%s", j->files->paths[chunk->file]);
}

static sw_status encode_chunk(const job *j, int index, sw_encoder *e, sw_error *err) {
    const sw_text_chunk *chunk = &j->chunks->chunk[index];
    const char *name = j->files->paths[chunk->file];
    char path[SW_PATH_BYTES], *text = malloc((size_t)chunk->bytes + 1);
    int descriptor = -1;
    int64_t bytes;
    FILE *to = NULL;
    sw_status status = SW_OK;
    part_path(j, index, path);
    if (!text)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for %" PRId64 " bytes of it", name,
                         chunk->bytes);
    if (status == SW_OK)
        status = sw_file_open(name, &descriptor, &bytes, err);
    if (status == SW_OK)
        status = sw_file_read_at(descriptor, name, text, chunk->bytes, chunk->first, err);
    if (status == SW_OK && !(to = fopen(path, "wbe")))
        status = cannot_write(path, err);
    if (status == SW_OK)
        status = (j->files->are_rows ? encode_rows : encode_text)(
            j, chunk, text, e, &j->shared->part[index], to, path, err);
    if (to && fclose(to) != 0 && status == SW_OK)
        status = cannot_write(path, err);
    if (descriptor >= 0)
        close(descriptor);
    free(text);
    return status;
}

/* ---- workers ---- */

static void note_failure(const job *j, int worker, int chunk, const sw_error *error) {
    j->shared->errors[worker] = *error;
    j->shared->failed[worker] = chunk;
    int first = atomic_load(&j->shared->first_failed);
    while (chunk < first && !atomic_compare_exchange_weak(&j->shared->first_failed, &first, chunk))
        ;
}

static void work(const job *j, int worker, int n_workers, bool tells) {
    sw_encoder encoder;
    sw_error error = {0};
    sw_status status = sw_encoder_create(j->options, &encoder, &error);
    for (int c = worker; c < j->chunks->n && c < atomic_load(&j->shared->first_failed);
         c += n_workers) {
        if (status == SW_OK)
            status = encode_chunk(j, c, &encoder, &error);
        if (status != SW_OK) {
            note_failure(j, worker, c, &error);
            break;
        }
        atomic_fetch_add(&j->shared->bytes_done, j->chunks->chunk[c].bytes);
        if (tells && j->options->progress)
            j->options->progress(j->options->progress_to, j->files->paths[0],
                                 atomic_load(&j->shared->bytes_done), j->chunks->bytes);
    }
    sw_encoder_free(&encoder);
}

static sw_status start(const job *j, int worker, int n_workers, pid_t parent, pid_t *child,
                       sw_error *err) {
    *child = fork();
    if (*child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            work(j, worker, n_workers, false);
        _exit(0);
    }
    return *child > 0 ? SW_OK
                      : sw_fail_call(err, SW_CALL_PROCESS, errno,
                                     "%s: no process to tokenize it with", j->files->paths[0]);
}

static sw_status await(const job *j, pid_t *children, int n, sw_error *err) {
    sw_status status = SW_OK;
    for (int n_left = n; n_left > 0;) {
        for (int i = 0; i < n; i++) {
            int how = 0;
            pid_t ended = children[i] > 0 ? waitpid(children[i], &how, WNOHANG) : 0;
            if (ended == 0)
                continue;
            if (ended < 0) {
                status = sw_fail_call(err, SW_CALL_PROCESS, errno,
                                      "%s: a process that tokenizes it cannot be waited for",
                                      j->files->paths[0]);
                kill(children[i], SIGKILL);
            }
            children[i] = 0;
            n_left--;
            if (WIFSIGNALED(how))
                status = sw_fail(
                    err, SW_NO_MEMORY,
                    "%s: a process that tokenized it was ended by signal %d; was memory short?",
                    j->files->paths[0], WTERMSIG(how));
        }
        if (j->options->progress)
            j->options->progress(j->options->progress_to, j->files->paths[0],
                                 atomic_load(&j->shared->bytes_done), j->chunks->bytes);
        if (n_left > 0)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return status;
}

static sw_status make_parts(const job *j, sw_error *err) {
    int n_workers = j->options->n_workers < 1             ? 1
                    : j->options->n_workers < MAX_WORKERS ? j->options->n_workers
                                                          : MAX_WORKERS;
    sw_status status = SW_OK;
    n_workers = n_workers < j->chunks->n ? n_workers : j->chunks->n;
    if (n_workers == 1) {
        work(j, 0, 1, true);
    } else {
        pid_t children[MAX_WORKERS] = {0};
        int n_started = 0;
        while (n_started < n_workers && (status = start(j, n_started, n_workers, getpid(),
                                                        &children[n_started], err)) == SW_OK)
            n_started++;
        if (status != SW_OK)
            atomic_store(&j->shared->first_failed, 0);
        sw_status ended = await(j, children, n_started, status == SW_OK ? err : NULL);
        status = status == SW_OK ? ended : status;
    }
    int first = atomic_load(&j->shared->first_failed);
    for (int w = 0; w < n_workers && status == SW_OK && first < j->chunks->n; w++)
        if (j->shared->errors[w].status != SW_OK && j->shared->failed[w] == first) {
            *err = j->shared->errors[w];
            status = err->status;
        }
    return status;
}

/* ---- joining ---- */

/* A .npy that is being written. */
typedef struct output {
    char path[SW_PATH_BYTES];
    FILE *file;
    sw_dtype dtype;
    int64_t n;
} output;

static sw_status open_output(output *out, const char *folder, const char *name, sw_dtype dtype,
                             sw_error *err) {
    char blank[SW_NPY_HEADER] = {0};
    out->dtype = dtype;
    sw_status status = sw_path_join(out->path, folder, name, err);
    if (status != SW_OK)
        return status;
    out->file = fopen(out->path, "wbe");
    return out->file && fwrite(blank, sizeof blank, 1, out->file) == 1
               ? SW_OK
               : cannot_write(out->path, err);
}

static sw_status put_numbers(output *out, const void *numbers, int64_t n, sw_error *err) {
    out->n += n;
    return fwrite(numbers, (size_t)sw_dtype_bytes(out->dtype), (size_t)n, out->file) == (size_t)n
               ? SW_OK
               : cannot_write(out->path, err);
}

/* Write the header, now that the number is known, and wait for the disk: the folder gets its name
 * only then. */
static sw_status finish_output(output *out, sw_error *err) {
    char header[SW_NPY_HEADER];
    sw_npy_header(out->dtype, out->n, header);
    if (fseek(out->file, 0, SEEK_SET) != 0 || fwrite(header, sizeof header, 1, out->file) != 1 ||
        fflush(out->file) != 0 || fsync(fileno(out->file)) != 0)
        return cannot_write(out->path, err);
    return SW_OK;
}

static sw_status read_part(FILE *from, void *to, size_t bytes, const char *path, sw_error *err) {
    return bytes == 0 || fread(to, bytes, 1, from) == 1
               ? SW_OK
               : sw_fail(err, SW_BAD_FILE,
                         "%s: ends early; is someone else using the cache's folder?", path);
}

static sw_status copy_tokens(FILE *from, int64_t n, output *to, const char *path, sw_error *err) {
    int32_t ids[COPY_NUMBERS] = {0};
    uint16_t narrow[COPY_NUMBERS];
    sw_status status = SW_OK;
    for (int64_t done = 0; done < n && status == SW_OK;) {
        int64_t now = n - done < COPY_NUMBERS ? n - done : COPY_NUMBERS;
        status = read_part(from, ids, (size_t)now * sizeof *ids, path, err);
        for (int64_t i = 0; i < now && status == SW_OK; i++)
            narrow[i] = (uint16_t)ids[i];
        if (status == SW_OK)
            status = put_numbers(to, to->dtype == SW_U16 ? (const void *)narrow : ids, now, err);
        done += now;
    }
    return status;
}

static sw_status copy_marks(FILE *from, int64_t n, output *to, const char *path, sw_error *err) {
    uint8_t marks[COPY_NUMBERS];
    sw_status status = SW_OK;
    for (int64_t done = 0; done < n && status == SW_OK;) {
        int64_t now = n - done < COPY_NUMBERS ? n - done : COPY_NUMBERS;
        status = read_part(from, marks, (size_t)now, path, err);
        if (status == SW_OK && to->file)
            status = put_numbers(to, marks, now, err);
        done += now;
    }
    return status;
}

static sw_status join_part(const job *j, int chunk, output *out, sw_error *err) {
    char path[SW_PATH_BYTES];
    part_path(j, chunk, path);
    FILE *from = fopen(path, "rbe");
    sw_status status = from ? SW_OK : sw_cannot_read(path, errno, err);
    for (int64_t d = 0; d < j->shared->part[chunk].n_documents && status == SW_OK; d++) {
        sample_head head;
        status = read_part(from, &head, sizeof head, path, err);
        if (status == SW_OK)
            status = copy_tokens(from, head.n, &out[SW_ENTRY_TOKENS], path, err);
        if (status == SW_OK)
            status = copy_marks(from, head.n, &out[SW_ENTRY_MARKS], path, err);
        if (status == SW_OK)
            status = put_numbers(&out[SW_ENTRY_DOCUMENTS], &head.n, 1, err);
        const uint8_t is_whole = status == SW_OK && head.is_whole;
        if (status == SW_OK)
            status = put_numbers(&out[SW_ENTRY_WHOLE], &is_whole, 1, err);
        if (status == SW_OK)
            status = put_numbers(&out[SW_ENTRY_LINES], &head.line, 1, err);
    }
    if (from)
        fclose(from);
    return status;
}

static void add_facts(sw_text_facts *sum, const sw_text_facts *part) {
    sum->first_empty = sum->n_empty ? sum->first_empty : part->first_empty;
    sum->first_unsupervised =
        sum->n_unsupervised ? sum->first_unsupervised : part->first_unsupervised;
    sum->n_samples += part->n_samples;
    sum->n_empty += part->n_empty;
    sum->n_unsupervised += part->n_unsupervised;
    sum->n_ended += part->n_ended;
    sum->n_supervised += part->n_supervised;
    sum->n_double_begin += part->n_double_begin;
    sum->largest_id = part->largest_id > sum->largest_id ? part->largest_id : sum->largest_id;
    sum->has_marks |= part->has_marks;
    sw_unread_keys_add(&sum->unread, &part->unread);
}

static sw_status join(const job *j, sw_error *err) {
    output *out = calloc(SW_N_ENTRY_FILES, sizeof *out);
    sw_text_facts facts = {0};
    sw_status status =
        out ? SW_OK
            : sw_fail(err, SW_NO_MEMORY, "%s: no memory to write its tokens", j->files->paths[0]);
    for (int c = 0; c < j->chunks->n; c++)
        add_facts(&facts, &j->shared->part[c].facts);
    if (status == SW_OK && facts.n_samples == 0)
        status =
            sw_fail(err, SW_BAD_FILE, "%s: has no rows (every line is blank)", j->files->paths[0]);
    for (int i = 0; i < SW_N_ENTRY_FILES && status == SW_OK; i++)
        if (i != SW_ENTRY_MARKS || facts.has_marks)
            status = open_output(&out[i], j->folder, sw_entry_names[i],
                                 i == SW_ENTRY_TOKENS ? (facts.largest_id < 65536 ? SW_U16 : SW_I32)
                                 : i == SW_ENTRY_MARKS || i == SW_ENTRY_WHOLE ? SW_U8
                                                                              : SW_I64,
                                 err);
    for (int c = 0; c < j->chunks->n && status == SW_OK; c++)
        status = join_part(j, c, out, err);
    if (status == SW_OK)
        status = put_numbers(&out[SW_ENTRY_FACTS], &facts, sizeof facts / sizeof(int64_t), err);
    for (int i = 0; i < SW_N_ENTRY_FILES && out; i++) {
        if (status == SW_OK && out[i].file)
            status = finish_output(&out[i], err);
        if (out[i].file && fclose(out[i].file) != 0 && status == SW_OK)
            status = cannot_write(out[i].path, err);
    }
    free(out);
    return status;
}

sw_status sw_text_write(const sw_text_options *options, const sw_text_files *files,
                        const sw_text_chunks *chunks, const char *folder, sw_error *err) {
    size_t bytes = sizeof(board) + (size_t)chunks->n * sizeof(part_facts);
    board *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory to tokenize it", files->paths[0]);
    const job j = {options, files, folder, chunks, shared};
    atomic_init(&shared->first_failed, chunks->n);
    sw_status status = make_parts(&j, err);
    if (status == SW_OK)
        status = join(&j, err);
    for (int c = 0; c < chunks->n; c++) {
        char part[SW_PATH_BYTES];
        part_path(&j, c, part);
        unlink(part);
    }
    munmap(shared, bytes);
    return status;
}
