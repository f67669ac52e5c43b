/* command.h: what the verbs share: their shape, their arguments, their messages. */
#ifndef SW_CLI_COMMAND_H
#define SW_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <shardwise/status.h>

/* One verb, in a file of its own. `run` gets the arguments after the verb. */
typedef struct sw_verb {
    const char *name, *arguments, *about;
    sw_status (*run)(int n_arguments, char **arguments, sw_error *err);
} sw_verb;

extern const sw_verb sw_verb_train, sw_verb_generate, sw_verb_eval, sw_verb_tokenize, sw_verb_plan,
    sw_verb_checkpoint, sw_verb_doctor, sw_verb_bench;

/* A flag of a verb. */
typedef enum sw_flag_kind {
    SW_FLAG_SWITCH,
    SW_FLAG_TEXT,
    SW_FLAG_TEXTS,
    SW_FLAG_COUNT,
    SW_FLAG_REAL
} sw_flag_kind;

enum { SW_MOST_FLAGS = 64 }; /* of a verb */

/* What a flag that may be given several times takes. */
enum { SW_MOST_FLAG_TEXTS = 256 };
typedef struct sw_flag_texts {
    const char *item[SW_MOST_FLAG_TEXTS];
    int n;
} sw_flag_texts;

typedef struct sw_flag {
    const char *name;       /* "--dry-run" */
    const char *value_name; /* "N"; NULL for a switch */
    const char *about;
    sw_flag_kind kind;
    void *value; /* bool, const char *, sw_flag_texts, int64_t or double: holds the default, takes
                    what is given */
    double low, high; /* of numbers */
} sw_flag;

/* Sort the arguments into flags and the others, which are put into `others` [n_arguments] in their
 * order. `--flag value` and `--flag=value` are the same; after `--` nothing is a flag. Errors:
 * SW_BAD_CONFIG (unknown, repeated, without its value, out of range), with the nearest name. */
sw_status sw_arguments_sort(const sw_verb *verb, int n_arguments, char **arguments,
                            const sw_flag *flags, int n_flags, const char **others, int *n_others,
                            sw_error *err);

/* The size that a flag's text says, at least 1. Errors: SW_BAD_CONFIG, with what to write
 * instead. */
sw_status sw_arguments_size(const char *verb, const char *flag, const char *text, int64_t *bytes,
                            sw_error *err);

/* Usage and flags of a verb, on stdout. */
void sw_arguments_help(const sw_verb *verb, const sw_flag *flags, int n_flags);

/* The usual beginning of a verb: sort the arguments and demand at least `n_least` other ones;
 * `example` shows the use. *goes_on is false where --help (the last flag, a switch) is given: the
 * verb prints it and is done. Ownership: free() *others. */
sw_status sw_arguments_begin(const sw_verb *verb, int n_arguments, char **arguments,
                             const sw_flag *flags, int n_flags, int n_least, const char *example,
                             const char ***others, int *n_others, bool *goes_on, sw_error *err);

/* May this stream be coloured? A terminal, and NO_COLOR is not set. */
bool sw_is_coloured(FILE *stream);

/* "shardwise: warning: text" on stderr, in one line. */
void sw_print_warning(const char *text);

/* "shardwise: error: message" on stderr, in one line. */
void sw_print_error(const sw_error *err);

#endif
