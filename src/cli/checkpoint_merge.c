/* checkpoint_merge.c: shardwise checkpoint merge: a model and its adapter as one model. */
#include <stdlib.h>

#include "cli/checkpoint.h"
#include "hf/adapter.h"

sw_status sw_checkpoint_action_merge(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const sw_flag flags[] = {{"--help", NULL, "print this help", SW_FLAG_SWITCH, &help}};
    static const sw_verb verb = {"checkpoint merge", "MODEL_DIR ADAPTER_DIR OUT_DIR",
                                 "make one model of a model and an adapter that was trained for it",
                                 NULL};
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, 1, 3,
                                          "shardwise checkpoint merge smollm2 runs/x/model merged",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, 1);
    if (!status && goes_on && n_others > 3)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: three folders are taken · shardwise checkpoint merge", others[3]);
    else if (!status && goes_on)
        status = sw_adapter_merge(others[0], others[1], others[2], err);
    if (!status && goes_on)
        printf("model: %s\n", others[2]);
    free(others);
    return status;
}
