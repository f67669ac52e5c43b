/* tokenize.c: shardwise tokenize: text to a token file, or to ids on stdout, and back. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/render.h"
#include "data/corpus.h"
#include "data/token_record.h"
#include "device/cpu/cores.h"
#include "formats/npy.h"
#include "formats/npy_writer.h"
#include "hf/bytes_tokenizer.h"

enum { SW_COLUMN_BYTES = 32 };

/* Samples without something, and the first of them. */
typedef struct lack {
    int64_t n, line;
    const char *path;
} lack;

/* Where the samples go, and what is counted. */
typedef struct output {
    sw_npy_writer tokens, marks, documents;
    sw_unread_keys unread;
    bool prints_ids, is_live;
    int32_t bos, end; /* -1: there is none */
    int64_t n_documents, n_tokens, n_bytes, n_double_beginnings;
    lack empty, unsupervised;
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

static void count_lack(lack *l, const sw_corpus_sample *sample) {
    if (l->n++ == 0)
        l->path = sample->path, l->line = sample->line;
}

static sw_status take_sample(void *to, const sw_corpus_sample *sample, sw_error *err) {
    output *o = to;
    const int64_t n = sample->n;
    const int32_t *ids = sample->ids;
    int64_t n_supervised = 0;
    sw_status status = SW_OK;
    if (o->prints_ids)
        print_ids(ids, n);
    if (n == 0) {
        count_lack(&o->empty, sample);
        return SW_OK;
    }
    for (int64_t i = 0; !status && i < n; i++) {
        n_supervised += i > 0 && sample->marks[i]; /* the first token is nobody's target */
        status = sw_npy_put(&o->tokens, ids[i], err);
        if (!status)
            status = sw_npy_put(&o->marks, sample->marks[i], err);
    }
    if (!status)
        status = sw_npy_put(&o->documents, n, err);
    if (n_supervised == 0)
        count_lack(&o->unsupervised, sample);
    o->n_double_beginnings += n >= 2 && o->bos >= 0 && ids[0] == o->bos && ids[1] == o->bos;
    o->n_documents++;
    o->n_tokens += n;
    o->n_bytes += sample->n_bytes;
    return status;
}

static void draw_progress(void *to, int64_t done_bytes, int64_t all_bytes) {
    output *o = to;
    double seconds = seconds_since(&o->begin);
    if (!o->is_live || seconds - o->last_drawn < 0.2)
        return;
    o->last_drawn = seconds;
    char done[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES],
        tokens[SW_TEXT_NUMBER_BYTES];
    fprintf(stderr, "\r\033[K%s of %s · %s tokens · %s tokens/s",
            sw_text_bytes(done_bytes, done, sizeof done), sw_text_bytes(all_bytes, all, sizeof all),
            sw_text_count((double)o->n_tokens, tokens, sizeof tokens),
            sw_text_count((double)o->n_tokens / (seconds > 0 ? seconds : 1), rate, sizeof rate));
    fflush(stderr);
}

static void print_counts(const output *o, const char *path) {
    char bytes[SW_TEXT_NUMBER_BYTES], time[SW_TEXT_NUMBER_BYTES], rate[SW_TEXT_NUMBER_BYTES];
    double seconds = seconds_since(&o->begin);
    printf("%s: %" PRId64 " %s (%s) of %" PRId64
           " %s, %s of text, %.2f bytes per token; %s, %s tokens/s\n",
           path, o->n_tokens, sw_text_noun(o->n_tokens, "token", "tokens"),
           sw_dtype_name(o->tokens.dtype), o->n_documents,
           sw_text_noun(o->n_documents, "document", "documents"),
           sw_text_bytes(o->n_bytes, bytes, sizeof bytes),
           o->n_tokens ? (double)o->n_bytes / (double)o->n_tokens : 0.0,
           sw_text_duration(seconds, time, sizeof time),
           sw_text_count((double)o->n_tokens / (seconds > 0 ? seconds : 1), rate, sizeof rate));
    if (o->end >= 0)
        printf("Each document ends with token %d; conversations end as their format does.\n",
               o->end);
    else
        printf("Nothing marks the end of a document: the tokenizer has no eos_token, or --no-end "
               "is given.\n");
}

static void warn_of(const lack *l, const char *what) {
    if (l->n && l->line)
        fprintf(stderr, "shardwise: warning: %s: line %" PRId64 ": %s (%" PRId64 " such)\n",
                l->path, l->line, what, l->n);
    else if (l->n)
        fprintf(stderr, "shardwise: warning: %s: %s (%" PRId64 " such)\n", l->path, what, l->n);
}

/* What the command line says. */
typedef struct request {
    const char *tokenizer, *out, *rows, *mask, *documents;
    sw_chat_options chat;
    sw_columns columns;
    bool prints_ids, renders, decodes, adds_specials, is_literal, has_no_end;
    int64_t n_threads;
} request;

/* As for data.tokenizer: the word, not a folder of that name. */
static bool is_bytes(const request *r) {
    return !strcmp(r->tokenizer, "bytes");
}

static sw_status open_tokenizer(const request *r, sw_tokenizer **t, sw_error *err) {
    char *text = NULL;
    if (!is_bytes(r))
        return sw_tokenizer_read(r->tokenizer, t, err);
    sw_status status = sw_bytes_tokenizer_text(&text, err);
    if (!status)
        status = sw_tokenizer_parse("the tokenizer of bytes", text, (int64_t)strlen(text), t, err);
    free(text);
    return status;
}

/* Token files are what training makes of the same text; printed ids are those of the text alone. */
static int flags_of(const request *r) {
    return (r->adds_specials || !r->prints_ids ? SW_ENCODE_SPECIALS : 0) |
           (r->is_literal ? SW_ENCODE_LITERAL : 0);
}

static sw_status write_samples(const request *r, const sw_corpus *corpus, output *o,
                               sw_error *err) {
    sw_status status = r->out ? sw_token_record_look(r->out, err) : SW_OK;
    if (!status)
        status = sw_npy_open(&o->tokens, r->out,
                             sw_tokenizer_n_ids(corpus->tokenizer) <= 65536 ? SW_U16 : SW_U32, err);
    if (!status)
        status = sw_npy_open(&o->marks, r->mask, SW_U8, err);
    if (!status)
        status = sw_npy_open(&o->documents, r->documents, SW_I64, err);
    if (!status)
        status = sw_corpus_encode(corpus,
                                  (sw_corpus_sink){take_sample, draw_progress, o, &o->unread}, err);
    if (o->is_live)
        fputs("\r\033[K", stderr);
    if (!status)
        status = sw_npy_finish(&o->tokens, err);
    if (!status)
        status = sw_npy_finish(&o->marks, err);
    if (!status)
        status = sw_npy_finish(&o->documents, err);
    if (!status && r->out)
        status = sw_token_record_write(r->out, corpus->tokenizer, o->n_tokens, err);
    if (!status)
        status = sw_npy_publish(&o->tokens, err);
    if (!status && r->out)
        status = sw_token_record_publish(r->out, err);
    if (!status)
        status = sw_npy_publish(&o->marks, err);
    if (!status)
        status = sw_npy_publish(&o->documents, err);
    if (status && r->out)
        sw_token_record_abandon(r->out);
    sw_npy_close(&o->tokens);
    sw_npy_close(&o->marks);
    sw_npy_close(&o->documents);
    return status;
}

static sw_status open_chat(const request *r, sw_chat **chat, sw_error *err) {
    char folder[SW_PATH_BYTES];
    sw_chat_options options = r->chat;
    sw_status status = SW_OK;
    if (r->tokenizer && !is_bytes(r)) {
        status = sw_tokenizer_folder(r->tokenizer, folder, err);
        options.folder = folder;
    }
    return status ? status : sw_chat_open(&options, chat, err);
}

/* The text of each row, and which of its bytes are learned. */
static sw_status render(const request *r, sw_error *err) {
    sw_chat *chat = NULL;
    sw_status status = open_chat(r, &chat, err);
    if (!status)
        status = sw_render_rows(r->rows, chat, &r->columns, err);
    sw_chat_free(chat);
    return status;
}

static void tell_unread(const sw_unread_keys *unread) {
    char text[512];
    if (*sw_unread_keys_tell(unread, text, sizeof text))
        fprintf(stderr, "shardwise: keys of rows without effect: %s\n", text);
}

/* "text=body": what the file calls a key; "text=": it is not read. */
static sw_status read_columns(const sw_flag_texts *given, sw_columns *columns,
                              char (*names)[SW_COLUMN_BYTES], sw_error *err) {
    const char **ours = (const char **)columns;
    *columns = SW_USUAL_COLUMNS;
    for (int i = 0; i < given->n; i++) {
        const char *equals = strchr(given->item[i], '=');
        int k = 0;
        snprintf(names[i], SW_COLUMN_BYTES, "%.*s", equals ? (int)(equals - given->item[i]) : 0,
                 given->item[i]);
        while (k < SW_N_COLUMNS && strcmp(names[i], sw_column_names[k]))
            k++;
        if (k == SW_N_COLUMNS) {
            const char *nearest = sw_text_nearest(names[i], sw_column_names, SW_N_COLUMNS);
            return sw_fail(
                err, SW_BAD_CONFIG,
                "--column %.100s: %s%s · shardwise tokenize · for example --column text=body",
                given->item[i],
                nearest ? "did you mean " : "there is no such column; write NAME=KEY",
                nearest ? nearest : "");
        }
        ours[k] = equals[1] ? equals + 1 : NULL;
    }
    const char *first, *second;
    if (sw_columns_are_one(columns, &first, &second))
        return sw_fail(
            err, SW_BAD_CONFIG,
            "--column: %s and %s cannot be the same key · shardwise tokenize · map one of them",
            first, second);
    return SW_OK;
}

static sw_status encode(const request *r, const sw_tokenizer *t, const char *const *paths,
                        int n_paths, sw_error *err) {
    sw_chat *chat = NULL;
    const bool has_end = !r->has_no_end && !r->prints_ids;
    output o = {.prints_ids = r->prints_ids,
                .is_live = isatty(STDERR_FILENO),
                .bos = sw_tokenizer_bos_id(t),
                .end = has_end ? sw_tokenizer_eos_id(t) : -1};
    sw_corpus corpus = {.paths = paths,
                        .n_paths = n_paths,
                        .all_are_rows = r->rows != NULL,
                        .tokenizer = t,
                        .columns = &r->columns,
                        .flags = flags_of(r),
                        .has_no_end = !has_end,
                        .n_threads = r->n_threads ? (int)r->n_threads : sw_cores_count()};
    sw_status status = sw_corpus_has_rows(&corpus) ? open_chat(r, &chat, err) : SW_OK;
    corpus.chat = chat;
    clock_gettime(CLOCK_MONOTONIC, &o.begin);
    if (!status)
        status = write_samples(r, &corpus, &o, err);
    sw_chat_free(chat);
    if (status)
        return status;
    if (o.n_double_beginnings)
        fprintf(stderr,
                "shardwise: warning: %" PRId64
                " documents begin with two beginning-of-text tokens: the text has one, and the "
                "tokenizer adds one\n",
                o.n_double_beginnings);
    if (r->out) {
        warn_of(&o.empty, "has no token, and makes no document");
        warn_of(&o.unsupervised, "has nothing to train on");
        tell_unread(&o.unread);
        print_counts(&o, r->out);
    }
    return SW_OK;
}

/* One token file as text. */
static sw_status decode_file(const sw_tokenizer *t, const char *path, FILE *out, sw_error *err) {
    char *bytes = NULL, *text = NULL;
    int32_t *ids = NULL;
    int64_t n_file = 0;
    size_t n_text = 0;
    sw_npy npy = {0};
    sw_status status = sw_file_read(path, INT64_MAX - 1, &bytes, &n_file, err);
    if (!status)
        status = sw_npy_parse(path, (uint8_t *)bytes,
                              n_file < SW_NPY_MAX_PREFIX ? n_file : SW_NPY_MAX_PREFIX, n_file, &npy,
                              err);
    if (!status && !(ids = malloc(((size_t)npy.n + 1) * sizeof *ids)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    for (int64_t i = 0; !status && i < npy.n; i++) {
        int64_t id = sw_npy_element(npy.dtype, (uint8_t *)bytes + npy.first, i);
        if (id < 0 || id >= sw_tokenizer_n_ids(t))
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: token %" PRId64 " is %" PRId64
                             "; the tokenizer's ids are below %" PRId64
                             "; was the file made with this tokenizer?",
                             path, i, id, sw_tokenizer_n_ids(t));
        else
            ids[i] = (int32_t)id;
    }
    if (!status)
        status = sw_tokenizer_decode(t, ids, npy.n, false, &text, &n_text, err);
    if (!status && fwrite(text, 1, n_text, out) != n_text)
        status =
            sw_fail_call(err, SW_CALL_WRITE, errno, "standard output: the text cannot be written");
    free(bytes);
    free(ids);
    free(text);
    return status;
}

static sw_status decode(const request *r, const sw_tokenizer *t, const char *const *paths,
                        int n_paths, sw_error *err) {
    char *text = NULL;
    size_t n_text = 0;
    const bool is_shown = !r->out || !strcmp(r->out, "-");
    FILE *out = is_shown ? stdout : open_memstream(&text, &n_text);
    sw_status status = out ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the text");
    for (int i = 0; !status && i < n_paths; i++)
        status = decode_file(t, paths[i], out, err);
    if (out && out != stdout && !sw_text_close(out, &text) && !status)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the text");
    if (!status && !is_shown)
        status = sw_file_write(r->out, text, (int64_t)n_text, err);
    free(text);
    return status;
}

/* What is written must not take the place of what is read, or of what is written beside it. */
static sw_status check_outputs(const request *r, const char *const *others, int n_others,
                               sw_error *err) {
    const char *const outputs[] = {r->out, r->documents, r->mask};
    enum { N_OUTPUTS = sizeof outputs / sizeof *outputs };
    for (int i = 0; i < N_OUTPUTS; i++) {
        if (!outputs[i])
            continue;
        for (int k = 0; k < i; k++)
            if (outputs[k] && sw_file_is_same(outputs[i], outputs[k]))
                return sw_fail(
                    err, SW_BAD_CONFIG,
                    "%s is to be written twice · shardwise tokenize · give each output a name",
                    outputs[i]);
        for (int k = -1; k < n_others; k++) {
            const char *input = k < 0 ? r->rows : others[k];
            if (input && sw_file_is_same(outputs[i], input))
                return sw_fail(
                    err, SW_BAD_CONFIG,
                    "%s is read, and would be written over · shardwise tokenize · give the "
                    "output another name",
                    outputs[i]);
        }
    }
    return SW_OK;
}

static sw_status check_request(const request *r, int n_others, sw_error *err) {
    static const char *const where = "shardwise tokenize";
    if (!r->tokenizer && !r->renders)
        return sw_fail(err, SW_BAD_CONFIG, "no tokenizer is given · %s · write --tokenizer DIR",
                       where);
    if (r->rows && n_others)
        return sw_fail(err, SW_BAD_CONFIG,
                       "--jsonl and other inputs are both given · %s · keep one of them", where);
    if (r->renders &&
        (!r->rows || r->decodes || r->prints_ids || r->out || r->documents || r->mask))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--render only shows the rows of --jsonl FILE as text; it takes no other "
                       "input or output · %s",
                       where);
    if (r->renders)
        return SW_OK;
    if (!r->rows && !n_others)
        return sw_fail(err, SW_BAD_CONFIG,
                       "no input is given · %s · for example: shardwise tokenize --tokenizer DIR "
                       "corpus.txt -o corpus.npy",
                       where);
    if (r->decodes && (r->prints_ids || r->rows || r->documents || r->mask || r->adds_specials ||
                       r->is_literal || r->has_no_end))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--decode takes only --tokenizer, token files and -o · %s", where);
    if (!r->decodes && !r->prints_ids && !r->out)
        return sw_fail(err, SW_BAD_CONFIG,
                       "there is nowhere to write to · %s · write -o OUT.npy or --print-ids",
                       where);
    const char *ending = r->out ? strrchr(r->out, '.') : NULL;
    if (!r->decodes && r->out && (!ending || strcmp(ending, ".npy")))
        return sw_fail(err, SW_BAD_CONFIG,
                       "-o %.200s: the name of a token file must end in .npy, so that training "
                       "recognises it · %s · write -o OUT.npy",
                       r->out, where);
    if (r->prints_ids && (r->out || r->documents || r->mask))
        return sw_fail(err, SW_BAD_CONFIG,
                       "--print-ids and an output file are both given · %s · keep one of them",
                       where);
    return SW_OK;
}

static sw_status tokenize(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    request r = {.chat = {.format = "auto"}};
    sw_flag_texts set = {.n = 0}, columns = {.n = 0};
    char names[SW_MOST_FLAG_TEXTS][SW_COLUMN_BYTES];
    const sw_flag flags[] = {
        {"--tokenizer", "DIR",
         "a folder with tokenizer.json, or the file; bytes: every byte is a token", SW_FLAG_TEXT,
         &r.tokenizer},
        {"-o", "OUT",
         "the token file to write (.npy, uint16 or uint32); OUT.json says what its ids mean. With "
         "--decode: the text file; "
         "without it, or with -: standard output",
         SW_FLAG_TEXT, &r.out},
        {"--documents", "OUT", "also write the lengths of the documents (.npy)", SW_FLAG_TEXT,
         &r.documents},
        {"--mask", "OUT", "also write which tokens are trained on (.npy, 1 or 0 for each token)",
         SW_FLAG_TEXT, &r.mask},
        {"--jsonl", "FILE",
         "read rows (text, prompt and completion, or messages), whatever the file is called",
         SW_FLAG_TEXT, &r.rows},
        {"--column", "NAME=KEY",
         "the key under which rows hold text, prompt, messages and so on; may be given several "
         "times",
         SW_FLAG_TEXTS, &columns},
        {"--chat-format", "NAME",
         "chatml, llama2, llama3, mistral, mistral-v1, zephyr or gemma (default auto: from the "
         "tokenizer's folder)",
         SW_FLAG_TEXT, &r.chat.format},
        {"--chat-template", "FILE", "a Jinja template to use in place of the tokenizer's",
         SW_FLAG_TEXT, &r.chat.template_path},
        {"--special-tokens", "JSON",
         "special tokens for the template, in place of the tokenizer's: {\"bos_token\": \"<s>\"}",
         SW_FLAG_TEXT, &r.chat.special_tokens},
        {"--now", "TIME",
         "the time that a chat template sees as now: 2025-06-30 or 2025-06-30 12:00:00",
         SW_FLAG_TEXT, &r.chat.now},
        {"--set", "NAME=VALUE",
         "a variable for the template, such as enable_thinking=false; may be given several times",
         SW_FLAG_TEXTS, &set},
        {"--render", NULL,
         "print one JSON object for each row: its text, and which bytes of it are trained on",
         SW_FLAG_SWITCH, &r.renders},
        {"--print-ids", NULL,
         "print one JSON array of ids for each row or file, without added special tokens",
         SW_FLAG_SWITCH, &r.prints_ids},
        {"--special", NULL, "add what the tokenizer puts around a text, as -o does", SW_FLAG_SWITCH,
         &r.adds_specials},
        {"--literal", NULL, "treat special tokens that are spelled out in the text as plain text",
         SW_FLAG_SWITCH, &r.is_literal},
        {"--no-end", NULL, "put no end-of-text token after each document", SW_FLAG_SWITCH,
         &r.has_no_end},
        {"--decode", NULL, "turn token files back into text", SW_FLAG_SWITCH, &r.decodes},
        {"--threads", "N", "threads to use (default 0: one for each core)", SW_FLAG_COUNT,
         &r.n_threads, 0, 64},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_tokenizer *t = NULL;
    sw_status status = sw_arguments_begin(&sw_verb_tokenize, n_arguments, arguments, flags, N_FLAGS,
                                          0, "", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_tokenize, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    r.chat.set = set.item;
    r.chat.n_set = set.n;
    status = check_request(&r, n_others, err);
    if (!status)
        status = check_outputs(&r, others, n_others, err);
    if (!status)
        status = read_columns(&columns, &r.columns, names, err);
    if (!status && r.renders) {
        status = render(&r, err);
        goto done;
    }
    if (!status)
        status = open_tokenizer(&r, &t, err);
    if (!status && r.decodes)
        status = decode(&r, t, others, n_others, err);
    else if (!status)
        status = encode(&r, t, r.rows ? &r.rows : others, r.rows ? 1 : n_others, err);
done:
    sw_tokenizer_free(t);
    free(others);
    return status;
}

const sw_verb sw_verb_tokenize = {"tokenize", "--tokenizer DIR INPUT... -o OUT",
                                  "turn text and jsonl into a token file, and back", tokenize};
