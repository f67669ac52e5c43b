/* model.c: which kind of model, and the cache before it. */
#include "tokenizer/model.h"

#include <stdlib.h>

bool sw_model_scratch_create(sw_model_scratch *scratch) {
    scratch->cache = calloc(SW_CACHE_SLOTS, sizeof *scratch->cache);
    return scratch->cache != NULL;
}

void sw_model_scratch_free(sw_model_scratch *scratch) {
    free(scratch->cache);
    free(scratch->symbols);
    free(scratch->candidates);
    free(scratch->nodes);
    sw_bytes_free(&scratch->text);
    *scratch = (sw_model_scratch){0};
}

bool sw_model_scratch_grow(void **items, size_t *capacity, size_t n, size_t item_bytes) {
    if (n <= *capacity)
        return true;
    size_t wanted = n + n / 2, n_bytes;
    void *grown =
        __builtin_mul_overflow(wanted, item_bytes, &n_bytes) ? NULL : realloc(*items, n_bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

sw_status sw_model_read(const sw_part *root, bool ends_in_bytes, sw_model *model, sw_error *err) {
    sw_part part;
    sw_text_span type = {0};
    sw_status status = sw_part_child(root, "model", SW_NEEDED, &part, err);
    if (!status)
        status = sw_part_text(&part, "type", SW_ABSENT_IS_FINE, &type, err);
    if (status)
        return status;
    /* Files of the first versions have no type; a BPE is known by its merges, and then by what the
     * others do not have. */
    const char *name = type.text                                ? type.text
                       : json_object_get(part.object, "merges") ? "BPE"
                       : json_object_get(part.object, "unk_id") ? "Unigram"
                       : json_object_get(part.object, "max_input_chars_per_word")
                           ? "WordPiece"
                           : "(without a type)";
    if (!strcmp(name, "BPE"))
        return sw_bpe_read(&part, ends_in_bytes, model, err);
    if (!strcmp(name, "Unigram"))
        return sw_unigram_read(&part, model, err);
    if (!strcmp(name, "WordPiece"))
        return sw_wordpiece_read(&part, model, err);
    return sw_part_unknown(&part, "model", name, err);
}

void sw_model_free(sw_model *model) {
    sw_bpe_free(model->bpe);
    sw_unigram_free(model->unigram);
    sw_wordpiece_free(model->wordpiece);
    sw_vocabulary_free(&model->vocabulary);
    *model = (sw_model){0};
}

static sw_status encode_piece(const sw_model *model, sw_model_scratch *scratch, const char *text,
                              size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err) {
    if (n_bytes >= INT32_MAX)
        return sw_fail(
            err, SW_BAD_FILE,
            "a piece of text of %zu bytes that cannot be cut is too long for this tokenizer",
            n_bytes);
    if (model->bpe)
        return sw_bpe_encode(model, scratch, text, n_bytes, is_literal, out, err);
    if (model->unigram)
        return sw_unigram_encode(model, scratch, text, n_bytes, is_literal, out, err);
    return sw_wordpiece_encode(model, scratch, text, n_bytes, out, err);
}

static sw_status encode_cached(const sw_model *model, sw_model_scratch *scratch, const char *text,
                               size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err) {
    if (n_bytes > SW_CACHED_BYTES)
        return encode_piece(model, scratch, text, n_bytes, is_literal, out, err);
    sw_cached_piece *slot = &scratch->cache[sw_bytes_hash(text, n_bytes) % SW_CACHE_SLOTS];
    if (slot->n_bytes == n_bytes && !memcmp(slot->text, text, n_bytes)) {
        for (int i = 0; i < slot->n_ids; i++)
            if (!sw_token_list_put(out, slot->ids[i]))
                return sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
        return SW_OK;
    }
    int64_t before = out->n;
    sw_status status = encode_piece(model, scratch, text, n_bytes, is_literal, out, err);
    if (!status && out->n - before <= SW_CACHED_IDS) {
        slot->n_bytes = (uint8_t)n_bytes;
        slot->n_ids = (uint8_t)(out->n - before);
        memcpy(slot->text, text, n_bytes);
        if (slot->n_ids)
            memcpy(slot->ids, out->ids + before, slot->n_ids * sizeof *slot->ids);
    }
    return status;
}

sw_status sw_model_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                          size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err) {
    if (scratch->cache_is_literal != is_literal) {
        memset(scratch->cache, 0, SW_CACHE_SLOTS * sizeof *scratch->cache);
        scratch->cache_is_literal = is_literal;
    }
    if (!model->bpe || n_bytes <= SW_CACHED_BYTES)
        return encode_cached(model, scratch, text, n_bytes, is_literal, out, err);
    sw_status status = SW_OK;
    for (size_t start = 0, end; !status && start < n_bytes; start = end) {
        end = sw_bpe_next_cut(model->bpe, text, n_bytes, start);
        status = encode_cached(model, scratch, text + start, end - start, is_literal, out, err);
    }
    return status;
}
