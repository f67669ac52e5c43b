/* checkpoint_steps.c: shardwise checkpoint list, verify, prune: the checkpoints of a run. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json_number.h"
#include "base/reason.h"
#include "base/text.h"
#include "checkpoint/steps.h"
#include "cli/checkpoint.h"
#include "device/cpu/cores.h"
#include "hf/adapter.h"
#include "hf/model_files.h"

static bool has(const char *folder, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, folder, name, NULL) == SW_OK && sw_file_exists(path);
}

bool sw_is_checkpoint_folder(const char *path) {
    return has(path, SW_MANIFEST_NAME);
}

sw_weights_kind sw_weights_at(const char *path) {
    if (sw_is_checkpoint_folder(path) || sw_is_run_folder(path))
        return SW_WEIGHTS_NONE;
    if (sw_is_safetensors(path) || has(path, "config.json") || has(path, "model.safetensors") ||
        has(path, "model.safetensors.index.json"))
        return SW_WEIGHTS_MODEL;
    return has(path, SW_ADAPTER_WEIGHTS) ? SW_WEIGHTS_ADAPTER : SW_WEIGHTS_NONE;
}

static void tell_rejected(void *to, int64_t step, const char *message) {
    (void)to, (void)step;
    fprintf(stderr, "shardwise: passed over: %s\n", message);
}

static sw_status check_path(const char *path, sw_error *err) {
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return sw_fail(err, SW_BAD_FILE, "%s: cannot be read: %s; check the path", path,
                       strerror(ENOENT));
    if (sw_weights_at(path))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is a model, not a checkpoint, which a run writes into steps/ of its "
                       "folder · give a run's folder or one of its checkpoints",
                       path);
    if (!sw_is_checkpoint_folder(path) && !has(path, sw_state_file_name(SW_STATE_MASTER)))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is neither a checkpoint, which has a %s, nor the folder of a run, "
                       "which has checkpoints in steps/ · check the path",
                       path, SW_MANIFEST_NAME);
    return SW_OK;
}

sw_status sw_checkpoint_at(const char *path, sw_checkpoint **checkpoint, sw_error *err) {
    sw_status status = SW_OK;
    if (!sw_is_run_folder(path)) {
        status = check_path(path, err);
        return status ? status : sw_checkpoint_open(path, checkpoint, err);
    }
    status = sw_steps_newest_good(path, sw_cores_count(), tell_rejected, NULL, checkpoint, err);
    if (status == SW_OK && !*checkpoint)
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: has no checkpoint that is good; did the run save any (checkpoint.every)?", path);
    return status;
}

/* The run's folder that an action wants. */
static sw_status check_run_folder(const char *path, const char *action, sw_error *err) {
    char owner[SW_USER_BYTES] = "";
    struct stat info;
    if (sw_is_run_folder(path))
        return SW_OK;
    if (stat(path, &info) != 0)
        return sw_cannot_read(path, errno, err);
    if (S_ISDIR(info.st_mode) && access(path, R_OK | X_OK) != 0) {
        const char *reason = strerror(errno);
        return sw_fail(
            err, SW_BAD_CONFIG, "%s: cannot be read: %s%s%s; give this user the right to read it",
            path, reason, sw_file_is_foreign(path, owner) ? "; it belongs to user " : "", owner);
    }
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: is no run's folder, which has steps/ in it · shardwise checkpoint %s runs/x", path,
        action);
}

/* ---- list ---- */

static void print_step(const sw_step_entry *step) {
    char bytes[SW_TEXT_NUMBER_BYTES], when[32] = "", loss[SW_TEXT_NUMBER_BYTES] = "";
    time_t seconds = (time_t)step->seconds;
    struct tm local;
    if (!step->is_whole) {
        printf("%10" PRId64 "  %s: %s\n", step->step, step->is_unknown ? "unreadable" : "damaged",
               step->reason);
        return;
    }
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    if (!isnan(step->validation_loss))
        snprintf(loss, sizeof loss, "%.4f", step->validation_loss);
    printf("%10" PRId64 "  %10s  %-19s  %s\n", step->step,
           sw_text_bytes(step->bytes, bytes, sizeof bytes), when, loss);
}

/* One array; a step that is not whole says why. */
static sw_status print_steps_json(const sw_steps *steps, sw_error *err) {
    json_t *list = json_array();
    bool is_whole = list != NULL;
    for (int i = 0; i < steps->n && is_whole; i++) {
        const sw_step_entry *step = &steps->item[i];
        const char *state = step->is_whole ? "whole" : step->is_unknown ? "unreadable" : "damaged";
        json_t *entry = step->is_whole
                            ? json_pack("{s:I, s:s, s:I, s:I, s:o}", "step", (json_int_t)step->step,
                                        "state", state, "bytes", (json_int_t)step->bytes, "seconds",
                                        (json_int_t)step->seconds, "validation_loss",
                                        sw_json_number(step->validation_loss))
                            : json_pack("{s:I, s:s, s:s%}", "step", (json_int_t)step->step, "state",
                                        state, "reason", step->reason, strlen(step->reason));
        is_whole = json_array_append_new(list, entry) == 0;
    }
    if (is_whole) {
        json_dumpf(list, stdout, JSON_REAL_PRECISION(17));
        putchar('\n');
    }
    json_decref(list);
    return is_whole
               ? SW_OK
               : sw_fail(err, SW_NO_MEMORY, "no memory for a list of %d checkpoints", steps->n);
}

sw_status sw_checkpoint_action_list(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, as_json = false, goes_on;
    const sw_flag flags[] = {{"--json", NULL, "print one JSON array", SW_FLAG_SWITCH, &as_json},
                             {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help}};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {
        "checkpoint list", "RUN_DIR",
        "list the checkpoints of a run, newest first; their data are not read", NULL};
    const char **others;
    int n_others;
    sw_steps steps = {0};
    sw_status status =
        sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 1,
                           "shardwise checkpoint list runs/x", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 1)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: one folder is taken · shardwise checkpoint list", others[1]);
    if (!status)
        status = check_run_folder(others[0], "list", err);
    if (!status)
        status = sw_steps_list(others[0], &steps, err);
    if (!status && as_json) {
        status = print_steps_json(&steps, err);
        goto done;
    }
    if (!status && steps.n)
        printf("%10s  %10s  %-19s  %s\n", "step", "size", "written", "validation loss");
    else if (!status)
        printf("no checkpoints\n");
    for (int i = 0; i < steps.n && !status; i++)
        print_step(&steps.item[i]);
done:
    sw_steps_free(&steps);
    free(others);
    return status;
}

/* ---- verify ---- */

static sw_status verify(const char *path, sw_error *err) {
    char bytes[SW_TEXT_NUMBER_BYTES];
    sw_checkpoint *checkpoint;
    sw_status status = check_path(path, err);
    if (status == SW_OK)
        status = sw_checkpoint_open_good(path, sw_cores_count(), &checkpoint, err);
    if (status != SW_OK)
        return status;
    printf("%s: good, %s\n", path,
           sw_text_bytes(sw_checkpoint_bytes(checkpoint), bytes, sizeof bytes));
    sw_checkpoint_close(checkpoint);
    return SW_OK;
}

/* Each checkpoint of a run; what is wrong with one is told on the way. One that cannot be read here
 * is not said to be damaged. */
static sw_status verify_run(const char *folder, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_steps steps;
    int n_damaged = 0, n_unreadable = 0;
    sw_status status = sw_steps_list(folder, &steps, err);
    for (int i = 0; i < steps.n && status == SW_OK; i++) {
        const sw_step_entry *step = &steps.item[i];
        sw_error reason;
        if ((status = sw_step_path(folder, step->step, path, err)) != SW_OK)
            break;
        sw_status good = step->is_whole     ? verify(path, &reason)
                         : step->is_unknown ? SW_BAD_CONFIG
                                            : SW_BAD_FILE;
        if (good == SW_BAD_FILE && !sw_file_exists(path)) {
            printf("%s: removed meanwhile\n", path);
            continue;
        }
        if (good != SW_OK && good != SW_BAD_FILE && good != SW_BAD_CONFIG)
            status = sw_fail(err, good, "%s", reason.message);
        else if (good != SW_OK)
            printf("%s: %s: %s\n", path, good == SW_BAD_FILE ? "damaged" : "unreadable",
                   step->is_whole ? reason.message : step->reason);
        n_damaged += good == SW_BAD_FILE;
        n_unreadable += good == SW_BAD_CONFIG;
    }
    if (status == SW_OK && n_unreadable)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%s: %d of %d %s cannot be read here, and %d %s damaged", folder,
                         n_unreadable, steps.n, sw_text_noun(steps.n, "checkpoint", "checkpoints"),
                         n_damaged, n_damaged == 1 ? "is" : "are");
    else if (status == SW_OK && n_damaged)
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: %d of %d %s damaged; a run goes on from the newest good one", folder,
                         n_damaged, steps.n,
                         steps.n == 1     ? "checkpoint is"
                         : n_damaged == 1 ? "checkpoints is"
                                          : "checkpoints are");
    else if (status == SW_OK && !steps.n)
        printf("no checkpoints\n");
    sw_steps_free(&steps);
    return status;
}

sw_status sw_checkpoint_action_verify(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const sw_flag flags[] = {{"--help", NULL, "print this help", SW_FLAG_SWITCH, &help}};
    static const sw_verb verb = {"checkpoint verify", "RUN_DIR|CHECKPOINT_DIR ...",
                                 "read every byte of checkpoints and compare it with the checksums",
                                 NULL};
    const char **others;
    int n_others;
    sw_status status =
        sw_arguments_begin(&verb, n_arguments, arguments, flags, 1, 1,
                           "shardwise checkpoint verify runs/x", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, 1);
    for (int i = 0; i < n_others && !status && goes_on; i++)
        status = sw_is_run_folder(others[i]) ? verify_run(others[i], err) : verify(others[i], err);
    free(others);
    return status;
}

/* ---- prune ---- */

/* Leave out of list [*n] the newest that are damaged, so that the last good one is not removed for
 * their sake. */
static sw_status leave_out_damaged(const char *folder, const sw_kept_step *list, int *n,
                                   sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_error reason;
    sw_status status = SW_BAD_FILE;
    while (*n > 0 && status == SW_BAD_FILE) {
        sw_checkpoint *checkpoint;
        if ((status = sw_step_path(folder, list[*n - 1].step, path, err)) != SW_OK)
            return status;
        status = sw_checkpoint_open_good(path, sw_cores_count(), &checkpoint, &reason);
        if (status == SW_OK) {
            sw_checkpoint_close(checkpoint);
        } else if (status == SW_BAD_FILE) {
            fprintf(stderr, "shardwise: not counted: %s\n", reason.message);
            --*n;
        } else {
            return sw_fail(err, status, "%s", reason.message);
        }
    }
    return SW_OK;
}

/* Remove, oldest first, what does not stay. Checkpoints that are not whole are not counted, and not
 * removed. */
static sw_status prune(const char *folder, const sw_retention *retention, bool is_dry,
                       sw_error *err) {
    sw_steps steps;
    int n = 0, n_removed = 0;
    sw_status status = sw_steps_list(folder, &steps, err);
    sw_kept_step *list = malloc(((size_t)steps.n + 1) * sizeof *list);
    if (status == SW_OK && !list)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for a list of checkpoints");
    for (int i = steps.n - 1; i >= 0 && status == SW_OK; i--)
        if (steps.item[i].is_whole)
            list[n++] = (sw_kept_step){steps.item[i].step, steps.item[i].validation_loss};
    if (status == SW_OK)
        status = leave_out_damaged(folder, list, &n, err);
    for (int i = 0; i < n && status == SW_OK; i++) {
        if (sw_retention_keeps(retention, list, n, i))
            continue;
        if (!is_dry)
            status = sw_step_remove(sw_storage_system(), folder, list[i].step, err);
        if (status == SW_OK)
            printf("%s: step %" PRId64 "\n", is_dry ? "would be removed" : "removed", list[i].step),
                n_removed++;
    }
    if (status == SW_OK && !n_removed)
        printf("nothing to remove\n");
    free(list);
    sw_steps_free(&steps);
    return status;
}

sw_status sw_checkpoint_action_prune(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, is_dry = false, goes_on;
    sw_retention retention = {0};
    sw_run_lock lock = {.descriptor = -1};
    const sw_flag flags[] = {
        {"--keep", "N", "keep the N newest checkpoints", SW_FLAG_COUNT, &retention.keep, 1, 1e9},
        {"--keep-every", "N", "also keep those of steps that are a multiple of N (default 0: none)",
         SW_FLAG_COUNT, &retention.keep_every, 0, 1e18},
        {"--dry-run", NULL, "print what would be removed, and change nothing", SW_FLAG_SWITCH,
         &is_dry},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {
        "checkpoint prune", "RUN_DIR --keep N",
        "remove old checkpoints; the one with the best validation loss is kept too", NULL};
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 1,
                                          "shardwise checkpoint prune runs/x --keep 3", &others,
                                          &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 1)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: one folder is taken · shardwise checkpoint prune", others[1]);
    else if (!retention.keep)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "--keep is missing: how many of the newest stay · shardwise checkpoint prune · for "
            "example: shardwise checkpoint prune runs/x --keep 3");
    if (!status)
        status = check_run_folder(others[0], "prune", err);
    if (!status && !is_dry) /* a run that goes on prunes by itself */
        status = sw_checkpoint_lock(others[0], &lock, err);
    if (!status)
        status = prune(others[0], &retention, is_dry, err);
    sw_run_lock_release(&lock);
done:
    free(others);
    return status;
}
