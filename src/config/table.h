/* table.h: the table of options as data, for code that walks them: find a key, suggest one, refuse
 * a value. */
#ifndef SW_CONFIG_TABLE_H
#define SW_CONFIG_TABLE_H

#include <stddef.h>

#include "base/yaml.h"
#include "config/settings.h"

typedef enum sw_option_kind {
    SW_KIND_PATH,
    SW_KIND_COUNT,
    SW_KIND_COUNT_AUTO,
    SW_KIND_BYTES,
    SW_KIND_REAL,
    SW_KIND_REAL_AUTO,
    SW_KIND_BOOL,
    SW_KIND_CHOICE,
    SW_KIND_LONG = SW_KIND_CHOICE,
    SW_KIND_PATHS,
    SW_KIND_PAIR,
    SW_KIND_REALS,
    SW_KIND_WRAP,
    SW_KIND_TRAIN,
    SW_KIND_NAMES,
    SW_KIND_TEXT,    /* or null */
    SW_KIND_COLUMNS, /* a map; null: each column by its own name */
    SW_KIND_MAP,
    SW_KIND_LORA = SW_KIND_MAP,
    SW_KIND_LIMITS = SW_KIND_MAP,
    SW_KIND_SPIKE, /* a map, or null */
    SW_KIND_LIMIT, /* a real above 0; null: 0 */
    SW_KIND_RESUME,
    SW_KIND_OFF
} sw_option_kind;

/* SW_OPTION_train_steps and so on: the place of each option in the table. */
#define SW_OPTION_ID(section, name, kind, fallback, allowed, help) SW_OPTION_##section##_##name,
#define SW_OPTION_IDS(section, OPTIONS) OPTIONS(SW_OPTION_ID)
typedef enum sw_option_id { SW_SECTIONS(SW_OPTION_IDS) SW_N_OPTIONS } sw_option_id;
#undef SW_OPTION_IDS
#undef SW_OPTION_ID

typedef struct sw_option {
    const char *section, *key;
    sw_option_kind kind;
    const char *fallback, *allowed, *help;
    size_t offset; /* of the field in sw_settings */
} sw_option;

extern const sw_option sw_option_table[SW_N_OPTIONS];

/* The parts of an option that is a map, as options of a section "model.lora"; *n_parts of them, at
 * most SW_MOST_PARTS. */
enum { SW_MOST_PARTS = 16 };
const sw_option *sw_option_parts(const sw_option *option, int *n_parts);

/* Section `i` in the order of the file, NULL after the last. */
const char *sw_option_section(int i);

/* The option, NULL if the section has no such key. */
const sw_option *sw_option_find(const char *section, const char *key);

/* What to try in place of a key that `section` does not have (section NULL: it stood outside all
 * sections): the section where it belongs, or the nearest name. */
char *sw_option_suggest(const char *section, const char *key, char *buffer, size_t bytes);

/* The name of what this value asks for, if it is known and not built yet ("mixtures of experts");
 * else NULL. */
const char *sw_option_unbuilt(const sw_option *option, const sw_yaml *value);

/* Where something was written: a file and a line; line 0 is the file, or the command line, as a
 * whole. */
typedef struct sw_place {
    const char *name;
    int line;
} sw_place;

/* SW_BAD_CONFIG with "what · where · remedy"; the remedy may be NULL. */
sw_status sw_refuse(sw_error *err, sw_place place, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
