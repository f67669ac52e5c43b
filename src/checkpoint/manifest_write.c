/* manifest_write.c: a manifest as text, into memory that is there: nothing is allocated while a run
 * saves. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_format.h"

uint64_t sw_checksum(const void *data, int64_t bytes) {
    return XXH3_64bits(data, (size_t)bytes);
}

uint64_t sw_manifest_settings_hash(const sw_manifest *manifest) {
    uint64_t hash = SW_HASH_START;
    for (int i = 0; i < manifest->n_settings; i++) {
        hash = sw_hash_text(hash, manifest->setting[i].key);
        hash = sw_hash_text(hash, "\n");
        hash = sw_hash_text(hash, manifest->setting[i].value);
        hash = sw_hash_text(hash, "\n");
    }
    return hash;
}

const char *sw_manifest_object_end(const char *text, const char *end) {
    int64_t depth = 0;
    bool is_quoted = false;
    if (text == end || *text != '{')
        return NULL;
    for (; text < end; text++) {
        if (is_quoted && *text == '\\' && text + 1 < end)
            text++;
        else if (*text == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && (*text == '{' || *text == '}') &&
                 (depth += *text == '{' ? 1 : -1) == 0)
            return text + 1;
    }
    return NULL;
}

/* Text that grows in [room] bytes; without `at` it is only counted. */
typedef struct writer {
    char *at;
    int64_t n, room;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(w->at ? w->at + w->n : NULL, w->at ? (size_t)(w->room - w->n) : 0, format,
                      arguments);
    va_end(arguments);
    w->n += n;
    assert(n >= 0 && (!w->at || w->n < w->room));
}

static void put_quoted(writer *w, const char *text) {
    int64_t most = 6 * (int64_t)strlen(text) + 3;
    if (!w->at) {
        w->n += most;
        return;
    }
    assert(w->n + most <= w->room);
    w->n += (int64_t)sw_json_quote(text, w->at + w->n);
}

/* Numbers that are known later are counted at their longest. */
static void put_integer(writer *w, int64_t value) {
    put(w, "%" PRId64, w->at ? value : INT64_MIN);
}

static void put_real(writer *w, double value) {
    char text[SW_TEXT_NUMBER_BYTES];
    if (!w->at)
        w->n += SW_TEXT_NUMBER_BYTES;
    else
        put(w, "%s", isfinite(value) ? sw_text_exact_real(value, text, sizeof text) : "null");
}

static void put_settings(writer *w, const sw_manifest *m) {
    put(w, ",\n\"settings\": {");
    for (int i = 0; i < m->n_settings; i++) {
        put(w, "%s\n", i ? "," : "");
        put_quoted(w, m->setting[i].key);
        put(w, ": ");
        put_quoted(w, m->setting[i].value);
    }
    put(w, "},\n\"settings_hash\": \"%016" PRIx64 "\"", sw_manifest_settings_hash(m));
}

static void put_parameters(writer *w, const sw_manifest *m) {
    put(w, ",\n\"parameters\": [");
    for (int p = 0; p < m->n_parameters; p++) {
        const sw_state_parameter *parameter = &m->parameter[p];
        put(w, "%s\n{\"name\": ", p ? "," : "");
        put_quoted(w, parameter->name);
        put(w, ", \"shape\": [");
        for (int d = 0; d < parameter->n_dimensions; d++)
            put(w, "%s%" PRId64, d ? ", " : "", parameter->dimension[d]);
        put(w, "], \"trainable\": %s%s}", parameter->is_trainable ? "true" : "false",
            parameter->is_left_out ? ", \"left_out\": true" : "");
    }
    put(w, "]");
}

static void put_files(writer *w, const sw_manifest *m) {
    put(w, ",\n\"files\": [");
    for (int kind = 0, n = 0; kind < SW_N_STATE_KINDS; kind++) {
        const sw_manifest_file *file = &m->file[kind];
        if (!file->is_there)
            continue;
        put(w, "%s\n{\"name\": \"%s\", \"bytes\": %" PRId64 ", \"ranges\": [", n++ ? "," : "",
            sw_state_file_name((sw_state_kind)kind), file->bytes);
        for (int64_t r = 0; r < file->n_ranges; r++)
            put(w, "%s\n[%" PRId64 ", %" PRId64 ", \"%016" PRIx64 "\"]", r ? "," : "",
                file->range[r].offset, file->range[r].bytes, file->range[r].checksum);
        put(w, "]}");
    }
    put(w, "]");
}

int64_t sw_manifest_write(const sw_manifest *manifest, char *text, int64_t room) {
    writer w = {text, 0, room};
    put(&w, "{\"format\": \"" SW_MANIFEST_FORMAT "\", \"version\": %d,\n\"step\": ",
        SW_MANIFEST_VERSION);
    put_integer(&w, manifest->step);
    put(&w, ", \"validation_loss\": ");
    put_real(&w, manifest->validation_loss);
    put(&w, ",\n\"state\": %s,\n\"model_config\": ", manifest->state);
    if (manifest->model_config)
        put_quoted(&w, manifest->model_config);
    else
        put(&w, "null");
    put_settings(&w, manifest);
    put_parameters(&w, manifest);
    put_files(&w, manifest);
    put(&w, SW_MANIFEST_BEFORE_CHECKSUM);
    uint64_t checksum = text ? sw_checksum(text, w.n) : 0;
    put(&w, "%016" PRIx64 SW_MANIFEST_AFTER_CHECKSUM, checksum);
    return text ? w.n : w.n + 1; /* vsnprintf wants to end with a NUL */
}
