/* table.c: the options as one array, and the names that people write instead of theirs. */
#include "config/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* An option that is off has no field, and nothing reads its offset. */
#define OFFSET_PATH(field) offsetof(sw_settings, field)
#define OFFSET_COUNT(field) offsetof(sw_settings, field)
#define OFFSET_COUNT_AUTO(field) offsetof(sw_settings, field)
#define OFFSET_REAL_AUTO(field) offsetof(sw_settings, field)
#define OFFSET_BYTES(field) offsetof(sw_settings, field)
#define OFFSET_REAL(field) offsetof(sw_settings, field)
#define OFFSET_BOOL(field) offsetof(sw_settings, field)
#define OFFSET_CHOICE(field) offsetof(sw_settings, field)
#define OFFSET_LONG(field) offsetof(sw_settings, field##_documents)
#define OFFSET_PATHS(field) offsetof(sw_settings, field)
#define OFFSET_PAIR(field) offsetof(sw_settings, field)
#define OFFSET_REALS(field) offsetof(sw_settings, field)
#define OFFSET_WRAP(field) offsetof(sw_settings, field)
#define OFFSET_TRAIN(field) offsetof(sw_settings, field)
#define OFFSET_LORA(field) offsetof(sw_settings, field)
#define OFFSET_TEXT(field) offsetof(sw_settings, field)
#define OFFSET_COLUMNS(field) offsetof(sw_settings, field)
#define OFFSET_SPIKE(field) offsetof(sw_settings, field)
#define OFFSET_LIMITS(field) offsetof(sw_settings, field)
#define OFFSET_RESUME(field) offsetof(sw_settings, field)
#define OFFSET_OFF(field) 0

#define ROW(section, name, kind, fallback, allowed, help) \
    {#section, #name, SW_KIND_##kind, fallback, allowed, help, OFFSET_##kind(section.name)},
#define ROWS(section, OPTIONS) OPTIONS(ROW)
const sw_option sw_option_table[SW_N_OPTIONS] = {SW_SECTIONS(ROWS)};

#define PART(section, map, name, kind, fallback, allowed)                \
    {                                                                    \
#section "." #map, #name, SW_KIND_##kind, fallback, allowed, "", \
            offsetof(sw_settings, section.map.name)                      \
    }
static const sw_option lora_parts[] = {
    PART(model, lora, rank, COUNT, "8", "1..65536"), PART(model, lora, alpha, REAL, "16", ">0.."),
    PART(model, lora, targets, NAMES, "", ""),       PART(model, lora, dropout, REAL, "0", "0..<1"),
    PART(model, lora, rslora, BOOL, "false", ""),    PART(model, lora, adapter, PATH, "null", ""),
};
static const sw_option spike_parts[] = {
    PART(guard, loss_spike, factor, REAL, "3", ">1.."),
    PART(guard, loss_spike, action, CHOICE, "rollback", "rollback|skip|stop"),
};
static const sw_option limit_parts[] = {
    PART(guard, limits, min_tokens_per_s, LIMIT, "null", ">0.."),
    PART(guard, limits, max_validation_loss, LIMIT, "null", ">0.."),
    PART(guard, limits, max_hours, LIMIT, "null", ">0.."),
};

#define COLUMN(name) PART(data, columns, name, TEXT, #name, ""),
static const sw_option column_parts[] = {SW_COLUMNS(COLUMN)};

const sw_option *sw_option_parts(const sw_option *option, int *n_parts) {
    static const struct {
        sw_option_id id;
        const sw_option *parts;
        int n;
    } maps[] = {
        {SW_OPTION_model_lora, lora_parts, sizeof lora_parts / sizeof *lora_parts},
        {SW_OPTION_data_columns, column_parts, sizeof column_parts / sizeof *column_parts},
        {SW_OPTION_guard_loss_spike, spike_parts, sizeof spike_parts / sizeof *spike_parts},
        {SW_OPTION_guard_limits, limit_parts, sizeof limit_parts / sizeof *limit_parts},
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (&sw_option_table[maps[i].id] == option) {
            *n_parts = maps[i].n;
            return maps[i].parts;
        }
    *n_parts = 0;
    return NULL;
}

#define SECTION_NAME(section, OPTIONS) #section,
static const char *const sections[] = {SW_SECTIONS(SECTION_NAME)};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

const char *sw_option_section(int i) {
    return i < N_SECTIONS ? sections[i] : NULL;
}

const sw_option *sw_option_find(const char *section, const char *key) {
    for (int i = 0; i < SW_N_OPTIONS; i++)
        if (!strcmp(sw_option_table[i].section, section) && !strcmp(sw_option_table[i].key, key))
            return &sw_option_table[i];
    return NULL;
}

/* Names of the same things elsewhere, too far from ours for the edit distance. */
static const struct {
    const char *word;
    sw_option_id option;
} other_names[] = {
    {"lr", SW_OPTION_optimizer_learning_rate},
    {"num_epochs", SW_OPTION_train_epochs},
    {"num_train_epochs", SW_OPTION_train_epochs},
    {"max_steps", SW_OPTION_train_steps},
    {"total_steps", SW_OPTION_train_steps},
    {"iterations", SW_OPTION_train_steps},
    {"seq_len", SW_OPTION_data_sequence_length},
    {"block_size", SW_OPTION_data_sequence_length},
    {"gradient_accumulation_steps", SW_OPTION_train_micro_batch_size},
    {"per_device_train_batch_size", SW_OPTION_train_micro_batch_size},
    {"max_grad_norm", SW_OPTION_optimizer_clip_norm},
    {"gradient_clipping", SW_OPTION_optimizer_clip_norm},
    {"eps", SW_OPTION_optimizer_epsilon},
    {"zero_stage", SW_OPTION_shard_stage},
    {"world_size", SW_OPTION_shard_ranks},
    {"activation_checkpointing", SW_OPTION_shard_recompute},
    {"gradient_checkpointing", SW_OPTION_shard_recompute},
    {"output_dir", SW_OPTION_checkpoint_path},
    {"n_layers", SW_OPTION_model_layers},
    {"num_hidden_layers", SW_OPTION_model_layers},
    {"hidden_size", SW_OPTION_model_hidden},
    {"n_heads", SW_OPTION_model_heads},
    {"vocab_size", SW_OPTION_model_vocab},
};

static const sw_option *by_other_name(const char *key) {
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (!sw_text_distance(key, other_names[i].word))
            return &sw_option_table[other_names[i].option];
    return NULL;
}

/* The option of `section` (NULL: of any) whose key is nearest to the word, NULL if none is near. */
static const sw_option *nearest(const char *section, const char *word) {
    const char *keys[SW_N_OPTIONS];
    const sw_option *options[SW_N_OPTIONS];
    int n = 0;
    for (int i = 0; i < SW_N_OPTIONS; i++)
        if (!section || !strcmp(sw_option_table[i].section, section)) {
            options[n] = &sw_option_table[i];
            keys[n++] = sw_option_table[i].key;
        }
    const char *key = sw_text_nearest(word, keys, n);
    for (int i = 0; key && i < n; i++)
        if (keys[i] == key)
            return options[i];
    return NULL;
}

char *sw_option_suggest(const char *section, const char *key, char *buffer, size_t bytes) {
    const sw_option *option = section ? nearest(section, key) : NULL;
    bool is_exact = option && !sw_text_distance(key, option->key);
    if (!is_exact) { /* the same word in other sections beats a similar one in this */
        int n = 0;
        size_t used = 0;
        for (int i = 0; i < SW_N_OPTIONS && used < bytes; i++)
            if (!strcmp(sw_option_table[i].key, key))
                used +=
                    (size_t)snprintf(buffer + used, bytes - used, "%s%s",
                                     n++ ? " or " : "it belongs to ", sw_option_table[i].section);
        if (n)
            return buffer;
    }
    if (!is_exact && by_other_name(key))
        option = by_other_name(key);
    if (!option)
        option = nearest(NULL, key);
    if (option && section && !strcmp(option->section, section))
        snprintf(buffer, bytes, "did you mean %s?", option->key);
    else if (option)
        snprintf(buffer, bytes, "did you mean %s.%s?", option->section, option->key);
    else
        snprintf(buffer, bytes, "shardwise train --help lists all keys");
    return buffer;
}

/* Values that are known and not built yet. A match of "[" is any list, "{" any map, "#" any
 * number. */
static const struct {
    sw_option_id option;
    const char *match, *what;
} unbuilt[] = {
    {SW_OPTION_model_architecture, "mixtral", "mixtures of experts (mixtral)"},
    {SW_OPTION_model_architecture, "vit", "training on images (vit)"},
    {SW_OPTION_model_architecture, "clip", "training on images and captions (clip)"},
    {SW_OPTION_shard_reshard_after_forward, "#", "gathering again inside groups of ranks"},
    {SW_OPTION_shard_wrap, "[", "wrapping by name patterns"},
    {SW_OPTION_shard_reduce_dtype, "bf16", "reducing in bf16"},
};

const char *sw_option_unbuilt(const sw_option *option, const sw_yaml *value) {
    double number;
    bool is_number = sw_yaml_real(value, &number);
    for (size_t i = 0; i < sizeof unbuilt / sizeof *unbuilt; i++) {
        if (&sw_option_table[unbuilt[i].option] != option)
            continue;
        const char *match = unbuilt[i].match;
        bool is_met = *match == '['   ? value->kind == SW_YAML_LIST
                      : *match == '{' ? value->kind == SW_YAML_MAP
                      : *match == '#'
                          ? is_number && number > 0
                          : value->kind == SW_YAML_SCALAR && !strcmp(value->text, match);
        if (is_met)
            return unbuilt[i].what;
    }
    return NULL;
}

sw_status sw_refuse(sw_error *err, sw_place place, const char *remedy, const char *format, ...) {
    char what[SW_MESSAGE_BYTES / 2], line[16] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (place.line)
        snprintf(line, sizeof line, ":%d", place.line);
    return sw_fail(err, SW_BAD_CONFIG, "%s · %s%s%s%s", what, place.name, line, remedy ? " · " : "",
                   remedy ? remedy : "");
}
