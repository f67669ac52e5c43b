/* model_check.c: does a directory hold the model that its configuration describes?
 *
 * Every parameter has its tensor, of its shape, in a dtype that can be computed with; every tensor
 * has its parameter, or is known to be of no use; a head stored beside the embedding that it is
 * tied to equals it. All that is wrong is said at once.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/model_files.h"
#include "hf/model_source.h"

/* Things of one kind that are wrong: the first few by name, all by number. */
typedef struct complaint {
    const char *one, *many; /* "tensor is missing", "tensors are missing" */
    int64_t n;
    char text[320];
} complaint;

enum { NAMED = 3 };

__attribute__((format(printf, 2, 3))) static void complain(complaint *c, const char *format, ...) {
    if (c->n++ >= NAMED)
        return;
    size_t used = strlen(c->text);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0)
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, ", ");
    if (used < sizeof c->text)
        vsnprintf(c->text + used, sizeof c->text - used, format, arguments);
    va_end(arguments);
}

static const char *shape_text(int n_dimensions, const int64_t *dimension, char text[128]) {
    int used = snprintf(text, 128, "[");
    for (int i = 0; i < n_dimensions && used < 100; i++)
        used +=
            snprintf(text + used, 128 - (size_t)used, "%s%" PRId64, i ? ", " : "", dimension[i]);
    snprintf(text + used, 128 - (size_t)used, "]");
    return text;
}

static bool has_shape(const sw_tensor_entry *tensor, int n_dimensions, const int64_t *dimension) {
    if (tensor->n_dimensions != n_dimensions)
        return false;
    for (int i = 0; i < n_dimensions; i++)
        if (tensor->dimension[i] != dimension[i])
            return false;
    return true;
}

/* A stored head must be the embedding that the model ties it to. The largest difference tells
 * rounding from another matrix. */
static sw_status compare_tied(const sw_model_source *source, sw_tensor_place head,
                              sw_tensor_place embedding, sw_error *err) {
    sw_status status = SW_OK;
    int64_t n = head.tensor->n_elements, n_unequal = 0;
    double largest = 0;
    float *a = malloc(2 * sizeof *a * SW_PIECE_ELEMENTS);
    if (!a)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory to compare the tied head", source->path);
    float *b = a + SW_PIECE_ELEMENTS;
    for (int64_t first = 0; first < n && status == SW_OK; first += SW_PIECE_ELEMENTS) {
        int64_t length = n - first < SW_PIECE_ELEMENTS ? n - first : SW_PIECE_ELEMENTS;
        if ((status = sw_safetensors_read(head.file, head.tensor, first, length, a, err)) !=
                SW_OK ||
            (status = sw_safetensors_read(embedding.file, embedding.tensor, first, length, b,
                                          err)) != SW_OK)
            break;
        for (int64_t i = 0; i < length; i++) {
            if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
                continue;
            double difference = fabs((double)a[i] - (double)b[i]);
            n_unequal++;
            if (!(difference <= largest)) /* a NaN counts as the largest */
                largest = difference;
        }
    }
    free(a);
    if (status == SW_OK && n_unequal > 0)
        status =
            sw_fail(err, SW_BAD_FILE,
                    "%s: tie_word_embeddings is true, but %s differs from %s in %" PRId64
                    " of %" PRId64 " elements, by %g at most; "
                    "set tie_word_embeddings to false",
                    source->path, head.tensor->name, embedding.tensor->name, n_unequal, n, largest);
    return status;
}

/* What the files hold and no parameter asked for. */
static sw_status check_unclaimed(const sw_model_source *source, const sw_model_config *config,
                                 sw_safetensors *file, const sw_tensor_entry *tensor,
                                 complaint *surplus, complaint *misshapen, sw_error *err) {
    const char *must_equal;
    if (!config || !sw_model_ignores_tensor(config, tensor->name, &must_equal)) {
        complain(surplus, "%.80s", tensor->name);
        return SW_OK;
    }
    if (!must_equal)
        return SW_OK;
    sw_tensor_place other = sw_model_source_find(source, config, must_equal);
    if (!other.tensor) /* among the missing */
        return SW_OK;
    if (!has_shape(tensor, other.tensor->n_dimensions, other.tensor->dimension)) {
        complain(misshapen, "%.80s (another shape than %.80s, to which it is tied)", tensor->name,
                 must_equal);
        return SW_OK;
    }
    return compare_tied(source, (sw_tensor_place){file, tensor}, other, err);
}

/* One message for all complaints. */
static sw_status sum_up(const sw_model_source *source, bool has_config, const complaint *complaints,
                        int n_complaints, sw_error *err) {
    char text[SW_MESSAGE_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < n_complaints && used < sizeof text; i++) {
        const complaint *c = &complaints[i];
        if (c->n == 0)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " %s: %s",
                                 used ? "; " : "", c->n, c->n == 1 ? c->one : c->many, c->text);
        if (c->n > NAMED && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " and %" PRId64 " more",
                                     c->n - NAMED);
    }
    if (used == 0)
        return SW_OK;
    return has_config
               ? sw_fail(err, SW_BAD_FILE, "%s: does not fit config.json: %s", source->path, text)
               : sw_fail(err, SW_BAD_FILE,
                         "%s: does not fit the program's own model: %s (a folder that is there for "
                         "its tokenizer alone is "
                         "named in data.tokenizer, not in model.path)",
                         source->path, text);
}

static sw_status check_source(const sw_model_source *source, const sw_model_config *config,
                              const sw_graph *graph, bool *claimed, sw_error *err) {
    complaint complaints[] = {
        {.one = "tensor is missing", .many = "tensors are missing"},
        {.one = "tensor has another shape", .many = "tensors have other shapes"},
        {.one = "tensor has a dtype that is not built",
         .many = "tensors have dtypes that are not built"},
        {.one = "tensor is not part of the model", .many = "tensors are not part of the model"}};
    complaint *missing = &complaints[0], *misshapen = &complaints[1], *unreadable = &complaints[2],
              *surplus = &complaints[3];
    sw_status status = SW_OK;
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        char here[128], needed[128];
        if (parameter->is_adapter)
            continue;
        sw_tensor_place place = sw_model_source_find(source, config, parameter->name);
        if (!place.tensor) {
            complain(missing, "%.80s", parameter->name);
            continue;
        }
        bool *of_file = claimed;
        for (int f = 0; source->files[f] != place.file; f++)
            of_file += sw_safetensors_count(source->files[f]);
        of_file[place.tensor - sw_safetensors_at(place.file, 0)] = true;
        if (!has_shape(place.tensor, parameter->n_dimensions, parameter->dimension))
            complain(misshapen, "%.80s %s instead of %s", parameter->name,
                     shape_text(place.tensor->n_dimensions, place.tensor->dimension, here),
                     shape_text(parameter->n_dimensions, parameter->dimension, needed));
        else if (!sw_safetensors_is_real(place.tensor))
            complain(unreadable, "%.80s is %s", parameter->name, place.tensor->dtype);
    }
    for (int f = 0; f < source->n_files && status == SW_OK; f++)
        for (int64_t i = 0; i < sw_safetensors_count(source->files[f]) && status == SW_OK; i++)
            if (!*claimed++)
                status = check_unclaimed(source, config, source->files[f],
                                         sw_safetensors_at(source->files[f], i), surplus, misshapen,
                                         err);
    return status == SW_OK
               ? sum_up(source, config, complaints, sizeof complaints / sizeof *complaints, err)
               : status;
}

sw_status sw_model_files_check(const char *directory, const sw_model_config *config,
                               const sw_graph *graph, sw_error *err) {
    sw_model_source source;
    bool *claimed = NULL;
    sw_status status = sw_model_source_open(directory, &source, err);
    if (status != SW_OK)
        goto done;
    int64_t n_tensors = 1; /* so that there is something to allocate */
    for (int f = 0; f < source.n_files; f++)
        n_tensors += sw_safetensors_count(source.files[f]);
    claimed = calloc((size_t)n_tensors, sizeof *claimed);
    status = claimed ? check_source(&source, config, graph, claimed, err)
                     : sw_fail(err, SW_NO_MEMORY, "%s: no memory", source.path);
done:
    free(claimed);
    sw_model_source_close(&source);
    return status;
}
