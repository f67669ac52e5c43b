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
static void describe_difference(const sw_checkpoint *c, const sw_parameter *parameter,
                                char words[320]) {
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
        snprintf(words, 320, "is %s in it and %s in the model",
                 stored->is_trainable ? "trained" : "frozen",
                 parameter->is_trainable ? "trained" : "frozen");
}

/* Differences in words: the first ones, and how many there are. */
typedef struct differences {
    char words[768];
    int n;
} differences;
enum { N_NAMED = 3 };

static void add(differences *d, const char *name, const char *words) {
    size_t at = strlen(d->words);
    if (d->n++ < N_NAMED)
        snprintf(d->words + at, sizeof d->words - at, "%s%.120s %s", at ? "; " : "", name, words);
}

sw_status sw_checkpoint_compare(const sw_checkpoint *checkpoint, const sw_graph *graph,
                                unsigned kinds, sw_error *err) {
    char words[320], more[48] = "";
    differences d = {.n = 0};
    for (int p = 0; p < graph->parameters.n; p++) {
        describe_difference(checkpoint, graph->parameters.item[p], words);
        if (*words)
            add(&d, graph->parameters.item[p]->name, words);
    }
    /* Those that match are as many as the checkpoint has, or it has others. */
    for (int p = 0; p < checkpoint->manifest.n_parameters; p++) {
        bool is_there = false;
        for (int q = 0; q < graph->parameters.n && !is_there; q++) {
            int at = (p + q) % graph->parameters.n; /* mostly the same order */
            is_there = strcmp(graph->parameters.item[at]->name,
                              checkpoint->manifest.parameter[p].name) == 0;
        }
        if (!is_there)
            add(&d, checkpoint->manifest.parameter[p].name, "is not in the model");
    }
    if (d.n > N_NAMED)
        snprintf(more, sizeof more, "; and %d more parameters differ", d.n - N_NAMED);
    if (d.n)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is of another model: %s%s; is model the same as when it was written?",
                       checkpoint->path, d.words, more);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        if (kinds >> kind & 1 && !checkpoint->manifest.file[kind].is_there)
            return sw_fail(
                err, SW_BAD_FILE,
                "%s: has no %s, which this optimizer needs; is it the optimizer that wrote it?",
                checkpoint->path, sw_state_file_name((sw_state_kind)kind));
    return SW_OK;
}
