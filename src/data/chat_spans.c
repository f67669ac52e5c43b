/* chat_spans.c: which bytes of a rendered conversation the assistant says.
 *
 * A template with generation marks says it. For others the rendering of the whole conversation is
 * compared with those of its beginnings. With i messages and the generation prompt, the text ends
 * where answer i begins; with i + 1 messages and without it, the text ends behind the token that
 * ends answer i, and what separates it from the next turn:
 *
 *     whole    <|user|>\nhi<|end|>\n<|assistant|>\nhello<|end|>\n<|user|>\nbye<|end|>\n ...
 *     header   <|user|>\nhi<|end|>\n<|assistant|>\n
 *     turn     <|user|>\nhi<|end|>\n<|assistant|>\nhello<|end|>\n
 *
 * Templates write a turn otherwise when others follow it: thoughts are left out, the system text
 * moves to the last question, the last turn ends in a token of its own. The beginning is then no
 * beginning of the whole. But of each byte the interpreter knows which message it comes from, so
 * the template's own text between the messages can still be compared: what follows the last byte of
 * a message in a beginning must follow it in the whole too. Where that leaves a doubt the row is
 * refused: a wrong span is worse.
 */
#include <stdlib.h>
#include <string.h>

#include "data/chat_marks.h"
#include "data/chat_spans_internal.h"

sw_status sw_spans_no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for a chat template");
}

sw_status sw_spans_refuse(const sw_finder *f, const char *what) {
    return sw_fail(f->err, SW_BAD_FILE,
                   "message %d: %s is not certain in %s: its renderings of what comes before this "
                   "turn do not show it; put generation marks, {%% generation %%} and {%% "
                   "endgeneration %%}, around what the assistant says in a copy of the template "
                   "and give that with data.chat_template or --chat-template",
                   f->i + 1, what, f->template->source);
}

/* ---- renderings ---- */

sw_status sw_spans_render(sw_finder *f, json_t *messages, bool adds_prompt, bool *is_there) {
    sw_error ignored;
    if (!messages || json_object_set_new(f->data, "messages", messages) != 0 ||
        json_object_set_new(f->data, "add_generation_prompt", json_boolean(adds_prompt)) != 0)
        return sw_spans_no_memory(f->err);
    sw_status status = sw_chat_run(f->chat, f->template, f->data, &f->out->part, &ignored);
    *is_there = status == SW_OK;
    return status == SW_NO_MEMORY ? sw_spans_no_memory(f->err) : SW_OK;
}

json_t *sw_spans_messages(const sw_finder *f, int n, const char *role) {
    json_t *list = json_array(),
           *plain = role ? json_pack("{s:s, s:s}", "role", role, "content", "x") : NULL;
    bool is_done = list && (!role || plain);
    for (int k = 0; k < n && is_done; k++)
        is_done =
            json_array_append(list, json_array_get(f->conversation->messages, (size_t)k)) == 0;
    is_done = is_done && (!role || json_array_append(list, plain) == 0);
    json_decref(plain);
    if (is_done)
        return list;
    json_decref(list);
    return NULL;
}

int64_t sw_spans_first_byte(const sw_jinja_rendering *r, int i) {
    for (int64_t k = 0; k < r->n_origins; k++)
        if (r->origins[k].origin == SW_FIRST_MESSAGE + i)
            return r->origins[k].first;
    return -1;
}

int64_t sw_spans_last_byte(const sw_jinja_rendering *r, int i, int64_t first, sw_slice tail) {
    int64_t end = -1;
    bool has_begun = false;
    for (int64_t k = 0; k < r->n_origins; k++) {
        if (r->origins[k].first < first)
            continue;
        if (r->origins[k].origin != SW_FIRST_MESSAGE + i && has_begun)
            break;
        has_begun = r->origins[k].origin == SW_FIRST_MESSAGE + i;
        if (has_begun && sw_begins_with(sw_spans_part(r, r->origins[k].end, r->bytes), tail))
            end = r->origins[k].end;
    }
    return end;
}

const sw_jinja_origin *sw_spans_last_before(const sw_jinja_rendering *r, int64_t limit) {
    const sw_jinja_origin *last = NULL;
    for (int64_t k = 0; k < r->n_origins && r->origins[k].end <= limit; k++)
        last = &r->origins[k];
    return last;
}

/* The generation prompt `text` of messages that end with an answer: behind an answer some templates
 * write the last turn otherwise, so that what the prompt adds cannot be seen. What it adds behind a
 * question stands at its end. */
static sw_status header_behind_question(sw_finder *f, sw_slice text, sw_slice *header) {
    bool is_there;
    sw_status status = sw_spans_render(f, sw_spans_messages(f, f->i, "user"), true, &is_there);
    if (status || !is_there)
        return status;
    const int64_t n = f->out->part.bytes;
    char *asked = malloc((size_t)n + 1);
    if (!asked)
        return sw_spans_no_memory(f->err);
    memcpy(asked, f->out->part.text, (size_t)n);
    status = sw_spans_render(f, sw_spans_messages(f, f->i, "user"), false, &is_there);
    const int64_t n_turn = f->out->part.bytes;
    if (!status && is_there && n_turn < n &&
        sw_begins_with((sw_slice){asked, n}, (sw_slice){f->out->part.text, n_turn}) &&
        sw_ends_with(text, (sw_slice){asked + n_turn, n - n_turn}))
        *header = (sw_slice){text.text + text.bytes - (n - n_turn), n - n_turn};
    free(asked);
    return status;
}

sw_status sw_spans_header(sw_finder *f, sw_slice *header, char **kept) {
    const char *asks =
        f->i == 0 ? "user" : NULL; /* before the first message nobody can be asked for */
    bool is_there;
    *header = (sw_slice){"", 0};
    *kept = NULL;
    sw_status status = sw_spans_render(f, sw_spans_messages(f, f->i, asks), true, &is_there);
    if (status || !is_there)
        return status;
    const int64_t n = f->out->part.bytes;
    *kept = malloc((size_t)n + 1);
    if (!*kept)
        return sw_spans_no_memory(f->err);
    memcpy(*kept, f->out->part.text, (size_t)n);
    status = sw_spans_render(f, sw_spans_messages(f, f->i, asks), false, &is_there);
    if (status || !is_there)
        return status;
    if (!sw_begins_with((sw_slice){*kept, n}, (sw_slice){f->out->part.text, f->out->part.bytes}))
        return asks ? SW_OK : header_behind_question(f, (sw_slice){*kept, n}, header);
    *header = (sw_slice){*kept + f->out->part.bytes, n - f->out->part.bytes};
    return SW_OK;
}

/* ---- all of them ---- */

static sw_status put_span(const sw_finder *f, sw_span span) {
    sw_chat_text *out = f->out;
    if (out->n_supervised == out->supervised_capacity) {
        int capacity = out->supervised_capacity ? 2 * out->supervised_capacity : 16;
        sw_span *grown = realloc(out->supervised, (size_t)capacity * sizeof *grown);
        if (!grown)
            return sw_spans_no_memory(f->err);
        out->supervised = grown;
        out->supervised_capacity = capacity;
    }
    out->supervised[out->n_supervised++] = span;
    return SW_OK;
}

/* No other message's words are in it, and no whole words of this one before it. */
static bool is_sound(const sw_finder *f, sw_span span) {
    const sw_jinja_rendering *whole = &f->out->whole;
    const int n = f->out->n_supervised;
    bool is_sound = span.first <= span.end && span.end <= whole->bytes &&
                    (n == 0 || f->out->supervised[n - 1].end <= span.first);
    for (int64_t k = 0; k < whole->n_origins && is_sound; k++) {
        const sw_jinja_origin *run = &whole->origins[k];
        const bool is_own = run->origin == SW_FIRST_MESSAGE + f->i,
                   is_inside = run->first < span.end && run->end > span.first;
        is_sound = is_own ? run->end > span.first : !is_inside;
    }
    return is_sound;
}

static bool is_asked(const sw_finder *f, sw_chat_spans spans, int i) {
    return spans == SW_SPANS_ALL
               ? sw_message_is_assistants(json_array_get(f->conversation->messages, (size_t)i))
               : f->conversation->gives_targets[i];
}

static sw_status compare_renderings(sw_finder *f, sw_chat_spans spans) {
    const int n = (int)json_array_size(f->conversation->messages);
    for (f->i = 0; f->i < n; f->i++) {
        sw_span span;
        if (!is_asked(f, spans, f->i))
            continue;
        sw_status status = SW_OK;
        if (!sw_span_recall(f, &span)) {
            status = sw_spans_find_start(f, &span.first);
            if (!status)
                status = sw_spans_find_end(f, span.first, &span.end);
            if (!status && is_sound(f, span))
                sw_span_remember(f, span);
        }
        if (!status && !is_sound(f, span))
            status = sw_spans_refuse(f, "what the assistant says");
        if (!status && span.end > span.first)
            status = put_span(f, span);
        if (status)
            return status;
    }
    return SW_OK;
}

/* Which message a mark belongs to: the one whose words are in it; -1: it has none of any. */
static int message_of(const sw_jinja_rendering *whole, sw_span span) {
    for (int64_t k = 0; k < whole->n_origins; k++)
        if (whole->origins[k].first < span.end && whole->origins[k].end > span.first &&
            whole->origins[k].origin >= SW_FIRST_MESSAGE)
            return whole->origins[k].origin - SW_FIRST_MESSAGE;
    return -1;
}

/* Those of the template's marks that are asked for. */
static sw_status take_marks(sw_finder *f, sw_chat_spans spans) {
    const sw_jinja_rendering *whole = &f->out->whole;
    const int n = (int)json_array_size(f->conversation->messages);
    int n_assistants = 0, next = 0;
    bool all = true;
    if (whole->lost_generation_line)
        return sw_fail(f->err, SW_BAD_FILE,
                       "%s, line %d: what a generation block gave was changed (trimmed, say) or "
                       "left out before it was printed, so "
                       "its place in the text is not known; print it as it is",
                       f->template->source, whole->lost_generation_line);
    for (int i = 0; i < n; i++) {
        bool is_assistants =
            sw_message_is_assistants(json_array_get(f->conversation->messages, (size_t)i));
        n_assistants += is_assistants;
        all = all && (!is_assistants || is_asked(f, spans, i));
    }
    for (int k = 0; k < whole->n_generation; k++) {
        int i = message_of(whole, whole->generation[k]);
        for (; !all && next < n && whole->n_generation == n_assistants; next++)
            if (sw_message_is_assistants(json_array_get(f->conversation->messages, (size_t)next))) {
                i = i < 0 ? next : i; /* a mark for each of them, in order */
                next++;
                break;
            }
        if (!all && (i < 0 || i >= n))
            return sw_fail(f->err, SW_BAD_FILE,
                           "which message the generation mark %d of %s belongs to is not certain, "
                           "and some are not "
                           "to be learned",
                           k + 1, f->template->source);
        sw_status status = all || is_asked(f, spans, i) ? put_span(f, whole->generation[k]) : SW_OK;
        if (status)
            return status;
    }
    return SW_OK;
}

sw_status sw_chat_find_spans(const sw_chat *chat, const sw_chat_template *t,
                             const sw_conversation *conversation, sw_chat_spans spans, json_t *data,
                             sw_chat_text *out, sw_error *err) {
    sw_finder f = {chat,
                   t,
                   conversation,
                   data,
                   out,
                   err,
                   json_is_true(json_object_get(data, "add_generation_prompt")),
                   0};
    out->n_supervised = 0;
    return sw_jinja_has_generation(t->program) ? take_marks(&f, spans)
                                               : compare_renderings(&f, spans);
}
