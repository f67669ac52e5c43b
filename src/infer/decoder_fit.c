/* decoder_fit.c: does a model that generates text fit into memory, and with which other flags would
 * it? */
#include <inttypes.h>
#include <stdio.h>

#include "base/integer.h"
#include "infer/decoder.h"

enum { DTYPE, ROWS, RANKS, TOKENS, N_SETTINGS };

typedef struct asked {
    const sw_decoder *decoder;
    int64_t longest_prompt, max_tokens;
} asked;

/* What is set, as the values of the settings that could make it need less say. */
static sw_decoder_choice other_choice(const asked *a, const int value[]) {
    sw_decoder_choice choice = a->decoder->choice;
    if (value[DTYPE])
        choice.parameter_dtype = SW_BF16;
    choice.n_rows >>= value[ROWS];
    choice.n_ranks >>= value[RANKS];
    choice.n_positions = smaller(a->longest_prompt + (a->max_tokens >> value[TOKENS]),
                                 a->decoder->runner.model.max_positions);
    return choice;
}

static bool price(void *self, const int value[], sw_need *need) {
    int64_t planned[SW_N_MEMORY_CLASSES];
    sw_decoder_choice choice = other_choice(self, value);
    sw_decoder other;
    sw_status status = sw_decoder_create(&choice, &other, NULL);
    if (!status)
        *need = sw_runner_need(&other.runner, planned);
    sw_decoder_free(&other);
    return !status;
}

static void word(void *self, const int value[], char *text, size_t bytes) {
    const asked *a = self;
    sw_decoder_choice choice = other_choice(a, value);
    const bool by_settings = choice.model.by_settings;
    char dtype[32] = "", rows[32] = "", ranks[32] = "", tokens[48] = "";
    if (value[DTYPE])
        snprintf(dtype, sizeof dtype, "%s ",
                 by_settings ? "shard.param_dtype=bf16" : "--dtype bf16");
    if ((value[ROWS] || value[RANKS]) &&
        !by_settings) /* fewer ranks would take more prompts each */
        snprintf(rows, sizeof rows, "--batch %" PRId64 " ", choice.n_rows);
    if (value[RANKS])
        snprintf(ranks, sizeof ranks, "%s%d ", by_settings ? "shard.ranks=" : "--ranks ",
                 choice.n_ranks);
    if (value[TOKENS])
        snprintf(tokens, sizeof tokens, "%s%" PRId64 " ",
                 by_settings ? "max_tokens=" : "--max-tokens ", a->max_tokens >> value[TOKENS]);
    snprintf(text, bytes, "%s%s%s%s", dtype, rows, ranks, tokens);
}

sw_status sw_decoder_check_memory(const sw_decoder *decoder, int64_t longest_prompt,
                                  int64_t max_tokens, sw_error *err) {
    const sw_decoder_choice *choice = &decoder->choice;
    asked a = {decoder, longest_prompt, max_tokens};
    sw_alternatives alternatives = {
        .n = N_SETTINGS,
        .names = "--dtype, --batch, --ranks and --max-tokens",
        .n_tries = sw_advice_tries(decoder->runner.compiled->layout.n_parameters),
        .self = &a,
        .price = price,
        .word = word};
    int64_t planned[SW_N_MEMORY_CLASSES];
    char most[64];
    if (choice->model.by_settings)
        alternatives.names = "shard.param_dtype, shard.ranks and max_tokens";
    alternatives.n_values[DTYPE] = choice->parameter_dtype != SW_BF16;
    alternatives.n_values[ROWS] = halvings(choice->n_rows);
    alternatives.n_values[RANKS] = halvings(choice->n_ranks);
    alternatives.n_values[TOKENS] = halvings(max_tokens);
    sw_need need = sw_runner_need(&decoder->runner, planned);
    return sw_need_check(&need, 0, "the model", sw_need_most(planned, most, sizeof most),
                         &alternatives, err);
}
