/* eval_scores.h: scores as text for people, and as one JSON object. */
#ifndef SW_CLI_EVAL_SCORES_H
#define SW_CLI_EVAL_SCORES_H

#include "infer/score.h"

/* A line for each source, one for all if there are several, one for the choices: on standard
 * output. */
void sw_print_scores(const sw_score_options *options, const sw_source_score *scores,
                     const sw_choices_score *choices);

/* The same as JSON. A number that is beyond all numbers, as the perplexity of a loss of 1000 is, is
 * null. */
sw_status sw_print_scores_json(const sw_score_options *options, const sw_source_score *scores,
                               const sw_choices_score *choices, sw_error *err);

#endif
