/* bpe.c: byte pair encoding (Sennrich et al. 2016): start from characters, or bytes, and merge the
 * pair of lowest rank, the leftmost of equals, until no pair is left.
 *
 * Short pieces look for the lowest rank anew after each merge; long ones keep candidates in a heap,
 * where one that is outdated is recognised by the pair that stands there now. Where a text is one
 * piece (no pre-tokenizer), it is cut before each U+2581 that follows a character which no token
 * has before a U+2581: no merge can reach across, so the cuts change nothing.
 */
#include <stdlib.h>

#include "tokenizer/bpe.h"
#include "tokenizer/unicode.h"

enum { SHORT_PIECE = 48 }; /* symbols up to which looking anew is faster */

/* The symbols of a piece, being collected; an unknown one waits, as its successor may fuse with
 * it. */
typedef struct collection {
    const sw_bpe *bpe;
    sw_bpe_symbol *symbols;
    int32_t n;
    bool has_unknown;
} collection;

static void put_symbol(collection *c, int32_t id) {
    c->symbols[c->n++].id = id;
}

static void put_known(collection *c, int32_t id) {
    if (c->has_unknown)
        put_symbol(c, c->bpe->unknown);
    c->has_unknown = false;
    put_symbol(c, id);
}

/* A character [n_bytes] without a token: its bytes, or the unknown token, or nothing. */
static void put_unknown(collection *c, const char *text, size_t n_bytes) {
    bool has_bytes = c->bpe->falls_back_to_bytes;
    for (size_t i = 0; has_bytes && !c->bpe->has_all_bytes && i < n_bytes; i++)
        has_bytes = c->bpe->byte_ids[(unsigned char)text[i]] >= 0;
    if (has_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
            put_symbol(c, c->bpe->byte_ids[(unsigned char)text[i]]);
        return;
    }
    if (c->bpe->unknown < 0)
        return;
    if (c->has_unknown && !c->bpe->fuses_unknown)
        put_symbol(c, c->bpe->unknown);
    c->has_unknown = true;
}

static void collect_bytes(collection *c, const char *text, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) {
        int32_t id = c->bpe->byte_ids[(unsigned char)text[i]];
        if (id >= 0)
            put_known(c, id);
        else
            put_unknown(c, text + i, 1);
    }
}

/* Characters, each with the prefix or suffix that its place asks for. Needs room for 4 symbols per
 * byte of affixes; the caller sees to that. */
static void collect_characters(collection *c, const sw_vocabulary *v, sw_bytes *buffer,
                               const char *text, size_t n_bytes) {
    const sw_bpe *bpe = c->bpe;
    bool has_affixes = bpe->n_prefix || bpe->n_suffix;
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *symbol = at;
        size_t n = (size_t)sw_utf8_length(*at);
        at += n;
        if (!has_affixes && n == 1) {
            int32_t id = bpe->ascii_ids[(unsigned char)*symbol];
            if (id >= 0)
                put_known(c, id);
            else
                put_unknown(c, symbol, 1);
            continue;
        }
        if (has_affixes) {
            buffer->n = 0;
            if (symbol > text)
                sw_bytes_append(buffer, bpe->prefix, bpe->n_prefix);
            sw_bytes_append(buffer, symbol, n);
            if (at == end)
                sw_bytes_append(buffer, bpe->suffix, bpe->n_suffix);
            symbol = buffer->data;
            n = buffer->n;
        }
        int32_t id = sw_token_map_get(&v->by_text, symbol, n);
        if (id >= 0)
            put_known(c, id);
        else
            put_unknown(c, symbol, n);
    }
}

static int32_t merge_short(const sw_bpe *bpe, sw_bpe_symbol *symbols, int32_t n) {
    const sw_bpe_merge *pairs[SHORT_PIECE]; /* of symbols i and i + 1 */
    for (int32_t i = 0; i + 1 < n; i++)
        pairs[i] = sw_bpe_find(bpe, symbols[i].id, symbols[i + 1].id);
    for (;;) {
        int32_t best = -1;
        for (int32_t i = 0; i + 1 < n; i++)
            if (pairs[i] && (best < 0 || pairs[i]->rank < pairs[best]->rank))
                best = i;
        if (best < 0)
            return n;
        symbols[best].id = pairs[best]->id;
        n--;
        for (int32_t i = best + 1; i < n; i++) {
            symbols[i].id = symbols[i + 1].id;
            if (i + 1 < n)
                pairs[i] = pairs[i + 1];
        }
        if (best + 1 < n)
            pairs[best] = sw_bpe_find(bpe, symbols[best].id, symbols[best + 1].id);
        if (best > 0)
            pairs[best - 1] = sw_bpe_find(bpe, symbols[best - 1].id, symbols[best].id);
    }
}

static bool is_before(const sw_bpe_candidate *a, const sw_bpe_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

typedef struct heap {
    sw_bpe_candidate *items;
    size_t n;
} heap;

static void heap_put(heap *h, sw_bpe_candidate item) {
    size_t at = h->n++;
    for (; at > 0 && is_before(&item, &h->items[(at - 1) / 2]); at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = item;
}

static sw_bpe_candidate heap_take(heap *h) {
    sw_bpe_candidate top = h->items[0], last = h->items[--h->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < h->n && is_before(&h->items[child + 1], &h->items[child]))
            child++;
        if (child >= h->n || !is_before(&h->items[child], &last))
            break;
        h->items[at] = h->items[child];
        at = child;
    }
    h->items[at] = last;
    return top;
}

/* Two symbols stand next to each other: can they merge? */
static void offer(const sw_bpe *bpe, const sw_bpe_symbol *symbols, int32_t left, heap *h) {
    if (left < 0 || symbols[left].after < 0)
        return;
    const sw_bpe_merge *found = sw_bpe_find(bpe, symbols[left].id, symbols[symbols[left].after].id);
    if (found)
        heap_put(h, (sw_bpe_candidate){found->rank, left, found->id});
}

/* Each merge offers two candidates at most and removes one symbol, so the heap holds less than 3 n
 * in all. */
static int32_t merge_long(const sw_bpe *bpe, sw_bpe_symbol *symbols, int32_t n,
                          sw_bpe_candidate *candidates) {
    heap h = {candidates, 0};
    for (int32_t i = 0; i < n; i++) {
        symbols[i].before = i - 1;
        symbols[i].after = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < n; i++)
        offer(bpe, symbols, i, &h);
    while (h.n) {
        sw_bpe_candidate best = heap_take(&h);
        sw_bpe_symbol *left = &symbols[best.at];
        if (left->id < 0 || left->after < 0)
            continue;
        sw_bpe_symbol *right = &symbols[left->after];
        const sw_bpe_merge *now = sw_bpe_find(bpe, left->id, right->id);
        if (!now || now->id != best.id)
            continue;
        left->id = best.id;
        right->id = -1;
        left->after = right->after;
        if (left->after >= 0)
            symbols[left->after].before = best.at;
        offer(bpe, symbols, left->before, &h);
        offer(bpe, symbols, best.at, &h);
    }
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++)
        if (symbols[i].id >= 0)
            symbols[n_left++].id = symbols[i].id;
    return n_left;
}

sw_status sw_bpe_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                        size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err) {
    const sw_bpe *bpe = model->bpe;
    if (bpe->ignores_merges) {
        int32_t id = sw_token_map_get(model->takes_bytes ? &bpe->bytes : &model->vocabulary.by_text,
                                      text, n_bytes);
        if (id >= 0 && !(is_literal && sw_vocabulary_is_control(&model->vocabulary, id)))
            return sw_token_list_put(out, id) ? SW_OK
                                              : sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
    }
    /* With affixes a character without a token falls back to the bytes of the affixes too. */
    size_t n_most = n_bytes * (1 + bpe->n_prefix + bpe->n_suffix) + 1;
    if (!sw_model_scratch_grow((void **)&scratch->symbols, &scratch->symbols_capacity, n_most,
                               sizeof *scratch->symbols))
        return sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes);
    collection c = {bpe, scratch->symbols, 0, false};
    if (model->takes_bytes)
        collect_bytes(&c, text, n_bytes);
    else
        collect_characters(&c, &model->vocabulary, &scratch->text, text, n_bytes);
    if (c.has_unknown)
        put_symbol(&c, bpe->unknown);
    if (c.n <= SHORT_PIECE)
        c.n = merge_short(bpe, c.symbols, c.n);
    else {
        if (!sw_model_scratch_grow((void **)&scratch->candidates, &scratch->candidates_capacity,
                                   3 * (size_t)c.n, sizeof *scratch->candidates))
            return sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes);
        c.n = merge_long(bpe, c.symbols, c.n, scratch->candidates);
    }
    for (int32_t i = 0; i < c.n; i++)
        if (!sw_token_list_put(out, c.symbols[i].id))
            return sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
    return scratch->text.is_short
               ? sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes)
               : SW_OK;
}
