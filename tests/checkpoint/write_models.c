/* write_models.c: write model directories of known values, for check_transformers.py, which knows
 * the same formula.
 *
 *     write_models DIR   makes DIR/llama-fp32, DIR/llama-split-fp32 in several files,
 *                        DIR/llama-tied-bf16, DIR/gpt2-fp16,
 * DIR/gpt2-untied-fp32, each saved by three ranks
 */
#include <stdio.h>

#include "hf/model_files.h"

enum { RANKS = 3 };

/* Element i of a parameter: the high byte of (hash of its name + i) * 0x9E3779B97F4A7C15, from -2
 * to 2. */
static sw_status fetch_value(void *from, int group, const sw_piece *piece, int64_t first, int64_t n,
                             float *values, sw_error *err) {
    (void)from, (void)group, (void)err;
    uint64_t hash = 0xCBF29CE484222325u;
    for (const char *name = piece->parameter->name; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    for (int64_t i = 0; i < n; i++) {
        uint64_t mixed = (hash + (uint64_t)(piece->first + first + i)) * 0x9E3779B97F4A7C15u;
        values[i] = (float)((int)(mixed >> 56) - 128) / 64;
    }
    return SW_OK;
}

static sw_status write_model(const char *directory, const sw_model_config *config, sw_dtype dtype,
                             int64_t max_shard_size, sw_error *err) {
    sw_graph *graph = NULL;
    sw_layout layout = {0};
    sw_status status = sw_graph_create(1, 8, &graph, err);
    if (status == SW_OK)
        status = sw_model_trace(config, SW_ENDS_IN_LOSS, graph, err);
    if (status == SW_OK)
        status = sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(RANKS)}, (sw_wrap){0}, SW_BLOCK,
                                  &layout, err);
    if (status == SW_OK)
        status = sw_model_files_begin(directory,
                                      &(sw_model_output){.graph = graph,
                                                         .dtype = dtype,
                                                         .max_shard_size = max_shard_size,
                                                         .config = config,
                                                         .is_bytes = true},
                                      err);
    for (int rank = 0; rank < RANKS && status == SW_OK; rank++)
        status = sw_model_files_write(directory, &layout, rank, dtype, fetch_value, NULL, err);
    if (status == SW_OK)
        status = sw_model_files_finish(directory, err);
    sw_layout_free(&layout);
    sw_graph_free(graph);
    return status;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        sw_dtype dtype;
        sw_model_config config;
        int64_t max_shard_size;
    } models[] = {
        {"llama-fp32",
         SW_F32,
         {SW_LLAMA, 2, 24, 4, 2, 8, 40, 256, 64, false, 500000, 1e-5, 0.02, -1, -1}},
        {"llama-split-fp32",
         SW_F32,
         {SW_LLAMA, 2, 24, 4, 2, 8, 40, 256, 64, false, 500000, 1e-5, 0.02, -1, -1},
         20000},
        {"llama-tied-bf16",
         SW_BF16,
         {SW_LLAMA, 2, 24, 4, 4, 6, 40, 256, 64, true, 10000, 1e-6, 0.02, 1, 2}},
        {"gpt2-fp16",
         SW_F16,
         {SW_GPT2, 2, 24, 4, 4, 6, 96, 256, 64, true, 10000, 1e-5, 0.1, 0.02, 0, 0}},
        {"gpt2-untied-fp32",
         SW_F32,
         {SW_GPT2, 2, 24, 4, 4, 6, 50, 256, 64, false, 10000, 1e-5, 0.02, -1, -1}},
    };
    if (argc != 2) {
        fprintf(stderr, "usage: write_models DIR\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char directory[1024];
        sw_error err = {0};
        snprintf(directory, sizeof directory, "%s/%s", argv[1], models[i].name);
        if (write_model(directory, &models[i].config, models[i].dtype, models[i].max_shard_size,
                        &err) != SW_OK) {
            fprintf(stderr, "write_models: %s\n", err.message);
            return 1;
        }
    }
    return 0;
}
