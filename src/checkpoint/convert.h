/* convert.h: models between Hugging Face folders, GGUF files and checkpoints of runs, by one process, tensor by tensor. */
#ifndef SW_CHECKPOINT_CONVERT_H
#define SW_CHECKPOINT_CONVERT_H

#include <stdbool.h>

#include <shardwise/status.h>

#include "base/dtype.h"
#include "checkpoint/load.h"
#include "model/lora.h"

/* Make the Hugging Face folder `to`, which must not exist yet, of `from`: a GGUF file, or a Hugging Face folder in another dtype.
 * Weights are written as `dtype` in files of at most max_shard_size data bytes (0: no limit). Memory: the header and one slice.
 * The folder is there whole or not at all. Errors: SW_BAD_FILE (`from` cannot be read, by name and reason), SW_BAD_CONFIG (`to`
 * exists; a value beyond fp16), SW_NO_SPACE. */
sw_status sw_checkpoint_import(const char *from, const char *to, sw_dtype dtype, int64_t max_shard_size, sw_error *err);

/* Make the GGUF file `to`, which must not exist yet, of a Hugging Face folder: matrices as `dtype`, vectors as fp32, with the
 * tokenizer and the chat template of the folder if it has one and `with_tokenizer`. */
sw_status sw_checkpoint_export_gguf(const char *from, const char *to, sw_dtype dtype, bool with_tokenizer, sw_error *err);

typedef struct sw_export_options {
    sw_dtype dtype;
    int64_t max_shard_size;    /* data bytes of one file at most; 0: no limit */
    const char *model;         /* the folder of the model that the run began with; NULL: none is known */
    bool is_model_given;       /* by who exports: it must be that model, even where nothing of it is needed */
    const sw_lora *lora;       /* the adapters that the run trained; NULL: none */
    const char *companions;    /* a folder whose tokenizer and generation files are carried along; NULL: none */
    bool is_bytes;             /* the tokenizer is raw bytes, whatever the companions say */
    const char *chat_template; /* that the run chose in place of the tokenizer's own; NULL: that */
} sw_export_options;

/* Make the Hugging Face folder `to`, which must not exist yet, of a run's checkpoint, or of one of adapters the folder that PEFT
 * reads: the files that the run leaves in its model/. Parameters that were frozen and left out are read from options->model, and
 * are exactly its own; adapters name it as their base. For either it must be the model that the checkpoint's run began with.
 * Errors: SW_BAD_FILE (damaged; without model_config; options->model is another model, or is missing and needed; companions are
 * not there), SW_BAD_CONFIG (`to` exists; a value beyond fp16; a model is given of a run that began with none), SW_NO_SPACE. */
sw_status sw_checkpoint_export_model(const sw_checkpoint *checkpoint, const char *to, const sw_export_options *options,
                                     sw_error *err);

#endif
