/* decoder.h: a model that goes on from rows of tokens, keeping their keys and values in a cache. It
 * may be sharded over ranks, each of which has rows of its own.
 *
 * Three programs over the same parameters and the same caches: one token of every row, and two
 * lengths of a piece of one prompt. Their collectives are the same, so ranks need not run the same
 * one at a time; but all ranks make equally many calls. A row's logits depend on its own tokens
 * alone: not on the rows beside it, nor on the number of ranks.
 */
#ifndef SW_INFER_DECODER_H
#define SW_INFER_DECODER_H

#include "infer/runner.h"

typedef struct sw_decoder_choice {
    sw_runner_model model;
    int n_ranks;
    int64_t n_rows;      /* of each rank */
    int64_t n_positions; /* of each row; at most the model's */
    sw_dtype parameter_dtype;
} sw_decoder_choice;

enum { SW_DECODE_ROWS, SW_DECODE_SHORT, SW_DECODE_LONG, SW_N_DECODER_PROGRAMS };

typedef struct sw_decoder {
    sw_decoder_choice choice;
    sw_runner runner;
} sw_decoder;

/* Before ranks exist. Ownership: sw_decoder_free, which may be called on {0}. Errors: SW_BAD_FILE
 * (the model), SW_BAD_CONFIG. */
sw_status sw_decoder_create(const sw_decoder_choice *choice, sw_decoder *decoder, sw_error *err);
void sw_decoder_free(sw_decoder *decoder);

/* decoder_fit.c: before ranks exist: is there memory for all of them? SW_NO_MEMORY with flags of
 * `shardwise generate` that would make it fit. longest_prompt, max_tokens: given and to be
 * produced. */
sw_status sw_decoder_check_memory(const sw_decoder *decoder, int64_t longest_prompt,
                                  int64_t max_tokens, sw_error *err);

/* Collective: in a rank, take memory and load this rank's part of the model. */
sw_status sw_decoder_open(sw_decoder *decoder, sw_comm *comm, sw_error *err);
void sw_decoder_close(sw_decoder *decoder);

/* The next tokens of one row, at positions first, first + 1, ...: of tokens [n] as many as one
 * program takes, which *n_taken tells. *logits [V] are those after the last of them. They live
 * until the next call, as below. Collective. */
sw_status sw_decoder_prompt(sw_decoder *decoder, int64_t row, int64_t first, int64_t n,
                            const int32_t *tokens, int64_t *n_taken, const float **logits,
                            sw_error *err);

/* One more token of every row: tokens [n_rows] at positions [n_rows], -1 for a row that is left as
 * it is. *logits [n_rows, V]. Collective. */
sw_status sw_decoder_step(sw_decoder *decoder, const int32_t *tokens, const int32_t *positions,
                          const float **logits, sw_error *err);

/* Nothing to do here: take part in what the others do. */
sw_status sw_decoder_idle(sw_decoder *decoder, sw_error *err);

#endif
