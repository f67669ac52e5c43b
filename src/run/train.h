/* train.h: a training run: what the supervisor prepares, and what each rank does with it. */
#ifndef SW_RUN_TRAIN_H
#define SW_RUN_TRAIN_H

#include <shardwise/train.h>

#include "base/file.h"
#include "checkpoint/model_files.h"
#include "data/chat.h"
#include "data/dataset.h"
#include "data/tokenizer/tokenizer.h"
#include "device/cpu/choice.h"
#include "device/cpu/cores.h"
#include "optim/schedule.h"
#include "run/assembly.h"

/* The same with settings that are read already. */
sw_status sw_train(const sw_settings *settings, const sw_train_options *options, sw_error *err);

/* All that is known before ranks exist; ranks inherit it and do not change it. */
typedef struct sw_run {
    const sw_settings *settings;
    const sw_train_options *options;
    sw_assembly assembly;
    sw_dataset *data, *validation; /* validation: NULL if there is none */
    sw_schedule schedule;
    sw_kernel_set kernel_set;
    sw_gemm_choice gemm;
    sw_cores cores;
    int64_t n_steps, n_rows; /* of the whole run; the last step may have fewer rows than the others */
    int64_t n_validation_rows;
    int64_t planned[SW_N_MEMORY_CLASSES], unsharded[SW_N_MEMORY_CLASSES]; /* bytes of a rank; of one rank that holds everything */
    char ranks_reason[288];
    sw_tokenizer *tokenizer; /* NULL: tokens come as they are, or are bytes */
    char tokenizer_folder[SW_PATH_BYTES], tokenizer_file[SW_PATH_BYTES];
    sw_chat chat;
    double last_told; /* of progress */
} sw_run;

/* run/run_data.c: the tokenizer, the rows to train on and to validate on. `vocabulary`: ids must be below it. */
sw_status sw_run_data_open(sw_run *run, int64_t vocabulary, sw_error *err);
bool sw_run_has_documents(const sw_run *run); /* may rows hold pieces that must not see each other? */
void sw_run_data_close(sw_run *run);

/* Fill in planned and unsharded from the assembly. */
sw_status sw_run_price(sw_run *run, sw_error *err);

/* run/train_rank.c: a sw_rank_fn; arg is the sw_run. */
sw_status sw_train_rank(sw_comm *comm, void *run, sw_error *err);

/* run/report.c: lines for the listener. */
void sw_report_start(const sw_run *run);
void sw_report_memory(const sw_run *run, const int64_t *measured); /* [SW_N_MEMORY_CLASSES], NULL before the run */
void sw_report_line(const sw_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* run/run_folder.c: the folder of a run and the files written before the first step: run.yaml, plan.json. */
sw_status sw_run_folder_check(const sw_run *run, sw_error *err);
sw_status sw_run_folder_room(const sw_run *run, sw_error *err); /* for what the run will write */
sw_status sw_run_folder_create(const sw_run *run, sw_error *err);
sw_model_output sw_run_folder_output(const sw_run *run); /* how the final model is written */
/* When no rank is left: a model that is half written is removed, and the folder of a run of which no rank began. */
void sw_run_folder_tidy(const sw_run *run);

/* run/fit.c: does the plan fit into memory_limit, and all ranks into what the machine has? SW_NO_MEMORY with what is short and
 * what would fit. */
sw_status sw_fit_check(const sw_run *run, sw_error *err);

#endif
