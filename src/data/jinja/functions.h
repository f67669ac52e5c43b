/* functions.h: names that every template knows, and the small objects that they make. */
#ifndef SW_DATA_JINJA_FUNCTIONS_H
#define SW_DATA_JINJA_FUNCTIONS_H

#include "data/jinja/call.h"

extern const jinja_builtin sw_jinja_number_methods[], sw_jinja_object_methods[];

/* loop.cycle, loop.changed, cycler.next, cycler.reset, dict.fromkeys. NULL: none. */
const jinja_builtin *sw_jinja_object_method(const jinja_value *owner, const jinja_text *name);
bool sw_jinja_cycler_attribute(jinja_run *run, jinja_cycler *cycler, const jinja_text *name,
                               jinja_value *out);
bool sw_jinja_call_joiner(jinja_run *run, jinja_joiner *joiner, const jinja_arguments *arguments,
                          jinja_value *out);

#endif
