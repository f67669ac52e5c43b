/* precompiled.c: reading the compiled map, and replacing by it. */
#include "tokenizer/precompiled.h"

#include <stdlib.h>

#include "base/text.h"
#include "tokenizer/unicode.h"

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Into bytes [3 * n / 4 + 1]; -1 if it is no base64. */
static int64_t base64_decode(const char *text, size_t n, unsigned char *bytes) {
    int64_t n_bytes = 0;
    uint32_t bits = 0;
    int n_bits = 0;
    while (n && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0)
            return -1;
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[n_bytes++] = (unsigned char)(bits >> n_bits);
        }
    }
    return n_bytes;
}

sw_status sw_precompiled_read(const sw_part *part, sw_precompiled *map, sw_error *err) {
    sw_text_span text = {0};
    unsigned char *blob = NULL;
    sw_status status = sw_part_text(part, "precompiled_charsmap", SW_NEEDED, &text, err);
    if (status)
        return status;
    blob = malloc(text.n_bytes + 4);
    if (!blob)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    int64_t n_blob = base64_decode(text.text, text.n_bytes, blob);
    uint32_t n_array_bytes = 0;
    if (n_blob >= 4)
        n_array_bytes =
            blob[0] | (uint32_t)blob[1] << 8 | (uint32_t)blob[2] << 16 | (uint32_t)blob[3] << 24;
    if (n_blob < 4 || n_array_bytes % 4 || n_array_bytes == 0 ||
        (int64_t)n_array_bytes > n_blob - 4) {
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: %s.precompiled_charsmap is damaged; is the download complete?",
                         part->file, part->where);
        goto done;
    }
    map->n_units = n_array_bytes / 4;
    map->units = malloc(n_array_bytes);
    map->n_replacement_bytes = (size_t)(n_blob - 4 - n_array_bytes);
    map->replacements = calloc(map->n_replacement_bytes + 1, 1);
    if (!map->units || !map->replacements) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
        goto done;
    }
    for (size_t i = 0; i < map->n_units; i++) {
        const unsigned char *at = blob + 4 + 4 * i;
        map->units[i] =
            at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
    memcpy(map->replacements, blob + 4 + n_array_bytes, map->n_replacement_bytes);
    if (!sw_text_is_utf8(map->replacements, map->n_replacement_bytes))
        status =
            sw_fail(err, SW_BAD_FILE, "%s: %s.precompiled_charsmap holds text that is not UTF-8",
                    part->file, part->where);
    else
        status = sw_pattern_compile(part->file, part->where, "\\X", 2, &map->grapheme, err);
done:
    free(blob);
    return status;
}

void sw_precompiled_free(sw_precompiled *map) {
    free(map->units);
    free(map->replacements);
    sw_pattern_free(&map->grapheme);
    *map = (sw_precompiled){0};
}

static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The replacement for the shortest member that the text begins with; NULL if there is none. */
static const char *find_replacement(const sw_precompiled *map, const char *text, size_t n_bytes) {
    size_t node = offset_of(map->units[0]);
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (!byte || node >= map->n_units)
            return NULL;
        uint32_t unit = map->units[node];
        if ((unit & (1u << 31 | 0xFF)) != byte)
            return NULL;
        node ^= offset_of(unit);
        if (node >= map->n_units)
            return NULL;
        if (unit >> 8 & 1) {
            size_t at = map->units[node] & 0x7FFFFFFF;
            return at < map->n_replacement_bytes ? map->replacements + at : "";
        }
    }
    return NULL;
}

static bool replace(const sw_precompiled *map, const char *text, size_t n_bytes, sw_bytes *out) {
    const char *replacement = find_replacement(map, text, n_bytes);
    if (replacement)
        sw_bytes_append(out, replacement, strlen(replacement));
    return replacement != NULL;
}

sw_status sw_precompiled_append(const sw_precompiled *map, const sw_pattern_scratch *scratch,
                                sw_bytes *copy, const char *text, size_t n_bytes, sw_bytes *out,
                                sw_error *err) {
    enum { SHORT_CLUSTER = 6 }; /* longer clusters are not looked up whole */
    sw_matcher matcher;
    sw_status status =
        sw_matcher_begin(&matcher, &map->grapheme, scratch, copy, text, n_bytes, err);
    for (size_t start = 0, end; !status && start < n_bytes && !out->is_short; start = end) {
        bool is_ascii_alone = (unsigned char)text[start] < 0x80 &&
                              (start + 1 == n_bytes || (unsigned char)text[start + 1] < 0x80) &&
                              text[start] != '\r';
        end = start + 1;
        if (!is_ascii_alone) {
            bool is_found;
            matcher.at = start;
            status = sw_matcher_next(&matcher, &is_found, &start, &end, err);
            if (status || !is_found)
                break;
        }
        if (end - start < SHORT_CLUSTER && replace(map, text + start, end - start, out))
            continue;
        for (const char *at = text + start; at < text + end;) {
            size_t n = (size_t)sw_utf8_length(*at);
            if (!replace(map, at, n, out))
                sw_bytes_append(out, at, n);
            at += n;
        }
    }
    return status;
}
