/* settings.h: run.yaml as a struct. One table makes the struct, the parser, --help, the reference page and the start-up print.
 *
 * X(section, name, KIND, default as it would stand in YAML, allowed, help)
 *   KIND     TEXT  PATH  COUNT (int64)  BYTES (int64; 2GiB)  REAL  BOOL  CHOICE (int: index into allowed)  TEXTS (list)  PATHS (list)  PAIR (two reals)
 *            COUNT_AUTO (int64, -1 is `auto`), WRAP, TRAIN (`all` or name patterns)
 *   allowed  CHOICE: the words that are built, "a|b|c"; numbers: "min..max", "" for any. A word that product.md knows and we do not
 *            build yet is absent here and refused by name.
 */
#ifndef SW_CONFIG_SETTINGS_H
#define SW_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"

typedef struct sw_texts {
    int n;
    const char **item;
} sw_texts;

#define SW_KIND_TYPE_TEXT const char *
#define SW_KIND_TYPE_PATH const char *
#define SW_KIND_TYPE_COUNT int64_t
#define SW_KIND_TYPE_COUNT_AUTO int64_t
#define SW_KIND_TYPE_BYTES int64_t
#define SW_KIND_TYPE_REAL double
#define SW_KIND_TYPE_BOOL bool
#define SW_KIND_TYPE_CHOICE int
#define SW_KIND_TYPE_TEXTS sw_texts
#define SW_KIND_TYPE_PATHS sw_texts
#define SW_KIND_TYPE_TRAIN sw_texts /* {1, {"all"}} or patterns */
#define SW_KIND_TYPE_PAIR struct { double first, second; }
#define SW_KIND_TYPE_WRAP int64_t /* 0: block; else min_parameters */
#define SW_AUTO (-1)

#include "config/options.h"

#define SW_SECTION_FIELD(section, name, kind, fallback, allowed, help) SW_KIND_TYPE_##kind name;
typedef struct sw_settings {
    sw_arena arena;
    const char *directory; /* that relative paths count from: of run.yaml */
    struct { SW_OPTIONS_MODEL(SW_SECTION_FIELD) } model;
    struct { SW_OPTIONS_DATA(SW_SECTION_FIELD) } data;
    struct { SW_OPTIONS_TRAIN(SW_SECTION_FIELD) } train;
    struct { SW_OPTIONS_OPTIMIZER(SW_SECTION_FIELD) } optimizer;
    struct { SW_OPTIONS_SHARD(SW_SECTION_FIELD) } shard;
    struct { SW_OPTIONS_PARALLEL(SW_SECTION_FIELD) } parallel;
    struct { SW_OPTIONS_CHECKPOINT(SW_SECTION_FIELD) } checkpoint;
    struct { SW_OPTIONS_GUARD(SW_SECTION_FIELD) } guard;
    struct { SW_OPTIONS_LOG(SW_SECTION_FIELD) } log;
} sw_settings;
#undef SW_SECTION_FIELD

/* Read a file and the overrides "section.key=value". Unknown keys, repeated keys, wrong types and values out of range are SW_BAD_CONFIG with file,
 * line, key and the nearest valid name. PATHs come out absolute. Ownership: sw_settings_free. */
sw_status sw_settings_read(const char *path, const char *const *overrides, int n_overrides, sw_settings *settings, sw_error *err);
/* The same from text instead of a file: `name` stands for it in messages, paths count from `directory`. */
sw_status sw_settings_parse(const char *name, const char *directory, const char *text, const char *const *overrides, int n_overrides, sw_settings *settings, sw_error *err);
void sw_settings_free(sw_settings *settings);

/* All settings as YAML that reads back to the same settings. Ownership: free() the text. */
char *sw_settings_yaml(const sw_settings *settings);

/* The reference: `shardwise train --help` and docs/reference.md come from it. */
void sw_settings_reference(void (*line)(void *to, const char *text), void *to, bool as_markdown);

#endif
