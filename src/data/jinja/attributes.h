/* attributes.h: x.name, x[index], x[a:b:c]: methods, keys, items and nothing else. */
#ifndef SW_DATA_JINJA_ATTRIBUTES_H
#define SW_DATA_JINJA_ATTRIBUTES_H

#include "data/jinja/call.h"

/* Has any kind of value an attribute of that name? */
bool sw_jinja_is_attribute_name(const jinja_text *name);

/* The method of that name that a value has and the sandbox gives; NULL: none. */
const jinja_builtin *sw_jinja_method(const jinja_value *owner, const jinja_text *name);

/* An attribute alone, without keys: missing if there is none; undefined (unsafe) where the sandbox
 * keeps it. */
bool sw_jinja_attribute(jinja_run *run, const jinja_value *owner, jinja_text *name,
                        jinja_value *out);

/* x.name: the attribute, else the key, else undefined. */
bool sw_jinja_get_attribute(jinja_run *run, const jinja_value *owner, jinja_text *name,
                            bool may_be_attribute, jinja_value *out);
/* x[index]: the key or item, else (by name) the attribute, else undefined. */
bool sw_jinja_get_item(jinja_run *run, const jinja_value *owner, const jinja_value *index,
                       jinja_value *out);
/* x[start:stop:step], each a whole number or none. */
bool sw_jinja_get_slice(jinja_run *run, const jinja_value *owner, const jinja_value parts[3],
                        jinja_value *out);

/* start, stop and step of a slice of something so long, as Python's slice.indices; returns how many
 * there are. */
int64_t sw_jinja_slice_bounds(int64_t length, int64_t *start, int64_t *stop, int64_t step,
                              bool has_start, bool has_stop);

#endif
