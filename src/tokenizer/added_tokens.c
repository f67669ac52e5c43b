/* added_tokens.c: reading and finding added tokens: the leftmost, and of those the longest. A match
 * that its flags refuse is passed over whole. */
#include "tokenizer/added_tokens.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tokenizer/unicode.h"

static int compare_tokens(const void *left, const void *right) {
    const sw_added_token *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

static sw_status read_token(const sw_part *part, const sw_vocabulary *vocabulary,
                            sw_added_tokens *added, sw_error *err) {
    sw_text_span content = {0};
    sw_added_token token = {0};
    int64_t id = 0;
    sw_status status = sw_part_text(part, "content", SW_NEEDED, &content, err);
    if (!status)
        status = sw_part_integer(part, "id", SW_NEEDED, 0, INT32_MAX - 1, &id, err);
    if (!status)
        status = sw_part_bool(part, "special", SW_ABSENT_IS_FINE, &token.is_special, err);
    token.is_normalized = !token.is_special;
    if (!status)
        status = sw_part_bool(part, "normalized", SW_ABSENT_IS_FINE, &token.is_normalized, err);
    if (!status)
        status = sw_part_bool(part, "single_word", SW_ABSENT_IS_FINE, &token.is_single_word, err);
    if (!status)
        status = sw_part_bool(part, "lstrip", SW_ABSENT_IS_FINE, &token.strips_left, err);
    if (!status)
        status = sw_part_bool(part, "rstrip", SW_ABSENT_IS_FINE, &token.strips_right, err);
    if (status || !content.n_bytes) /* the reference leaves an empty one out */
        return status;
    token.content = malloc(content.n_bytes + 1);
    if (!token.content)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(token.content, content.text, content.n_bytes + 1);
    token.n_bytes = content.n_bytes;
    /* A token that the model has too keeps the model's id, whatever is written here: so the
     * reference reads it. */
    int32_t known = sw_token_map_get(&vocabulary->by_text, content.text, content.n_bytes);
    token.id = known >= 0 ? known : (int32_t)id;
    added->tokens[added->n++] = token;
    return SW_OK;
}

/* The spelling of a token as the normalizers leave it. */
static sw_status normalize_content(const sw_normalizers *normalizers, sw_added_token *token,
                                   sw_error *err) {
    sw_pattern_scratch scratch = {0};
    sw_bytes buffers[2] = {{0}}, copy = {0};
    const char *text;
    size_t n_text;
    bool keeps_beginning = true;
    sw_status status =
        sw_pattern_scratch_create(&scratch) ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory");
    if (!status)
        status = sw_normalizers_run(normalizers, &scratch, buffers, &copy, token->content,
                                    token->n_bytes, &text, &n_text, &keeps_beginning, err);
    if (!status) {
        token->decoded = malloc(n_text + 1);
        token->n_decoded = n_text;
        if (token->decoded)
            memcpy(token->decoded, text, n_text);
        else
            status = sw_fail(err, SW_NO_MEMORY, "no memory");
    }
    sw_bytes_free(&buffers[0]);
    sw_bytes_free(&buffers[1]);
    sw_bytes_free(&copy);
    sw_pattern_scratch_free(&scratch);
    return status;
}

static sw_status make_sets(const char *file, const sw_normalizers *normalizers,
                           sw_added_tokens *added, sw_error *err) {
    sw_token_text *raw = malloc(((size_t)added->n + 1) * sizeof *raw),
                  *normalized = malloc(((size_t)added->n + 1) * sizeof *raw);
    int32_t n_raw = 0, n_normalized = 0;
    sw_status status = SW_OK;
    if (!raw || !normalized)
        status = sw_fail(err, SW_NO_MEMORY, "no memory");
    for (int32_t i = 0; !status && i < added->n; i++) {
        sw_added_token *token = &added->tokens[i];
        added->has_normalized_specials |= token->is_normalized && token->is_special;
        if (!token->is_normalized) {
            raw[n_raw++] = (sw_token_text){token->content, (uint32_t)token->n_bytes, i};
            added->raw_begins[(unsigned char)token->content[0]] = true;
            continue;
        }
        status = normalize_content(normalizers, token, err);
        if (!status && !token->n_decoded) /* which would be found between any two characters */
            status = sw_fail(err, SW_BAD_FILE,
                             "%s: the normalizer leaves nothing of the added token %" PRId32
                             ", which is to be looked for in normalized text; set its "
                             "\"normalized\" to false",
                             file, token->id);
        if (status)
            continue;
        normalized[n_normalized++] = (sw_token_text){token->decoded, (uint32_t)token->n_decoded, i};
        added->normalized_begins[(unsigned char)token->decoded[0]] = true;
    }
    if (status) {
        free(raw);
        free(normalized);
        return status;
    }
    sw_prefix_set_create(&added->raw, raw, n_raw);
    sw_prefix_set_create(&added->normalized, normalized, n_normalized);
    return SW_OK;
}

sw_status sw_added_tokens_read(const sw_part *root, const sw_normalizers *normalizers,
                               sw_model *model, sw_added_tokens *added, sw_error *err) {
    json_t *list = NULL;
    sw_status status = sw_part_list(root, "added_tokens", SW_ABSENT_IS_FINE, &list, err);
    if (status)
        return status;
    if (json_array_size(list) > INT32_MAX / 2 ||
        !(added->tokens = calloc(json_array_size(list) + 1, sizeof *added->tokens)))
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", root->file);
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        sw_part part;
        status = sw_part_element(root, "added_tokens", list, i, &part, err);
        if (!status)
            status = read_token(&part, &model->vocabulary, added, err);
    }
    if (status)
        return status;
    qsort(added->tokens, (size_t)added->n, sizeof *added->tokens, compare_tokens);
    for (int32_t i = 0; i < added->n; i++) {
        const sw_token_text *entry = sw_vocabulary_find(&model->vocabulary, added->tokens[i].id);
        if (entry && added->tokens[i].is_special)
            model->vocabulary.is_control[entry - model->vocabulary.by_id] = true;
    }
    return make_sets(root->file, normalizers, added, err);
}

void sw_added_tokens_free(sw_added_tokens *added) {
    for (int32_t i = 0; i < added->n; i++) {
        free(added->tokens[i].content);
        free(added->tokens[i].decoded);
    }
    free(added->tokens);
    sw_prefix_set_free(&added->raw);
    sw_prefix_set_free(&added->normalized);
    *added = (sw_added_tokens){0};
}

const sw_added_token *sw_added_tokens_find(const sw_added_tokens *added, int32_t id) {
    const sw_added_token key = {.id = id};
    return added->n ? bsearch(&key, added->tokens, (size_t)added->n, sizeof key, compare_tokens)
                    : NULL;
}

sw_added_search sw_added_search_begin(const sw_added_tokens *added, bool is_raw, bool is_literal,
                                      const char *text, size_t n_bytes) {
    return (sw_added_search){.added = added,
                             .is_raw = is_raw,
                             .is_literal = is_literal,
                             .text = text,
                             .n_bytes = n_bytes};
}

/* The start of the character before `at`. */
static const char *before(const char *at) {
    do
        at--;
    while (((unsigned char)*at & 0xC0) == 0x80);
    return at;
}

static bool is_word_at(const char *at) {
    return sw_unicode_is_in(&sw_unicode_words, sw_utf8_next(&at));
}

static bool stands_alone(const sw_added_search *s, size_t start, size_t end) {
    return (start == 0 || !is_word_at(before(s->text + start))) &&
           (end == s->n_bytes || !is_word_at(s->text + end));
}

/* The longest member at or after s->at; NULL: none. */
static const sw_token_text *find_member(const sw_added_search *s, size_t *start) {
    const sw_prefix_set *set = s->is_raw ? &s->added->raw : &s->added->normalized;
    const bool *begins = s->is_raw ? s->added->raw_begins : s->added->normalized_begins;
    for (size_t at = s->at; set->n && at < s->n_bytes; at++) {
        if (!begins[(unsigned char)s->text[at]])
            continue;
        const sw_token_text *longest = NULL;
        sw_prefix_search search = sw_prefix_search_begin(set, s->text + at, s->n_bytes - at);
        for (const sw_token_text *member; (member = sw_prefix_search_next(&search));)
            longest = member;
        if (longest) {
            *start = at;
            return longest;
        }
    }
    return NULL;
}

/* Do bytes from .. to share one with a literal range? *is_inside: all of them lie in one. `from`
 * never goes back. */
static bool is_literal_at(sw_added_search *s, size_t from, size_t to, bool *is_inside) {
    const int64_t first = s->offset + (int64_t)from, end = s->offset + (int64_t)to;
    while (s->n_literal > 0 && s->literal->end <= first)
        s->literal++, s->n_literal--;
    *is_inside = s->n_literal > 0 && s->literal->first <= first && end <= s->literal->end;
    return s->n_literal > 0 && s->literal->first < end;
}

bool sw_added_search_next(sw_added_search *s, const sw_added_token **token, size_t *start,
                          size_t *end) {
    while (!s->waiting) {
        size_t from;
        const sw_token_text *member = find_member(s, &from);
        if (!member) {
            *token = NULL;
            *start = s->done;
            *end = s->done = s->at = s->n_bytes;
            return *start < *end;
        }
        const sw_added_token *found = &s->added->tokens[member->id];
        size_t to = from + member->n_bytes;
        s->at = to;
        if ((s->is_literal && found->is_special) ||
            (found->is_single_word && !stands_alone(s, from, to)))
            continue;
        bool is_inside = false;
        if (s->n_literal && found->is_special && is_literal_at(s, from, to, &is_inside)) {
            s->at =
                is_inside
                    ? to
                    : from + 1; /* one that only reaches into a range may hide one that does not */
            continue;
        }
        const char *at;
        while (found->strips_left && from > s->done &&
               (at = before(s->text + from), sw_unicode_is_space(sw_utf8_next(&at))))
            from = (size_t)(before(s->text + from) - s->text);
        while (found->strips_right && to < s->n_bytes &&
               (at = s->text + to, sw_unicode_is_space(sw_utf8_next(&at))))
            to = (size_t)(at - s->text);
        if (found->strips_left && to <= s->done)
            continue; /* white space that the token before has taken with it */
        s->waiting = found;
        s->waiting_end = to;
        if (s->done < from) {
            *token = NULL;
            *start = s->done;
            *end = s->done = from;
            return true;
        }
    }
    *token = s->waiting;
    *start = s->done;
    *end = s->done = s->waiting_end;
    s->waiting = NULL;
    return true;
}
