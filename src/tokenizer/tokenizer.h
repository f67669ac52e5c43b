/* tokenizer.h: text to token ids and back, as a Hugging Face tokenizer.json says.
 *
 * The file is interpreted: its own chain of normalizers and pre-tokenizers, its model (BPE,
 * WordPiece or Unigram), its post-processor, added tokens and decoder. A component that is not
 * known is refused by name when the file is read. Its truncation and padding are left aside: they
 * are a wish of one application. docs/design/tokenizers.md tells the rules.
 *
 * A tokenizer does not change after it is read and may be used by many threads at once, each with a
 * scratch of its own.
 */
#ifndef SW_TOKENIZER_TOKENIZER_H
#define SW_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/file.h"
#include "base/slice.h"
#include "tokenizer/token_list.h"

typedef struct sw_tokenizer sw_tokenizer;
typedef struct sw_tokenizer_scratch
    sw_tokenizer_scratch; /* buffers and the word cache of one thread */

/* Read a tokenizer.json, or the one in a folder; a folder that has vocab.json and merges.txt
 * instead is read as GPT-2's. Ownership: sw_tokenizer_free. Errors: SW_BAD_FILE with file, place
 * and reason; SW_NO_MEMORY. */
sw_status sw_tokenizer_read(const char *path, sw_tokenizer **tokenizer, sw_error *err);

/* The folder of what sw_tokenizer_read reads: `path` itself, or the folder that the file is in.
 * Errors: SW_BAD_CONFIG. */
sw_status sw_tokenizer_folder(const char *path, char folder[SW_PATH_BYTES], sw_error *err);

/* sw_tokenizer_read from text [n_bytes]; `name` stands for the file in messages. */
sw_status sw_tokenizer_parse(const char *name, const char *text, int64_t n_bytes,
                             sw_tokenizer **tokenizer, sw_error *err);
void sw_tokenizer_free(sw_tokenizer *tokenizer);

/* Largest id + 1 (ids may have gaps). */
int64_t sw_tokenizer_n_ids(const sw_tokenizer *tokenizer);

/* A hash of the texts of ids 0 .. n_ids-1, as the file spells them: what these ids mean, whatever
 * else the file says. */
uint64_t sw_tokenizer_fingerprint(const sw_tokenizer *tokenizer, int64_t n_ids);

/* The id of a token by its text, as the file spells it; -1 if there is none. */
int32_t sw_tokenizer_token_id(const sw_tokenizer *tokenizer, const char *text);

/* The ids of the beginning and the end of a text, as tokenizer_config.json beside the file names
 * them ("bos_token", "eos_token"); -1 where it names none. */
int32_t sw_tokenizer_bos_id(const sw_tokenizer *tokenizer);
int32_t sw_tokenizer_eos_id(const sw_tokenizer *tokenizer);

/* Is the id a special token? */
bool sw_tokenizer_is_special(const sw_tokenizer *tokenizer, int32_t id);

/* One for each thread. Ownership: sw_tokenizer_scratch_free. */
sw_status sw_tokenizer_scratch_create(const sw_tokenizer *tokenizer, sw_tokenizer_scratch **scratch,
                                      sw_error *err);
void sw_tokenizer_scratch_free(sw_tokenizer_scratch *scratch);

typedef enum sw_encode_flags {
    SW_ENCODE_PLAIN = 0,
    SW_ENCODE_SPECIALS = 1, /* add what the post-processor adds: beginning and end of text */
    SW_ENCODE_LITERAL =
        2 /* spellings of special tokens are plain text, which the content of a message deserves */
} sw_encode_flags;

/* Append the ids of text [n_bytes], which is UTF-8 and may hold NULs. Errors: SW_BAD_FILE (not
 * UTF-8: the byte; a pattern gave up; Unigram without unknown token), SW_NO_MEMORY; what was
 * appended then is to be thrown away. */
sw_status sw_tokenizer_encode(const sw_tokenizer *tokenizer, sw_tokenizer_scratch *scratch,
                              const char *text, size_t n_bytes, int flags, sw_token_list *out,
                              sw_error *err);

/* Where ids begin that stand by themselves: those of added tokens, and the first of each stretch of
 * text between them. Starts as {0}; an encoding writes over what was there. sw_token_edges_free. */
typedef struct sw_token_edge {
    int64_t byte, id; /* the id with index `id` begins at this byte of the text */
} sw_token_edge;

typedef struct sw_token_edges {
    sw_token_edge *edge;
    int64_t n, capacity;
} sw_token_edges;
void sw_token_edges_free(sw_token_edges *edges);

/* Append the ids of a text of which some ranges are plain text, whatever they spell: a special
 * token is found only where none of its bytes lies in `literal` [n_literal], which are in order and
 * apart. Nothing is put around the text. *edges gets a last edge at the end. Errors: as above;
 * SW_BAD_FILE too where a special token of a tokenizer that looks for it after normalizing is
 * spelled in a literal range. */
sw_status sw_tokenizer_encode_mixed(const sw_tokenizer *tokenizer, sw_tokenizer_scratch *scratch,
                                    const char *text, size_t n_bytes, const sw_span *literal,
                                    int64_t n_literal, sw_token_edges *edges, sw_token_list *out,
                                    sw_error *err);

/* The ids that bytes first .. end - 1 of such a text begin with, where an edge lies before `first`
 * and the next one at `end` or behind: how they would be if the text ended there. */
sw_status sw_tokenizer_encode_beginning(const sw_tokenizer *tokenizer,
                                        sw_tokenizer_scratch *scratch, const char *text,
                                        size_t first, size_t end, const sw_span *literal,
                                        int64_t n_literal, sw_token_list *out, sw_error *err);

/* The text of ids [n]: *text is NUL-terminated, of *n_bytes bytes, UTF-8, and may hold NULs. Ids
 * that are no token are left out. Ownership: free(*text). Errors: SW_NO_MEMORY. */
sw_status sw_tokenizer_decode(const sw_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, size_t *n_bytes, sw_error *err);

/* Decoding while ids arrive. Bytes that do not yet form a character are held back until they do, or
 * until the end. */
typedef struct sw_token_stream sw_token_stream;
sw_status sw_token_stream_create(const sw_tokenizer *tokenizer, bool skip_special,
                                 sw_token_stream **stream, sw_error *err);
void sw_token_stream_free(sw_token_stream *stream);

/* Take one id more: *text [*n_bytes] is what may be shown now; it lives until the next call and may
 * be empty. */
sw_status sw_token_stream_push(sw_token_stream *stream, int32_t id, const char **text,
                               size_t *n_bytes, sw_error *err);

/* No id follows: what was held back, with U+FFFD for what is no character. */
sw_status sw_token_stream_end(sw_token_stream *stream, const char **text, size_t *n_bytes,
                              sw_error *err);

#endif
