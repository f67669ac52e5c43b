/* cache_entry.h: a folder of token files in the cache, sealed by checksums.
 *
 *   KEY/tokens.npy ... facts.npy   see text_cache.h
 *   KEY/checksums                  "shardwise tokens KEY", then a line for each file: its XXH3 (128
 *                                  bits) and its name, as `xxhsum -H2 -c` reads them
 *
 * An entry is right if its files give this very text again; so a bit that flipped, a file that was
 * cut, lengthened, lost or is another entry's is seen, whichever file it is, and nothing needs to
 * be parsed.
 */
#ifndef SW_DATA_CACHE_ENTRY_H
#define SW_DATA_CACHE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

/* The files of an entry, in their order; marks.npy may be absent. */
enum {
    SW_ENTRY_TOKENS,
    SW_ENTRY_MARKS,
    SW_ENTRY_DOCUMENTS,
    SW_ENTRY_WHOLE,
    SW_ENTRY_LINES,
    SW_ENTRY_FACTS,
    SW_N_ENTRY_FILES
};
extern const char *const sw_entry_names[SW_N_ENTRY_FILES];

/* Read a file from beginning to end; `seen` gets its bytes in order. Errors: SW_BAD_FILE,
 * SW_NO_MEMORY. */
sw_status sw_file_see(const char *path, void (*seen)(void *to, const void *bytes, int64_t n),
                      void *to, sw_error *err);

/* Write the checksums of the files in `folder`, which are whole. Errors: SW_NO_SPACE, SW_BAD_FILE,
 * SW_NO_MEMORY. */
sw_status sw_entry_seal(const char *folder, const char *key, sw_error *err);

/* Are the files those that were sealed? Every byte is read. Errors: SW_BAD_FILE with what is wrong,
 * without the folder's name; SW_NO_MEMORY. */
sw_status sw_entry_check(const char *folder, const char *key, sw_error *err);

/* Give a sealed folder `made` its name `folder`. What has the name already stays if it is right,
 * and else is replaced at one instant, where the file system can, and removed. Errors: SW_NO_SPACE,
 * and then `made` is removed. */
sw_status sw_entry_place(const char *made, const char *folder, const char *key, sw_error *err);

/* Remove an entry, or what stands in its place. Files that no entry has stay, with their folder. */
void sw_entry_remove(const char *folder);

#endif
