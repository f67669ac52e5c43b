/* checkpoint.c: shardwise checkpoint: its actions, one or a few to a file (checkpoint.h). */
#include <string.h>

#include "base/text.h"
#include "cli/checkpoint.h"

static const struct {
    const char *name, *arguments, *about;
    sw_status (*run)(int n_arguments, char **arguments, sw_error *err);
} actions[] = {
    {"list", "RUN_DIR", "the checkpoints of a run", sw_checkpoint_action_list},
    {"verify", "RUN_DIR|CHECKPOINT_DIR ...", "compare every byte with its checksum",
     sw_checkpoint_action_verify},
    {"diff", "A B", "what differs between two checkpoints", sw_checkpoint_action_diff},
    {"prune", "RUN_DIR --keep N", "remove old checkpoints", sw_checkpoint_action_prune},
    {"import", "FILE.gguf|MODEL_DIR OUT_DIR", "make a Hugging Face folder of it",
     sw_checkpoint_action_import},
    {"import", "RUN_DIR|CHECKPOINT_DIR RUN_DIR",
     "take a checkpoint into a run, which continues from it", sw_checkpoint_action_import},
    {"export", "MODEL_DIR FILE.gguf", "make a GGUF file of a Hugging Face folder",
     sw_checkpoint_action_export},
    {"export", "RUN_DIR|CHECKPOINT_DIR OUT_DIR", "make a Hugging Face folder of a checkpoint",
     sw_checkpoint_action_export},
    {"merge", "MODEL_DIR ADAPTER_DIR OUT_DIR", "make one model of a model and its adapter",
     sw_checkpoint_action_merge},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

static void print_actions(void) {
    printf("shardwise checkpoint ACTION ...\n\n");
    for (int i = 0; i < N_ACTIONS; i++)
        printf("  %-8s %-30s %s\n", actions[i].name, actions[i].arguments, actions[i].about);
    printf("\nshardwise checkpoint ACTION --help says more\n");
}

sw_status sw_checkpoint_lock(const char *folder, sw_run_lock *lock, sw_error *err) {
    char text[SW_MESSAGE_BYTES];
    sw_status status = sw_run_lock_take(folder, lock, err);
    if (!status && lock->missing) {
        sw_run_lock_warning(lock, folder, text, sizeof text);
        sw_print_warning(text);
    }
    return status;
}

static sw_status checkpoint(int n_arguments, char **arguments, sw_error *err) {
    const char *names[N_ACTIONS];
    if (n_arguments < 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "an action is missing · shardwise checkpoint · for example: shardwise "
                       "checkpoint list runs/x");
    if (!strcmp(arguments[0], "help") && n_arguments > 1) { /* help ACTION */
        char help_flag[] = "--help";
        return checkpoint(2, (char *[]){arguments[1], help_flag}, err);
    }
    const char *action = strcmp(arguments[0], "help") ? arguments[0] : "--help";
    if (!strcmp(action, "--help") || !strcmp(action, "-h")) {
        print_actions();
        return SW_OK;
    }
    for (int i = 0; i < N_ACTIONS; i++) {
        names[i] = actions[i].name;
        if (!strcmp(action, actions[i].name))
            return actions[i].run(n_arguments - 1, arguments + 1, err);
    }
    if (action[0] == '-')
        return sw_fail(err, SW_BAD_CONFIG,
                       "unknown flag %.100s · shardwise checkpoint · did you mean --help?", action);
    const char *nearest = sw_text_nearest(action, names, N_ACTIONS);
    return sw_fail(err, SW_BAD_CONFIG, "there is no action %.100s · shardwise checkpoint · %s%s%s",
                   action,
                   nearest ? "did you mean " : "shardwise checkpoint --help lists what there is",
                   nearest ? nearest : "", nearest ? "?" : "");
}

const sw_verb sw_verb_checkpoint = {
    "checkpoint", "list|verify|diff|prune|import|export|merge ...",
    "list, check, compare, thin out and convert checkpoints; merge adapters", checkpoint};
