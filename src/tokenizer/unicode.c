/* unicode.c: look-ups in the tables of characters. */
#include "tokenizer/unicode.h"

#include <stddef.h>

bool sw_unicode_is_in(const sw_code_ranges *ranges, uint32_t code) {
    int low = 0, high = ranges->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges->ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ranges->n && ranges->ranges[low].first <= code;
}

uint32_t sw_unicode_value(const sw_code_stand_in *ranges, int n_ranges, uint32_t code,
                          uint32_t otherwise) {
    int low = 0, high = n_ranges;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_ranges && ranges[low].first <= code ? ranges[low].value : otherwise;
}

bool sw_unicode_is_space(uint32_t code) {
    if (code < 0x80)
        return code == ' ' || (code >= 9 && code <= 13);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

int sw_unicode_lower(uint32_t code, uint32_t lower[2]) {
    lower[0] = code;
    if (code < 0x80) {
        lower[0] = code >= 'A' && code <= 'Z' ? code + 32 : code;
        return 1;
    }
    if (code == 0x130) {
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    int low = 0, high = sw_unicode_n_lowers;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sw_unicode_lowers[middle].from < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < sw_unicode_n_lowers && sw_unicode_lowers[low].from == code)
        lower[0] = sw_unicode_lowers[low].to;
    return 1;
}

int sw_utf8_put(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}
