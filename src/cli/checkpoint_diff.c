/* checkpoint_diff.c: shardwise checkpoint diff: what differs between two checkpoints, parameter by parameter. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/diff.h"
#include "cli/checkpoint.h"

typedef struct tally {
    int64_t n_tensors, n_different;
} tally;

static void tell(void *to, const sw_difference *d) {
    tally *t = to;
    const char *file = sw_state_file_name(d->state);
    int word = (int)strcspn(file, ".");
    t->n_tensors++;
    if (d->kind == SW_SAME)
        return;
    t->n_different++;
    switch (d->kind) {
    case SW_OTHER_VALUES:
        printf("%.*s %s: %" PRId64 " of %" PRId64 " elements differ, by %.3g at most\n", word, file, d->name, d->n_different,
               d->n_elements, d->largest);
        break;
    case SW_OTHER_SHAPE:
        printf("%.*s %s: other shape, or trained in one alone\n", word, file, d->name);
        break;
    default:
        printf("%.*s %s: only in the %s\n", word, file, d->name, d->kind == SW_ONLY_IN_FIRST ? "first" : "second");
    }
}

/* What differs beside tensors is told, and does not count: two runs may well have come to the same state in different ways. */
static void tell_settings(const sw_checkpoint *a, const sw_checkpoint *b) {
    if (sw_checkpoint_step(a) != sw_checkpoint_step(b))
        printf("step: %" PRId64 " and %" PRId64 "\n", sw_checkpoint_step(a), sw_checkpoint_step(b));
    if (strcmp(sw_checkpoint_state(a), sw_checkpoint_state(b)) != 0)
        printf("state: %s and %s\n", sw_checkpoint_state(a), sw_checkpoint_state(b));
    for (int i = 0; i < sw_checkpoint_n_settings(a); i++) {
        const sw_setting_text *setting = sw_checkpoint_setting(a, i);
        const char *other = sw_checkpoint_find_setting(b, setting->key);
        if (!other || strcmp(other, setting->value) != 0)
            printf("setting %s: %s and %s\n", setting->key, setting->value, other ? other : "none");
    }
    for (int i = 0; i < sw_checkpoint_n_settings(b); i++)
        if (!sw_checkpoint_find_setting(a, sw_checkpoint_setting(b, i)->key))
            printf("setting %s: none and %s\n", sw_checkpoint_setting(b, i)->key, sw_checkpoint_setting(b, i)->value);
}

sw_status sw_checkpoint_action_diff(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    const sw_flag flags[] = {{"--help", NULL, "this text", SW_FLAG_SWITCH, &help}};
    static const sw_verb verb = {"checkpoint diff", "RUN_DIR|CHECKPOINT_DIR RUN_DIR|CHECKPOINT_DIR",
                                 "what differs between two checkpoints of any numbers of ranks; of a run, its newest is meant",
                                 NULL};
    const char **others;
    int n_others;
    sw_checkpoint *checkpoint[2] = {NULL, NULL};
    tally t = {0};
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, 1, 2, "shardwise checkpoint diff runs/x runs/y",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, 1);
    if (status || !goes_on)
        goto done;
    if (n_others > 2)
        status = sw_fail(err, SW_BAD_CONFIG, "%.100s: two folders are taken · shardwise checkpoint diff", others[2]);
    for (int i = 0; i < 2 && !status; i++)
        status = sw_checkpoint_at(others[i], &checkpoint[i], err);
    if (!status) {
        tell_settings(checkpoint[0], checkpoint[1]);
        status = sw_checkpoint_diff(checkpoint[0], checkpoint[1], tell, &t, err);
    }
    if (!status && t.n_different)
        printf("%" PRId64 " of %" PRId64 " tensors differ\n", t.n_different, t.n_tensors);
    else if (!status)
        printf("equal: %" PRId64 " tensors, every bit\n", t.n_tensors);
done:
    for (int i = 0; i < 2; i++)
        sw_checkpoint_close(checkpoint[i]);
    free(others);
    return status;
}
