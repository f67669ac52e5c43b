/* score.c: rows of all sources, then choices of all questions, dealt to ranks in turn. After every
 * turn ranks tell each other what it gave; the sums are exact, so neither the number of ranks nor
 * the order matters.
 */
#include "infer/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/integer.h"
#include "base/stop_signal.h"
#include "base/text.h"
#include "base/wide_sum.h"
#include "data/codec.h"
#include "data/dataset.h"
#include "hf/chat_template.h"
#include "infer/questions.h"
#include "infer/runner.h"
#include "launch/launch.h"
#include "tokenizer/missing.h"

enum { USUAL_LENGTH = 1024, SHORTEST = 32, GROWTH = 4 };

/* What ranks leave for the caller, in memory that they share. */
typedef struct results {
    atomic_bool is_not_finite; /* a loss is: the error says which */
    sw_choices_score choices;
    sw_source_score sources[];
} results;

typedef struct scoring {
    const sw_score_options *options;
    sw_runner runner;
    int64_t length[SW_MOST_PROGRAMS]; /* tokens of each program, ascending */
    int64_t row_length;               /* of the sources */
    sw_codec codec;
    bool has_codec;
    sw_dataset **datasets; /* [n_paths] */
    sw_questions questions;
    results *results;
} scoring;

/* What one row, or one choice, gave. */
typedef struct yield {
    double loss;
    int64_t n_targets, n_bytes;
    bool is_there;
    int stop_signal; /* 0: none came */
    int64_t token; /* where the loss is no number: of the row, from 0, which token's, and its id */
    int32_t id;
} yield;

static int64_t rows_of(const scoring *s, int source) {
    int64_t n = sw_dataset_describe(s->datasets[source]).n_rows, most = s->options->most_rows;
    return most && most < n ? most : n;
}

static sw_status open_codec(scoring *s, sw_error *err) {
    char tokenizer[SW_PATH_BYTES], vocabulary[SW_PATH_BYTES], path[SW_PATH_BYTES];
    sw_status status = sw_path_join(tokenizer, s->options->model.folder, "tokenizer.json", err);
    if (!status)
        status = sw_path_join(vocabulary, s->options->model.folder, "vocab.json", err);
    if (status || (!sw_file_exists(tokenizer) && !sw_file_exists(vocabulary)))
        return status;
    status = sw_codec_open(s->options->model.folder, s->runner.model.vocabulary, &s->codec, err);
    s->has_codec = !status;
    sw_chat_options options = s->options->chat;
    char day[SW_CHAT_TIME_BYTES];
    sw_chat_today(day);
    options.folder = s->options->model.folder;
    sw_chat_template_of_adapter(s->options->model.adapter, path, &options);
    options.now = options.now ? options.now : day;
    return status ? status : sw_chat_open(&options, &s->codec.chat, err);
}

static sw_status open_source(scoring *s, int source, sw_error *err) {
    char file[SW_PATH_BYTES];
    const char *path = s->options->paths[source], *ending = strrchr(path, '.');
    if (!s->has_codec && (!ending || strcmp(ending, ".npy"))) {
        sw_tokenizer_refuse_folder(s->options->model.folder, err);
        return sw_fail_within(err, "%.400s is text (token ids are a .npy file)", path);
    }
    sw_status status = sw_path_join(file, s->options->model.folder, "tokenizer.json", err);
    if (!status && !sw_file_exists(file))
        status = sw_path_join(file, s->options->model.folder, "vocab.json", err);
    if (status)
        return status;
    sw_dataset_options options = {.paths = &s->options->paths[source],
                                  .n_paths = 1,
                                  .sequence_length = s->row_length,
                                  .stride = s->options->stride ? s->options->stride : s->row_length,
                                  .vocabulary = s->runner.model.vocabulary};
    if (s->has_codec)
        options.text = (sw_text_options){.tokenizer = s->codec.tokenizer,
                                         .tokenizer_file = file,
                                         .chat = s->codec.chat,
                                         .columns = s->options->columns,
                                         .tell = s->options->tell,
                                         .told = s->options->told};
    status = sw_dataset_open(&options, &s->datasets[source], err);
    if (status)
        return status;
    sw_source_score *score = &s->results->sources[source];
    score->n_rows = rows_of(s, source);
    score->n_dropped = sw_dataset_describe(s->datasets[source]).n_dropped;
    score->n_bytes = s->has_codec ? 0 : -1;
    return SW_OK;
}

/* Scores that another day may change. */
static void tell_of_time(const scoring *s) {
    const sw_score_options *o = s->options;
    char now[SW_CHAT_TIME_BYTES], line[SW_MESSAGE_BYTES];
    bool has_rows = false;
    for (int i = 0; i < o->n_paths; i++)
        has_rows = has_rows || sw_dataset_first_rows(s->datasets[i]);
    if (!o->tell || o->chat.now || !s->has_codec || !has_rows ||
        !sw_chat_asks_time(s->codec.chat, now))
        return;
    snprintf(line, sizeof line,
             "the chat template writes the date, here %.10s, so the scores may differ on another "
             "day; --now TIME fixes it",
             now);
    o->tell(o->told, line);
}

/* A program for `n_tokens` tokens, if there is none yet. Called with rising numbers. */
static sw_status add_program(scoring *s, int64_t n_tokens, sw_error *err) {
    sw_graph *graph;
    int i = s->runner.compiled->n_programs;
    if (i && s->length[i - 1] == n_tokens)
        return SW_OK;
    sw_status status = sw_graph_create(1, n_tokens, &graph, err);
    if (status)
        return status;
    sw_graph_want_token_losses(graph);
    s->length[i] = n_tokens;
    return sw_runner_add(&s->runner, SW_ENDS_IN_LOSS, graph, err);
}

/* Is some row shorter than the others? */
static bool has_short_rows(const scoring *s) {
    for (int i = 0; i < s->options->n_paths; i++)
        if (sw_dataset_describe(s->datasets[i]).n_padding)
            return true;
    return false;
}

/* Choices and what is left of documents are short rows of all lengths: programs of 32, 128, 512 ...
 * tokens, up to the longest that is needed. */
static sw_status add_programs(scoring *s, sw_error *err) {
    const bool has_rows = s->options->n_paths > 0, is_short = has_short_rows(s);
    int64_t positions = s->runner.model.max_positions, longest = s->questions.longest;
    longest = is_short && s->row_length > longest ? s->row_length : longest;
    bool needs_row = has_rows;
    sw_status status = SW_OK;
    for (int64_t n = SHORTEST; (s->options->choices || is_short) && !status; n *= GROWTH) {
        bool is_last = n >= longest || n >= positions ||
                       s->runner.compiled->n_programs + 2 == SW_MOST_PROGRAMS;
        int64_t length = is_last && n < longest ? longest : n < positions ? n : positions;
        if (needs_row && s->row_length <= length) {
            status = add_program(s, s->row_length, err);
            needs_row = false;
        }
        if (!status)
            status = add_program(s, length, err);
        if (is_last)
            break;
    }
    return !status && needs_row ? add_program(s, s->row_length, err) : status;
}

static sw_status build(scoring *s, sw_error *err) {
    const sw_score_options *o = s->options;
    if (o->n_paths < 1 && !o->choices)
        return sw_fail(err, SW_BAD_CONFIG,
                       "there is nothing to score; name data or a file of choices");
    sw_status status = sw_runner_begin(&o->model, o->n_ranks, o->parameter_dtype, &s->runner, err);
    int64_t positions = s->runner.model.max_positions;
    if (!status && o->sequence_length > positions)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "rows of %" PRId64 " tokens are asked for, and this model has %" PRId64 " %s",
            o->sequence_length, positions, sw_text_noun(positions, "position", "positions"));
    s->row_length = o->sequence_length         ? o->sequence_length
                    : positions < USUAL_LENGTH ? positions
                                               : USUAL_LENGTH;
    if (!status && o->stride > s->row_length)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "a stride of %" PRId64 " would leave out tokens between rows of %" PRId64
                         "; take one up to that",
                         o->stride, s->row_length);
    /* padding behind a short row is a document of its own where tokens see those after them */
    s->runner.model.keeps_documents_apart = s->runner.model.mask != SW_MASK_CAUSAL;
    if (!status)
        status = open_codec(s, err);
    s->datasets = calloc((size_t)o->n_paths + 1, sizeof *s->datasets);
    if (!status && !s->datasets)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %d %s", o->n_paths,
                         sw_text_noun(o->n_paths, "source", "sources"));
    for (int i = 0; i < o->n_paths && !status; i++)
        status = open_source(s, i, err);
    if (!status)
        tell_of_time(s);
    if (!status && o->choices && !s->has_codec)
        status = sw_tokenizer_refuse_folder(o->model.folder, err);
    if (!status && o->choices)
        status = sw_questions_read(o->choices, &s->codec, positions, &s->questions, err);
    return status ? status : add_programs(s, err);
}

/* ---- does it fit into memory? ---- */

enum { DTYPE, LENGTH, RANKS, N_SETTINGS };

/* The same with other values of the settings that could make it need less; its programs are the
 * caller's to free. */
static sw_status build_other(const scoring *s, const int value[], scoring *other,
                             sw_score_options *options, sw_error *err) {
    *options = *s->options;
    *other = *s;
    other->options = options;
    options->parameter_dtype = value[DTYPE] ? SW_BF16 : options->parameter_dtype;
    options->n_ranks >>= value[RANKS];
    other->row_length >>= value[LENGTH];
    sw_status status = sw_runner_begin(&options->model, options->n_ranks, options->parameter_dtype,
                                       &other->runner, err);
    other->runner.model.keeps_documents_apart = s->runner.model.keeps_documents_apart;
    return status ? status : add_programs(other, err);
}

static bool price(void *self, const int value[], sw_need *need) {
    int64_t planned[SW_N_MEMORY_CLASSES];
    scoring other;
    sw_score_options options;
    sw_status status = build_other(self, value, &other, &options, NULL);
    if (!status)
        *need = sw_runner_need(&other.runner, planned);
    sw_runner_free(&other.runner);
    return !status;
}

static void word(void *self, const int value[], char *text, size_t bytes) {
    const scoring *s = self;
    const bool by_settings = s->options->model.by_settings;
    char length[64] = "", ranks[32] = "";
    if (value[LENGTH])
        snprintf(length, sizeof length, "%s%" PRId64 " ",
                 by_settings ? "data.sequence_length=" : "--sequence-length ",
                 s->row_length >> value[LENGTH]);
    if (value[RANKS])
        snprintf(ranks, sizeof ranks, "%s%d ", by_settings ? "shard.ranks=" : "--ranks ",
                 s->options->n_ranks >> value[RANKS]);
    snprintf(text, bytes, "%s%s%s",
             !value[DTYPE] ? ""
             : by_settings ? "shard.param_dtype=bf16 "
                           : "--dtype bf16 ",
             length, ranks);
}

static sw_status check_memory(scoring *s, sw_error *err) {
    sw_alternatives alternatives = {.n = N_SETTINGS,
                                    .names = "--dtype, --sequence-length and --ranks",
                                    .n_tries =
                                        sw_advice_tries(s->runner.compiled->layout.n_parameters),
                                    .self = s,
                                    .price = price,
                                    .word = word};
    int64_t planned[SW_N_MEMORY_CLASSES];
    char most[64];
    if (s->options->model.by_settings)
        alternatives.names = "shard.param_dtype, data.sequence_length and shard.ranks";
    alternatives.n_values[DTYPE] = s->options->parameter_dtype != SW_BF16;
    alternatives.n_values[RANKS] = halvings(s->options->n_ranks);
    alternatives.n_values[LENGTH] =
        s->options->n_paths ? halvings(s->row_length / larger(1, s->options->stride)) : 0;
    sw_need need = sw_runner_need(&s->runner, planned);
    return sw_need_check(&need, 0, "the model", sw_need_most(planned, most, sizeof most),
                         &alternatives, err);
}

static void release(scoring *s) {
    sw_runner_free(&s->runner);
    for (int i = 0; i < s->options->n_paths && s->datasets; i++)
        sw_dataset_close(s->datasets[i]);
    free(s->datasets);
    sw_questions_free(&s->questions);
    if (s->has_codec)
        sw_codec_free(&s->codec);
}

/* ---- in the rank ---- */

typedef struct scoring_rank {
    scoring *s;
    sw_runner runner;
    sw_comm *comm;
    int32_t *row; /* [4, row_length] tokens, targets, beginnings of documents; ids of targets, for
                     their text */
    yield *all;   /* [n_ranks] */
    int64_t n_done, n_all;
} scoring_rank;

static sw_status count_bytes(const scoring_rank *r, const int32_t *targets, int64_t n,
                             int64_t *n_bytes, sw_error *err) {
    int64_t n_ids = 0;
    char *text;
    size_t bytes;
    int32_t *ids = r->row + 3 * r->s->row_length;
    if (!r->s->has_codec)
        return SW_OK;
    for (int64_t i = 0; i < n; i++)
        if (targets[i] >= 0)
            ids[n_ids++] = targets[i];
    sw_status status =
        sw_tokenizer_decode(r->s->codec.tokenizer, ids, n_ids, true, &text, &bytes, err);
    if (status)
        return status;
    *n_bytes = (int64_t)bytes;
    free(text);
    return SW_OK;
}

static int program_for(const scoring *s, int64_t n_tokens) {
    int i = 0;
    while (s->length[i] < n_tokens)
        i++;
    return i;
}

/* Run the program for `n` tokens and their targets; what is left of its row is filled up. */
static sw_status run_tokens(scoring_rank *r, int64_t n, const int32_t *tokens,
                            const int32_t *targets, int *program, sw_error *err) {
    *program = program_for(r->s, n);
    int32_t *to_tokens = sw_runner_port(&r->runner, *program, SW_PORT_TOKENS);
    int32_t *to_targets = sw_runner_port(&r->runner, *program, SW_PORT_TARGETS);
    int32_t *documents = sw_runner_port(&r->runner, *program, SW_PORT_DOCUMENTS);
    for (int64_t t = 0; t < r->s->length[*program]; t++) {
        to_tokens[t] = t < n ? tokens[t] : 0;
        to_targets[t] = t < n ? targets[t] : -1;
        if (documents)
            documents[t] = t < n ? 0 : (int32_t)n;
    }
    return sw_runner_run(&r->runner, *program, true, err);
}

/* The first token whose loss is no number. */
static void find_not_finite(scoring_rank *r, int program, int64_t n, const int32_t *targets,
                            yield *mine) {
    const float *losses = sw_runner_port(&r->runner, program, SW_PORT_TOKEN_LOSSES);
    int64_t t = 0;
    while (t + 1 < n && isfinite(losses[t]))
        t++;
    mine->token = t + 1;
    mine->id = n > 0 ? targets[t] : -1;
}

/* Which ranks agree on: of the items of a turn, the first. */
static sw_status refuse_not_finite(const scoring_rank *r, int source, int64_t item,
                                   const yield *theirs, sw_error *err) {
    const scoring *s = r->s;
    s->results->is_not_finite = true;
    sw_comm_enter(r->comm, SW_LANE_COMPUTE, 0, 0, 0, "scoring");
    return sw_fail(err, SW_BAD_FILE,
                   "%s: %s %" PRId64 ": the loss of its token %" PRId64 " (id %" PRId32 ") is %s",
                   source < 0 ? s->options->choices : s->options->paths[source],
                   source < 0 ? "question" : "row",
                   1 + (source < 0 ? s->questions.choices[item].question : item), theirs->token + 1,
                   theirs->id, isnan(theirs->loss) ? "nan" : "infinite");
}

static sw_status score_row(scoring_rank *r, int source, int64_t row, yield *mine, sw_error *err) {
    scoring *s = r->s;
    const int64_t length = s->row_length;
    int32_t *tokens = r->row, *targets = tokens + length, *starts = targets + length;
    int64_t n = 0;
    int program;
    sw_status status = sw_dataset_row(s->datasets[source], row, tokens, targets, starts, err);
    while (!status && n < length && starts[n] == 0) /* padding begins elsewhere */
        mine->n_targets += targets[n++] >= 0;
    if (!status)
        status = count_bytes(r, targets, n, &mine->n_bytes, err);
    if (!status)
        status = run_tokens(r, n, tokens, targets, &program, err);
    if (status)
        return status;
    mine->loss = *(const double *)sw_runner_port(&r->runner, program, SW_PORT_LOSS);
    if (!isfinite(mine->loss))
        find_not_finite(r, program, n, targets, mine);
    return SW_OK;
}

static sw_status score_choice(scoring_rank *r, const sw_choice *choice, yield *mine,
                              sw_error *err) {
    int32_t *targets = malloc((size_t)choice->n * sizeof *targets);
    int program;
    if (!targets)
        return sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " %s", choice->n,
                       sw_text_noun(choice->n, "target", "targets"));
    for (int64_t t = 0; t < choice->n; t++)
        targets[t] = t + 1 >= choice->first_scored && t + 1 < choice->n ? choice->ids[t + 1] : -1;
    mine->n_targets = choice->n - choice->first_scored;
    sw_status status = run_tokens(r, choice->n, choice->ids, targets, &program, err);
    const float *losses = status ? NULL : sw_runner_port(&r->runner, program, SW_PORT_TOKEN_LOSSES);
    for (int64_t t = 0; t < choice->n && !status; t++)
        mine->loss += (double)losses[t];
    if (!status && !isfinite(mine->loss))
        find_not_finite(r, program, choice->n, targets, mine);
    free(targets);
    return status;
}

/* Score item `i` of `n`, a row of `source` or (-1) a choice, or stand by; then hear what all ranks
 * have. */
static sw_status take_turn(scoring_rank *r, int source, int64_t i, int64_t n, sw_error *err) {
    yield mine = {.is_there = i < n};
    mine.stop_signal = sw_stop_requested(r->comm);
    if (!mine.stop_signal && r->s->options->stop_signal)
        mine.stop_signal = *r->s->options->stop_signal;
    sw_status status = i >= n       ? sw_runner_run(&r->runner, 0, false, err)
                       : source < 0 ? score_choice(r, &r->s->questions.choices[i], &mine, err)
                                    : score_row(r, source, i, &mine, err);
    if (!status)
        status = sw_exchange(r->comm, &mine, r->all, sizeof mine, err);
    for (int rank = 0; rank < r->comm->n_ranks && !status; rank++) {
        r->n_done += r->all[rank].is_there;
        if (!isfinite(r->all[rank].loss))
            status = refuse_not_finite(r, source, i - r->comm->rank + rank, &r->all[rank], err);
        else if (r->all[rank].stop_signal)
            status = sw_fail(err, sw_stop_status(r->all[rank].stop_signal),
                             "stopped by %s after %" PRId64 " of %" PRId64 " %s",
                             sw_stop_words(r->all[rank].stop_signal), r->n_done, r->n_all,
                             sw_text_noun(r->n_all, "row", "rows"));
    }
    if (!status && r->comm->rank == 0 && r->s->options->progress)
        r->s->options->progress(r->s->options->progress_to, r->n_done, r->n_all);
    return status;
}

static sw_status score_source(scoring_rank *r, int source, sw_error *err) {
    int n_ranks = r->comm->n_ranks;
    int64_t n = rows_of(r->s, source);
    sw_wide_sum sum = {0};
    sw_source_score score = r->s->results->sources[source];
    sw_status status = SW_OK;
    for (int64_t first = 0; first < n && !status; first += n_ranks) {
        status = take_turn(r, source, first + r->comm->rank, n, err);
        for (int rank = 0; rank < n_ranks && !status; rank++) {
            sw_wide_sum_add(&sum, r->all[rank].loss);
            score.n_targets += r->all[rank].n_targets;
            score.n_bytes += r->all[rank].n_bytes;
        }
    }
    score.loss = sw_wide_sum_value(&sum);
    if (!status && r->comm->rank == 0)
        r->s->results->sources[source] = score;
    return status;
}

/* Of one question: the best so far by each measure, and whether it is right. */
typedef struct contest {
    double best[3];
    bool is_right[3];
} contest;

static void compare(contest *c, bool is_first, const sw_choice *choice, double log_probability) {
    const double length[3] = {(double)(choice->n - choice->first_scored),
                              choice->n_bytes ? (double)choice->n_bytes : 1, 1};
    for (int i = 0; i < 3; i++)
        if (is_first || log_probability / length[i] > c->best[i]) {
            c->best[i] = log_probability / length[i];
            c->is_right[i] = choice->is_right;
        }
}

static void close_contest(const contest *c, sw_choices_score *score) {
    score->n_questions++;
    score->n_right += c->is_right[0];
    score->n_right_by_byte += c->is_right[1];
    score->n_right_by_total += c->is_right[2];
}

static sw_status score_choices(scoring_rank *r, sw_error *err) {
    const sw_questions *q = &r->s->questions;
    int n_ranks = r->comm->n_ranks;
    sw_choices_score score = {0};
    contest c = {{0}, {false}};
    sw_status status = SW_OK;
    for (int64_t first = 0; first < q->n_choices && !status; first += n_ranks) {
        status = take_turn(r, -1, first + r->comm->rank, q->n_choices, err);
        for (int64_t i = first; i < first + n_ranks && i < q->n_choices && !status; i++) {
            bool is_first = i == 0 || q->choices[i].question != q->choices[i - 1].question;
            bool is_last =
                i + 1 == q->n_choices || q->choices[i].question != q->choices[i + 1].question;
            compare(&c, is_first, &q->choices[i], -r->all[i - first].loss);
            if (is_last)
                close_contest(&c, &score);
        }
    }
    if (!status && r->comm->rank == 0)
        r->s->results->choices = score;
    return status;
}

static sw_status score_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    scoring *s = arg;
    scoring_rank r = {.s = s, .runner = s->runner, .comm = comm, .n_all = s->questions.n_choices};
    for (int i = 0; i < s->options->n_paths; i++)
        r.n_all += rows_of(s, i);
    r.row = calloc((size_t)s->row_length * 4, sizeof *r.row);
    r.all = calloc((size_t)comm->n_ranks, sizeof *r.all);
    sw_status status =
        r.row && r.all ? SW_OK
                       : sw_fail(err, SW_NO_MEMORY, "rank %d: no memory to score rows", comm->rank);
    if (!status)
        status = sw_runner_open(&r.runner, comm, err);
    for (int i = 0; i < s->options->n_paths && !status; i++)
        status = score_source(&r, i, err);
    if (!status && s->questions.n_choices)
        status = score_choices(&r, err);
    sw_runner_close(&r.runner);
    free(r.row);
    free(r.all);
    return status;
}

sw_status sw_score(const sw_score_options *options, sw_source_score *scores,
                   sw_choices_score *choices, sw_error *err) {
    scoring s = {.options = options};
    size_t bytes = sizeof(results) + (size_t)options->n_paths * sizeof *scores;
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    launch.n_ranks = options->n_ranks;
    launch.as_threads = options->as_threads;
    launch.stop_signal = options->stop_signal;
    s.results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.results == MAP_FAILED)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the scores of %d %s", options->n_paths,
                       sw_text_noun(options->n_paths, "source", "sources"));
    sw_status status = build(&s, err);
    if (!status)
        status = check_memory(&s, err);
    if (!status)
        status = sw_launch_as(&sw_launch_plain_words, &launch, NULL, score_in_rank, &s, err);
    if (!status) {
        *choices = s.results->choices;
        if (options->n_paths)
            memcpy(scores, s.results->sources, (size_t)options->n_paths * sizeof *scores);
    }
    if (status && s.results->is_not_finite)
        sw_runner_blame(&s.runner, err);
    release(&s);
    munmap(s.results, bytes);
    return status;
}
