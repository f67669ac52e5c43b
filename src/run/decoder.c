/* decoder.c: three programs that decode, over one model and one cache. */
#include "run/decoder.h"

#include <string.h>

#include "checkpoint/model_files.h"
#include "device/sizes.h"
#include "run/masters.h"

/* Tokens of a piece of a prompt. A short piece costs little more than one token does, as both are bound by reading the weights.
 */
enum { SHORT_PIECE = SW_FEW_ROWS, LONG_PIECE = 64 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static sw_status create_program(sw_decoder *d, int i, int64_t n_rows, int64_t n_tokens, sw_error *err) {
    sw_status status = sw_graph_create(n_rows, n_tokens, &d->graphs[i], err);
    if (!status)
        status = sw_graph_decode(d->graphs[i], d->choice.n_rows, d->choice.n_positions, err);
    if (!status)
        status = sw_model_trace(&d->model, SW_ENDS_IN_LOGITS, d->graphs[i], err);
    if (!status)
        status = sw_graph_reuse_in_place(d->graphs[i], err);
    if (!status && i == 0) {
        status = sw_model_files_check(d->choice.model, &d->model, d->graphs[0], err);
        if (!status)
            status = sw_layout_create(d->graphs[0], d->choice.n_ranks, (sw_wrap){0}, SW_BLOCK, &d->layout, err);
        if (!status)
            status = sw_states_create(&d->layout, &d->sharding, false, &d->states, err);
        if (!status)
            status = sw_states_keep(&d->states, d->graphs[0], err);
    }
    if (!status)
        status = sw_program_create(d->graphs[i], &d->states, &d->programs[i], err);
    d->program_list[i] = &d->programs[i];
    return status;
}

sw_status sw_decoder_create(const sw_decoder_choice *choice, sw_decoder *d, sw_error *err) {
    *d = (sw_decoder){.choice = *choice};
    d->sharding = (sw_sharding){.n_ranks = choice->n_ranks,
                                .stage = 3,
                                .accumulate_sharded = true,
                                .parameter_dtype = choice->parameter_dtype,
                                .mode = SW_SHM_VIEW};
    sw_status status = sw_model_config_read(choice->model, &d->model, err);
    d->model.dropout = 0;
    if (!status)
        status = create_program(d, SW_DECODE_ROWS, choice->n_rows, 1, err);
    if (!status)
        status = create_program(d, SW_DECODE_SHORT, 1, smaller(SHORT_PIECE, choice->n_positions), err);
    if (!status)
        status = create_program(d, SW_DECODE_LONG, 1, smaller(LONG_PIECE, choice->n_positions), err);
    return status;
}

void sw_decoder_free(sw_decoder *d) {
    for (int i = 0; i < SW_N_DECODER_PROGRAMS; i++) {
        sw_program_free(&d->programs[i]);
        if (d->graphs[i])
            sw_graph_free(d->graphs[i]);
    }
    sw_states_free(&d->states);
    sw_layout_free(&d->layout);
}

sw_status sw_decoder_open(sw_decoder *d, sw_comm *comm, sw_error *err) {
    sw_status status = sw_cpu_open(sw_kernel_set_best(), true, &d->device, err);
    if (!status)
        status = sw_executor_create(comm, d->device, &d->states, d->program_list, SW_N_DECODER_PROGRAMS, &d->executor, err);
    sw_masters masters = {d->executor, &d->states, comm->rank};
    if (!status)
        status = sw_model_files_load(d->choice.model, &d->model, &d->layout, comm->rank, sw_masters_put, &masters, NULL, err);
    return status ? status : sw_executor_publish(d->executor, 0, err);
}

void sw_decoder_close(sw_decoder *d) {
    sw_executor_free(d->executor);
    if (d->device)
        d->device->close(d->device);
}

static sw_status run(sw_decoder *d, int program, bool is_active, const float **logits, sw_error *err) {
    sw_scalars scalars = {0};
    sw_status status = sw_executor_forward(d->executor, program, is_active, &scalars, err);
    *logits = sw_executor_address(d->executor, program, d->programs[program].logits);
    return status;
}

sw_status sw_decoder_prompt(sw_decoder *d, int64_t row, int64_t first, int64_t n, const int32_t *tokens, int64_t *n_taken,
                            const float **logits, sw_error *err) {
    int program = n > 4 * SHORT_PIECE ? SW_DECODE_LONG : SW_DECODE_SHORT; /* a long piece costs as much as some short ones */
    int64_t capacity = d->graphs[program]->n_tokens;
    int32_t *into = sw_executor_address(d->executor, program, d->programs[program].tokens);
    int32_t *places = sw_executor_address(d->executor, program, d->programs[program].places);
    *n_taken = smaller(n, capacity);
    memset(into, 0, (size_t)capacity * sizeof *into);
    memcpy(into, tokens, (size_t)*n_taken * sizeof *into);
    places[0] = (int32_t)row, places[1] = (int32_t)first, places[2] = (int32_t)*n_taken;
    return run(d, program, true, logits, err);
}

sw_status sw_decoder_step(sw_decoder *d, const int32_t *tokens, const int32_t *positions, const float **logits, sw_error *err) {
    int32_t *into = sw_executor_address(d->executor, SW_DECODE_ROWS, d->programs[SW_DECODE_ROWS].tokens);
    int32_t *places = sw_executor_address(d->executor, SW_DECODE_ROWS, d->programs[SW_DECODE_ROWS].places);
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
