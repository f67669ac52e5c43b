/* origin.h: which bytes of a text were given as data, and in which message.
 *
 * Text lies in the rendering's chunks, in its output, or outside of both: in the template and in
 * JSON that is nobody's data. Beside each chunk and the output lies a word for every byte, 0 for
 * the template's own. Data is copied into a chunk to have such words; whatever copies text copies
 * them along; what makes a character of another one hands its word on. So values know nothing of
 * it.
 */
#ifndef SW_DATA_JINJA_ORIGIN_H
#define SW_DATA_JINJA_ORIGIN_H

#include "data/jinja/run.h"

enum { JINJA_ORIGIN_OWN = 0, JINJA_ORIGIN_DATA = 1, JINJA_ORIGIN_MESSAGE = 2 };

/* Are origins asked for? Nothing else needs to be called if not. */
static inline bool sw_jinja_traces(const jinja_run *run) {
    return run->options.data != NULL;
}

/* Room for the words of what is there. False: failed. */
bool sw_jinja_origins_begin(jinja_run *run);
bool sw_jinja_origins_widen(jinja_run *run);
bool sw_jinja_origins_of_chunk(jinja_run *run, jinja_chunk *chunk);

/* Bytes to [n] lie in a chunk and were copied from there. */
void sw_jinja_copy_origins(jinja_run *run, const char *to, const char *from, int64_t n);

/* The n bytes behind the output's end are about to be copied from there. */
void sw_jinja_write_origins(jinja_run *run, const char *from, int64_t n);

/* What was written since `first` was made of the character at `from`. */
void sw_jinja_inherit_origin(jinja_run *run, int64_t first, const char *from);

/* A text of data: a copy of these bytes, which are of this origin. NULL: failed. */
jinja_text *sw_jinja_text_of_data(jinja_run *run, const char *bytes, int64_t n_bytes, int origin);

/* The runs of the whole output. False: failed. */
bool sw_jinja_give_origins(jinja_run *run, sw_jinja_rendering *out);

#endif
