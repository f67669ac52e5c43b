/* bpe.c: byte pair encoding (Sennrich et al. 2016): start from characters, or bytes, and merge the pair of lowest rank, the
 * leftmost of equals, until no pair is left.
 *
 * Short pieces look for the lowest rank anew after each merge; long ones keep candidates in a heap, where one that is outdated is
 * recognised by the pair that stands there now. Where a text is one piece (no pre-tokenizer), it is cut before each U+2581 that
 * follows a character which no token has before a U+2581: no merge can reach across, so the cuts change nothing.
 */
#include <stdlib.h>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/model.h"
#include "data/tokenizer/unicode.h"

enum { SHORT_PIECE = 48 }; /* symbols up to which looking anew is faster */

#define BLANK_MARK "\xE2\x96\x81" /* U+2581 */
enum { BLANK_MARK_CODE = 0x2581, N_BLANK_MARK = 3 };

typedef struct merge {
    uint64_t pair; /* left + 1, right; 0: an empty slot */
    int32_t rank, id;
} merge;

struct sw_bpe {
    merge *merges; /* hash table */
    size_t mask;
    bool ignores_merges, falls_back_to_bytes, fuses_unknown;
    int32_t unknown;           /* -1: there is none */
    char *prefix, *suffix;     /* of a piece's symbols after the first, of its last one */
    size_t n_prefix, n_suffix; /* bytes */
    int32_t byte_ids[256];     /* of a byte: its token, or with byte fallback <0xNN>; -1: none */
    int32_t ascii_ids[128];    /* of a character; -1: none */
    bool has_all_bytes;        /* byte fallback never fails */
    sw_token_map bytes;        /* tokens as bytes, for whole pieces; takes_bytes */
    sw_bytes byte_texts;       /* what `bytes` points into */
    bool cuts_at_blanks;       /* see above */
    uint32_t *before_blanks;   /* characters that some token has before U+2581, sorted */
    size_t n_before_blanks;
};

void sw_bpe_free(sw_bpe *bpe) {
    if (!bpe)
        return;
    free(bpe->merges);
    free(bpe->prefix);
    free(bpe->suffix);
    free(bpe->before_blanks);
    sw_token_map_free(&bpe->bytes);
    sw_bytes_free(&bpe->byte_texts);
    free(bpe);
}

static merge *find_slot(const sw_bpe *bpe, uint64_t pair) {
    size_t at = (size_t)(pair * 0xD6E8FEB86659FD93u >> 32) & bpe->mask;
    while (bpe->merges[at].pair && bpe->merges[at].pair != pair)
        at = (at + 1) & bpe->mask;
    return &bpe->merges[at];
}

static const merge *find_merge(const sw_bpe *bpe, int32_t left, int32_t right) {
    const merge *slot = find_slot(bpe, (uint64_t)(left + 1) << 32 | (uint32_t)right);
    return slot->pair ? slot : NULL;
}

/* The two parts of merge i: a pair, or an old-style text with one blank. */
static bool split_merge(const json_t *row, sw_text_span parts[2]) {
    if (json_is_array(row) && json_array_size(row) == 2) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *part = json_array_get(row, i);
            if (!json_is_string(part))
                return false;
            parts[i] = (sw_text_span){json_string_value(part), json_string_length(part)};
        }
        return true;
    }
    if (!json_is_string(row))
        return false;
    const char *text = json_string_value(row), *end = text + json_string_length(row);
    const char *blank = memchr(text, ' ', (size_t)(end - text));
    if (!blank || memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
        return false;
    parts[0] = (sw_text_span){text, (size_t)(blank - text)};
    parts[1] = (sw_text_span){blank + 1, (size_t)(end - blank - 1)};
    return true;
}

static sw_status read_merges(const sw_part *part, sw_model *model, sw_error *err) {
    sw_bpe *bpe = model->bpe;
    json_t *list, *row;
    size_t i, n_slots = 16;
    sw_bytes joined = {0};
    sw_status status = sw_part_list(part, "merges", SW_NEEDED, &list, err);
    if (status)
        return status;
    while (n_slots / 2 < json_array_size(list))
        n_slots *= 2;
    bpe->merges = calloc(n_slots, sizeof *bpe->merges);
    bpe->mask = n_slots - 1;
    if (!bpe->merges || json_array_size(list) > INT32_MAX / 2)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    json_array_foreach(list, i, row) {
        sw_text_span parts[2];
        int32_t ids[2];
        if (!split_merge(row, parts)) {
            status = sw_fail(err, SW_BAD_FILE, "%s: %s.merges[%zu] does not have two parts", part->file, part->where, i);
            goto done;
        }
        for (int k = 0; k < 2; k++) {
            ids[k] = sw_token_map_get(&model->vocabulary.by_text, parts[k].text, parts[k].n_bytes);
            if (ids[k] < 0) {
                status = sw_fail(err, SW_BAD_FILE, "%s: %s.merges[%zu]: \"%.64s\" is not in the vocabulary", part->file,
                                 part->where, i, parts[k].text);
                goto done;
            }
        }
        size_t n_skipped = bpe->n_prefix < parts[1].n_bytes ? bpe->n_prefix : parts[1].n_bytes;
        joined.n = 0;
        sw_bytes_append(&joined, parts[0].text, parts[0].n_bytes);
        sw_bytes_append(&joined, parts[1].text + n_skipped, parts[1].n_bytes - n_skipped);
        sw_bytes_put(&joined, 0);
        if (joined.is_short) {
            status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
            goto done;
        }
        int32_t id = sw_token_map_get(&model->vocabulary.by_text, joined.data, joined.n - 1);
        if (id < 0) {
            status = sw_fail(err, SW_BAD_FILE, "%s: %s.merges[%zu]: its result \"%.64s\" is not in the vocabulary", part->file,
                             part->where, i, joined.data);
            goto done;
        }
        uint64_t pair = (uint64_t)(ids[0] + 1) << 32 | (uint32_t)ids[1];
        *find_slot(bpe, pair) = (merge){pair, (int32_t)i, id};
    }
done:
    sw_bytes_free(&joined);
    return status;
}

/* A copy of an optional text; the empty one is the same as none. */
static sw_status read_affix(const sw_part *part, const char *key, char **affix, size_t *n_affix, sw_error *err) {
    sw_text_span text = {0};
    sw_status status = sw_part_text(part, key, SW_ABSENT_IS_FINE, &text, err);
    if (status || !text.n_bytes)
        return status;
    *affix = malloc(text.n_bytes);
    if (!*affix)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(*affix, text.text, text.n_bytes);
    *n_affix = text.n_bytes;
    return SW_OK;
}

static sw_status read_flags(const sw_part *part, sw_model *model, sw_error *err) {
    sw_bpe *bpe = model->bpe;
    sw_text_span unknown = {0};
    sw_status status = read_affix(part, "continuing_subword_prefix", &bpe->prefix, &bpe->n_prefix, err);
    if (!status)
        status = read_affix(part, "end_of_word_suffix", &bpe->suffix, &bpe->n_suffix, err);
    if (!status)
        status = sw_part_bool(part, "ignore_merges", SW_ABSENT_IS_FINE, &bpe->ignores_merges, err);
    if (!status)
        status = sw_part_bool(part, "byte_fallback", SW_ABSENT_IS_FINE, &bpe->falls_back_to_bytes, err);
    if (!status)
        status = sw_part_bool(part, "fuse_unk", SW_ABSENT_IS_FINE, &bpe->fuses_unknown, err);
    if (!status)
        status = sw_part_text(part, "unk_token", SW_ABSENT_IS_FINE, &unknown, err);
    if (status)
        return status;
    const json_t *dropout = json_object_get(part->object, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return sw_fail(err, SW_BAD_FILE, "%s: %s.dropout makes ids random, which shardwise does not do; set it to null",
                       part->file, part->where);
    bpe->unknown = -1;
    if (unknown.text) {
        bpe->unknown = sw_token_map_get(&model->vocabulary.by_text, unknown.text, unknown.n_bytes);
        if (bpe->unknown < 0)
            return sw_fail(err, SW_BAD_FILE, "%s: %s.unk_token \"%.64s\" is not in the vocabulary", part->file, part->where,
                           unknown.text);
    }
    return SW_OK;
}

/* The tokens of single bytes and of ASCII characters. */
static void fill_small_tables(sw_model *model) {
    sw_bpe *bpe = model->bpe;
    bpe->has_all_bytes = true;
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        size_t n;
        if (model->takes_bytes)
            n = (size_t)sw_utf8_put(sw_byte_character((unsigned char)byte), text);
        else {
            static const char digits[] = "0123456789ABCDEF";
            memcpy(text, "<0x", 3);
            text[3] = digits[byte >> 4];
            text[4] = digits[byte & 15];
            text[5] = '>';
            n = 6;
        }
        bpe->byte_ids[byte] = sw_token_map_get(&model->vocabulary.by_text, text, n);
        bpe->has_all_bytes = bpe->has_all_bytes && bpe->byte_ids[byte] >= 0;
    }
    for (int c = 0; c < 128; c++) {
        char text = (char)c;
        bpe->ascii_ids[c] = sw_token_map_get(&model->vocabulary.by_text, &text, 1);
    }
}

/* Whole pieces of bytes are looked up where merges are ignored: the vocabulary, in bytes. */
static bool fill_byte_map(sw_model *model) {
    sw_bpe *bpe = model->bpe;
    const sw_vocabulary *v = &model->vocabulary;
    size_t n_bytes = 0;
    for (int32_t i = 0; i < v->n; i++)
        n_bytes += v->by_id[i].n_bytes;
    if (!sw_bytes_reserve(&bpe->byte_texts, n_bytes + 1) || !sw_token_map_create(&bpe->bytes, (size_t)v->n))
        return false;
    for (int32_t i = 0; i < v->n; i++) {
        size_t before = bpe->byte_texts.n;
        if (sw_byte_alphabet_undo(v->by_id[i].text, v->by_id[i].n_bytes, &bpe->byte_texts))
            sw_token_map_put(&bpe->bytes, bpe->byte_texts.data + before, bpe->byte_texts.n - before, v->by_id[i].id);
    }
    return true;
}

static int compare_codes(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Which characters stand before a U+2581 in some token? */
static bool find_cuts(sw_model *model) {
    sw_bpe *bpe = model->bpe;
    const sw_vocabulary *v = &model->vocabulary;
    size_t capacity = 0, n = 0;
    bpe->cuts_at_blanks = !model->takes_bytes && !bpe->n_prefix && !bpe->n_suffix && !bpe->ignores_merges &&
                          sw_token_map_get(&v->by_text, BLANK_MARK, N_BLANK_MARK) >= 0;
    for (int32_t i = 0; bpe->cuts_at_blanks && i < v->n; i++) {
        uint32_t before = 0;
        for (const char *at = v->by_id[i].text, *end = at + v->by_id[i].n_bytes; at < end;) {
            bool is_first = at == v->by_id[i].text;
            uint32_t code = sw_utf8_next(&at);
            if (code == BLANK_MARK_CODE && !is_first) {
                if (!sw_model_scratch_grow((void **)&bpe->before_blanks, &capacity, n + 1, sizeof *bpe->before_blanks))
                    return false;
                bpe->before_blanks[n++] = before;
            }
            before = code;
        }
    }
    if (n)
        qsort(bpe->before_blanks, n, sizeof *bpe->before_blanks, compare_codes);
    for (size_t i = 0; i < n; i++)
        if (!bpe->n_before_blanks || bpe->before_blanks[bpe->n_before_blanks - 1] != bpe->before_blanks[i])
            bpe->before_blanks[bpe->n_before_blanks++] = bpe->before_blanks[i];
    return true;
}

sw_status sw_bpe_read(const sw_part *part, bool ends_in_bytes, sw_model *model, sw_error *err) {
    model->bpe = calloc(1, sizeof *model->bpe);
    if (!model->bpe)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    sw_status status = sw_vocabulary_read(part, "vocab", &model->vocabulary, err);
    if (!status)
        status = read_flags(part, model, err);
    if (!status)
        status = read_merges(part, model, err);
    if (status)
        return status;
    sw_bpe *bpe = model->bpe;
    model->takes_bytes = ends_in_bytes && !bpe->n_prefix && !bpe->n_suffix && !bpe->falls_back_to_bytes;
    fill_small_tables(model);
    if ((model->takes_bytes && !fill_byte_map(model)) || !find_cuts(model))
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    return SW_OK;
}

size_t sw_bpe_next_cut(const sw_bpe *bpe, const char *text, size_t n_bytes, size_t from) {
    for (size_t at = from + 1; bpe->cuts_at_blanks && at < n_bytes; at++) {
        const char *found = memmem(text + at, n_bytes - at, BLANK_MARK, N_BLANK_MARK);
        if (!found)
            break;
        at = (size_t)(found - text);
        const char *before = found - 1;
        while (((unsigned char)*before & 0xC0) == 0x80)
            before--;
        uint32_t code = sw_utf8_next(&before);
        if (!bpe->n_before_blanks || !bsearch(&code, bpe->before_blanks, bpe->n_before_blanks, sizeof code, compare_codes))
            return at;
    }
    return n_bytes;
}

/* The symbols of a piece, being collected; `unknown` is one that waits, as its successor may fuse with it. */
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

/* Characters, each with the prefix or suffix that its place asks for. Needs room for 4 symbols per byte of affixes; the caller
 * sees to that. */
static void collect_characters(collection *c, const sw_vocabulary *v, sw_bytes *buffer, const char *text, size_t n_bytes) {
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
    const merge *pairs[SHORT_PIECE]; /* of symbols i and i + 1 */
    for (int32_t i = 0; i + 1 < n; i++)
        pairs[i] = find_merge(bpe, symbols[i].id, symbols[i + 1].id);
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
            pairs[best] = find_merge(bpe, symbols[best].id, symbols[best + 1].id);
        if (best > 0)
            pairs[best - 1] = find_merge(bpe, symbols[best - 1].id, symbols[best].id);
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
    const merge *found = find_merge(bpe, symbols[left].id, symbols[symbols[left].after].id);
    if (found)
        heap_put(h, (sw_bpe_candidate){found->rank, left, found->id});
}

/* Each merge offers two candidates at most and removes one symbol, so the heap holds less than 3 n in all. */
static int32_t merge_long(const sw_bpe *bpe, sw_bpe_symbol *symbols, int32_t n, sw_bpe_candidate *candidates) {
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
        const merge *now = find_merge(bpe, left->id, right->id);
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

sw_status sw_bpe_encode(const sw_model *model, sw_model_scratch *scratch, const char *text, size_t n_bytes, bool is_literal,
                        sw_token_list *out, sw_error *err) {
    const sw_bpe *bpe = model->bpe;
    if (bpe->ignores_merges) {
        int32_t id = sw_token_map_get(model->takes_bytes ? &bpe->bytes : &model->vocabulary.by_text, text, n_bytes);
        if (id >= 0 && !(is_literal && sw_vocabulary_is_control(&model->vocabulary, id)))
            return sw_token_list_put(out, id) ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
    }
    /* With affixes a character without a token falls back to the bytes of the affixes too. */
    size_t n_most = n_bytes * (1 + bpe->n_prefix + bpe->n_suffix) + 1;
    if (!sw_model_scratch_grow((void **)&scratch->symbols, &scratch->symbols_capacity, n_most, sizeof *scratch->symbols))
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
        if (!sw_model_scratch_grow((void **)&scratch->candidates, &scratch->candidates_capacity, 3 * (size_t)c.n,
                                   sizeof *scratch->candidates))
            return sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes);
        c.n = merge_long(bpe, c.symbols, c.n, scratch->candidates);
    }
    for (int32_t i = 0; i < c.n; i++)
        if (!sw_token_list_put(out, c.symbols[i].id))
            return sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
    return scratch->text.is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes) : SW_OK;
}
