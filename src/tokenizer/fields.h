/* fields.h: the values of a tokenizer.json, taken strictly, with messages that name file and
 * place. */
#ifndef SW_TOKENIZER_FIELDS_H
#define SW_TOKENIZER_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

/* A component of the file: an object, and how messages call it. */
typedef struct sw_part {
    const char *file;
    char where[96]; /* "pre_tokenizer.pretokenizers[1]" */
    json_t *object;
} sw_part;

typedef struct sw_text_span {
    const char *text; /* belongs to the document; NUL-terminated */
    size_t n_bytes;
} sw_text_span;

typedef enum sw_need { SW_ABSENT_IS_FINE, SW_NEEDED } sw_need;

/* Get the value of a key; null is the same as absent, and then *value stays as it is. Errors:
 * SW_BAD_FILE. */
sw_status sw_part_text(const sw_part *part, const char *key, sw_need need, sw_text_span *value,
                       sw_error *err);
sw_status sw_part_bool(const sw_part *part, const char *key, sw_need need, bool *value,
                       sw_error *err);
sw_status sw_part_integer(const sw_part *part, const char *key, sw_need need, int64_t low,
                          int64_t high, int64_t *value, sw_error *err);
sw_status sw_part_list(const sw_part *part, const char *key, sw_need need, json_t **value,
                       sw_error *err);

/* An object under a key: *child is filled, its `object` NULL when absent. */
sw_status sw_part_child(const sw_part *part, const char *key, sw_need need, sw_part *child,
                        sw_error *err);

/* Element i of a list under a key; it must be an object. */
sw_status sw_part_element(const sw_part *part, const char *key, json_t *list, size_t i,
                          sw_part *child, sw_error *err);

/* The component's "type". */
sw_status sw_part_type(const sw_part *part, const char **type, sw_error *err);

/* Read one step of a component, of the given "type", into `into`. */
typedef sw_status (*sw_part_read_fn)(const sw_part *step, const char *type, void *into,
                                     sw_error *err);

/* Read the steps of a component in order: those under `list_key` where it is a "Sequence", which
 * may lie in one another, else the component itself. */
sw_status sw_part_steps(const sw_part *part, const char *list_key, sw_part_read_fn read, void *into,
                        sw_error *err);

/* "FILE: WHERE: TYPE is a KIND that shardwise does not know". */
sw_status sw_part_unknown(const sw_part *part, const char *kind, const char *type, sw_error *err);

/* The kind of the next of at most `most` steps of a chain, by its type's name among names
 * [n_kinds]: *kind, the number of a name. Error: a type of no name, one step too many; `what` is
 * what a step is called. */
sw_status sw_part_step_kind(const sw_part *part, const char *what, const char *type,
                            const char *const *names, int n_kinds, int n_steps, int most, int *kind,
                            sw_error *err);

/* Which of the words is the text? `n_words` and an error when it is none. */
sw_status sw_part_choice(const sw_part *part, const char *key, sw_text_span text,
                         const char *const *words, int n_words, int *choice, sw_error *err);

#endif
