/* import.c: a GGUF file, or a Hugging Face folder in another dtype, becomes a Hugging Face folder.
 *
 * It is a save by one rank whose values come out of a file instead of a shard: the graph of the
 * configuration says which tensors there must be, the writer asks for them piece by piece.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file_format.h"
#include "base/hub_name.h"
#include "hf/convert.h"
#include "hf/gguf_model.h"
#include "hf/gguf_tokenizer.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

/* The tensors of a configuration and where one rank finds them. */
typedef struct outline {
    sw_model_config config;
    sw_graph *graph;
    sw_layout layout;
} outline;

static sw_status make_outline(outline *o, sw_error *err) {
    const sw_mesh one_rank = sw_mesh_flat(1);
    sw_status status = sw_graph_create(1, 8, &o->graph, err);
    if (status == SW_OK)
        status = sw_model_trace(&o->config, SW_ENDS_IN_LOSS, o->graph, err);
    if (status == SW_OK)
        status = sw_layout_create(o->graph, &one_rank, (sw_wrap){0}, SW_BLOCK, &o->layout, err);
    return status;
}

static void free_outline(outline *o) {
    sw_layout_free(&o->layout);
    sw_graph_free(o->graph);
}

/* ---- GGUF ---- */

typedef struct gguf_origin {
    sw_gguf file;
    const char *architecture;
    outline outline;
    sw_gguf_tokenizer_files texts;
} gguf_origin;

static const sw_gguf_tensor *find_tensor(const gguf_origin *o, const char *parameter) {
    char name[256];
    const char *found = sw_gguf_tensor_name(parameter, name, sizeof name);
    return found ? sw_gguf_find_tensor(&o->file, found) : NULL;
}

static bool has_shape(const sw_gguf_tensor *tensor, const sw_parameter *parameter) {
    return tensor->n_dimensions == parameter->n_dimensions &&
           memcmp(tensor->dimension, parameter->dimension,
                  (size_t)tensor->n_dimensions * sizeof *tensor->dimension) == 0;
}

/* Every parameter has its tensor, of its shape and in a format that is read; and every tensor has
 * its parameter. */
static sw_status check_tensors(const gguf_origin *o, sw_error *err) {
    const sw_graph *graph = o->outline.graph;
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        const sw_gguf_tensor *tensor = find_tensor(o, parameter->name);
        if (!tensor)
            return sw_fail(err, SW_BAD_FILE, "%s: the tensor of %s is missing", o->file.path,
                           parameter->name);
        if (!has_shape(tensor, parameter))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: tensor \"%.200s\" does not have the shape of %s; do its settings "
                           "fit its tensors?",
                           o->file.path, tensor->name, parameter->name);
        if (!tensor->format->unpack)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: tensor \"%.200s\" is in format %s; F32, F16, BF16, Q8_0, Q4_0, "
                           "Q4_1, Q5_0, Q5_1, Q4_K and Q6_K are "
                           "read",
                           o->file.path, tensor->name, tensor->format->name);
    }
    for (int t = 0; t < o->file.n_tensors; t++) {
        bool is_used = strcmp(o->file.tensors[t].name, SW_GGUF_ROPE_TENSOR) == 0;
        for (int p = 0; p < graph->parameters.n && !is_used; p++)
            is_used = find_tensor(o, graph->parameters.item[p]->name) == &o->file.tensors[t];
        if (!is_used)
            return sw_fail(err, SW_BAD_FILE, "%s: tensor \"%.200s\" is not part of the model",
                           o->file.path, o->file.tensors[t].name);
    }
    return SW_OK;
}

static sw_status fetch_from_gguf(void *from, int group, const sw_piece *piece, int64_t first,
                                 int64_t n, float *values, sw_error *err) {
    (void)group;
    gguf_origin *o = from;
    const sw_parameter *parameter = piece->parameter;
    const sw_gguf_tensor *tensor = find_tensor(o, parameter->name);
    int64_t head =
        sw_gguf_rotary_channels(o->architecture, o->outline.config.head_channels, parameter->name);
    int64_t element = piece->first + first, end = element + n, done = 0;
    if (!head)
        return sw_gguf_read(&o->file, tensor, element, n, values, err);
    int64_t width = parameter->n_elements / parameter->dimension[0];
    while (element < end) { /* row by row, each from its place */
        int64_t row = element / width, at = element % width,
                length = width - at < end - element ? width - at : end - element;
        sw_status status =
            sw_gguf_read(&o->file, tensor, sw_gguf_row_from_hf(row, head) * width + at, length,
                         values + done, err);
        if (status != SW_OK)
            return status;
        element += length, done += length;
    }
    return SW_OK;
}

static sw_status put_text(const char *folder, const char *name, const char *text, sw_error *err) {
    char path[SW_PATH_BYTES];
    if (!text)
        return SW_OK;
    sw_status status = sw_path_join(path, folder, name, err);
    return status != SW_OK ? status : sw_file_write(path, text, (int64_t)strlen(text), err);
}

static sw_status write_folder(const char *to, const sw_model_output *output,
                              const sw_layout *layout, const sw_gguf_tokenizer_files *texts,
                              sw_piece_fn fetch, void *from, sw_error *err) {
    char folder[SW_PATH_BYTES];
    sw_status status = sw_model_files_partial(to, folder, err);
    if (status == SW_OK)
        status = sw_model_files_begin(to, output, err);
    if (status != SW_OK)
        return status;
    if (texts) {
        status = put_text(folder, "tokenizer.json", texts->tokenizer, err);
        if (status == SW_OK)
            status = put_text(folder, "tokenizer_config.json", texts->tokenizer_config, err);
        if (status == SW_OK)
            status = put_text(folder, "chat_template.jinja", texts->chat_template, err);
        if (status == SW_OK)
            status = put_text(folder, "generation_config.json", texts->generation_config, err);
    }
    if (status == SW_OK)
        status = sw_model_files_write(to, layout, 0, output->dtype, fetch, from, err);
    if (status == SW_OK)
        return sw_model_files_finish(to, err);
    sw_model_files_abandon(to);
    return status;
}

static sw_status check_vocabulary(const gguf_origin *o, sw_error *err) {
    const sw_gguf_value *tokens = sw_gguf_find(&o->file, "tokenizer.ggml.tokens");
    if (tokens && tokens->n > o->outline.config.vocabulary)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the tokenizer has %" PRId64 " tokens, the embedding %" PRId64 " rows",
                       o->file.path, tokens->n, o->outline.config.vocabulary);
    return SW_OK;
}

static sw_status import_gguf(const char *from, const char *to, sw_dtype dtype,
                             int64_t max_shard_size, sw_error *err) {
    gguf_origin o = {.file = {.descriptor = -1}};
    char *config_json = NULL;
    sw_status status = sw_gguf_open(from, &o.file, err);
    if (status == SW_OK)
        status = sw_gguf_config(&o.file, dtype, &config_json, err);
    if (status == SW_OK)
        status = sw_model_config_parse(from, config_json, (int64_t)strlen(config_json),
                                       &o.outline.config, err);
    if (status == SW_OK)
        status = sw_gguf_text(&o.file, "general.architecture", true, &o.architecture, err);
    if (status == SW_OK)
        status = make_outline(&o.outline, err);
    if (status == SW_OK)
        status = check_tensors(&o, err);
    if (status == SW_OK)
        status = sw_gguf_tokenizer(&o.file, &o.texts, err);
    if (status == SW_OK)
        status = check_vocabulary(&o, err);
    if (status == SW_OK) {
        sw_model_output output = {.graph = o.outline.graph,
                                  .dtype = dtype,
                                  .max_shard_size = max_shard_size,
                                  .config_json = config_json};
        status = write_folder(to, &output, &o.outline.layout, &o.texts, fetch_from_gguf, &o, err);
    }
    sw_gguf_tokenizer_files_free(&o.texts);
    free_outline(&o.outline);
    free(config_json);
    sw_gguf_close(&o.file);
    return status;
}

/* ---- a folder in another dtype ---- */

enum { MAX_CONFIG_BYTES = 4 << 20 };

typedef struct folder_origin {
    sw_model_source source;
    outline outline;
} folder_origin;

static sw_status fetch_from_folder(void *from, int group, const sw_piece *piece, int64_t first,
                                   int64_t n, float *values, sw_error *err) {
    (void)group;
    folder_origin *o = from;
    sw_tensor_place place;
    sw_status status =
        sw_model_source_take(&o->source, &o->outline.config, piece->parameter, &place, err);
    return status ? status
                  : sw_safetensors_read(place.file, place.tensor, piece->first + first, n, values,
                                        err);
}

/* The folder's own config.json, with another dtype: what is not read here stays in it. Ownership:
 * free(*text). */
static sw_status config_with_dtype(const char *folder, sw_dtype dtype, char **text, sw_error *err) {
    char path[SW_PATH_BYTES], *old = NULL;
    int64_t bytes;
    const char *name = dtype == SW_F32 ? "float32" : dtype == SW_BF16 ? "bfloat16" : "float16";
    sw_status status = sw_path_join(path, folder, "config.json", err);
    if (status == SW_OK)
        status = sw_file_read(path, MAX_CONFIG_BYTES, &old, &bytes, err);
    if (status != SW_OK)
        return status;
    const char *begin = old;
    sw_text_skip_mark(&begin, &bytes);
    json_t *config = json_loadb(begin, (size_t)bytes, JSON_REJECT_DUPLICATES, NULL);
    free(old);
    bool is_set = config && json_object_set_new(config, "dtype", json_string(name)) == 0 &&
                  json_object_set_new(config, "torch_dtype", json_string(name)) == 0;
    char *dumped = is_set ? json_dumps(config, JSON_INDENT(2)) : NULL;
    json_decref(config);
    *text = dumped;
    return dumped ? SW_OK : sw_fail(err, SW_NO_MEMORY, "%s: no memory to write it anew", path);
}

static sw_status import_folder(const char *from, const char *to, sw_dtype dtype,
                               int64_t max_shard_size, sw_error *err) {
    folder_origin o = {0};
    char *config_json = NULL;
    sw_status status = sw_model_config_read(from, &o.outline.config, err);
    if (status == SW_OK)
        status = make_outline(&o.outline, err);
    if (status == SW_OK)
        status = sw_model_files_check(from, &o.outline.config, o.outline.graph, err);
    if (status == SW_OK)
        status = sw_model_source_open(from, &o.source, err);
    if (status == SW_OK)
        status = config_with_dtype(from, dtype, &config_json, err);
    if (status == SW_OK) {
        sw_model_output output = {.graph = o.outline.graph,
                                  .dtype = dtype,
                                  .max_shard_size = max_shard_size,
                                  .config_json = config_json,
                                  .companions = from};
        status = write_folder(to, &output, &o.outline.layout, NULL, fetch_from_folder, &o, err);
    }
    free_outline(&o.outline);
    free(config_json);
    sw_model_source_close(&o.source);
    return status;
}

sw_status sw_checkpoint_import(const char *from, const char *to, sw_dtype dtype,
                               int64_t max_shard_size, sw_error *err) {
    struct stat info;
    sw_status status = sw_file_must_be_new(to, err);
    if (status == SW_OK)
        status = sw_path_must_exist(from, NULL, err);
    if (status != SW_OK)
        return status;
    bool is_folder = stat(from, &info) == 0 && S_ISDIR(info.st_mode);
    return (is_folder ? import_folder : import_gguf)(from, to, dtype, max_shard_size, err);
}
