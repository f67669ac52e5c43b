/* model_fingerprint.c: what a model's folder holds, as a short text: so that a run, or an export,
 * that needs its frozen weights again finds those that it began with, wherever the folder lies by
 * then. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

/* A hash of some elements of every parameter, or every frozen one, that is no adapter: first, some
 * from the middle, last. */
static sw_status sample(const char *directory, const sw_model_config *config, const sw_graph *graph,
                        bool frozen_alone, uint64_t *hash, const char **dtype, sw_error *err) {
    enum { N_SAMPLED = 512 };
    float values[N_SAMPLED];
    sw_model_source source;
    sw_status status = sw_model_source_open(directory, &source, err);
    for (int i = 0; i < graph->parameters.n && !status; i++) {
        const sw_parameter *p = graph->parameters.item[i];
        if ((p->is_trainable && frozen_alone) || p->is_adapter)
            continue;
        sw_tensor_place place = sw_model_source_find(&source, config, p->name);
        if (!place.tensor)
            continue; /* which the check of the model's files has refused */
        if (dtype)
            *dtype =
                !*dtype || strcmp(*dtype, place.tensor->dtype) == 0 ? place.tensor->dtype : "mixed";
        int64_t n = p->n_elements < N_SAMPLED ? p->n_elements : N_SAMPLED, last = p->n_elements - n;
        for (int part = 0; part < 3 && !status; part++) {
            status = sw_safetensors_read(place.file, place.tensor, last / 2 * part, n, values, err);
            *hash = status ? *hash : sw_hash_bytes(*hash, values, (size_t)n * sizeof *values);
        }
    }
    sw_model_source_close(&source);
    return status;
}

sw_status sw_model_fingerprint(const char *directory, const sw_model_config *config,
                               const sw_graph *graph, char text[SW_FINGERPRINT_BYTES],
                               sw_error *err) {
    char *config_json = NULL;
    uint64_t frozen = SW_HASH_START;
    bool has_frozen = false;
    sw_status status = config ? sw_model_config_write(config, SW_F32, &config_json, err) : SW_OK;
    if (status)
        return status;
    int n = config_json
                ? snprintf(text, SW_FINGERPRINT_BYTES, "a model with config.json %016" PRIx64,
                           sw_hash_text(SW_HASH_START, config_json))
                : snprintf(text, SW_FINGERPRINT_BYTES, "weights of a program's own model");
    free(config_json);
    for (int i = 0; i < graph->parameters.n; i++)
        has_frozen = has_frozen || !graph->parameters.item[i]->is_trainable;
    if (has_frozen) {
        status = sample(directory, config, graph, true, &frozen, NULL, err);
        snprintf(text + n, SW_FINGERPRINT_BYTES - (size_t)n, ", frozen weights sampled %016" PRIx64,
                 frozen);
    }
    return status;
}

sw_status sw_model_mark(const char *directory, const sw_model_config *config, const sw_graph *graph,
                        char text[SW_MARK_BYTES], sw_error *err) {
    uint64_t hash = SW_HASH_START;
    const char *dtype = NULL;
    sw_status status = sample(directory, config, graph, false, &hash, &dtype, err);
    snprintf(text, SW_MARK_BYTES, "%s %016" PRIx64, dtype ? dtype : "none", hash);
    return status;
}

bool sw_model_marks_differ(const char *a, const char *b) {
    const char *hash_a = strchr(a, ' '), *hash_b = strchr(b, ' ');
    bool are_marks = hash_a && hash_b, have_same_dtype = are_marks && hash_a - a == hash_b - b &&
                                                         !strncmp(a, b, (size_t)(hash_a - a));
    return have_same_dtype && strcmp(hash_a, hash_b) != 0;
}
