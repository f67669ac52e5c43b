/* case.h: upper and lower case of whole texts. */
#ifndef SW_DATA_JINJA_CASE_H
#define SW_DATA_JINJA_CASE_H

#include "data/jinja/run.h"

typedef enum jinja_case {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_TITLE,
    JINJA_CAPITALIZE,
    JINJA_SWAP,
    JINJA_FOLD
} jinja_case;

/* A text in another case: markup where it was. NULL: failed. */
jinja_text *sw_jinja_change_case(jinja_run *run, const jinja_text *text, jinja_case to);
/* Write a part of a text in upper or lower case, where `text` is what stands around it. */
bool sw_jinja_write_case(jinja_run *run, const char *first, const char *end, jinja_case to);

#endif
