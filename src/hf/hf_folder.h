/* hf_folder.h: what stands in the place of a model's folder, where it is not one that can be read.
 *
 * People name the file in the folder, the run, the cache or the adapter; downloads lack a part;
 * weights come in formats that are not read. Each is told by the names of the files, with what to
 * do.
 */
#ifndef SW_HF_HF_FOLDER_H
#define SW_HF_HF_FOLDER_H

#include <shardwise/status.h>

/* SW_OK where `path` is a folder with a config.json, or one of which nothing better can be said
 * than that it has none. Else SW_BAD_FILE with what it is. */
sw_status sw_hf_folder_check(const char *path, sw_error *err);

/* A folder without model.safetensors and its index: SW_BAD_FILE with the weights that are there
 * instead. */
sw_status sw_hf_folder_refuse_weights(const char *folder, sw_error *err);

#endif
