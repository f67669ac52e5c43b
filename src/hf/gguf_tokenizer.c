/* gguf_tokenizer.c: a tokenizer from lists of tokens, kinds, merges or scores to a tokenizer.json.
 *
 * Byte-level BPE comes with its merges. SentencePiece's BPE comes with scores: it joins the
 * neighbours whose union has the highest score. Each way to cut a piece into two pieces is
 * therefore a merge, in order of the score of the whole; that is how transformers converts such
 * models too.
 */
#include "hf/gguf_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "hf/gguf_vocabulary.h"

enum { LONGEST_CUT_PIECE = 512 };

/* ---- writing tokenizer.json ---- */

static const char *quote(const sw_gguf_vocabulary *v, int64_t id) {
    sw_json_quote(v->token[id], v->quoted);
    return v->quoted;
}

/* Tokens that are found in the text before anything else happens to it. */
static void put_added_tokens(const sw_gguf_vocabulary *v, FILE *out) {
    const char *comma = "";
    fputs("  \"added_tokens\": [", out);
    for (int64_t id = 0; id < v->n; id++) {
        int kind = sw_gguf_token_kind(v, id);
        if (kind != SW_GGUF_CONTROL && kind != SW_GGUF_UNKNOWN && kind != SW_GGUF_USER_DEFINED)
            continue;
        fprintf(out,
                "%s\n    {\"id\": %" PRId64
                ", \"content\": %s, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": %s}",
                comma, id, quote(v, id), kind == SW_GGUF_USER_DEFINED ? "false" : "true");
        comma = ",";
    }
    fputs("\n  ],\n", out);
}

static void put_special(const sw_gguf_vocabulary *v, FILE *out, const char *before, int64_t id,
                        int type) {
    fprintf(out, "%s{\"SpecialToken\": {\"id\": %s, \"type_id\": %d}}", before, quote(v, id), type);
}

/* The pieces of one text or of two, each with the tokens that are added. */
static void put_template(const sw_gguf_vocabulary *v, FILE *out, const char *key, int n_texts) {
    const char *comma = "";
    fprintf(out, "    \"%s\": [", key);
    for (int text = 0; text < n_texts; text++) {
        if (v->adds_bos)
            put_special(v, out, comma, v->bos, text), comma = ", ";
        fprintf(out, "%s{\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}", comma, 'A' + text,
                text);
        comma = ", ";
        if (v->adds_eos)
            put_special(v, out, comma, v->eos, text);
    }
    fputs("],\n", out);
}

static void put_template_token(const sw_gguf_vocabulary *v, FILE *out, const char *before,
                               int64_t id) {
    fprintf(out, "%s\n      %s: ", before, quote(v, id));
    fprintf(out, "{\"id\": %s, \"ids\": [%" PRId64 "], \"tokens\": [", v->quoted, id);
    fprintf(out, "%s]}", v->quoted);
}

static void put_post_processor(const sw_gguf_vocabulary *v, FILE *out) {
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

static void put_vocabulary(const sw_gguf_vocabulary *v, FILE *out) {
    const char *comma = "";
    fputs("    \"vocab\": {", out);
    for (int64_t id = 0; id < v->n; id++) {
        /* Fillers, made so that every row of the embedding has a name: no text becomes them. */
        if (!v->is_sentence_piece && sw_gguf_token_kind(v, id) == SW_GGUF_UNUSED)
            continue;
        fprintf(out, "%s\n      %s: %" PRId64, comma, quote(v, id), id);
        comma = ",";
    }
    fputs("\n    },\n", out);
}

/* ---- merges ---- */

/* "left right", of which either may hold blanks only where it is one. */
static sw_status put_merges(sw_gguf_vocabulary *v, FILE *out, sw_error *err) {
    const sw_gguf_value *list;
    sw_status status =
        sw_gguf_list(v->file, "tokenizer.ggml.merges", true, SW_GGUF_TEXT, &list, err);
    const uint8_t *at = status == SW_OK ? list->at : NULL;
    char pair[2 * SW_GGUF_LONGEST_TOKEN + 2], quoted[6 * SW_GGUF_LONGEST_TOKEN + 3];
    fputs("    \"merges\": [", out);
    for (int64_t i = 0; status == SW_OK && i < list->n; i++) {
        int64_t n_bytes;
        const char *text = sw_gguf_next_text(&at, &n_bytes);
        const char *blank = n_bytes > 2 ? memchr(text + 1, ' ', (size_t)n_bytes - 1) : NULL;
        int64_t n_left = blank ? blank - text : 0, n_right = n_bytes - n_left - 1;
        if (!blank || n_left > SW_GGUF_LONGEST_TOKEN || n_right > SW_GGUF_LONGEST_TOKEN ||
            n_right < 1 || memchr(text, 0, (size_t)n_bytes)) {
            status = sw_fail(err, SW_BAD_FILE, "%s: merge %" PRId64 " is no pair of tokens",
                             v->file->path, i);
            break;
        }
        memcpy(pair, text, (size_t)n_bytes);
        pair[n_left] = pair[n_bytes] = 0;
        char whole[2 * SW_GGUF_LONGEST_TOKEN + 2];
        snprintf(whole, sizeof whole, "%s%s", pair, pair + n_left + 1);
        if (sw_gguf_token_id(v, pair, (size_t)n_left) < 0 ||
            sw_gguf_token_id(v, pair + n_left + 1, (size_t)n_right) < 0 ||
            sw_gguf_token_id(v, whole, (size_t)(n_left + n_right)) < 0) {
            status =
                sw_fail(err, SW_BAD_FILE, "%s: merge %" PRId64 " joins or makes what is no token",
                        v->file->path, i);
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

/* The highest score first; pieces of one score in the order of their ids; the longer left part
 * first. */
static int by_score(const void *a, const void *b, void *lengths) {
    const cut *x = a, *y = b;
    const int32_t *length = lengths;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    return (length[y->left] > length[x->left]) - (length[y->left] < length[x->left]);
}

static bool is_piece(const sw_gguf_vocabulary *v, int32_t id) {
    return id >= 0 && sw_gguf_token_kind(v, id) == SW_GGUF_NORMAL;
}

/* Every way to cut a piece into two. Ownership: free(*cuts). */
static sw_status cut_pieces(const sw_gguf_vocabulary *v, cut **cuts, int64_t *n_cuts,
                            sw_error *err) {
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
                           length > LONGEST_CUT_PIECE ? "is longer than pieces are"
                                                      : "has no number as its score");
        for (size_t n_left = 1; n_left < length; n_left++) {
            if (((unsigned char)piece[n_left] & 0xC0) == 0x80)
                continue; /* inside a character */
            int32_t left = sw_gguf_token_id(v, piece, n_left),
                    right = sw_gguf_token_id(v, piece + n_left, length - n_left);
            if (!is_piece(v, left) || !is_piece(v, right))
                continue;
            if (*n_cuts == capacity) {
                capacity = capacity ? 2 * capacity : 1024;
                cut *more = realloc(*cuts, (size_t)capacity * sizeof *more);
                if (!more)
                    return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its merges",
                                   v->file->path);
                *cuts = more;
            }
            (*cuts)[(*n_cuts)++] = (cut){score, (int32_t)id, left, right};
        }
    }
    return SW_OK;
}

static sw_status put_cuts(const sw_gguf_vocabulary *v, FILE *out, sw_error *err) {
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

static const char before[] =
    "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";

static void put_model(const sw_gguf_vocabulary *v, FILE *out, bool ignores_merges) {
    fputs("  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n", out);
    if (v->is_sentence_piece && v->unknown >= 0)
        fprintf(out, "    \"unk_token\": %s,\n", quote(v, v->unknown));
    else
        fputs("    \"unk_token\": null,\n", out);
    fputs("    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n", out);
    fprintf(out, "    \"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
            v->is_sentence_piece ? "true" : "false", v->is_sentence_piece ? "true" : "false",
            ignores_merges ? "true" : "false");
    put_vocabulary(v, out);
}

static sw_status put_byte_level(sw_gguf_vocabulary *v, const sw_gguf_split *split, FILE *out,
                                sw_error *err) {
    fputs(before, out);
    put_added_tokens(v, out);
    fprintf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": %s,\n", split->normalizer,
            split->pre_tokenizer);
    put_post_processor(v, out);
    fputs("  \"decoder\": "
          "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":"
          "true},\n",
          out);
    put_model(v, out, split->ignores_merges);
    sw_status status = put_merges(v, out, err);
    fputs("  }\n}\n", out);
    return status;
}

static sw_status put_sentence_piece(sw_gguf_vocabulary *v, FILE *out, sw_error *err) {
    fputs(before, out);
    put_added_tokens(v, out);
    fprintf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": null,\n",
            v->adds_blank ? SW_GGUF_BLANKS_AND_PREFIX : SW_GGUF_BLANKS);
    put_post_processor(v, out);
    fprintf(out,
            "  \"decoder\": "
            "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
            "\"String\":" SW_GGUF_BLANK
            "},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},\n",
            v->adds_blank ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    put_model(v, out, false);
    sw_status status = put_cuts(v, out, err);
    fputs("  }\n}\n", out);
    return status;
}

static sw_status make_tokenizer(sw_gguf_vocabulary *v, const sw_gguf_split *split, char **text,
                                sw_error *err) {
    size_t bytes;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
    sw_status status = split ? put_byte_level(v, split, out, err) : put_sentence_piece(v, out, err);
    if (!sw_text_close(out, text) && status == SW_OK)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for tokenizer.json");
    return status;
}

/* ---- the small files ---- */

static sw_status make_configs(const sw_gguf_vocabulary *v, sw_gguf_tokenizer_files *files,
                              sw_error *err) {
    const struct {
        const char *text, *id;
        int64_t token;
    } special[] = {{"bos_token", "bos_token_id", v->bos},
                   {"eos_token", "eos_token_id", v->eos},
                   {"unk_token", NULL, v->unknown},
                   {"pad_token", "pad_token_id", v->padding}};
    size_t bytes;
    FILE *out = open_memstream(&files->tokenizer_config, &bytes),
         *generation = open_memstream(&files->generation_config, &bytes);
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
    }
    has_failed |= !sw_text_close(out, &files->tokenizer_config);
    has_failed |= !sw_text_close(generation, &files->generation_config);
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
                                     "%s: tokenizer.ggml.pre \"%.80s\" is a pre-tokenizer that "
                                     "shardwise does not know; take the "
                                     "tokenizer.json of this model",
                                     file->path, name);
}

sw_status sw_gguf_tokenizer(sw_gguf *file, sw_gguf_tokenizer_files *files, sw_error *err) {
    sw_gguf_vocabulary v = {
        .file = file, .bos = -1, .eos = -1, .unknown = -1, .padding = -1, .adds_blank = true};
    const sw_gguf_split *split = NULL;
    const char *model = NULL, *template = NULL;
    *files = (sw_gguf_tokenizer_files){0};
    sw_status status = sw_gguf_text(file, "tokenizer.ggml.model", false, &model, err);
    if (status != SW_OK || !model || strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0)
        return status;
    v.is_sentence_piece = strcmp(model, "llama") == 0;
    if (!v.is_sentence_piece && strcmp(model, "gpt2") != 0)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: tokenizer.ggml.model \"%.80s\" is not read; gpt2 and llama are",
                       file->path, model);
    if (!v.is_sentence_piece)
        status = find_split(file, &split, err);
    v.adds_bos = v.is_sentence_piece || (split && split->adds_bos);
    if (status == SW_OK)
        status = sw_gguf_vocabulary_read(&v, err);
    if (status == SW_OK)
        status = make_tokenizer(&v, split, &files->tokenizer, err);
    if (status == SW_OK)
        status = make_configs(&v, files, err);
    if (status == SW_OK)
        status = sw_gguf_text(file, "tokenizer.chat_template", false, &template, err);
    if (status == SW_OK && template && !(files->chat_template = strdup(template)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its chat template", file->path);
    sw_gguf_vocabulary_free(&v);
    return status;
}

void sw_gguf_tokenizer_files_free(sw_gguf_tokenizer_files *files) {
    free(files->tokenizer);
    free(files->tokenizer_config);
    free(files->chat_template);
    free(files->generation_config);
    *files = (sw_gguf_tokenizer_files){0};
}
