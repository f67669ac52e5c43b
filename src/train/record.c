/* record.c: the list of settings that count, and the fingerprints of files. */
#include "train/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"
#include "config/value.h"
#include "hf/model_files.h"

/* Settings whose value is compared. */
static const sw_option_id compared[] = {
    SW_OPTION_model_architecture,
    SW_OPTION_model_layers,
    SW_OPTION_model_hidden,
    SW_OPTION_model_heads,
    SW_OPTION_model_kv_heads,
    SW_OPTION_model_ffn,
    SW_OPTION_model_vocab,
    SW_OPTION_model_max_positions,
    SW_OPTION_model_tied,
    SW_OPTION_model_rope_theta,
    SW_OPTION_model_norm_epsilon,
    SW_OPTION_model_dropout,
    SW_OPTION_model_init_std,
    SW_OPTION_model_train,
    SW_OPTION_model_lora,
    SW_OPTION_data_mix,
    SW_OPTION_data_shuffle,
    SW_OPTION_data_long,
    SW_OPTION_data_sequence_length,
    SW_OPTION_data_packing,
    SW_OPTION_train_batch_size,
    SW_OPTION_train_seed,
    SW_OPTION_optimizer_name,
    SW_OPTION_optimizer_learning_rate,
    SW_OPTION_optimizer_betas,
    SW_OPTION_optimizer_epsilon,
    SW_OPTION_optimizer_weight_decay,
    SW_OPTION_optimizer_momentum,
    SW_OPTION_optimizer_clip_norm,
    SW_OPTION_optimizer_schedule,
    SW_OPTION_optimizer_warmup_steps,
    SW_OPTION_optimizer_decay_ratio,
    SW_OPTION_optimizer_final_ratio,
};
enum { N_COMPARED = sizeof compared / sizeof *compared, N_FINGERPRINTS = 3 };

/* The key under which the choice of kernels is kept: the setting that makes it count. */
static const char kernels_key[] = "train.reproducible";

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for the record of the run's settings");
}

static sw_status add(sw_record *record, const char *key, const char *value, sw_error *err) {
    sw_setting_text *text = &record->item[record->n++];
    text->key = sw_arena_text(&record->arena, key);
    text->value = sw_arena_text(&record->arena, value);
    return text->key && text->value ? SW_OK : no_memory(err);
}

static sw_status add_setting(sw_record *record, const sw_settings *settings, sw_option_id id,
                             sw_error *err) {
    const sw_option *option = &sw_option_table[id];
    char key[128], *value = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&value, &bytes);
    bool is_done = out && sw_setting_print(settings, option, out);
    is_done = sw_text_close(out, &value) && is_done;
    snprintf(key, sizeof key, "%s.%s", option->section, option->key);
    sw_status status = is_done ? add(record, key, value, err) : no_memory(err);
    free(value);
    return status;
}

/* auto is the model's own, which its fingerprint has; 0 has always stood for it. */
static sw_status add_dropout(sw_record *record, const sw_settings *settings, sw_error *err) {
    return settings->model.dropout == SW_AUTO
               ? add(record, "model.dropout", "0", err)
               : add_setting(record, settings, SW_OPTION_model_dropout, err);
}

/* Conversations that packing keeps whole lie in other rows than those that it cut. */
static const char whole_packing[] = "true (conversations whole)";

static sw_status add_packing(sw_record *record, const sw_settings *settings, const sw_dataset *data,
                             sw_error *err) {
    if (settings->data.packing == SW_PACKING_TRUE && sw_dataset_describe(data).n_whole_rows > 0)
        return add(record, "data.packing", whole_packing, err);
    return add_setting(record, settings, SW_OPTION_data_packing, err);
}

/* ---- files ---- */

static sw_status add_data(sw_record *record, sw_dataset *data, sw_error *err) {
    sw_dataset_facts facts = sw_dataset_describe(data);
    uint64_t hash;
    char text[160];
    sw_status status = sw_dataset_fingerprint(data, &hash, err);
    if (status)
        return status;
    snprintf(text, sizeof text, "%" PRId64 " tokens in %" PRId64 " rows, sampled %016" PRIx64,
             facts.n_tokens, facts.n_rows, hash);
    return add(record, "data.train", text, err);
}

static sw_status add_model(sw_record *record, const sw_assembly *a, sw_error *err) {
    char text[SW_FINGERPRINT_BYTES] = "null";
    sw_status status = SW_OK;
    if (a->settings->model.path)
        status = sw_model_fingerprint(a->settings->model.path, sw_assembly_files_config(a),
                                      a->graph, text, err);
    return status ? status : add(record, SW_MODEL_PATH_KEY, text, err);
}

static void kernels_text(sw_kernel_set set, sw_gemm_kind gemm, char text[128]) {
    snprintf(text, 128, "kernels %s, matrix products %s", sw_kernel_set_name(set),
             sw_gemm_kind_name(gemm));
}

sw_status sw_record_create(const sw_assembly *a, sw_dataset *data, sw_kernel_set set,
                           sw_gemm_kind gemm, sw_record *record, sw_error *err) {
    char kernels[128];
    kernels_text(set, gemm, kernels);
    *record = (sw_record){.n = 0};
    record->item =
        sw_arena_take(&record->arena, (N_COMPARED + N_FINGERPRINTS) * sizeof *record->item);
    sw_status status = record->item ? SW_OK : no_memory(err);
    for (int i = 0; i < N_COMPARED && !status; i++)
        status = compared[i] == SW_OPTION_data_packing ? add_packing(record, a->settings, data, err)
                 : compared[i] == SW_OPTION_model_dropout
                     ? add_dropout(record, a->settings, err)
                     : add_setting(record, a->settings, compared[i], err);
    if (!status)
        status = add_model(record, a, err);
    if (!status)
        status = add_data(record, data, err);
    return status ? status : add(record, kernels_key, kernels, err);
}

void sw_record_free(sw_record *record) {
    sw_arena_free(&record->arena);
    *record = (sw_record){.n = 0};
}

sw_status sw_record_take_kernels(sw_record *record, const sw_checkpoint *checkpoint, bool is_named,
                                 sw_kernel_set *set, sw_gemm_kind *gemm, sw_error *err) {
    const char *then = sw_checkpoint_find_setting(checkpoint, kernels_key);
    for (int s = 0; then && s < SW_N_KERNEL_SETS; s++)
        for (int g = 0; g < SW_N_GEMM_KINDS; g++) {
            char text[128];
            kernels_text((sw_kernel_set)s, (sw_gemm_kind)g, text);
            if (strcmp(text, then) || (is_named && s != (int)*set) ||
                !sw_kernel_set_runs_here((sw_kernel_set)s) ||
                !sw_gemm_runs_here((sw_gemm_kind)g, (sw_kernel_set)s))
                continue;
            *set = (sw_kernel_set)s;
            *gemm = (sw_gemm_kind)g;
            record->item[record->n - 1].value =
                sw_arena_text(&record->arena, text); /* the last that was added */
            return record->item[record->n - 1].value ? SW_OK : no_memory(err);
        }
    return SW_OK;
}

static sw_status refuse_changed(const sw_setting_text *now, const char *then, const char *path,
                                sw_error *err) {
    if (!strcmp(now->value, whole_packing) && !strcmp(then, "true"))
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.packing: conversations now stay whole in a row; when %s was written "
                       "they were cut where a row ended · use "
                       "another checkpoint.path, or continue with the new rows: "
                       "checkpoint.resume.force=[data.packing, data.train]",
                       path);
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s has changed since %s was written: it was %.200s, it is %.200s · use the old "
                   "value or another "
                   "checkpoint.path, or continue anyway with checkpoint.resume.force=[%s]",
                   now->key, path, then, now->value, now->key);
}

bool sw_record_is_forced(const sw_settings *settings, const char *key) {
    const sw_texts *force = &settings->checkpoint.resume.force;
    for (int i = 0; i < force->n; i++)
        if (!strcmp(force->item[i], key))
            return true;
    return false;
}

sw_status sw_record_compare(const sw_record *record, const sw_settings *settings,
                            const sw_checkpoint *checkpoint,
                            void (*forced)(void *to, const char *line), void *to, sw_error *err) {
    for (int i = 0; i < record->n; i++) {
        const sw_setting_text *now = &record->item[i];
        const char *then = sw_checkpoint_find_setting(checkpoint, now->key);
        bool counts = strcmp(now->key, kernels_key) != 0 || settings->train.reproducible;
        if (!counts || !then ||
            !strcmp(
                then,
                now->value)) /* a setting that an older version did not have is at its default */
            continue;
        if (!sw_record_is_forced(settings, now->key))
            return refuse_changed(now, then, sw_checkpoint_path(checkpoint), err);
        char line[SW_MESSAGE_BYTES];
        snprintf(line, sizeof line,
                 "%s has changed as checkpoint.resume.force allows: it was %.200s, it is %.200s",
                 now->key, then, now->value);
        if (forced)
            forced(to, line);
    }
    return SW_OK;
}
