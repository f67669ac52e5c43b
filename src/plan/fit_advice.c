/* fit_advice.c: which other settings would make a run fit: found by planning with them, so that
 * what is advised was computed to fit, and that none do is said only when they were tried.
 *
 * The fewest changes come first, and of each setting the mildest value. What changes only time and
 * place is tried before what changes the numbers that are computed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/integer.h"
#include "base/text.h"
#include "plan/plan.h"

enum { SHORTEST_SEQUENCE = 16, MOST_DIVISORS = 512 /* no number up to 2^24 has as many */ };

/* Settings as they might be. */
typedef struct trial {
    sw_settings settings; /* a copy, whose texts are the run's */
    sw_assembly_choice choice;
} trial;

/* The settings that can help. From PARAM_DTYPE on they change the numbers that are computed. */
enum {
    RECOMPUTE,
    MICRO_BATCH,
    STAGE,
    RANKS,
    ACCUMULATE,
    THREADS,
    PARAM_DTYPE,
    SEQUENCE,
    N_CHANGES
};
enum { MILD_CHANGES = (1 << PARAM_DTYPE) - 1, ALL_CHANGES = (1 << N_CHANGES) - 1 };

typedef struct search {
    const sw_plan *plan;
    const sw_memory_limits *limits;
    int64_t micro_batch[MOST_DIVISORS]; /* [n_micro_batches] the smaller divisors of the batch, the
                                           largest first */
    int n_micro_batches;
    int64_t n_left; /* that may still be tried */
    bool is_cut;    /* there was more to try */
    trial found;
    sw_need need; /* of what was found */
} search;

/* ---- one setting ---- */

/* Fewer ranks are fewer processes, more ranks have less each: one less, halves of what is set down
 * to 1, then doubles. 0: there is no such step. */
static int other_ranks(int n, int step) {
    int list[2 * 8 + 2], count = 0;
    if (n - 1 > n / 2)
        list[count++] = n - 1;
    for (int k = n / 2; k >= 1; k /= 2)
        list[count++] = k;
    for (int64_t k = 2 * (int64_t)n; k <= SW_MAX_RANKS; k *= 2)
        list[count++] = (int)k;
    return step <= count ? list[step - 1] : 0;
}

/* The `step`-th other value of one setting, from 1, the milder ones first; false when there is
 * none. */
static bool change(const search *s, int which, int step, trial *t) {
    const sw_plan *plan = s->plan;
    sw_assembly_choice *choice = &t->choice;
    sw_settings *settings = &t->settings;
    switch (which) {
    case RECOMPUTE:
        choice->recompute += step;
        return choice->recompute <= SW_RECOMPUTE_BLOCK;
    case MICRO_BATCH:
        choice->micro_batch_size = step <= s->n_micro_batches ? s->micro_batch[step - 1] : 0;
        return choice->micro_batch_size > 0;
    case STAGE:
        choice->stage += step;
        return choice->stage <= 3;
    case RANKS:
        choice->n_ranks = other_ranks(choice->n_ranks, step);
        return choice->n_ranks > 0;
    case ACCUMULATE:
        settings->shard.accumulate = SW_ACCUMULATE_SHARDED;
        return step == 1 && plan->assembly.settings->shard.accumulate != SW_ACCUMULATE_SHARDED;
    case THREADS:
        choice->n_threads = step < 31 ? choice->n_threads >> step : 0;
        return choice->n_threads > 0;
    case PARAM_DTYPE:
        settings->shard.param_dtype = SW_PARAM_BF16;
        return step == 1 && plan->assembly.settings->shard.param_dtype != SW_PARAM_BF16;
    default:
        settings->data.sequence_length = step < 62 ? settings->data.sequence_length >> step : 0;
        return settings->data.sequence_length >= SHORTEST_SEQUENCE && !plan->assembly.custom;
    }
}

/* One setting as far as it goes. */
static void exhaust(const search *s, int which, trial *t) {
    const trial from = *t;
    for (int step = which == MICRO_BATCH && s->n_micro_batches ? s->n_micro_batches : 1;; step++) {
        trial other = from;
        if (!change(s, which, step, &other))
            return;
        *t = other;
    }
}

/* ---- sets of settings ---- */

static bool fits(search *s, const trial *t) {
    sw_assembly a;
    s->is_cut = s->is_cut || s->n_left == 0;
    if (s->is_cut)
        return false;
    s->n_left--;
    if (sw_assembly_create(&t->settings, s->plan->assembly.custom, &t->choice, &a, NULL))
        return false;
    sw_need need = sw_plan_need(s->plan, &a);
    sw_assembly_free(&a);
    if (!sw_need_fits(&need, s->limits))
        return false;
    s->found = *t;
    s->need = need;
    return true;
}

/* The set `changes` (bits), every setting as far as it goes, with each number of ranks if that is
 * among them: where none of this fits, nothing milder does. */
static bool could_fit(search *s, unsigned changes, const trial *now) {
    const bool with_ranks = changes >> RANKS & 1;
    for (int step = with_ranks;; step++) {
        trial t = *now;
        if (with_ranks && !change(s, RANKS, step, &t))
            return false;
        for (int which = 0; which < N_CHANGES; which++)
            if (which != RANKS && changes >> which & 1)
                exhaust(s, which, &t);
        if (fits(s, &t))
            return true;
        if (!with_ranks || s->is_cut)
            return false;
    }
}

/* The mildest micro-batch with which the settings of the set that come after it could fit. Smaller
 * ones need less, so it is found by halving: a batch may have hundreds of divisors. */
static int first_micro_batch(search *s, unsigned changes, const trial *from) {
    const unsigned after = changes & ~((2u << MICRO_BATCH) - 1);
    int none = 0, good = s->n_micro_batches + 1; /* up to `none` nothing fits */
    while (good - none > 1) {
        const int middle =
            good > s->n_micro_batches ? s->n_micro_batches : none + (good - none) / 2;
        trial other = *from;
        change(s, MICRO_BATCH, middle, &other);
        if (could_fit(s, after, &other))
            good = middle;
        else
            none = middle;
    }
    return good;
}

/* Each setting of the set in its steps. */
static bool try_steps(search *s, unsigned changes, int which, const trial *from) {
    if (which == N_CHANGES)
        return fits(s, from);
    if (!(changes >> which & 1))
        return try_steps(s, changes, which + 1, from);
    for (int step = which == MICRO_BATCH ? first_micro_batch(s, changes, from) : 1; !s->is_cut;
         step++) {
        trial other = *from;
        if (!change(s, which, step, &other))
            return false;
        if (try_steps(s, changes, which + 1, &other))
            return true;
    }
    return false;
}

/* The fewest of these settings that make it fit. Where not all can be tried it is all of them: that
 * was computed first. */
static bool find(search *s, unsigned among, const trial *now) {
    bool is_possible = could_fit(s, among, now) || could_fit(s, among & ~(1u << RANKS), now);
    trial strongest = s->found;
    sw_need need = s->need;
    for (int n = 1; n <= N_CHANGES && is_possible; n++)
        for (unsigned changes = 1; changes <= among && !s->is_cut; changes++)
            if (!(changes & ~among) && __builtin_popcount(changes) == n &&
                could_fit(s, changes, now) && try_steps(s, changes, 0, now))
                return true;
    s->found = strongest;
    s->need = need;
    return is_possible;
}

/* ---- words ---- */

typedef struct words {
    char *text;
    size_t n, room;
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(words *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(w->text + w->n, w->room - w->n, format, arguments);
    va_end(arguments);
    w->n = n > 0 && (size_t)n < w->room - w->n ? w->n + (size_t)n : w->room - 1;
}

/* What `auto` would choose anew for other ranks is said too, as it was computed with. */
static void word(const search *s, words *w) {
    const sw_assembly_choice *now = &s->plan->assembly.choice, *then = &s->found.choice;
    const sw_settings *before = s->plan->assembly.settings, *after = &s->found.settings;
    const bool has_other_ranks = then->n_ranks != now->n_ranks;
    char plan[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES];
    if (then->recompute != now->recompute)
        add(w, "shard.recompute=%s ",
            then->recompute == SW_RECOMPUTE_BLOCK ? "block" : "selective");
    if (then->micro_batch_size != now->micro_batch_size ||
        (has_other_ranks && before->train.micro_batch_size == SW_AUTO))
        add(w, "train.micro_batch_size=%" PRId64 " ", then->micro_batch_size);
    if (then->stage != now->stage)
        add(w, "shard.stage=%d ", then->stage);
    if (has_other_ranks)
        add(w, "shard.ranks=%d ", then->n_ranks);
    if (after->shard.accumulate != before->shard.accumulate)
        add(w, "shard.accumulate=sharded ");
    if (then->n_threads != now->n_threads || (has_other_ranks && before->train.threads == SW_AUTO))
        add(w, "train.threads=%d ", then->n_threads);
    if (after->shard.param_dtype != before->shard.param_dtype)
        add(w, "shard.param_dtype=bf16 ");
    if (after->data.sequence_length != before->data.sequence_length)
        add(w, "data.sequence_length=%" PRId64 " ", after->data.sequence_length);
    add(w, "would fit: a rank needs %s then, all processes %s",
        sw_text_bytes(s->need.plan, plan, sizeof plan),
        sw_text_bytes(sw_need_bytes(&s->need), all, sizeof all));
}

void sw_plan_advise(const sw_plan *plan, const sw_memory_limits *limits, char *text, size_t bytes) {
    const sw_memory_limits tighter = sw_memory_limits_for_advice(limits);
    search s = {.plan = plan,
                .limits = &tighter,
                .n_left = sw_advice_tries(plan->assembly.graph->parameters.n)};
    trial now = {*plan->assembly.settings, plan->assembly.choice};
    for (int64_t m = now.choice.micro_batch_size; m > 1 && s.n_micro_batches < MOST_DIVISORS;)
        s.micro_batch[s.n_micro_batches++] = m =
            largest_divisor(plan->assembly.settings->train.batch_size, m - 1);
    words w = {text, 0, bytes};
    if (find(&s, MILD_CHANGES, &now) || find(&s, ALL_CHANGES, &now))
        word(&s, &w);
    else
        add(&w,
            "no other stage, number of ranks or threads, recompute, micro-batch or shorter "
            "sequence makes it fit%s; take a "
            "smaller model or a machine with more memory",
            s.is_cut ? ", of those that were tried" : "");
}
