/* faults_parse.c: the grammar of faults: the table of kinds and keys, its parser and its
 * reference. */
#include "faults/faults.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef enum value_kind { RANK, COUNT, REAL, TEXT, BUFFER, ERROR } value_kind;

typedef struct key_row {
    const char *name, *value_name, *about;
    value_kind kind;
    size_t offset; /* in sw_fault */
    double low, high;
} key_row;

#define AT(member) offsetof(sw_fault, member)
#define MOST 9e15 /* a double counts so far */

static const key_row keys[] = {
    {"rank", "R",
     "a rank's number, or supervisor (kill and stop with at; allocation and write without step)",
     RANK, AT(rank), 0, 0},
    {"step", "N", "in step N, as the metrics count; slow: from that step on", COUNT, AT(step), 1,
     MOST},
    {"at", "SECONDS",
     "this long after the process started its part, whatever it is doing then; not with step or "
     "instruction",
     REAL, AT(at), 0, 1e6},
    {"instruction", "PATTERN",
     "at an instruction whose label matches, as plan --print-program shows it: \"gather*\"", TEXT,
     AT(instruction), 0, 0},
    {"factor", "F", "every instruction takes F times as long", REAL, AT(factor), 1, 1e6},
    {"seconds", "S", "how long each of these instructions is held up", REAL, AT(seconds), 0, 1e6},
    {"buffer", "NAME", "parameters, moments, gradients or activations, of one unit", BUFFER,
     AT(buffer), 0, 0},
    {"unit", "PATTERN", "the first unit whose name matches", TEXT, AT(unit), 0, 0},
    {"file", "PATTERN",
     "flip: a file in the run's folder, by its path from there; write: files whose whole path "
     "matches",
     TEXT, AT(file), 0, 0},
    {"bit", "N", "counted from the first of the buffer or file", COUNT, AT(bit), 0, MOST},
    {"k", "K", "the K-th call of the process, counted from 1 and from the step if one is given",
     COUNT, AT(k), 1, MOST},
    {"n", "N", "so many calls in a row; 1 if not given", COUNT, AT(n), 1, MOST},
    {"error", "NAME", "ENOSPC, EIO, EDQUOT, EINTR, or short: half of the bytes are written", ERROR,
     AT(error), 0, 0},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct kind_row {
    const char *name, *required, *optional, *about, *example; /* lists of keys, with blanks */
} kind_row;

static const kind_row kinds[] = {
    [SW_FAULT_KILL] = {"kill", "rank", "step instruction at", "SIGKILL", "kill:rank=1,step=3"},
    [SW_FAULT_STOP] = {"stop", "rank", "step instruction at", "SIGSTOP", "stop:rank=2,at=1.5"},
    [SW_FAULT_SLOW] = {"slow", "rank factor", "step instruction",
                       "a rank that is slower than the others", "slow:rank=0,factor=4"},
    [SW_FAULT_DELAY] = {"delay", "rank instruction seconds", "step",
                        "instructions that come late, such as messages",
                        "delay:rank=1,instruction=gather*,seconds=0.2"},
    [SW_FAULT_FLIP] = {"flip", "rank bit", "step instruction buffer unit file",
                       "one bit of a buffer or of a file",
                       "flip:rank=1,step=5,buffer=parameters,bit=17"},
    [SW_FAULT_ALLOCATION] = {"allocation", "k", "rank step n", "malloc and its kin, and mmap",
                             "allocation:rank=0,k=100"},
    [SW_FAULT_WRITE] = {"write", "error k", "rank step n file", "calls that change a file",
                        "write:error=ENOSPC,k=3,file=*/steps/*"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct named_number {
    const char *name;
    int64_t number;
} named_number;

static const named_number buffers[] = {{"parameters", SW_FAULT_PARAMETERS},
                                       {"moments", SW_FAULT_MOMENTS},
                                       {"gradients", SW_FAULT_GRADIENTS},
                                       {"activations", SW_FAULT_ACTIVATIONS}};
static const named_number errors[] = {{"ENOSPC", ENOSPC},
                                      {"EIO", EIO},
                                      {"EDQUOT", EDQUOT},
                                      {"EINTR", EINTR},
                                      {"short", SW_FAULT_CUT_SHORT}};

static bool find_number(const named_number *table, size_t n, const char *name, int64_t *number) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i].name, name)) {
            *number = table[i].number;
            return true;
        }
    return false;
}

/* Is `word` one of a list with blanks between? */
static bool lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (; *list; list += strcspn(list, " ") + (list[strcspn(list, " ")] == ' '))
        if (strcspn(list, " ") == length && !strncmp(list, word, length))
            return true;
    return false;
}

static bool parse_count(const char *text, double low, double high, int64_t *count) {
    return sw_text_parse_integer(text, count) && (double)*count >= low && (double)*count <= high;
}

/* Seconds may carry their unit: "1.5s". */
static bool parse_real(char *text, double low, double high, double *value) {
    size_t length = strlen(text);
    if (length > 1 && text[length - 1] == 's')
        text[length - 1] = 0;
    return sw_text_parse_real(text, value) && *value >= low && *value <= high;
}

static bool set_value(const key_row *key, char *text, sw_fault *fault) {
    void *to = (char *)fault + key->offset;
    switch (key->kind) {
    case RANK:
        if (!strcmp(text, "supervisor")) {
            *(int64_t *)to = SW_FAULT_SUPERVISOR;
            return true;
        }
        return parse_count(text, 0, SW_MAX_RANKS - 1, to);
    case COUNT:
        return parse_count(text, key->low, key->high, to);
    case REAL:
        return parse_real(text, key->low, key->high, to);
    case TEXT:
        return *text && snprintf(to, SW_FAULT_TEXT_BYTES, "%s", text) < SW_FAULT_TEXT_BYTES;
    case BUFFER:
        return find_number(buffers, sizeof buffers / sizeof *buffers, text, to);
    case ERROR:
        return find_number(errors, sizeof errors / sizeof *errors, text, to);
    }
    return false;
}

static sw_status refuse(const sw_fault *fault, const char *what, const char *about, sw_error *err) {
    const kind_row *kind = &kinds[fault->kind];
    return sw_fail(err, SW_BAD_CONFIG,
                   "--inject %s: %s%s · %s takes %s, and may take %s; for example %s", fault->text,
                   what, about, kind->name, kind->required, kind->optional, kind->example);
}

static sw_status parse_pair(char *pair, sw_fault *fault, uint32_t *given, sw_error *err) {
    char *value = strchr(pair, '=');
    int k = 0;
    if (!value)
        return refuse(fault, "a value is missing after ", pair, err);
    *value++ = 0;
    while (k < N_KEYS && strcmp(keys[k].name, pair))
        k++;
    if (k == N_KEYS ||
        !(lists(kinds[fault->kind].required, pair) || lists(kinds[fault->kind].optional, pair)))
        return refuse(fault, "it has no ", pair, err);
    if (*given & 1u << k)
        return refuse(fault, "it is given twice: ", pair, err);
    *given |= 1u << k;
    if (set_value(&keys[k], value, fault))
        return SW_OK;
    char about[256], remedy[128] = "";
    if (keys[k].kind == RANK || keys[k].kind == COUNT || keys[k].kind == REAL)
        sw_numeral_remedy(value, keys[k].kind == REAL ? SW_NUMERAL_REAL : SW_NUMERAL_INTEGER,
                          remedy, sizeof remedy);
    snprintf(about, sizeof about, "%s=%s: %s%s%s", keys[k].name, keys[k].value_name, keys[k].about,
             *remedy ? "; " : "", remedy);
    return refuse(fault, "not a value of ", about, err);
}

/* What keys must not come together, beyond what the table says. */
static sw_status check(const sw_fault *fault, uint32_t given, sw_error *err) {
    for (int k = 0; k < N_KEYS; k++)
        if (lists(kinds[fault->kind].required, keys[k].name) && !(given & 1u << k))
            return refuse(fault, "it lacks ", keys[k].name, err);
    bool is_timed = fault->at >= 0, is_placed = fault->step || *fault->instruction;
    if (is_timed && is_placed)
        return refuse(fault, "at is an instant of its own: ", "not with step or instruction", err);
    bool is_call = fault->kind == SW_FAULT_ALLOCATION || fault->kind == SW_FAULT_WRITE;
    if (fault->rank == SW_FAULT_SUPERVISOR && (is_placed || !(is_call || is_timed)))
        return refuse(fault, "the supervisor runs no steps: ",
                      "kill and stop need at, and nothing takes step or instruction", err);
    if (fault->kind == SW_FAULT_FLIP && !fault->buffer == !*fault->file)
        return refuse(fault, "one of them is needed: ", "buffer, file", err);
    if (fault->kind == SW_FAULT_FLIP && *fault->unit && !fault->buffer)
        return refuse(fault, "a file has no ", "unit", err);
    return SW_OK;
}

static sw_status unknown_kind(const char *text, const char *name, sw_error *err) {
    const char *names[N_KINDS];
    for (int i = 0; i < N_KINDS; i++)
        names[i] = kinds[i].name;
    const char *nearest = sw_text_nearest(name, names, N_KINDS);
    return sw_fail(
        err, SW_BAD_CONFIG,
        "--inject %s: there is no fault \"%s\"%s%s%s · shardwise train --help lists them", text,
        name, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

sw_status sw_fault_parse(const char *text, sw_fault *fault, sw_error *err) {
    char copy[sizeof fault->text];
    *fault = (sw_fault){.rank = SW_FAULT_EVERY_RANK, .at = -1, .n = 1};
    if (snprintf(fault->text, sizeof fault->text, "%s", text) >= (int)sizeof fault->text)
        return sw_fail(err, SW_BAD_CONFIG, "--inject %.40s...: longer than %zu bytes", text,
                       sizeof fault->text - 1);
    memcpy(copy, fault->text, sizeof copy);
    char *rest = strchr(copy, ':');
    if (rest)
        *rest++ = 0;
    int kind = 0;
    while (kind < N_KINDS && strcmp(kinds[kind].name, copy))
        kind++;
    if (kind == N_KINDS)
        return unknown_kind(text, copy, err);
    fault->kind = (sw_fault_kind)kind;
    uint32_t given = 0;
    sw_status status = SW_OK;
    for (char *next = rest; next && !status;) {
        char *pair = next;
        next = strchr(pair, ',');
        if (next)
            *next++ = 0;
        status = parse_pair(pair, fault, &given, err);
    }
    return status ? status : check(fault, given, err);
}

void sw_faults_reference(void (*line)(void *to, const char *text), void *to, bool as_markdown) {
    char text[512];
    line(to, as_markdown ? "\n## Faults on purpose: --inject\n"
                         : "\nFaults on purpose, --inject KIND:KEY=VALUE,... (may be repeated):\n");
    if (as_markdown)
        line(to, "`shardwise train RUN.yaml --inject KIND:KEY=VALUE,...`, which may be repeated. "
                 "See [the "
                 "design](design/faults.md).\n\n"
                 "| kind | needs | may take | what | for example |\n|---|---|---|---|---|");
    for (int i = 0; i < N_KINDS; i++) {
        const kind_row *k = &kinds[i];
        snprintf(text, sizeof text,
                 as_markdown ? "| `%s` | %s | %s | %s | `%s` |" : "  %-10s %-24s [%s] %s; %s",
                 k->name, k->required, k->optional, k->about, k->example);
        line(to, text);
    }
    line(to, as_markdown ? "\n| key | |\n|---|---|" : "");
    for (int i = 0; i < N_KEYS; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s=%s", keys[i].name, keys[i].value_name);
        snprintf(text, sizeof text, as_markdown ? "| `%s` | %s |" : "  %-20s %s", key,
                 keys[i].about);
        line(to, text);
    }
}
