/* checkpoint.h: the actions of the verb checkpoint, and what they share. */
#ifndef SW_CLI_CHECKPOINT_H
#define SW_CLI_CHECKPOINT_H

#include "checkpoint/load.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/run_lock.h"
#include "cli/command.h"

/* checkpoint_import.c, checkpoint_export.c, checkpoint_merge.c, checkpoint_steps.c,
 * checkpoint_diff.c: one for each action. */
sw_status sw_checkpoint_action_import(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_export(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_merge(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_list(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_verify(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_prune(int n_arguments, char **arguments, sw_error *err);
sw_status sw_checkpoint_action_diff(int n_arguments, char **arguments, sw_error *err);

/* Is it a checkpoint's folder? */
bool sw_is_checkpoint_folder(const char *path);

/* Weights without a run: a model's folder or file, an adapter's folder, or none of them. */
typedef enum sw_weights_kind {
    SW_WEIGHTS_NONE,
    SW_WEIGHTS_MODEL,
    SW_WEIGHTS_ADAPTER
} sw_weights_kind;
sw_weights_kind sw_weights_at(const char *path);

/* The checkpoint that a path means: its folder, or the newest good one of a run's folder. Errors:
 * SW_BAD_FILE. Ownership: sw_checkpoint_close. */
sw_status sw_checkpoint_at(const char *path, sw_checkpoint **checkpoint, sw_error *err);

/* Take the lock of a run's folder; where its file system has none that is told, and the action goes
 * on. */
sw_status sw_checkpoint_lock(const char *folder, sw_run_lock *lock, sw_error *err);

/* A word for a dtype, "bf16" as in run.yaml or "BF16" as in GGUF files; false: none of fp32, bf16,
 * fp16. */
bool sw_checkpoint_parse_dtype(const char *word, sw_dtype *dtype);

#endif
