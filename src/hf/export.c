/* export.c: a Hugging Face folder becomes a GGUF file.
 *
 * The header is made in memory; then the weights follow tensor by tensor, slice by slice, into
 * FILE.partial, which gets its name when all of it is on disk. Vectors (norms, biases) stay fp32,
 * as readers of GGUF want them; the rows of q and k go where the architecture has them
 * (gguf_model.h).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/gguf_write.h"
#include "hf/convert.h"
#include "hf/gguf_model.h"
#include "hf/model_files.h"
#include "hf/model_source.h"

enum { ALIGNMENT = 32, MAX_CONFIG_BYTES = 4 << 20, FILE_F32 = 0, FILE_F16 = 1, FILE_BF16 = 32 };

typedef struct exporter {
    const char *folder;
    const char *architecture; /* GGUF's name */
    sw_model_config config;
    sw_graph *graph;
    sw_model_source source;
    sw_dtype dtype;
    char *header;
    size_t header_bytes; /* up to the data */
    int64_t data_bytes;
    int descriptor;
    char partial[SW_PATH_BYTES];
    float *values; /* [SW_PIECE_ELEMENTS] */
} exporter;

/* ---- settings ---- */

/* What GGUF calls the architecture. Settings that would need more keys than are written are refused
 * by name. */
static sw_status check_config(exporter *e, sw_error *err) {
    static const char *const names[][2] = {
        {"llama", "llama"}, {"mistral", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}};
    static const char *const ropes[] = {"rope_parameters", "rope_scaling"};
    char path[SW_PATH_BYTES];
    const char *model_type = NULL;
    bool uses_span = true;
    sw_json *document = NULL;
    sw_status status = sw_path_join(path, e->folder, "config.json", err);
    if (status == SW_OK)
        status = sw_json_read(path, MAX_CONFIG_BYTES, &document, err);
    if (status != SW_OK)
        return status;
    sw_json_object root = sw_json_root(document), rope;
    status = sw_json_text(&root, "model_type", SW_JSON_REQUIRED, &model_type, err);
    for (size_t i = 0; status == SW_OK && i < sizeof names / sizeof *names; i++)
        if (strcmp(model_type, names[i][0]) == 0)
            e->architecture = names[i][1];
    if (status == SW_OK && !e->architecture)
        status = sw_fail(
            err, SW_BAD_FILE,
            "%s: model_type \"%.80s\" is not written as GGUF; llama, mistral, qwen2 and qwen3 are",
            path, model_type);
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        const char *type = "default";
        if (!sw_json_has(&root, ropes[i]))
            continue;
        if ((status = sw_json_child(&root, ropes[i], &rope, err)) == SW_OK &&
            (status = sw_json_text(&rope, "type", SW_JSON_OPTIONAL, &type, err)) == SW_OK)
            status = sw_json_text(&rope, "rope_type", SW_JSON_OPTIONAL, &type, err);
        if (status == SW_OK && strcmp(type, "default") != 0)
            status =
                sw_fail(err, SW_BAD_FILE, "%s: %s: rotary scaling \"%.80s\" is not written as GGUF",
                        path, ropes[i], type);
    }
    if (status == SW_OK)
        status = sw_json_bool(&root, "use_sliding_window", SW_JSON_OPTIONAL, &uses_span, err);
    if (status == SW_OK && uses_span && sw_json_has(&root, "sliding_window"))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: sliding_window is set, which is not written as GGUF", path);
    sw_json_free(document);
    return status;
}

static void write_settings(const exporter *e, sw_gguf_writer *w) {
    const sw_model_config *m = &e->config;
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"block_count", m->layers},
        {"context_length", m->max_positions},
        {"embedding_length", m->hidden},
        {"feed_forward_length", m->ffn},
        {"attention.head_count", m->heads},
        {"attention.head_count_kv", m->kv_heads},
        {"attention.key_length", m->head_channels},
        {"attention.value_length", m->head_channels},
        {"rope.dimension_count", m->head_channels},
        {"vocab_size", m->vocabulary},
    };
    char key[96];
    sw_gguf_write_text(w, "general.architecture", e->architecture);
    sw_gguf_write_text(w, "general.type", "model");
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        snprintf(key, sizeof key, "%s.%s", e->architecture, integers[i].name);
        sw_gguf_write_integer(w, key, (uint32_t)integers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", e->architecture);
    sw_gguf_write_real(w, key, (float)m->norm_epsilon);
    snprintf(key, sizeof key, "%s.rope.freq_base", e->architecture);
    sw_gguf_write_real(w, key, (float)m->rope_theta);
    if (m->mask != SW_MASK_CAUSAL) {
        snprintf(key, sizeof key, "%s.attention.causal", e->architecture);
        sw_gguf_write_bool(w, key, false);
    }
    sw_gguf_write_integer(w, "general.file_type",
                          e->dtype == SW_F32   ? FILE_F32
                          : e->dtype == SW_F16 ? FILE_F16
                                               : FILE_BF16);
    sw_gguf_write_integer(w, "general.alignment", ALIGNMENT);
}

/* ---- the header ---- */

static sw_dtype dtype_of(const exporter *e, const sw_parameter *parameter) {
    return parameter->n_dimensions < 2 ? SW_F32 : e->dtype;
}

static int64_t aligned(int64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static sw_status write_tensors(exporter *e, FILE *out, sw_error *err) {
    for (int p = 0; p < e->graph->parameters.n; p++) {
        const sw_parameter *parameter = e->graph->parameters.item[p];
        char buffer[256];
        const char *name = sw_gguf_tensor_name(parameter->name, buffer, sizeof buffer);
        sw_dtype dtype = dtype_of(e, parameter);
        if (!name)
            return sw_fail(err, SW_BAD_FILE, "%s: tensor %s has no name in GGUF", e->source.path,
                           parameter->name);
        sw_gguf_put_text(out, name);
        sw_gguf_put_32(out, (uint32_t)parameter->n_dimensions);
        for (int d = parameter->n_dimensions - 1; d >= 0; d--)
            sw_gguf_put_64(out, (uint64_t)parameter->dimension[d]);
        sw_gguf_put_32(out, dtype == SW_F32 ? 0 : dtype == SW_F16 ? 1 : 30);
        sw_gguf_put_64(out, (uint64_t)e->data_bytes);
        e->data_bytes += aligned(parameter->n_elements * sw_dtype_bytes(dtype));
    }
    return SW_OK;
}

static sw_status make_header(exporter *e, bool with_tokenizer, sw_error *err) {
    char *values = NULL;
    size_t values_bytes = 0;
    sw_gguf_writer w = {.out = open_memstream(&values, &values_bytes)};
    FILE *out = open_memstream(&e->header, &e->header_bytes);
    sw_status status =
        w.out && out ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the header");
    if (status == SW_OK) {
        write_settings(e, &w);
        if (with_tokenizer)
            status = sw_gguf_write_tokenizer(&w, e->folder, e->config.vocabulary, err);
    }
    bool has_failed = !sw_text_close(w.out, &values);
    if (status == SW_OK && !has_failed) {
        fwrite("GGUF", 4, 1, out);
        sw_gguf_put_32(out, 3);
        sw_gguf_put_64(out, (uint64_t)e->graph->parameters.n);
        sw_gguf_put_64(out, w.n_values);
        fwrite(values, 1, values_bytes, out);
        status = write_tensors(e, out, err);
        for (int64_t at = ftell(out); at % ALIGNMENT; at++)
            fputc(0, out);
    }
    has_failed |= !sw_text_close(out, &e->header);
    free(values);
    return status == SW_OK && has_failed ? sw_fail(err, SW_NO_MEMORY, "no memory for the header")
                                         : status;
}

/* ---- the weights ---- */

/* Elements first .. of GGUF's tensor as fp32. */
static sw_status read_elements(exporter *e, const sw_parameter *parameter, int64_t first, int64_t n,
                               sw_error *err) {
    sw_tensor_place place;
    int64_t head =
                sw_gguf_rotary_channels(e->architecture, e->config.head_channels, parameter->name),
            done = 0;
    sw_status status = sw_model_source_take(&e->source, &e->config, parameter, &place, err);
    if (status == SW_OK && !head)
        return sw_safetensors_read(place.file, place.tensor, first, n, e->values, err);
    int64_t width = parameter->n_elements / parameter->dimension[0];
    while (status == SW_OK && done < n) { /* row by row, each from its place */
        int64_t row = (first + done) / width, at = (first + done) % width,
                length = width - at < n - done ? width - at : n - done;
        status =
            sw_safetensors_read(place.file, place.tensor, sw_gguf_row_to_hf(row, head) * width + at,
                                length, e->values + done, err);
        done += length;
    }
    return status;
}

/* Narrow where they stand: an element is read before anything is written over it. */
static sw_status narrow(exporter *e, const sw_parameter *parameter, int64_t n, sw_dtype dtype,
                        sw_error *err) {
    char *bytes = (char *)e->values;
    for (int64_t i = 0; dtype != SW_F32 && i < n; i++) {
        float value;
        memcpy(&value, bytes + 4 * i, sizeof value);
        uint16_t bits = dtype == SW_BF16 ? sw_float_to_bf16(value) : sw_float_to_f16(value);
        if (dtype == SW_F16 && isfinite(value) && (bits & 0x7fff) == 0x7c00)
            return sw_fail(err, SW_BAD_CONFIG,
                           "%s: an element is %g, beyond what F16 holds (65504); write BF16 or F32",
                           parameter->name, (double)value);
        memcpy(bytes + 2 * i, &bits, sizeof bits);
    }
    return SW_OK;
}

static sw_status write_weights(exporter *e, sw_error *err) {
    int64_t at = (int64_t)e->header_bytes;
    sw_status status = SW_OK;
    for (int p = 0; p < e->graph->parameters.n && status == SW_OK; p++) {
        const sw_parameter *parameter = e->graph->parameters.item[p];
        sw_dtype dtype = dtype_of(e, parameter);
        int64_t element_bytes = sw_dtype_bytes(dtype);
        for (int64_t first = 0; first < parameter->n_elements && status == SW_OK;
             first += SW_PIECE_ELEMENTS) {
            int64_t left = parameter->n_elements - first,
                    n = left < SW_PIECE_ELEMENTS ? left : SW_PIECE_ELEMENTS;
            status = read_elements(e, parameter, first, n, err);
            if (status == SW_OK)
                status = narrow(e, parameter, n, dtype, err);
            if (status == SW_OK)
                status = sw_file_write_at(e->descriptor, e->partial, e->values, n * element_bytes,
                                          at + first * element_bytes, err);
        }
        at += aligned(parameter->n_elements * element_bytes);
    }
    return status;
}

/* All of the file under its temporary name, on disk. */
static sw_status write_partial(exporter *e, sw_error *err) {
    sw_status status = sw_file_create(e->partial, e->partial, &e->descriptor, err);
    if (status != SW_OK)
        return status;
    status =
        sw_file_reserve(e->descriptor, e->partial, (int64_t)e->header_bytes + e->data_bytes, err);
    if (status == SW_OK)
        status = sw_file_write_at(e->descriptor, e->partial, e->header, (int64_t)e->header_bytes, 0,
                                  err);
    if (status == SW_OK)
        status = write_weights(e, err);
    if (status == SW_OK)
        status = sw_file_sync(e->descriptor, e->partial, err);
    return sw_file_close(e->descriptor, e->partial, status, err);
}

sw_status sw_checkpoint_export_gguf(const char *from, const char *to, sw_dtype dtype,
                                    bool with_tokenizer, sw_error *err) {
    exporter e = {.folder = from, .dtype = dtype, .descriptor = -1};
    sw_status status = sw_file_must_be_new(to, err);
    if (status != SW_OK)
        return status;
    if (snprintf(e.partial, sizeof e.partial, "%s.partial", to) >= (int)sizeof e.partial)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", to);
    status = sw_model_config_read(from, &e.config, err);
    if (status == SW_OK)
        status = check_config(&e, err);
    if (status == SW_OK)
        status = sw_graph_create(1, 8, &e.graph, err);
    if (status == SW_OK)
        status = sw_model_trace(&e.config, SW_ENDS_IN_LOSS, e.graph, err);
    if (status == SW_OK)
        status = sw_model_files_check(from, &e.config, e.graph, err);
    if (status == SW_OK)
        status = sw_model_source_open(from, &e.source, err);
    if (status == SW_OK)
        status = make_header(&e, with_tokenizer, err);
    e.values = malloc(sizeof *e.values * SW_PIECE_ELEMENTS);
    if (status == SW_OK && !e.values)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d elements", from,
                         SW_PIECE_ELEMENTS);
    if (status == SW_OK)
        status = write_partial(&e, err);
    if (status == SW_OK)
        status = sw_file_publish(e.partial, to, err);
    if (status != SW_OK && e.descriptor >= 0)
        unlink(e.partial);
    free(e.values);
    free(e.header);
    sw_model_source_close(&e.source);
    sw_graph_free(e.graph);
    return status;
}
