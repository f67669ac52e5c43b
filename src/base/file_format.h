/* file_format.h: what a file is by its first bytes, so that one in the place of another is called
 * by its name.
 *
 * Downloads go wrong in a few ways: Git leaves a pointer where the file should be, a browser saves
 * the page about it, a server answers with a sentence, an archive is not unpacked, another format
 * has a similar name. Whoever reads a format asks here first, and gets a message that says what was
 * found and how to get what is needed.
 */
#ifndef SW_BASE_FILE_FORMAT_H
#define SW_BASE_FILE_FORMAT_H

#include <stdint.h>

#include <shardwise/status.h>

typedef enum sw_file_format {
    SW_FILE_UNKNOWN, /* of no kind below: whoever reads it finds out what is wrong */
    SW_FILE_EMPTY,
    SW_FILE_TEXT,       /* UTF-8, of no other kind */
    SW_FILE_JSON,       /* begins as an object or a list does */
    SW_FILE_JSON_LINES, /* wanted, never found: JSON may be it */
    SW_FILE_YAML,       /* wanted, never found: any text may be it */
    SW_FILE_TEMPLATE,   /* the same */
    SW_FILE_SAFETENSORS,
    SW_FILE_GGUF,
    SW_FILE_NPY,
    SW_FILE_LFS_POINTER,
    SW_FILE_WEB_PAGE,
    SW_FILE_SERVER_ANSWER, /* "Entry not found" and the like, in place of what was asked for */
    SW_FILE_SENTENCEPIECE,
    SW_FILE_TIKTOKEN,
    SW_FILE_UTF16,
    SW_FILE_UTF32,
    SW_FILE_ZIP,
    SW_FILE_NPZ,
    SW_FILE_TORCH,
    SW_FILE_PICKLE,
    SW_FILE_GZIP,
    SW_FILE_BZIP2,
    SW_FILE_XZ,
    SW_FILE_ZSTD,
    SW_FILE_TAR,
    SW_FILE_HDF5,
    SW_FILE_PARQUET,
    SW_FILE_ARROW,
    SW_FILE_SQLITE,
    SW_FILE_PDF,
    SW_FILE_IMAGE,
    SW_FILE_PROGRAM,
    SW_N_FILE_FORMATS
} sw_file_format;

/* As many bytes of a file tell its kind. */
enum { SW_FILE_HEAD_BYTES = 512 };

/* The kind of a file of `file_bytes` bytes which begins with `head` [n_head]; more than
 * SW_FILE_HEAD_BYTES are not looked at. */
sw_file_format sw_file_format_of(const void *head, int64_t n_head, int64_t file_bytes);

/* "a GGUF file", "a web page (HTML)"; NULL for SW_FILE_UNKNOWN. */
const char *sw_file_format_words(sw_file_format kind);

/* SW_OK where the file may be of the kind that is wanted: TEXT, JSON, JSON_LINES, YAML, TEMPLATE,
 * SAFETENSORS, GGUF or NPY. SW_BAD_FILE names what it is instead and what to do: "path: is a Git
 * LFS pointer, not a safetensors file; ...". Damage is not looked for, and text that is merely no
 * good JSON is left to its reader. */
sw_status sw_file_expect(const char *path, const void *head, int64_t n_head, int64_t file_bytes,
                         sw_file_format wanted, sw_error *err);

/* The same, reading the first bytes of an open file. */
sw_status sw_file_expect_open(int descriptor, const char *path, int64_t file_bytes,
                              sw_file_format wanted, sw_error *err);

/* A byte order mark of UTF-8, with which some editors begin every text, is no part of it: skip
 * it. */
void sw_text_skip_mark(const char **text, int64_t *bytes);

#endif
