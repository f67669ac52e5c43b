/* record.h: what a run's results depend on, as texts: kept in each checkpoint, and compared by a
 * run that goes on.
 *
 * A setting that changes the mathematics has the text of its value; files have what was found in
 * them instead of their paths, so that a folder may be moved: of data.train the number of tokens
 * and rows and a hash of sampled rows, of model.path the dimensions, and where parameters stay
 * frozen a hash of sampled elements. How the work is spread over ranks, how long the run is and
 * what is written on the way are in no record.
 */
#ifndef SW_TRAIN_RECORD_H
#define SW_TRAIN_RECORD_H

#include "base/arena.h"
#include "checkpoint/load.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "device/cpu/open.h"
#include "plan/assembly.h"

typedef struct sw_record {
    sw_arena arena;
    sw_setting_text *item; /* [n] */
    int n;
} sw_record;

/* Ownership: sw_record_free, also after an error. Errors: SW_BAD_FILE: data or model cannot be
 * read; SW_NO_MEMORY. */
sw_status sw_record_create(const sw_assembly *assembly, sw_dataset *data, sw_kernel_set set,
                           sw_gemm_kind gemm, sw_record *record, sw_error *err);
void sw_record_free(sw_record *record);

/* The kernels that the checkpoint's run had, where they run here too, in the record and in *set and
 * *gemm: then the bits go on as they were. Else all stays. `is_named`: settings name the set, and
 * only that one is taken. */
sw_status sw_record_take_kernels(sw_record *record, const sw_checkpoint *checkpoint, bool is_named,
                                 sw_kernel_set *set, sw_gemm_kind *gemm, sw_error *err);

/* Does checkpoint.resume.force list this setting? */
bool sw_record_is_forced(const sw_settings *settings, const char *key);

/* May a run with this record go on from the checkpoint? SW_BAD_CONFIG names the first setting that
 * has changed, with both values, unless settings->checkpoint.resume.force lists it; `forced` (may
 * be NULL) hears of those that it lists. The kernels count where train.reproducible is set. */
sw_status sw_record_compare(const sw_record *record, const sw_settings *settings,
                            const sw_checkpoint *checkpoint,
                            void (*forced)(void *to, const char *line), void *to, sw_error *err);

#endif
