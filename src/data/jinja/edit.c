/* edit.c: stripping, replacing, lines. */
#include "data/jinja/edit.h"

#include "data/jinja/text.h"

static bool is_among(const jinja_text *characters, uint32_t code) {
    if (!characters)
        return sw_python_is_space(code);
    for (const char *at = characters->bytes; at < sw_jinja_end_of(characters);)
        if (sw_utf8_next(&at) == code)
            return true;
    return false;
}

jinja_text *sw_jinja_strip(jinja_run *run, const jinja_text *text, const jinja_text *characters,
                           bool from_left, bool from_right) {
    const char *first = text->bytes, *end = sw_jinja_end_of(text);
    int64_t steps = characters ? 1 + characters->n_bytes / JINJA_BYTES_PER_STEP : 1;
    while (from_left && first < end) {
        const char *next = first;
        if (!is_among(characters, sw_utf8_next(&next)))
            break;
        if (!sw_jinja_spend(run, steps))
            return NULL;
        first = next;
    }
    while (from_right && end > first) {
        const char *before = end;
        if (!is_among(characters, sw_jinja_previous(&before)))
            break;
        if (!sw_jinja_spend(run, steps))
            return NULL;
        end = before;
    }
    return sw_jinja_part(run, text, first, end);
}

jinja_text *sw_jinja_replace(jinja_run *run, const jinja_text *text, const jinja_text *old,
                             const jinja_text *with, int64_t most) {
    const char *at = text->bytes, *end = sw_jinja_end_of(text), *found;
    jinja_start start = sw_jinja_start(run);
    int64_t n = 0;
    if (!sw_jinja_spend_bytes(run, text->n_bytes))
        return NULL;
    if (old->n_bytes == 0) {
        for (; n != most; n++) { /* before every character, and behind the last */
            const char *next = at;
            if (!sw_jinja_write(run, with->bytes, with->n_bytes) || !sw_jinja_spend(run, 1))
                return NULL;
            if (at == end)
                break;
            sw_utf8_next(&next);
            if (!sw_jinja_write(run, at, next - at))
                return NULL;
            at = next;
        }
    } else {
        for (; n != most && (found = sw_jinja_find(at, end, old)); n++) {
            if (!sw_jinja_write(run, at, found - at) ||
                !sw_jinja_write(run, with->bytes, with->n_bytes) || !sw_jinja_spend(run, 1))
                return NULL;
            at = found + old->n_bytes;
        }
        if (n == 0)
            return (jinja_text *)text;
    }
    if (!sw_jinja_write(run, at, end - at))
        return NULL;
    jinja_text *replaced = sw_jinja_collect(run, start);
    if (replaced)
        replaced->is_markup = text->is_markup;
    return replaced;
}

const char *sw_jinja_line_end(const char *at, const char *end) {
    while (at < end) {
        const char *next = at;
        if (sw_python_is_line_end(sw_utf8_next(&next)))
            break;
        at = next;
    }
    return at;
}

const char *sw_jinja_next_line(const char *line_end, const char *end) {
    if (line_end == end)
        return end;
    const char *next = line_end;
    if (sw_utf8_next(&next) == '\r' && next < end && *next == '\n')
        next++;
    return next;
}
