/* field.h: one formatted field: a text or number with sign, width, precision and fill, as both of
 * Python's ways to format want it. */
#ifndef SW_DATA_JINJA_FIELD_H
#define SW_DATA_JINJA_FIELD_H

#include "data/jinja/run.h"

typedef struct jinja_field {
    uint32_t fill;      /* a character; 0: a blank */
    char align;         /* < > ^ =, 0: numbers to the right, texts to the left */
    char sign;          /* '+', ' ', 0: only minus */
    char grouping;      /* ',', '_', 0: none */
    char type;          /* of a number: b c d o x X e E f F g G n %, 0: as str() does */
    bool is_alternate;  /* # */
    bool has_zeros;     /* zeros between sign and number */
    bool no_minus_zero; /* z */
    int64_t width;
    int64_t precision; /* -1: none */
    int64_t n_digits;  /* of a whole number, at least; 0: none */
} jinja_field;

/* Write what was written since `start` once more in a field: cut to the precision, filled up to the
 * width. */
bool sw_jinja_finish_text(jinja_run *run, int64_t start, const jinja_field *field);

/* A number. The type must suit it: those of whole numbers take no double. */
bool sw_jinja_write_field(jinja_run *run, const jinja_value *number, const jinja_field *field);

#endif
