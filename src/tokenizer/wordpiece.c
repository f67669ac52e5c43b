/* wordpiece.c: the longest token first, again and again; a word with a part that is no token is
 * unknown as a whole. */
#include <stdlib.h>

#include "tokenizer/model.h"
#include "tokenizer/unicode.h"

struct sw_wordpiece {
    sw_prefix_set first, later; /* tokens; those with the prefix of continuing parts, without it */
    int64_t max_characters;
    int32_t unknown;
};

void sw_wordpiece_free(sw_wordpiece *wordpiece) {
    if (!wordpiece)
        return;
    sw_prefix_set_free(&wordpiece->first);
    sw_prefix_set_free(&wordpiece->later);
    free(wordpiece);
}

sw_status sw_wordpiece_read(const sw_part *part, sw_model *model, sw_error *err) {
    sw_wordpiece *w = model->wordpiece = calloc(1, sizeof *model->wordpiece);
    if (!w)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    const sw_vocabulary *v = &model->vocabulary;
    sw_text_span unknown = {"[UNK]", 5}, prefix = {"##", 2};
    w->max_characters = 100;
    sw_status status = sw_vocabulary_read(part, "vocab", &model->vocabulary, err);
    if (!status)
        status = sw_part_text(part, "unk_token", SW_ABSENT_IS_FINE, &unknown, err);
    if (!status)
        status = sw_part_text(part, "continuing_subword_prefix", SW_ABSENT_IS_FINE, &prefix, err);
    if (!status)
        status = sw_part_integer(part, "max_input_chars_per_word", SW_ABSENT_IS_FINE, 0, INT32_MAX,
                                 &w->max_characters, err);
    if (status)
        return status;
    w->unknown = sw_token_map_get(&v->by_text, unknown.text, unknown.n_bytes);
    if (w->unknown < 0)
        return sw_fail(err, SW_BAD_FILE, "%s: %s.unk_token \"%.64s\" is not in the vocabulary",
                       part->file, part->where, unknown.text);
    sw_token_text *first = malloc(((size_t)v->n + 1) * sizeof *first),
                  *later = malloc(((size_t)v->n + 1) * sizeof *later);
    if (!first || !later) {
        free(first);
        free(later);
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    }
    int32_t n_first = 0, n_later = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const sw_token_text *token = &v->by_id[i];
        if (token->n_bytes)
            first[n_first++] = *token;
        if (token->n_bytes > prefix.n_bytes && !memcmp(token->text, prefix.text, prefix.n_bytes))
            later[n_later++] = (sw_token_text){
                token->text + prefix.n_bytes, token->n_bytes - (uint32_t)prefix.n_bytes, token->id};
    }
    sw_prefix_set_create(&w->first, first, n_first);
    sw_prefix_set_create(&w->later, later, n_later);
    return SW_OK;
}

sw_status sw_wordpiece_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                              size_t n_bytes, sw_token_list *out, sw_error *err) {
    const sw_wordpiece *w = model->wordpiece;
    int64_t n_characters = 0, before = out->n;
    bool is_known = true, is_put = true;
    (void)scratch;
    for (size_t i = 0; i < n_bytes; i++)
        n_characters += ((unsigned char)text[i] & 0xC0) != 0x80;
    is_known = n_characters <= w->max_characters;
    for (size_t at = 0; is_known && is_put && at < n_bytes;) {
        const sw_token_text *longest = NULL;
        sw_prefix_search search =
            sw_prefix_search_begin(at ? &w->later : &w->first, text + at, n_bytes - at);
        for (const sw_token_text *token; (token = sw_prefix_search_next(&search));)
            longest = token;
        is_known = longest != NULL;
        if (longest) {
            is_put = sw_token_list_put(out, longest->id);
            at += longest->n_bytes;
        }
    }
    if (!is_known) {
        out->n = before;
        is_put = sw_token_list_put(out, w->unknown);
    }
    return is_put ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
}
