/* number.h: arithmetic as Python's: whole numbers without end (big.h), division to minus infinity,
 * doubles. */
#ifndef SW_DATA_JINJA_NUMBER_H
#define SW_DATA_JINJA_NUMBER_H

#include "data/jinja/run.h"

/* + - * / // % ** of two numbers. `sign` is one of these. */
typedef enum jinja_sign {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR,
    JINJA_MODULO,
    JINJA_POWER
} jinja_sign;
bool sw_jinja_calculate(jinja_run *run, jinja_sign sign, const jinja_value *a, const jinja_value *b,
                        jinja_value *out);
bool sw_jinja_negate(jinja_run *run, const jinja_value *a, jinja_value *out);

/* Below 0, 0, above 0; 2: not comparable (NaN). */
int sw_jinja_number_order(const jinja_value *a, const jinja_value *b);
uint64_t sw_jinja_number_hash(const jinja_value *a);

/* As a double: failed where a whole number is too large for one. */
bool sw_jinja_real_of(jinja_run *run, const jinja_value *a, double *real);
/* A double without its fraction, as a whole number; failed for infinity and NaN. */
bool sw_jinja_whole_of(jinja_run *run, double real, jinja_value *out);

/* An index or a count: a bool or an integer, bigger ones cut to the ends of 64 bits. False (not
 * failed): it is neither. */
bool sw_jinja_index_of(const jinja_value *value, int64_t *index);

/* Read text as Python's int(text, base) and float(text) do: white space around, underscores between
 * digits, digits of any script. *is_number says whether it was one. False: failed. */
bool sw_jinja_read_whole(jinja_run *run, const jinja_text *text, int base, bool *is_number,
                         jinja_value *out);
bool sw_jinja_read_real(jinja_run *run, const jinja_text *text, bool *is_number, double *out);

/* round(value, digits) and round(value): half to even, by the decimal digits that a double really
 * has. */
bool sw_jinja_round(jinja_run *run, const jinja_value *value, int64_t digits, jinja_value *out);

/* Write it as str() does. */
bool sw_jinja_write_number(jinja_run *run, const jinja_value *value);
/* The shortest text that reads as the same double. buffer: 32 bytes. Returns its length. */
int sw_jinja_print_real(double real, char *buffer);

#endif
