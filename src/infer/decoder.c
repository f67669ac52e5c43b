/* decoder.c: three programs that decode, over one model and one cache. */
#include "infer/decoder.h"

#include <string.h>

#include "base/integer.h"
#include "device/sizes.h"

/* Tokens of a piece of a prompt. A short piece costs little more than one does, as both are bound
 * by reading the weights. */
enum { SHORT_PIECE = SW_SKINNY_ROWS, LONG_PIECE = 64 };

static sw_status add_program(sw_decoder *d, int64_t n_rows, int64_t n_tokens, sw_error *err) {
    sw_graph *graph;
    sw_status status = sw_graph_create(n_rows, n_tokens, &graph, err);
    if (status)
        return status;
    status = sw_graph_decode(graph, d->choice.n_rows, d->choice.n_positions, err);
    if (!status)
        return sw_runner_add(&d->runner, SW_ENDS_IN_LOGITS, graph, err);
    sw_graph_free(graph);
    return status;
}

sw_status sw_decoder_create(const sw_decoder_choice *choice, sw_decoder *d, sw_error *err) {
    *d = (sw_decoder){.choice = *choice};
    sw_status status =
        sw_runner_begin(&choice->model, choice->n_ranks, choice->parameter_dtype, &d->runner, err);
    if (!status && d->runner.model.mask != SW_MASK_CAUSAL)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s/config.json: is_causal is false: every token of this model sees those "
                         "that come after it, so text "
                         "cannot be continued token by token; shardwise eval scores it",
                         choice->model.folder);
    if (!status)
        status = add_program(d, choice->n_rows, 1, err);
    if (!status)
        status = add_program(d, 1, smaller(SHORT_PIECE, choice->n_positions), err);
    if (!status)
        status = add_program(d, 1, smaller(LONG_PIECE, choice->n_positions), err);
    return status;
}

sw_status sw_decoder_open(sw_decoder *d, sw_comm *comm, sw_error *err) {
    return sw_runner_open(&d->runner, comm, err);
}

void sw_decoder_close(sw_decoder *d) {
    sw_runner_close(&d->runner);
}

void sw_decoder_free(sw_decoder *d) {
    sw_runner_free(&d->runner);
}

static sw_status run(sw_decoder *d, int program, bool is_active, const float **logits,
                     sw_error *err) {
    sw_status status = sw_runner_run(&d->runner, program, is_active, err);
    *logits = sw_runner_port(&d->runner, program, SW_PORT_LOGITS);
    return status;
}

sw_status sw_decoder_prompt(sw_decoder *d, int64_t row, int64_t first, int64_t n,
                            const int32_t *tokens, int64_t *n_taken, const float **logits,
                            sw_error *err) {
    int program = n > 4 * SHORT_PIECE
                      ? SW_DECODE_LONG
                      : SW_DECODE_SHORT; /* a long piece costs as much as some short ones */
    int64_t capacity = d->runner.compiled->graphs[program]->n_tokens;
    int32_t *into = sw_runner_port(&d->runner, program, SW_PORT_TOKENS);
    int32_t *places = sw_runner_port(&d->runner, program, SW_PORT_PLACES);
    *n_taken = smaller(n, capacity);
    memset(into, 0, (size_t)capacity * sizeof *into);
    memcpy(into, tokens, (size_t)*n_taken * sizeof *into);
    places[0] = (int32_t)row, places[1] = (int32_t)first, places[2] = (int32_t)*n_taken;
    return run(d, program, true, logits, err);
}

sw_status sw_decoder_step(sw_decoder *d, const int32_t *tokens, const int32_t *positions,
                          const float **logits, sw_error *err) {
    int32_t *into = sw_runner_port(&d->runner, SW_DECODE_ROWS, SW_PORT_TOKENS);
    int32_t *places = sw_runner_port(&d->runner, SW_DECODE_ROWS, SW_PORT_PLACES);
    for (int32_t row = 0; row < d->choice.n_rows; row++) {
        bool is_active = positions[row] >= 0;
        into[row] = is_active ? tokens[row] : 0;
        places[3 * row] = row;
        places[3 * row + 1] = is_active ? positions[row] : 0;
        places[3 * row + 2] = is_active;
    }
    return run(d, SW_DECODE_ROWS, true, logits, err);
}

sw_status sw_decoder_idle(sw_decoder *d, sw_error *err) {
    const float *none;
    return run(d, SW_DECODE_ROWS, false, &none, err);
}
