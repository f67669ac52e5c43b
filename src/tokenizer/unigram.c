/* unigram.c: the likeliest way to cut a piece into tokens (Kudo 2018): a best path over byte
 * positions.
 *
 * Scores are added as doubles from the left, and a later path replaces an earlier one only when it
 * is strictly better: both decide ties as the reference does. A character that is no token costs
 * the vocabulary's lowest score minus 10.
 */
#include <math.h>
#include <stdlib.h>

#include "tokenizer/model.h"
#include "tokenizer/unicode.h"

static const double UNKNOWN_PENALTY = 10;

struct sw_unigram {
    sw_prefix_set tokens;
    double *scores; /* [n tokens] by id */
    double unknown_score;
    int32_t unknown; /* -1: there is none */
    bool falls_back_to_bytes;
    int32_t byte_ids[256]; /* all there, if it falls back */
};

void sw_unigram_free(sw_unigram *unigram) {
    if (!unigram)
        return;
    sw_prefix_set_free(&unigram->tokens);
    free(unigram->scores);
    free(unigram);
}

sw_status sw_unigram_read(const sw_part *part, sw_model *model, sw_error *err) {
    sw_unigram *u = model->unigram = calloc(1, sizeof *model->unigram);
    if (!u)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    const sw_vocabulary *v = &model->vocabulary;
    int64_t unknown = -1;
    sw_status status =
        sw_vocabulary_read_scored(part, "vocab", &model->vocabulary, &u->scores, err);
    if (!status && v->n == 0)
        status = sw_fail(err, SW_BAD_FILE, "%s: %s.vocab is empty", part->file, part->where);
    if (!status)
        status = sw_part_integer(part, "unk_id", SW_ABSENT_IS_FINE, 0, v->n - 1, &unknown, err);
    if (!status)
        status =
            sw_part_bool(part, "byte_fallback", SW_ABSENT_IS_FINE, &u->falls_back_to_bytes, err);
    if (status)
        return status;
    u->unknown = (int32_t)unknown;
    sw_token_text *members = malloc((size_t)v->n * sizeof *members);
    if (!members)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    double lowest = INFINITY;
    int32_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        lowest = u->scores[i] < lowest ? u->scores[i] : lowest;
        if (v->by_id[i].n_bytes)
            members[n++] = v->by_id[i];
    }
    u->unknown_score = lowest - UNKNOWN_PENALTY;
    sw_prefix_set_create(&u->tokens, members, n);
    for (int byte = 0; byte < 256; byte++) {
        static const char digits[] = "0123456789ABCDEF";
        const char text[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        u->byte_ids[byte] = sw_token_map_get(&v->by_text, text, sizeof text);
    }
    return SW_OK;
}

/* Literal text gives no control token but the unknown one, which any text may give. */
static bool is_barred(const sw_model *model, bool is_literal, int32_t id) {
    return is_literal && model->vocabulary.is_control[id] && id != model->unigram->unknown;
}

static void improve(sw_unigram_node *node, double score, size_t start, int32_t id) {
    if (node->start >= 0 && !(score > node->score))
        return;
    *node = (sw_unigram_node){score, (int64_t)start, id};
}

/* The best path to every position of the text: nodes [n_bytes + 1]. */
static void find_paths(const sw_model *model, sw_unigram_node *nodes, const char *text,
                       size_t n_bytes, bool is_literal) {
    const sw_unigram *u = model->unigram;
    for (size_t i = 0; i <= n_bytes; i++)
        nodes[i] = (sw_unigram_node){0, -1, -1};
    for (size_t start = 0, n_character; start < n_bytes; start += n_character) {
        double so_far = nodes[start].score;
        bool is_known = false; /* the character alone */
        n_character = (size_t)sw_utf8_length(text[start]);
        sw_prefix_search search = sw_prefix_search_begin(&u->tokens, text + start, n_bytes - start);
        for (const sw_token_text *token; (token = sw_prefix_search_next(&search));) {
            if (is_barred(model, is_literal, token->id))
                continue;
            improve(&nodes[start + token->n_bytes], u->scores[token->id] + so_far, start,
                    token->id);
            is_known = is_known || token->n_bytes == n_character;
        }
        if (!is_known)
            improve(&nodes[start + n_character], u->unknown_score + so_far, start, u->unknown);
    }
}

/* The id or ids of a stretch of the best path. */
static sw_status put_stretch(const sw_model *model, const char *text, size_t n_bytes,
                             bool is_literal, sw_token_list *out, sw_error *err) {
    const sw_unigram *u = model->unigram;
    int32_t id = sw_token_map_get(&model->vocabulary.by_text, text, n_bytes);
    if (id >= 0 && is_barred(model, is_literal, id))
        id = -1;
    if (id < 0 && u->falls_back_to_bytes) {
        bool has_all = true;
        for (size_t i = 0; i < n_bytes; i++)
            has_all = has_all && u->byte_ids[(unsigned char)text[i]] >= 0;
        bool is_short = false;
        for (size_t i = 0; has_all && i < n_bytes; i++)
            is_short = !sw_token_list_put(out, u->byte_ids[(unsigned char)text[i]]) || is_short;
        if (has_all)
            return is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for the ids") : SW_OK;
    }
    if (id < 0 && u->unknown < 0)
        return sw_fail(err, SW_BAD_FILE,
                       "\"%.*s\" has no token, and the tokenizer has no unknown token (unk_id)",
                       n_bytes > 40 ? 40 : (int)n_bytes, text);
    return sw_token_list_put(out, id < 0 ? u->unknown : id)
               ? SW_OK
               : sw_fail(err, SW_NO_MEMORY, "no memory for the ids");
}

sw_status sw_unigram_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                            size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err) {
    const sw_unigram *u = model->unigram;
    if (!sw_model_scratch_grow((void **)&scratch->nodes, &scratch->nodes_capacity, n_bytes + 1,
                               sizeof *scratch->nodes))
        return sw_fail(err, SW_NO_MEMORY, "no memory for a piece of %zu bytes", n_bytes);
    sw_unigram_node *nodes = scratch->nodes;
    find_paths(model, nodes, text, n_bytes, is_literal);
    /* Walk the path back, and leave in each node of it where the next one begins. Neighbours
     * without a token are one. */
    int64_t next = (int64_t)n_bytes;
    for (int64_t end = (int64_t)n_bytes; end > 0;) {
        int64_t start = nodes[end].start;
        int32_t id = nodes[end].id;
        while (id == u->unknown && start > 0 && nodes[start].id == u->unknown)
            start = nodes[start].start;
        end = start;
        nodes[start].score = (double)next; /* exact: below 2^31 */
        next = start;
    }
    sw_status status = SW_OK;
    for (int64_t start = 0; !status && start < (int64_t)n_bytes; start = next) {
        next = (int64_t)nodes[start].score;
        status = put_stretch(model, text + start, (size_t)(next - start), is_literal, out, err);
    }
    return status;
}
