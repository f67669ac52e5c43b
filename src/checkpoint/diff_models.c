/* diff_models.c: two models' folders, tensor by tensor: what diff.h tells of checkpoints. Tensors
 * are compared as numbers, whatever their element types; those of no type that is a number (fp8 and
 * the like) as bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "checkpoint/diff.h"
#include "hf/model_source.h"

enum { CHUNK = 1 << 18 };

typedef struct pair {
    sw_model_source source[2];
    float *values[2]; /* [CHUNK] */
} pair;

static bool is_alike(const sw_tensor_entry *a, const sw_tensor_entry *b) {
    bool are_real = sw_safetensors_is_real(a) && sw_safetensors_is_real(b);
    return a->n_dimensions == b->n_dimensions && (are_real || !strcmp(a->dtype, b->dtype)) &&
           memcmp(a->dimension, b->dimension, (size_t)a->n_dimensions * sizeof *a->dimension) == 0;
}

/* Chunk by chunk. Bytes that differ count as elements of which nothing more can be said. */
static sw_status compare(pair *p, const sw_tensor_place place[2], sw_difference *d, sw_error *err) {
    const bool are_real = sw_safetensors_is_real(place[0].tensor);
    const int64_t n_all = are_real ? d->n_elements : place[0].tensor->n_bytes,
                  most = are_real ? CHUNK : CHUNK * (int64_t)sizeof(float);
    for (int64_t first = 0; first < n_all; first += most) {
        const int64_t n = n_all - first < most ? n_all - first : most;
        for (int i = 0; i < 2; i++) {
            sw_status status = are_real ? sw_safetensors_read(place[i].file, place[i].tensor, first,
                                                              n, p->values[i], err)
                                        : sw_safetensors_read_bytes(place[i].file, place[i].tensor,
                                                                    first, n, p->values[i], err);
            if (status)
                return status;
        }
        if (are_real)
            sw_compare_values(p->values[0], p->values[1], n, d);
        else if (memcmp(p->values[0], p->values[1], (size_t)n))
            d->n_different = d->n_elements, d->largest = INFINITY;
    }
    d->kind = d->n_different                                           ? SW_OTHER_VALUES
              : strcmp(place[0].tensor->dtype, place[1].tensor->dtype) ? SW_OTHER_TYPE
                                                                       : SW_SAME;
    return SW_OK;
}

/* All tensors of source[own], beside those of the other one; of the second one's only what the
 * first lacks is told. */
static sw_status compare_all(pair *p, int own, sw_difference_fn each, void *to, sw_error *err) {
    sw_status status = SW_OK;
    for (int f = 0; f < p->source[own].n_files && !status; f++) {
        sw_safetensors *file = p->source[own].files[f];
        for (int64_t i = 0; i < sw_safetensors_count(file) && !status; i++) {
            const sw_tensor_entry *tensor = sw_safetensors_at(file, i);
            sw_tensor_place place[2] = {{file, tensor},
                                        sw_model_source_find(&p->source[!own], NULL, tensor->name)};
            sw_difference d = {.kind = own ? SW_ONLY_IN_SECOND : SW_ONLY_IN_FIRST,
                               .state = SW_STATE_MASTER,
                               .name = tensor->name,
                               .n_elements = tensor->n_elements};
            if (place[1].tensor && own)
                continue;
            if (place[1].tensor) {
                d.kind = SW_OTHER_SHAPE;
                if (is_alike(tensor, place[1].tensor))
                    status = compare(p, place, &d, err);
            }
            if (!status)
                each(to, &d);
        }
    }
    return status;
}

sw_status sw_model_diff(const char *first, const char *second, bool are_adapters,
                        sw_difference_fn each, void *to, sw_error *err) {
    const char *const folder[2] = {first, second};
    pair p = {0};
    sw_status status = SW_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = are_adapters ? sw_model_source_open_adapter(folder[i], &p.source[i], err)
                              : sw_model_source_open(folder[i], &p.source[i], err);
        if (!status && !(p.values[i] = malloc(CHUNK * sizeof(float))))
            status = sw_fail(err, SW_NO_MEMORY, "no memory to compare models with");
    }
    for (int own = 0; own < 2 && !status; own++)
        status = compare_all(&p, own, each, to, err);
    for (int i = 0; i < 2; i++) {
        sw_model_source_close(&p.source[i]);
        free(p.values[i]);
    }
    return status;
}
