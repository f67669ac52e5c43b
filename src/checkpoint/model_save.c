/* model_save.c: shards become a Hugging Face directory, complete or not there at all.
 *
 * Everything is written into DIRECTORY.partial. Rank 0 lays the file out and reserves its full size, so that a full disk is found
 * before anybody writes; then each rank reads the header for the places of its pieces and writes those ranges alone; at the end
 * rank 0 gives the folder its name. Padding has no place in the file and is never written.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/adapter.h"
#include "checkpoint/bytes_tokenizer.h"
#include "checkpoint/model_files.h"
#include "checkpoint/safetensors.h"

static const char weights_name[] = "model.safetensors", config_name[] = "config.json";

/* Room for config.json and the tokenizer's files. */
enum { SMALL_FILES_BYTES = 64 << 10 };

static const char *safetensors_dtype(sw_dtype dtype) {
    return dtype == SW_F32 ? "F32" : dtype == SW_BF16 ? "BF16" : dtype == SW_F16 ? "F16" : NULL;
}

/* Is this the graph of a model with adapters, which alone are saved? */
static bool has_adapters(const sw_graph *graph) {
    for (int p = 0; p < graph->parameters.n; p++)
        if (graph->parameters.item[p]->is_adapter)
            return true;
    return false;
}

/* DIRECTORY.partial, and the weights in it. */
typedef struct partial {
    char folder[SW_PATH_BYTES], weights[SW_PATH_BYTES];
} partial;

static sw_status partial_of(const char *directory, bool is_adapter, partial *paths, sw_error *err) {
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length > SW_PATH_BYTES - 64)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", directory);
    snprintf(paths->folder, sizeof paths->folder, "%.*s.partial", (int)length, directory);
    return sw_path_join(paths->weights, paths->folder, is_adapter ? SW_ADAPTER_WEIGHTS : weights_name, err);
}

/* The header of the file. Ownership: free(*header). */
static sw_status plan_weights(const sw_graph *graph, sw_dtype save_dtype, char **header, int64_t *header_bytes,
                              int64_t *file_bytes, sw_error *err) {
    int n = graph->parameters.n;
    const char *dtype = safetensors_dtype(save_dtype);
    if (!dtype)
        return sw_fail(err, SW_BAD_CONFIG, "weights cannot be saved as %s; bf16, fp32 and fp16 can be",
                       sw_dtype_name(save_dtype));
    sw_tensor_plan *tensors = calloc((size_t)n + 1, sizeof *tensors);
    if (!tensors)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the names of %d parameters", n);
    int n_saved = 0;
    bool saves_adapters = has_adapters(graph);
    for (int p = 0; p < n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        if (parameter->is_adapter != saves_adapters)
            continue;
        tensors[n_saved] = (sw_tensor_plan){.name = parameter->name, .dtype = dtype, .n_dimensions = parameter->n_dimensions};
        memcpy(tensors[n_saved++].dimension, parameter->dimension, sizeof tensors->dimension);
    }
    sw_status status = sw_safetensors_plan(tensors, n_saved, header, header_bytes, file_bytes, err);
    free(tensors);
    return status;
}

int64_t sw_model_files_bytes(const sw_graph *graph, sw_dtype save_dtype) {
    char *header;
    int64_t header_bytes, file_bytes;
    if (plan_weights(graph, save_dtype, &header, &header_bytes, &file_bytes, NULL) != SW_OK)
        return INT64_MAX; /* no disk has room for it */
    free(header);
    return file_bytes + SMALL_FILES_BYTES;
}

static sw_status check_space(const char *folder, int64_t need, sw_error *err) {
    char needed[SW_TEXT_NUMBER_BYTES], available[SW_TEXT_NUMBER_BYTES];
    int64_t space = sw_file_space(folder);
    if (need <= space)
        return SW_OK;
    return sw_fail(err, SW_NO_SPACE,
                   "%s: needs %s, the disk has %s left; free some space, write elsewhere or save in a smaller dtype", folder,
                   sw_text_bytes(need, needed, sizeof needed), sw_text_bytes(space, available, sizeof available));
}

/* The weights' file: header in place, full size reserved. */
static sw_status lay_out_weights(const partial *paths, const char *header, int64_t header_bytes, int64_t file_bytes,
                                 sw_error *err) {
    int fd = open(paths->weights, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %s", paths->weights, strerror(errno));
    sw_status status = sw_file_reserve(fd, paths->weights, file_bytes, err);
    if (status == SW_OK)
        status = sw_file_write_at(fd, paths->weights, header, header_bytes, 0, err);
    close(fd);
    return status;
}

static sw_status write_config(const partial *paths, bool is_adapter, const sw_model_config *config, const char *config_json,
                              sw_dtype save_dtype, sw_error *err) {
    char path[SW_PATH_BYTES], *made = NULL;
    sw_status status = sw_path_join(path, paths->folder, is_adapter ? SW_ADAPTER_CONFIG : config_name, err);
    if (status == SW_OK && !config_json)
        status = sw_model_config_write(config, save_dtype, &made, err);
    const char *text = config_json ? config_json : made;
    if (status == SW_OK)
        status = sw_file_write(path, text, (int64_t)strlen(text), err);
    free(made);
    return status;
}

sw_status sw_model_files_begin(const char *directory, const sw_model_config *config, const char *config_json,
                               const sw_graph *graph, sw_dtype save_dtype, bool is_bytes, sw_error *err) {
    partial paths;
    char *header = NULL;
    int64_t header_bytes, file_bytes;
    bool is_begun = false, is_adapter = has_adapters(graph);
    sw_status status = partial_of(directory, is_adapter, &paths, err);
    if (status != SW_OK)
        return status;
    if (sw_file_exists(directory))
        return sw_fail(err, SW_BAD_CONFIG, "%s: exists already and is not overwritten; move it away or choose another name",
                       directory);
    if ((status = plan_weights(graph, save_dtype, &header, &header_bytes, &file_bytes, err)) != SW_OK)
        return status;
    sw_model_files_abandon(directory);
    if ((status = check_space(paths.folder, file_bytes + SMALL_FILES_BYTES, err)) != SW_OK)
        goto done;
    if (mkdir(paths.folder, 0777) != 0) {
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be made: %s", paths.folder, strerror(errno));
        goto done;
    }
    is_begun = true;
    status = lay_out_weights(&paths, header, header_bytes, file_bytes, err);
    if (status == SW_OK && (config || config_json))
        status = write_config(&paths, is_adapter, config, config_json, save_dtype, err);
    if (status == SW_OK && is_bytes)
        status = sw_bytes_tokenizer_write(paths.folder, err);
done:
    free(header);
    if (status != SW_OK && is_begun)
        sw_model_files_abandon(directory);
    return status;
}

/* ---- pieces ---- */

/* Narrow values [n] where they stand: an element is read before anything is written over it. */
static sw_status narrow(float *values, int64_t n, sw_dtype dtype, const sw_piece *piece, int64_t first, sw_error *err) {
    uint16_t *narrowed = (uint16_t *)(void *)values;
    if (dtype == SW_F32)
        return SW_OK;
    for (int64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)values + 4 * i, sizeof value);
        uint16_t bits = dtype == SW_BF16 ? sw_float_to_bf16(value) : sw_float_to_f16(value);
        if (dtype == SW_F16 && isfinite(value) && (bits & 0x7fff) == 0x7c00)
            return sw_fail(err, SW_BAD_CONFIG,
                           "%s: element %" PRId64 " is %g, beyond what fp16 holds (65504); save as bf16 or fp32",
                           piece->parameter->name, piece->first + first + i, (double)value);
        memcpy((char *)narrowed + 2 * i, &bits, sizeof bits);
    }
    return SW_OK;
}

static sw_status write_piece(int descriptor, const char *path, const sw_tensor_entry *tensor, sw_dtype save_dtype, int group,
                             const sw_piece *piece, sw_piece_fn fetch, void *from, float *buffer, sw_error *err) {
    int64_t element_bytes = sw_dtype_bytes(save_dtype);
    for (int64_t first = 0; first < piece->length; first += SW_PIECE_ELEMENTS) {
        int64_t n = piece->length - first < SW_PIECE_ELEMENTS ? piece->length - first : SW_PIECE_ELEMENTS;
        sw_status status = fetch(from, group, piece, first, n, buffer, err);
        if (status == SW_OK)
            status = narrow(buffer, n, save_dtype, piece, first, err);
        if (status == SW_OK)
            status = sw_file_write_at(descriptor, path, buffer, n * element_bytes,
                                      tensor->file_offset + (piece->first + first) * element_bytes, err);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

sw_status sw_model_files_write(const char *directory, const sw_layout *layout, int rank, sw_dtype save_dtype, sw_piece_fn fetch,
                               void *from, sw_error *err) {
    partial paths;
    sw_safetensors *file = NULL;
    float *buffer = NULL;
    int fd = -1;
    bool is_adapter = false;
    for (int p = 0; p < layout->n_parameters; p++)
        is_adapter = is_adapter || layout->parameters[p].parameter->is_adapter;
    sw_status status = partial_of(directory, is_adapter, &paths, err);
    if (status != SW_OK || (status = sw_safetensors_open(paths.weights, &file, err)) != SW_OK)
        return status;
    fd = open(paths.weights, O_WRONLY | O_CLOEXEC);
    buffer = malloc(sizeof *buffer * SW_PIECE_ELEMENTS);
    if (fd < 0)
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %s", paths.weights, strerror(errno));
    else if (!buffer)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d elements", paths.weights, SW_PIECE_ELEMENTS);
    for (int group = 0; group < layout->n_groups && status == SW_OK; group++) {
        sw_piece piece;
        for (int at = 0; status == SW_OK && sw_layout_next_piece(layout, group, rank, &at, &piece);) {
            if (piece.parameter->is_adapter != is_adapter)
                continue;
            const sw_tensor_entry *tensor = sw_safetensors_find(file, piece.parameter->name);
            status = tensor && tensor->n_elements == piece.parameter->n_elements
                         ? write_piece(fd, paths.weights, tensor, save_dtype, group, &piece, fetch, from, buffer, err)
                         : sw_fail(err, SW_BUG, "%s: has no place for %s; was it begun from the same graph?", paths.weights,
                                   piece.parameter->name);
        }
    }
    if (fd >= 0 && close(fd) != 0 && status == SW_OK)
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be written: %s", paths.weights, strerror(errno));
    free(buffer);
    sw_safetensors_close(file);
    return status;
}

sw_status sw_model_files_finish(const char *directory, sw_error *err) {
    partial paths;
    sw_status status = partial_of(directory, false, &paths, err);
    if (status == SW_OK && !sw_file_exists(paths.weights))
        status = partial_of(directory, true, &paths, err);
    if (status != SW_OK)
        return status;
    int fd = open(paths.weights, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        status = sw_fail(err, SW_NO_SPACE, "%s: cannot be written to disk: %s", paths.weights, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (status == SW_OK)
        status = sw_folder_sync(paths.folder, err);
    if (status == SW_OK)
        status = sw_file_publish(paths.folder, directory, err);
    if (status != SW_OK)
        sw_model_files_abandon(directory);
    return status;
}

/* Removes what begin makes and nothing else: a folder that holds other things stays. */
void sw_model_files_abandon(const char *directory) {
    static const char *const names[] = {"model.safetensors",
                                        "config.json",
                                        "config.json.partial",
                                        "tokenizer.json",
                                        "tokenizer.json.partial",
                                        "tokenizer_config.json",
                                        "tokenizer_config.json.partial",
                                        SW_ADAPTER_WEIGHTS,
                                        SW_ADAPTER_CONFIG,
                                        SW_ADAPTER_CONFIG ".partial"};
    partial paths;
    char path[SW_PATH_BYTES];
    if (partial_of(directory, false, &paths, NULL) != SW_OK)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sw_path_join(path, paths.folder, names[i], NULL) == SW_OK)
            unlink(path);
    rmdir(paths.folder);
}
