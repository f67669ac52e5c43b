/* export.c: the masters of a run's checkpoint become a Hugging Face folder, and adapters one that
 * PEFT reads.
 *
 * It is a save by one rank whose values come out of the checkpoint: the model's configuration,
 * which the checkpoint carries, says which parameters there must be. Those that were frozen and
 * left out come from the model that the run began with.
 */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/export.h"
#include "checkpoint/load.h"
#include "hf/adapter.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

typedef struct exporting {
    const sw_checkpoint *checkpoint;
    const sw_export_options *options;
    sw_model_config config;
    sw_graph *graph;
    sw_lora_layers layers; /* of adapters */
    sw_layout layout;
    sw_checkpoint_reader *reader;
    sw_model_source base; /* open if parameters were left out */
} exporting;

static sw_status fetch(void *from, int group, const sw_piece *piece, int64_t first, int64_t n,
                       float *values, sw_error *err) {
    exporting *e = from;
    (void)group;
    int parameter = sw_checkpoint_find_parameter(e->checkpoint, piece->parameter->name);
    if (!sw_checkpoint_parameter(e->checkpoint, parameter)->is_left_out)
        return sw_checkpoint_read(e->reader, SW_STATE_MASTER, parameter, piece->first + first, n,
                                  values, err);
    sw_tensor_place place;
    sw_status status = sw_model_source_take(&e->base, &e->config, piece->parameter, &place, err);
    return status ? status
                  : sw_safetensors_read(place.file, place.tensor, piece->first + first, n, values,
                                        err);
}

static sw_status trace(exporting *e, sw_error *err) {
    const sw_lora *lora = e->options->lora;
    sw_status status = sw_graph_create(1, 8, &e->graph, err);
    if (status == SW_OK && lora)
        return sw_lora_trace(&e->config, lora, SW_ENDS_IN_LOSS, e->graph, &e->layers, err);
    return status == SW_OK ? sw_model_trace(&e->config, SW_ENDS_IN_LOSS, e->graph, err) : status;
}

/* The graph's parameters are frozen where the checkpoint's were, so that nothing but another model
 * differs. */
static sw_status check_parameters(exporting *e, sw_error *err) {
    for (int p = 0; p < e->graph->parameters.n; p++) {
        int found = sw_checkpoint_find_parameter(e->checkpoint, e->graph->parameters.item[p]->name);
        if (found >= 0 && !sw_checkpoint_parameter(e->checkpoint, found)->is_trainable)
            sw_parameter_freeze(e->graph->parameters.item[p]);
    }
    sw_status status = sw_checkpoint_compare(e->checkpoint, e->graph, 0, err);
    return status == SW_OK ? SW_OK : sw_fail_within(err, "its model_config does not fit");
}

/* The first parameter that has to come from the model that the run began with; NULL: the checkpoint
 * has all that is written. */
static const char *first_left_out(const exporting *e) {
    if (e->options->lora)
        return NULL;
    for (int p = 0; p < sw_checkpoint_n_parameters(e->checkpoint); p++)
        if (sw_checkpoint_parameter(e->checkpoint, p)->is_left_out)
            return sw_checkpoint_parameter(e->checkpoint, p)->name;
    return NULL;
}

static sw_status no_base(const exporting *e, const char *needed, sw_error *err) {
    const char *path = sw_checkpoint_path(e->checkpoint);
    if (!needed)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds adapters of a model, and there is no run.yaml to say where that "
                       "lies · give its folder with "
                       "--model",
                       path);
    return sw_fail(err, SW_BAD_FILE,
                   "%s: \"%.200s\" was frozen and is not in the checkpoint but in the model that "
                   "the run began with, and there "
                   "is no run.yaml to say where that lies · give its folder with --model",
                   path, needed);
}

/* Is options->model the one that the run began with? Then it is opened, if weights of it are
 * needed. */
static sw_status open_base(exporting *e, sw_error *err) {
    const sw_export_options *o = e->options;
    const char *needed = first_left_out(e),
               *then = sw_checkpoint_find_setting(e->checkpoint, SW_MODEL_PATH_KEY);
    char now[SW_FINGERPRINT_BYTES];
    if (!needed && !o->lora && !o->is_model_given)
        return SW_OK;
    if (!o->model)
        return no_base(e, needed, err);
    if (then && strcmp(then, "null") == 0)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s: the run of %s began with no model, but with weights of its own · leave "
                       "--model out",
                       o->model, sw_checkpoint_path(e->checkpoint));
    sw_status status = sw_model_files_check(o->model, &e->config, e->graph, err);
    if (status == SW_OK)
        status = sw_model_fingerprint(o->model, &e->config, e->graph, now, err);
    if (status != SW_OK)
        return sw_fail_within(err, "the model that the run began with (--model says where)");
    if (then && strcmp(then, now) != 0)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is not the model that the run of %s began with: that was %.160s, this "
                       "is %s · give the right one with "
                       "--model",
                       o->model, sw_checkpoint_path(e->checkpoint), then, now);
    return needed ? sw_model_source_open(o->model, &e->base, err) : SW_OK;
}

static sw_status write_folder(exporting *e, const char *to, sw_error *err) {
    const sw_export_options *o = e->options;
    char *adapter_config = NULL, mark[SW_MARK_BYTES];
    sw_model_output output = {.graph = o->lora ? e->layers.parameters : e->graph,
                              .dtype = o->dtype,
                              .is_adapter = o->lora};
    sw_status status = SW_OK;
    output.chat_template = o->chat_template;
    if (!o->lora && o->companions && !sw_file_exists(o->companions)) {
        const char *elsewhere =
            o->companions == o->model
                ? "say with --model where the model is that the run began with, or "
                : "";
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: is not there, and the tokenizer's files come from it · %sleave them "
                         "out with --no-tokenizer",
                         o->companions, elsewhere);
    } else if (!o->lora) {
        output.max_shard_size = o->max_shard_size;
        output.config = &e->config;
        output.companions = o->companions;
        output.is_bytes = o->is_bytes;
    } else {
        status = sw_model_mark(o->model, &e->config, e->graph, mark, err);
        if (status == SW_OK)
            status = sw_adapter_config_write(o->lora, &e->layers, o->model, &adapter_config, err);
        output.config_json = adapter_config;
        output.base_mark = mark;
    }
    if (status == SW_OK)
        status = sw_model_files_begin(to, &output, err);
    free(adapter_config);
    if (status != SW_OK)
        return status;
    status = sw_model_files_write(to, &e->layout, 0, o->dtype, fetch, e, err);
    if (status == SW_OK)
        return sw_model_files_finish(to, err);
    sw_model_files_abandon(to);
    return status;
}

sw_status sw_checkpoint_export_model(const sw_checkpoint *checkpoint, const char *to,
                                     const sw_export_options *options, sw_error *err) {
    const char *path = sw_checkpoint_path(checkpoint),
               *config_json = sw_checkpoint_model_config(checkpoint);
    exporting e = {.checkpoint = checkpoint, .options = options};
    const sw_mesh one_rank = sw_mesh_flat(1);
    if (!config_json)
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: holds a model that Hugging Face has no name for, so there is no folder of it",
            path);
    sw_status status =
        sw_model_config_parse(path, config_json, (int64_t)strlen(config_json), &e.config, err);
    if (status == SW_OK)
        status = trace(&e, err);
    if (status == SW_OK)
        status = check_parameters(&e, err);
    if (status == SW_OK)
        status = open_base(&e, err);
    if (status == SW_OK)
        status = sw_layout_create(e.graph, &one_rank, (sw_wrap){0}, SW_BLOCK, &e.layout, err);
    if (status == SW_OK)
        status = sw_checkpoint_reader_open(checkpoint, &e.reader, err);
    if (status == SW_OK)
        status = write_folder(&e, to, err);
    sw_model_source_close(&e.base);
    sw_checkpoint_reader_close(e.reader);
    sw_layout_free(&e.layout);
    sw_graph_free(e.graph);
    return status;
}
