/* generate.c: prompts are dealt to ranks in turn, and on each rank to rows of the cache: a row
 * whose text is over takes the next.
 *
 * Every rank goes its own way, a piece of a prompt or one token for each of its rows at a time; all
 * take equally many turns, and after each one they tell each other which tokens it brought. Rank 0
 * shows them, prompt after prompt.
 */
#include "infer/generate.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/json.h"
#include "base/stop_signal.h"
#include "base/text.h"
#include "data/codec.h"
#include "data/sampling.h"
#include "hf/chat_template.h"
#include "infer/decoder.h"
#include "infer/streamed_text.h"
#include "launch/launch.h"

enum { MOST_ROWS = 256, USUAL_ROWS = 8, MOST_ENDS = 16 };

/* The tokens of one text: a prompt, and what follows it. */
typedef struct context {
    int32_t *ids;
    int64_t n_ids, n_prompt;
    int64_t begin;  /* the cache's position 0 holds ids[begin] */
    int64_t cached; /* ids begin .. begin + cached - 1 are in the cache */
    int64_t n_drawn;
} context;

typedef struct generation {
    const sw_generate_options *options;
    sw_decoder decoder;
    sw_codec codec; /* {0} where only ids are given */
    int64_t ends[MOST_ENDS + 1];
    int n_ends;
    int64_t n_texts;            /* samples of all prompts */
    context *contexts;          /* [n_texts] */
    sw_streamed_text *texts;    /* [n_texts] in the ranks: of own texts, on rank 0 all */
    int64_t longest;            /* tokens of the longest prompt */
    int64_t shown;              /* the text whose turn it is */
    atomic_bool *is_not_finite; /* some logit: in memory that ranks share */
    /* in the rank */
    sw_comm *comm;
    int64_t rows[MOST_ROWS]; /* the text of each row; -1: free */
    int64_t next;            /* text of this rank */
    int32_t *work;
    float *adjusted; /* [vocabulary] logits with penalties; NULL: there are none */
} generation;

/* What a rank tells the others after a turn. */
typedef struct news {
    int32_t n;
    bool is_done;
    int32_t stop_signal; /* 0: none came */
    struct {
        int32_t text, token;
    } item[MOST_ROWS];
} news;
_Static_assert(sizeof(news) <= SW_EXCHANGE_BYTES, "news fits into an exchange");

static int64_t n_samples(const sw_generate_options *o) {
    return o->n_samples ? o->n_samples : 1;
}

static bool has_penalty(const sw_generate_options *o) {
    return o->repetition_penalty != 0 && o->repetition_penalty != 1;
}

static sw_sampling sampling_of(const sw_generate_options *o, int64_t text) {
    return (sw_sampling){.temperature = o->temperature,
                         .top_k = o->top_k,
                         .top_p = o->top_p,
                         .seed = o->seed + (uint64_t)(text / n_samples(o)),
                         .min_p = o->min_p,
                         .sample = (uint32_t)(text % n_samples(o))};
}

static sw_status check(const sw_generate_options *o, sw_error *err) {
    const sw_sampling sampling = sampling_of(o, 0);
    for (int64_t i = 0; i < o->n_prompts; i++)
        if (o->prompts[i].text ? !o->prompts[i].n_bytes : o->prompts[i].n_ids < 1)
            return sw_fail(err, SW_BAD_CONFIG,
                           "prompt %" PRId64 " is empty; give at least one character", i + 1);
    for (int i = 0; i < o->n_stops; i++)
        if (!o->stops[i][0])
            return sw_fail(err, SW_BAD_CONFIG,
                           "a stop text is empty; give at least one character with --stop");
    if (o->n_prompts < 1 || o->n_samples < 0 || o->n_prompts > INT32_MAX / n_samples(o))
        return sw_fail(err, SW_BAD_CONFIG,
                       "%" PRId64 " prompts of %" PRId64
                       " texts each are asked for; 1 to %d texts are possible",
                       o->n_prompts, o->n_samples, INT32_MAX);
    if (o->max_tokens < 1)
        return sw_fail(err, SW_BAD_CONFIG, "%" PRId64 " tokens are asked for; at least 1 is needed",
                       o->max_tokens);
    if (o->n_ranks < 1 || o->n_ranks > SW_MAX_RANKS || o->n_rows < 0 || o->n_rows > MOST_ROWS)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%d ranks of %" PRId64
                       " rows are asked for; 1 to %d ranks and up to %d rows are possible",
                       o->n_ranks, o->n_rows, SW_MAX_RANKS, MOST_ROWS);
    sw_status status = has_penalty(o) ? sw_penalty_check(o->repetition_penalty, err) : SW_OK;
    return status ? status : sw_sampling_check(&sampling, err);
}

/* Tokens that end a text: of generation_config.json, or of config.json: one, a list, or none. */
static sw_status read_ends(generation *g, sw_error *err) {
    static const char *const files[] = {"generation_config.json", "config.json"};
    for (int i = 0; i < 2 && !g->n_ends; i++) {
        char path[SW_PATH_BYTES];
        sw_json *document;
        sw_status status = sw_path_join(path, g->options->model.folder, files[i], err);
        if (status)
            return status;
        if (!sw_file_exists(path))
            continue;
        if ((status = sw_json_read(path, 1 << 20, &document, err)))
            return status;
        sw_json_object root = sw_json_root(document);
        if (sw_json_is_list(&root, "eos_token_id")) {
            status = sw_json_integers(&root, "eos_token_id", g->ends, MOST_ENDS, &g->n_ends, err);
            g->n_ends = g->n_ends < MOST_ENDS ? g->n_ends : MOST_ENDS;
        } else if (sw_json_has(&root, "eos_token_id")) {
            status = sw_json_integer(&root, "eos_token_id", SW_JSON_REQUIRED, &g->ends[0], err);
            g->n_ends = 1;
        }
        sw_json_free(document);
        if (status)
            return status;
    }
    return SW_OK;
}

static bool ends_text(const generation *g, int32_t token) {
    for (int i = 0; i < g->n_ends && !g->options->passes_end; i++)
        if (g->ends[i] == token)
            return true;
    return false;
}

static sw_status encode(generation *g, const sw_prompt *prompt, sw_token_list *ids, sw_error *err) {
    const sw_slice text = {prompt->text, (int64_t)prompt->n_bytes};
    const char *system = g->options->system;
    if (!g->options->is_chat)
        return sw_codec_encode(&g->codec, text, ids, err);
    return sw_codec_encode_chat(&g->codec, system, text, ids, err);
}

/* The ids of a text's prompt, with room for what follows. All samples of a prompt begin with the
 * same. */
static sw_status read_prompt(generation *g, const sw_model_config *model, int64_t text,
                             sw_error *err) {
    const int64_t i = text / n_samples(g->options), sample = text % n_samples(g->options);
    const sw_prompt *prompt = &g->options->prompts[i];
    context *c = &g->contexts[text];
    sw_token_list encoded = {0};
    const int32_t *ids = prompt->ids;
    int64_t n = prompt->n_ids, room;
    sw_status status = SW_OK;
    if (sample) {
        ids = c[-sample].ids;
        n = c[-sample].n_prompt;
    } else if (prompt->text) {
        status = encode(g, prompt, &encoded, err);
        ids = encoded.ids;
        n = encoded.n;
    }
    if (!status && n < 1)
        status = sw_fail(err, SW_BAD_CONFIG, "prompt %" PRId64 " has no token; give at least one",
                         i + 1);
    if (!status && n > model->max_positions)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "prompt %" PRId64 " has %" PRId64 " tokens, and this model has %" PRId64
                         " %s; shorten it",
                         i + 1, n, model->max_positions,
                         sw_text_noun(model->max_positions, "position", "positions"));
    for (int64_t t = 0; t < n && !status; t++)
        if (ids[t] < 0 || ids[t] >= model->vocabulary)
            status = sw_fail(err, SW_BAD_CONFIG,
                             "prompt %" PRId64 ": token %" PRId64 " has id %" PRId32
                             ", and the model's vocabulary has %" PRId64 " ids",
                             i + 1, t, ids[t], model->vocabulary);
    if (!status && (__builtin_add_overflow(n, g->options->max_tokens, &room) || room > INT32_MAX ||
                    !(c->ids = malloc((size_t)room * sizeof *c->ids))))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " tokens more",
                         g->options->max_tokens);
    if (!status) {
        memcpy(c->ids, ids, (size_t)n * sizeof *ids);
        c->n_ids = c->n_prompt = n;
    }
    sw_token_list_free(&encoded);
    return status;
}

static sw_status build(generation *g, sw_error *err) {
    const sw_generate_options *o = g->options;
    sw_model_config model = {0};
    bool has_text = o->n_stops > 0;
    for (int64_t i = 0; i < o->n_prompts; i++)
        has_text = has_text || o->prompts[i].text;
    sw_status status = sw_runner_dimensions(&o->model, &model, err);
    if (!status)
        status = read_ends(g, err);
    if (!status && has_text)
        status = sw_codec_open(o->model.folder, model.vocabulary, &g->codec, err);
    if (!status && o->is_chat) {
        sw_chat_options chat = o->chat;
        int32_t turn_end = -1;
        char path[SW_PATH_BYTES];
        chat.folder = o->model.folder;
        sw_chat_template_of_adapter(o->model.adapter, path, &chat);
        status = sw_codec_open_chat(&g->codec, &chat, err);
        if (!status)
            status = sw_codec_turn_end(&g->codec, &turn_end, err);
        if (turn_end >= 0)
            g->ends[g->n_ends++] = turn_end;
    }
    g->contexts = calloc((size_t)g->n_texts, sizeof *g->contexts);
    if (!status && !g->contexts)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " %s", g->n_texts,
                         sw_text_noun(g->n_texts, "text", "texts"));
    for (int64_t i = 0; i < g->n_texts && !status; i++) {
        status = read_prompt(g, &model, i, err);
        g->longest =
            !status && g->contexts[i].n_ids > g->longest ? g->contexts[i].n_ids : g->longest;
    }
    if (status)
        return status;
    int64_t of_rank = (g->n_texts + o->n_ranks - 1) / o->n_ranks,
            n_rows = o->n_rows ? o->n_rows : USUAL_ROWS;
    sw_decoder_choice choice = {
        .model = o->model,
        .n_ranks = o->n_ranks,
        .n_rows = n_rows < of_rank ? n_rows : of_rank,
        .n_positions = g->longest + o->max_tokens < model.max_positions ? g->longest + o->max_tokens
                                                                        : model.max_positions,
        .parameter_dtype = o->parameter_dtype,
    };
    return sw_decoder_create(&choice, &g->decoder, err);
}

static void release(generation *g) {
    sw_decoder_free(&g->decoder);
    sw_codec_free(&g->codec);
    for (int64_t i = 0; i < g->n_texts && g->contexts; i++)
        free(g->contexts[i].ids);
    free(g->contexts);
}

/* ---- in the rank ---- */

/* The next token of a text, from the logits after its last one. */
static sw_status draw(generation *g, int64_t text, const float *logits, news *mine, sw_error *err) {
    const sw_generate_options *o = g->options;
    const sw_sampling sampling = sampling_of(o, text);
    const int32_t vocabulary = (int32_t)g->decoder.runner.model.vocabulary;
    context *c = &g->contexts[text];
    int32_t token;
    if (g->adjusted) {
        sw_penalise(o->repetition_penalty, c->ids, c->n_ids, logits, vocabulary, g->adjusted);
        logits = g->adjusted;
    }
    sw_status status = sw_sample(&sampling, logits, vocabulary, c->n_drawn++, g->work, &token, err);
    if (status == SW_BAD_FILE)
        *g->is_not_finite = true;
    if (status)
        return status;
    c->ids[c->n_ids++] = token;
    mine->item[mine->n].text = (int32_t)text;
    mine->item[mine->n++].token = token;
    return SW_OK;
}

/* Free rows take the next texts of this rank; a context that has filled its row goes on from its
 * latest half. */
static void fill_rows(generation *g) {
    const sw_decoder_choice *choice = &g->decoder.choice;
    for (int64_t row = 0; row < choice->n_rows; row++) {
        if (g->rows[row] < 0 && g->next < g->n_texts) {
            g->rows[row] = g->next;
            g->next += choice->n_ranks;
        }
        if (g->rows[row] < 0)
            continue;
        context *c = &g->contexts[g->rows[row]];
        if (c->n_ids - c->begin > choice->n_positions) {
            c->begin = c->n_ids - (choice->n_positions + 1) / 2;
            c->cached = 0;
        }
    }
}

/* A piece of the first prompt that is not in the cache yet; else a token for every row; else
 * nothing. */
static sw_status take_turn(generation *g, news *mine, sw_error *err) {
    int64_t n_rows = g->decoder.choice.n_rows, vocabulary = g->decoder.runner.model.vocabulary;
    int32_t tokens[MOST_ROWS], positions[MOST_ROWS];
    const float *logits;
    bool any = false;
    for (int64_t row = 0; row < n_rows; row++) {
        positions[row] = -1;
        if (g->rows[row] < 0)
            continue;
        context *c = &g->contexts[g->rows[row]];
        int64_t n = c->n_ids - c->begin - c->cached, n_taken;
        if (n > 1 || c->cached == 0) {
            const int32_t *ids = c->ids + c->begin + c->cached;
            sw_status status =
                sw_decoder_prompt(&g->decoder, row, c->cached, n, ids, &n_taken, &logits, err);
            c->cached += status ? 0 : n_taken;
            return status || n_taken < n ? status : draw(g, g->rows[row], logits, mine, err);
        }
        tokens[row] = c->ids[c->n_ids - 1];
        positions[row] = (int32_t)c->cached;
        any = true;
    }
    if (!any)
        return sw_decoder_idle(&g->decoder, err);
    sw_status status = sw_decoder_step(&g->decoder, tokens, positions, &logits, err);
    for (int64_t row = 0; row < n_rows && !status; row++)
        if (positions[row] >= 0) {
            g->contexts[g->rows[row]].cached++;
            status = draw(g, g->rows[row], logits + row * vocabulary, mine, err);
        }
    return status;
}

/* Who shows the texts hears of the first token that does not fit into the row of one that goes on:
 * fill_rows cuts it. */
static void tell_of_slide(const generation *g, int64_t number) {
    const sw_text_sink *sink = &g->options->sink;
    sw_streamed_text *text = &g->texts[number];
    const int64_t n_positions = g->decoder.choice.n_positions;
    if (text->is_over || text->has_slid ||
        g->contexts[number].n_prompt + text->n_tokens <= n_positions)
        return;
    text->has_slid = true;
    if (sink->slides)
        sink->slides(sink->to, number, n_positions);
}

/* Tokens of a rank's turn go to the texts that are kept here. */
static sw_status hear(generation *g, const news *theirs, bool is_mine, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; i < theirs->n && !status; i++) {
        int64_t text = theirs->item[i].text;
        if (!is_mine && g->comm->rank != 0)
            continue;
        status = sw_streamed_text_push(&g->texts[text], theirs->item[i].token,
                                       ends_text(g, theirs->item[i].token), err);
        if (g->comm->rank == 0 && g->options->sink.token)
            g->options->sink.token(g->options->sink.to, text, theirs->item[i].token);
        if (g->comm->rank == 0 && !status)
            tell_of_slide(g, text);
    }
    return status;
}

static void free_rows(generation *g) {
    for (int64_t row = 0; row < g->decoder.choice.n_rows; row++)
        if (g->rows[row] >= 0 && g->texts[g->rows[row]].is_over)
            g->rows[row] = -1;
}

static bool has_work(const generation *g) {
    for (int64_t row = 0; row < g->decoder.choice.n_rows; row++)
        if (g->rows[row] >= 0)
            return true;
    return g->next < g->n_texts;
}

/* The text whose turn it is, and those after it that are over. */
static sw_status show(generation *g, sw_error *err) {
    sw_status status = SW_OK;
    while (!status && g->comm->rank == 0 && g->shown < g->n_texts) {
        status = sw_streamed_text_show(&g->texts[g->shown], err);
        if (!g->texts[g->shown].is_over)
            break;
        g->shown++;
    }
    return status;
}

static sw_status go_on(generation *g, news *all, sw_error *err) {
    bool is_done = false;
    int stop_signal = 0, n_ranks = g->comm->n_ranks;
    sw_status status = SW_OK;
    while (!status && !is_done && !stop_signal) {
        news mine = {0};
        fill_rows(g);
        status = take_turn(g, &mine, err);
        if (!status)
            status = hear(g, &mine, true, err);
        free_rows(g);
        mine.is_done = !has_work(g);
        mine.stop_signal = sw_stop_requested(g->comm);
        if (!status)
            status = sw_exchange(g->comm, &mine, all, sizeof mine, err);
        is_done = true;
        for (int r = 0; r < n_ranks && !status; r++) {
            is_done = is_done && all[r].is_done;
            stop_signal = stop_signal ? stop_signal : all[r].stop_signal;
            if (r != g->comm->rank)
                status = hear(g, &all[r], false, err);
        }
        if (!status)
            status = show(g, err);
    }
    for (int64_t i = 0; i < g->n_texts && !status && stop_signal && g->comm->rank == 0; i++)
        if (g->texts[i].has_begun)
            status = sw_streamed_text_finish(&g->texts[i], SW_END_SIGNAL, err);
    if (!status && stop_signal)
        status = show(g, err);
    if (!status && stop_signal)
        status =
            sw_fail(err, sw_stop_status(stop_signal), "stopped by %s", sw_stop_words(stop_signal));
    return status;
}

static sw_status generate_in_rank(sw_comm *comm, void *arg, sw_error *err) {
    generation own = *(const generation *)arg, *g = &own; /* ranks may be threads */
    const int64_t n_texts = g->n_texts;
    const size_t vocabulary = (size_t)g->decoder.runner.model.vocabulary;
    bool is_short = false;
    g->comm = comm;
    g->next = comm->rank;
    for (int i = 0; i < MOST_ROWS; i++)
        g->rows[i] = -1;
    g->work = malloc(vocabulary * sizeof *g->work);
    if (has_penalty(g->options))
        is_short = !(g->adjusted = malloc(vocabulary * sizeof *g->adjusted));
    g->texts = calloc((size_t)n_texts, sizeof *g->texts);
    news *all = calloc((size_t)comm->n_ranks, sizeof *all);
    is_short = is_short || !g->work || !g->texts || !all;
    sw_status status = is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " %s",
                                          n_texts, sw_text_noun(n_texts, "text", "texts"))
                                : SW_OK;
    for (int64_t i = 0; i < n_texts && !status; i++)
        status = sw_streamed_text_create(g->options, i, g->contexts[i].n_prompt, g->codec.tokenizer,
                                         &g->texts[i], err);
    if (!status)
        status = sw_decoder_open(&g->decoder, comm, err);
    if (!status)
        status = go_on(g, all, err);
    sw_decoder_close(&g->decoder);
    for (int64_t i = 0; i < n_texts && g->texts; i++)
        sw_streamed_text_free(&g->texts[i]);
    free(g->texts);
    free(g->work);
    free(g->adjusted);
    free(all);
    return status;
}

sw_status sw_generate(const sw_generate_options *options, sw_error *err) {
    generation g = {.options = options};
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    launch.n_ranks = options->n_ranks;
    launch.as_threads = options->as_threads;
    launch.stop_signal = options->stop_signal;
    sw_status status = check(options, err);
    if (!status)
        g.n_texts = options->n_prompts * n_samples(options);
    if (!status)
        status = build(&g, err);
    if (!status)
        status = sw_decoder_check_memory(&g.decoder, g.longest, options->max_tokens, err);
    if (!status) {
        g.is_not_finite = mmap(NULL, sizeof *g.is_not_finite, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (g.is_not_finite == MAP_FAILED) {
            release(&g);
            return sw_fail(err, SW_NO_MEMORY, "no memory that ranks share");
        }
        status = sw_launch_as(&sw_launch_plain_words, &launch, NULL, generate_in_rank, &g, err);
        if (status && *g.is_not_finite)
            sw_runner_blame(&g.decoder.runner, err);
        munmap(g.is_not_finite, sizeof *g.is_not_finite);
    }
    release(&g);
    return status;
}
