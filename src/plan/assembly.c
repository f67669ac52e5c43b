/* assembly.c: the passes in their order: trace, freeze, differentiate, recompute, reuse; layout;
 * states; programs. */
#include "plan/assembly.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/text.h"
#include "model/custom_model.h"
#include "tokenizer/tokenizer.h"

void sw_assembly_choose(const sw_settings *s, int n_cores, sw_assembly_choice *choice, char *why,
                        size_t why_bytes) {
    int64_t micro = s->train.micro_batch_size == SW_AUTO ? 1 : s->train.micro_batch_size;
    int64_t n_micro_batches = s->train.batch_size / micro;
    *choice = (sw_assembly_choice){.n_ranks = (int)s->shard.ranks,
                                   .micro_batch_size = s->train.micro_batch_size,
                                   .stage = (int)s->shard.stage,
                                   .recompute = (int)s->shard.recompute};
    char ranks_why[128] = "", threads_why[128] = "";
    if (s->shard.ranks == SW_AUTO) {
        int64_t threads = s->train.threads == SW_AUTO ? 1 : s->train.threads,
                room = n_cores / threads;
        int64_t n = room < 1 ? 1 : room < 8 ? room : 8;
        const char *reason = n == 8        ? "8, the most that is chosen automatically"
                             : threads > 1 ? "one per train.threads cores"
                                           : "one per core";
        if (n > n_micro_batches)
            n = n_micro_batches, reason = "one per micro-batch of a step";
        choice->n_ranks = (int)n;
        snprintf(ranks_why, sizeof ranks_why, "%" PRId64 " %s: %s (%d %s, %" PRId64 " %s a step)",
                 n, sw_text_noun(n, "rank", "ranks"), reason, n_cores,
                 sw_text_noun(n_cores, "core", "cores"), n_micro_batches,
                 sw_text_noun(n_micro_batches, "micro-batch", "micro-batches"));
    }
    choice->n_threads = (int)s->train.threads;
    if (s->train.threads == SW_AUTO) {
        choice->n_threads = n_cores > choice->n_ranks ? n_cores / choice->n_ranks : 1;
        snprintf(threads_why, sizeof threads_why, "%d %s each: %d %s for %d %s", choice->n_threads,
                 sw_text_noun(choice->n_threads, "thread", "threads"), n_cores,
                 sw_text_noun(n_cores, "core", "cores"), choice->n_ranks,
                 sw_text_noun(choice->n_ranks, "rank", "ranks"));
    }
    if (why && why_bytes)
        snprintf(why, why_bytes, "%s%s%s", ranks_why, ranks_why[0] && threads_why[0] ? "; " : "",
                 threads_why);
    if (choice->micro_batch_size ==
        SW_AUTO) { /* the largest divisor that leaves every rank one, within 4,096 tokens */
        int64_t most =
            smaller(s->train.batch_size / choice->n_ranks, 4096 / s->data.sequence_length);
        choice->micro_batch_size = largest_divisor(s->train.batch_size, larger(1, most));
    }
}

/* vocab auto: the tokenizer's ids. */
static sw_status count_ids(const sw_settings *s, int64_t *n_ids, sw_error *err) {
    sw_tokenizer *tokenizer;
    *n_ids = 256;
    if (sw_settings_is_bytes(s))
        return SW_OK;
    sw_status status = sw_tokenizer_read(s->data.tokenizer, &tokenizer, err);
    if (status)
        return status;
    *n_ids = sw_tokenizer_n_ids(tokenizer);
    sw_tokenizer_free(tokenizer);
    return SW_OK;
}

sw_status sw_assembly_model(const sw_settings *s, sw_model_config *model, sw_error *err) {
    if (s->model.path) {
        sw_status status = sw_model_config_read(s->model.path, model, err);
        if (!status && s->model.dropout != SW_AUTO)
            sw_model_drop(model, s->model.dropout);
        if (!status && (status = sw_model_config_check_training(model, SW_SPELL_HUGGING_FACE, err)))
            status = sw_fail_within(err, "%s/config.json", s->model.path);
        return status;
    }
    bool is_llama = s->model.architecture == SW_ARCHITECTURE_LLAMA;
    int64_t vocabulary = s->model.vocab;
    sw_status status = vocabulary == SW_AUTO ? count_ids(s, &vocabulary, err) : SW_OK;
    if (status)
        return status;
    *model = (sw_model_config){
        .architecture = is_llama ? SW_LLAMA : SW_GPT2,
        .layers = s->model.layers,
        .hidden = s->model.hidden,
        .heads = s->model.heads,
        .kv_heads = s->model.kv_heads,
        .head_channels = s->model.hidden / s->model.heads,
        .ffn = s->model.ffn,
        .vocabulary = vocabulary,
        .max_positions = s->model.max_positions,
        .tied = s->model.tied,
        .rope_theta = s->model.rope_theta,
        .norm_epsilon = s->model.norm_epsilon,
        .init_std = s->model.init_std,
        .bos_token = -1,
        .eos_token = -1,
    };
    sw_model_drop(model, s->model.dropout == SW_AUTO ? 0 : s->model.dropout);
    return sw_model_config_check(model, SW_SPELL_RUN_YAML, err);
}

sw_lora sw_assembly_lora(const sw_settings *s) {
    const sw_lora_settings *l = &s->model.lora;
    if (!sw_settings_train_lora(s))
        return (sw_lora){0};
    return (sw_lora){l->rank, l->alpha, l->dropout, l->rslora, l->targets.n, l->targets.item};
}

static sw_status freeze(const sw_settings *s, sw_graph *graph, sw_error *err) {
    const sw_texts *patterns = &s->model.train;
    if (sw_settings_train_lora(s) || (patterns->n == 1 && !strcmp(patterns->item[0], "all")))
        return SW_OK;
    int n_trainable = 0;
    for (int i = 0; i < patterns->n; i++) {
        int n_matches = 0;
        for (int p = 0; p < graph->parameters.n; p++)
            n_matches += fnmatch(patterns->item[i], graph->parameters.item[p]->name, 0) == 0;
        if (!n_matches)
            return sw_fail(err, SW_BAD_CONFIG,
                           "model.train: \"%s\" matches no parameter; names look like \"%s\"",
                           patterns->item[i],
                           graph->parameters.item[graph->parameters.n / 2]->name);
        n_trainable += n_matches;
    }
    for (int p = 0; p < graph->parameters.n; p++) {
        bool trains = false;
        for (int i = 0; i < patterns->n; i++)
            trains = trains || fnmatch(patterns->item[i], graph->parameters.item[p]->name, 0) == 0;
        if (!trains)
            sw_parameter_freeze(graph->parameters.item[p]);
    }
    return n_trainable ? SW_OK
                       : sw_fail(err, SW_BAD_CONFIG,
                                 "model.train lists no pattern, so nothing would be trained; say "
                                 "all, or name patterns");
}

static sw_status record(sw_assembly *a, bool is_training, sw_graph *graph, sw_error *err) {
    if (a->custom)
        return sw_custom_model_trace(a->custom, SW_ENDS_IN_LOSS, graph, err);
    if (a->lora.rank)
        return sw_lora_trace(&a->model, &a->lora, SW_ENDS_IN_LOSS, graph,
                             is_training ? &a->lora_layers : NULL, err);
    return sw_model_trace(&a->model, SW_ENDS_IN_LOSS, graph, err);
}

static sw_status trace(sw_assembly *a, bool is_training, sw_graph **graph, sw_error *err) {
    sw_status status =
        sw_graph_create(a->choice.micro_batch_size, a->settings->data.sequence_length, graph, err);
    if (!status) {
        sw_graph_spread(*graph, &a->sharding.mesh);
        status = record(a, is_training, *graph, err);
    }
    if (!status)
        status = sw_graph_status(*graph, err);
    return status ? status : freeze(a->settings, *graph, err);
}

/* One micro-batch as it is traced, compiled. */
static sw_status compile(sw_assembly *a, bool is_training, const sw_program **program,
                         sw_error *err) {
    sw_graph *graph = NULL;
    sw_status status = trace(a, is_training, &graph, err);
    if (!status)
        return sw_compile(a->compiled, graph,
                          is_training ? SW_COMPILE_TRAINING : SW_COMPILE_FORWARD, program, err);
    sw_graph_free(graph);
    return status;
}

static sw_sharding sharding_of(const sw_settings *s, const sw_assembly_choice *choice) {
    return (sw_sharding){
        .mesh = sw_mesh_flat(choice->n_ranks),
        .n_threads = choice->n_threads,
        .stage = choice->stage,
        .reshard_after_forward = s->shard.reshard_after_forward,
        .prefetch = (int)s->shard.prefetch,
        .accumulate_sharded = s->shard.accumulate == SW_ACCUMULATE_SHARDED,
        .parameter_dtype = sw_settings_parameter_dtype(s),
        .mode = (sw_shm_mode)s->shard.mode,
        .wrap = {.min_parameters = s->shard.wrap},
        .recompute = (sw_recompute)choice->recompute,
        .optimizer = {.kind = (sw_optimizer_kind)s->optimizer.name,
                      .beta1 = s->optimizer.betas.first,
                      .beta2 = s->optimizer.betas.second,
                      .epsilon = s->optimizer.epsilon,
                      .weight_decay = s->optimizer.weight_decay,
                      .momentum = s->optimizer.momentum},
    };
}

sw_status sw_assembly_create(const sw_settings *settings, const sw_custom_model *custom,
                             const sw_assembly_choice *choice, sw_assembly *a, sw_error *err) {
    *a = (sw_assembly){.settings = settings,
                       .custom = custom,
                       .choice = *choice,
                       .sharding = sharding_of(settings, choice)};
    bool evaluates = settings->data.validation.n > 0;
    sw_status status = custom ? SW_OK : sw_assembly_model(settings, &a->model, err);
    if (custom)
        a->model.vocabulary = custom->vocabulary;
    /* what no later token shows to a causal model, padding, is a document of its own to others */
    a->model.keeps_documents_apart =
        choice->keeps_documents_apart || a->model.mask != SW_MASK_CAUSAL;
    a->lora = sw_assembly_lora(settings);
    if (!status && custom && a->lora.rank)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "model.train: lora is for models with a name, not for a program's own; write all, or "
            "name patterns");
    if (!status)
        status = sw_compiled_create(&a->sharding, &a->compiled, err);
    if (!status)
        status = compile(a, true, &a->program, err);
    if (!status)
        a->graph = a->compiled->graphs[SW_PROGRAM_TRAIN];
    if (!status && evaluates)
        status = compile(a, false, &a->evaluation, err);
    if (!status && settings->guard.verify_every && a->program->has_shares)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "guard.verify_every: the model shares values between ranks, so what one "
                         "rank computes of its rows no other rank can compute in its place; set it "
                         "to 0");
    for (int i = 0; !status && i < a->graph->parameters.n; i++) {
        const sw_parameter *p = a->graph->parameters.item[i];
        a->n_parameters += p->n_elements;
        a->n_trainable += p->is_trainable ? p->n_elements : 0;
    }
    if (status)
        sw_assembly_free(a);
    return status;
}

const sw_model_config *sw_assembly_files_config(const sw_assembly *a) {
    return a->custom ? NULL : &a->model;
}

int sw_assembly_slots(const sw_assembly *a) {
    return sw_deal_slots(sw_mesh_deal(&a->sharding.mesh,
                                      a->settings->train.batch_size / a->choice.micro_batch_size));
}

sw_save_options sw_assembly_save_options(const sw_assembly *a, int rank) {
    const sw_settings *settings = a->settings;
    return (sw_save_options){.storage = sw_storage_system(),
                             .folder = settings->checkpoint.path,
                             .graph = a->graph,
                             .layout = &a->compiled->layout,
                             .owner = sw_layout_owner(&a->compiled->layout, rank),
                             .kinds = sw_state_kinds_of(&a->sharding.optimizer),
                             .leaves_out_frozen = settings->model.path && !a->custom,
                             .retention = {.keep = settings->checkpoint.keep,
                                           .keep_every = settings->checkpoint.keep_every}};
}

void sw_assembly_free(sw_assembly *a) {
    sw_compiled_free(a->compiled);
    *a = (sw_assembly){0};
}
