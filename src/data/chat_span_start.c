/* chat_span_start.c: where an answer begins: behind the header that the generation prompt ends
 * in. */
#include <stdlib.h>
#include <string.h>

#include "data/chat_marks.h"
#include "data/chat_spans_internal.h"

/* What a plain answer in the place of message i would have in front of it, behind `at` or the place
 * like it: the header of an answer where the template knows no prompt for it. *is_there: such a
 * conversation is rendered, with the same text before that place. */
static sw_status find_plain_gap(sw_finder *f, int64_t at, sw_slice *gap, bool *is_there) {
    const sw_jinja_rendering *whole = &f->out->whole, *part = &f->out->part;
    *gap = (sw_slice){"", 0};
    sw_status status = sw_spans_render(f, sw_spans_messages(f, f->i, "assistant"), false, is_there);
    const int64_t first = !status && *is_there ? sw_spans_first_byte(part, f->i) : -1;
    *is_there = first >= 0;
    if (!*is_there)
        return status;
    const sw_jinja_origin *last = sw_spans_last_before(whole, at),
                          *part_last = sw_spans_last_before(part, first);
    const sw_slice before = sw_spans_part(whole, last ? last->end : 0, at);
    *gap = sw_spans_part(part, part_last ? part_last->end : 0, first);
    *is_there = sw_begins_with(*gap, before);
    gap->text += *is_there ? before.bytes : 0;
    gap->bytes -= *is_there ? before.bytes : 0;
    return SW_OK;
}

/* A header's own blank at its end is the answer's: of "ASSISTANT: " as of the one behind "[/INST]".
 * Its line end is not. */
static int64_t before_spaces(const sw_jinja_rendering *whole, int64_t at, int64_t least) {
    while (at > least && whole->text[at - 1] == ' ')
        at--;
    return at;
}

/* What stands between the end of the generation prompt, at `at`, and the answer's first byte, at
 * `first`, is said by the model where that prompt says who speaks. A template without a prompt may
 * have a header there. */
static sw_status decide_start(sw_finder *f, int64_t at, int64_t first, int64_t *start) {
    const sw_jinja_rendering *whole = &f->out->whole;
    sw_slice header, plain;
    char *kept;
    bool is_there;
    *start = at;
    if (sw_are_blanks(sw_spans_part(whole, at, first)))
        return SW_OK;
    sw_status status = sw_spans_header(f, &header, &kept);
    const bool has_header = header.bytes > 0;
    free(kept);
    if (status || has_header)
        return status;
    if ((status = find_plain_gap(f, at, &plain, &is_there)) != SW_OK)
        return status;
    if (is_there && sw_are_blanks(plain))
        return SW_OK; /* there is no header at all: "[/INST]" is enough */
    if (!is_there)
        plain = sw_spans_part(whole, at, first);
    if (!sw_is_header(plain) ||
        !sw_begins_with(sw_spans_part(whole, at, first), sw_without_blanks_behind(plain)))
        return sw_spans_refuse(f, "where the assistant's header ends");
    const int64_t end = sw_begins_with(sw_spans_part(whole, at, first), plain)
                            ? at + plain.bytes
                            : at + sw_without_blanks_behind(plain).bytes;
    *start = before_spaces(whole, end, at);
    return SW_OK;
}

/* An answer without a byte of its own stands where a plain one would. */
static sw_status find_empty_start(sw_finder *f, int64_t at, int64_t *start) {
    const sw_jinja_rendering *whole = &f->out->whole;
    sw_slice header, plain;
    char *kept;
    bool is_there;
    *start = at;
    sw_status status = sw_spans_header(f, &header, &kept);
    const bool has_header = header.bytes > 0;
    free(kept);
    if (status || has_header)
        return status;
    if ((status = find_plain_gap(f, at, &plain, &is_there)) != SW_OK)
        return status;
    if (is_there && sw_are_blanks(plain))
        return SW_OK;
    if (!is_there || !sw_is_header(plain) ||
        !sw_begins_with(sw_spans_part(whole, at, whole->bytes), plain))
        return sw_spans_refuse(f, "where the assistant's empty turn stands");
    *start = before_spaces(whole, at + plain.bytes, at);
    return SW_OK;
}

/* The header that a prompt ends in stands once in the template's text before the answer; what
 * follows it is said. */
static bool ends_header(sw_slice here, sw_slice header, int64_t *at) {
    const char *found =
        header.bytes ? memmem(here.text, (size_t)here.bytes, header.text, (size_t)header.bytes)
                     : NULL;
    if (!found || sw_are_blanks(header))
        return false;
    *at = found + header.bytes - here.text;
    return !memmem(here.text + *at, (size_t)(here.bytes - *at), header.text, (size_t)header.bytes);
}

/* The beginning with the generation prompt is no beginning of the whole: compare what follows the
 * last message before it. */
static sw_status align_start(sw_finder *f, int64_t first, int64_t *start) {
    static const char what[] = "where the assistant's turn begins";
    const sw_jinja_rendering *whole = &f->out->whole, *part = &f->out->part;
    const sw_jinja_origin *last = sw_spans_last_before(whole, first),
                          *part_last = sw_spans_last_before(part, part->bytes);
    if (last &&
        last->origin >=
            SW_FIRST_MESSAGE) /* a variable may stand in the prompt: it is no message's word */
        while (part_last && part_last->origin != last->origin)
            part_last = part_last > part->origins ? part_last - 1 : NULL;
    if (first < 0 || !last != !part_last || (last && last->origin != part_last->origin))
        return sw_spans_refuse(f, what);
    const int64_t from = last ? last->end : 0, part_from = part_last ? part_last->end : 0;
    const sw_slice here = sw_spans_part(whole, from, first),
                   there = sw_spans_part(part, part_from, part->bytes);
    if (sw_begins_with(here, there))
        return decide_start(f, from + there.bytes, first, start);
    int64_t common = 0, at;
    while (common < here.bytes && common < there.bytes && here.text[common] == there.text[common])
        common++;
    common = sw_before_mark(here, common);
    const sw_slice rest = {here.text + common, here.bytes - common},
                   other = {there.text + common, there.bytes - common};
    const bool has_common = !sw_are_blanks((sw_slice){here.text, common}),
               is_same_end = sw_ends_with(other, rest),
               are_same = (sw_are_blanks(rest) && sw_are_blanks(other)) || sw_is_thought(other);
    if (has_common && (is_same_end || are_same)) {
        /* The prompt says more than the turn does: a switch between two ends that are the same, or
         * a thought that is begun. Or the blank behind the header is another one. */
        *start = is_same_end ? first : from + common;
        return SW_OK;
    }
    sw_slice header;
    char *kept;
    sw_status status = sw_spans_header(f, &header, &kept);
    const bool is_found = !status && ends_header(sw_spans_part(whole, from, first), header, &at);
    free(kept);
    if (!status && !is_found)
        return sw_spans_refuse(f, what);
    *start = from + (is_found ? at : 0);
    return status;
}

/* A conversation that the assistant begins: the header is that of another conversation, or of a
 * plain answer in its place. */
static sw_status start_of_first(sw_finder *f, int64_t first, int64_t *start) {
    const sw_jinja_rendering *whole = &f->out->whole;
    sw_slice header, plain;
    char *kept;
    bool is_there;
    if (first < 0)
        return sw_spans_refuse(f, "where the assistant's turn begins");
    sw_status status = sw_spans_header(f, &header, &kept);
    const bool is_found = !status && ends_header(sw_spans_part(whole, 0, first), header, start),
               has_header = header.bytes > 0;
    free(kept);
    if (status || is_found)
        return status;
    if ((status = find_plain_gap(f, 0, &plain, &is_there)) != SW_OK)
        return status;
    const bool has_none = !has_header && sw_are_blanks(plain); /* a plain answer needs no header */
    if (!is_there || !(has_none || sw_is_header(plain)) ||
        !sw_begins_with(sw_spans_part(whole, 0, first), plain))
        return sw_spans_refuse(f, "where the assistant's header ends");
    *start = before_spaces(whole, plain.bytes, 0);
    return SW_OK;
}

/* An answer without a byte of its own, where the prompt begins a thought that the turn has not: the
 * header stands behind the words before it, without the marks of the thought. */
static sw_status align_empty(sw_finder *f, int64_t *start) {
    static const char what[] = "where the assistant's empty turn stands";
    const sw_jinja_rendering *whole = &f->out->whole, *part = &f->out->part;
    const sw_jinja_origin *last = NULL, *part_last = NULL;
    int64_t next = whole->bytes;
    for (int64_t k = 0; k < whole->n_origins; k++) {
        const int origin = whole->origins[k].origin;
        if (origin >= SW_FIRST_MESSAGE && origin < SW_FIRST_MESSAGE + f->i)
            last = &whole->origins[k], next = whole->bytes;
        else if (last && next == whole->bytes)
            next = whole->origins[k].first;
    }
    for (int64_t k = 0; k < part->n_origins && last; k++)
        if (part->origins[k].origin == last->origin)
            part_last = &part->origins[k];
    if (!part_last)
        return sw_spans_refuse(f, what);
    const sw_slice here = sw_spans_part(whole, last->end, next),
                   there = sw_spans_part(part, part_last->end, part->bytes);
    int64_t common = 0;
    while (common < here.bytes && common < there.bytes && here.text[common] == there.text[common])
        common++;
    common = sw_before_mark(here, common);
    if (sw_are_blanks((sw_slice){here.text, common}) ||
        !sw_is_thought((sw_slice){there.text + common, there.bytes - common}))
        return sw_spans_refuse(f, what);
    *start = last->end + common;
    return SW_OK;
}

sw_status sw_spans_find_start(sw_finder *f, int64_t *start) {
    const sw_jinja_rendering *whole = &f->out->whole, *part = &f->out->part;
    const int64_t first = sw_spans_first_byte(whole, f->i);
    bool is_there;
    if (f->i == 0)
        return start_of_first(f, first, start);
    sw_status status = sw_spans_render(f, sw_spans_messages(f, f->i, NULL), true, &is_there);
    if (status)
        return status;
    if (!is_there)
        return sw_spans_refuse(f, "where the assistant's turn begins");
    const int64_t n = part->bytes;
    if (!sw_begins_with(sw_spans_part(whole, 0, whole->bytes), sw_spans_part(part, 0, n)))
        return first < 0 ? align_empty(f, start) : align_start(f, first, start);
    if (first < 0)
        return find_empty_start(f, n, start);
    *start = n; /* words of the answer may be a part of the prompt: "<think>" */
    return first < n ? SW_OK : decide_start(f, n, first, start);
}
