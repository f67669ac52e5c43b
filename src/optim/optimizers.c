/* optimizers.c: the rows of optimizers.h, read. */
#include "optim/optimizers.h"

enum { MAX_STATES = 3 };

typedef struct row {
    int numbers[SW_MAX_OPTIMIZER_NUMBERS + 1]; /* SW_NUMBER; 0 ends them */
    int states[MAX_STATES];
    int n_states;
} row;

#define N_IN(...) ((int)(sizeof((int[])__VA_ARGS__) / sizeof(int)))
#define ROW(NAME, word, numbers, states) [SW_OPTIMIZER_##NAME] = {numbers, states, N_IN(states)},
static const row rows[SW_N_OPTIMIZERS] = {SW_OPTIMIZERS(ROW)};

static const struct {
    const char *name, *file;
    int needed_number;
} kept[SW_N_OPTIMIZER_STATES] = {
#define STATE(NAME, name, stem, needed) [SW_OPTIMIZER_##NAME] = {name, stem ".safetensors", needed},
    SW_OPTIMIZER_STATES(STATE)};

static double number_of(const sw_optimizer_spec *spec, int number) {
    return ((const double *)(const void *)spec)[number - 1];
}

const char *sw_optimizer_state_name(sw_optimizer_state state) {
    return kept[state].name;
}

const char *sw_optimizer_state_file(sw_optimizer_state state) {
    return kept[state].file;
}

bool sw_optimizer_state_at(const sw_optimizer_spec *spec, int i, sw_optimizer_state *state,
                           bool *is_kept) {
    if (i >= rows[spec->kind].n_states)
        return false;
    *state = (sw_optimizer_state)rows[spec->kind].states[i];
    int needed = kept[*state].needed_number;
    *is_kept = !needed || number_of(spec, needed) != 0;
    return true;
}

bool sw_optimizer_keeps(const sw_optimizer_spec *spec, sw_optimizer_state state) {
    sw_optimizer_state at;
    bool is_kept;
    for (int i = 0; sw_optimizer_state_at(spec, i, &at, &is_kept); i++)
        if (at == state)
            return is_kept;
    return false;
}

int sw_optimizer_attributes(const sw_optimizer_spec *spec,
                            double attribute[SW_MAX_OPTIMIZER_NUMBERS]) {
    int decay = -1;
    for (int i = 0; rows[spec->kind].numbers[i]; i++) {
        int number = rows[spec->kind].numbers[i];
        attribute[i] = number_of(spec, number);
        decay = number == SW_NUMBER(weight_decay) ? i : decay;
    }
    return decay;
}

bool sw_optimizer_takes(sw_optimizer_kind kind, int number) {
    for (int i = 0; rows[kind].numbers[i]; i++)
        if (rows[kind].numbers[i] == number)
            return true;
    return false;
}
