/* export.h: from a run's checkpoint to a model that other programs read. */
#ifndef SW_CHECKPOINT_EXPORT_H
#define SW_CHECKPOINT_EXPORT_H

#include <stdbool.h>

#include "base/dtype.h"
#include "checkpoint/load.h"
#include "model/lora.h"

typedef struct sw_export_options {
    sw_dtype dtype;
    int64_t max_shard_size; /* data bytes of one file at most; 0: no limit */
    const char *model;   /* the folder of the model that the run began with; NULL: none is known */
    bool is_model_given; /* by who exports: it must be that model, even where nothing of it is
                            needed */
    const sw_lora *lora; /* the adapters that the run trained; NULL: none */
    const char *companions;    /* a folder whose tokenizer and generation files are carried along;
                                  NULL: none */
    bool is_bytes;             /* the tokenizer is raw bytes, whatever the companions say */
    const char *chat_template; /* that the run chose in place of the tokenizer's own; NULL: that */
} sw_export_options;

/* Make the Hugging Face folder `to`, which must not exist yet, of a run's checkpoint, or of one of
 * adapters the folder that PEFT reads: the files that the run leaves in its model/. Parameters that
 * were frozen and left out are read from options->model, and are exactly its own; adapters name it
 * as their base. For either it must be the model that the checkpoint's run began with. Errors:
 * SW_BAD_FILE (damaged; without model_config; options->model is another model, or is missing and
 * needed; companions are not there), SW_BAD_CONFIG (`to` exists; a value beyond fp16; a model is
 * given of a run that began with none), SW_NO_SPACE. */
sw_status sw_checkpoint_export_model(const sw_checkpoint *checkpoint, const char *to,
                                     const sw_export_options *options, sw_error *err);

#endif
