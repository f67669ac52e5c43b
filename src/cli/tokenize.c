/* tokenize.c: shardwise tokenize: text to a token file, or to ids on stdout, and back. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/command.h"
#include "data/npy.h"
#include "data/tokenizer/corpus.h"

enum { NPY_HEADER_BYTES = 128, BUFFERED_IDS = 1 << 16 };

/* A one-dimensional .npy file that grows: its header is written last, and the file gets its name when it is whole. */
typedef struct npy_writer {
    const char *path; /* NULL: none is written */
    char partial[SW_PATH_BYTES];
    int descriptor, element_bytes; /* element_bytes: 2 (uint16), 4 (uint32) or 8 (int64) */
    int64_t n;
    uint8_t *buffer; /* [BUFFERED_IDS * element_bytes] */
    int64_t n_buffered;
} npy_writer;

static sw_status open_writer(npy_writer *w, const char *path, int element_bytes, sw_error *err) {
    *w = (npy_writer){.path = path, .descriptor = -1, .element_bytes = element_bytes};
    if (!path)
        return SW_OK;
    w->buffer = malloc((size_t)BUFFERED_IDS * (size_t)element_bytes);
    if (!w->buffer)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    if (snprintf(w->partial, sizeof w->partial, "%s.partial", path) >= (int)sizeof w->partial)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", path);
    w->descriptor = open(w->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->descriptor < 0)
        return sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %m", path);
    return SW_OK;
}

static sw_status flush_writer(npy_writer *w, sw_error *err) {
    int64_t at = NPY_HEADER_BYTES + (w->n - w->n_buffered) * w->element_bytes, n_bytes = w->n_buffered * w->element_bytes;
    w->n_buffered = 0;
    return n_bytes ? sw_file_write_at(w->descriptor, w->path, w->buffer, n_bytes, at, err) : SW_OK;
}

static sw_status write_number(npy_writer *w, int64_t number, sw_error *err) {
    if (!w->path)
        return SW_OK;
    uint8_t *out = w->buffer + w->n_buffered * w->element_bytes;
    for (int i = 0; i < w->element_bytes; i++)
        out[i] = (uint8_t)((uint64_t)number >> (8 * i));
    w->n++;
    return ++w->n_buffered == BUFFERED_IDS ? flush_writer(w, err) : SW_OK;
}

/* Write the header and give the file its name. */
static sw_status finish_writer(npy_writer *w, sw_error *err) {
    char header[NPY_HEADER_BYTES + 1];
    if (!w->path)
        return SW_OK;
    sw_status status = flush_writer(w, err);
    const char *type = w->element_bytes == 2 ? "<u2" : w->element_bytes == 4 ? "<u4" : "<i8";
    static const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEADER_BYTES - 10, 0}; /* version 1.0, length */
    memset(header, ' ', sizeof header);
    memcpy(header, magic, sizeof magic);
    int n = snprintf(header + sizeof magic, sizeof header - sizeof magic,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",), }", type, w->n);
    header[(int)sizeof magic + n] = ' '; /* in place of the NUL */
    header[NPY_HEADER_BYTES - 1] = '\n';
    if (!status)
        status = sw_file_write_at(w->descriptor, w->path, header, NPY_HEADER_BYTES, 0, err);
    if (!status && (fsync(w->descriptor) || close(w->descriptor)))
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %m", w->path);
    w->descriptor = -1;
    if (!status && rename(w->partial, w->path))
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %m", w->path);
    if (!status)
        *w->partial = 0;
    return status;
}

/* Throw away what is not finished. */
static void close_writer(npy_writer *w) {
    if (w->descriptor >= 0)
        close(w->descriptor);
    if (*w->partial && w->path)
        unlink(w->partial);
    free(w->buffer);
}

/* Where the documents go, and what is counted. */
typedef struct output {
    npy_writer tokens, documents;
    bool prints_ids, is_live;
    int32_t bos, end; /* end: put after each document; -1: nothing */
    int64_t n_documents, n_tokens, n_bytes, n_double_beginnings;
    struct timespec begin;
    double last_drawn;
} output;

static double seconds_since(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + 1e-9 * (double)(now.tv_nsec - begin->tv_nsec);
}

static void print_ids(const int32_t *ids, int64_t n) {
    putchar('[');
    for (int64_t i = 0; i < n; i++)
        printf(i ? ",%d" : "%d", ids[i]);
    puts("]");
}

static sw_status take_document(void *to, const int32_t *ids, int64_t n, int64_t n_bytes, sw_error *err) {
    output *o = to;
    sw_status status = SW_OK;
    if (o->prints_ids)
        print_ids(ids, n);
    for (int64_t i = 0; !status && i < n; i++)
        status = write_number(&o->tokens, ids[i], err);
    if (!status && o->end >= 0)
        status = write_number(&o->tokens, o->end, err);
    if (!status)
        status = write_number(&o->documents, n + (o->end >= 0), err);
    o->n_double_beginnings += n >= 2 && o->bos >= 0 && ids[0] == o->bos && ids[1] == o->bos;
    o->n_documents++;
    o->n_tokens += n + (o->end >= 0);
    o->n_bytes += n_bytes;
    return status;
}

static void draw_progress(void *to, int64_t done_bytes, int64_t all_bytes) {
    output *o = to;
    double seconds = seconds_since(&o->begin);
    if (!o->is_live || seconds - o->last_drawn < 0.2)
        return;
    o->last_drawn = seconds;
    char done[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES], tokens[SW_TEXT_NUMBER_BYTES];
    fprintf(stderr, "\r\033[K%s of %s · %s tokens · %s tokens/s", sw_text_bytes(done_bytes, done, sizeof done),
            sw_text_bytes(all_bytes, all, sizeof all), sw_text_count((double)o->n_tokens, tokens, sizeof tokens),
            sw_text_count((double)o->n_tokens / (seconds > 0 ? seconds : 1), rate, sizeof rate));
    fflush(stderr);
}

static void print_counts(const output *o, const char *path) {
    char bytes[SW_TEXT_NUMBER_BYTES], time[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES];
    double seconds = seconds_since(&o->begin);
    printf("%s: %" PRId64 " tokens (%s) of %" PRId64 " documents, %s of text, %.2f bytes per token; %s, %s tokens/s\n", path,
           o->n_tokens, o->tokens.element_bytes == 2 ? "uint16" : "uint32", o->n_documents,
           sw_text_bytes(o->n_bytes, bytes, sizeof bytes), o->n_tokens ? (double)o->n_bytes / (double)o->n_tokens : 0.0,
           sw_text_duration(seconds, time, sizeof time),
           sw_text_count((double)o->n_tokens / (seconds > 0 ? seconds : 1), rate, sizeof rate));
    if (o->end >= 0)
        printf("Each document ends with token %d.\n", o->end);
    else
        printf("Nothing marks the ends of documents: the tokenizer names no eos_token, or --no-end is given.\n");
}

static int count_threads(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
}

/* What the command line says. */
typedef struct request {
    const char *tokenizer, *out, *rows, *documents;
    bool prints_ids, decodes, adds_specials, is_literal, has_no_end;
    int64_t n_threads;
} request;

static sw_status encode(const request *r, const sw_tokenizer *t, const char *const *paths, int n_paths, sw_error *err) {
    output o = {.prints_ids = r->prints_ids, .is_live = isatty(STDERR_FILENO), .bos = sw_tokenizer_bos_id(t), .end = -1};
    const int flags = (r->adds_specials ? SW_ENCODE_SPECIALS : 0) | (r->is_literal ? SW_ENCODE_LITERAL : 0);
    const sw_corpus corpus = {paths, n_paths, r->rows != NULL, flags, r->n_threads ? (int)r->n_threads : count_threads()};
    if (!r->has_no_end && !r->prints_ids)
        o.end = sw_tokenizer_eos_id(t);
    clock_gettime(CLOCK_MONOTONIC, &o.begin);
    sw_status status = open_writer(&o.tokens, r->out, sw_tokenizer_n_ids(t) <= 65536 ? 2 : 4, err);
    if (!status)
        status = open_writer(&o.documents, r->documents, 8, err);
    if (!status)
        status = sw_corpus_encode(t, &corpus, (sw_corpus_sink){take_document, draw_progress, &o}, err);
    if (o.is_live)
        fputs("\r\033[K", stderr);
    if (!status)
        status = finish_writer(&o.tokens, err);
    if (!status)
        status = finish_writer(&o.documents, err);
    if (!status && o.n_double_beginnings)
        fprintf(stderr,
                "shardwise: warning: %" PRId64
                " documents begin with two beginning-of-text tokens: the text has one, and --special adds one\n",
                o.n_double_beginnings);
    if (!status && r->out)
        print_counts(&o, r->out);
    close_writer(&o.tokens);
    close_writer(&o.documents);
    return status;
}

/* One token file as text. */
static sw_status decode_file(const sw_tokenizer *t, const char *path, FILE *out, sw_error *err) {
    char *bytes = NULL, *text = NULL;
    int32_t *ids = NULL;
    int64_t n_file;
    size_t n_text;
    sw_npy npy;
    sw_status status = sw_file_read(path, INT64_MAX - 1, &bytes, &n_file, err);
    if (!status)
        status = sw_npy_parse(path, (uint8_t *)bytes, n_file < SW_NPY_MAX_PREFIX ? n_file : SW_NPY_MAX_PREFIX, n_file, &npy, err);
    if (!status && !(ids = malloc(((size_t)npy.n + 1) * sizeof *ids)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    for (int64_t i = 0; !status && i < npy.n; i++) {
        int64_t id = sw_npy_element(npy.dtype, (uint8_t *)bytes + npy.first, i);
        if (id < 0 || id >= sw_tokenizer_n_ids(t))
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: token %" PRId64 " is %" PRId64 "; the tokenizer's ids are below %" PRId64
                             "; is it the tokenizer that the file was made with?",
                             path, i, id, sw_tokenizer_n_ids(t));
        else
            ids[i] = (int32_t)id;
    }
    if (!status)
        status = sw_tokenizer_decode(t, ids, npy.n, false, &text, &n_text, err);
    if (!status && fwrite(text, 1, n_text, out) != n_text)
        status = sw_fail(err, SW_NO_SPACE, "the text cannot be written: %m · is the disk full?");
    free(bytes);
    free(ids);
    free(text);
    return status;
}

static sw_status decode(const request *r, const sw_tokenizer *t, const char *const *paths, int n_paths, sw_error *err) {
    char *text = NULL;
    size_t n_text = 0;
    FILE *out = r->out ? open_memstream(&text, &n_text) : stdout;
    sw_status status = out ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the text");
    for (int i = 0; !status && i < n_paths; i++)
        status = decode_file(t, paths[i], out, err);
    if (out && out != stdout && fclose(out) && !status)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the text");
    if (!status && r->out)
        status = sw_file_write(r->out, text, (int64_t)n_text, err);
    free(text);
    return status;
}

static sw_status check_request(const request *r, int n_others, sw_error *err) {
    static const char *const where = "shardwise tokenize";
    if (!r->tokenizer)
        return sw_fail(err, SW_BAD_CONFIG, "no tokenizer is given · %s · write --tokenizer DIR", where);
    if (r->rows && n_others)
        return sw_fail(err, SW_BAD_CONFIG, "--jsonl and other inputs are both given · %s · keep one of them", where);
    if (!r->rows && !n_others)
        return sw_fail(err, SW_BAD_CONFIG,
                       "no input is given · %s · for example: shardwise tokenize --tokenizer DIR corpus.txt -o corpus.npy",
                       where);
    if (r->decodes && (r->prints_ids || r->rows || r->documents || r->adds_specials || r->is_literal || r->has_no_end))
        return sw_fail(err, SW_BAD_CONFIG, "--decode goes with --tokenizer, token files and -o alone · %s", where);
    if (!r->decodes && !r->prints_ids && !r->out)
        return sw_fail(err, SW_BAD_CONFIG, "there is nowhere to write to · %s · write -o OUT.npy or --print-ids", where);
    if (r->prints_ids && (r->out || r->documents))
        return sw_fail(err, SW_BAD_CONFIG, "--print-ids and an output file are both given · %s · keep one of them", where);
    return SW_OK;
}

static sw_status tokenize(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    request r = {0};
    const sw_flag flags[] = {
        {"--tokenizer", "DIR", "a folder with tokenizer.json, or the file", SW_FLAG_TEXT, &r.tokenizer},
        {"-o", "OUT", "the token file to write (.npy, uint16 or uint32); with --decode the text", SW_FLAG_TEXT, &r.out},
        {"--documents", "OUT", "write the lengths of the documents too (.npy)", SW_FLAG_TEXT, &r.documents},
        {"--jsonl", "FILE", "rows with \"text\", whatever the file is called", SW_FLAG_TEXT, &r.rows},
        {"--print-ids", NULL, "one JSON array of ids per row or file on stdout, no special tokens added", SW_FLAG_SWITCH,
         &r.prints_ids},
        {"--special", NULL, "add what the tokenizer puts around a text", SW_FLAG_SWITCH, &r.adds_specials},
        {"--literal", NULL, "special tokens spelled in the text are plain text", SW_FLAG_SWITCH, &r.is_literal},
        {"--no-end", NULL, "put no end-of-text token after each document", SW_FLAG_SWITCH, &r.has_no_end},
        {"--decode", NULL, "token files to text", SW_FLAG_SWITCH, &r.decodes},
        {"--threads", "N", "0: one for each core", SW_FLAG_COUNT, &r.n_threads, 0, 64},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_tokenizer *t = NULL;
    sw_status status =
        sw_arguments_begin(&sw_verb_tokenize, n_arguments, arguments, flags, N_FLAGS, 0, "", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_tokenize, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    status = check_request(&r, n_others, err);
    if (!status)
        status = sw_tokenizer_read(r.tokenizer, &t, err);
    if (!status && r.decodes)
        status = decode(&r, t, others, n_others, err);
    else if (!status)
        status = encode(&r, t, r.rows ? &r.rows : others, r.rows ? 1 : n_others, err);
done:
    sw_tokenizer_free(t);
    free(others);
    return status;
}

const sw_verb sw_verb_tokenize = {"tokenize", "--tokenizer DIR INPUT... -o OUT", "text and jsonl to a token file, and back",
                                  tokenize};
