/* encode.c: the way of a text through a tokenizer's parts, to ids:
 *
 *     text -> added tokens (raw) -> normalizers -> added tokens (normalized) -> pre-tokenizers
 *          -> model -> post-processor
 *
 * Nothing is kept between the parts: a stretch of text goes through all of them before the next one
 * is looked for.
 */
#include <stdlib.h>

#include "base/text.h"
#include "tokenizer/internal.h"

/* One text on its way. */
typedef struct encoding {
    const sw_tokenizer *t;
    sw_tokenizer_scratch *scratch;
    bool is_literal;
    sw_token_list *out;
    sw_error *err;
    bool is_mixed;          /* special tokens come from all but these ranges */
    const sw_span *literal; /* [n_literal], those before the stretch passed over */
    int64_t n_literal;
    sw_token_edges *edges; /* NULL: nobody asks */
} encoding;

static sw_status put_id(const encoding *e, int32_t id) {
    return sw_token_list_put(e->out, id) ? SW_OK
                                         : sw_fail(e->err, SW_NO_MEMORY, "no memory for the ids");
}

static sw_status take_piece(void *to, const char *text, size_t n_bytes, sw_error *err) {
    const encoding *e = to;
    return sw_model_encode(&e->t->model, &e->scratch->model, text, n_bytes,
                           e->is_literal || e->is_mixed, e->out, err);
}

static sw_status normalize(const encoding *e, const char *text, size_t n_bytes, bool *begins_input,
                           const char **normalized, size_t *n_normalized) {
    return sw_normalizers_run(&e->t->normalizers, &e->scratch->pattern, e->scratch->normalized,
                              &e->scratch->copy, text, n_bytes, normalized, n_normalized,
                              begins_input, e->err);
}

/* Where a special token is searched after normalizing, which literal range it lies in cannot be
 * told; it is known only that none of the ranges, alone, becomes such a token. Those of the stretch
 * first .. end are asked; afterwards it is to be normalized again. */
static sw_status check_literal(const encoding *e, const char *text, int64_t first, int64_t end) {
    for (int64_t i = 0; i < e->n_literal; i++) {
        const int64_t from = e->literal[i].first > first ? e->literal[i].first : first;
        const int64_t to = e->literal[i].end < end ? e->literal[i].end : end;
        const sw_added_token *token;
        const char *normalized;
        size_t n_normalized, a, b;
        bool begins_input = from == 0;
        if (from >= to)
            continue;
        sw_status status = normalize(e, text + from, (size_t)(to - from), &begins_input,
                                     &normalized, &n_normalized);
        if (status)
            return status;
        sw_added_search search =
            sw_added_search_begin(&e->t->added, false, false, normalized, n_normalized);
        while (sw_added_search_next(&search, &token, &a, &b))
            if (token && token->is_special)
                return sw_fail(e->err, SW_BAD_FILE,
                               "a message spells the special token %s, which this tokenizer looks "
                               "for after normalizing, so it "
                               "cannot be told from the format's own; write it otherwise, or give "
                               "the token \"normalized\": false",
                               token->content);
    }
    return SW_OK;
}

static bool finds_special(const encoding *e, const char *text, size_t n_bytes) {
    const sw_added_token *token;
    size_t start, end;
    sw_added_search search = sw_added_search_begin(&e->t->added, false, false, text, n_bytes);
    while (sw_added_search_next(&search, &token, &start, &end))
        if (token && token->is_special)
            return true;
    return false;
}

/* Bytes first .. first + n_bytes - 1 of the text, between the tokens that are searched in the raw
 * text. */
static sw_status encode_stretch(encoding *e, const char *whole, size_t first, size_t n_bytes) {
    const sw_tokenizer *t = e->t;
    const char *text = whole + first, *normalized;
    size_t n_normalized;
    bool begins_input = first == 0;
    for (; e->n_literal > 0 && e->literal->end <= (int64_t)first; e->n_literal--)
        e->literal++;
    sw_status status = normalize(e, text, n_bytes, &begins_input, &normalized, &n_normalized);
    if (!status && e->is_mixed && t->added.has_normalized_specials && t->normalizers.n_steps &&
        finds_special(e, normalized, n_normalized)) {
        status = check_literal(e, whole, (int64_t)first, (int64_t)(first + n_bytes));
        begins_input = first == 0;
        if (!status)
            status = normalize(e, text, n_bytes, &begins_input, &normalized, &n_normalized);
    }
    if (status)
        return status;
    sw_added_search search =
        sw_added_search_begin(&t->added, false, e->is_literal, normalized, n_normalized);
    if (e->is_mixed && !t->normalizers.n_steps) {
        search.literal = e->literal;
        search.n_literal = e->n_literal;
        search.offset = (int64_t)first;
    }
    const sw_added_token *token;
    size_t start, end;
    while (!status && sw_added_search_next(&search, &token, &start, &end)) {
        if (token)
            status = put_id(e, token->id);
        else
            status = sw_pretokenize(&t->pretokenizers, &e->scratch->pretokenize, normalized + start,
                                    end - start, begins_input && start == 0,
                                    (sw_piece_sink){take_piece, e}, e->err);
    }
    return status;
}

/* The first byte at which the text is not UTF-8 any more. */
static size_t first_bad_byte(const char *text, size_t n_bytes) {
    size_t at = 0;
    while (at < n_bytes) {
        size_t n = (size_t)sw_utf8_length(text[at]);
        if (n > n_bytes - at || !sw_text_is_utf8(text + at, n))
            break;
        at += n;
    }
    return at;
}

static bool put_edge(sw_token_edges *edges, int64_t byte, int64_t id) {
    if (edges->n == edges->capacity) {
        int64_t capacity = 2 * edges->capacity + 32;
        sw_token_edge *grown = realloc(edges->edge, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        edges->edge = grown;
        edges->capacity = capacity;
    }
    edges->edge[edges->n++] = (sw_token_edge){byte, id};
    return true;
}

void sw_token_edges_free(sw_token_edges *edges) {
    free(edges->edge);
    *edges = (sw_token_edges){0};
}

static sw_status encode_text(encoding *e, const char *text, size_t n_bytes) {
    sw_status status = SW_OK;
    if (!sw_text_is_utf8(text, n_bytes))
        return sw_fail(e->err, SW_BAD_FILE, "the text is not UTF-8 at its byte %zu",
                       first_bad_byte(text, n_bytes));
    sw_added_search search =
        sw_added_search_begin(&e->t->added, true, e->is_literal, text, n_bytes);
    search.literal = e->literal;
    search.n_literal = e->n_literal;
    const sw_added_token *token;
    size_t start, end;
    while (!status && sw_added_search_next(&search, &token, &start, &end)) {
        if (e->edges && !put_edge(e->edges, (int64_t)start, e->out->n))
            return sw_fail(e->err, SW_NO_MEMORY, "no memory for the ids");
        status = token ? put_id(e, token->id) : encode_stretch(e, text, start, end - start);
    }
    return status;
}

sw_status sw_tokenizer_encode(const sw_tokenizer *t, sw_tokenizer_scratch *scratch,
                              const char *text, size_t n_bytes, int flags, sw_token_list *out,
                              sw_error *err) {
    encoding e = {.t = t,
                  .scratch = scratch,
                  .is_literal = flags & SW_ENCODE_LITERAL,
                  .out = out,
                  .err = err};
    sw_status status = SW_OK;
    for (int64_t i = 0; !status && flags & SW_ENCODE_SPECIALS && i < t->postprocessor.before.n; i++)
        status = put_id(&e, t->postprocessor.before.ids[i]);
    if (!status)
        status = encode_text(&e, text, n_bytes);
    for (int64_t i = 0; !status && flags & SW_ENCODE_SPECIALS && i < t->postprocessor.after.n; i++)
        status = put_id(&e, t->postprocessor.after.ids[i]);
    return status;
}

sw_status sw_tokenizer_encode_mixed(const sw_tokenizer *t, sw_tokenizer_scratch *scratch,
                                    const char *text, size_t n_bytes, const sw_span *literal,
                                    int64_t n_literal, sw_token_edges *edges, sw_token_list *out,
                                    sw_error *err) {
    encoding e = {
        .t = t,
        .scratch = scratch,
        .out = out,
        .err = err,
        .is_mixed = true, /* the model makes no special token of text even where no range says so */
        .literal = literal,
        .n_literal = n_literal,
        .edges = edges};
    edges->n = 0;
    sw_status status = encode_text(&e, text, n_bytes);
    if (!status && !put_edge(edges, (int64_t)n_bytes, out->n))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
    return status;
}

sw_status sw_tokenizer_encode_beginning(const sw_tokenizer *t, sw_tokenizer_scratch *scratch,
                                        const char *text, size_t first, size_t end,
                                        const sw_span *literal, int64_t n_literal,
                                        sw_token_list *out, sw_error *err) {
    encoding e = {.t = t,
                  .scratch = scratch,
                  .out = out,
                  .err = err,
                  .is_mixed = true,
                  .literal = literal,
                  .n_literal = n_literal};
    return encode_stretch(&e, text, first, end - first);
}
