/* bpe_read.c: a BPE model from its JSON. */
#include <stdlib.h>

#include "base/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

#define BLANK_MARK "\xE2\x96\x81" /* U+2581 */
enum { BLANK_MARK_CODE = 0x2581, N_BLANK_MARK = 3 };

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
        if (json_is_array(row) != json_is_array(json_array_get(list, 0))) {
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: %s.merges[%zu] is %s and merges[0] is %s; write all as pairs "
                             "(newer files) or all as texts (older)",
                             part->file, part->where, i, sw_json_type_words(row),
                             sw_json_type_words(json_array_get(list, 0)));
            goto done;
        }
        if (!split_merge(row, parts)) {
            status = sw_fail(err, SW_BAD_FILE, "%s: %s.merges[%zu] does not have two parts",
                             part->file, part->where, i);
            goto done;
        }
        for (int k = 0; k < 2; k++) {
            ids[k] = sw_token_map_get(&model->vocabulary.by_text, parts[k].text, parts[k].n_bytes);
            if (ids[k] < 0) {
                status = sw_fail(err, SW_BAD_FILE,
                                 "%s: %s.merges[%zu]: \"%.64s\" is not in the vocabulary",
                                 part->file, part->where, i, parts[k].text);
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
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: %s.merges[%zu]: its result \"%.64s\" is not in the vocabulary",
                             part->file, part->where, i, joined.data);
            goto done;
        }
        uint64_t pair = (uint64_t)(ids[0] + 1) << 32 | (uint32_t)ids[1];
        *sw_bpe_slot(bpe, pair) = (sw_bpe_merge){pair, (int32_t)i, id};
    }
done:
    sw_bytes_free(&joined);
    return status;
}

/* A copy of an optional text; the empty one is the same as none. */
static sw_status read_affix(const sw_part *part, const char *key, char **affix, size_t *n_affix,
                            sw_error *err) {
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
    sw_status status =
        read_affix(part, "continuing_subword_prefix", &bpe->prefix, &bpe->n_prefix, err);
    if (!status)
        status = read_affix(part, "end_of_word_suffix", &bpe->suffix, &bpe->n_suffix, err);
    if (!status)
        status = sw_part_bool(part, "ignore_merges", SW_ABSENT_IS_FINE, &bpe->ignores_merges, err);
    if (!status)
        status =
            sw_part_bool(part, "byte_fallback", SW_ABSENT_IS_FINE, &bpe->falls_back_to_bytes, err);
    if (!status)
        status = sw_part_bool(part, "fuse_unk", SW_ABSENT_IS_FINE, &bpe->fuses_unknown, err);
    if (!status)
        status = sw_part_text(part, "unk_token", SW_ABSENT_IS_FINE, &unknown, err);
    if (status)
        return status;
    const json_t *dropout = json_object_get(part->object, "dropout");
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: %s.dropout makes ids random, which shardwise does not do; set it to null",
            part->file, part->where);
    bpe->unknown = -1;
    if (unknown.text) {
        bpe->unknown = sw_token_map_get(&model->vocabulary.by_text, unknown.text, unknown.n_bytes);
        if (bpe->unknown < 0)
            return sw_fail(err, SW_BAD_FILE, "%s: %s.unk_token \"%.64s\" is not in the vocabulary",
                           part->file, part->where, unknown.text);
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
            text[0] = '<', text[1] = '0', text[2] = 'x';
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
    if (!sw_bytes_reserve(&bpe->byte_texts, n_bytes + 1) ||
        !sw_token_map_create(&bpe->bytes, (size_t)v->n))
        return false;
    for (int32_t i = 0; i < v->n; i++) {
        size_t before = bpe->byte_texts.n;
        if (sw_byte_alphabet_undo(v->by_id[i].text, v->by_id[i].n_bytes, &bpe->byte_texts))
            sw_token_map_put(&bpe->bytes, bpe->byte_texts.data + before, bpe->byte_texts.n - before,
                             v->by_id[i].id);
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
    bpe->cuts_at_blanks = !model->takes_bytes && !bpe->n_prefix && !bpe->n_suffix &&
                          !bpe->ignores_merges &&
                          sw_token_map_get(&v->by_text, BLANK_MARK, N_BLANK_MARK) >= 0;
    for (int32_t i = 0; bpe->cuts_at_blanks && i < v->n; i++) {
        uint32_t before = 0;
        for (const char *at = v->by_id[i].text, *end = at + v->by_id[i].n_bytes; at < end;) {
            bool is_first = at == v->by_id[i].text;
            uint32_t code = sw_utf8_next(&at);
            if (code == BLANK_MARK_CODE && !is_first) {
                if (!sw_model_scratch_grow((void **)&bpe->before_blanks, &capacity, n + 1,
                                           sizeof *bpe->before_blanks))
                    return false;
                bpe->before_blanks[n++] = before;
            }
            before = code;
        }
    }
    if (n)
        qsort(bpe->before_blanks, n, sizeof *bpe->before_blanks, compare_codes);
    for (size_t i = 0; i < n; i++)
        if (!bpe->n_before_blanks ||
            bpe->before_blanks[bpe->n_before_blanks - 1] != bpe->before_blanks[i])
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
    model->takes_bytes =
        ends_in_bytes && !bpe->n_prefix && !bpe->n_suffix && !bpe->falls_back_to_bytes;
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
        if (!bpe->n_before_blanks ||
            !bsearch(&code, bpe->before_blanks, bpe->n_before_blanks, sizeof code, compare_codes))
            return at;
    }
    return n_bytes;
}
