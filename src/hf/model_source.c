/* model_source.c: see model_source.h. */
#include "hf/model_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "hf/adapter.h"
#include "hf/hf_folder.h"
#include "hf/model_files.h"

enum { MAX_INDEX_BYTES = 64 << 20 };

/* A file that weight_map names is not there. */
static sw_status refuse_missing(const sw_model_source *source, const char *directory,
                                const char *name, sw_error *err) {
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: the file %.200s of weight_map is missing; fetch it: hf download OWNER/NAME %.200s "
        "--local-dir %s",
        source->path, name, name, directory);
}

/* Open one more file of the directory. Its handle is kept even where the list cannot grow
 * further. */
static sw_status open_file(sw_model_source *source, const char *path, sw_error *err) {
    sw_safetensors **files = realloc(source->files, (size_t)(source->n_files + 1) * sizeof *files);
    if (!files)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    source->files = files;
    sw_status status = sw_safetensors_open(path, &files[source->n_files], err);
    if (status == SW_OK)
        source->n_files++;
    return status;
}

/* A name in weight_map may not lead out of the directory. */
static bool is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The tensors of file number `f` are exactly those that weight_map says are in it, as far as the
 * file knows. */
static sw_status check_file_against_map(const sw_model_source *source, int f, const char *name,
                                        const sw_json_object *map, sw_error *err) {
    sw_safetensors *file = source->files[f];
    for (int64_t i = 0; i < sw_safetensors_count(file); i++) {
        const char *tensor = sw_safetensors_at(file, i)->name, *said = NULL;
        sw_status status = sw_json_text(map, tensor, SW_JSON_OPTIONAL, &said, err);
        if (status != SW_OK)
            return status;
        if (!said || strcmp(said, name) != 0)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: weight_map puts tensor \"%.200s\" into %.200s, but %.200s holds it",
                           source->path, tensor, said ? said : "no file", name);
    }
    return SW_OK;
}

static sw_status open_files_of_map(sw_model_source *source, const char *directory,
                                   const sw_json_object *map, sw_error *err) {
    sw_status status = SW_OK;
    const char **names = NULL; /* [n_files] values of weight_map, in the document */
    void *at = NULL;
    for (const char *tensor; status == SW_OK && (tensor = sw_json_next_key(map, &at));) {
        const char *name;
        char path[SW_PATH_BYTES];
        if ((status = sw_json_text(map, tensor, SW_JSON_REQUIRED, &name, err)) != SW_OK)
            break;
        int f = 0;
        while (f < source->n_files && strcmp(names[f], name) != 0)
            f++;
        if (f == source->n_files) {
            const char **more = realloc(names, (size_t)(f + 1) * sizeof *names);
            if (more)
                names = more, names[f] = name;
            if (!more)
                status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", source->path);
            else if (!is_plain_name(name))
                status = sw_fail(
                    err, SW_BAD_FILE,
                    "%s: weight_map names the file \"%.200s\"; a name in the same folder is needed",
                    source->path, name);
            else if ((status = sw_path_join(path, directory, name, err)) == SW_OK &&
                     !sw_file_exists(path))
                status = refuse_missing(source, directory, name, err);
            else if (status == SW_OK && (status = open_file(source, path, err)) == SW_OK)
                status = check_file_against_map(source, f, name, map, err);
        }
        if (status == SW_OK && !sw_safetensors_find(source->files[f], tensor))
            status =
                sw_fail(err, SW_BAD_FILE,
                        "%s: weight_map puts tensor \"%.200s\" into %.200s, which does not hold it",
                        source->path, tensor, name);
    }
    free(names);
    return status;
}

bool sw_is_safetensors(const char *path) {
    static const char ending[] = ".safetensors";
    const size_t n = strlen(path);
    struct stat info;
    return n >= sizeof ending && !strcmp(path + n - sizeof ending + 1, ending) &&
           !stat(path, &info) && !S_ISDIR(info.st_mode);
}

sw_status sw_model_source_open(const char *directory, sw_model_source *source, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_json *index = NULL;
    sw_json_object root, map;
    *source = (sw_model_source){0};
    sw_status status = sw_path_join(path, directory, "model.safetensors", err);
    if (status != SW_OK)
        return status;
    bool is_file = sw_is_safetensors(directory), is_single = is_file || sw_file_exists(path);
    if (is_file && (size_t)snprintf(path, sizeof path, "%s", directory) >= sizeof path)
        return sw_fail(err, SW_BAD_FILE, "%.200s...: the path is too long", directory);
    if (!is_single &&
        (status = sw_path_join(path, directory, "model.safetensors.index.json", err)) != SW_OK)
        return status;
    if (!is_single && !sw_file_exists(path))
        return sw_hf_folder_refuse_weights(directory, err);
    source->path = strdup(path);
    if (!source->path)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    if (is_single)
        return open_file(source, path, err);
    if ((status = sw_json_read(path, MAX_INDEX_BYTES, &index, err)) == SW_OK) {
        root = sw_json_root(index);
        if ((status = sw_json_child(&root, "weight_map", &map, err)) == SW_OK)
            status = open_files_of_map(source, directory, &map, err);
    }
    sw_json_free(index);
    return status;
}

sw_status sw_model_source_open_adapter(const char *directory, sw_model_source *source,
                                       sw_error *err) {
    char path[SW_PATH_BYTES];
    *source = (sw_model_source){0};
    sw_status status = sw_path_join(path, directory, SW_ADAPTER_WEIGHTS, err);
    if (status == SW_OK && !(source->path = strdup(path)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    return status ? status : open_file(source, path, err);
}

void sw_model_source_close(sw_model_source *source) {
    for (int f = 0; f < source->n_files; f++)
        sw_safetensors_close(source->files[f]);
    free(source->files);
    free(source->path);
    *source = (sw_model_source){0};
}

static sw_tensor_place find_name(const sw_model_source *source, const char *name) {
    for (int f = 0; f < source->n_files; f++) {
        const sw_tensor_entry *tensor = sw_safetensors_find(source->files[f], name);
        if (tensor)
            return (sw_tensor_place){source->files[f], tensor};
    }
    return (sw_tensor_place){0};
}

sw_tensor_place sw_model_source_find(const sw_model_source *source, const sw_model_config *config,
                                     const char *parameter) {
    sw_tensor_place place = find_name(source, parameter);
    char buffer[1024];
    const char *name;
    for (int i = 0; config && !place.tensor &&
                    (name = sw_model_alternative_name(config, parameter, i, buffer, sizeof buffer));
         i++)
        place = find_name(source, name);
    return place;
}

sw_status sw_model_source_take(const sw_model_source *source, const sw_model_config *config,
                               const sw_parameter *parameter, sw_tensor_place *place,
                               sw_error *err) {
    *place = sw_model_source_find(source, config, parameter->name);
    if (place->tensor && place->tensor->n_elements == parameter->n_elements &&
        sw_safetensors_is_real(place->tensor))
        return SW_OK;
    return sw_fail(err, SW_BAD_FILE, "%s: tensor \"%.200s\" was changed since it was checked",
                   source->path, parameter->name);
}

int64_t sw_model_source_bytes_read(const sw_model_source *source) {
    int64_t bytes = 0;
    for (int f = 0; f < source->n_files; f++)
        bytes += sw_safetensors_bytes_read(source->files[f]);
    return bytes;
}
