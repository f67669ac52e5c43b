/* chat_span_memo.c: answers among the same words of a template are not compared again.
 *
 * Rows of a file are written alike. Where the template's text from the last byte before an answer
 * to its first one, and from its last one to the first byte behind it, are the same as for an
 * answer that was compared, between messages of the same roles, header and end are the same bytes
 * of it. Rows that set variables are always compared.
 */
#include <stdlib.h>
#include <string.h>

#include "data/chat_spans_internal.h"

enum { N_KEPT = 16, LONGEST_TEXT = 240, LONGEST_ROLE = 32 };

/* What stands around an answer. */
typedef struct surroundings {
    const sw_chat_template *template;
    char before[LONGEST_TEXT], after[LONGEST_TEXT], role_before[LONGEST_ROLE],
        role_after[LONGEST_ROLE];
    int32_t n_before, n_after;
    bool adds_prompt;
} surroundings;

typedef struct sw_span_memo {
    surroundings where[N_KEPT];
    struct {
        int32_t back,
            ahead; /* bytes of the span before the answer's first byte, and behind its last one */
    } span[N_KEPT];
    int n, next;
} sw_span_memo;

void sw_span_forget(sw_span_memo *memo) {
    free(memo);
}

static bool copy_role(const sw_finder *f, int i, char role[LONGEST_ROLE]) {
    const char *name = json_string_value(
        json_object_get(json_array_get(f->conversation->messages, (size_t)i), "role"));
    if (name && strlen(name) >= LONGEST_ROLE)
        return false;
    strcpy(role, i >= 0 && name ? name : "");
    return true;
}

static bool copy_text(const sw_jinja_rendering *whole, int64_t first, int64_t end,
                      char text[LONGEST_TEXT], int32_t *n) {
    if (end - first > LONGEST_TEXT)
        return false;
    *n = (int32_t)(end - first);
    memcpy(text, whole->text + first, (size_t)(end - first));
    return true;
}

/* False: this answer is none to be remembered. *answer: from its first byte to its last one. */
static bool look_around(const sw_finder *f, surroundings *s, sw_span *answer) {
    const sw_jinja_rendering *whole = &f->out->whole;
    const int32_t own = SW_FIRST_MESSAGE + f->i;
    int64_t k = 0;
    while (k < whole->n_origins && whole->origins[k].origin != own)
        k++;
    if (k == whole->n_origins || f->conversation->variables)
        return false;
    const int64_t first = k;
    while (k + 1 < whole->n_origins && whole->origins[k + 1].origin == own)
        k++;
    const int64_t before = first ? whole->origins[first - 1].end : 0,
                  after = k + 1 < whole->n_origins ? whole->origins[k + 1].first : whole->bytes;
    if ((first ? whole->origins[first - 1].origin != own - 1 : f->i > 0) ||
        (k + 1 < whole->n_origins && whole->origins[k + 1].origin != own + 1))
        return false; /* the words beside it are not those of the messages beside it */
    *answer = (sw_span){whole->origins[first].first, whole->origins[k].end};
    s->template = f->template;
    s->adds_prompt = f->adds_prompt;
    return copy_text(whole, before, answer->first, s->before, &s->n_before) &&
           copy_text(whole, answer->end, after, s->after, &s->n_after) &&
           copy_role(f, f->i - 1, s->role_before) && copy_role(f, f->i + 1, s->role_after);
}

static bool are_same(const surroundings *a, const surroundings *b) {
    return a->template == b->template && a->adds_prompt == b->adds_prompt &&
           a->n_before == b->n_before && a->n_after == b->n_after &&
           memcmp(a->before, b->before, (size_t)a->n_before) == 0 &&
           memcmp(a->after, b->after, (size_t)a->n_after) == 0 &&
           strcmp(a->role_before, b->role_before) == 0 && strcmp(a->role_after, b->role_after) == 0;
}

bool sw_span_recall(const sw_finder *f, sw_span *span) {
    const sw_span_memo *memo = f->out->memo;
    surroundings here;
    sw_span answer;
    if (!memo || !look_around(f, &here, &answer))
        return false;
    for (int k = 0; k < memo->n; k++)
        if (are_same(&memo->where[k], &here)) {
            *span = (sw_span){answer.first - memo->span[k].back, answer.end + memo->span[k].ahead};
            return true;
        }
    return false;
}

void sw_span_remember(const sw_finder *f, sw_span span) {
    surroundings here;
    sw_span answer;
    if (!look_around(f, &here, &answer) || span.first > answer.first || span.end < answer.end ||
        answer.first - span.first > here.n_before || span.end - answer.end > here.n_after)
        return;
    sw_span_memo *memo = f->out->memo ? f->out->memo : calloc(1, sizeof *memo);
    if (!memo)
        return;
    f->out->memo = memo;
    memo->where[memo->next] = here;
    memo->span[memo->next].back = (int32_t)(answer.first - span.first);
    memo->span[memo->next].ahead = (int32_t)(span.end - answer.end);
    memo->next = (memo->next + 1) % N_KEPT;
    memo->n = memo->n < N_KEPT ? memo->n + 1 : N_KEPT;
}
