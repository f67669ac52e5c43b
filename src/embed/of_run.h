/* of_run.h: what a run's settings say of the use of its model. */
#ifndef SW_EMBED_OF_RUN_H
#define SW_EMBED_OF_RUN_H

#include "base/file.h"
#include "config/settings.h"
#include "infer/score.h"

/* A run's model, or before it is trained the one that it starts from; where adapters are trained
 * that one too, and with it the adapter. `folder` takes the name of the first. What is given of an
 * adapter, or that the model is a program's own, stays. Errors: SW_BAD_CONFIG: there is neither. */
sw_status sw_model_of_run(const sw_settings *settings, char folder[SW_PATH_BYTES],
                          sw_runner_model *model, sw_error *err);

/* The same, and its validation data, row length, chat template and the day that it tells, for which
 * `day` is room. Whatever is given in *options stays. */
sw_status sw_score_of_run(const sw_settings *settings, char folder[SW_PATH_BYTES],
                          char day[SW_CHAT_TIME_BYTES], sw_score_options *options, sw_error *err);

#endif
