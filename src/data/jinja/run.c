/* run.c: a rendering's memory and its bounds; writing. */
#include "data/jinja/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "data/jinja/origin.h"
#include "data/jinja/text.h"

enum {
    FIRST_CHUNK = 64 << 10,
    LARGEST_CHUNK = 4 << 20,
    KEPT_CHUNK = 1 << 20,
    FIRST_OUTPUT = 4096,
    KEPT_OUTPUT = 4 << 20,
    MANY_VALUES = 256
};

bool sw_jinja_fail(jinja_run *run, const char *format, ...) {
    if (run->status != SW_OK)
        return false;
    run->status = SW_BAD_FILE;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->message, sizeof run->message, format, arguments);
    va_end(arguments);
    return false;
}

bool sw_jinja_fail_memory(jinja_run *run) {
    if (run->status != SW_OK)
        return false;
    run->status = SW_NO_MEMORY;
    snprintf(run->message, sizeof run->message, "the machine has no memory left for this");
    return false;
}

bool sw_jinja_fail_steps(jinja_run *run) {
    return sw_jinja_fail(run, "the template goes on for too long (more than %" PRId64 " steps)",
                         run->options.max_steps);
}

bool sw_jinja_fail_depth(jinja_run *run) {
    return sw_jinja_fail(run, "calls or loops within one another without end (more than %d levels)",
                         JINJA_MAX_DEPTH);
}

void *sw_jinja_take_slowly(jinja_run *run, int64_t bytes) {
    if (bytes < 0 || bytes > run->memory_left) {
        sw_jinja_fail(run, "the template's values take more than %" PRId64 " MiB of memory",
                      run->options.max_memory >> 20);
        return NULL;
    }
    int64_t need = larger((bytes + 15) & ~INT64_C(15), 16), capacity = FIRST_CHUNK;
    jinja_chunk *newest = run->memory->chunks;
    if (newest)
        capacity = smaller(2 * (int64_t)newest->capacity, LARGEST_CHUNK);
    bool is_large = need > capacity / 4; /* a chunk of its own; the newest goes on */
    if (is_large && newest)
        capacity = need;
    capacity = larger(capacity, need);
    run->memory_left -= sw_jinja_traces(run) ? 3 * capacity : capacity;
    jinja_chunk *chunk = malloc(sizeof *chunk + (size_t)capacity);
    if (!chunk) {
        sw_jinja_fail_memory(run);
        return NULL;
    }
    chunk->capacity = (size_t)capacity;
    chunk->origins = NULL;
    chunk->n_traced = 0;
    if (sw_jinja_traces(run) && !sw_jinja_origins_of_chunk(run, chunk)) {
        free(chunk);
        return NULL;
    }
    if (is_large && newest) {
        chunk->next = newest->next;
        newest->next = chunk;
        return chunk->bytes;
    }
    chunk->next = newest;
    run->memory->chunks = chunk;
    run->free = chunk->bytes + need;
    run->free_end = chunk->bytes + capacity;
    return chunk->bytes;
}

jinja_value *sw_jinja_push(jinja_run *run, int64_t n) {
    if (n > MANY_VALUES)
        return n > INT32_MAX ? NULL : sw_jinja_take(run, n * (int64_t)sizeof(jinja_value));
    if (run->n_stack + n > JINJA_STACK_VALUES) {
        sw_jinja_fail(run, "calls within one another without end");
        return NULL;
    }
    jinja_value *values = run->memory->stack + run->n_stack;
    run->n_stack += (int)n;
    return values;
}

static bool widen(jinja_run *run, int64_t n_bytes) {
    if (n_bytes > run->options.max_output - run->n_output)
        return sw_jinja_fail(run, "more than %" PRId64 " MiB of text",
                             run->options.max_output >> 20);
    int64_t capacity = larger(2 * run->memory->output_capacity, run->n_output + n_bytes);
    char *wider = realloc(run->memory->output, (size_t)capacity);
    if (!wider)
        return sw_jinja_fail_memory(run);
    run->memory->output = wider;
    run->memory->output_capacity = capacity;
    return !sw_jinja_traces(run) || sw_jinja_origins_widen(run);
}

/* Room for n more bytes of output. */
static inline bool reserve(jinja_run *run, int64_t n_bytes) {
    int64_t n = run->n_output + n_bytes;
    return (n <= run->memory->output_capacity && n <= run->options.max_output) ||
           widen(run, n_bytes);
}

bool sw_jinja_write(jinja_run *run, const char *bytes, int64_t n_bytes) {
    if (!reserve(run, n_bytes))
        return false;
    if (sw_jinja_traces(run))
        sw_jinja_write_origins(run, bytes, n_bytes);
    if (n_bytes)
        memcpy(run->memory->output + run->n_output, bytes, (size_t)n_bytes);
    run->n_output += n_bytes;
    return true;
}

bool sw_jinja_write_code(jinja_run *run, uint32_t code) {
    char bytes[4];
    return sw_jinja_write(run, bytes, sw_utf8_put(code, bytes));
}

bool sw_jinja_write_repeated(jinja_run *run, const char *bytes, int64_t n_bytes, int64_t times) {
    if (n_bytes <= 0 || times <= 0)
        return true;
    if (times > run->options.max_output / n_bytes)
        return sw_jinja_fail(run, "more than %" PRId64 " MiB of text",
                             run->options.max_output >> 20);
    int64_t total = n_bytes * times, n = n_bytes;
    if (!sw_jinja_spend_bytes(run, total) || !reserve(run, total))
        return false;
    char *first = run->memory->output + run->n_output;
    uint16_t *origins = sw_jinja_traces(run) ? run->memory->output_origins + run->n_output : NULL;
    if (origins)
        sw_jinja_write_origins(run, bytes, n_bytes);
    memcpy(first, bytes, (size_t)n_bytes);
    for (int64_t i = n_bytes; origins && i < total; i++)
        origins[i] = origins[i - n_bytes];
    for (; n < total; n += smaller(n, total - n)) /* twice as many each time */
        memcpy(first + n, first, (size_t)smaller(n, total - n));
    run->n_output += total;
    return true;
}

bool sw_jinja_write_format(jinja_run *run, const char *format, ...) {
    char bytes[128];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(bytes, sizeof bytes, format, arguments);
    va_end(arguments);
    return sw_jinja_write(run, bytes, smaller(n, (int64_t)sizeof bytes - 1));
}

jinja_text *sw_jinja_collect(jinja_run *run, jinja_start start) {
    int64_t n_bytes = run->n_output - start.n_output;
    int n_marks = run->n_marks - start.n_marks;
    jinja_text *text = sw_jinja_text(run, run->memory->output + start.n_output, n_bytes);
    if (!text || !sw_jinja_spend_bytes(run, n_bytes))
        return NULL;
    if (n_marks > 0) {
        jinja_mark *marks = sw_jinja_take(run, n_marks * (int64_t)sizeof *marks);
        if (!marks)
            return NULL;
        for (int i = 0; i < n_marks; i++) {
            marks[i] = run->memory->marks[start.n_marks + i];
            marks[i].first -= start.n_output;
            marks[i].end -= start.n_output;
        }
        text->marks = marks;
        text->n_marks = n_marks;
    }
    sw_jinja_drop(run, start);
    return text;
}

bool sw_jinja_begin_generation(jinja_run *run, int line, int *id) {
    if (run->n_generations == run->generations_capacity) {
        int wider = (int)larger(2 * run->generations_capacity, 16);
        int32_t *lines = sw_jinja_take(run, wider * (int64_t)sizeof *lines);
        if (!lines)
            return false;
        if (run->n_generations)
            memcpy(lines, run->generation_lines, (size_t)run->n_generations * sizeof *lines);
        run->generation_lines = lines;
        run->generations_capacity = wider;
    }
    *id = run->n_generations++;
    run->generation_lines[*id] = line;
    return true;
}

bool sw_jinja_mark_output(jinja_run *run, int64_t first, int64_t end, int id) {
    if (run->n_marks == run->memory->marks_capacity) {
        int wider = larger(2 * run->memory->marks_capacity, 16);
        if (run->n_marks > 1 << 20)
            return sw_jinja_fail(run, "more than a million generation marks");
        jinja_mark *marks = realloc(run->memory->marks, (size_t)wider * sizeof *marks);
        if (!marks)
            return sw_jinja_fail_memory(run);
        run->memory->marks = marks;
        run->memory->marks_capacity = wider;
    }
    run->memory->marks[run->n_marks++] = (jinja_mark){first, end, id};
    return true;
}

static void free_chunk(jinja_chunk *chunk) {
    if (chunk)
        free(chunk->origins);
    free(chunk);
}

/* Keep one chunk of moderate size, and no more. */
static void shrink(sw_jinja_memory *memory) {
    jinja_chunk *kept = NULL;
    for (jinja_chunk *chunk = memory->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk->capacity <= KEPT_CHUNK && (!kept || chunk->capacity > kept->capacity)) {
            free_chunk(kept);
            kept = chunk;
        } else {
            free_chunk(chunk);
        }
    }
    if (kept)
        kept->next = NULL;
    memory->chunks = kept;
}

sw_status sw_jinja_begin(jinja_run *run, sw_jinja_memory **kept) {
    if (!*kept)
        *kept = calloc(1, sizeof **kept);
    sw_jinja_memory *memory = *kept;
    if (memory && !memory->stack)
        memory->stack = malloc(JINJA_STACK_VALUES * sizeof *memory->stack);
    if (!memory || !memory->stack)
        return SW_NO_MEMORY;
    if (memory->output_capacity > KEPT_OUTPUT) {
        free(memory->output);
        memory->output = NULL;
    }
    if (!memory->output) {
        memory->output = malloc(FIRST_OUTPUT);
        memory->output_capacity = memory->output ? FIRST_OUTPUT : 0;
    }
    if (!memory->output)
        return SW_NO_MEMORY;
    run->memory = memory;
    if (memory->chunks) {
        run->free = memory->chunks->bytes;
        run->free_end = run->free + memory->chunks->capacity;
        run->memory_left -= (int64_t)memory->chunks->capacity;
    }
    return !sw_jinja_traces(run) || sw_jinja_origins_begin(run) ? SW_OK : SW_NO_MEMORY;
}

void sw_jinja_end(jinja_run *run) {
    if (run->memory)
        shrink(run->memory);
}

void sw_jinja_memory_free(sw_jinja_memory *memory) {
    if (!memory)
        return;
    for (jinja_chunk *chunk = memory->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free_chunk(chunk);
    }
    free(memory->output);
    free(memory->output_origins);
    free(memory->runs);
    free(memory->marks);
    free(memory->spans);
    free(memory->stack);
    free(memory);
}
