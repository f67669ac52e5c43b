/* format.h: '{} has {0.name!r:>8}'.format(...). */
#ifndef SW_DATA_JINJA_FORMAT_H
#define SW_DATA_JINJA_FORMAT_H

#include "data/jinja/call.h"

bool sw_jinja_format(jinja_run *run, const jinja_text *format, const jinja_arguments *arguments,
                     jinja_value *out);
/* '...'.format_map(dict) */
bool sw_jinja_format_map(jinja_run *run, const jinja_text *format, const jinja_value *map,
                         jinja_value *out);

#endif
