/* of_run.c: see of_run.h. */
#include "embed/of_run.h"

#include "train/train.h"

sw_status sw_model_of_run(const sw_settings *settings, char folder[SW_PATH_BYTES],
                          sw_runner_model *model, sw_error *err) {
    sw_status status = model->custom ? SW_OK : sw_settings_name_model(settings, err);
    *folder = 0;
    if (!status && settings->checkpoint.path)
        status = sw_path_join(folder, settings->checkpoint.path, "model", err);
    bool is_trained = *folder && sw_file_exists(folder);
    if (!status && !is_trained)
        status = sw_settings_find_models(settings, err);
    if (status)
        return status;
    bool is_adapter =
        !model->adapter && !model->custom && is_trained && sw_settings_train_lora(settings);
    model->adapter = is_adapter ? folder : model->adapter;
    model->folder = is_trained && !is_adapter ? folder : settings->model.path;
    model->n_positions = settings->data.sequence_length;
    if (!model->folder)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s: %s does not exist yet, and there is no model.path · train it first",
                       settings->name, *folder ? folder : "its model (checkpoint.path)");
    return SW_OK;
}

/* How a run writes conversations, and which day it tells. */
static void take_chat(const sw_settings *settings, char day[SW_CHAT_TIME_BYTES],
                      sw_chat_options *chat) {
    if (!chat->format && !chat->template_path) {
        chat->format = sw_settings_chat_format(settings);
        chat->template_path = settings->data.chat_template;
    }
    if (!chat->now)
        chat->now = settings->data.chat_now;
    if (!chat->now && settings->checkpoint.path && sw_run_kept_day(settings, day))
        chat->now = day;
}

sw_status sw_score_of_run(const sw_settings *settings, char folder[SW_PATH_BYTES],
                          char day[SW_CHAT_TIME_BYTES], sw_score_options *o, sw_error *err) {
    sw_status status = sw_model_of_run(settings, folder, &o->model, err);
    if (status)
        return status;
    if (!o->n_paths && !o->choices) {
        o->paths = settings->data.validation.item;
        o->n_paths = settings->data.validation.n;
    }
    take_chat(settings, day, &o->chat);
    o->columns = &settings->data.columns;
    o->sequence_length = o->sequence_length ? o->sequence_length : settings->data.sequence_length;
    return SW_OK;
}
