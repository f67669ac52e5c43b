/* text_cache.h: text tokenized once, kept as token files.
 *
 * A .jsonl file, or a list of .txt files, becomes a folder of .npy files, which numpy reads too:
 *
 *   tokens.npy     ids of all documents, one after the other (uint16, or int32 where an id needs
 *                  it)
 *   marks.npy      uint8, one for each token: 1, it counts when it is the target. Absent: all do
 *   documents.npy  int64, tokens of each document
 *   whole.npy      uint8, one for each document: 1, a conversation or a prompt with its completion,
 *                  which packing keeps whole
 *   lines.npy      int64, where each document comes from, counted from 1: its line in the .jsonl
 *                  file, its .txt file in the list
 *   facts.npy      int64, sw_text_facts in the order of its fields
 *   checksums      of all these (cache_entry.h), compared each time
 *
 * The folder's name is a hash (XXH3, 128 bits) of everything that the tokens depend on: the bytes
 * of the files and of tokenizer.json, the chat format, the end-of-text token, the version of this
 * format. So it is never stale, and may be deleted at any time. It is made under another name and
 * renamed when it is whole; one that is damaged is told of, made anew and replaced. Where there is
 * much text it is tokenized by several processes, which have ended when the function returns; the
 * file made does not depend on their number.
 */
#ifndef SW_DATA_TEXT_CACHE_H
#define SW_DATA_TEXT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"
#include "base/columns.h"
#include "base/file.h"
#include "data/text_options.h"

typedef struct sw_tokenized {
    const char *tokens, *marks, *documents, *whole, *lines; /* paths; marks: NULL if all count */
    sw_text_facts facts;
} sw_tokenized;

/* Find files, one .jsonl or any number of .txt, in the cache, or tokenize them into the cache.
 * Texts of *out live in the arena. Errors: SW_BAD_FILE with file, line and reason; SW_NO_SPACE
 * where they can be kept in no place; SW_NO_MEMORY.
 */
sw_status sw_text_tokenize(const sw_text_options *options, const char *const *paths, int n_paths,
                           sw_arena *arena, sw_tokenized *out, sw_error *err);

/* A folder for entries among temporary files, $TMPDIR/shardwise-USER or /tmp/shardwise-USER, made
 * if need be. Errors: SW_NO_SPACE, also where others could write it. */
sw_status sw_text_cache_temporary(bool makes, char folder[SW_PATH_BYTES], sw_error *err);

/* Remove a folder of entries, and all of them; what else is in it stays. */
void sw_text_cache_remove(const char *folder);

#endif
