/* string_literal.h: what stands between the quotes of a string in a template. */
#ifndef SW_DATA_JINJA_STRING_LITERAL_H
#define SW_DATA_JINJA_STRING_LITERAL_H

#include "data/jinja/run.h"

/* The text that it means: Python's escapes (\n, \x41, \u00e9, \101 ...); a backslash before
 * anything else stays. NULL: failed, or *problem says what is wrong with it. */
jinja_text *sw_jinja_read_string(jinja_run *run, const char *first, const char *end,
                                 const char **problem);

#endif
