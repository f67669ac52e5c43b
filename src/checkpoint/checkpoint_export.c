/* checkpoint_export.c: the masters of a run's checkpoint become a Hugging Face folder.
 *
 * It is a save by one rank whose values come out of the checkpoint: the model's configuration, which the checkpoint carries, says
 * which parameters there must be.
 */
#include <string.h>

#include "checkpoint/convert.h"
#include "checkpoint/load.h"
#include "checkpoint/model_files.h"

static sw_status fetch(void *from, int group, const sw_piece *piece, int64_t first, int64_t n, float *values, sw_error *err) {
    sw_checkpoint_reader *reader = from;
    (void)group;
    int parameter = sw_checkpoint_find_parameter(sw_checkpoint_reader_checkpoint(reader), piece->parameter->name);
    return sw_checkpoint_read(reader, SW_STATE_MASTER, parameter, piece->first + first, n, values, err);
}

/* The graph's parameters are frozen where the checkpoint's were, so that nothing but another model differs. */
static sw_status check_parameters(const sw_checkpoint *checkpoint, sw_graph *graph, sw_error *err) {
    for (int p = 0; p < graph->parameters.n; p++) {
        int found = sw_checkpoint_find_parameter(checkpoint, graph->parameters.item[p]->name);
        if (found >= 0 && sw_checkpoint_parameter(checkpoint, found)->is_left_out)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: \"%.200s\" was frozen and is not in the checkpoint: it is that of the model that the run began "
                           "with; let the run end, and take its model/",
                           sw_checkpoint_path(checkpoint), graph->parameters.item[p]->name);
        if (found >= 0 && !sw_checkpoint_parameter(checkpoint, found)->is_trainable)
            sw_parameter_freeze(graph->parameters.item[p]);
    }
    sw_status status = sw_checkpoint_compare(checkpoint, graph, 0, err);
    return status == SW_OK ? SW_OK
                           : sw_fail_within(err, "its model_config does not fit (adapters are not exported from checkpoints)");
}

sw_status sw_checkpoint_export_model(const sw_checkpoint *checkpoint, const char *to, const sw_export_options *options,
                                     sw_error *err) {
    const char *path = sw_checkpoint_path(checkpoint), *config_json = sw_checkpoint_model_config(checkpoint);
    sw_model_config config;
    sw_graph *graph = NULL;
    sw_layout layout = {0};
    sw_checkpoint_reader *reader = NULL;
    if (!config_json)
        return sw_fail(err, SW_BAD_FILE, "%s: holds a model that Hugging Face has no name for, so there is no folder of it",
                       path);
    sw_status status = sw_model_config_parse(path, config_json, (int64_t)strlen(config_json), &config, err);
    if (status == SW_OK)
        status = sw_graph_create(1, 8, &graph, err);
    if (status == SW_OK)
        status = sw_model_trace(&config, SW_ENDS_IN_LOSS, graph, err);
    if (status == SW_OK)
        status = check_parameters(checkpoint, graph, err);
    if (status == SW_OK)
        status = sw_layout_create(graph, 1, (sw_wrap){0}, SW_BLOCK, &layout, err);
    if (status == SW_OK)
        status = sw_checkpoint_reader_open(checkpoint, &reader, err);
    if (status != SW_OK)
        goto done;
    sw_model_output output = {.graph = graph,
                              .dtype = options->dtype,
                              .max_shard_size = options->max_shard_size,
                              .config = &config,
                              .companions = options->companions,
                              .is_bytes = options->is_bytes};
    if ((status = sw_model_files_begin(to, &output, err)) != SW_OK)
        goto done;
    status = sw_model_files_write(to, &layout, 0, options->dtype, fetch, reader, err);
    if (status == SW_OK)
        status = sw_model_files_finish(to, err);
    else
        sw_model_files_abandon(to);
done:
    sw_checkpoint_reader_close(reader);
    sw_layout_free(&layout);
    sw_graph_free(graph);
    return status;
}
