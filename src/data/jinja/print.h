/* print.h: values as Python prints them. */
#ifndef SW_DATA_JINJA_PRINT_H
#define SW_DATA_JINJA_PRINT_H

#include "data/jinja/run.h"

/* str(value), with the marks that a text carries; failed for what Python prints as an address, as a
 * function. */
bool sw_jinja_print(jinja_run *run, const jinja_value *value);
/* repr(value). With `is_ascii`, ascii(value). */
bool sw_jinja_show(jinja_run *run, const jinja_value *value, bool is_ascii);
/* The text of str(value): itself, where it is one. NULL: failed. */
jinja_text *sw_jinja_str(jinja_run *run, const jinja_value *value);

#endif
