/* test_model_files.c: shards into a Hugging Face directory and back, by any number of ranks. */
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "hf/model_files.h"
#include "support/folder.h"

static char scratch[FOLDER_BYTES];
static char model_path[256], partial_path[300], weights_path[300];

static int make_scratch(void **state) {
    (void)state;
    if (!folder_make(scratch))
        return -1;
    snprintf(model_path, sizeof model_path, "%s/model", scratch);
    snprintf(partial_path, sizeof partial_path, "%s.partial", model_path);
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", model_path);
    return 0;
}

static void clean(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", scratch);
    assert_int_equal(system(command), 0);
}

static int remove_scratch(void **state) {
    (void)state;
    clean();
    return rmdir(scratch);
}

/* Hidden sizes that leave odd parameters and, over 7 ranks, empty shards. */
static const sw_model_config llama = {SW_LLAMA, 2,     12,  2,    1,    6, 10, 11,
                                      16,       false, 1e4, 1e-5, 0.02, 1, 2};
static const sw_model_config gpt2 = {SW_GPT2, 1,    8,   2,    2,    4,  32, 11,
                                     16,      true, 1e4, 1e-5, 0.02, -1, -1};

static sw_graph *trace(const sw_model_config *config) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(1, 8, &graph, &err), SW_OK);
    if (sw_model_trace(config, SW_ENDS_IN_LOSS, graph, &err) != SW_OK)
        fail_msg("%s", err.message);
    return graph;
}

static sw_layout lay_out(const sw_graph *graph, int n_ranks) {
    sw_layout layout;
    sw_error err = {0};
    assert_int_equal(sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(n_ranks)}, (sw_wrap){0},
                                      SW_BLOCK, &layout, &err),
                     SW_OK);
    return layout;
}

/* Some number for each element, that fits into every dtype: up to 8 bits of significand. */
static float value_of(const sw_parameter *parameter, int64_t element) {
    uint64_t hash = (parameter->stream + (uint64_t)element) * 0x9E3779B97F4A7C15u;
    return (float)((int)(hash >> 56) - 128) / 64;
}

static sw_status fetch_value(void *from, int group, const sw_piece *piece, int64_t first, int64_t n,
                             float *values, sw_error *err) {
    (void)from, (void)group, (void)err;
    for (int64_t i = 0; i < n; i++)
        values[i] = value_of(piece->parameter, piece->first + first + i);
    return SW_OK;
}

/* What arrives, element by element, over all ranks. */
typedef struct arrivals {
    int64_t n, n_wrong;
    unsigned char *count[64]; /* of each parameter by id: how often its elements came */
} arrivals;

static sw_status put_value(void *to, int group, const sw_piece *piece, int64_t first, int64_t n,
                           float *values, sw_error *err) {
    (void)group, (void)err;
    arrivals *a = to;
    for (int64_t i = 0; i < n; i++) {
        int64_t element = piece->first + first + i;
        a->n++;
        a->count[piece->parameter->id][element]++;
        a->n_wrong += values[i] != value_of(piece->parameter, element);
    }
    return SW_OK;
}

/* The next saves split at so many bytes; 0: not at all. */
static int64_t max_shard_size;

static sw_status begin(const char *directory, const sw_model_config *config,
                       const char *config_json, const sw_graph *graph, sw_dtype dtype,
                       bool is_bytes, sw_error *err) {
    sw_model_output output = {.graph = graph,
                              .dtype = dtype,
                              .max_shard_size = max_shard_size,
                              .config = config,
                              .config_json = config_json,
                              .is_bytes = is_bytes};
    return sw_model_files_begin(directory, &output, err);
}

static void save(const sw_model_config *config, const sw_graph *graph, int n_ranks,
                 sw_dtype dtype) {
    sw_error err = {0};
    sw_layout layout = lay_out(graph, n_ranks);
    if (begin(model_path, config, NULL, graph, dtype, false, &err) != SW_OK)
        fail_msg("%s", err.message);
    for (int rank = n_ranks - 1; rank >= 0; rank--)
        if (sw_model_files_write(model_path, &layout, rank, dtype, fetch_value, NULL, &err) !=
            SW_OK)
            fail_msg("%s", err.message);
    assert_false(sw_file_exists(model_path));
    if (sw_model_files_finish(model_path, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_false(sw_file_exists(partial_path));
    sw_layout_free(&layout);
}

/* Load by n ranks: every element comes once, with its value, and no rank reads more than its
 * own. */
static void load_and_compare(const sw_model_config *config, const sw_graph *graph, int n_ranks,
                             int64_t element_bytes) {
    arrivals a = {0};
    sw_error err = {0};
    sw_layout layout = lay_out(graph, n_ranks);
    int64_t n_elements = 0, header_bytes;
    sw_safetensors *file;
    if (sw_model_files_check(model_path, config, graph, &err) != SW_OK)
        fail_msg("%s", err.message);
    if (sw_file_exists(weights_path)) {
        assert_int_equal(sw_safetensors_open(weights_path, &file, &err), SW_OK);
        header_bytes = sw_safetensors_bytes_read(file);
        sw_safetensors_close(file);
    } else {
        header_bytes = -1;
    }
    for (int p = 0; p < graph->parameters.n; p++) {
        a.count[p] = calloc((size_t)graph->parameters.item[p]->n_elements + 1, 1);
        assert_non_null(a.count[p]);
        n_elements += graph->parameters.item[p]->n_elements;
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        int64_t before = a.n, bytes_read;
        if (sw_model_files_load(model_path, config, &layout, rank, put_value, &a, &bytes_read,
                                &err) != SW_OK)
            fail_msg("%s", err.message);
        if (header_bytes >= 0)
            assert_int_equal(bytes_read, header_bytes + (a.n - before) * element_bytes);
    }
    assert_int_equal(a.n, n_elements);
    assert_int_equal(a.n_wrong, 0);
    for (int p = 0; p < graph->parameters.n; p++) {
        for (int64_t i = 0; i < graph->parameters.item[p]->n_elements; i++)
            assert_int_equal(a.count[p][i], 1);
        free(a.count[p]);
    }
    sw_layout_free(&layout);
}

static void any_ranks_save_and_any_ranks_load(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 3, 7};
    static const struct {
        sw_dtype dtype;
        int64_t bytes;
    } dtypes[] = {{SW_F32, 4}, {SW_BF16, 2}, {SW_F16, 2}};
    for (int d = 0; d < 3; d++)
        for (int n = 0; n < 4; n++) {
            sw_graph *graph = trace(n % 2 ? &gpt2 : &llama);
            const sw_model_config *config = n % 2 ? &gpt2 : &llama;
            save(config, graph, ranks[n], dtypes[d].dtype);
            for (int m = 0; m < 4; m++)
                load_and_compare(config, graph, ranks[m], dtypes[d].bytes);
            sw_graph_free(graph);
            clean();
        }
}

/* Padding is not in the file: it has the header and the elements, and as many bytes as were
 * foretold. */
static void a_file_holds_no_padding(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    save(&llama, graph, 7, SW_BF16);
    sw_safetensors *file;
    sw_error err = {0};
    struct stat info;
    int64_t data_bytes = 0;
    assert_int_equal(sw_safetensors_open(weights_path, &file, &err), SW_OK);
    assert_int_equal(sw_safetensors_count(file), graph->parameters.n);
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_tensor_entry *tensor = sw_safetensors_find(file, graph->parameters.item[p]->name);
        assert_non_null(tensor);
        assert_string_equal(tensor->dtype, "BF16");
        assert_int_equal(tensor->n_elements, graph->parameters.item[p]->n_elements);
        data_bytes += 2 * tensor->n_elements;
    }
    assert_int_equal(stat(weights_path, &info), 0);
    assert_int_equal(info.st_size, sw_safetensors_bytes_read(file) + data_bytes);
    sw_model_output output = {.graph = graph, .dtype = SW_BF16};
    int64_t planned = 0;
    assert_int_equal(sw_model_files_bytes(&output, &planned, NULL), SW_OK);
    assert_true(planned >= info.st_size);
    sw_safetensors_close(file);
    sw_graph_free(graph);
    clean();
}

/* ---- rounding ---- */

static sw_graph *one_vector(int64_t n) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(1, 8, &graph, &err), SW_OK);
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    assert_non_null(sw_parameter_declare(graph, root, "w", 1, &n, SW_INIT_ZEROS, 0));
    return graph;
}

static sw_status fetch_array(void *from, int group, const sw_piece *piece, int64_t first, int64_t n,
                             float *values, sw_error *err) {
    (void)group, (void)err;
    memcpy(values, (const float *)from + piece->first + first, (size_t)n * sizeof *values);
    return SW_OK;
}

/* Save an array as one parameter "w". */
static sw_status save_array(const float *array, int64_t n, sw_dtype dtype, sw_error *err) {
    sw_graph *graph = one_vector(n);
    sw_layout layout = lay_out(graph, 1);
    sw_status status = begin(model_path, &llama, NULL, graph, dtype, false, err);
    if (status == SW_OK)
        status = sw_model_files_write(model_path, &layout, 0, dtype, fetch_array,
                                      (void *)(uintptr_t)array, err);
    if (status == SW_OK)
        status = sw_model_files_finish(model_path, err);
    else
        sw_model_files_abandon(model_path);
    sw_layout_free(&layout);
    sw_graph_free(graph);
    return status;
}

static void bf16_rounds_to_nearest_with_ties_to_even(void **state) {
    (void)state;
    const float values[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1.02p-8f, -0.0f,
                            INFINITY,    0x1p-133f,       3.4e38f,        -2.5f};
    const uint16_t expected[] = {0x3f80, 0x3f82, 0x3f81, 0x8000, 0x7f80, 0x0001, 0x7f80, 0xc020};
    uint16_t bits[8];
    sw_error err = {0};
    sw_safetensors *file;
    assert_int_equal(save_array(values, 8, SW_BF16, &err), SW_OK);
    assert_int_equal(sw_safetensors_open(weights_path, &file, &err), SW_OK);
    assert_int_equal(sw_safetensors_read_bytes(file, sw_safetensors_at(file, 0), 0, 16, bits, &err),
                     SW_OK);
    assert_memory_equal(bits, expected, sizeof bits);
    sw_safetensors_close(file);
    clean();
}

static void what_fp16_cannot_hold_is_an_error_that_names_the_parameter(void **state) {
    (void)state;
    const float fits[] = {65504, 65519, -65504, INFINITY, NAN, 1e-30f};
    float does_not[] = {1, 2, 65520};
    sw_error err = {0};
    assert_int_equal(save_array(fits, 6, SW_F16, &err), SW_OK);
    clean();
    assert_int_equal(save_array(does_not, 3, SW_F16, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "w: element 2 is 65520"));
    assert_false(sw_file_exists(model_path));
    assert_false(sw_file_exists(partial_path));
    assert_int_equal(save_array(does_not, 3, SW_BF16, &err), SW_OK);
    clean();
    assert_int_equal(save_array(does_not, 3, SW_I32, &err), SW_BAD_CONFIG);
}

/* A piece longer than the buffer goes through it in parts. */
static void pieces_longer_than_the_buffer_are_whole(void **state) {
    (void)state;
    int64_t n = 2 * SW_PIECE_ELEMENTS + 77;
    sw_graph *graph = one_vector(n);
    save(&llama, graph, 2, SW_BF16);
    load_and_compare(&llama, graph, 1, 2);
    load_and_compare(&llama, graph, 3, 2);
    sw_graph_free(graph);
    clean();
}

/* B08. Scalars and empty tensors keep their names and shapes through a save by three ranks. */
static void scalars_and_empty_tensors_are_saved(void **state) {
    (void)state;
    sw_graph graph = {0};
    sw_unit root = {.name = "root"}, *units[] = {&root};
    sw_parameter parameters[] = {
        {.id = 0,
         .name = "scalar",
         .unit = &root,
         .n_elements = 1,
         .is_trainable = true,
         .stream = 1},
        {.id = 1,
         .name = "empty",
         .unit = &root,
         .n_dimensions = 3,
         .dimension = {3, 0, 2},
         .is_trainable = true,
         .stream = 2},
        {.id = 2,
         .name = "pair",
         .unit = &root,
         .n_dimensions = 1,
         .dimension = {2},
         .n_elements = 2,
         .is_trainable = true,
         .stream = 3},
        {.id = 3,
         .name = "none",
         .unit = &root,
         .n_dimensions = 1,
         .dimension = {0},
         .is_trainable = true,
         .stream = 4},
    };
    sw_parameter *list[] = {&parameters[0], &parameters[1], &parameters[2], &parameters[3]};
    graph.units.item = units, graph.units.n = 1;
    graph.parameters.item = list, graph.parameters.n = 4;
    save(&llama, &graph, 3, SW_F32);
    load_and_compare(&llama, &graph, 1, 4);
    load_and_compare(&llama, &graph, 3, 4);
    clean();
}

/* ---- several files ---- */

/* Data bytes of a tensor in `path`; the file has no more than the limit, unless it is one
 * tensor. */
static int64_t check_split_file(const char *path, int64_t limit) {
    sw_safetensors *file;
    sw_error err = {0};
    int64_t bytes = 0;
    if (sw_safetensors_open(path, &file, &err) != SW_OK)
        fail_msg("%s", err.message);
    for (int64_t i = 0; i < sw_safetensors_count(file); i++)
        bytes += sw_safetensors_at(file, i)->n_bytes;
    assert_true(bytes <= limit || sw_safetensors_count(file) == 1);
    sw_safetensors_close(file);
    return bytes;
}

/* Whatever the limit, the files together are the model, none is larger unless a tensor is, two
 * neighbours would not fit into one, and the index says what transformers' says. */
static void a_model_larger_than_the_limit_is_split(void **state) {
    (void)state;
    static const int64_t limits[] = {1, 500, 1000, 1200, 2000};
    for (int k = 0; k < 5; k++) {
        const sw_model_config *config = k % 2 ? &gpt2 : &llama;
        sw_graph *graph = trace(config);
        int64_t total = 0, sum = 0, before = INT64_MAX / 2, said = 0;
        int n_files = 0;
        char path[400], name[64];
        max_shard_size = limits[k];
        save(config, graph, k % 3 + 1, k < 3 ? SW_F32 : SW_BF16);
        max_shard_size = 0;
        int64_t element_bytes = k < 3 ? 4 : 2;
        for (int p = 0; p < graph->parameters.n; p++)
            total += graph->parameters.item[p]->n_elements * element_bytes;
        assert_false(sw_file_exists(weights_path));
        for (int n = 2; n <= graph->parameters.n && !n_files; n++) {
            snprintf(path, sizeof path, "%s/model-00001-of-%05d.safetensors", model_path, n);
            n_files = sw_file_exists(path) ? n : 0;
        }
        assert_true(n_files > 1);
        for (int f = 1; f <= n_files; f++) {
            snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", f, n_files);
            snprintf(path, sizeof path, "%s/%s", model_path, name);
            int64_t bytes = check_split_file(path, limits[k]);
            assert_true(before + bytes > limits[k]);
            sum += before = bytes;
        }
        assert_int_equal(sum, total);
        if (limits[k] == 1)
            assert_int_equal(n_files, graph->parameters.n);
        sw_json *index;
        sw_json_object root, metadata;
        sw_error err = {0};
        snprintf(path, sizeof path, "%s/model.safetensors.index.json", model_path);
        assert_int_equal(sw_json_read(path, 1 << 20, &index, &err), SW_OK);
        root = sw_json_root(index);
        assert_int_equal(sw_json_child(&root, "metadata", &metadata, &err), SW_OK);
        assert_int_equal(sw_json_integer(&metadata, "total_size", SW_JSON_REQUIRED, &said, &err),
                         SW_OK);
        assert_int_equal(said, total);
        sw_json_free(index);
        for (int m = 1; m <= 3; m++)
            load_and_compare(config, graph, m, element_bytes);
        sw_graph_free(graph);
        clean();
    }
}

/* What fits exactly is one file, under the plain name and without an index. */
static void a_model_within_the_limit_is_one_file(void **state) {
    (void)state;
    sw_graph *graph = one_vector(1000);
    max_shard_size = 4000;
    save(&llama, graph, 2, SW_F32);
    max_shard_size = 0;
    assert_true(sw_file_exists(weights_path));
    char path[400];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", model_path);
    assert_false(sw_file_exists(path));
    sw_graph_free(graph);
    clean();
}

/* A file that cannot have its size takes the whole folder with it, and nothing else. */
static void a_disk_that_is_full_for_the_second_file_leaves_nothing(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    struct rlimit before, limit;
    char old[300], kept[400];
    snprintf(old, sizeof old, "%s/old", scratch);
    snprintf(kept, sizeof kept, "%s/kept", old);
    assert_int_equal(mkdir(old, 0777), 0);
    assert_int_equal(sw_file_write(kept, "kept", 4, &err), SW_OK);
    int64_t largest = 0, first = graph->parameters.item[0]->n_elements;
    for (int p = 0; p < graph->parameters.n; p++)
        largest = graph->parameters.item[p]->n_elements > largest
                      ? graph->parameters.item[p]->n_elements
                      : largest;
    assert_true(largest >= first);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit =
        (struct rlimit){(rlim_t)(4 * largest),
                        before.rlim_max}; /* the header does not fit beside the largest tensor */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    max_shard_size = 1;
    sw_status status = begin(model_path, &llama, NULL, graph, SW_F32, false, &err);
    max_shard_size = 0;
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, SW_NO_SPACE);
    assert_non_null(strstr(err.message, "cannot be written"));
    assert_false(sw_file_exists(partial_path));
    assert_false(sw_file_exists(model_path));
    assert_true(sw_file_exists(kept));
    sw_graph_free(graph);
    clean();
}

/* ---- the files beside the weights ---- */

static void put_companion(const char *folder, const char *name, const char *text) {
    char path[400];
    sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, (int64_t)strlen(text), &err), SW_OK);
}

static bool has_companion(const char *name, const char *text) {
    char path[400], *found;
    sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s", model_path, name);
    if (!sw_file_exists(path))
        return false;
    assert_int_equal(sw_file_read(path, 1 << 20, &found, NULL, &err), SW_OK);
    bool is_same = strcmp(found, text) == 0;
    free(found);
    return is_same;
}

static void tokenizer_and_generation_files_are_carried_along(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "generation_config.json",
                                        "added_tokens.json"};
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    char origin[300];
    snprintf(origin, sizeof origin, "%s/origin", scratch);
    assert_int_equal(mkdir(origin, 0777), 0);
    for (int i = 0; i < 9; i++)
        put_companion(origin, names[i], names[i]);
    put_companion(origin, "README.md", "not ours");
    put_companion(origin, "config.json", "{}");
    for (int is_bytes = 0; is_bytes < 2; is_bytes++) {
        sw_model_output output = {.graph = graph,
                                  .dtype = SW_F32,
                                  .config = &llama,
                                  .companions = origin,
                                  .is_bytes = is_bytes};
        if (sw_model_files_begin(model_path, &output, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_int_equal(sw_model_files_finish(model_path, &err), SW_OK);
        for (int i = 0; i < 9; i++)
            assert_int_equal(has_companion(names[i], names[i]), !is_bytes || i == 7);
        assert_false(has_companion("README.md", "not ours"));
        assert_false(has_companion("config.json", "{}"));
        sw_model_config back;
        assert_int_equal(sw_model_config_read(model_path, &back, &err), SW_OK);
        assert_int_equal(folder_remove(model_path), 0);
    }
    /* Abandoned, they are gone too. */
    sw_model_output output = {
        .graph = graph, .dtype = SW_F32, .config = &llama, .companions = origin};
    assert_int_equal(sw_model_files_begin(model_path, &output, &err), SW_OK);
    sw_model_files_abandon(model_path);
    assert_false(sw_file_exists(partial_path));
    sw_graph_free(graph);
    clean();
}

/* ---- memory ---- */

typedef struct heap_watch {
    size_t before, peak;
} heap_watch;

static size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static sw_status put_and_watch(void *to, int group, const sw_piece *piece, int64_t first, int64_t n,
                               float *values, sw_error *err) {
    (void)group, (void)piece, (void)first, (void)n, (void)values, (void)err;
    heap_watch *watch = to;
    size_t now = heap_bytes() - watch->before;
    watch->peak = now > watch->peak ? now : watch->peak;
    return SW_OK;
}

/* Beside the shard, which is the caller's, loading takes one slice and the headers, however large
 * the model and its dtype. */
static void loading_takes_one_slice_of_memory(void **state) {
    (void)state;
    static const sw_dtype dtypes[] = {SW_F32, SW_BF16};
    for (int d = 0; d < 2; d++) {
        sw_graph *graph = one_vector(5 * (int64_t)SW_PIECE_ELEMENTS + 3);
        sw_layout layout = lay_out(graph, 2);
        sw_error err = {0};
        save(&llama, graph, 1, dtypes[d]);
        heap_watch watch = {.before = heap_bytes()};
        assert_int_equal(
            sw_model_files_load(model_path, &llama, &layout, 0, put_and_watch, &watch, NULL, &err),
            SW_OK);
        assert_true(watch.peak <= sizeof(float) * SW_PIECE_ELEMENTS + (64 << 10));
        sw_layout_free(&layout);
        sw_graph_free(graph);
        clean();
    }
}

/* ---- whole or not there ---- */

static void what_exists_is_not_overwritten(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    assert_int_equal(mkdir(model_path, 0777), 0);
    assert_int_equal(begin(model_path, &llama, NULL, graph, SW_F32, false, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "exists already"));
    assert_false(sw_file_exists(partial_path));
    assert_int_equal(rmdir(model_path), 0);
    /* It may also come into being while the pieces are written. */
    assert_int_equal(begin(model_path, &llama, NULL, graph, SW_F32, false, &err), SW_OK);
    assert_int_equal(mkdir(model_path, 0777), 0);
    assert_int_equal(sw_model_files_finish(model_path, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "exists already"));
    assert_false(sw_file_exists(partial_path));
    sw_graph_free(graph);
    clean();
}

static void an_abandoned_or_killed_save_leaves_nothing_in_the_way(void **state) {
    (void)state;
    sw_graph *graph = trace(&gpt2);
    sw_error err = {0};
    assert_int_equal(begin(model_path, &gpt2, NULL, graph, SW_F32, true, &err), SW_OK);
    sw_model_files_abandon(model_path);
    assert_false(sw_file_exists(partial_path));
    assert_false(sw_file_exists(model_path));
    sw_model_files_abandon(model_path);
    assert_int_equal(begin(model_path, &gpt2, NULL, graph, SW_F32, true, &err), SW_OK);
    save(&gpt2, graph, 2, SW_F32); /* as if the one before had been killed */
    load_and_compare(&gpt2, graph, 2, 4);
    sw_graph_free(graph);
    clean();
}

static void a_full_disk_is_found_before_anybody_writes(void **state) {
    (void)state;
    sw_graph *graph = one_vector(100000);
    sw_error err = {0};
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){100000, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    sw_status status = begin(model_path, &llama, NULL, graph, SW_F32, false, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, SW_NO_SPACE);
    assert_non_null(strstr(err.message, "model.safetensors: cannot be written"));
    assert_false(sw_file_exists(partial_path));
    sw_graph_free(graph);
    /* More than any disk has: said with what is needed and what is left. */
    graph = one_vector((int64_t)1 << 58);
    assert_int_equal(begin(model_path, &llama, NULL, graph, SW_F32, false, &err), SW_NO_SPACE);
    assert_non_null(strstr(err.message, "iB, the disk has "));
    assert_false(sw_file_exists(partial_path));
    sw_graph_free(graph);
}

static void a_folder_that_cannot_be_written_is_named(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    assert_int_equal(begin("/nowhere/model", &llama, NULL, graph, SW_F32, false, &err),
                     SW_NO_SPACE);
    assert_non_null(strstr(err.message, "/nowhere/model.partial: cannot be made: No such file"));
    if (geteuid() != 0) {
        assert_int_equal(chmod(scratch, 0500), 0);
        sw_status status = begin(model_path, &llama, NULL, graph, SW_F32, false, &err);
        assert_int_equal(chmod(scratch, 0700), 0);
        assert_int_equal(status, SW_NO_SPACE);
        assert_non_null(strstr(err.message, "Permission denied"));
    }
    sw_graph_free(graph);
}

static void a_trailing_slash_names_the_same_folder(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    char with_slash[300];
    snprintf(with_slash, sizeof with_slash, "%s//", model_path);
    assert_int_equal(begin(with_slash, &llama, NULL, graph, SW_F32, false, &err), SW_OK);
    assert_true(sw_file_exists(partial_path));
    if (sw_model_files_finish(with_slash, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_true(sw_file_exists(weights_path));
    sw_graph_free(graph);
    clean();
}

/* ---- other people's directories ---- */

/* A safetensors file with these parameters of a graph, named as they are or without `prefix`, and
 * one more tensor if given. */
static void write_weights(const char *path, const sw_graph *graph, int first, int end,
                          const char *prefix, const char *more) {
    sw_tensor_plan plan[64];
    char *header;
    int64_t n = 0, header_bytes, file_bytes;
    sw_error err = {0};
    for (int p = first; p < end; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        plan[n] = (sw_tensor_plan){
            .name = parameter->name, .dtype = "F32", .n_dimensions = parameter->n_dimensions};
        if (strncmp(parameter->name, prefix, strlen(prefix)) == 0)
            plan[n].name += strlen(prefix);
        memcpy(plan[n++].dimension, parameter->dimension, sizeof parameter->dimension);
    }
    if (more)
        plan[n++] =
            (sw_tensor_plan){.name = more, .dtype = "F32", .n_dimensions = 1, .dimension = {1}};
    assert_int_equal(sw_safetensors_plan(plan, n, NULL, &header, &header_bytes, &file_bytes, &err),
                     SW_OK);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, (size_t)header_bytes, file), header_bytes);
    for (int p = first; p < end; p++)
        for (int64_t i = 0; i < graph->parameters.item[p]->n_elements; i++) {
            float value = value_of(graph->parameters.item[p], i);
            fwrite(&value, sizeof value, 1, file);
        }
    if (more)
        fwrite("1234", 4, 1, file);
    assert_int_equal(fclose(file), 0);
    free(header);
}

static void check_says(const sw_model_config *config, const sw_graph *graph, const char *words) {
    sw_error err = {0};
    sw_status status = sw_model_files_check(model_path, config, graph, &err);
    if (status != SW_BAD_FILE || !strstr(err.message, model_path) || !strstr(err.message, words))
        fail_msg("expected \"%s\", got %s: %s", words, sw_status_name(status), err.message);
}

static void gpt2_files_come_with_and_without_their_prefix(void **state) {
    (void)state;
    sw_graph *graph = trace(&gpt2);
    assert_int_equal(mkdir(model_path, 0777), 0);
    write_weights(weights_path, graph, 0, graph->parameters.n, "transformer.", "h.0.attn.bias");
    sw_error err = {0};
    if (sw_model_files_check(model_path, &gpt2, graph, &err) != SW_OK)
        fail_msg("%s", err.message);
    write_weights(weights_path, graph, 0, graph->parameters.n, "transformer.", NULL);
    load_and_compare(&gpt2, graph, 3, 4);
    write_weights(weights_path, graph, 0, graph->parameters.n, "transformer.",
                  "transformer.wte.weight");
    check_says(&gpt2, graph, "1 tensor is not part of the model: wte.weight");
    sw_graph_free(graph);
    clean();
}

static void write_index(const sw_graph *graph, int cut, const char *first_file,
                        const char *second_file, const char *more) {
    char path[400];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", model_path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (int p = 0; p < graph->parameters.n; p++)
        fprintf(file, "%s\"%s\":\"%s\"", p ? "," : "", graph->parameters.item[p]->name,
                p < cut ? first_file : second_file);
    fprintf(file, "%s}}", more);
    assert_int_equal(fclose(file), 0);
}

static void weights_in_several_files_agree_with_their_index(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    char first[300], second[300];
    int cut = 5, n = graph->parameters.n;
    snprintf(first, sizeof first, "%s/a.safetensors", model_path);
    snprintf(second, sizeof second, "%s/b.safetensors", model_path);
    assert_int_equal(mkdir(model_path, 0777), 0);
    write_weights(first, graph, 0, cut, "", NULL);
    write_weights(second, graph, cut, n, "", NULL);
    write_index(graph, cut, "a.safetensors", "b.safetensors", "");
    load_and_compare(&llama, graph, 1, 4);
    load_and_compare(&llama, graph, 3, 4);
    write_index(graph, cut - 1, "a.safetensors", "b.safetensors", "");
    check_says(&llama, graph, "into b.safetensors, but a.safetensors holds it");
    write_index(graph, cut, "a.safetensors", "c.safetensors", "");
    check_says(&llama, graph, "the file c.safetensors of weight_map is missing");
    write_index(graph, cut, "a.safetensors", "../model/b.safetensors", "");
    check_says(&llama, graph, "a name in the same folder is needed");
    write_index(graph, cut, "a.safetensors", "b.safetensors", ",\"x\":\"b.safetensors\"");
    check_says(&llama, graph,
               "weight_map puts tensor \"x\" into b.safetensors, which does not hold it");
    write_index(graph, cut, "a.safetensors", "b.safetensors", ",\"x\":3");
    check_says(&llama, graph, "weight_map.x is an integer, a string is needed");
    write_index(graph, cut, "a.safetensors", "b.safetensors", ",\"x\":\"b.safetensors\"");
    write_weights(second, graph, cut, n, "", "x");
    check_says(&llama, graph, "1 tensor is not part of the model: x");
    write_index(graph, cut, "a.safetensors", "b.safetensors", "");
    check_says(&llama, graph,
               "weight_map puts tensor \"x\" into no file, but b.safetensors holds it");
    sw_graph_free(graph);
    clean();
}

/* B25. A head beside the embedding to which it is tied: equal is fine, and is not loaded as a
 * parameter of its own. */
static void a_tied_head_may_be_stored_if_it_is_equal(void **state) {
    (void)state;
    sw_model_config tied = llama;
    tied.tied = true;
    sw_graph *untied_graph = trace(&llama), *graph = trace(&tied);
    assert_int_equal(graph->parameters.n, untied_graph->parameters.n - 1);
    for (int p = 0; p < untied_graph->parameters.n;
         p++) /* the head's values become the embedding's */
        if (strcmp(untied_graph->parameters.item[p]->name, "lm_head.weight") == 0)
            for (int q = 0; q < graph->parameters.n; q++)
                if (strcmp(graph->parameters.item[q]->name, "model.embed_tokens.weight") == 0)
                    untied_graph->parameters.item[p]->stream = graph->parameters.item[q]->stream;
    assert_int_equal(mkdir(model_path, 0777), 0);
    write_weights(weights_path, untied_graph, 0, untied_graph->parameters.n, "", NULL);
    load_and_compare(&tied, graph, 2, 4);
    sw_graph_free(graph);
    sw_graph_free(untied_graph);
    clean();
}

static void a_cut_file_is_refused_while_loading_too(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_layout layout = lay_out(graph, 2);
    sw_error err = {0};
    arrivals a = {0};
    save(&llama, graph, 1, SW_F32);
    struct stat info;
    assert_int_equal(stat(weights_path, &info), 0);
    assert_int_equal(truncate(weights_path, info.st_size - 1), 0);
    assert_int_equal(sw_model_files_load(model_path, &llama, &layout, 0, put_value, &a, NULL, &err),
                     SW_BAD_FILE);
    assert_non_null(strstr(err.message, "is the download complete?"));
    sw_layout_free(&layout);
    sw_graph_free(graph);
    clean();
}

/* ---- the small files ---- */

static void config_json_is_written_as_given_or_made(void **state) {
    (void)state;
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    char path[400], *text;
    snprintf(path, sizeof path, "%s/config.json", partial_path);
    assert_int_equal(begin(model_path, &llama, "{\"mine\": 1}\n", graph, SW_F32, false, &err),
                     SW_OK);
    assert_int_equal(sw_file_read(path, 1000, &text, NULL, &err), SW_OK);
    assert_string_equal(text, "{\"mine\": 1}\n");
    free(text);
    sw_model_files_abandon(model_path);
    assert_int_equal(begin(model_path, &llama, NULL, graph, SW_F32, false, &err), SW_OK);
    sw_model_config back;
    assert_int_equal(sw_model_config_read(partial_path, &back, &err), SW_OK);
    assert_int_equal(back.hidden, llama.hidden);
    snprintf(path, sizeof path, "%s/tokenizer.json", partial_path);
    assert_false(sw_file_exists(path));
    sw_model_files_abandon(model_path);
    sw_graph_free(graph);
}

/* GPT-2's alphabet: printable Latin-1 stands for itself, the rest is U+0100 and on, in order of the
 * bytes. */
static void the_bytes_tokenizer_gives_each_byte_its_value(void **state) {
    (void)state;
    static const struct {
        const char *character;
        int64_t byte;
    } known[] = {{"\xc4\x80", 0},   {"\xc4\x8a", '\n'}, {"\xc4\xa0", ' '}, {"!", '!'},
                 {"\"", '"'},       {"\\", '\\'},       {"a", 'a'},        {"~", '~'},
                 {"\xc4\xa1", 127}, {"\xc5\x82", 160},  {"\xc2\xa1", 161}, {"\xc5\x83", 173},
                 {"\xc2\xae", 174}, {"\xc3\xbf", 255}};
    sw_graph *graph = trace(&llama);
    sw_error err = {0};
    char path[400];
    sw_json *document;
    sw_json_object root, model, vocabulary;
    bool seen[256] = {0};
    void *at = NULL;
    assert_int_equal(begin(model_path, &llama, NULL, graph, SW_F32, true, &err), SW_OK);
    snprintf(path, sizeof path, "%s/tokenizer.json", partial_path);
    if (sw_json_read(path, 1 << 20, &document, &err) != SW_OK)
        fail_msg("%s", err.message);
    root = sw_json_root(document);
    assert_int_equal(sw_json_child(&root, "model", &model, &err), SW_OK);
    assert_int_equal(sw_json_child(&model, "vocab", &vocabulary, &err), SW_OK);
    int n = 0;
    for (const char *key; (key = sw_json_next_key(&vocabulary, &at)); n++) {
        int64_t id = -1;
        assert_int_equal(sw_json_integer(&vocabulary, key, SW_JSON_REQUIRED, &id, &err), SW_OK);
        assert_in_range(id, 0, 255);
        assert_false(seen[id]);
        seen[id] = true;
    }
    assert_int_equal(n, 256);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int64_t id = -1;
        assert_int_equal(
            sw_json_integer(&vocabulary, known[i].character, SW_JSON_REQUIRED, &id, &err), SW_OK);
        assert_int_equal(id, known[i].byte);
    }
    sw_json_free(document);
    sw_model_files_abandon(model_path);
    assert_false(sw_file_exists(partial_path));
    sw_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_save_and_any_ranks_load),
        cmocka_unit_test(a_file_holds_no_padding),
        cmocka_unit_test(bf16_rounds_to_nearest_with_ties_to_even),
        cmocka_unit_test(what_fp16_cannot_hold_is_an_error_that_names_the_parameter),
        cmocka_unit_test(pieces_longer_than_the_buffer_are_whole),
        cmocka_unit_test(scalars_and_empty_tensors_are_saved),
        cmocka_unit_test(a_model_larger_than_the_limit_is_split),
        cmocka_unit_test(a_model_within_the_limit_is_one_file),
        cmocka_unit_test(a_disk_that_is_full_for_the_second_file_leaves_nothing),
        cmocka_unit_test(tokenizer_and_generation_files_are_carried_along),
        cmocka_unit_test(loading_takes_one_slice_of_memory),
        cmocka_unit_test(what_exists_is_not_overwritten),
        cmocka_unit_test(an_abandoned_or_killed_save_leaves_nothing_in_the_way),
        cmocka_unit_test(a_full_disk_is_found_before_anybody_writes),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(a_trailing_slash_names_the_same_folder),
        cmocka_unit_test(gpt2_files_come_with_and_without_their_prefix),
        cmocka_unit_test(weights_in_several_files_agree_with_their_index),
        cmocka_unit_test(a_tied_head_may_be_stored_if_it_is_equal),
        cmocka_unit_test(a_cut_file_is_refused_while_loading_too),
        cmocka_unit_test(config_json_is_written_as_given_or_made),
        cmocka_unit_test(the_bytes_tokenizer_gives_each_byte_its_value),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
