/* manifest.h: manifest.json, the list of what a checkpoint holds: parameters, files, and a checksum
 * of every range of every file.
 *
 *   {"format": "shardwise checkpoint", "version": 1, "step": 200, "validation_loss": null,
 *    "state": {...}, "model_config": "...",
 *    "settings": {"train.seed": "1234", ...}, "settings_hash": "0123456789abcdef",
 *    "parameters": [{"name": "...", "shape": [576], "trainable": true}, ...],
 *    "files": [{"name": "parameters.safetensors", "bytes": 2312,
 *               "ranges": [[0, 8, "0123456789abcdef"], ...]}, ...],
 *    "checksum": "0123456789abcdef"}
 *
 * Beside "trainable": false there may be "left_out": true.
 *
 * Checksums are XXH3 of 64 bits (of its reference implementation, seed 0) in hexadecimal. The last
 * is of the manifest itself, up to its own first digit, and the file ends with its quote, a brace
 * and a newline: so no byte of it can change unnoticed. These last lines stay the same in later
 * versions, so that a newer manifest is told from a damaged one.
 */
#ifndef SW_CHECKPOINT_MANIFEST_H
#define SW_CHECKPOINT_MANIFEST_H

#include "base/arena.h"
#include "checkpoint/state_files.h"

#define SW_MANIFEST_NAME "manifest.json"
#define SW_MANIFEST_VERSION 1

/* Most bytes of a range: what has one checksum, is read and written at once. */
#define SW_RANGE_BYTES (1 << 20)

/* A setting that the results depend on: what a run that goes on compares with its own. */
typedef struct sw_setting_text {
    const char *key, *value; /* "optimizer.learning_rate", "3e-4" */
} sw_setting_text;

typedef struct sw_file_range {
    int64_t offset, bytes;
    uint64_t checksum;
} sw_file_range;

typedef struct sw_manifest_file {
    bool is_there;
    int64_t bytes;
    int64_t n_ranges;
    sw_file_range *range; /* [n_ranges] one behind the other from 0 to bytes */
} sw_manifest_file;

typedef struct sw_manifest {
    sw_arena arena; /* of what sw_manifest_parse made */
    int64_t step;
    double validation_loss;   /* NAN: none */
    const char *state;        /* text of an object */
    const char *model_config; /* NULL: none */
    int n_settings, n_parameters;
    const sw_setting_text *setting;      /* [n_settings] */
    const sw_state_parameter *parameter; /* [n_parameters] */
    sw_manifest_file file[SW_N_STATE_KINDS];
} sw_manifest;

/* The text of a manifest into text [room], without a NUL; returns its bytes. Nothing is allocated.
 * text NULL: returns a room that is enough, for any checksums, step and validation loss. */
int64_t sw_manifest_write(const sw_manifest *manifest, char *text, int64_t room);

/* Read and check. `name` stands for the file in messages. Errors: SW_BAD_CONFIG: of a newer
 * version. SW_BAD_FILE: changed since it was written, or not made by sw_manifest_write. Ownership:
 * sw_manifest_free, also after an error. */
sw_status sw_manifest_parse(const char *name, const char *text, int64_t bytes,
                            sw_manifest *manifest, sw_error *err);
void sw_manifest_free(sw_manifest *manifest);

/* The checksum that is used for ranges and manifests. */
uint64_t sw_checksum(const void *data, int64_t bytes);

#endif
