/* room.c: does what a run still has to write fit on its disk?
 *
 * Only what comes on top of what is there counts. A folder that a run goes on in holds checkpoints
 * of its own already, and each new one takes the place of an old one, which is removed when the new
 * one has its name. So with `keep` of them there, one more has to fit, and at the end the model
 * beside those that stay:
 *
 *   there ... | + 1 while it is saved | ... keep are there, + 1 while one is saved | keep, + model
 *
 * What a killed run left, and the next start removes, is given back. Checkpoints that stay for good
 * (keep: 0, keep_every) are the user's to count, who may move them away meanwhile; where all of
 * them would not fit, that is remarked on.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/integer.h"
#include "base/text.h"
#include "checkpoint/steps.h"
#include "hf/model_files.h"
#include "train/train.h"

/* Settings, plan, events; a line of metrics has some 1,100 bytes, and however many lines there are,
 * they are not counted on. */
enum { SMALL_FILES_BYTES = 128 << 10, LINE_BYTES = 1200, MOST_LINES_BYTES = 16 << 20 };

/* What there is, and what comes. All in checkpoints of one size, that of the next. */
typedef struct disk {
    int64_t there;     /* checkpoints that are there and may be removed by newer ones */
    int64_t there_all; /* and those that stay for good */
    int64_t keep;      /* of the newest; 0: all */
    int64_t n_saves;   /* to come */
    bool finds_best;   /* one more stays: the best by validation loss */
    int64_t checkpoint, model, lines, left_over; /* bytes */
} disk;

/* The most checkpoints that are there at once, beyond those that are there now. */
static int64_t most_at_once(const disk *d) {
    if (!d->n_saves)
        return 0;
    if (!d->keep)
        return 1;
    int64_t stays = d->keep + (d->finds_best && d->n_saves > d->keep);
    return larger(1, smaller(d->n_saves, stays + 1 - d->there));
}

/* Those that are there when the last one is saved, beyond those that are there now; below 0:
 * fewer. */
static int64_t more_at_the_end(const disk *d) {
    if (!d->n_saves)
        return 0;
    if (!d->keep)
        return 1;
    int64_t stays = d->keep + (d->finds_best && d->n_saves > d->keep);
    return (d->n_saves > stays - d->there ? stays : d->there + d->n_saves) - d->there;
}

static int64_t times(int64_t n, int64_t bytes) {
    int64_t product;
    return __builtin_mul_overflow(n, bytes, &product) ? INT64_MAX : product;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Bytes that must be free. */
static int64_t needed(const disk *d) {
    int64_t saving = times(most_at_once(d), d->checkpoint),
            ending = plus(times(more_at_the_end(d), d->checkpoint), d->model);
    int64_t most = plus(larger(saving, ending), plus(d->lines, SMALL_FILES_BYTES));
    return larger(0, most - d->left_over);
}

/* ---- what is there ---- */

static void count_checkpoints(const sw_run *run, disk *d, int64_t *newest) {
    const sw_settings *s = run->settings;
    sw_steps steps;
    int best = -1;
    *newest = 0;
    if (sw_steps_list(s->checkpoint.path, &steps, NULL))
        steps.n = 0; /* the run's own look at them says why */
    for (int i = 0; i < steps.n; i++)
        if (!isnan(steps.item[i].validation_loss) &&
            (best < 0 || steps.item[i].validation_loss <= steps.item[best].validation_loss))
            best = i;
    for (int i = 0; i < steps.n; i++) {
        const sw_step_entry *item = &steps.item[i];
        bool stays =
            i == best || (s->checkpoint.keep_every && item->step % s->checkpoint.keep_every == 0);
        d->there_all += item->is_whole;
        d->there += item->is_whole && !stays;
        *newest = item->is_whole ? larger(*newest, item->step) : *newest;
    }
    sw_steps_free(&steps);
}

static sw_status look(const sw_run *run, disk *d, sw_error *err) {
    const sw_settings *s = run->settings;
    sw_model_output output = sw_run_folder_output(run);
    char model[SW_PATH_BYTES];
    int64_t newest, every = s->checkpoint.every;
    sw_status status = sw_model_files_bytes(&output, &d->model, err);
    if (!status)
        status = sw_path_join(model, s->checkpoint.path, "model", err);
    if (status)
        return status;
    count_checkpoints(run, d, &newest);
    int64_t n_steps = larger(run->n_steps - newest, 0);
    const sw_save_options saves = sw_assembly_save_options(&run->plan.assembly, 0);
    d->checkpoint = every ? sw_save_file_bytes(&saves) : 0;
    d->keep = smaller(s->checkpoint.keep, INT32_MAX); /* nobody saves more */
    d->n_saves = every && n_steps ? (run->n_steps - 1) / every - newest / every + 1 : 0;
    d->finds_best = run->validation && s->train.validate_every;
    d->lines = s->log.metrics
                   ? smaller(times(n_steps / s->log.every + 1, LINE_BYTES), MOST_LINES_BYTES)
                   : 0;
    d->left_over =
        plus(sw_steps_left_over_bytes(s->checkpoint.path), sw_model_files_left_over_bytes(model));
    return SW_OK;
}

/* ---- words ---- */

static sw_status refuse(const sw_run *run, const disk *d, int64_t space, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    char all[SW_TEXT_NUMBER_BYTES], one[SW_TEXT_NUMBER_BYTES], model[SW_TEXT_NUMBER_BYTES],
        left[SW_TEXT_NUMBER_BYTES];
    char parts[256], there[96] = "", advice[64] = "";
    int64_t at_once = most_at_once(d), at_end = larger(0, more_at_the_end(d));
    bool is_saving =
        times(at_once, d->checkpoint) >= plus(times(more_at_the_end(d), d->checkpoint), d->model);
    int64_t n = is_saving ? at_once : at_end;
    disk other = *d;
    sw_text_bytes(d->checkpoint, one, sizeof one);
    sw_text_bytes(d->model, model, sizeof model);
    if (d->there_all)
        snprintf(there, sizeof there, ", beside %" PRId64 " that the folder has", d->there_all);
    if (!n)
        snprintf(parts, sizeof parts, "the final model of %s", model);
    else if (is_saving)
        snprintf(parts, sizeof parts, "%" PRId64 " checkpoint%s of %s at once%s", n,
                 n > 1 ? "s" : "", one, there);
    else
        snprintf(parts, sizeof parts, "%" PRId64 " checkpoint%s of %s%s, and the final model of %s",
                 n, n > 1 ? "s" : "", one, there, model);
    for (other.keep = d->keep - 1; d->keep > 1 && other.keep > 1 && needed(&other) > space;)
        other.keep /= 2;
    if (d->keep > 1 && d->n_saves && needed(&other) <= space)
        snprintf(advice, sizeof advice, "checkpoint.keep=%" PRId64 " would fit, ", other.keep);
    return sw_fail(err, SW_NO_SPACE,
                   "%s: the run still writes %s: %s, and lines of metrics; the disk has %s left · "
                   "%sfree some, or "
                   "take another checkpoint.path",
                   path, sw_text_bytes(needed(d), all, sizeof all), parts,
                   sw_text_bytes(space, left, sizeof left), advice);
}

/* Checkpoints that stay for good, more than there is room for. */
static void remark(sw_run *run, const disk *d, int64_t space) {
    const sw_settings *s = run->settings;
    char all[SW_TEXT_NUMBER_BYTES], left[SW_TEXT_NUMBER_BYTES];
    int64_t between = d->keep && s->checkpoint.every
                          ? larger(1, s->checkpoint.keep_every / s->checkpoint.every)
                          : 1;
    int64_t n = !d->keep || s->checkpoint.keep_every ? d->n_saves / between : 0;
    if (times(n, d->checkpoint) > space)
        snprintf(run->room_remark, sizeof run->room_remark,
                 "%s will keep %" PRId64 " %s %s, and the disk has %s left: saves will fail then",
                 d->keep ? "checkpoint.keep_every" : "checkpoint.keep: 0", n,
                 sw_text_noun(n, "checkpoint more, which takes", "checkpoints more, which take"),
                 sw_text_bytes(times(n, d->checkpoint), all, sizeof all),
                 sw_text_bytes(space, left, sizeof left));
}

sw_status sw_run_folder_room(sw_run *run, sw_error *err) {
    disk d = {0};
    int64_t space = sw_file_space(run->settings->checkpoint.path);
    sw_status status = look(run, &d, err);
    if (status)
        return status;
    if (needed(&d) > space)
        return refuse(run, &d, space, err);
    run->plan.files_in_memory =
        sw_file_is_in_memory(run->settings->checkpoint.path) ? needed(&d) : 0;
    remark(run, &d, space);
    return SW_OK;
}
