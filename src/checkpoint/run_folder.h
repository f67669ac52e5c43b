/* run_folder.h: is a folder one that a run has made?
 *
 * Names alone do not tell: a project may have a run.yaml, a plan.json and steps/ of its own. What
 * is asked is how our own files begin.
 */
#ifndef SW_CHECKPOINT_RUN_FOLDER_H
#define SW_CHECKPOINT_RUN_FOLDER_H

#include <stdbool.h>

#include <shardwise/status.h>

/* Tokenized text in the folder, where it can be kept nowhere else. */
#define SW_RUN_FOLDER_CACHE "token-cache"

/* Does `folder`/steps hold a checkpoint of ours, whole or not, or what is left of one? */
bool sw_steps_are_own(const char *folder);

/* Is `folder`/steps there, with things in it, none of which is ours? */
bool sw_steps_are_foreign(const char *folder);

/* Is `folder`/`name` (".lock", "plan.json", "events.jsonl") there, and does it begin as a run
 * writes it, as far as it goes? */
bool sw_is_runs_file(const char *folder, const char *name);

/* Has a run or `checkpoint import` made this folder? Such a one has a run.yaml and another file of
 * a run; or checkpoints. */
bool sw_is_run_folder(const char *folder);

/* Is there nothing in `folder` but what a run makes before its run.yaml, or `checkpoint import`
 * where no run was yet? A run locks its folder before it writes a plan, and `latest` is a link into
 * steps/. SW_BAD_FILE, SW_NO_MEMORY: it cannot be read. */
sw_status sw_run_folder_is_begun(const char *folder, bool *is_begun, sw_error *err);

#endif
