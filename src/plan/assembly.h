/* assembly.h: from settings to everything that is known before ranks exist: model, graphs, layout,
 * states, programs. The supervisor makes one and checks that it fits; ranks inherit it; the search
 * for settings that fit makes many.
 */
#ifndef SW_PLAN_ASSEMBLY_H
#define SW_PLAN_ASSEMBLY_H

#include <shardwise/train.h>

#include "checkpoint/save.h"
#include "config/settings.h"
#include "model/lora.h"
#include "shard/compile.h"

/* What may differ from the settings: the search for a plan that fits tries other values here. */
typedef struct sw_assembly_choice {
    int n_ranks_here; /* of n_ranks, those on this host; 0: all */
    int n_ranks, n_threads;
    int64_t micro_batch_size;
    int stage;
    int recompute;              /* SW_RECOMPUTE_ */
    bool keeps_documents_apart; /* rows may hold pieces of several documents */
} sw_assembly_choice;

typedef struct sw_assembly {
    const sw_settings *settings;
    const sw_custom_model *custom; /* NULL: a model of ours */
    sw_assembly_choice choice;
    sw_model_config model;
    sw_lora lora;               /* rank 0: no adapters */
    sw_lora_layers lora_layers; /* of `graph` */
    sw_sharding sharding;
    sw_compiled *compiled;
    const sw_graph *graph; /* of training */
    const sw_program *program,
        *evaluation; /* one micro-batch of training; of validation, NULL where there is none */
    int64_t n_parameters, n_trainable;
} sw_assembly;

enum { SW_PROGRAM_TRAIN, SW_PROGRAM_EVALUATE, SW_N_PROGRAMS };

/* The choice that the settings make. Ranks and threads that are `auto` follow from the physical
 * cores and the size of the run; `why` (may be NULL) takes the reason in words. */
void sw_assembly_choose(const sw_settings *settings, int n_cores, sw_assembly_choice *choice,
                        char *why, size_t why_bytes);

/* The model's dimensions, from model.path or from the settings, one of which is given
 * (sw_settings_name_model). */
sw_status sw_assembly_model(const sw_settings *settings, sw_model_config *model, sw_error *err);

/* The adapters that the settings ask for: rank 0: none. Its texts are the settings'. */
sw_lora sw_assembly_lora(const sw_settings *settings);

/* What says how the files of the model name its tensors; NULL: a caller's model, as its parameters
 * do. */
const sw_model_config *sw_assembly_files_config(const sw_assembly *assembly);

/* Slots of a step: the most micro-batches that a rank has in it. */
int sw_assembly_slots(const sw_assembly *assembly);

/* How the run saves its checkpoints, without who fetches values and what is written beside them. */
sw_save_options sw_assembly_save_options(const sw_assembly *assembly, int rank);

/* Ownership: sw_assembly_free; settings and custom must outlive it. */
sw_status sw_assembly_create(const sw_settings *settings, const sw_custom_model *custom,
                             const sw_assembly_choice *choice, sw_assembly *assembly,
                             sw_error *err);
void sw_assembly_free(sw_assembly *assembly);

#endif
