/* compare.c: is a checkpoint that of a model? What differs is named. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/load_internal.h"

static void print_shape(int n_dimensions, const int64_t *dimension, char text[96]) {
    int n = snprintf(text, 96, "[");
    for (int d = 0; d < n_dimensions && n < 96; d++)
        n += snprintf(text + n, (size_t)(96 - n), "%s%" PRId64, d ? ", " : "", dimension[d]);
    if (n < 96)
        snprintf(text + n, (size_t)(96 - n), "]");
}

/* How a parameter of the model differs from the checkpoint's, in words; "" if it does not. */
static void describe_difference(const sw_checkpoint *c, const sw_parameter *parameter, char words[320]) {
    int found = sw_checkpoint_find_parameter(c, parameter->name);
    const sw_state_parameter *stored = found < 0 ? NULL : &c->manifest.parameter[found];
    char here[96], there[96];
    *words = 0;
    if (!stored) {
        snprintf(words, 320, "is not in it");
        return;
    }
    print_shape(parameter->n_dimensions, parameter->dimension, here);
    print_shape(stored->n_dimensions, stored->dimension, there);
    if (strcmp(here, there) != 0)
        snprintf(words, 320, "has shape %s in it and %s in the model", there, here);
    else if (parameter->is_trainable != stored->is_trainable)
        snprintf(words, 320, "is %s in it and %s in the model", stored->is_trainable ? "trained" : "frozen",
                 parameter->is_trainable ? "trained" : "frozen");
}

sw_status sw_checkpoint_compare(const sw_checkpoint *checkpoint, const sw_graph *graph, unsigned kinds, sw_error *err) {
    char words[320], first[640] = "";
    int n_different = 0;
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        describe_difference(checkpoint, parameter, words);
        if (*words && n_different++ == 0)
            snprintf(first, sizeof first, "%.200s %s", parameter->name, words);
    }
    /* Those that match are as many as the checkpoint has, or it has others. */
    for (int p = 0; p < checkpoint->manifest.n_parameters; p++) {
        bool is_there = false;
        for (int q = 0; q < graph->parameters.n && !is_there; q++) {
            int at = (p + q) % graph->parameters.n; /* mostly the same order */
            is_there = strcmp(graph->parameters.item[at]->name, checkpoint->manifest.parameter[p].name) == 0;
        }
        if (!is_there && n_different++ == 0)
            snprintf(first, sizeof first, "%.200s is not in the model", checkpoint->manifest.parameter[p].name);
    }
    if (n_different == 1)
        return sw_fail(err, SW_BAD_FILE, "%s: is of another model: %s; is model the same as when it was written?",
                       checkpoint->path, first);
    if (n_different > 1)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is of another model: %s, and %d more parameters differ; is model the same as when it was written?",
                       checkpoint->path, first, n_different - 1);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        if (kinds >> kind & 1 && !checkpoint->manifest.file[kind].is_there)
            return sw_fail(err, SW_BAD_FILE, "%s: has no %s, which this optimizer needs; is it the optimizer that wrote it?",
                           checkpoint->path, sw_state_file_name((sw_state_kind)kind));
    return SW_OK;
}
