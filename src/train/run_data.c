/* run_data.c: the data of a run: the tokenizer if there is text to tokenize, the rows to train on,
 * the rows to validate on. */
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/run_folder.h"
#include "tokenizer/tokenizer.h"

/* Is there text that a tokenizer must turn into ids? */
static bool needs_tokenizer(const sw_settings *s, const sw_texts *paths) {
    for (int i = 0; i < paths->n; i++) {
        const char *dot = strrchr(paths->item[i], '.');
        if (!dot || (strcmp(dot, ".npy") && !(sw_settings_is_bytes(s) && !strcmp(dot, ".txt"))))
            return true;
    }
    return false;
}

bool sw_run_kept_day(const sw_settings *settings, char day[SW_CHAT_TIME_BYTES]) {
    char path[SW_PATH_BYTES];
    sw_settings before = {.directory = NULL};
    if (sw_path_join(path, settings->checkpoint.path, "run.yaml", NULL) ||
        sw_settings_read(path, NULL, 0, &before, NULL))
        return false;
    const bool is_kept = before.data.chat_now != NULL;
    if (is_kept)
        snprintf(day, SW_CHAT_TIME_BYTES, "%s", before.data.chat_now);
    sw_settings_free(&before);
    return is_kept;
}

static sw_status open_chat(sw_run *run, const char *folder, sw_error *err) {
    const sw_settings *s = run->settings;
    char day[SW_CHAT_TIME_BYTES], told[SW_CHAT_TIME_BYTES];
    if (!run->goes_on || !sw_run_kept_day(s, day)) /* the text of one run stays the same */
        sw_chat_today(day);
    const sw_chat_options options = {.folder = folder,
                                     .format = sw_settings_chat_format(s),
                                     .template_path = s->data.chat_template,
                                     .now = s->data.chat_now ? s->data.chat_now : day};
    sw_status status = sw_chat_open(&options, &run->chat, err);
    if (!status && !s->data.chat_now && sw_chat_asks_time(run->chat, told))
        strcpy(run->chat_now, day);
    return status;
}

/* The folder of the model that the run starts from, which may have a tokenizer; NULL: there is
 * none. */
static const char *model_folder(const sw_settings *s) {
    return s->model.path && !sw_is_safetensors(s->model.path) ? s->model.path : NULL;
}

static sw_status open_tokenizer(sw_run *run, sw_error *err) {
    const sw_settings *s = run->settings;
    if (!(needs_tokenizer(s, &s->data.train) || needs_tokenizer(s, &s->data.validation)))
        return SW_OK;
    if (sw_settings_is_bytes(s))
        return open_chat(run, NULL, err);
    const char *path = s->data.tokenizer ? s->data.tokenizer : model_folder(s);
    if (!path)
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.train has text and there is no tokenizer for it · give "
                       "data.tokenizer: a folder with tokenizer.json, or bytes");
    char *folder = run->tokenizer_folder;
    sw_status status = sw_tokenizer_read(path, &run->tokenizer, err);
    if (!status)
        status = sw_tokenizer_folder(path, folder, err);
    if (!status)
        status = sw_path_join(run->tokenizer_file, folder, "tokenizer.json", err);
    return status ? status : open_chat(run, folder, err);
}

static void tell_progress(void *to, const char *path, int64_t done, int64_t all) {
    sw_run *run = to;
    double now = sw_seconds_now();
    if (now - run->last_told < 2)
        return;
    run->last_told = now;
    char so_far[SW_TEXT_NUMBER_BYTES], whole[SW_TEXT_NUMBER_BYTES];
    sw_report_line(run, "tokenizing %s: %s of %s", path, sw_text_bytes(done, so_far, sizeof so_far),
                   sw_text_bytes(all, whole, sizeof whole));
}

static void tell_of_cache(void *to, const char *line) {
    sw_report_line(to, "%s", line);
}

/* Where the user has no cache that can be written, tokens are kept in the run's folder; a dry run
 * has none. */
static sw_status fallback(void *to, const char *why, char folder[SW_PATH_BYTES], sw_error *err) {
    sw_run *run = to;
    sw_status status = run->options->dry_run ? sw_text_cache_temporary(why != NULL, folder, err)
                                             : sw_path_join(folder, run->settings->checkpoint.path,
                                                            SW_RUN_FOLDER_CACHE, err);
    if (!status && why && !run->options->dry_run)
        status = sw_run_folder_begin(run, err);
    if (status || !why)
        return status;
    if (!run->has_fallback)
        sw_report_line(run, "%s; tokens are kept in %s", why, folder);
    run->has_fallback = true;
    return SW_OK;
}

static sw_status open_rows(sw_run *run, const sw_texts *paths, bool is_training, int64_t vocabulary,
                           sw_dataset **data, sw_error *err) {
    static const sw_packing packings[] = {[SW_PACKING_TRUE] = SW_PACKED,
                                          [SW_PACKING_WHOLE] = SW_PACKED_WHOLE,
                                          [SW_PACKING_FALSE] = SW_UNPACKED};
    const sw_settings *s = run->settings;
    sw_dataset_options options = {
        .paths = paths->item,
        .n_paths = paths->n,
        .labels_mask = is_training ? s->data.labels_mask : NULL,
        .documents = is_training ? s->data.documents : NULL,
        .packing = packings[s->data.packing],
        .long_documents = (sw_long_documents)s->data.long_documents,
        .mix = is_training && s->data.mix.n ? s->data.mix.item : NULL,
        .sequence_length = s->data.sequence_length,
        .vocabulary = vocabulary,
        .is_bytes = sw_settings_is_bytes(s),
        .shuffle = is_training && s->data.shuffle,
        .seed = (uint64_t)s->train.seed,
        .tokenizer_path = sw_settings_is_bytes(s) ? NULL
                          : s->data.tokenizer     ? s->data.tokenizer
                                                  : model_folder(s),
        .text = {.tokenizer = run->tokenizer,
                 .tokenizer_file = run->tokenizer ? run->tokenizer_file : NULL,
                 .chat = run->chat,
                 .columns = &s->data.columns,
                 .n_workers = run->cores.n,
                 .progress = tell_progress,
                 .progress_to = run,
                 .fallback = fallback,
                 .tell = tell_of_cache,
                 .told = run},
    };
    return sw_dataset_open(&options, data, err);
}

/* What goes into the model's folder, also where the tokens come as they are. */
static sw_status choose_template(sw_run *run, sw_error *err) {
    const sw_settings *s = run->settings;
    const sw_chat_options options = {.folder = sw_settings_is_bytes(s) ? NULL
                                               : run->tokenizer        ? run->tokenizer_folder
                                                                       : model_folder(s),
                                     .format = sw_settings_chat_format(s),
                                     .template_path = s->data.chat_template};
    return sw_chat_chosen(&options, &run->chat_template, err);
}

sw_status sw_run_data_open(sw_run *run, int64_t vocabulary, sw_error *err) {
    const sw_settings *s = run->settings;
    run->last_told = sw_seconds_now();
    sw_status status = open_tokenizer(run, err);
    if (!status)
        status = choose_template(run, err);
    if (!status)
        status = open_rows(run, &s->data.train, true, vocabulary, &run->data, err);
    if (!status && s->data.validation.n)
        status = open_rows(run, &s->data.validation, false, vocabulary, &run->validation, err);
    if (!status && run->validation) {
        int64_t n_rows = sw_dataset_describe(run->validation).n_rows;
        run->n_validation_rows =
            n_rows < s->data.validation_rows ? n_rows : s->data.validation_rows;
    }
    return status;
}

sw_status sw_run_data_look(sw_run *run, sw_error *err) {
    const int64_t batch = run->settings->train.batch_size;
    int64_t looked_at = run->n_steps < SW_MOST_LOOKED_AT ? run->n_steps : SW_MOST_LOOKED_AT;
    bool has = true;
    sw_status status = SW_OK;
    for (int64_t step = 0;
         step < looked_at && sw_dataset_describe(run->data).n_blank_rows && !status; step++) {
        int64_t left = run->n_rows - step * batch;
        status =
            sw_dataset_has_target(run->data, step * batch, left < batch ? left : batch, &has, err);
        if (!status && !has)
            run->first_blank_step = run->n_blank_steps++ ? run->first_blank_step : step + 1;
    }
    if (!status && run->n_blank_steps && run->n_blank_steps == run->n_steps)
        return sw_fail(err, SW_BAD_FILE,
                       "data.train: no token counts as a target in the %" PRId64
                       " rows that the run takes, so there is nothing to learn from them; train on "
                       "more rows, or look at %s",
                       run->n_rows,
                       run->settings->data.labels_mask ? "data.labels_mask" : "the conversations");
    if (!status && run->validation && run->n_validation_rows)
        status = sw_dataset_has_target(run->validation, 0, run->n_validation_rows, &has, err);
    if (!status && !has && run->validation)
        return sw_fail(err, SW_BAD_FILE,
                       "data.validation: no token counts as a target in the %" PRId64
                       " rows that are evaluated (data.validation_rows), so they have no loss",
                       run->n_validation_rows);
    return status;
}

bool sw_run_has_documents(const sw_run *run) {
    return sw_dataset_describe(run->data).has_documents ||
           (run->validation && sw_dataset_describe(run->validation).has_documents);
}

void sw_run_data_close(sw_run *run) {
    sw_dataset_close(run->validation);
    sw_dataset_close(run->data);
    free(run->chat_template);
    sw_chat_free(run->chat);
    sw_tokenizer_free(run->tokenizer);
}
