/* model_write.c: each rank writes the byte ranges of its own pieces into files that are laid out
 * already, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

typedef struct writer {
    sw_model_source source; /* the headers */
    int descriptor;         /* of the file that is written now; -1: none */
    const sw_safetensors *open_file;
    sw_dtype dtype;
    float *buffer; /* [SW_PIECE_ELEMENTS] */
} writer;

/* Narrow values [n] where they stand: an element is read before anything is written over it. */
static sw_status narrow(float *values, int64_t n, sw_dtype dtype, const sw_piece *piece,
                        int64_t first, sw_error *err) {
    uint16_t *narrowed = (uint16_t *)(void *)values;
    if (dtype == SW_F32)
        return SW_OK;
    for (int64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)values + 4 * i, sizeof value);
        uint16_t bits = dtype == SW_BF16 ? sw_float_to_bf16(value) : sw_float_to_f16(value);
        if (dtype == SW_F16 && isfinite(value) && (bits & 0x7fff) == 0x7c00)
            return sw_fail(err, SW_BAD_CONFIG,
                           "%s: element %" PRId64
                           " is %g, beyond what fp16 holds (65504); save as bf16 or fp32",
                           piece->parameter->name, piece->first + first + i, (double)value);
        memcpy((char *)narrowed + 2 * i, &bits, sizeof bits);
    }
    return SW_OK;
}

static sw_status close_file(writer *w, sw_error *err) {
    sw_status status = SW_OK;
    if (w->descriptor >= 0 && close(w->descriptor) != 0)
        status = sw_cannot_write(sw_safetensors_path(w->open_file), errno, err);
    w->descriptor = -1;
    return status;
}

/* Pieces follow the order of the parameters, and so do the files: one is open at a time. */
static sw_status open_file(writer *w, const sw_safetensors *file, sw_error *err) {
    if (w->descriptor >= 0 && w->open_file == file)
        return SW_OK;
    sw_status status = close_file(w, err);
    if (status != SW_OK)
        return status;
    w->descriptor = open(sw_safetensors_path(file), O_WRONLY | O_CLOEXEC);
    w->open_file = file;
    return w->descriptor >= 0 ? SW_OK : sw_cannot_write(sw_safetensors_path(file), errno, err);
}

static sw_status write_piece(writer *w, int group, const sw_piece *piece, sw_piece_fn fetch,
                             void *from, sw_error *err) {
    int64_t element_bytes = sw_dtype_bytes(w->dtype);
    sw_tensor_place place = sw_model_source_find(&w->source, NULL, piece->parameter->name);
    if (!place.tensor || place.tensor->n_elements != piece->parameter->n_elements)
        return sw_fail(err, SW_BUG, "%s: has no place for %s; was it begun from the same graph?",
                       w->source.path, piece->parameter->name);
    sw_status status = open_file(w, place.file, err);
    for (int64_t first = 0; status == SW_OK && first < piece->length; first += SW_PIECE_ELEMENTS) {
        int64_t n =
            piece->length - first < SW_PIECE_ELEMENTS ? piece->length - first : SW_PIECE_ELEMENTS;
        status = fetch(from, group, piece, first, n, w->buffer, err);
        if (status == SW_OK)
            status = narrow(w->buffer, n, w->dtype, piece, first, err);
        if (status == SW_OK)
            status = sw_file_write_at(
                w->descriptor, sw_safetensors_path(place.file), w->buffer, n * element_bytes,
                place.tensor->file_offset + (piece->first + first) * element_bytes, err);
    }
    return status;
}

sw_status sw_model_files_write(const char *directory, const sw_layout *layout, int rank,
                               sw_dtype save_dtype, sw_piece_fn fetch, void *from, sw_error *err) {
    char folder[SW_PATH_BYTES];
    writer w = {.descriptor = -1, .dtype = save_dtype};
    bool of_adapters = false;
    for (int p = 0; p < layout->n_parameters; p++)
        of_adapters = of_adapters || layout->parameters[p].parameter->is_adapter;
    sw_status status = sw_model_files_partial(directory, folder, err);
    if (status == SW_OK)
        status = of_adapters ? sw_model_source_open_adapter(folder, &w.source, err)
                             : sw_model_source_open(folder, &w.source, err);
    w.buffer = malloc(sizeof *w.buffer * SW_PIECE_ELEMENTS);
    if (status == SW_OK && !w.buffer)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d elements", folder,
                         SW_PIECE_ELEMENTS);
    for (int group = 0; group < layout->n_groups && status == SW_OK; group++) {
        sw_piece piece;
        for (int at = 0; status == SW_OK && sw_layout_next_piece(layout, group, rank, &at, &piece);)
            if (piece.parameter->is_adapter == of_adapters)
                status = write_piece(&w, group, &piece, fetch, from, err);
    }
    sw_status closed = close_file(&w, status == SW_OK ? err : NULL);
    free(w.buffer);
    sw_model_source_close(&w.source);
    return status != SW_OK ? status : closed;
}
