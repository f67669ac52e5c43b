/* run.h: a rendering in progress: its memory, its bounds, what it has written and why it failed.
 *
 * Functions that can fail return false (or NULL) and have told the reason, once, where it was
 * found; callers pass that on. The statement or expression that was at work then adds its line.
 *
 * All text is made at the end of the output: a text that is a value is written there, collected
 * into the rendering's memory and taken off again. So there is one way to write, and one bound.
 */
#ifndef SW_DATA_JINJA_RUN_H
#define SW_DATA_JINJA_RUN_H

#include <stddef.h>

#include "data/jinja/jinja.h"
#include "data/jinja/value.h"

enum {
    JINJA_MAX_DEPTH =
        1200, /* expressions, statements and calls within one another while rendering */
    JINJA_MAX_NESTING = 150,      /* in a template's text */
    JINJA_MAX_RANGE = 100000,     /* numbers in a range, as the reference has it */
    JINJA_MAX_BIG_LIMBS = 512,    /* 16,384 bits: beyond the 4,300 digits that Python prints */
    JINJA_MAX_FIELD = 10000000,   /* width and precision of a formatted field */
    JINJA_MAX_TEMPLATE = 4 << 20, /* bytes */
    JINJA_STACK_VALUES = 1 << 16,
    JINJA_BYTES_PER_STEP = 32,     /* copying and searching text */
    JINJA_CHARACTERS_PER_STEP = 2, /* looking at each of them */
    JINJA_STEPS_OF_A_REAL = 80     /* a double into text or out of it */
};

typedef struct jinja_chunk {
    struct jinja_chunk *next;
    size_t capacity;
    uint16_t *
        origins; /* [capacity] origin.h; NULL: nobody has asked yet. Those from n_traced on are 0 */
    size_t n_traced;
    _Alignas(16) char bytes[];
} jinja_chunk;

/* What a rendering keeps from one conversation to the next. */
typedef struct sw_jinja_memory {
    jinja_chunk *chunks; /* the newest first */
    char *output;
    int64_t output_capacity;
    uint16_t *output_origins; /* [output_capacity] where they are asked for */
    sw_jinja_origin *runs;
    int64_t runs_capacity;
    jinja_mark *marks;
    int marks_capacity;
    sw_span *spans;
    int spans_capacity;
    jinja_value *stack; /* [JINJA_STACK_VALUES] arguments and variables of calls */
} sw_jinja_memory;

struct jinja_run {
    const sw_jinja *template;
    const json_t *variables;
    sw_jinja_options options; /* without zeros but for the time */
    sw_jinja_memory *memory;
    char *free, *free_end; /* of the newest chunk */
    int64_t memory_left;
    int64_t steps_left;
    int depth;
    int n_stack;
    int64_t n_output;
    int n_marks;
    int32_t *generation_lines; /* of generation blocks, each time they ran */
    int n_generations, generations_capacity;
    int origin;           /* of the data that is being read */
    jinja_value *context; /* [template's names] what a name is that no scope knows; missing: not
                             asked yet, or not there */
    bool *is_asked;
    /* The failure: SW_OK until there is one. */
    sw_status status;
    int failed_line;
    char message[SW_MESSAGE_BYTES];
};

/* Memory of the rendering, aligned for any value, not zeroed; NULL (failed) beyond the bound or
 * where the machine has none. */
void *sw_jinja_take_slowly(jinja_run *run, int64_t bytes);
static inline void *sw_jinja_take(jinja_run *run, int64_t bytes) {
    int64_t need = ((bytes ? bytes : 1) + 15) & ~INT64_C(15);
    if (bytes < 0 || run->free_end - run->free < need)
        return sw_jinja_take_slowly(run, bytes);
    void *piece = run->free;
    run->free += need;
    return piece;
}

/* The reason, in words, of which the first wins. Returns false, to be passed on. */
bool sw_jinja_fail(jinja_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sw_jinja_fail_memory(jinja_run *run);

/* Count steps: a step is what takes some 20 nanoseconds. */
bool sw_jinja_fail_steps(jinja_run *run);
static inline bool sw_jinja_spend(jinja_run *run, int64_t steps) {
    run->steps_left -= steps;
    return run->steps_left >= 0 || sw_jinja_fail_steps(run);
}
static inline bool sw_jinja_spend_bytes(jinja_run *run, int64_t bytes) {
    return sw_jinja_spend(run, 1 + bytes / JINJA_BYTES_PER_STEP);
}

static inline bool sw_jinja_spend_characters(jinja_run *run, int64_t bytes) {
    return sw_jinja_spend(run, 1 + bytes / JINJA_CHARACTERS_PER_STEP);
}

/* One deeper; sw_jinja_leave comes after, failed or not. */
bool sw_jinja_fail_depth(jinja_run *run);
static inline bool sw_jinja_enter(jinja_run *run) {
    return ++run->depth <= JINJA_MAX_DEPTH || sw_jinja_fail_depth(run);
}
static inline void sw_jinja_leave(jinja_run *run) {
    run->depth--;
}

/* Room for n values that lives until the caller sets run->n_stack back; many come from the
 * rendering's memory. NULL: failed. */
jinja_value *sw_jinja_push(jinja_run *run, int64_t n);

/* Write text, or one character. */
bool sw_jinja_write(jinja_run *run, const char *bytes, int64_t n_bytes);
bool sw_jinja_write_code(jinja_run *run, uint32_t code);
bool sw_jinja_write_format(jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sw_jinja_write_repeated(jinja_run *run, const char *bytes, int64_t n_bytes, int64_t times);
static inline bool sw_jinja_write_words(jinja_run *run, const char *words) {
    return sw_jinja_write(run, words, (int64_t)__builtin_strlen(words));
}

/* Where a text that is not for the reader begins: at the output's end. */
typedef struct jinja_start {
    int64_t n_output;
    int n_marks;
} jinja_start;
static inline jinja_start sw_jinja_start(const jinja_run *run) {
    return (jinja_start){run->n_output, run->n_marks};
}

/* Take what was written since off again, as a value, its marks with it. NULL: failed. */
jinja_text *sw_jinja_collect(jinja_run *run, jinja_start start);

/* Forget it. */
static inline void sw_jinja_drop(jinja_run *run, jinja_start start) {
    run->n_output = start.n_output;
    run->n_marks = start.n_marks;
}

/* Generation blocks: one that begins to run gets an id; what it wrote is marked, also each time
 * that it is printed later. */
bool sw_jinja_begin_generation(jinja_run *run, int line, int *id);
bool sw_jinja_mark_output(jinja_run *run, int64_t first, int64_t end, int id);

/* Begin with what is kept (NULL at first), and end: what is kept is small then. SW_NO_MEMORY where
 * the machine has none. */
sw_status sw_jinja_begin(jinja_run *run, sw_jinja_memory **kept);
void sw_jinja_end(jinja_run *run);
void sw_jinja_memory_free(sw_jinja_memory *memory);

#endif
