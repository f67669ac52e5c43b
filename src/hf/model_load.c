/* model_load.c: each rank reads the byte ranges of its own pieces, whatever the number of ranks,
 * and nothing else. */
#include <inttypes.h>
#include <stdlib.h>

#include "hf/adapter_delta.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

static sw_status load_piece(const sw_model_source *source, const sw_model_config *config, int group,
                            const sw_piece *piece, sw_piece_fn put, void *to, float *buffer,
                            sw_error *err) {
    sw_tensor_place place = sw_model_source_find(source, config, piece->parameter->name);
    if (piece->parameter->is_adapter)
        place = (sw_tensor_place){source->files[0],
                                  sw_adapter_find(source->files[0], piece->parameter->name)};
    if (!place.tensor || place.tensor->n_elements != piece->parameter->n_elements)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: tensor \"%.200s\" %s; was the directory changed since it was checked?",
                       source->path, piece->parameter->name,
                       place.tensor ? "has another shape" : "is missing");
    for (int64_t first = 0; first < piece->length; first += SW_PIECE_ELEMENTS) {
        int64_t n =
            piece->length - first < SW_PIECE_ELEMENTS ? piece->length - first : SW_PIECE_ELEMENTS;
        sw_status status =
            sw_safetensors_read(place.file, place.tensor, piece->first + first, n, buffer, err);
        if (status == SW_OK)
            status = put(to, group, piece, first, n, buffer, err);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

/* The pieces of the model's own parameters, or those of an adapter's. */
static sw_status load_pieces(const sw_model_source *source, const sw_model_config *config,
                             const sw_layout *layout, int rank, bool is_adapter, sw_piece_fn put,
                             void *to, sw_error *err) {
    sw_status status = SW_OK;
    float *buffer = malloc(sizeof *buffer * SW_PIECE_ELEMENTS);
    if (!buffer)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d elements", source->path,
                       SW_PIECE_ELEMENTS);
    for (int group = 0; group < layout->n_groups && status == SW_OK; group++) {
        sw_piece piece;
        for (int at = 0; status == SW_OK && sw_layout_next_piece(layout, group, rank, &at, &piece);)
            if (piece.parameter->is_adapter == is_adapter)
                status = load_piece(source, config, group, &piece, put, to, buffer, err);
    }
    free(buffer);
    return status;
}

sw_status sw_model_files_load(const char *directory, const sw_model_config *config,
                              const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                              int64_t *bytes_read, sw_error *err) {
    sw_model_source source;
    sw_status status = sw_model_source_open(directory, &source, err);
    if (status == SW_OK)
        status = load_pieces(&source, config, layout, rank, false, put, to, err);
    if (bytes_read)
        *bytes_read = sw_model_source_bytes_read(&source);
    sw_model_source_close(&source);
    return status;
}

sw_status sw_adapter_files_load(const char *directory, const sw_model_config *config,
                                const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                                sw_error *err) {
    sw_model_source source;
    sw_status status = sw_model_source_open_adapter(directory, &source, err);
    if (status == SW_OK)
        status = load_pieces(&source, config, layout, rank, true, put, to, err);
    sw_model_source_close(&source);
    return status;
}
