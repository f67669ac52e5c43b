/* settle.c: what `auto` comes to in the optimizer's options of a run.
 *
 * A run that goes on keeps what it began with, though other data or more steps would now give
 * another warm-up: its updates so far were made with that. Asking for more steps is then no change
 * of any setting. checkpoint.resume.force chooses anew.
 */
#include "base/text.h"
#include "checkpoint/load.h"
#include "train/train.h"

/* The number that the checkpoint has for `key`, where it differs from the one that would be chosen
 * now. */
static void keep(const sw_checkpoint *checkpoint, const sw_settings *s, const char *key,
                 double *value, const char **reason) {
    const char *then = sw_checkpoint_find_setting(checkpoint, key);
    double number;
    if (!then || sw_record_is_forced(s, key) || !sw_text_parse_real(then, &number) ||
        number == *value)
        return;
    *value = number;
    *reason = "as when the run began";
}

static void keep_all(const sw_checkpoint *checkpoint, sw_settings *s) {
    double warmup = (double)s->optimizer.warmup_steps;
    if (s->chosen.learning_rate)
        keep(checkpoint, s, "optimizer.learning_rate", &s->optimizer.learning_rate,
             &s->chosen.learning_rate);
    if (s->chosen.weight_decay)
        keep(checkpoint, s, "optimizer.weight_decay", &s->optimizer.weight_decay,
             &s->chosen.weight_decay);
    if (s->chosen.warmup_steps)
        keep(checkpoint, s, "optimizer.warmup_steps", &warmup, &s->chosen.warmup_steps);
    s->optimizer.warmup_steps = (int64_t)warmup;
}

void sw_run_settle(sw_run *run) {
    sw_settings *s = &run->settled;
    sw_checkpoint *checkpoint = NULL;
    *s = *run->settings;
    if (s->optimizer.warmup_steps == SW_AUTO)
        sw_settings_choose_warmup(s, run->n_steps);
    /* What is wrong with the checkpoints is told by sw_run_folder_compare. */
    if (run->goes_on && !sw_run_folder_newest(s->checkpoint.path, &checkpoint, NULL) && checkpoint)
        keep_all(checkpoint, s);
    sw_checkpoint_close(checkpoint);
    run->settings = s;
}
