/* number.h: numbers as people write them, read as one clear thing or not at all.
 *
 * A number is decimal: digits, with a sign, a fraction, an exponent of ten where the kind allows
 * it. What other programs take for something else is none here: 010 (8 to some), 0x10, 0o10, 1_000,
 * 1,000, 1:30 (90 to some), digits of other scripts, infinities. sw_numeral_remedy says what to
 * write in place of them.
 */
#ifndef SW_BASE_NUMBER_H
#define SW_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [-+]digits[.digits][e[-+]digits], the whole text, whatever the locale; finite, and not so small
 * that nothing is left of it. */
bool sw_text_parse_real(const char *text, double *value);

/* The same where the value is whole and fits: "32", "1e9", "1.5e3", exactly. */
bool sw_text_parse_integer(const char *text, int64_t *value);

/* Bytes: "1000", "512MiB", "1.5 GiB", "10 GB" (decimal). False for anything else, a part of a byte,
 * or beyond 2^63. */
bool sw_text_parse_bytes(const char *text, int64_t *bytes);

typedef enum sw_numeral { SW_NUMERAL_REAL, SW_NUMERAL_INTEGER, SW_NUMERAL_BYTES } sw_numeral;

/* What to write in place of a text that is no number of this kind, as the end of a message ("write
 * 16"). False if nothing better can be said than what the kind takes. */
bool sw_numeral_remedy(const char *text, sw_numeral kind, char *buffer, size_t buffer_bytes);

#endif
