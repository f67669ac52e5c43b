/* yaml.h: a YAML document as a tree that remembers its lines.
 *
 * One document of maps, lists and scalars; scalars stay text until a reader asks for a number, so
 * that a message can say what stood there. Left out, by name, is what a settings file does not need
 * and what surprises: aliases, tags, keys that are not scalars, a key twice in one map, documents
 * after the first. Numbers are decimal (number.h): 1e-5 is one, and what readers of YAML 1.1 and
 * 1.2 take for different ones (010, 0x10, 1_000, 1:30) is none; yes, no, on and off are text.
 */
#ifndef SW_BASE_YAML_H
#define SW_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"

#define SW_YAML_MAX_BYTES (1 << 20)
#define SW_YAML_MAX_DEPTH 64
#define SW_YAML_MAX_KEYS 1000 /* in one map */

typedef enum sw_yaml_kind { SW_YAML_SCALAR, SW_YAML_LIST, SW_YAML_MAP } sw_yaml_kind;

typedef struct sw_yaml {
    sw_yaml_kind kind;
    int line;              /* from 1 */
    bool is_plain;         /* a scalar without quotes: only such are numbers, booleans and null */
    const char *text;      /* of a scalar */
    int n;                 /* items of a list or a map */
    const char **key;      /* [n] of a map */
    int *key_line;         /* [n] of a map */
    struct sw_yaml **item; /* [n] */
} sw_yaml;

/* Read `bytes` bytes of text; `name` stands for them in messages ("what · name:line · what to
 * try"). An empty document is a null scalar. Errors: SW_BAD_CONFIG, SW_NO_MEMORY. Ownership: the
 * tree lies in the arena. */
sw_status sw_yaml_parse(const char *name, const char *text, size_t bytes, sw_arena *arena,
                        sw_yaml **root, sw_error *err);

/* The value of `key` in a map, NULL if there is none. */
const sw_yaml *sw_yaml_get(const sw_yaml *map, const char *key);

/* What a scalar is. The number readers return false for anything else, numbers out of range
 * included; an integer may be written as a real without a fraction (1e9). */
bool sw_yaml_is_null(const sw_yaml *node);
bool sw_yaml_boolean(const sw_yaml *node, bool *value);
bool sw_yaml_integer(const sw_yaml *node, int64_t *value);
bool sw_yaml_real(const sw_yaml *node, double *value);

/* Do two trees say the same? Numbers and null are compared by value, other scalars by text, maps
 * without regard to order. */
bool sw_yaml_equal(const sw_yaml *a, const sw_yaml *b);

/* Text as a YAML scalar that reads back as that text: plain where it can be, else in double quotes.
 * The text is UTF-8. NULL when memory is short. */
char *sw_yaml_quote(const char *text, sw_arena *arena);

#endif
