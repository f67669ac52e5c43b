/* jinja.h: chat templates, run as transformers runs them.
 *
 * The language is Jinja 3.1's, in the dress of transformers: an immutable sandbox, trim_blocks and
 * lstrip_blocks, `break` and `continue`, {% generation %} marks, raise_exception, strftime_now and
 * a tojson of its own. Values behave and print as Python's. A template reads what it is given and
 * writes text; it reaches nothing else, and its steps, depth, memory and output are bounded.
 *
 * A parsed template does not change: any number of threads may render it at once, each with a
 * rendering of its own. The language and what of it is refused by name are in
 * docs/design/chat-templates.md.
 */
#ifndef SW_DATA_JINJA_JINJA_H
#define SW_DATA_JINJA_JINJA_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <jansson.h>

#include <shardwise/status.h>

#include "base/slice.h"

typedef struct sw_jinja sw_jinja;

/* Read a template.
 *
 *   name      of the template in messages; copied
 *   text      [bytes] UTF-8; CR LF and CR count as LF, one final newline is dropped; copied
 *   template  out: NULL on failure. Ownership: sw_jinja_free
 *
 * Errors: SW_BAD_FILE, "NAME, line N: what is wrong"; SW_NO_MEMORY. */
sw_status sw_jinja_parse(const char *name, const char *text, int64_t bytes, sw_jinja **template,
                         sw_error *err);
void sw_jinja_free(sw_jinja *template);

/* Does the template speak of this name: as a variable, an attribute or a key, or as a whole string
 * ('tool_calls')? Where the answer is no, a key of that name can reach the text only with a whole
 * message or object that is printed or walked through. */
bool sw_jinja_mentions(const sw_jinja *template, const char *name);

/* Does it have {% generation %} marks? */
bool sw_jinja_has_generation(const sw_jinja *template);

/* How to render; zeros are the defaults. */
typedef struct sw_jinja_options {
    const struct tm *now; /* the local time that strftime_now tells; NULL: the clock's */
    int microsecond;      /* of `now` */
    int64_t max_steps;    /* nodes evaluated, items and bytes walked over; default 40 million */
    int64_t max_output;   /* bytes of text; default 64 MiB */
    int64_t max_memory;   /* bytes of values; default 256 MiB */
    const json_t *data; /* an object: further variables, which win; of the texts in them it is told
                           where they came out. NULL: none */
} sw_jinja_options;

/* Where text came out that stands in the variables `data`. A string, or a key, of element i of the
 * list `messages` there is of origin 2 + i, but for what stands under its key `role`, where that is
 * a word (letters, digits, _ and -): it is taken for the template's own, as templates write '<|' +
 * message.role + '|>'. Any other string of `data` is of origin 1. A text that filters and methods
 * made of such is of the same origin, character for character where that can be told. */
typedef struct sw_jinja_origin {
    int64_t first, end; /* bytes of the text */
    int32_t origin;
} sw_jinja_origin;

/* What came out; starts as {0}. It may be used again for the next conversation: what it holds is
 * then written over and its memory kept, which makes short conversations much faster.
 * sw_jinja_rendering_free frees it. */
typedef struct sw_jinja_rendering {
    char *text; /* [bytes], not ended by a NUL */
    int64_t bytes;
    /* What {% generation %} blocks printed, in order and apart from each other; white space
     * included, after trimming. An empty one is kept. */
    sw_span *generation;
    int n_generation;
    const sw_jinja_origin *origins; /* [n_origins] in order, apart from each other; what is not in
                                       them is the template's own */
    int64_t n_origins;
    /* The line of a block whose text was changed (trimmed, say) or left out after it was rendered,
     * so that its place is not known; 0: there is none. The text is right, what the spans say of it
     * is not all. */
    int lost_generation_line;
    struct sw_jinja_memory *memory;
} sw_jinja_rendering;

/* Render.
 *
 *   variables  an object: every name that the template sees (messages, tools,
 *              add_generation_prompt, bos_token, ...). An absent name is undefined, null is none;
 *              nothing is left out or put in
 *   options    NULL: the defaults
 *   out        on failure empty; nothing half printed
 *
 * Errors: SW_BAD_FILE, "NAME, line N: reason". What the template itself refuses by raise_exception
 * ends with its words as they are. SW_NO_MEMORY where the machine's memory is short; the bounds
 * above are SW_BAD_FILE: they are the template's fault. */
sw_status sw_jinja_render(const sw_jinja *template, const json_t *variables,
                          const sw_jinja_options *options, sw_jinja_rendering *out, sw_error *err);
void sw_jinja_rendering_free(sw_jinja_rendering *rendering);

#endif
