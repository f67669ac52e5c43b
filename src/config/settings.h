/* settings.h: run.yaml as a struct. One table makes the struct, the parser, --help, the reference
 * page and the start-up print.
 *
 * X(section, name, KIND, default as it would stand in YAML, allowed, help)
 *   KIND     PATH (null: NULL; a word of `allowed` stays as it is) COUNT (int64) COUNT_AUTO (int64,
 *            -1 is `auto`) TEXT (null: NULL) BYTES (int64; 2GiB; null: 0) REAL REAL_AUTO (double,
 *            -1 is `auto`) BOOL PATHS (list) CHOICE (int: index into allowed) PAIR (two reals)
 *            REALS (list; null: none) LORA, LIMITS, SPIKE, COLUMNS (maps) WRAP TRAIN (`all`, `lora`
 *            or name patterns) RESUME (`auto`, `never` or a map) OFF (a feature that is not built
 *            yet: only the value that means "off" is taken; it has no field)
 *   allowed  CHOICE: the words that are built, "a|b|c". Numbers: "min..max", either may be absent,
 *            ">min" and "<max" exclude the bound itself. "" for any. A word that is known and not
 *            built yet is absent here and refused by name.
 */
#ifndef SW_CONFIG_SETTINGS_H
#define SW_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"
#include "base/columns.h"

typedef struct sw_texts {
    int n;
    const char **item;
} sw_texts;

typedef struct sw_pair {
    double first, second;
} sw_pair;

typedef struct sw_reals {
    int n;
    double *item;
} sw_reals;

typedef struct sw_lora_settings {
    int64_t rank; /* above 0 */
    double alpha, dropout;
    bool rslora;
    sw_texts targets;    /* at least one */
    const char *adapter; /* a folder, absolute; NULL: new adapters */
} sw_lora_settings;

typedef struct sw_spike_settings {
    double factor; /* 0: off */
    int action;    /* SW_SPIKE_ */
} sw_spike_settings;

typedef struct sw_limit_settings {
    double min_tokens_per_s, max_validation_loss, max_hours; /* 0: none */
} sw_limit_settings;

typedef struct sw_resume_settings {
    bool never;
    sw_texts force; /* "section.key" */
} sw_resume_settings;

#define SW_AUTO (-1)

/* Why an option that is `auto` has the value that it has: "usual for adapters"; NULL where the
 * value was given. */
typedef struct sw_chosen {
    const char *learning_rate, *weight_decay, *warmup_steps;
} sw_chosen;

#define SW_FIELD_PATH(name) const char *name;
#define SW_FIELD_COUNT(name) int64_t name;
#define SW_FIELD_COUNT_AUTO(name) int64_t name;
#define SW_FIELD_BYTES(name) int64_t name;
#define SW_FIELD_REAL(name) double name;
#define SW_FIELD_REAL_AUTO(name) double name;
#define SW_FIELD_BOOL(name) bool name;
#define SW_FIELD_CHOICE(name) int name;
#define SW_FIELD_LONG(name) int name##_documents; /* a CHOICE whose key is a word of C */
#define SW_FIELD_PATHS(name) sw_texts name;
#define SW_FIELD_PAIR(name) sw_pair name;
#define SW_FIELD_REALS(name) sw_reals name;
#define SW_FIELD_WRAP(name) int64_t name;   /* 0: block; else min_parameters */
#define SW_FIELD_TRAIN(name) sw_texts name; /* {1, {"all"}}, {1, {"lora"}} or patterns */
#define SW_FIELD_TEXT(name) const char *name;
#define SW_FIELD_COLUMNS(name) sw_columns name;
#define SW_FIELD_LORA(name) sw_lora_settings name;
#define SW_FIELD_SPIKE(name) sw_spike_settings name;
#define SW_FIELD_LIMITS(name) sw_limit_settings name;
#define SW_FIELD_RESUME(name) sw_resume_settings name;
#define SW_FIELD_OFF(name)

#include "base/dtype.h"
#include "config/options.h"

#define SW_SECTION_FIELD(section, name, kind, fallback, allowed, help) SW_FIELD_##kind(name)
#define SW_SECTION_STRUCT(section, OPTIONS) \
    struct {                                \
        OPTIONS(SW_SECTION_FIELD)           \
    } section;
typedef struct sw_settings {
    sw_arena arena;
    const char *name;              /* of the file, for messages */
    const char *directory;         /* that relative paths count from: of run.yaml */
    sw_chosen chosen;              /* what `auto` was in the file, and is a number by now */
    SW_SECTIONS(SW_SECTION_STRUCT) /* settings.model.path, settings.train.steps ... */
} sw_settings;
#undef SW_SECTION_STRUCT
#undef SW_SECTION_FIELD

/* Read a file and the overrides "section.key=value", of which a later one counts. Unknown keys,
 * keys twice in the file, wrong types and values out of range are SW_BAD_CONFIG with file, line,
 * key and the nearest valid name. PATHs come out absolute. Ownership: sw_settings_free. */
sw_status sw_settings_read(const char *path, const char *const *overrides, int n_overrides,
                           sw_settings *settings, sw_error *err);
/* The same from text instead of a file: `name` stands for it in messages, paths count from
 * `directory`, an absolute path. Paths in overrides count from there too. */
sw_status sw_settings_parse(const char *name, const char *directory, const char *text,
                            const char *const *overrides, int n_overrides, sw_settings *settings,
                            sw_error *err);
/* The same for a caller who has text and no file: `directory` may be relative, or NULL, which is
 * the working directory. */
sw_status sw_settings_read_text(const char *text, const char *directory,
                                const char *const *overrides, int n_overrides,
                                sw_settings *settings, sw_error *err);
void sw_settings_free(sw_settings *settings);

/* Is a model named? And is everything else there that training cannot do without: data, a length
 * and a folder? SW_BAD_CONFIG names what is missing. */
sw_status sw_settings_name_model(const sw_settings *settings, sw_error *err);
sw_status sw_settings_complete(const sw_settings *settings, sw_error *err);

/* Are the model, the tokenizer, the data and the adapter paths, or names of the Hugging Face Hub?
 * SW_BAD_FILE has the command that fetches what is named so and not there. Looks at the file
 * system. */
sw_status sw_settings_find_models(const sw_settings *settings, sw_error *err);

/* What gathered parameters are computed in. */
sw_dtype sw_settings_parameter_dtype(const sw_settings *settings);

/* The learning rate, weight decay and warm-up that are `auto` are chosen when settings are read, by
 * the kind of run; but the warm-up stays SW_AUTO where train.steps is not given. Then this chooses
 * it, for a run of `n_steps`. */
void sw_settings_choose_warmup(sw_settings *settings, int64_t n_steps);

/* The learning rate that is usual for the kind of run, and the kind in words: "fine-tuning a whole
 * model". */
double sw_settings_usual_rate(const sw_settings *settings, const char **kind);

/* Is data.tokenizer the word `bytes`? Then every byte of a text is a token. */
bool sw_settings_is_bytes(const sw_settings *settings);

/* The word of data.chat_format. */
const char *sw_settings_chat_format(const sw_settings *settings);

/* Does the run train adapters (train: lora)? */
bool sw_settings_train_lora(const sw_settings *settings);

/* All settings as YAML that reads back to the same settings; what was chosen has its reason beside
 * it, as a comment. Ownership: free() the text. */
char *sw_settings_yaml(const sw_settings *settings);

/* The settings for people, a section a line: "train: steps 100, epochs 0, ...". The dimensions of a
 * new model are left out where the model exists. */
void sw_settings_tell(const sw_settings *settings, void (*line)(void *to, const char *text),
                      void *to);

/* The reference: `shardwise train --help` and docs/reference.md come from it. */
void sw_settings_reference(void (*line)(void *to, const char *text), void *to, bool as_markdown);

#endif
