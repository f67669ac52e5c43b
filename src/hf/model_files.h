/* model_files.h: a Hugging Face directory in and out of shards. Each rank reads and writes only the
 * byte ranges that it owns. */
#ifndef SW_HF_MODEL_FILES_H
#define SW_HF_MODEL_FILES_H

#include "base/dtype.h"
#include "base/file.h"
#include "model/model.h"
#include "shard/layout.h"

/* One place where elements of a parameter are put or fetched: rank-local, piece by piece
 * (shard/layout.h).
 *   put    elements first .. of the piece arrive: values [n]
 *   fetch  fill values [n] with the masters of those elements */
typedef sw_status (*sw_piece_fn)(void *to, int group, const sw_piece *piece, int64_t first,
                                 int64_t n, float *values, sw_error *err);

/* Is it a file of weights, and no folder? */
bool sw_is_safetensors(const char *path);

/* Compare config and graph with the directory's model.safetensors (or model.safetensors.index.json
 * and its files): missing, surplus, and misshapen tensors are named; a stored head of a tied model
 * must equal the embedding. Reads headers only (and the tied head). Adapters are not looked for.
 * config NULL, here and below: a program's own model, whose tensors have the parameters' names;
 * `directory` may then be a .safetensors file, too. */
sw_status sw_model_files_check(const char *directory, const sw_model_config *config,
                               const sw_graph *graph, sw_error *err);

/* Read this rank's pieces of every group through put. Memory: one buffer of SW_PIECE_ELEMENTS.
 * *bytes_read (may be NULL) counts what was read: the headers and this rank's elements. */
#define SW_PIECE_ELEMENTS (1 << 20)
sw_status sw_model_files_load(const char *directory, const sw_model_config *config,
                              const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                              int64_t *bytes_read, sw_error *err);

/* The same of the adapters in the layout, from the folder of a PEFT adapter (hf/adapter.h). */
sw_status sw_adapter_files_load(const char *directory, const sw_model_config *config,
                                const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                                sw_error *err);

/* What the model of a directory is, as a text to compare: a hash of its dimensions, and where
 * `graph` has frozen parameters, of elements that are sampled from theirs. A checkpoint has it as
 * its setting SW_MODEL_PATH_KEY, "null" where the run began with no directory. Errors: SW_BAD_FILE,
 * SW_NO_MEMORY. */
enum { SW_FINGERPRINT_BYTES = 160 };
#define SW_MODEL_PATH_KEY "model.path"
sw_status sw_model_fingerprint(const char *directory, const sw_model_config *config,
                               const sw_graph *graph, char text[SW_FINGERPRINT_BYTES],
                               sw_error *err);

/* The weights of a directory as a text that an adapter's file can keep: their element type, and a
 * hash of elements that are sampled from the parameters of `graph`, adapters apart. Errors:
 * SW_BAD_FILE. */
enum { SW_MARK_BYTES = 32 };
sw_status sw_model_mark(const char *directory, const sw_model_config *config, const sw_graph *graph,
                        char text[SW_MARK_BYTES], sw_error *err);

/* Are they marks of other weights, for certain? A copy in another element type is rounded
 * otherwise: of that nothing is said. */
bool sw_model_marks_differ(const char *a, const char *b);

/* What a directory shall hold. Padding has no place in it. */
typedef struct sw_model_output {
    const sw_graph *graph; /* its parameters are written, in their order */
    sw_dtype dtype;        /* SW_F32, SW_BF16 or SW_F16 */
    /* Data bytes of one file at most: more make model-00001-of-0000N.safetensors and an index; a
     * single tensor that is larger has a file of its own. 0: no limit. */
    int64_t max_shard_size;
    const sw_model_config
        *config;             /* of config.json; NULL: a model that Hugging Face has no name for */
    const char *config_json; /* its text instead; NULL: sw_model_config_write's */
    const char *companions;  /* a directory whose tokenizer and generation files are carried along;
                                NULL: none */
    bool is_bytes;           /* the tokenizer is raw bytes, whatever the companions say */
    const char *chat_template; /* what the model was trained with in place of the tokenizer's own;
                                  NULL: that */
    /* An adapter, by PEFT's names: adapter_model.safetensors, and config_json as
     * adapter_config.json. The graph is that of sw_lora_layers, and of the layout the adapters
     * alone are written. */
    bool is_adapter;
    const char
        *base_mark; /* sw_model_mark of the model that the adapter is for; NULL: not written */
} sw_model_output;

/* Writing `directory`, which must not exist yet. Three steps, with barriers between them by the
 * caller: rank 0 begins (temporary folder `directory`.partial, small files, headers, full size
 * reserved: SW_NO_SPACE if the disk is full), all ranks write their pieces through fetch, rank 0
 * finishes (fsync, rename). When any rank failed, rank 0 calls abandon; what a killed run left in
 * `directory`.partial is removed by the next begin. A finite element beyond fp16's range fails the
 * write (SW_BAD_CONFIG, naming the parameter). */
sw_status sw_model_files_begin(const char *directory, const sw_model_output *output, sw_error *err);
sw_status sw_model_files_write(const char *directory, const sw_layout *layout, int rank,
                               sw_dtype save_dtype, sw_piece_fn fetch, void *from, sw_error *err);
sw_status sw_model_files_finish(const char *directory, sw_error *err);
/* Bytes on the disk that abandoning gives back. */
int64_t sw_model_files_left_over_bytes(const char *directory);
void sw_model_files_abandon(const char *directory);

/* Remove the files of a model folder that have names that begin gives, and the folder. One that
 * holds other things stays with them, and so does a link, and what it leads to. */
void sw_model_files_remove(const char *directory);

/* The folder that is written into until it is finished, for callers that put more files into it. */
sw_status sw_model_files_partial(const char *directory, char path[SW_PATH_BYTES], sw_error *err);

/* Bytes that the directory will take, companions included: for the check before the start. Errors:
 * SW_NO_MEMORY; those of a model that cannot be written: SW_BAD_CONFIG. */
sw_status sw_model_files_bytes(const sw_model_output *output, int64_t *bytes, sw_error *err);

#endif
