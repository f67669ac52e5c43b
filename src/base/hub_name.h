/* hub_name.h: names of the Hugging Face Hub (gpt2, HuggingFaceTB/SmolLM2-135M) where a path is
 * wanted. Nothing is downloaded here; the message has the command that does it.
 */
#ifndef SW_BASE_HUB_NAME_H
#define SW_BASE_HUB_NAME_H

#include <stdbool.h>

#include <shardwise/status.h>

/* Is nothing at `path`, which counts from `folder`, and may it be the name of a repository: NAME or
 * OWNER/NAME of letters, digits, '-', '_' and '.', or its address? A path whose first part is there
 * is none. out: *name in `path`, what hf download takes. */
bool sw_is_hub_name(const char *folder, const char *path, const char **name);

/* SW_OK where something is at `path`. Else SW_BAD_FILE, and where it may be a name of the Hub with
 * the command that fetches it. `pattern`: the files that are wanted of it ("tokenizer*"); NULL:
 * all. */
sw_status sw_path_must_exist(const char *path, const char *pattern, sw_error *err);

/* "hf download openai/gpt2 --local-dir FOLDER/gpt2": what fetches `name` into a new folder in
 * `folder` ("." for here). `pattern`: as above; SW_HUB_DATA_SET: all of a data set. */
#define SW_HUB_DATA_SET ":data"
enum { SW_FETCH_BYTES = 640 };
void sw_hub_fetch_command(const char *name, const char *folder, const char *pattern,
                          char text[SW_FETCH_BYTES]);

/* The last part of a name: the folder that the command makes. */
const char *sw_hub_base_name(const char *name);

#endif
