/* characters.h: characters as Python's str sees them: its white space, letters, digits and case,
 * which are not quite Unicode's own properties. Tables: character_tables.c. */
#ifndef SW_DATA_JINJA_CHARACTERS_H
#define SW_DATA_JINJA_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "tokenizer/unicode.h"

typedef struct sw_case_run {
    uint32_t first, last, step;
    int32_t distance;
} sw_case_run;

typedef struct sw_case_longer {
    uint32_t from, to[3]; /* 0: there is no more */
} sw_case_longer;

typedef struct sw_case_mapping {
    const sw_case_run *runs;
    int n_runs;
    const sw_case_longer *longer;
    int n_longer;
} sw_case_mapping;

extern const sw_code_ranges sw_python_spaces, sw_python_letters, sw_python_decimals,
    sw_python_digits, sw_python_numerics, sw_python_lowers, sw_python_uppers, sw_python_titles,
    sw_python_unprintables, sw_python_name_starts, sw_python_name_parts, sw_python_case_skipped;
extern const sw_case_mapping sw_python_to_lower, sw_python_to_upper, sw_python_to_title,
    sw_python_to_folded;

/* One character mapped: what it becomes, and how many characters that is (1 to 3). */
int sw_python_map_case(const sw_case_mapping *mapping, uint32_t code, uint32_t out[3]);

bool sw_python_is_space(uint32_t code);
bool sw_python_is_word(uint32_t code);  /* \w: letters, numbers, the underscore */
bool sw_python_is_cased(uint32_t code); /* lower, upper or title case */

/* Does str.splitlines cut after it? (Carriage return and line feed together are one end of a
 * line.) */
bool sw_python_is_line_end(uint32_t code);

/* The value of a decimal digit of any script, -1 for anything else. */
int sw_python_decimal(uint32_t code);

#endif
