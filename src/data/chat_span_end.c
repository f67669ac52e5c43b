/* chat_span_end.c: where an answer ends: behind the token that ends its turn. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "data/chat_marks.h"
#include "data/chat_spans_internal.h"

/* Where the next message's words begin, behind `last`. */
static int64_t next_words(const sw_jinja_rendering *whole, int64_t last) {
    int64_t next = whole->bytes;
    for (int64_t k = whole->n_origins - 1; k >= 0 && whole->origins[k].first >= last; k--)
        next = whole->origins[k].first;
    return next;
}

/* Behind the answer's last byte, at *end, the turn that ends there has no token; where it goes on
 * it may. */
static sw_status with_token(sw_finder *f, int64_t *end) {
    const sw_jinja_rendering *whole = &f->out->whole;
    const json_t *eos = json_object_get(f->chat->own, "eos_token");
    const sw_slice rest = sw_spans_part(whole, *end, next_words(whole, *end)),
                   token = {json_string_value(eos), (int64_t)json_string_length(eos)};
    if (token.bytes && sw_begins_with(rest, token)) {
        *end += token.bytes;
        return SW_OK;
    }
    const int64_t n = sw_mark_at(rest);
    int64_t next = n;
    while (n && next < rest.bytes && sw_are_blanks((sw_slice){rest.text + next, 1}))
        next++;
    /* one of two marks in a row ends the turn, if the second one begins the next: so the first is
     * no header's */
    const sw_slice behind = {rest.text + next, n ? rest.bytes - next : 0};
    const int64_t n_second = sw_mark_at(behind);
    if (n_second == 0 || sw_is_thought((sw_slice){behind.text, n_second}))
        return SW_OK;
    sw_slice header;
    char *kept;
    sw_status status = sw_spans_header(f, &header, &kept);
    if (!status && !(sw_mark_at(header) == n && sw_begins_with(header, (sw_slice){rest.text, n})))
        *end += n;
    free(kept);
    return status;
}

/* The last turn ends otherwise than those before it. What begins the next turn is known by the mark
 * that begins a header. */
static sw_status end_before_header(sw_finder *f, int64_t last, int64_t *end) {
    static const char what[] = "where the assistant's turn ends";
    const sw_jinja_rendering *whole = &f->out->whole;
    sw_slice header;
    char *kept;
    sw_status status = sw_spans_header(f, &header, &kept);
    const int64_t n = status ? 0 : sw_mark_at(header);
    const sw_slice gap = sw_spans_part(whole, last, next_words(whole, last));
    const char *begins = n ? memmem(gap.text, (size_t)gap.bytes, header.text, (size_t)n) : NULL;
    free(kept);
    if (status)
        return status;
    const sw_slice token =
        sw_without_blanks_behind((sw_slice){gap.text, begins ? begins - gap.text : 0});
    if (token.bytes == 0 || !sw_are_marks(token))
        return sw_spans_refuse(f, what);
    *end = last + token.bytes;
    return SW_OK;
}

/* Without the mark at its end, if that begins a header: it stands before the first message too, and
 * "user" follows it. */
static sw_slice without_header(const sw_jinja_rendering *part, sw_slice cut, char follows) {
    int64_t k = cut.bytes - 1;
    while (k > 0 && k + sw_mark_at((sw_slice){cut.text + k, cut.bytes - k}) != cut.bytes)
        k--;
    const int64_t n = part->n_origins && part->origins[0].first > 0 ? part->origins[0].first : 0;
    if (k <= 0 || !isalpha((unsigned char)follows) ||
        !memmem(part->text, (size_t)n, cut.text + k, (size_t)(cut.bytes - k)))
        return cut;
    return sw_without_blanks_behind((sw_slice){cut.text, k});
}

/* What follows the last byte of an answer that ends a conversation is more than a mark: the end of
 * its turn, or something that the template puts behind everything ("<|end|><|endoftext|>")? A
 * further turn tells: the end of this one stands before it too. tail->text is a copy. */
static sw_status cut_footer(sw_finder *f, int64_t start, sw_slice *tail) {
    const sw_jinja_rendering *whole = &f->out->whole, *part = &f->out->part;
    bool is_there;
    sw_status status = sw_spans_render(f, sw_spans_messages(f, f->i + 1, "user"), false, &is_there);
    if (status)
        return status;
    const int64_t first = is_there ? sw_spans_first_byte(part, f->i) : -1;
    int64_t last = first < 0 ? -1 : sw_spans_last_byte(part, f->i, first, (sw_slice){"", 0}),
            common = 0;
    if (is_there && first < 0 &&
        sw_begins_with(sw_spans_part(part, 0, part->bytes), sw_spans_part(whole, 0, start)))
        last = start; /* an answer without a byte of its own */
    while (last >= 0 && common < tail->bytes && last + common < part->bytes &&
           part->text[last + common] == tail->text[common])
        common++;
    sw_slice cut = sw_without_blanks_behind((sw_slice){tail->text, sw_before_mark(*tail, common)});
    if (last >= 0 && common < tail->bytes && last + common < part->bytes)
        cut = without_header(part, cut, part->text[last + common]);
    if (common == tail->bytes || (!sw_ends_in_mark(cut) && sw_ends_in_mark(*tail)))
        return SW_OK; /* all of it, or the last turn has an end of its own */
    *tail = cut;
    return sw_ends_in_mark(cut) ? SW_OK : sw_spans_refuse(f, "where the assistant's turn ends");
}

/* The end of the turn in `turn`, a rendering that ends with it, looked for in the whole. */
static sw_status match_end(sw_finder *f, const sw_jinja_rendering *turn, int64_t start,
                           int64_t turn_last, int64_t last, int64_t *end) {
    static const char what[] = "where the assistant's turn ends";
    const sw_jinja_rendering *whole = &f->out->whole;
    const bool is_beginning =
        sw_begins_with(sw_spans_part(whole, 0, whole->bytes), sw_spans_part(turn, 0, turn_last));
    sw_slice tail = sw_without_blanks_behind(sw_spans_part(turn, turn_last, turn->bytes));
    char *kept = NULL;
    sw_status status = SW_OK;
    if (tail.bytes > 0 && sw_mark_at(tail) != tail.bytes) {
        kept = malloc((size_t)tail.bytes);
        if (!kept)
            return sw_spans_no_memory(f->err);
        tail.text = memcpy(kept, tail.text, (size_t)tail.bytes);
        status = cut_footer(f, start, &tail);
    }
    const int64_t same = tail.bytes > 0 ? sw_spans_last_byte(whole, f->i, start, tail) : last;
    if (!status && is_beginning &&
        sw_begins_with(sw_spans_part(whole, turn_last, whole->bytes), tail))
        *end = turn_last + tail.bytes;
    else if (!status && same >= 0)
        *end = same + tail.bytes;
    else if (!status)
        status = last < 0 ? sw_spans_refuse(f, what) : end_before_header(f, last, end);
    if (!status && tail.bytes == 0)
        status = with_token(f, end);
    free(kept);
    return status;
}

sw_status sw_spans_find_end(sw_finder *f, int64_t start, int64_t *end) {
    static const char what[] = "where the assistant's turn ends";
    static const sw_slice nothing = {"", 0};
    const sw_jinja_rendering *whole = &f->out->whole, *turn = whole;
    const int64_t last = sw_spans_last_byte(whole, f->i, start, nothing);
    bool is_there = true;
    if (f->adds_prompt || f->i + 1 < (int)json_array_size(f->conversation->messages)) {
        sw_status status =
            sw_spans_render(f, sw_spans_messages(f, f->i + 1, NULL), false, &is_there);
        if (status)
            return status;
        turn = &f->out->part;
    }
    if (!is_there)
        return last < 0 ? sw_spans_refuse(f, what) : end_before_header(f, last, end);
    const int64_t turn_first = sw_spans_first_byte(turn, f->i);
    const int64_t turn_last =
        turn_first < 0 ? start : sw_spans_last_byte(turn, f->i, turn_first, nothing);
    if (turn_last > turn->bytes ||
        (turn_first < 0 &&
         !sw_begins_with(sw_spans_part(whole, 0, whole->bytes), sw_spans_part(turn, 0, start))))
        return sw_spans_refuse(f, what);
    const sw_jinja_origin *after = sw_spans_last_before(turn, turn->bytes);
    if (after && after->end > turn_last)
        return sw_spans_refuse(f, what); /* another message's words come behind this one's */
    return match_end(f, turn, start, turn_last, last, end);
}
