/* A model that the caller brings: what is wrong with it is said by name, before anything is
 * written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "support/folder.h"

enum { CHANNELS = 8 };

static sw_parameter *table(sw_graph *g, sw_unit *unit, const char *name, int64_t rows) {
    return sw_parameter_declare(g, unit, name, 2, (int64_t[]){rows, CHANNELS}, SW_INIT_NORMAL, 0.1);
}

typedef struct plan {
    int64_t embedding_rows, head_rows;
    bool embeds_targets, has_no_loss, shares_head, predicts;
} plan;

static sw_status trace(void *self, sw_graph *g, sw_error *err) {
    const plan *p = self;
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *embedding = table(g, root, "embedding", p->embedding_rows),
                 *head = p->shares_head ? embedding : table(g, root, "head", p->head_rows);
    sw_value *x = sw_embedding(g, p->embeds_targets ? sw_targets(g) : sw_tokens(g), embedding);
    if (p->predicts)
        sw_predict(g, x, head);
    else if (!p->has_no_loss)
        sw_cross_entropy(g, x, head, sw_targets(g));
    return sw_graph_status(g, err);
}

static sw_status fail_with_words(void *self, sw_graph *g, sw_error *err) {
    (void)self;
    (void)g;
    return sw_fail(err, SW_BAD_FILE, "no plan of the model in model.plan");
}

static sw_status fail_without_words(void *self, sw_graph *g, sw_error *err) {
    (void)self;
    (void)g;
    (void)err;
    return SW_BAD_FILE;
}

static sw_status ignore_a_mistake(void *self, sw_graph *g, sw_error *err) {
    (void)self;
    (void)err;
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_cross_entropy(g, sw_embedding(g, sw_tokens(g), table(g, root, "embedding", 0)),
                     table(g, root, "head", 256), sw_targets(g));
    return SW_OK;
}

/* A folder with text and settings, which is the current one from then on. */
static int enter_folder(void **state) {
    char folder[FOLDER_BYTES];
    *state = folder_make(folder) && chdir(folder) == 0 ? strdup(folder) : NULL;
    FILE *text = fopen("text.txt", "w"), *settings = fopen("run.yaml", "w");
    if (!*state || !text || !settings)
        return -1;
    for (int i = 0; i < 100; i++)
        fputs("one two three four five ", text);
    fputs("data: {train: [text.txt], tokenizer: bytes, sequence_length: 16}\n"
          "train: {steps: 2, batch_size: 4, micro_batch_size: 1}\n"
          "shard: {ranks: 1}\n"
          "checkpoint: {path: run}\n",
          settings);
    return fclose(text) + fclose(settings);
}

static int leave_folder(void **state) {
    bool is_left = chdir("/") == 0 && folder_remove(*state) == 0;
    free(*state);
    return is_left ? 0 : -1;
}

static sw_status train_with(sw_custom_model model, const char *const *overrides, int n_overrides,
                            sw_error *err) {
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    return sw_train_file("run.yaml", overrides, n_overrides, &options, err);
}

static sw_status train(sw_custom_model model, sw_error *err) {
    return train_with(model, NULL, 0, err);
}

static void expect_refusal(sw_custom_model model, sw_status expected, const char *text) {
    sw_error err = {0};
    sw_status status = train(model, &err);
    if (status != expected || !strstr(err.message, text))
        fail_msg("'%s' is missing in: %s: %s", text, sw_status_name(status), err.message);
    assert_int_not_equal(access("run", F_OK), 0);
}

static void its_own_errors_come_through(void **state) {
    (void)state;
    expect_refusal((sw_custom_model){.trace = fail_with_words, .vocabulary = 256}, SW_BAD_FILE,
                   "no plan of the model in model.plan");
    expect_refusal((sw_custom_model){.trace = fail_without_words, .vocabulary = 256}, SW_BAD_FILE,
                   "left no message");
    expect_refusal((sw_custom_model){.trace = ignore_a_mistake, .vocabulary = 256}, SW_BAD_CONFIG,
                   "embedding");
    expect_refusal((sw_custom_model){.vocabulary = 256}, SW_BAD_CONFIG, "trace function");
}

static void a_model_without_a_loss_is_refused(void **state) {
    (void)state;
    plan p = {256, 256, .has_no_loss = true};
    expect_refusal((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256}, SW_BAD_CONFIG,
                   "sw_cross_entropy");
}

/* Kernels read table[token]: a table with too few rows would be read beyond its end. */
static void tables_smaller_than_the_vocabulary_are_refused_by_name(void **state) {
    (void)state;
    plan small_embedding = {255, 256}, small_head = {256, 100};
    expect_refusal((sw_custom_model){.trace = trace, .self = &small_embedding, .vocabulary = 256},
                   SW_BAD_CONFIG,
                   "embedding \"embedding\" in unit root has 255 rows, and token ids go up to 255");
    expect_refusal((sw_custom_model){.trace = trace, .self = &small_head, .vocabulary = 256},
                   SW_BAD_CONFIG, "head \"head\"");
    expect_refusal((sw_custom_model){.trace = trace, .self = &small_head, .vocabulary = 0},
                   SW_BAD_CONFIG, "vocabulary");
}

static void targets_cannot_be_embedded(void **state) {
    (void)state;
    plan p = {256, 256, .embeds_targets = true};
    expect_refusal((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256}, SW_BAD_CONFIG,
                   "embed sw_tokens");
}

/* Bytes go up to 255, whatever the model says. */
static void data_beyond_the_vocabulary_is_refused(void **state) {
    (void)state;
    plan p = {100, 100};
    expect_refusal((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 100}, SW_BAD_FILE,
                   "the vocabulary allows 0 to 99");
}

static void its_weights_are_written_without_a_config(void **state) {
    (void)state;
    plan p = {256, 300};
    sw_error err = {0};
    if (train((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256}, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(access("run/model/model.safetensors", R_OK), 0);
    assert_int_equal(access("run/model/tokenizer.json", R_OK), 0);
    assert_int_not_equal(access("run/model/config.json", F_OK), 0);
}

/* Settings without a file: paths count from the folder that is named, and the run is the same. */
static void settings_may_be_text(void **state) {
    (void)state;
    plan p = {256, 300};
    sw_custom_model model = {.trace = trace, .self = &p, .vocabulary = 256};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    const char *const overrides[] = {"train.steps=1"};
    sw_error err = {0};
    char *folder = *state;
    assert_int_equal(chdir("/"), 0);
    sw_status status =
        sw_train_text("data: {train: [text.txt], tokenizer: bytes, sequence_length: 16}\n"
                      "train: {steps: 2, batch_size: 4, micro_batch_size: 1}\n"
                      "shard: {ranks: 1}\n"
                      "checkpoint: {path: of-text}\n",
                      folder, overrides, 1, &options, &err);
    if (status || chdir(folder))
        fail_msg("%s", err.message);
    assert_int_equal(access("of-text/model/model.safetensors", R_OK), 0);
    status = sw_train_text("data: {train: [text.txt]}\nmodel: {layers: none}\n", NULL, NULL, 0,
                           &options, &err);
    assert_int_equal(status, SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "the settings' text:2"));
}

/* Who does not want the message gets the status alone, also of a run that fails when it has
 * begun. */
static void an_error_may_go_unseen(void **state) {
    (void)state;
    plan p = {256, 300};
    sw_custom_model model = {.trace = trace, .self = &p, .vocabulary = 256};
    const char *const faults[] = {"kill:rank=0,step=1"}, *const overrides[] = {"train.restarts=0"};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    options.faults = faults;
    options.n_faults = 1;
    assert_int_equal(sw_train_file("run.yaml", overrides, 1, &options, NULL), SW_LOST_RANK);
}

static char *read_weights(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *weights = malloc(1 << 20);
    if (!file || !weights)
        fail_msg("%s cannot be read", path);
    *bytes = fread(weights, 1, 1 << 20, file);
    fclose(file);
    return weights;
}

static void any_number_of_ranks_trains_it_to_the_same_bits(void **state) {
    (void)state;
    plan p = {256, 300};
    char *weights[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *const overrides[2][3] = {
            {"shard.ranks=1", "checkpoint.path=alone", "model.save_dtype=fp32"},
            {"shard.ranks=3", "checkpoint.path=together", "model.save_dtype=fp32"}};
        sw_error err = {0};
        if (train_with((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256},
                       overrides[i], 3, &err) != SW_OK)
            fail_msg("%s", err.message);
        weights[i] = read_weights(
            i ? "together/model/model.safetensors" : "alone/model/model.safetensors", &bytes[i]);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_true(bytes[0] > (256 + 300) * CHANNELS * sizeof(float));
    assert_memory_equal(weights[0], weights[1], bytes[0]);
    free(weights[0]);
    free(weights[1]);
}

static char *try_with_weights(const char *path, plan p, bool must_fail) {
    static sw_error err;
    static char override[128];
    snprintf(override, sizeof override, "model.path=%s", path);
    const char *const overrides[] = {override, "checkpoint.path=tuned", "model.save_dtype=fp32",
                                     "optimizer.learning_rate=0"};
    err = (sw_error){0};
    sw_status status = train_with((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256},
                                  overrides, 4, &err);
    if (must_fail != (status == SW_BAD_FILE))
        fail_msg("%s: %s", sw_status_name(status), err.message);
    return err.message;
}

/* Logits of every row depend on the sum over ranks: trained and validated by two and by three
 * ranks, also where the last slot leaves some without rows, saved, and gone on with. */
static sw_status trace_sharing(void *self, sw_graph *g, sw_error *err) {
    (void)self;
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *embedding = table(g, root, "embedding", 256);
    sw_value *x = sw_embedding(g, sw_tokens(g), embedding);
    x = sw_add(g, x, sw_scale(g, sw_sum_over(g, sw_gelu(g, x), "shard"), 0.5));
    sw_predict(g, x, embedding);
    return sw_graph_status(g, err);
}

static void drop(void *to, const char *bytes, size_t n_bytes) {
    (void)to, (void)bytes, (void)n_bytes;
}

static void a_model_may_share_between_ranks(void **state) {
    (void)state;
    const sw_custom_model model = {.trace = trace_sharing, .vocabulary = 256};
    char *weights[2];
    size_t bytes[2];
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int i = 0; i < 2; i++) { /* as a view at once, and as copies in two parts */
            char path[48], n[32];
            snprintf(path, sizeof path, "checkpoint.path=shares-%d-%d", ranks, i);
            snprintf(n, sizeof n, "shard.ranks=%d", ranks);
            const char *overrides[] = {path,
                                       n,
                                       "model.save_dtype=fp32",
                                       "optimizer.schedule=constant",
                                       "data.validation=[text.txt]",
                                       i ? "shard.mode=copy" : "shard.mode=view",
                                       "train.steps=4"};
            sw_error err = {0};
            for (int steps = i ? 2 : 4; steps <= 4; steps += 2) {
                overrides[6] = steps == 2 ? "train.steps=2" : "train.steps=4";
                if (train_with(model, overrides, 7, &err))
                    fail_msg("%d ranks: %s", ranks, err.message);
            }
            snprintf(path, sizeof path, "shares-%d-%d/model/model.safetensors", ranks, i);
            weights[i] = read_weights(path, &bytes[i]);
            if (i) {
                assert_int_equal(bytes[0], bytes[1]);
                assert_memory_equal(weights[0], weights[1], bytes[0]);
                free(weights[0]);
                free(weights[1]);
            }
        }
    const char *const checks[] = {"checkpoint.path=checked", "shard.ranks=2",
                                  "guard.verify_every=1"};
    sw_error err = {0};
    assert_int_equal(train_with(model, checks, 3, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "guard.verify_every: the model shares values"));
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    const char *const two[] = {"shard.ranks=2"};
    static const char folder[] = "model: {path: shares-2-0/model}\n"
                                 "data: {validation: [text.txt], sequence_length: 16}\n";
    double loss;
    assert_int_equal(sw_evaluate_text(folder, NULL, two, 1, &options, &loss, NULL, &err),
                     SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "take one rank (shard.ranks: 1)"));
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.text = drop;
    assert_int_equal(sw_generate_text(folder, NULL, two, 1, &options, "one", &how, &err),
                     SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "take one rank (shard.ranks: 1)"));
}

/* With a learning rate of 0 the weights that a run ends with are those that it began with. */
static void its_weights_are_loaded_by_name(void **state) {
    (void)state;
    plan p = {256, 300};
    sw_error err = {0};
    const char *const overrides[] = {"model.save_dtype=fp32"};
    if (train_with((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256}, overrides, 1,
                   &err) != SW_OK)
        fail_msg("%s", err.message);
    size_t bytes[2];
    char *first = read_weights("run/model/model.safetensors", &bytes[0]);
    static const char *const from[] = {"run/model", "run/model/model.safetensors"};
    for (int i = 0; i < 2; i++) {
        try_with_weights(from[i], p, false);
        char *then = read_weights("tuned/model/model.safetensors", &bytes[1]);
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(first, then, bytes[0]);
        free(then);
        assert_int_equal(system("rm -rf tuned"), 0);
    }
    free(first);
    plan wider = {256, 301}, one_table = {256, 300, .shares_head = true};
    assert_non_null(strstr(try_with_weights("run/model", wider, true),
                           "1 tensor has another shape: head [300, 8] instead of"));
    assert_non_null(strstr(try_with_weights("run/model", one_table, true),
                           "1 tensor is not part of the model: head"));
    assert_int_not_equal(access("tuned", F_OK), 0);
}

/* Weights that are frozen come from their file again, which must hold the same ones. */
static void a_run_with_frozen_weights_goes_on(void **state) {
    (void)state;
    plan p = {256, 300};
    const sw_custom_model model = {.trace = trace, .self = &p, .vocabulary = 256};
    sw_error err = {0};
    const char *const first[] = {"checkpoint.path=first", "train.seed=7"},
                      *const other[] = {"checkpoint.path=other"};
    if (train_with(model, first, 2, &err) || train_with(model, other, 1, &err))
        fail_msg("%s", err.message);
    const char *tuned[] = {"checkpoint.path=tuned", "model.path=first/model",
                           "model.train=[head]",    "model.save_dtype=fp32",
                           "train.steps=2",         "optimizer.schedule=constant"};
    size_t bytes[2];
    for (int way = 0; way < 2; way++) { /* in two parts, and at once */
        tuned[0] = way ? "checkpoint.path=at-once" : "checkpoint.path=tuned";
        for (int steps = way ? 4 : 2; steps <= 4; steps += 2) {
            tuned[4] = steps == 2 ? "train.steps=2" : "train.steps=4";
            if (train_with(model, tuned, 6, &err))
                fail_msg("%s", err.message);
        }
    }
    char *parts = read_weights("tuned/model/model.safetensors", &bytes[0]);
    char *whole = read_weights("at-once/model/model.safetensors", &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(parts, whole, bytes[0]);
    free(parts);
    free(whole);
    tuned[1] = "model.path=other/model";
    tuned[4] = "train.steps=6";
    assert_int_equal(train_with(model, tuned, 6, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "model.path has changed"));
}

static void it_is_planned_without_a_run(void **state) {
    (void)state;
    plan p = {256, 300};
    sw_custom_model model = {.trace = trace, .self = &p, .vocabulary = 256};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.model = &model;
    static const char text[] = "data: {sequence_length: 16}\ntrain: {batch_size: 4, "
                               "micro_batch_size: 1}\nshard: {ranks: 2}\n";
    const char *const limit[] = {"shard.memory_limit=1KiB"};
    sw_error err = {0};
    char *json;
    if (sw_plan_text(text, NULL, NULL, 0, &options, &json, &err))
        fail_msg("%s", err.message);
    assert_non_null(strstr(json, "\"ranks\": 2"));
    assert_non_null(strstr(json, "\"parameters\": 4448")); /* (256 + 300) 8 */
    assert_non_null(strstr(json, "\"memory\""));
    free(json);
    assert_int_equal(sw_plan_text(text, NULL, limit, 1, &options, &json, &err), SW_NO_MEMORY);
    assert_non_null(json); /* what it would need is known all the same */
    free(json);
}

/* ---- its use ---- */

enum { LAYERS = 2, HEADS = 2, POSITIONS = 16 };

typedef struct small_layer {
    sw_parameter *norm, *q, *k, *v, *out;
} small_layer;

static sw_value *attend(sw_graph *g, void *self, sw_value *x) {
    const small_layer *l = self;
    sw_value *n = sw_rmsnorm(g, x, l->norm, 1e-5);
    sw_value *q = sw_rotary(g, sw_linear(g, n, l->q, NULL, SW_OUT_IN), CHANNELS / HEADS, 1e4);
    sw_value *k = sw_rotary(g, sw_linear(g, n, l->k, NULL, SW_OUT_IN), CHANNELS / HEADS, 1e4);
    sw_value *v = sw_linear(g, n, l->v, NULL, SW_OUT_IN);
    const sw_attention_options options = {.documents = sw_documents(g)};
    return sw_add(g, x,
                  sw_linear(g, sw_attention_with(g, q, k, v, HEADS, HEADS, &options), l->out, NULL,
                            SW_OUT_IN));
}

/* Positions that are learned, and others that are turned; attention that keeps documents apart. */
static sw_status trace_whole(void *self, sw_graph *g, sw_error *err) {
    char name[32];
    (void)self;
    sw_unit *root = sw_unit_declare(g, NULL, "root");
    sw_parameter *wte = table(g, root, "wte", 256), *wpe = table(g, root, "wpe", POSITIONS);
    sw_value *x = sw_add_positions(g, sw_embedding(g, sw_tokens(g), wte), wpe);
    for (int i = 0; i < LAYERS; i++) {
        small_layer l;
        sw_parameter **matrix[] = {&l.q, &l.k, &l.v, &l.out};
        snprintf(name, sizeof name, "layer.%d", i);
        sw_unit *unit = sw_unit_declare(g, root, name);
        snprintf(name, sizeof name, "%d.norm", i);
        l.norm = sw_parameter_declare(g, unit, name, 1, (int64_t[]){CHANNELS}, SW_INIT_ONES, 0);
        for (int m = 0; m < 4; m++) {
            snprintf(name, sizeof name, "%d.%d", i, m);
            *matrix[m] = table(g, unit, name, CHANNELS);
        }
        x = sw_call(g, unit, attend, &l, x);
    }
    sw_predict(g, x, wte);
    return sw_graph_status(g, err);
}

static const char whole_settings[] =
    "data: {train: [text.txt], validation: [text.txt], tokenizer: bytes, sequence_length: 16}\n"
    "train: {steps: 60, batch_size: 8, micro_batch_size: 2}\n"
    "optimizer: {learning_rate: 3e-2}\n"
    "checkpoint: {path: run}\n";

typedef struct collected {
    size_t n;
    char text[256];
    double validation_loss;
} collected;

static void collect(void *to, const char *bytes, size_t n_bytes) {
    collected *c = to;
    for (size_t i = 0; i < n_bytes && c->n + 1 < sizeof c->text; i++)
        c->text[c->n++] = bytes[i];
}

static void look_at_step(void *to, const sw_progress *progress) {
    collected *c = to;
    if (progress->has_validation)
        c->validation_loss = progress->validation_loss;
}

/* What a rank finds comes back through memory that it shares with the test. */
static collected *share(void) {
    collected *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    return shared;
}

static void it_is_evaluated_and_generates_as_models_with_a_name_do(void **state) {
    (void)state;
    const sw_custom_model model = {.trace = trace_whole, .vocabulary = 256};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    sw_error err = {0};
    collected *c = share();
    const char *const save[] = {"shard.ranks=2", "model.save_dtype=fp32"};
    options.model = &model;
    options.listener.step = look_at_step;
    options.listener.to = c;
    if (sw_train_text(whole_settings, NULL, save, 2, &options, &err))
        fail_msg("%s", err.message);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        const char *const ranks[] = {i ? "shard.ranks=3" : "shard.ranks=1"};
        int64_t n = 0;
        if (sw_evaluate_text(whole_settings, NULL, ranks, 1, &options, &loss[i], &n, &err))
            fail_msg("%s", err.message);
        assert_int_equal(n, 100 * 24 - 1); /* all but the first byte */
    }
    assert_true(loss[0] == loss[1]);
    /* the same from a folder, of a run that is none yet */
    static const char from_folder[] =
        "model: {path: run/model}\ndata: {validation: [text.txt], sequence_length: 16}\n";
    if (sw_evaluate_text(from_folder, NULL, NULL, 0, &options, &loss[1], NULL, &err))
        fail_msg("%s", err.message);
    assert_true(loss[0] == loss[1]);
    assert_true(loss[0] < 2 &&
                fabs(loss[0] - c->validation_loss) < 0.1); /* which cuts rows otherwise */
    char texts[2][256];
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.max_tokens = 40; /* beyond its positions */
    how.temperature = 0;
    how.text = collect;
    how.to = c;
    for (int i = 0; i < 2; i++) {
        const char *const ranks[] = {i ? "shard.ranks=2" : "shard.ranks=1"};
        c->n = 0;
        if (sw_generate_text(whole_settings, NULL, ranks, 1, &options, "one two t", &how, &err))
            fail_msg("%s", err.message);
        snprintf(texts[i], sizeof texts[i], "%.*s", (int)c->n, c->text);
        assert_int_equal(strlen(texts[i]), 40);
    }
    assert_string_equal(texts[0], texts[1]);
    munmap(c, sizeof *c);
}

/* The cache of keys and values, and positions behind the prompt, give what rows of training gave:
 * the text goes on as learned. */
static void what_it_has_learned_by_heart_it_writes(void **state) {
    (void)state;
    const sw_custom_model model = {.trace = trace_whole, .vocabulary = 256};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    sw_error err = {0};
    collected *c = share();
    options.model = &model;
    /* rows begin at every other letter: so does the prompt */
    FILE *cycle = fopen("cycle.txt", "w");
    assert_non_null(cycle);
    for (int i = 0; i < 200; i++)
        fputs("abcdefghij", cycle);
    assert_int_equal(fclose(cycle), 0);
    const char *const overrides[] = {"shard.ranks=1", "train.steps=300",
                                     "data.validation=[cycle.txt]", "data.train=[cycle.txt]"};
    if (sw_train_text(whole_settings, NULL, overrides, 4, &options, &err))
        fail_msg("%s", err.message);
    double loss;
    if (sw_evaluate_text(whole_settings, NULL, overrides, 4, &options, &loss, NULL, &err) ||
        loss > 0.1)
        fail_msg("%g: %s", loss, err.message);
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.max_tokens = 10;
    how.temperature = 0;
    how.text = collect;
    how.to = c;
    if (sw_generate_text(whole_settings, NULL, overrides, 4, &options, "ghijab", &how, &err))
        fail_msg("%s", err.message);
    c->text[c->n] = 0;
    assert_string_equal(c->text, "cdefghijab");
    munmap(c, sizeof *c);
}

static void a_model_that_cannot_generate_is_refused_by_name(void **state) {
    (void)state;
    plan p = {256, 300}, wide = {256, 300, .predicts = true};
    sw_error err = {0};
    if (train((sw_custom_model){.trace = trace, .self = &p, .vocabulary = 256}, &err))
        fail_msg("%s", err.message);
    sw_writing_options how = SW_WRITING_OPTIONS_INIT;
    how.text = collect;
    static const char text[] = "checkpoint: {path: run}\nshard: {ranks: 1}\n";
    for (int i = 0; i < 2; i++) {
        const sw_custom_model model = {.trace = trace, .self = i ? &wide : &p, .vocabulary = 256};
        sw_train_options options = SW_TRAIN_OPTIONS_INIT;
        options.model = &model;
        assert_int_equal(sw_generate_text(text, NULL, NULL, 0, &options, "one", &how, &err),
                         SW_BAD_CONFIG);
        assert_non_null(
            strstr(err.message, i ? "its head has 300 rows" : "must end in sw_predict"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_own_errors_come_through, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_model_without_a_loss_is_refused, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(tables_smaller_than_the_vocabulary_are_refused_by_name,
                                        enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(targets_cannot_be_embedded, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(data_beyond_the_vocabulary_is_refused, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(its_weights_are_written_without_a_config, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(its_weights_are_loaded_by_name, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_run_with_frozen_weights_goes_on, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(it_is_planned_without_a_run, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_model_may_share_between_ranks, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(it_is_evaluated_and_generates_as_models_with_a_name_do,
                                        enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(what_it_has_learned_by_heart_it_writes, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(a_model_that_cannot_generate_is_refused_by_name,
                                        enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(settings_may_be_text, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(an_error_may_go_unseen, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(any_number_of_ranks_trains_it_to_the_same_bits,
                                        enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
