/* record.h: what a run's results depend on, as texts: kept in each checkpoint, and compared by a run that goes on.
 *
 * A setting that changes the mathematics has the text of its value; files have what was found in them instead of their paths, so
 * that a folder may be moved: of data.train the number of tokens and rows and a hash of sampled rows, of model.path the
 * dimensions, and where parameters stay frozen a hash of sampled elements. How the work is spread over ranks, how long the run
 * is and what is written on the way are in no record.
 */
#ifndef SW_RUN_RECORD_H
#define SW_RUN_RECORD_H

#include "base/arena.h"
#include "checkpoint/load.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "run/assembly.h"

typedef struct sw_record {
    sw_arena arena;
    sw_setting_text *item; /* [n] */
    int n;
} sw_record;

/* `kernels`: the choice of kernels in words. Ownership: sw_record_free, also after an error. Errors: SW_BAD_FILE: data or model
 * cannot be read; SW_NO_MEMORY. */
sw_status sw_record_create(const sw_assembly *assembly, sw_dataset *data, const char *kernels, sw_record *record, sw_error *err);
void sw_record_free(sw_record *record);

/* May a run with this record go on from the checkpoint? SW_BAD_CONFIG names the first setting that has changed, with both values,
 * unless settings->checkpoint.resume.force lists it; `forced` (may be NULL) hears of those that it lists. The kernels count where
 * train.reproducible is set. */
sw_status sw_record_compare(const sw_record *record, const sw_settings *settings, const sw_checkpoint *checkpoint,
                            void (*forced)(void *to, const char *line), void *to, sw_error *err);

#endif
