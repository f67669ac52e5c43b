/* characters.c: looking characters up in Python's tables; ASCII, which nearly all text is, by
 * hand. */
#include "data/jinja/characters.h"

#include <stddef.h>

int sw_python_map_case(const sw_case_mapping *mapping, uint32_t code, uint32_t out[3]) {
    int low = 0, high = mapping->n_longer;
    while (low < high) {
        int middle = (low + high) / 2;
        if (mapping->longer[middle].from < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < mapping->n_longer && mapping->longer[low].from == code) {
        int n = 0;
        for (; n < 3 && mapping->longer[low].to[n]; n++)
            out[n] = mapping->longer[low].to[n];
        return n;
    }
    out[0] = code;
    /* The last run that begins at the code or before it. */
    for (low = 0, high = mapping->n_runs; low < high;) {
        int middle = (low + high) / 2;
        if (mapping->runs[middle].first <= code)
            low = middle + 1;
        else
            high = middle;
    }
    const sw_case_run *run = low > 0 ? &mapping->runs[low - 1] : NULL;
    if (run && code <= run->last && (code - run->first) % run->step == 0)
        out[0] = (uint32_t)((int32_t)code + run->distance);
    return 1;
}

bool sw_python_is_space(uint32_t code) {
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
    return sw_unicode_is_in(&sw_python_spaces, code);
}

bool sw_python_is_word(uint32_t code) {
    if (code < 0x80)
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
               (code >= '0' && code <= '9') || code == '_';
    return sw_unicode_is_in(&sw_python_letters, code) ||
           sw_unicode_is_in(&sw_python_numerics, code);
}

bool sw_python_is_cased(uint32_t code) {
    if (code < 0x80)
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
    return sw_unicode_is_in(&sw_python_lowers, code) || sw_unicode_is_in(&sw_python_uppers, code) ||
           sw_unicode_is_in(&sw_python_titles, code);
}

bool sw_python_is_line_end(uint32_t code) {
    return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

int sw_python_decimal(uint32_t code) {
    if (code < 0x80)
        return code >= '0' && code <= '9' ? (int)(code - '0') : -1;
    int low = 0, high = sw_python_decimals.n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sw_python_decimals.ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    const sw_code_range *range = &sw_python_decimals.ranges[low];
    return low < sw_python_decimals.n && range->first <= code ? (int)((code - range->first) % 10)
                                                              : -1;
}
