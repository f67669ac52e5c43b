/* eval_scores.c: what eval prints. */
#include "cli/eval_scores.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/json_number.h"
#include "base/text.h"

static double loss_of(const sw_source_score *s) {
    return s->n_targets ? s->loss / (double)s->n_targets : NAN;
}

/* Natural logarithms become base 2. */
static double bits_per_byte(const sw_source_score *s) {
    return s->loss / log(2) / (double)s->n_bytes;
}

/* Of all sources together. */
static sw_source_score sum_of(const sw_score_options *o, const sw_source_score *scores) {
    sw_source_score all = {0};
    for (int i = 0; i < o->n_paths; i++) {
        all.n_rows += scores[i].n_rows;
        all.n_targets += scores[i].n_targets;
        all.n_dropped += scores[i].n_dropped;
        all.n_bytes =
            all.n_bytes < 0 || scores[i].n_bytes < 0 ? -1 : all.n_bytes + scores[i].n_bytes;
        all.loss += scores[i].loss;
    }
    return all;
}

static void print_source(const char *name, const sw_source_score *s) {
    const double loss = loss_of(s), perplexity = exp(loss);
    if (!s->n_targets) {
        printf("%s: none of the tokens in %" PRId64 " %s counts as a target\n", name, s->n_rows,
               sw_text_noun(s->n_rows, "row", "rows"));
        return;
    }
    printf("%s: loss %.4f · perplexity ", name, loss);
    if (isfinite(perplexity))
        printf("%.4g · ", perplexity);
    else
        printf("beyond 1e308 · ");
    if (s->n_bytes > 0)
        printf("%.4f bits per byte", bits_per_byte(s));
    else
        printf("bits per byte unknown (%s)", s->n_bytes < 0
                                                 ? "the model has no tokenizer"
                                                 : "what is predicted has no byte of text");
    printf(" · %" PRId64 " %s in %" PRId64 " %s", s->n_targets,
           sw_text_noun(s->n_targets, "token", "tokens"), s->n_rows,
           sw_text_noun(s->n_rows, "row", "rows"));
    if (s->n_dropped)
        printf(", %" PRId64 " %s alone, with nothing before it", s->n_dropped,
               sw_text_noun(s->n_dropped, "token stands", "tokens stand each"));
    putchar('\n');
}

static void print_choices(const char *name, const sw_choices_score *c) {
    double n = (double)c->n_questions;
    printf("%s: accuracy %.4f by log-probability per token, %.4f per byte, %.4f of the whole · "
           "%" PRId64 " %s\n",
           name, (double)c->n_right / n, (double)c->n_right_by_byte / n,
           (double)c->n_right_by_total / n, c->n_questions,
           sw_text_noun(c->n_questions, "question", "questions"));
}

void sw_print_scores(const sw_score_options *o, const sw_source_score *scores,
                     const sw_choices_score *choices) {
    const sw_source_score all = sum_of(o, scores);
    for (int i = 0; i < o->n_paths; i++)
        print_source(o->paths[i], &scores[i]);
    if (o->n_paths > 1)
        print_source("all", &all);
    if (choices->n_questions)
        print_choices(o->choices, choices);
}

static json_t *source_json(const char *name, const sw_source_score *s) {
    const double loss = loss_of(s);
    /* a name need not be UTF-8 */
    json_t *path = json_string(name),
           *object = json_pack("{s:o}", "source", path ? path : json_null());
    json_object_set_new(object, "loss", sw_json_number(loss));
    json_object_set_new(object, "perplexity", sw_json_number(exp(loss)));
    if (s->n_bytes > 0) {
        json_object_set_new(object, "bits_per_byte", sw_json_number(bits_per_byte(s)));
        json_object_set_new(object, "bytes", json_integer(s->n_bytes));
    }
    json_object_set_new(object, "tokens", json_integer(s->n_targets));
    json_object_set_new(object, "tokens_alone", json_integer(s->n_dropped));
    json_object_set_new(object, "rows", json_integer(s->n_rows));
    return object;
}

static json_t *choices_json(const sw_choices_score *c) {
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "questions", (json_int_t)c->n_questions, "right",
                     (json_int_t)c->n_right, "right_by_byte", (json_int_t)c->n_right_by_byte,
                     "right_by_total", (json_int_t)c->n_right_by_total, "accuracy",
                     sw_json_number((double)c->n_right / (double)c->n_questions));
}

sw_status sw_print_scores_json(const sw_score_options *o, const sw_source_score *scores,
                               const sw_choices_score *choices, sw_error *err) {
    const sw_source_score all = sum_of(o, scores);
    json_t *sources = json_array(), *report = json_pack("{s:O}", "sources", sources);
    bool is_whole = sources && report;
    for (int i = 0; i < o->n_paths && is_whole; i++)
        is_whole = json_array_append_new(sources, source_json(o->paths[i], &scores[i])) == 0;
    if (is_whole && all.n_targets)
        is_whole = json_object_set_new(report, "loss", sw_json_number(loss_of(&all))) == 0 &&
                   json_object_set_new(report, "tokens", json_integer(all.n_targets)) == 0;
    if (is_whole && choices->n_questions)
        is_whole = json_object_set_new(report, "choices", choices_json(choices)) == 0;
    if (is_whole)
        is_whole = json_dumpf(report, stdout, JSON_REAL_PRECISION(9)) == 0;
    putchar('\n');
    json_decref(sources);
    json_decref(report);
    return is_whole ? SW_OK
                    : sw_fail(err, SW_NO_MEMORY, "no memory to print the scores · shardwise eval");
}
