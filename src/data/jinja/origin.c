/* origin.c: words beside bytes. */
#include "data/jinja/origin.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "data/jinja/text.h"

/* ---- where the words are ---- */

static bool is_within(const char *bytes, const char *first, size_t n) {
    return (uintptr_t)bytes - (uintptr_t)first < n;
}

/* The chunk that the bytes lie in; NULL: they lie elsewhere. */
static jinja_chunk *chunk_of(const jinja_run *run, const char *bytes) {
    jinja_chunk *chunk = run->memory->chunks;
    while (chunk && !is_within(bytes, chunk->bytes, chunk->capacity))
        chunk = chunk->next;
    return chunk;
}

/* The words of bytes that may be data; NULL: all are the template's own. */
static const uint16_t *origins_at(const jinja_run *run, const char *bytes) {
    const sw_jinja_memory *memory = run->memory;
    if (is_within(bytes, memory->output, (size_t)memory->output_capacity))
        return memory->output_origins + (bytes - memory->output);
    const jinja_chunk *chunk = chunk_of(run, bytes);
    const size_t at = chunk ? (size_t)(bytes - chunk->bytes) : 0;
    return chunk && at < chunk->n_traced ? chunk->origins + at : NULL;
}

bool sw_jinja_origins_of_chunk(jinja_run *run, jinja_chunk *chunk) {
    if (chunk->origins) {
        memset(chunk->origins, 0, chunk->n_traced * sizeof *chunk->origins);
        chunk->n_traced = 0;
        return true;
    }
    chunk->origins = calloc(chunk->capacity, sizeof *chunk->origins);
    return chunk->origins || sw_jinja_fail_memory(run);
}

bool sw_jinja_origins_widen(jinja_run *run) {
    sw_jinja_memory *memory = run->memory;
    uint16_t *wider =
        realloc(memory->output_origins, (size_t)memory->output_capacity * sizeof *wider);
    if (!wider)
        return sw_jinja_fail_memory(run);
    memory->output_origins = wider;
    return true;
}

bool sw_jinja_origins_begin(jinja_run *run) {
    jinja_chunk *kept = run->memory->chunks;
    return sw_jinja_origins_widen(run) && (!kept || sw_jinja_origins_of_chunk(run, kept));
}

/* ---- following bytes ---- */

void sw_jinja_copy_origins(jinja_run *run, const char *to, const char *from, int64_t n) {
    const uint16_t *origins = n > 0 ? origins_at(run, from) : NULL;
    jinja_chunk *chunk = origins ? chunk_of(run, to) : NULL;
    if (!chunk)
        return; /* words of a chunk are 0 until data comes */
    const size_t at = (size_t)(to - chunk->bytes);
    memcpy(chunk->origins + at, origins, (size_t)n * sizeof *origins);
    if (at + (size_t)n > chunk->n_traced)
        chunk->n_traced = at + (size_t)n;
}

void sw_jinja_write_origins(jinja_run *run, const char *from, int64_t n) {
    uint16_t *to = run->memory->output_origins + run->n_output;
    const uint16_t *origins = n > 0 ? origins_at(run, from) : NULL;
    if (origins)
        memcpy(to, origins, (size_t)n * sizeof *origins);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

void sw_jinja_inherit_origin(jinja_run *run, int64_t first, const char *from) {
    const uint16_t *origin = sw_jinja_traces(run) ? origins_at(run, from) : NULL;
    for (; origin && first < run->n_output; first++)
        run->memory->output_origins[first] = *origin;
}

/* Copies of one word. */
static void fill(uint16_t *to, uint16_t word, int64_t n) {
    const uint64_t four = word * UINT64_C(0x0001000100010001);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        memcpy(to + i, &four, sizeof four);
    for (; i < n; i++)
        to[i] = word;
}

/* The end of the run of equal words that begins at `first`. */
static int64_t run_end(const uint16_t *origins, int64_t first, int64_t n) {
    const uint64_t four = origins[first] * UINT64_C(0x0001000100010001);
    int64_t i = first + 1;
    for (uint64_t next; i + 4 <= n && (memcpy(&next, origins + i, sizeof next), next == four);)
        i += 4;
    while (i < n && origins[i] == origins[first])
        i++;
    return i;
}

jinja_text *sw_jinja_text_of_data(jinja_run *run, const char *bytes, int64_t n_bytes, int origin) {
    jinja_text *text = sw_jinja_text(run, bytes, n_bytes);
    jinja_chunk *chunk = text && n_bytes > 0 ? chunk_of(run, text->bytes) : NULL;
    if (!chunk)
        return text;
    const size_t at = (size_t)(text->bytes - chunk->bytes);
    fill(chunk->origins + at, (uint16_t)origin, n_bytes);
    if (at + (size_t)n_bytes > chunk->n_traced)
        chunk->n_traced = at + (size_t)n_bytes;
    return text;
}

/* ---- the result ---- */

bool sw_jinja_give_origins(jinja_run *run, sw_jinja_rendering *out) {
    sw_jinja_memory *memory = run->memory;
    const uint16_t *origins = memory->output_origins;
    int64_t n = 0;
    for (int64_t i = 0; i < run->n_output;) {
        int64_t first = i;
        i = run_end(origins, first, run->n_output);
        if (origins[first] == JINJA_ORIGIN_OWN)
            continue;
        if (n == memory->runs_capacity) {
            int64_t wider = larger(2 * n, 32);
            sw_jinja_origin *runs = realloc(memory->runs, (size_t)wider * sizeof *runs);
            if (!runs)
                return sw_jinja_fail_memory(run);
            memory->runs = runs;
            memory->runs_capacity = wider;
        }
        memory->runs[n++] = (sw_jinja_origin){first, i, origins[first]};
    }
    out->origins = memory->runs;
    out->n_origins = n;
    return true;
}
