/* choose.c: see choose.h.
 *
 * A rate that trains a new model well destroys what one that exists has learned, so the usual
 * values depend on the kind of run:
 *
 *   run                               learning rate   weight decay   warm-up
 *   new model                         3e-4            0.1            100 steps, at most a tenth
 *   model.path, train: all, patterns  2e-5            0              3 % of the steps
 *   model.path, train: lora           2e-4            0              3 % of the steps
 */
#include "config/choose.h"

#include <string.h>

typedef struct kind {
    const char *words, *reason;
    double learning_rate, weight_decay;
} kind;

#define KIND(words) words, "usual for " words

static const kind *kind_of(const sw_settings *s) {
    static const kind new_model = {KIND("a new model"), 3e-4, 0.1},
                      whole = {KIND("fine-tuning a whole model"), 2e-5, 0},
                      parts = {KIND("fine-tuning parts of a model"), 2e-5, 0},
                      adapters = {KIND("training adapters"), 2e-4, 0};
    bool is_all = s->model.train.n == 1 && !strcmp(s->model.train.item[0], "all");
    return !s->model.path              ? &new_model
           : sw_settings_train_lora(s) ? &adapters
           : is_all                    ? &whole
                                       : &parts;
}

double sw_settings_usual_rate(const sw_settings *settings, const char **words) {
    *words = kind_of(settings)->words;
    return kind_of(settings)->learning_rate;
}

void sw_settings_choose_warmup(sw_settings *s, int64_t n_steps) {
    enum { USUAL = 100, PERCENT = 3 };
    int64_t tenth = n_steps / 10,
            hundredths = n_steps / 100 * PERCENT + (n_steps % 100 * PERCENT + 99) / 100;
    bool is_short = tenth < USUAL;
    s->optimizer.warmup_steps = s->model.path ? hundredths : is_short ? tenth : USUAL;
    s->chosen.warmup_steps = s->model.path ? "3 % of the steps"
                             : is_short    ? "a tenth of the steps"
                                           : kind_of(s)->reason;
}

void sw_settings_choose(sw_settings *s) {
    const kind *usual = kind_of(s);
    if (s->model.dropout == SW_AUTO && !s->model.path)
        s->model.dropout = 0;
    if (s->optimizer.learning_rate == SW_AUTO) {
        s->optimizer.learning_rate = usual->learning_rate;
        s->chosen.learning_rate = usual->reason;
    }
    if (s->optimizer.weight_decay == SW_AUTO) {
        s->optimizer.weight_decay = usual->weight_decay;
        s->chosen.weight_decay = usual->reason;
    }
    if (s->optimizer.warmup_steps == SW_AUTO && s->train.steps)
        sw_settings_choose_warmup(s, s->train.steps);
}
