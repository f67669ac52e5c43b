/* scanner.h: the words of a safetensors header, one after the other: blanks, punctuation, strings,
 * integers.
 *
 * Strings are unescaped where they stand and ended by a NUL, so nothing is copied. Every error
 * names the file and the tensor or key that is being read.
 */
#ifndef SW_FORMATS_SCANNER_H
#define SW_FORMATS_SCANNER_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_scanner {
    const char *path;
    char *text, *at, *end; /* at end[0] there is a NUL */
    const char *key;       /* whose value is being read, NULL at the top */
    sw_error *err;
} sw_scanner;

/* Refuse what stands at `at`: "FILE: tensor "w": reason", or "FILE: the header reason". Returns
 * SW_BAD_FILE. */
sw_status sw_scan_fail(const sw_scanner *scanner, const char *reason);

/* The same for a reason that quotes the file: `format` has one %s. */
sw_status sw_scan_fail_about(const sw_scanner *scanner, const char *format, const char *quoted)
    __attribute__((format(printf, 2, 0)));

void sw_scan_blanks(sw_scanner *scanner);

/* Is `c` next, blanks apart? Then it is passed over. */
bool sw_scan_pass(sw_scanner *scanner, char c);

/* A string, which stays where it is; `otherwise` is the reason when something else stands there. */
sw_status sw_scan_string(sw_scanner *scanner, const char *otherwise, char **string);

/* A plain non-negative integer below 2^63 of the field `what`: no sign, point, exponent or leading
 * zero. */
sw_status sw_scan_integer(sw_scanner *scanner, const char *what, int64_t *value);

#endif
