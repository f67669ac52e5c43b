/* model_files.h: a Hugging Face directory in and out of shards. Each rank reads and writes only the byte ranges that it owns. */
#ifndef SW_CHECKPOINT_MODEL_FILES_H
#define SW_CHECKPOINT_MODEL_FILES_H

#include "base/dtype.h"
#include "model/model.h"
#include "shard/layout.h"

/* One place where elements of a parameter are put or fetched: rank-local, piece by piece (shard/layout.h).
 *   put    elements first .. of the piece arrive: values [n]
 *   fetch  fill values [n] with the masters of those elements */
typedef sw_status (*sw_piece_fn)(void *to, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                                 sw_error *err);

/* Compare config and graph with the directory's model.safetensors (or model.safetensors.index.json and its files): missing,
 * surplus, and misshapen tensors are named; a stored head of a tied model must equal the embedding. Reads headers only (and the
 * tied head). */
sw_status sw_model_files_check(const char *directory, const sw_model_config *config, const sw_graph *graph, sw_error *err);

/* Read this rank's pieces of every group through put. Memory: one buffer of SW_PIECE_ELEMENTS. *bytes_read (may be NULL) counts
 * what was read: the headers and this rank's elements. */
#define SW_PIECE_ELEMENTS (1 << 20)
sw_status sw_model_files_load(const char *directory, const sw_model_config *config, const sw_layout *layout, int rank,
                              sw_piece_fn put, void *to, int64_t *bytes_read, sw_error *err);

/* Writing `directory`, which must not exist yet: model.safetensors, config.json (config_json; NULL: sw_model_config_write's;
 * none if config is NULL too: a model that Hugging Face has no name for) and, if is_bytes, the tokenizer of raw bytes. Three
 * steps, with barriers between them by the caller: rank 0 begins (temporary folder `directory`.partial, header, full size
 * reserved: SW_NO_SPACE if the disk is full), all ranks write their pieces through fetch, rank 0 finishes (fsync, rename). When
 * any rank failed, rank 0 calls abandon; what a killed run left in `directory`.partial is removed by the next begin. A finite
 * element beyond fp16's range fails the write (SW_BAD_CONFIG, naming the parameter). */
sw_status sw_model_files_begin(const char *directory, const sw_model_config *config, const char *config_json,
                               const sw_graph *graph, sw_dtype save_dtype, bool is_bytes, sw_error *err);
sw_status sw_model_files_write(const char *directory, const sw_layout *layout, int rank, sw_dtype save_dtype, sw_piece_fn fetch,
                               void *from, sw_error *err);
sw_status sw_model_files_finish(const char *directory, sw_error *err);
void sw_model_files_abandon(const char *directory);

/* Bytes that the directory will take: for the check before the start. */
int64_t sw_model_files_bytes(const sw_graph *graph, sw_dtype save_dtype);

#endif
