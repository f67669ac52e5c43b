/* edit.h: what methods and filters both do to texts. */
#ifndef SW_DATA_JINJA_EDIT_H
#define SW_DATA_JINJA_EDIT_H

#include "data/jinja/run.h"

/* Without these characters (NULL: white space) at its ends. NULL: failed, as everywhere here. */
jinja_text *sw_jinja_strip(jinja_run *run, const jinja_text *text, const jinja_text *characters,
                           bool from_left, bool from_right);
/* With `with` for `old`, at most so often (below 0: everywhere). */
jinja_text *sw_jinja_replace(jinja_run *run, const jinja_text *text, const jinja_text *old,
                             const jinja_text *with, int64_t most);

/* Where the line that begins at `at` ends, and the next begins. */
const char *sw_jinja_line_end(const char *at, const char *end);
const char *sw_jinja_next_line(const char *line_end, const char *end);

#endif
