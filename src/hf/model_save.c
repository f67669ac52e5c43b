/* model_save.c: shards become a Hugging Face directory, complete or not there at all.
 *
 * Everything is written into DIRECTORY.partial. Rank 0 lays the files out and reserves their full
 * size, so that a full disk is found before anybody writes; then each rank reads the headers for
 * the places of its pieces and writes those ranges alone (model_write.c); at the end rank 0 gives
 * the folder its name.
 *
 * A file ends where the next parameter would exceed the limit, as transformers splits; in a file
 * tensors are in order of name, as its writer sorts them: the same weights are the same bytes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/reason.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "hf/adapter.h"
#include "hf/bytes_tokenizer.h"
#include "hf/chat_template.h"
#include "hf/companions.h"
#include "hf/model_files.h"

static const char weights_name[] = "model.safetensors",
                  index_name[] = "model.safetensors.index.json";
static const char split_format[] = "model-%05d-of-%05d.safetensors",
                  split_pattern[] = "model-[0-9]*-of-[0-9]*.safetensors";

/* Room for config.json, the tokenizer of raw bytes, and blocks of a disk that are not full. */
enum { SMALL_FILES_BYTES = 64 << 10, FILE_BYTES = 8 << 10 };

sw_status sw_model_files_partial(const char *directory, char path[SW_PATH_BYTES], sw_error *err) {
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length > SW_PATH_BYTES - 64)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", directory);
    snprintf(path, SW_PATH_BYTES, "%.*s.partial", (int)length, directory);
    return SW_OK;
}

/* ---- the plan of the files ---- */

static const char *safetensors_dtype(sw_dtype dtype) {
    return dtype == SW_F32 ? "F32" : dtype == SW_BF16 ? "BF16" : dtype == SW_F16 ? "F16" : NULL;
}

static int by_tensor_name(const void *a, const void *b) {
    return strcmp(((const sw_tensor_plan *)a)->name, ((const sw_tensor_plan *)b)->name);
}

/* The header of a file with parameters first .. end - 1. Ownership: free(*header). */
static sw_status plan_file(const sw_model_output *output, int first, int end, char **header,
                           int64_t *header_bytes, int64_t *file_bytes, sw_error *err) {
    const char *dtype = safetensors_dtype(output->dtype);
    if (!dtype)
        return sw_fail(err, SW_BAD_CONFIG,
                       "weights cannot be saved as %s; bf16, fp32 and fp16 can be",
                       sw_dtype_name(output->dtype));
    sw_tensor_plan *tensors = calloc((size_t)(end - first) + 1, sizeof *tensors);
    if (!tensors)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the names of %d parameters", end - first);
    for (int p = first; p < end; p++) {
        const sw_parameter *parameter = output->graph->parameters.item[p];
        sw_tensor_plan *tensor = &tensors[p - first];
        *tensor = (sw_tensor_plan){
            .name = parameter->name, .dtype = dtype, .n_dimensions = parameter->n_dimensions};
        memcpy(tensor->dimension, parameter->dimension, sizeof tensor->dimension);
    }
    qsort(tensors, (size_t)(end - first), sizeof *tensors, by_tensor_name);
    sw_status status =
        sw_safetensors_plan(tensors, end - first, output->is_adapter ? output->base_mark : NULL,
                            header, header_bytes, file_bytes, err);
    free(tensors);
    return status;
}

/* The parameter with which the file that begins with `first` ends, and one more; *bytes of data in
 * it. Only for graphs whose sum of bytes was found to fit into 63 bits. */
static int end_of_file(const sw_model_output *output, int first, int64_t *bytes) {
    const sw_graph *graph = output->graph;
    int64_t element_bytes = sw_dtype_bytes(output->dtype);
    int end = first;
    for (*bytes = 0; end < graph->parameters.n; end++) {
        int64_t more = graph->parameters.item[end]->n_elements * element_bytes;
        if (end > first && output->max_shard_size && !output->is_adapter &&
            *bytes + more > output->max_shard_size)
            break;
        *bytes += more;
    }
    return end;
}

static int count_files(const sw_model_output *output) {
    int n = 0;
    int64_t bytes;
    for (int first = 0; first < output->graph->parameters.n; n++)
        first = end_of_file(output, first, &bytes);
    return n > 1 ? n : 1;
}

sw_status sw_model_files_bytes(const sw_model_output *output, int64_t *bytes, sw_error *err) {
    char *header;
    int64_t header_bytes, file_bytes;
    /* As one file: names that are there twice are found, whatever files they are in, and sums that
     * do not fit into 63 bits. */
    sw_status status =
        plan_file(output, 0, output->graph->parameters.n, &header, &header_bytes, &file_bytes, err);
    if (status != SW_OK)
        return status;
    free(header);
    /* The index repeats the names, with less beside them than the header has. */
    int64_t small = SMALL_FILES_BYTES + header_bytes + (int64_t)FILE_BYTES * count_files(output);
    if (output->companions)
        small += sw_companions_bytes(output->companions);
    if (output->chat_template) /* in tokenizer_config.json too, where a byte is six at most */
        small += 7 * (int64_t)strlen(output->chat_template);
    *bytes = file_bytes + small;
    return SW_OK;
}

static void name_file(const sw_model_output *output, int file, int n_files, char name[64]) {
    if (output->is_adapter)
        snprintf(name, 64, "%s", SW_ADAPTER_WEIGHTS);
    else if (n_files == 1)
        snprintf(name, 64, "%s", weights_name);
    else
        snprintf(name, 64, split_format, file + 1, n_files);
}

/* ---- begin ---- */

static sw_status check_space(const char *folder, int64_t need, sw_error *err) {
    char needed[SW_TEXT_NUMBER_BYTES], available[SW_TEXT_NUMBER_BYTES];
    int64_t space = sw_file_space(folder);
    if (need <= space)
        return SW_OK;
    return sw_fail(err, SW_NO_SPACE,
                   "%s: needs %s, the disk has %s left; free some space, write elsewhere or save "
                   "in a smaller dtype",
                   folder, sw_text_bytes(need, needed, sizeof needed),
                   sw_text_bytes(space, available, sizeof available));
}

/* One file of weights: header in place, full size reserved. */
static sw_status lay_out_file(const sw_model_output *output, const char *path, int first, int end,
                              sw_error *err) {
    char *header;
    int64_t header_bytes, file_bytes;
    sw_status status = plan_file(output, first, end, &header, &header_bytes, &file_bytes, err);
    if (status != SW_OK)
        return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        status = sw_cannot_write(path, errno, err);
    if (status == SW_OK)
        status = sw_file_reserve(fd, path, file_bytes, err);
    if (status == SW_OK)
        status = sw_file_write_at(fd, path, header, header_bytes, 0, err);
    if (fd >= 0)
        close(fd);
    free(header);
    return status;
}

static int by_name(const void *a, const void *b, void *graph) {
    const sw_graph *g = graph;
    return strcmp(g->parameters.item[*(const int *)a]->name,
                  g->parameters.item[*(const int *)b]->name);
}

/* model.safetensors.index.json as transformers writes it: the sum of the tensors' bytes, and each
 * tensor's file, by name. */
static sw_status write_index(const sw_model_output *output, const char *folder, const int *file_of,
                             int n_files, int64_t total_bytes, sw_error *err) {
    const sw_graph *graph = output->graph;
    int n = graph->parameters.n;
    char path[SW_PATH_BYTES], *text = NULL, name[64];
    size_t text_bytes = 0, longest = 0;
    int *order = calloc((size_t)n + 1, sizeof *order);
    for (int p = 0; p < n; p++)
        longest = strlen(graph->parameters.item[p]->name) > longest
                      ? strlen(graph->parameters.item[p]->name)
                      : longest;
    char *quoted = malloc(6 * longest + 3);
    FILE *out = open_memstream(&text, &text_bytes);
    sw_status status = SW_OK;
    if (!order || !quoted || !out) {
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %s", index_name);
        goto done;
    }
    for (int p = 0; p < n; p++)
        order[p] = p;
    qsort_r(order, (size_t)n, sizeof *order, by_name, (void *)(uintptr_t)graph);
    fprintf(out, "{\n  \"metadata\": {\n    \"total_size\": %" PRId64 "\n  },\n  \"weight_map\": {",
            total_bytes);
    for (int i = 0; i < n; i++) {
        sw_json_quote(graph->parameters.item[order[i]]->name, quoted);
        name_file(output, file_of[order[i]], n_files, name);
        fprintf(out, "%s\n    %s: \"%s\"", i ? "," : "", quoted, name);
    }
    fputs("\n  }\n}\n", out);
done:
    if (!sw_text_close(out, &text) && status == SW_OK)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %s", index_name);
    if (status == SW_OK)
        status = sw_path_join(path, folder, index_name, err);
    if (status == SW_OK)
        status = sw_file_write(path, text, (int64_t)text_bytes, err);
    free(text);
    free(quoted);
    free(order);
    return status;
}

static sw_status lay_out_weights(const sw_model_output *output, const char *folder, sw_error *err) {
    int n_files = count_files(output),
        *file_of = calloc((size_t)output->graph->parameters.n + 1, sizeof *file_of);
    int64_t total_bytes = 0, bytes;
    sw_status status =
        file_of ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the names of the files");
    for (int file = 0, first = 0; file < n_files && status == SW_OK; file++) {
        char path[SW_PATH_BYTES], name[64];
        int end = end_of_file(output, first, &bytes);
        for (int p = first; p < end; p++)
            file_of[p] = file;
        name_file(output, file, n_files, name);
        if ((status = sw_path_join(path, folder, name, err)) == SW_OK)
            status = lay_out_file(output, path, first, end, err);
        total_bytes += bytes;
        first = end;
    }
    if (status == SW_OK && n_files > 1)
        status = write_index(output, folder, file_of, n_files, total_bytes, err);
    free(file_of);
    return status;
}

static sw_status write_config(const sw_model_output *output, const char *folder, sw_error *err) {
    char path[SW_PATH_BYTES], *made = NULL;
    sw_status status =
        sw_path_join(path, folder, output->is_adapter ? SW_ADAPTER_CONFIG : "config.json", err);
    if (status == SW_OK && !output->config_json)
        status = sw_model_config_write(output->config, output->dtype, &made, err);
    const char *text = output->config_json ? output->config_json : made;
    if (status == SW_OK)
        status = sw_file_write(path, text, (int64_t)strlen(text), err);
    free(made);
    return status;
}

sw_status sw_model_files_begin(const char *directory, const sw_model_output *output,
                               sw_error *err) {
    char folder[SW_PATH_BYTES];
    int64_t need;
    sw_status status = sw_model_files_partial(directory, folder, err);
    if (status == SW_OK)
        status = sw_file_must_be_new(directory, err);
    if (status != SW_OK)
        return status;
    if ((status = sw_model_files_bytes(output, &need, err)) != SW_OK)
        return status;
    sw_model_files_abandon(directory);
    if ((status = check_space(folder, need, err)) != SW_OK)
        return status;
    if (mkdir(folder, 0777) != 0)
        return sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be made", folder);
    status = lay_out_weights(output, folder, err);
    if (status == SW_OK && (output->config || output->config_json))
        status = write_config(output, folder, err);
    if (status == SW_OK && output->companions)
        status = sw_companions_copy(output->companions, folder, !output->is_bytes,
                                    output->chat_template, err);
    else if (status == SW_OK && output->chat_template)
        status = sw_chat_template_put(NULL, folder, output->chat_template, err);
    if (status == SW_OK && output->is_bytes)
        status = sw_bytes_tokenizer_write(folder, err);
    if (status != SW_OK)
        sw_model_files_abandon(directory);
    return status;
}

/* ---- finish, or not ---- */

/* Is it the name of a file that begin makes, or that sw_file_write was making? */
static bool is_ours(const char *name) {
    char plain[128];
    size_t length = strlen(name);
    if (length > 8 && length < sizeof plain && strcmp(name + length - 8, ".partial") == 0)
        length -= 8;
    snprintf(plain, sizeof plain, "%.*s", (int)(length < sizeof plain ? length : 0), name);
    if (strcmp(plain, weights_name) == 0 || strcmp(plain, index_name) == 0 ||
        strcmp(plain, "config.json") == 0 || strcmp(plain, SW_ADAPTER_WEIGHTS) == 0 ||
        strcmp(plain, SW_ADAPTER_CONFIG) == 0 || fnmatch(split_pattern, plain, 0) == 0)
        return true;
    const char *companion;
    for (int i = 0; (companion = sw_companion_name(i, NULL)); i++)
        if (strcmp(plain, companion) == 0)
            return true;
    return false;
}

static sw_status sync_file(const char *path, sw_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sw_cannot_write(path, errno, err);
    return sw_file_close(fd, path, sw_file_sync(fd, path, err), err);
}

static sw_status sync_files(const char *folder, sw_error *err) {
    DIR *open_folder = opendir(folder);
    if (!open_folder)
        return sw_cannot_write(folder, errno, err);
    sw_status status = SW_OK;
    char path[SW_PATH_BYTES];
    int error = 0;
    for (struct dirent *entry; status == SW_OK && (entry = sw_folder_next(open_folder, &error));)
        if (entry->d_name[0] != '.' &&
            (status = sw_path_join(path, folder, entry->d_name, err)) == SW_OK)
            status = sync_file(path, err);
    closedir(open_folder);
    return error ? sw_cannot_write(folder, error, err) : status;
}

sw_status sw_model_files_finish(const char *directory, sw_error *err) {
    char folder[SW_PATH_BYTES], more[SW_PATH_BYTES];
    sw_status status = sw_model_files_partial(directory, folder, err);
    if (status != SW_OK)
        return status;
    status = sw_path_join(more, folder, SW_MORE_TEMPLATES, err);
    if (status == SW_OK && sw_file_exists(more))
        status = sync_files(more, err);
    if (status == SW_OK)
        status = sync_files(folder, err);
    if (status == SW_OK)
        status = sw_folder_sync(folder, err);
    if (status == SW_OK)
        status = sw_file_publish(folder, directory, err);
    if (status != SW_OK)
        sw_model_files_abandon(directory);
    return status;
}

/* What is ours in the folder NAME of `within`, and then the folder, if nothing else is in it. */
static void remove_files(int within, const char *name, bool (*is_ours_there)(const char *name)) {
    int folder = openat(within, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *open_folder = folder < 0 ? NULL : fdopendir(folder);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder));)
        if (is_ours_there(entry->d_name))
            unlinkat(folder, entry->d_name, 0);
    if (open_folder)
        closedir(open_folder);
    else if (folder >= 0)
        close(folder);
    unlinkat(within, name, AT_REMOVEDIR);
}

void sw_model_files_remove(const char *directory) {
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        remove_files(folder, SW_MORE_TEMPLATES, sw_is_template_name);
        close(folder);
    }
    remove_files(AT_FDCWD, directory, is_ours);
}

int64_t sw_model_files_left_over_bytes(const char *directory) {
    char folder[SW_PATH_BYTES];
    return sw_model_files_partial(directory, folder, NULL) == SW_OK ? sw_folder_blocks(folder) : 0;
}

void sw_model_files_abandon(const char *directory) {
    char folder[SW_PATH_BYTES];
    if (sw_model_files_partial(directory, folder, NULL) == SW_OK)
        sw_model_files_remove(folder);
}
