/* train.h: a training run: what the supervisor prepares, and what each rank does with it. */
#ifndef SW_TRAIN_TRAIN_H
#define SW_TRAIN_TRAIN_H

#include <shardwise/train.h>

#include "base/file.h"
#include "checkpoint/load.h"
#include "checkpoint/run_lock.h"
#include "data/chat.h"
#include "data/dataset.h"
#include "device/cpu/choice.h"
#include "device/cpu/cores.h"
#include "hf/model_files.h"
#include "launch/hosts.h"
#include "observe/events.h"
#include "optim/schedule.h"
#include "plan/plan.h"
#include "tokenizer/tokenizer.h"
#include "train/record.h"

/* The same with settings that are read already. `hosts`: NULL for one host; else launcher and team
 * are set, and all hosts are told to do the same. Only the first of them writes what is not a
 * rank's. */
sw_status sw_train(const sw_settings *settings, const sw_train_options *options,
                   const sw_launch_hosts *hosts, sw_error *err);

typedef struct sw_faults sw_faults;

/* All that is known before ranks exist; ranks inherit it and do not change it. */
typedef struct sw_run {
    const sw_settings *settings; /* `settled`, once that is */
    sw_settings settled; /* what is given, and what `auto` comes to in this run; its arena stays the
                            caller's */
    const sw_train_options *options;
    const sw_launch_hosts *hosts; /* NULL: one */
    bool is_first_host;
    sw_plan plan;
    sw_dataset *data, *validation; /* validation: NULL if there is none */
    sw_schedule schedule;          /* n_steps apart, which is the ranks' */
    sw_cores cores;
    int64_t n_steps,
        n_rows; /* of the whole run, as it stands in its newest checkpoint: sw_run_length */
    int64_t n_validation_rows;
    char room_remark[256]; /* what will run out of disk although the run fits; "": nothing */
    char base_mark[SW_MARK_BYTES]; /* of the model whose adapters are trained */
    sw_tokenizer *tokenizer;       /* NULL: tokens come as they are, or are bytes */
    char tokenizer_folder[SW_PATH_BYTES], tokenizer_file[SW_PATH_BYTES];
    sw_chat *chat;                     /* NULL: no text is tokenized */
    char chat_now[SW_CHAT_TIME_BYTES]; /* what its template tells for the time, where data.chat_now
                                          does not; "": nobody asks */
    char *chat_template; /* that data.chat_template or data.chat_format chose, for the model's
                            folder; NULL: none */
    double last_told;    /* of progress */
    sw_record record;
    sw_run_lock lock;
    bool goes_on;      /* in a folder that was there before */
    bool has_begun;    /* the folder is made, by this run, and its lock taken */
    bool has_fallback; /* tokenized text is kept in it, or elsewhere, as the cache cannot be
                          written; and that is told */
    int64_t n_blank_steps,
        first_blank_step; /* of which no target counts: SW_MOST_LOOKED_AT steps are looked at */
    bool is_finished;     /* there is nothing left to do */
    int n_restarts;       /* of the ranks, so far */
    sw_faults *faults;    /* faults.h; NULL: none */
} sw_run;

/* train/settle.c: what `auto` comes to: as when the run began, where it goes on. The length is
 * known. */
void sw_run_settle(sw_run *run);

/* train/run_data.c: the day that templates tell in a run which is in its folder: that of its first
 * start. False: none is kept there. */
bool sw_run_kept_day(const sw_settings *settings, char day[SW_CHAT_TIME_BYTES]);

/* The tokenizer, the rows to train on and to validate on. `vocabulary`: ids must be below it;
 * run->cores is there. */
sw_status sw_run_data_open(sw_run *run, int64_t vocabulary, sw_error *err);
/* Does any target count, of the rows that the run takes, and of those that it validates on? Fills
 * in n_blank_steps. Errors: SW_BAD_FILE. */
enum { SW_MOST_LOOKED_AT = 100000 };
sw_status sw_run_data_look(sw_run *run, sw_error *err);
bool sw_run_has_documents(
    const sw_run *run); /* may rows hold pieces that must not see each other? */
void sw_run_data_close(sw_run *run);

/* Steps of a run that has completed `step` of them with `n_rows` rows, those left out by rollbacks
 * not counted. Epochs end with their last row: what is left of them is dealt to steps anew from
 * here, so that a run that ended with a step of few rows and is asked for more epochs still takes
 * every row. */
int64_t sw_run_length(const sw_run *run, int64_t step, int64_t n_rows);

/* train/train_rank.c: a sw_rank_fn; arg is the sw_run. */
sw_status sw_train_rank(sw_comm *comm, void *run, sw_error *err);

/* train/report.c: lines for the listener. */
void sw_report_start(const sw_run *run);
void sw_report_chat(const sw_run *run); /* train/report_chat.c */
void sw_report_memory(const sw_run *run,
                      const int64_t *measured); /* [SW_N_MEMORY_CLASSES], NULL before the run */
void sw_report_line(const sw_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What went wrong though the run goes on: shown whatever else is not. Once for each cause: see
 * sw_is_same_cause. */
void sw_report_warning(const sw_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* train/run_folder.c: the folder of a run and the files written before the first step: run.yaml,
 * plan.json. */
sw_status sw_run_folder_begin(sw_run *run,
                              sw_error *err); /* make it, where it is new, and take its lock */
sw_status sw_run_folder_create(sw_run *run,
                               sw_error *err); /* the same if it is not begun, and its files */
char *sw_run_yaml(const sw_run *run); /* all settings, with what this run has found for them; NULL:
                                         no memory. free() it */
sw_status sw_run_folder_plan(const sw_run *run, sw_error *err); /* plan.json alone, written anew */
sw_model_output sw_run_folder_output(const sw_run *run);        /* how the final model is written */
/* Rank 0, before the final model is written: one that is there gives way, and comes back if the new
 * one does not come about. */
sw_status sw_run_folder_set_model_aside(const sw_run *run, sw_error *err);
/* When no rank is left, and steps/ is clean: a model that is half written is removed. */
void sw_run_folder_tidy(const sw_run *run);
/* When the run has ended, and no rank is started again: a folder that this run made, and in which
 * no rank began, is removed. */
void sw_run_folder_leave(const sw_run *run);

/* train/room.c: is there room on the disk for what the run still writes? Sets room_remark and
 * plan.files_in_memory. */
sw_status sw_run_folder_room(sw_run *run, sw_error *err);

/* train/run_folder_resume.c: a folder that is there already. Look whether the run may be in it: a
 * new one in a new folder; one that goes on (run->goes_on) in a folder of a run, whose lock is then
 * held. Errors: SW_BAD_CONFIG: not the folder of a run, one without anything to go on from, a
 * living run in it; SW_NO_SPACE. */
sw_status sw_run_folder_look(sw_run *run, sw_error *err);
/* The newest checkpoint whose manifest is right; NULL if there is none at all. Errors: SW_BAD_FILE:
 * there are some, none is. */
sw_status sw_run_folder_newest(const char *path, sw_checkpoint **checkpoint, sw_error *err);
/* Everything is known: may this run go on from the newest checkpoint? Sets run->is_finished.
 * Errors: SW_BAD_CONFIG: a setting has changed; SW_BAD_FILE: no checkpoint is whole, or they are of
 * another model. */
sw_status sw_run_folder_compare(sw_run *run, sw_error *err);
/* Remove what a killed run left in steps/; what has to stay is told. Errors: SW_BAD_CONFIG:
 * `latest` is no link. */
sw_status sw_run_folder_clean(const sw_run *run, sw_error *err);
/* Write run.yaml anew, and keep the one that was there as run.yaml.1, .2 ...; plan.json too. */
sw_status sw_run_folder_renew(const sw_run *run, sw_error *err);

/* train/restarts.c: run the ranks, and start them again when one is lost, as train.restarts
 * says. */
sw_status sw_run_launch(sw_run *run, sw_error *err);

/* train/restarts.c: one line of events.jsonl from the supervisor, when no rank has the file open. A
 * failure is told, no error. */
void sw_run_event(const sw_run *run, const char *name, int64_t step, const char *reason,
                  const sw_detail *details, int n_details);

#endif
