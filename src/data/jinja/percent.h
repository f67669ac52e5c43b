/* percent.h: '%s has %d' % (a, b). */
#ifndef SW_DATA_JINJA_PERCENT_H
#define SW_DATA_JINJA_PERCENT_H

#include "data/jinja/run.h"

/* `values`: a tuple of what stands for each sign, a dict for %(name)s, or the only one. */
bool sw_jinja_percent(jinja_run *run, const jinja_text *format, const jinja_value *values,
                      jinja_value *out);

#endif
