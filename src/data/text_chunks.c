/* text_chunks.c: text files to chunks that workers tokenize, each for itself: lines of rows, and
 * whole files of plain text. All bytes are seen on the way, so that what was tokenized before is
 * known by its content.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "data/tokenize.h"

enum { SCAN_BYTES = 1 << 20, CHUNK_BYTES = 1 << 20 };

static sw_status add_chunk(sw_text_chunks *chunks, const char *path, sw_text_chunk chunk,
                           sw_error *err) {
    if (chunks->n == chunks->capacity) {
        int capacity = chunks->capacity ? 2 * chunks->capacity : 16;
        sw_text_chunk *grown = realloc(chunks->chunk, (size_t)capacity * sizeof *grown);
        if (!grown)
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for the places of its parts", path);
        chunks->chunk = grown;
        chunks->capacity = capacity;
    }
    chunks->chunk[chunks->n++] = chunk;
    return SW_OK;
}

/* Count the lines of a buffer that lies at `at`, and cut after a line where the chunk is long
 * enough. */
static sw_status cut(sw_text_chunks *chunks, sw_text_chunk *open, int64_t *n_lines,
                     const char *path, const char *buffer, int64_t n, int64_t at,
                     int64_t file_bytes, sw_error *err) {
    const char *from = buffer, *end = buffer + n;
    for (const char *newline; (newline = memchr(from, '\n', (size_t)(end - from))) != NULL;
         from = newline + 1) {
        int64_t next = at + (newline + 1 - buffer);
        ++*n_lines;
        if (next - open->first < CHUNK_BYTES || next == file_bytes)
            continue;
        open->bytes = next - open->first;
        sw_status status = add_chunk(chunks, path, *open, err);
        if (status != SW_OK)
            return status;
        *open = (sw_text_chunk){.file = open->file, .first = next, .n_lines_before = *n_lines};
    }
    return SW_OK;
}

static sw_status scan_file(const sw_text_files *files, int file, char *buffer,
                           void (*seen)(void *to, const void *bytes, int64_t n), void *to,
                           sw_text_chunks *chunks, sw_error *err) {
    const char *path = files->paths[file];
    int descriptor;
    int64_t n_lines = 0, file_bytes;
    sw_text_chunk open = {.file = file};
    sw_status status = sw_file_open(path, &descriptor, &file_bytes, err);
    if (status != SW_OK)
        return status;
    seen(to, &file_bytes,
         sizeof file_bytes); /* so that no two lists of files have the same bytes */
    for (int64_t at = 0; at < file_bytes && status == SW_OK; at += SCAN_BYTES) {
        int64_t n = file_bytes - at < SCAN_BYTES ? file_bytes - at : SCAN_BYTES;
        status = sw_file_read_at(descriptor, path, buffer, n, at, err);
        if (status == SW_OK && at == 0 &&
            !files->are_rows) /* rows are looked at where they are read */
            status = sw_file_expect(path, buffer, n, file_bytes, SW_FILE_TEXT, err);
        if (status == SW_OK)
            seen(to, buffer, n);
        if (status == SW_OK && files->are_rows)
            status = cut(chunks, &open, &n_lines, path, buffer, n, at, file_bytes, err);
    }
    close(descriptor);
    open.bytes = file_bytes - open.first;
    chunks->bytes += file_bytes;
    return status == SW_OK ? add_chunk(chunks, path, open, err) : status;
}

sw_status sw_text_scan(const sw_text_files *files,
                       void (*seen)(void *to, const void *bytes, int64_t n), void *to,
                       sw_text_chunks *chunks, sw_error *err) {
    sw_status status = SW_OK;
    char *buffer = malloc(SCAN_BYTES);
    *chunks = (sw_text_chunks){0};
    if (!buffer)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d bytes to read it with",
                       files->paths[0], SCAN_BYTES);
    for (int i = 0; i < files->n && status == SW_OK; i++)
        status = scan_file(files, i, buffer, seen, to, chunks, err);
    free(buffer);
    return status;
}
