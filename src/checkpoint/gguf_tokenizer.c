/* gguf_tokenizer.c: a tokenizer from lists of tokens, kinds, merges or scores to a tokenizer.json.
 *
 * Byte-level BPE comes with its merges. SentencePiece's BPE comes with scores: it joins the neighbours whose union has the
 * highest score. Each way to cut a piece into two pieces is therefore a merge, in order of the score of the whole; that is how
 * transformers converts such models too.
 */
#include "checkpoint/gguf_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

enum { LONGEST_TOKEN = 4096, LONGEST_CUT_PIECE = 512 };

typedef struct vocabulary {
    sw_gguf *file;
    int64_t n;
    const char **token; /* [n], in the arena */
    const sw_gguf_value *kinds, *scores;
    bool is_sentence_piece;
    int32_t *slot; /* hash table of ids by token, -1 where empty */
    int64_t n_slots;
    char *quoted;                       /* room for any token as JSON */
    int64_t bos, eos, unknown, padding; /* -1: none */
    bool adds_bos, adds_eos, adds_blank;
} vocabulary;

static int kind_of(const vocabulary *v, int64_t id) {
    return v->kinds ? sw_gguf_list_integer(v->kinds, id) : SW_GGUF_NORMAL;
}

/* ---- tokens by text ---- */

static uint64_t hash_of(const char *text, size_t n) {
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
    return hash ^ hash >> 29;
}

/* Where the token is, or would be. */
static int64_t slot_of(const vocabulary *v, const char *text, size_t n) {
    int64_t slot = (int64_t)(hash_of(text, n) % (uint64_t)v->n_slots);
    while (v->slot[slot] >= 0 && (strncmp(v->token[v->slot[slot]], text, n) != 0 || v->token[v->slot[slot]][n] != 0))
        slot = slot + 1 < v->n_slots ? slot + 1 : 0;
    return slot;
}

static int32_t id_of(const vocabulary *v, const char *text, size_t n) {
    return v->slot[slot_of(v, text, n)];
}

static sw_status index_tokens(vocabulary *v, sw_error *err) {
    v->n_slots = 2 * v->n + 1;
    v->slot = malloc((size_t)v->n_slots * sizeof *v->slot);
    if (!v->slot)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tokens", v->file->path);
    memset(v->slot, 0xff, (size_t)v->n_slots * sizeof *v->slot);
    for (int64_t id = 0; id < v->n; id++) {
        int64_t slot = slot_of(v, v->token[id], strlen(v->token[id]));
        if (v->slot[slot] >= 0)
            return sw_fail(err, SW_BAD_FILE, "%s: tokens %d and %" PRId64 " are both \"%.80s\"", v->file->path, v->slot[slot], id,
                           v->token[id]);
        v->slot[slot] = (int32_t)id;
    }
    return SW_OK;
}

/* ---- reading the metadata ---- */

static sw_status read_tokens(vocabulary *v, sw_error *err) {
    const sw_gguf_value *list;
    sw_status status = sw_gguf_list(v->file, "tokenizer.ggml.tokens", true, SW_GGUF_TEXT, &list, err);
    if (status != SW_OK)
        return status;
    size_t longest = 1;
    v->n = list->n;
    v->token = sw_arena_take(&v->file->arena, ((size_t)v->n + 1) * sizeof *v->token);
    if (!v->token || v->n > INT32_MAX)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %" PRId64 " tokens", v->file->path, v->n);
    const uint8_t *at = list->at;
    for (int64_t id = 0; id < v->n; id++) {
        int64_t n_bytes;
        const char *text = sw_gguf_next_text(&at, &n_bytes);
        if (n_bytes > LONGEST_TOKEN || memchr(text, 0, (size_t)n_bytes) || !sw_text_is_utf8(text, (size_t)n_bytes))
            return sw_fail(err, SW_BAD_FILE, "%s: token %" PRId64 " is no UTF-8 text of up to %d bytes", v->file->path, id,
                           LONGEST_TOKEN);
        char *copy = sw_arena_take(&v->file->arena, (size_t)n_bytes + 1);
        if (!copy)
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %" PRId64 " tokens", v->file->path, v->n);
        memcpy(copy, text, (size_t)n_bytes);
        v->token[id] = copy;
        longest = (size_t)n_bytes > longest ? (size_t)n_bytes : longest;
    }
    v->quoted = malloc(6 * longest + 3);
    return v->quoted ? index_tokens(v, err) : sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tokens", v->file->path);
}

/* A list beside the tokens has as many elements. */
static sw_status read_beside(const vocabulary *v, const char *key, bool is_required, sw_gguf_type type,
                             const sw_gguf_value **list, sw_error *err) {
    sw_status status = sw_gguf_list(v->file, key, is_required, type, list, err);
    if (status == SW_OK && *list && (*list)->n != v->n)
        return sw_fail(err, SW_BAD_FILE, "%s: %s has %" PRId64 " elements for %" PRId64 " tokens", v->file->path, key, (*list)->n,
                       v->n);
    return status;
}

static sw_status read_id(const vocabulary *v, const char *key, int64_t *id, sw_error *err) {
    sw_status status = sw_gguf_integer(v->file, key, false, id, err);
    if (status == SW_OK && *id == UINT32_MAX)
        *id = -1; /* how some writers say none */
    if (status == SW_OK && (*id < -1 || *id >= v->n))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %" PRId64 ", there are %" PRId64 " tokens", v->file->path, key, *id, v->n);
    return status;
}

static sw_status read_vocabulary(vocabulary *v, sw_error *err) {
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &v->bos},
               {"tokenizer.ggml.eos_token_id", &v->eos},
               {"tokenizer.ggml.unknown_token_id", &v->unknown},
               {"tokenizer.ggml.padding_token_id", &v->padding}};
    sw_status status = read_tokens(v, err);
    if (status == SW_OK)
        status = read_beside(v, "tokenizer.ggml.token_type", false, SW_GGUF_I32, &v->kinds, err);
    if (status == SW_OK)
        status = read_beside(v, "tokenizer.ggml.scores", v->is_sentence_piece, SW_GGUF_F32, &v->scores, err);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == SW_OK; i++)
        status = read_id(v, ids[i].key, ids[i].id, err);
    if (status == SW_OK)
        status = sw_gguf_bool(v->file, "tokenizer.ggml.add_bos_token", false, &v->adds_bos, err);
    if (status == SW_OK)
        status = sw_gguf_bool(v->file, "tokenizer.ggml.add_eos_token", false, &v->adds_eos, err);
    if (status == SW_OK)
        status = sw_gguf_bool(v->file, "tokenizer.ggml.add_space_prefix", false, &v->adds_blank, err);
    if (status == SW_OK && ((v->adds_bos && v->bos < 0) || (v->adds_eos && v->eos < 0)))
        status = sw_fail(err, SW_BAD_FILE, "%s: the tokenizer adds a token at the %s of texts and does not say which",
                         v->file->path, v->adds_bos && v->bos < 0 ? "start" : "end");
    return status;
}

/* ---- writing tokenizer.json ---- */

static const char *quote(const vocabulary *v, int64_t id) {
    sw_json_quote(v->token[id], v->quoted);
    return v->quoted;
}

/* Tokens that are found in the text before anything else happens to it. */
static void put_added_tokens(const vocabulary *v, FILE *out) {
    const char *comma = "";
    fputs("  \"added_tokens\": [", out);
    for (int64_t id = 0; id < v->n; id++) {
        int kind = kind_of(v, id);
        if (kind != SW_GGUF_CONTROL && kind != SW_GGUF_UNKNOWN && kind != SW_GGUF_USER_DEFINED)
            continue;
        fprintf(out,
                "%s\n    {\"id\": %" PRId64 ", \"content\": %s, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": %s}",
                comma, id, quote(v, id), kind == SW_GGUF_USER_DEFINED ? "false" : "true");
        comma = ",";
    }
    fputs("\n  ],\n", out);
}

static void put_special(const vocabulary *v, FILE *out, const char *before, int64_t id, int type) {
    fprintf(out, "%s{\"SpecialToken\": {\"id\": %s, \"type_id\": %d}}", before, quote(v, id), type);
}

/* The pieces of one text or of two, each with the tokens that are added. */
static void put_template(const vocabulary *v, FILE *out, const char *key, int n_texts) {
    const char *comma = "";
    fprintf(out, "    \"%s\": [", key);
    for (int text = 0; text < n_texts; text++) {
        if (v->adds_bos)
            put_special(v, out, comma, v->bos, text), comma = ", ";
        fprintf(out, "%s{\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}", comma, 'A' + text, text);
        comma = ", ";
        if (v->adds_eos)
            put_special(v, out, comma, v->eos, text);
    }
    fputs("],\n", out);
}

static void put_template_token(const vocabulary *v, FILE *out, const char *before, int64_t id) {
    fprintf(out, "%s\n      %s: ", before, quote(v, id));
    fprintf(out, "{\"id\": %s, \"ids\": [%" PRId64 "], \"tokens\": [", v->quoted, id);
    fprintf(out, "%s]}", v->quoted);
}

static void put_post_processor(const vocabulary *v, FILE *out) {
    if (!v->adds_bos && !v->adds_eos) {
        fputs("  \"post_processor\": null,\n", out);
        return;
    }
    fputs("  \"post_processor\": {\n    \"type\": \"TemplateProcessing\",\n", out);
    put_template(v, out, "single", 1);
    put_template(v, out, "pair", 2);
    fputs("    \"special_tokens\": {", out);
    if (v->adds_bos)
        put_template_token(v, out, "", v->bos);
    if (v->adds_eos && !(v->adds_bos && v->bos == v->eos))
        put_template_token(v, out, v->adds_bos ? "," : "", v->eos);
    fputs("\n    }\n  },\n", out);
}

static void put_vocabulary(const vocabulary *v, FILE *out) {
    const char *comma = "";
    fputs("    \"vocab\": {", out);
    for (int64_t id = 0; id < v->n; id++) {
        /* Fillers, made so that every row of the embedding has a name: no text becomes them. */
        if (!v->is_sentence_piece && kind_of(v, id) == SW_GGUF_UNUSED)
            continue;
        fprintf(out, "%s\n      %s: %" PRId64, comma, quote(v, id), id);
        comma = ",";
    }
    fputs("\n    },\n", out);
}

/* ---- merges ---- */

/* "left right", of which either may hold blanks only where it is one. */
static sw_status put_merges(vocabulary *v, FILE *out, sw_error *err) {
    const sw_gguf_value *list;
    sw_status status = sw_gguf_list(v->file, "tokenizer.ggml.merges", true, SW_GGUF_TEXT, &list, err);
    const uint8_t *at = status == SW_OK ? list->at : NULL;
    char pair[2 * LONGEST_TOKEN + 2], quoted[6 * LONGEST_TOKEN + 3];
    fputs("    \"merges\": [", out);
    for (int64_t i = 0; status == SW_OK && i < list->n; i++) {
        int64_t n_bytes;
        const char *text = sw_gguf_next_text(&at, &n_bytes);
        const char *blank = n_bytes > 2 ? memchr(text + 1, ' ', (size_t)n_bytes - 1) : NULL;
        int64_t n_left = blank ? blank - text : 0, n_right = n_bytes - n_left - 1;
        if (!blank || n_left > LONGEST_TOKEN || n_right > LONGEST_TOKEN || n_right < 1 || memchr(text, 0, (size_t)n_bytes)) {
            status = sw_fail(err, SW_BAD_FILE, "%s: merge %" PRId64 " is no pair of tokens", v->file->path, i);
            break;
        }
        memcpy(pair, text, (size_t)n_bytes);
        pair[n_left] = pair[n_bytes] = 0;
        char whole[2 * LONGEST_TOKEN + 2];
        snprintf(whole, sizeof whole, "%s%s", pair, pair + n_left + 1);
        if (id_of(v, pair, (size_t)n_left) < 0 || id_of(v, pair + n_left + 1, (size_t)n_right) < 0 ||
            id_of(v, whole, (size_t)(n_left + n_right)) < 0) {
            status = sw_fail(err, SW_BAD_FILE, "%s: merge %" PRId64 " joins or makes what is no token", v->file->path, i);
            break;
        }
        sw_json_quote(pair, quoted);
        fprintf(out, "%s\n      [%s, ", i ? "," : "", quoted);
        sw_json_quote(pair + n_left + 1, quoted);
        fprintf(out, "%s]", quoted);
    }
    fputs("\n    ]\n", out);
    return status;
}

typedef struct cut {
    float score; /* of the whole */
    int32_t whole, left, right;
} cut;

/* The highest score first; pieces of one score in the order of their ids; the longer left part first. */
static int by_score(const void *a, const void *b, void *lengths) {
    const cut *x = a, *y = b;
    const int32_t *length = lengths;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    return (length[y->left] > length[x->left]) - (length[y->left] < length[x->left]);
}

static bool is_piece(const vocabulary *v, int32_t id) {
    return id >= 0 && kind_of(v, id) == SW_GGUF_NORMAL;
}

/* Every way to cut a piece into two. Ownership: free(*cuts). */
static sw_status cut_pieces(const vocabulary *v, cut **cuts, int64_t *n_cuts, sw_error *err) {
    int64_t capacity = 0;
    *cuts = NULL;
    *n_cuts = 0;
    for (int64_t id = 0; id < v->n; id++) {
        const char *piece = v->token[id];
        size_t length = strlen(piece);
        float score = sw_gguf_list_real(v->scores, id);
        if (!is_piece(v, (int32_t)id))
            continue;
        if (length > LONGEST_CUT_PIECE || score != score)
            return sw_fail(err, SW_BAD_FILE, "%s: token %" PRId64 " %s", v->file->path, id,
                           length > LONGEST_CUT_PIECE ? "is longer than pieces are" : "has no number as its score");
        for (size_t n_left = 1; n_left < length; n_left++) {
            if (((unsigned char)piece[n_left] & 0xC0) == 0x80)
                continue; /* inside a character */
            int32_t left = id_of(v, piece, n_left), right = id_of(v, piece + n_left, length - n_left);
            if (!is_piece(v, left) || !is_piece(v, right))
                continue;
            if (*n_cuts == capacity) {
                capacity = capacity ? 2 * capacity : 1024;
                cut *more = realloc(*cuts, (size_t)capacity * sizeof *more);
                if (!more)
                    return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its merges", v->file->path);
                *cuts = more;
            }
            (*cuts)[(*n_cuts)++] = (cut){score, (int32_t)id, left, right};
        }
    }
    return SW_OK;
}

static sw_status put_cuts(const vocabulary *v, FILE *out, sw_error *err) {
    cut *cuts;
    int64_t n_cuts;
    sw_status status = cut_pieces(v, &cuts, &n_cuts, err);
    int32_t *length = malloc(((size_t)v->n + 1) * sizeof *length);
    if (status == SW_OK && !length)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its merges", v->file->path);
    if (status == SW_OK) {
        for (int64_t id = 0; id < v->n; id++)
            length[id] = (int32_t)strlen(v->token[id]);
        if (n_cuts > 0)
            qsort_r(cuts, (size_t)n_cuts, sizeof *cuts, by_score, length);
        fputs("    \"merges\": [", out);
        for (int64_t i = 0; i < n_cuts; i++) {
            fprintf(out, "%s\n      [%s, ", i ? "," : "", quote(v, cuts[i].left));
            fprintf(out, "%s]", quote(v, cuts[i].right));
        }
        fputs("\n    ]\n", out);
    }
    free(length);
    free(cuts);
    return status;
}

/* ---- the two kinds of tokenizers ---- */

static const char before[] = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";

static void put_model(const vocabulary *v, FILE *out, bool ignores_merges) {
    fputs("  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n", out);
    if (v->is_sentence_piece && v->unknown >= 0)
        fprintf(out, "    \"unk_token\": %s,\n", quote(v, v->unknown));
    else
        fputs("    \"unk_token\": null,\n", out);
    fputs("    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n", out);
    fprintf(out, "    \"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
            v->is_sentence_piece ? "true" : "false", v->is_sentence_piece ? "true" : "false", ignores_merges ? "true" : "false");
    put_vocabulary(v, out);
}

static sw_status put_byte_level(vocabulary *v, const sw_gguf_split *split, FILE *out, sw_error *err) {
    fputs(before, out);
    put_added_tokens(v, out);
    fprintf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": %s,\n", split->normalizer, split->pre_tokenizer);
    put_post_processor(v, out);
    fputs("  \"decoder\": {\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\n", out);
    put_model(v, out, split->ignores_merges);
    sw_status status = put_merges(v, out, err);
    fputs("  }\n}\n", out);
    return status;
}

#define BLANK "\"\xe2\x96\x81\"" /* SentencePiece's visible blank, U+2581 */
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":" BLANK "}"

static sw_status put_sentence_piece(vocabulary *v, FILE *out, sw_error *err) {
    fputs(before, out);
    put_added_tokens(v, out);
    fprintf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": null,\n",
            v->adds_blank ? "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":" BLANK "}," REPLACE "]}"
                          : REPLACE);
    put_post_processor(v, out);
    fprintf(out,
            "  \"decoder\": {\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":" BLANK
            "},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},\n",
            v->adds_blank ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    put_model(v, out, false);
    sw_status status = put_cuts(v, out, err);
    fputs("  }\n}\n", out);
    return status;
}

static sw_status make_tokenizer(vocabulary *v, const sw_gguf_split *split, char **text, sw_error *err) {
    size_t bytes;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
    sw_status status = split ? put_byte_level(v, split, out, err) : put_sentence_piece(v, out, err);
    bool has_failed = ferror(out) != 0;
    if ((fclose(out) != 0 || has_failed) && status == SW_OK)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
    return status;
}

/* ---- the small files ---- */

static sw_status make_configs(const vocabulary *v, sw_gguf_tokenizer_files *files, sw_error *err) {
    const struct {
        const char *text, *id;
        int64_t token;
    } special[] = {{"bos_token", "bos_token_id", v->bos},
                   {"eos_token", "eos_token_id", v->eos},
                   {"unk_token", NULL, v->unknown},
                   {"pad_token", "pad_token_id", v->padding}};
    size_t bytes;
    FILE *out = open_memstream(&files->tokenizer_config, &bytes), *generation = open_memstream(&files->generation_config, &bytes);
    bool has_failed = !out || !generation;
    if (!has_failed) {
        fputs("{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n", out);
        fputs("{\n", generation);
        for (int i = 0; i < 4; i++) {
            if (special[i].token < 0)
                continue;
            fprintf(out, "  \"%s\": %s,\n", special[i].text, quote(v, special[i].token));
            if (special[i].id)
                fprintf(generation, "  \"%s\": %" PRId64 ",\n", special[i].id, special[i].token);
        }
        fputs("  \"clean_up_tokenization_spaces\": false\n}\n", out);
        fputs("  \"use_cache\": true\n}\n", generation);
        has_failed = ferror(out) || ferror(generation);
    }
    if (out)
        has_failed |= fclose(out) != 0;
    if (generation)
        has_failed |= fclose(generation) != 0;
    return has_failed ? sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer_config.json") : SW_OK;
}

static sw_status find_split(sw_gguf *file, const sw_gguf_split **split, sw_error *err) {
    const char *name = "default";
    sw_status status = sw_gguf_text(file, "tokenizer.ggml.pre", false, &name, err);
    for (int i = 0; status == SW_OK && (*split = sw_gguf_split_at(i)); i++)
        if (strcmp(name, (*split)->name) == 0)
            return SW_OK;
    return status != SW_OK ? status
                           : sw_fail(err, SW_BAD_FILE,
                                     "%s: tokenizer.ggml.pre \"%.80s\" is a pre-tokenizer that is not known here; take the "
                                     "tokenizer.json of this model",
                                     file->path, name);
}

sw_status sw_gguf_tokenizer(sw_gguf *file, sw_gguf_tokenizer_files *files, sw_error *err) {
    vocabulary v = {.file = file, .bos = -1, .eos = -1, .unknown = -1, .padding = -1, .adds_blank = true};
    const sw_gguf_split *split = NULL;
    const char *model = NULL, *template = NULL;
    *files = (sw_gguf_tokenizer_files){0};
    sw_status status = sw_gguf_text(file, "tokenizer.ggml.model", false, &model, err);
    if (status != SW_OK || !model || strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0)
        return status;
    v.is_sentence_piece = strcmp(model, "llama") == 0;
    if (!v.is_sentence_piece && strcmp(model, "gpt2") != 0)
        return sw_fail(err, SW_BAD_FILE, "%s: tokenizer.ggml.model \"%.80s\" is not read; gpt2 and llama are", file->path, model);
    if (!v.is_sentence_piece)
        status = find_split(file, &split, err);
    v.adds_bos = v.is_sentence_piece || (split && split->adds_bos);
    if (status == SW_OK)
        status = read_vocabulary(&v, err);
    if (status == SW_OK)
        status = make_tokenizer(&v, split, &files->tokenizer, err);
    if (status == SW_OK)
        status = make_configs(&v, files, err);
    if (status == SW_OK)
        status = sw_gguf_text(file, "tokenizer.chat_template", false, &template, err);
    if (status == SW_OK && template && !(files->chat_template = strdup(template)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its chat template", file->path);
    free(v.slot);
    free(v.quoted);
    return status;
}

void sw_gguf_tokenizer_files_free(sw_gguf_tokenizer_files *files) {
    free(files->tokenizer);
    free(files->tokenizer_config);
    free(files->chat_template);
    free(files->generation_config);
    *files = (sw_gguf_tokenizer_files){0};
}
