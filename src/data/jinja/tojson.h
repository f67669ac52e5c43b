/* tojson.h: values as JSON text, as json.dumps writes it. */
#ifndef SW_DATA_JINJA_TOJSON_H
#define SW_DATA_JINJA_TOJSON_H

#include "data/jinja/run.h"

typedef struct jinja_json_style {
    const jinja_text *indent; /* NULL: all in one line */
    const jinja_text *comma, *colon;
    bool is_ascii, sorts_keys;
} jinja_json_style;

bool sw_jinja_write_json(jinja_run *run, const jinja_value *value, const jinja_json_style *style);

#endif
