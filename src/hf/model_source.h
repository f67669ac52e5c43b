/* model_source.h: the weights of a Hugging Face directory as one set of tensors, whether one file
 * holds them or several. */
#ifndef SW_HF_MODEL_SOURCE_H
#define SW_HF_MODEL_SOURCE_H

#include "formats/safetensors.h"
#include "model/model.h"

typedef struct sw_model_source {
    char *path; /* of model.safetensors or its index, for messages */
    int n_files;
    sw_safetensors **files;
} sw_model_source;

/* A tensor and the file that it lies in. */
typedef struct sw_tensor_place {
    sw_safetensors *file;
    const sw_tensor_entry *tensor; /* NULL: there is none */
} sw_tensor_place;

/* Open the file that `directory` is, if it is one with that ending; else model.safetensors in it,
 * or every file that model.safetensors.index.json names; then weight_map and files must agree, name
 * by name. Errors: SW_BAD_FILE. Ownership: sw_model_source_close, also after an error. */
sw_status sw_model_source_open(const char *directory, sw_model_source *source, sw_error *err);
/* The same of an adapter: the one file adapter_model.safetensors. */
sw_status sw_model_source_open_adapter(const char *directory, sw_model_source *source,
                                       sw_error *err);
void sw_model_source_close(sw_model_source *source);

/* The tensor of a parameter, by its own name or another that the architecture's files give it
 * (config NULL: by its own alone). */
sw_tensor_place sw_model_source_find(const sw_model_source *source, const sw_model_config *config,
                                     const char *parameter);
/* The same of files that were checked. Errors: SW_BAD_FILE: they were changed since, and it is
 * missing or of another size. */
sw_status sw_model_source_take(const sw_model_source *source, const sw_model_config *config,
                               const sw_parameter *parameter, sw_tensor_place *place,
                               sw_error *err);

int64_t sw_model_source_bytes_read(const sw_model_source *source);

#endif
