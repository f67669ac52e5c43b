/* adapter_config.c: adapter_config.json in and out.
 *
 * As with config.json (hf/hf_config.c) keys are of three kinds: those that say what the adapter is;
 * those that change the arithmetic, which are refused by name where they are on; and those without
 * effect, such as how A was first drawn.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hub_name.h"
#include "base/json.h"
#include "base/json_number.h"
#include "base/text.h"
#include "hf/adapter.h"

enum { MAX_CONFIG_BYTES = 4 << 20, MAX_TARGETS = 65536 };

/* Reading goes on until the first error; then every further step does nothing. */
typedef struct reader {
    sw_json_object root;
    sw_status status;
    sw_error *err;
} reader;

static bool flag(reader *r, const char *key) {
    bool value = false;
    if (r->status == SW_OK)
        r->status = sw_json_bool(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

static double real_or(reader *r, const char *key, sw_json_need need, double value) {
    if (r->status == SW_OK)
        r->status = sw_json_real(&r->root, key, need, &value, r->err);
    return value;
}

static void refuse(reader *r, const char *key, const char *why) {
    if (r->status == SW_OK)
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: %s %s", sw_json_name(&r->root), key, why);
}

static void must_be_word(reader *r, const char *key, const char *word) {
    const char *value = word;
    if (r->status == SW_OK)
        r->status = sw_json_text(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    if (r->status == SW_OK && strcmp(value, word) != 0)
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: %s is \"%.60s\"; only \"%s\" is built",
                            sw_json_name(&r->root), key, value, word);
}

/* Absent, null, or an empty object. */
static void must_be_empty(reader *r, const char *key) {
    sw_json_object object;
    void *at = NULL;
    if (r->status != SW_OK || !sw_json_has(&r->root, key))
        return;
    if (sw_json_child(&r->root, key, &object, NULL) != SW_OK || sw_json_next_key(&object, &at))
        refuse(r, key, "is set, which changes what the adapter computes and is not built");
}

/* Absent, null, or an empty list. */
static void must_be_no_list(reader *r, const char *key) {
    const char *first;
    int n = 1;
    if (r->status != SW_OK || !sw_json_has(&r->root, key))
        return;
    if (sw_json_texts(&r->root, key, &first, 1, &n, NULL) != SW_OK || n > 0)
        refuse(r, key, "is set, which changes what the adapter computes and is not built");
}

/* Some ways to draw A change the base model too, and PEFT changes it again when it loads the
 * adapter. */
static void check_init(reader *r) {
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const char *word;
    if (r->status != SW_OK || !sw_json_has(&r->root, "init_lora_weights") ||
        sw_json_text(&r->root, "init_lora_weights", SW_JSON_REQUIRED, &word, NULL) != SW_OK)
        return;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(word, harmless[i]) == 0)
            return;
    r->status = sw_fail(r->err, SW_BAD_FILE,
                        "%s: init_lora_weights is \"%.60s\", which changes the base model too; "
                        "convert the adapter to plain LoRA",
                        sw_json_name(&r->root), word);
}

static void check_arithmetic(reader *r) {
    static const char *const flags[] = {"use_dora", "use_qalora", "lora_bias"};
    static const char *const lists[] = {"modules_to_save", "target_parameters",
                                        "trainable_token_indices", "layer_replication",
                                        "alora_invocation_tokens"};
    static const char *const objects[] = {"rank_pattern",      "alpha_pattern", "megatron_config",
                                          "use_bdlora",        "arrow_config",  "kasa_config",
                                          "monteclora_config", "velora_config"};
    must_be_word(r, "peft_type", "LORA");
    must_be_word(r, "bias", "none");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flag(r, flags[i]))
            refuse(r, flags[i],
                   "is true, which changes what the adapter computes and is not built");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        must_be_no_list(r, lists[i]);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        must_be_empty(r, objects[i]);
    check_init(r);
}

/* The output projection is computed together with the loss, and embeddings are no products: neither
 * takes an adapter. */
static void refuse_target(reader *r, const char *target) {
    static const char *const names[][2] = {{"lm_head", "the output projection"},
                                           {"embed_out", "the output projection"},
                                           {"embed_tokens", "the embedding"},
                                           {"wte", "the embedding"},
                                           {"wpe", "the position embedding"}};
    const char *point = strrchr(target, '.'), *last = point ? point + 1 : target;
    for (size_t i = 0; i < sizeof names / sizeof *names && r->status == SW_OK; i++)
        if (strcmp(last, names[i][0]) == 0)
            r->status = sw_fail(r->err, SW_BAD_FILE,
                                "%s: target_modules names %.100s: adapters on %s are not built; "
                                "train one without it",
                                sw_json_name(&r->root), target, names[i][1]);
}

static void read_targets(reader *r, sw_adapter_config *config) {
    int n = 0;
    config->chooses_by_names = sw_json_is_list(&r->root, "target_modules") &&
                               !sw_json_has(&r->root, "layers_to_transform") &&
                               !sw_json_has(&r->root, "exclude_modules");
    if (r->status != SW_OK || !sw_json_is_list(&r->root, "target_modules"))
        return;
    r->status = sw_json_texts(&r->root, "target_modules", NULL, 0, &n, r->err);
    if (r->status == SW_OK && (n < 1 || n > MAX_TARGETS))
        r->status =
            sw_fail(r->err, SW_BAD_FILE, "%s: target_modules has %d names; 1 to %d are possible",
                    sw_json_name(&r->root), n, MAX_TARGETS);
    if (r->status != SW_OK)
        return;
    const char **targets = sw_arena_take(&config->arena, (size_t)n * sizeof *targets);
    if (!targets) {
        r->status = sw_fail(r->err, SW_NO_MEMORY, "%s: no memory", sw_json_name(&r->root));
        return;
    }
    r->status = sw_json_texts(&r->root, "target_modules", targets, n, &n, r->err);
    for (int i = 0; i < n && r->status == SW_OK; i++)
        refuse_target(r, targets[i]);
    for (int i = 0; i < n && r->status == SW_OK; i++)
        if (!(targets[i] = sw_arena_text(&config->arena, targets[i])))
            r->status = sw_fail(r->err, SW_NO_MEMORY, "%s: no memory", sw_json_name(&r->root));
    config->lora.targets = targets;
    config->lora.n_targets = n;
}

static sw_status read_document(const sw_json *document, sw_adapter_config *config, sw_error *err) {
    reader r = {sw_json_root(document), SW_OK, err};
    sw_lora *lora = &config->lora;
    check_arithmetic(&r);
    if (r.status == SW_OK)
        r.status = sw_json_integer(&r.root, "r", SW_JSON_REQUIRED, &lora->rank, err);
    if (r.status == SW_OK && (lora->rank < 1 || lora->rank > INT32_MAX))
        refuse(&r, "r", "must be at least 1 and below 2^31");
    lora->alpha = real_or(&r, "lora_alpha", SW_JSON_REQUIRED, 0);
    if (r.status == SW_OK && !(lora->alpha > 0))
        refuse(&r, "lora_alpha", "must be above 0");
    lora->dropout = real_or(&r, "lora_dropout", SW_JSON_OPTIONAL, 0);
    if (r.status == SW_OK && !(lora->dropout >= 0 && lora->dropout < 1))
        refuse(&r, "lora_dropout", "must be from 0 to below 1");
    lora->is_rank_stabilised = flag(&r, "use_rslora");
    read_targets(&r, config);
    return r.status;
}

sw_status sw_adapter_config_parse(const char *name, const char *text, int64_t bytes,
                                  sw_adapter_config *config, sw_error *err) {
    sw_json *document = NULL;
    *config = (sw_adapter_config){0};
    sw_status status = sw_json_parse(name, text, bytes, &document, err);
    if (status == SW_OK)
        status = read_document(document, config, err);
    sw_json_free(document);
    return status;
}

static bool has_file(const char *directory, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, directory, name, NULL) == SW_OK && sw_file_exists(path);
}

/* What is at `directory`, if it is no adapter that can be read. */
static sw_status check_folder(const char *directory, sw_error *err) {
    struct stat info;
    sw_status status = sw_path_must_exist(directory, NULL, err);
    if (status != SW_OK)
        return status;
    if (stat(directory, &info) == 0 && !S_ISDIR(info.st_mode))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is a file, and an adapter is a folder: the one that holds %s and %s",
                       directory, SW_ADAPTER_CONFIG, SW_ADAPTER_WEIGHTS);
    if (has_file(directory, SW_ADAPTER_CONFIG) && !has_file(directory, SW_ADAPTER_WEIGHTS) &&
        has_file(directory, "adapter_model.bin"))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: holds its weights as a PyTorch pickle (adapter_model.bin), which is "
                       "not read because it can run code; "
                       "load it with PEFT and save_pretrained writes %s",
                       directory, SW_ADAPTER_WEIGHTS);
    if (has_file(directory, SW_ADAPTER_CONFIG))
        return SW_OK;
    if (has_file(directory, "model/" SW_ADAPTER_CONFIG))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is the folder of a run; the adapter is the folder model in it",
                       directory);
    return sw_fail(err, SW_BAD_FILE, "%s: holds no %s; an adapter is a folder as PEFT saves it",
                   directory, SW_ADAPTER_CONFIG);
}

sw_status sw_adapter_config_read(const char *directory, sw_adapter_config *config, sw_error *err) {
    char path[SW_PATH_BYTES], *text = NULL;
    int64_t bytes;
    *config = (sw_adapter_config){0};
    sw_status status = check_folder(directory, err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, SW_ADAPTER_CONFIG, err);
    if (status == SW_OK)
        status = sw_file_read(path, MAX_CONFIG_BYTES, &text, &bytes, err);
    if (status == SW_OK)
        status = sw_adapter_config_parse(path, text, bytes, config, err);
    free(text);
    return status;
}

void sw_adapter_config_free(sw_adapter_config *config) {
    sw_arena_free(&config->arena);
    *config = (sw_adapter_config){0};
}

/* ---- writing ---- */

/* The name of layer i in a list of targets: whole, or its last word, which is empty if an earlier
 * layer has the same. */
static void name_target(const sw_lora_layers *layers, int i, bool as_last_word, char name[1024]) {
    char earlier[1024];
    if (!sw_lora_module(layers->list.item[i].weight->name, name, 1024))
        name[0] = 0;
    const char *point = strrchr(name, '.');
    if (as_last_word && point)
        memmove(name, point + 1, strlen(point));
    for (int k = 0; k < i && as_last_word && name[0]; k++) {
        name_target(layers, k, false, earlier);
        point = strrchr(earlier, '.');
        if (strcmp(point ? point + 1 : earlier, name) == 0)
            name[0] = 0;
    }
}

/* PEFT knows ends of names: ours, where they are that; for all layers, their last words; for
 * patterns, the layers one by one. */
static json_t *list_targets(const sw_lora *lora, const sw_lora_layers *layers) {
    json_t *list = json_array();
    bool are_ends = true, are_all = false, is_done = list;
    for (int i = 0; i < lora->n_targets; i++) {
        are_all = are_all || strcmp(lora->targets[i], SW_LORA_ALL) == 0;
        are_ends = are_ends && !strpbrk(lora->targets[i], "*?[");
    }
    are_ends = are_ends && !are_all;
    int n = are_ends ? lora->n_targets : layers->list.n;
    for (int i = 0; i < n; i++) {
        char layer[1024];
        if (!are_ends)
            name_target(layers, i, are_all, layer);
        const char *name = are_ends ? lora->targets[i] : layer;
        if (*name)
            is_done = json_array_append_new(list, json_string(name)) == 0 && is_done;
    }
    if (is_done)
        return list;
    json_decref(list);
    return NULL; /* which json_pack takes for its own failure */
}

sw_status sw_adapter_config_write(const sw_lora *lora, const sw_lora_layers *layers,
                                  const char *base, char **json_text, sw_error *err) {
    bool is_transposed = false,
         is_whole = lora->alpha == floor(lora->alpha) && fabs(lora->alpha) < 1e15;
    for (int i = 0; i < layers->list.n; i++)
        is_transposed = is_transposed || layers->list.item[i].layout == SW_IN_OUT;
    json_t *config = json_pack(
        "{s:s, s:s, s:b, s:b, s:b, s:n, s:n, s:o, s:o, s:n, s:s, s:I, s:n, s:o, s:s, s:b, s:b}",
        "base_model_name_or_path", base, "bias", "none", "fan_in_fan_out", is_transposed,
        "inference_mode", true, "init_lora_weights", true, "layers_pattern", "layers_to_transform",
        "lora_alpha",
        is_whole ? json_integer((json_int_t)lora->alpha) : sw_json_number(lora->alpha),
        "lora_dropout", sw_json_number(lora->dropout), "modules_to_save", "peft_type", "LORA", "r",
        (json_int_t)lora->rank, "revision", "target_modules", list_targets(lora, layers),
        "task_type", "CAUSAL_LM", "use_dora", false, "use_rslora", lora->is_rank_stabilised);
    *json_text = config ? sw_json_shortest(config) : NULL;
    json_decref(config);
    return *json_text ? SW_OK
                      : sw_fail(err, SW_NO_MEMORY, "no memory to write %s", SW_ADAPTER_CONFIG);
}
