/* text.c: nearest names by edit distance, numbers with units. */
#include "base/text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 64 };

static char plain_letter(char letter) {
    return letter == '-' ? '_' : (char)tolower((unsigned char)letter);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

int sw_text_distance(const char *a, const char *b) {
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > LONGEST_WORD || n_b > LONGEST_WORD)
        return (int)least((int)(n_a > n_b ? n_a : n_b), 1 << 20);
    int rows[3][LONGEST_WORD + 1]; /* of the table distance(first i letters of a, first j of b): i -
                                      2, i - 1 and i */
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= n_b; j++)
        above[j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            char letter_a = plain_letter(a[i - 1]), letter_b = plain_letter(b[j - 1]);
            int best = least(above[j] + 1, row[j - 1] + 1);
            best = least(best, above[j - 1] + (letter_a != letter_b));
            if (i > 1 && j > 1 && letter_a == plain_letter(b[j - 2]) &&
                plain_letter(a[i - 2]) == letter_b)
                best = least(best, before[j - 2] + 1);
            row[j] = best;
        }
        int *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[n_b];
}

const char *sw_text_nearest(const char *word, const char *const *candidates, int n_candidates) {
    const char *nearest = NULL;
    int nearest_distance = 0;
    for (int i = 0; i < n_candidates; i++) {
        int distance = sw_text_distance(word, candidates[i]);
        size_t longer = strlen(word) > strlen(candidates[i]) ? strlen(word) : strlen(candidates[i]);
        if ((size_t)distance * 3 <= longer && (!nearest || distance < nearest_distance)) {
            nearest = candidates[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}

/* Three significant digits, and no more decimals than they need. */
static void with_unit(double value, const char *unit, char *buffer, size_t buffer_bytes) {
    int decimals = fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
    char digits[48];
    snprintf(digits, sizeof digits, "%.*f", decimals, value);
    if (decimals) {
        size_t length = strlen(digits);
        while (digits[length - 1] == '0')
            digits[--length] = 0;
        if (!isdigit((unsigned char)digits[length - 1]))
            digits[--length] = 0;
    }
    snprintf(buffer, buffer_bytes, "%s%s%s", digits, *unit ? " " : "", unit);
}

static const char *const binary_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
enum { N_BINARY_UNITS = sizeof binary_units / sizeof *binary_units };

char *sw_text_bytes(int64_t bytes, char *buffer, size_t buffer_bytes) {
    double value = (double)bytes;
    int unit = 0;
    /* From 999.5 on three digits would round to 1000: the next unit says it better. */
    while (unit < N_BINARY_UNITS - 1 && fabs(value) >= (unit ? 999.5 : 1024)) {
        value /= 1024;
        unit++;
    }
    with_unit(value, binary_units[unit], buffer, buffer_bytes);
    if (!unit)
        snprintf(buffer, buffer_bytes, "%d B", (int)bytes);
    return buffer;
}

char *sw_text_count(double count, char *buffer, size_t buffer_bytes) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    while (unit < 5 && fabs(count) >= 999.5) {
        count /= 1000;
        unit++;
    }
    with_unit(count, units[unit], buffer, buffer_bytes);
    return buffer;
}

char *sw_text_loss(double loss, char *buffer, size_t buffer_bytes) {
    snprintf(buffer, buffer_bytes, isnan(loss) ? "none" : "%.4f", loss);
    return buffer;
}

char *sw_text_duration(double seconds, char *buffer, size_t buffer_bytes) {
    if (!(seconds >= 0) || seconds > 1e12)
        snprintf(buffer, buffer_bytes, "?");
    else if (seconds < 59.95)
        snprintf(buffer, buffer_bytes, "%.1f s", seconds);
    else {
        int64_t whole = (int64_t)(seconds + 0.5);
        if (whole < 3600)
            snprintf(buffer, buffer_bytes, "%d min %02d s", (int)(whole / 60), (int)(whole % 60));
        else if (whole < 86400)
            snprintf(buffer, buffer_bytes, "%d h %02d min", (int)(whole / 3600),
                     (int)(whole / 60 % 60));
        else
            snprintf(buffer, buffer_bytes, "%lld d %02d h", (long long)(whole / 86400),
                     (int)(whole / 3600 % 24));
    }
    return buffer;
}

char *sw_text_exact_bytes(int64_t bytes, char *buffer, size_t buffer_bytes) {
    int unit = 0;
    while (bytes && unit < N_BINARY_UNITS - 1 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer, buffer_bytes, "%lld%s", (long long)bytes, unit ? binary_units[unit] : "");
    return buffer;
}

char *sw_text_exact_real(double value, char *buffer, size_t buffer_bytes) {
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t callers = c_locale ? uselocale(c_locale) : (locale_t)0;
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    if (is_whole)
        snprintf(buffer, buffer_bytes, "%.0f", value);
    for (int digits = 1; !is_whole && digits <= 17; digits++) {
        snprintf(buffer, buffer_bytes, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    if (c_locale) {
        uselocale(callers);
        freelocale(c_locale);
    }
    return buffer;
}

bool sw_text_close(FILE *out, char **text) {
    bool has_failed = !out || ferror(out);
    has_failed = (out && fclose(out)) || has_failed;
    if (has_failed) {
        free(*text);
        *text = NULL;
    }
    return *text != NULL;
}

bool sw_text_is_utf8(const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    while (at < end) {
        unsigned char lead = *at++;
        if (lead < 0x80)
            continue;
        int n_more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || end - at < n_more)
            return false;
        uint32_t code = lead & (0x3Fu >> n_more);
        for (int i = 0; i < n_more; i++) {
            if ((*at & 0xC0) != 0x80)
                return false;
            code = code << 6 | (*at++ & 0x3Fu);
        }
        bool is_overlong = n_more == 2 ? code < 0x800 : n_more == 3 && code < 0x10000;
        if (is_overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return false;
    }
    return true;
}

char *sw_text_shell_word(const char *text, char *buffer, size_t buffer_bytes) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:=@%,";
    static const char quoted_quote[] = "'\\''";
    if (*text && !text[strspn(text, plain)]) {
        snprintf(buffer, buffer_bytes, "%s", text);
        return buffer;
    }
    char *to = buffer, *end = buffer + buffer_bytes - 2; /* the last quote and the NUL */
    *to++ = '\'';
    for (; *text; text++) {
        size_t n = *text == '\'' ? sizeof quoted_quote - 1 : 1;
        if (n > (size_t)(end - to))
            break;
        memcpy(to, *text == '\'' ? quoted_quote : text, n);
        to += n;
    }
    *to++ = '\'';
    *to = 0;
    return buffer;
}
