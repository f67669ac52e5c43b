/* check.c: options against each other. Each rule stands alone: a condition, the options that it
 * concerns, what to try. */
#include "config/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hub_name.h"
#include "base/text.h"
#include "config/choose.h"

/* The place of the first of these options that was written. */
static sw_place place_of(const sw_place *written, sw_option_id first, sw_option_id second) {
    return written[first].name    ? written[first]
           : written[second].name ? written[second]
                                  : written[SW_N_OPTIONS];
}

/* Is this number or switch something else than its default? */
static bool differs(const sw_settings *settings, const sw_settings *defaults, sw_option_id id) {
    const sw_option *option = &sw_option_table[id];
    size_t bytes = option->kind == SW_KIND_BOOL ? sizeof(bool) : sizeof(int64_t);
    return memcmp((const char *)settings + option->offset, (const char *)defaults + option->offset,
                  bytes) != 0;
}

/* What a new model is made of, and a model that exists has in its own config.json. */
static const sw_option_id dimensions[] = {
    SW_OPTION_model_layers,        SW_OPTION_model_hidden,   SW_OPTION_model_heads,
    SW_OPTION_model_kv_heads,      SW_OPTION_model_ffn,      SW_OPTION_model_vocab,
    SW_OPTION_model_max_positions, SW_OPTION_model_tied,     SW_OPTION_model_rope_theta,
    SW_OPTION_model_norm_epsilon,  SW_OPTION_model_init_std,
};
enum { N_DIMENSIONS = sizeof dimensions / sizeof *dimensions };

bool sw_settings_is_dimension(sw_option_id id) {
    for (int i = 0; i < N_DIMENSIONS; i++)
        if (dimensions[i] == id)
            return true;
    return false;
}

/* The divisor of n that is nearest to x, the smaller of two. */
static int64_t nearest_divisor(int64_t n, int64_t x) {
    for (int64_t distance = 0; distance < x; distance++) {
        if (n % (x - distance) == 0)
            return x - distance;
        if (x + distance <= n && n % (x + distance) == 0)
            return x + distance;
    }
    return 1;
}

/* `whole` is cut into equal parts: is it divisible? */
static sw_status check_divides(sw_option_id whole_id, int64_t whole, sw_option_id parts_id,
                               int64_t parts, const sw_place *written, sw_error *err) {
    if (whole % parts == 0)
        return SW_OK;
    char remedy[100];
    const char *whole_key = sw_option_table[whole_id].key,
               *parts_key = sw_option_table[parts_id].key;
    snprintf(remedy, sizeof remedy, "nearest that fits: %s %" PRId64, parts_key,
             nearest_divisor(whole, parts));
    return sw_refuse(err, place_of(written, parts_id, whole_id), remedy,
                     "model.%s: %" PRId64 " is not divisible by model.%s %" PRId64, whole_key,
                     whole, parts_key, parts);
}

static sw_status check_model(sw_settings *settings, const sw_settings *defaults,
                             const sw_place *written, sw_error *err) {
    bool is_new = settings->model.architecture != SW_ARCHITECTURE_UNSET;
    if (is_new && settings->model.path)
        return sw_refuse(err, place_of(written, SW_OPTION_model_architecture, SW_OPTION_model_path),
                         "keep one of them",
                         "model.path and model.architecture are both given: the model comes from "
                         "the one or is new by the other");
    for (int i = 0; i < N_DIMENSIONS && !is_new; i++)
        if (differs(settings, defaults, dimensions[i]))
            return sw_refuse(
                err, place_of(written, dimensions[i], SW_OPTION_model_path),
                settings->model.path ? "leave it out" : "add model.architecture: llama or gpt2",
                settings->model.path ? "model.%s: it comes from the config.json of model.path"
                                     : "model.%s is given without model.architecture",
                sw_option_table[dimensions[i]].key);
    const struct {
        sw_option_id option;
        bool is_missing;
    } needed[] = {
        {SW_OPTION_model_layers, !settings->model.layers},
        {SW_OPTION_model_hidden, !settings->model.hidden},
        {SW_OPTION_model_heads, !settings->model.heads},
        {SW_OPTION_model_ffn,
         !settings->model.ffn && settings->model.architecture != SW_ARCHITECTURE_GPT2},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed && is_new; i++)
        if (needed[i].is_missing)
            return sw_refuse(err, place_of(written, needed[i].option, SW_OPTION_model_architecture),
                             NULL, "a new model needs model.%s",
                             sw_option_table[needed[i].option].key);
    if (!is_new)
        return SW_OK;
    if (!settings->model.kv_heads)
        settings->model.kv_heads = settings->model.heads;
    if (!settings->model.ffn)
        settings->model.ffn = 4 * settings->model.hidden;
    sw_status status = check_divides(SW_OPTION_model_hidden, settings->model.hidden,
                                     SW_OPTION_model_heads, settings->model.heads, written, err);
    if (!status)
        status = check_divides(SW_OPTION_model_heads, settings->model.heads,
                               SW_OPTION_model_kv_heads, settings->model.kv_heads, written, err);
    if (status)
        return status;
    bool is_bytes = sw_settings_is_bytes(settings);
    if (settings->model.vocab == SW_AUTO && !settings->data.tokenizer)
        return sw_refuse(err,
                         place_of(written, SW_OPTION_model_vocab, SW_OPTION_model_architecture),
                         "write the number of token ids, or give data.tokenizer",
                         "model.vocab: auto needs a tokenizer");
    if (settings->model.vocab != SW_AUTO && settings->model.vocab < 256 && is_bytes)
        return sw_refuse(err, place_of(written, SW_OPTION_model_vocab, SW_OPTION_data_tokenizer),
                         "write auto, 256 or more",
                         "model.vocab: %" PRId64
                         " is too small for the 256 ids of data.tokenizer: bytes",
                         settings->model.vocab);
    if (settings->data.sequence_length > settings->model.max_positions)
        return sw_refuse(
            err, place_of(written, SW_OPTION_data_sequence_length, SW_OPTION_model_max_positions),
            "shorten the one or raise the other",
            "data.sequence_length: %" PRId64 " is more than model.max_positions %" PRId64,
            settings->data.sequence_length, settings->model.max_positions);
    return SW_OK;
}

static sw_status check_mix(const sw_settings *settings, const sw_place *written, sw_error *err) {
    if (!settings->data.mix.n || settings->data.mix.n == settings->data.train.n)
        return SW_OK;
    return sw_refuse(err, place_of(written, SW_OPTION_data_mix, SW_OPTION_data_train),
                     "write one weight for each entry", "data.mix has %d %s, data.train %d %s",
                     settings->data.mix.n, sw_text_noun(settings->data.mix.n, "weight", "weights"),
                     settings->data.train.n,
                     sw_text_noun(settings->data.train.n, "entry", "entries"));
}

const char *sw_settings_chat_format(const sw_settings *settings) {
    static const char *const words[] = {"auto",       "chatml",     "llama2", "llama3", "mistral",
                                        "mistral-v3", "mistral-v1", "zephyr", "gemma"};
    return words[settings->data.chat_format];
}

bool sw_settings_train_lora(const sw_settings *settings) {
    return settings->model.train.n == 1 && !strcmp(settings->model.train.item[0], "lora");
}

/* Adapters belong to a model that exists. What is said about them and would not be used is a
 * mistake. */
static sw_status check_lora(const sw_settings *settings, const sw_settings *defaults,
                            const sw_place *written, sw_error *err) {
    const sw_lora_settings *lora = &settings->model.lora, *usual = &defaults->model.lora;
    bool is_lora = sw_settings_train_lora(settings),
         differs_here = lora->rank != usual->rank || lora->alpha != usual->alpha ||
                        lora->dropout != usual->dropout || lora->rslora != usual->rslora ||
                        lora->adapter;
    differs_here = differs_here || lora->targets.n != usual->targets.n;
    for (int i = 0; i < lora->targets.n && !differs_here; i++)
        differs_here = strcmp(lora->targets.item[i], usual->targets.item[i]) != 0;
    if (!is_lora && differs_here)
        return sw_refuse(err, place_of(written, SW_OPTION_model_lora, SW_OPTION_model_train),
                         "write model.train: lora",
                         "model.lora is given, but model.train is not lora");
    if (is_lora && settings->model.architecture != SW_ARCHITECTURE_UNSET)
        return sw_refuse(
            err, place_of(written, SW_OPTION_model_train, SW_OPTION_model_architecture),
            "name a Hugging Face directory in model.path",
            "model.train: lora adds adapters to a model that exists, and this one is new");
    return SW_OK;
}

static sw_status check_batches(const sw_settings *settings, const sw_place *written,
                               sw_error *err) {
    int64_t batch = settings->train.batch_size, micro = settings->train.micro_batch_size;
    if (micro == SW_AUTO || batch % micro == 0)
        return SW_OK;
    char remedy[160];
    sw_place place =
        place_of(written, SW_OPTION_train_micro_batch_size, SW_OPTION_train_batch_size);
    if (micro > batch) {
        snprintf(remedy, sizeof remedy, "write micro_batch_size: %" PRId64 " or less", batch);
        return sw_refuse(err, place, remedy,
                         "train.micro_batch_size: %" PRId64
                         " is more than train.batch_size %" PRId64,
                         micro, batch);
    }
    int64_t below = batch / micro * micro;
    snprintf(remedy, sizeof remedy,
             "nearest that fit: batch_size %" PRId64 " or %" PRId64
             ", or micro_batch_size %" PRId64,
             below, below + micro, nearest_divisor(batch, micro));
    return sw_refuse(err, place, remedy,
                     "train.batch_size: %" PRId64
                     " is not divisible by train.micro_batch_size %" PRId64,
                     batch, micro);
}

static sw_status check_length(const sw_settings *settings, const sw_place *written, sw_error *err) {
    static const sw_option_id lengths[] = {SW_OPTION_train_steps, SW_OPTION_train_epochs,
                                           SW_OPTION_train_tokens};
    const int64_t value[] = {settings->train.steps, settings->train.epochs, settings->train.tokens};
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (value[i] && value[j])
                return sw_refuse(
                    err, place_of(written, lengths[j], lengths[i]), "keep one of them",
                    "train.%s and train.%s are both given: either says how long to train",
                    sw_option_table[lengths[i]].key, sw_option_table[lengths[j]].key);
    if (settings->train.steps && settings->optimizer.warmup_steps > settings->train.steps)
        return sw_refuse(err,
                         place_of(written, SW_OPTION_optimizer_warmup_steps, SW_OPTION_train_steps),
                         "warm up for fewer steps, or train for more",
                         "optimizer.warmup_steps: %" PRId64 " is more than train.steps %" PRId64,
                         settings->optimizer.warmup_steps, settings->train.steps);
    return SW_OK;
}

/* Guards that could never do what they say. */
static sw_status check_guards(const sw_settings *settings, const sw_place *written, sw_error *err) {
    const sw_spike_settings *spike = &settings->guard.loss_spike;
    if (settings->guard.limits.max_validation_loss > 0 && !settings->data.validation.n)
        return sw_refuse(err, place_of(written, SW_OPTION_guard_limits, SW_OPTION_data_validation),
                         "name held-out files in data.validation",
                         "guard.limits.max_validation_loss is given without data to validate on");
    if (spike->factor > 0 && spike->action == SW_SPIKE_ROLLBACK && !settings->checkpoint.every)
        return sw_refuse(
            err, place_of(written, SW_OPTION_guard_loss_spike, SW_OPTION_checkpoint_every),
            "write checkpoint.every, or action: skip or stop",
            "guard.loss_spike rolls back to a checkpoint, and checkpoint.every: 0 makes none");
    if (settings->train.elastic && !settings->train.restarts)
        return sw_refuse(err, place_of(written, SW_OPTION_train_elastic, SW_OPTION_train_restarts),
                         "write train.restarts",
                         "train.elastic restarts with the ranks that are left, and train.restarts: "
                         "0 allows no restart");
    return SW_OK;
}

sw_status sw_settings_check(sw_settings *settings, const sw_settings *defaults,
                            const sw_place *written, sw_error *err) {
    sw_status status = check_model(settings, defaults, written, err);
    if (!status)
        status = check_mix(settings, written, err);
    if (!status)
        status = check_lora(settings, defaults, written, err);
    if (!status)
        status = check_batches(settings, written, err);
    if (!status)
        status = check_length(settings, written, err);
    if (!status)
        status = check_guards(settings, written, err);
    if (!status && settings->train.validate_every && !settings->data.validation.n)
        status = sw_refuse(
            err, place_of(written, SW_OPTION_train_validate_every, SW_OPTION_data_validation),
            "name held-out files in data.validation",
            "train.validate_every is given without data to validate on");
    if (!status && settings->train.reproducible &&
        settings->shard.accumulate == SW_ACCUMULATE_UNSHARDED)
        status = sw_refuse(
            err, place_of(written, SW_OPTION_train_reproducible, SW_OPTION_shard_accumulate),
            "write shard.accumulate: sharded",
            "train.reproducible: unsharded sums depend on the number of ranks");
    if (!status)
        sw_settings_choose(settings);
    if (!status && settings->optimizer.momentum > 0 &&
        !sw_optimizer_takes((sw_optimizer_kind)settings->optimizer.name, SW_NUMBER(momentum)))
        status = sw_refuse(
            err, place_of(written, SW_OPTION_optimizer_momentum, SW_OPTION_optimizer_name),
            "leave it out, or write name: sgd", "optimizer.momentum is an option of sgd");
    return status;
}

/* A name of the Hugging Face Hub, where a path counts from the folder of the file. `pattern`: as of
 * sw_hub_fetch_command. */
static sw_status refuse_hub_name(const sw_settings *settings, sw_place place, const char *key,
                                 const char *path, const char *pattern, sw_error *err) {
    char command[SW_FETCH_BYTES], remedy[SW_FETCH_BYTES + 200], here[SW_PATH_BYTES];
    const char *folder = settings->directory, *name;
    size_t n = strlen(folder);
    if (!path || strncmp(path, folder, n) != 0 || path[n] != '/' ||
        !sw_is_hub_name(folder, path + n + 1, &name))
        return SW_OK;
    if (getcwd(here, sizeof here) && !strcmp(here, folder))
        folder = ".";
    sw_hub_fetch_command(name, folder, pattern, command);
    snprintf(remedy, sizeof remedy,
             "if it is a name of the Hugging Face Hub, fetch it: %s (hf comes with pip install "
             "huggingface_hub), and write %s: %s",
             command, key, sw_hub_base_name(name));
    sw_refuse(err, place, remedy, "%s: there is no %s here", key, path + n + 1);
    return err ? (err->status = SW_BAD_FILE) : SW_BAD_FILE;
}

/* OWNER/NAME among data; a word alone is rather a file that is missing. */
static sw_status refuse_data_sets(const sw_settings *settings, sw_place place, const char *key,
                                  const sw_texts *paths, sw_error *err) {
    sw_status status = SW_OK;
    const size_t n = strlen(settings->directory);
    for (int i = 0; i < paths->n && !status; i++)
        if (strlen(paths->item[i]) > n + 1 && strchr(paths->item[i] + n + 1, '/'))
            status = refuse_hub_name(settings, place, key, paths->item[i], SW_HUB_DATA_SET, err);
    return status;
}

sw_status sw_settings_find_models(const sw_settings *settings, sw_error *err) {
    sw_place place = {settings->name, 0};
    sw_status status =
        refuse_hub_name(settings, place, "model.path", settings->model.path, NULL, err);
    if (!status && !sw_settings_is_bytes(settings))
        status = refuse_hub_name(settings, place, "data.tokenizer", settings->data.tokenizer,
                                 "tokenizer*", err);
    if (!status)
        status = refuse_data_sets(settings, place, "data.train", &settings->data.train, err);
    if (!status)
        status =
            refuse_data_sets(settings, place, "data.validation", &settings->data.validation, err);
    if (!status && sw_settings_train_lora(settings))
        status = refuse_hub_name(settings, place, "model.lora.adapter",
                                 settings->model.lora.adapter, NULL, err);
    return status;
}

sw_status sw_settings_name_model(const sw_settings *settings, sw_error *err) {
    sw_place place = {settings->name, 0};
    if (!settings->model.path && settings->model.architecture == SW_ARCHITECTURE_UNSET)
        return sw_refuse(err, place, "write model.path, or model.architecture and dimensions",
                         "no model is named");
    return SW_OK;
}

sw_status sw_settings_complete(const sw_settings *settings, sw_error *err) {
    sw_place place = {settings->name, 0};
    if (!settings->data.train.n)
        return sw_refuse(err, place, "write data.train", "there is no data to train on");
    if (!settings->train.steps && !settings->train.epochs && !settings->train.tokens)
        return sw_refuse(err, place, "write train.steps, train.epochs or train.tokens",
                         "it is not said how long to train");
    if (!settings->checkpoint.path)
        return sw_refuse(err, place, "write checkpoint.path, a new folder",
                         "the run has no folder");
    return SW_OK;
}
