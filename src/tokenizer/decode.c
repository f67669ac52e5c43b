/* decode.c: reading and running decoders. Each step makes new texts of the texts before it, one for
 * each unless it joins them. */
#include "tokenizer/decode.h"

#include <stdlib.h>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

typedef enum decoder_kind {
    BYTE_LEVEL,
    BYTE_FALLBACK,
    FUSE,
    STRIP,
    REPLACE,
    METASPACE,
    WORDPIECE,
    BPE_SUFFIX
} decoder_kind;

struct sw_decoder {
    decoder_kind kind;
    sw_pattern pattern; /* Replace */
    char *text; /* Replace: content; WordPiece: prefix; Metaspace, Strip: character; BPEDecoder:
                   suffix */
    size_t n_text;
    int64_t n_start, n_stop;     /* Strip */
    bool cleans_up, drops_first; /* WordPiece; Metaspace: a blank in the first token is none */
};

enum { MAX_STEPS = 32 };

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

void sw_texts_close(sw_texts *texts) {
    if (texts->n == texts->capacity) {
        size_t capacity = 2 * texts->capacity + 64;
        size_t *ends = realloc(texts->ends, capacity * sizeof *ends);
        if (!ends) {
            texts->bytes.is_short = true;
            return;
        }
        texts->ends = ends;
        texts->capacity = capacity;
    }
    texts->ends[texts->n++] = texts->bytes.n;
}

void sw_texts_free(sw_texts *texts) {
    sw_bytes_free(&texts->bytes);
    free(texts->ends);
    *texts = (sw_texts){0};
}

static sw_status read_text(const sw_part *part, const char *key, sw_need need,
                           const char *otherwise, sw_decoder *step, sw_error *err) {
    sw_text_span text = {otherwise, strlen(otherwise)};
    sw_status status = sw_part_text(part, key, need, &text, err);
    if (status)
        return status;
    step->text = malloc(text.n_bytes + 1);
    if (!step->text)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    memcpy(step->text, text.text, text.n_bytes + 1);
    step->n_text = text.n_bytes;
    return SW_OK;
}

static sw_status need_character(const sw_part *part, const char *key, const sw_decoder *step,
                                sw_error *err) {
    if (step->n_text && (size_t)sw_utf8_length(*step->text) == step->n_text)
        return SW_OK;
    return sw_fail(err, SW_BAD_FILE, "%s: %s.%s is not one character", part->file, part->where,
                   key);
}

static sw_status read_metaspace(const sw_part *part, sw_decoder *step, sw_error *err) {
    sw_text_span scheme = {0};
    bool adds_blank = true;
    sw_status status = read_text(part, "replacement", SW_ABSENT_IS_FINE, "\xE2\x96\x81", step, err);
    if (!status)
        status = need_character(part, "replacement", step, err);
    if (!status)
        status = sw_part_bool(part, "add_prefix_space", SW_ABSENT_IS_FINE, &adds_blank, err);
    if (!status)
        status = sw_part_text(part, "prepend_scheme", SW_ABSENT_IS_FINE, &scheme, err);
    step->drops_first = adds_blank && !(scheme.text && !strcmp(scheme.text, "never"));
    return status;
}

static sw_status read_step(const sw_part *part, decoder_kind kind, sw_decoder *step,
                           sw_error *err) {
    sw_status status = SW_OK;
    step->kind = kind;
    switch (kind) {
    case STRIP:
        status = read_text(part, "content", SW_NEEDED, "", step, err);
        if (!status)
            status = need_character(part, "content", step, err);
        if (!status)
            status = sw_part_integer(part, "start", SW_NEEDED, 0, INT32_MAX, &step->n_start, err);
        if (!status)
            status = sw_part_integer(part, "stop", SW_NEEDED, 0, INT32_MAX, &step->n_stop, err);
        break;
    case REPLACE:
        status = sw_pattern_read(part, "pattern", &step->pattern, err);
        if (!status)
            status = read_text(part, "content", SW_NEEDED, "", step, err);
        break;
    case METASPACE:
        status = read_metaspace(part, step, err);
        break;
    case WORDPIECE:
        step->cleans_up = true;
        status = read_text(part, "prefix", SW_ABSENT_IS_FINE, "##", step, err);
        if (!status)
            status = sw_part_bool(part, "cleanup", SW_ABSENT_IS_FINE, &step->cleans_up, err);
        break;
    case BPE_SUFFIX:
        status = read_text(part, "suffix", SW_ABSENT_IS_FINE, "</w>", step, err);
        break;
    default:
        break;
    }
    return status;
}

static sw_status read_next(const sw_part *part, const char *type, void *into, sw_error *err) {
    sw_decoders *chain = into;
    static const char *const names[] = {[BYTE_LEVEL] = "ByteLevel",
                                        [BYTE_FALLBACK] = "ByteFallback",
                                        [FUSE] = "Fuse",
                                        [STRIP] = "Strip",
                                        [REPLACE] = "Replace",
                                        [METASPACE] = "Metaspace",
                                        [WORDPIECE] = "WordPiece",
                                        [BPE_SUFFIX] = "BPEDecoder"};
    int kind;
    sw_status status = sw_part_step_kind(part, "decoder", type, names, sizeof names / sizeof *names,
                                         chain->n_steps, MAX_STEPS, &kind, err);
    return status ? status
                  : read_step(part, (decoder_kind)kind, &chain->steps[chain->n_steps++], err);
}

sw_status sw_decoders_read(const sw_part *root, sw_decoders *decoders, sw_error *err) {
    sw_part part;
    sw_status status = sw_part_child(root, "decoder", SW_ABSENT_IS_FINE, &part, err);
    if (status || !part.object)
        return status;
    decoders->steps = calloc(MAX_STEPS, sizeof *decoders->steps);
    if (!decoders->steps)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", root->file);
    return sw_part_steps(&part, "decoders", read_next, decoders, err);
}

void sw_decoders_free(sw_decoders *decoders) {
    for (int i = 0; i < decoders->n_steps; i++) {
        sw_pattern_free(&decoders->steps[i].pattern);
        free(decoders->steps[i].text);
    }
    free(decoders->steps);
    *decoders = (sw_decoders){0};
}

/* Bytes of the first of the text's characters when it is whole; 0, and how long its bad beginning
 * is, when it is not. The bad part is maximal: a beginning of some character, or one byte (Unicode,
 * section 3.9, "substitution of maximal subparts"). */
static size_t whole_character(const unsigned char *at, size_t n_bytes, size_t *n_bad) {
    unsigned char lead = at[0], low = 0x80, high = 0xBF;
    *n_bad = 1;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    size_t n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    for (size_t i = 1; i < n; i++) {
        if (i == n_bytes || at[i] < low || at[i] > high) {
            *n_bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return n;
}

static void append_lossy(const char *bytes, size_t n_bytes, sw_bytes *out) {
    for (size_t i = 0; i < n_bytes;) {
        size_t n_bad, n = whole_character((const unsigned char *)bytes + i, n_bytes - i, &n_bad);
        if (n)
            sw_bytes_append(out, bytes + i, n);
        else
            sw_bytes_append(out, REPLACEMENT, 3);
        i += n ? n : n_bad;
    }
}

static void join_byte_level(const sw_texts *in, sw_texts *out) {
    sw_bytes bytes = {0};
    sw_bytes_reserve(&bytes, 1);
    for (size_t i = 0, begin = 0; i < in->n; begin = in->ends[i++])
        if (!sw_byte_alphabet_undo(in->bytes.data + begin, in->ends[i] - begin, &bytes))
            sw_bytes_append(&bytes, in->bytes.data + begin, in->ends[i] - begin);
    append_lossy(bytes.data, bytes.n, &out->bytes);
    out->bytes.is_short = out->bytes.is_short || bytes.is_short;
    sw_texts_close(out);
    sw_bytes_free(&bytes);
}

static int hexadecimal(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte that "<0xNN>" names; -1 for other tokens. */
static int named_byte(const char *text, size_t n_bytes) {
    if (n_bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>' || hexadecimal(text[3]) < 0 ||
        hexadecimal(text[4]) < 0)
        return -1;
    return hexadecimal(text[3]) << 4 | hexadecimal(text[4]);
}

/* A run of byte tokens is text as a whole, or one U+FFFD for each byte. */
static void close_byte_run(sw_bytes *run, sw_texts *out) {
    if (!run->n)
        return;
    size_t n_bad;
    bool is_text = true;
    for (size_t i = 0, n; is_text && i < run->n; i += n) {
        n = whole_character((const unsigned char *)run->data + i, run->n - i, &n_bad);
        is_text = n > 0;
    }
    for (size_t i = 0; !is_text && i < run->n; i++) {
        sw_bytes_append(&out->bytes, REPLACEMENT, 3);
        sw_texts_close(out);
    }
    if (is_text) {
        sw_bytes_append(&out->bytes, run->data, run->n);
        sw_texts_close(out);
    }
    run->n = 0;
}

static void fall_back_to_bytes(const sw_texts *in, sw_texts *out) {
    sw_bytes run = {0};
    for (size_t i = 0, begin = 0; i < in->n; begin = in->ends[i++]) {
        const char *text = in->bytes.data + begin;
        size_t n_bytes = in->ends[i] - begin;
        int byte = named_byte(text, n_bytes);
        if (byte >= 0) {
            sw_bytes_put(&run, (char)byte);
            continue;
        }
        close_byte_run(&run, out);
        sw_bytes_append(&out->bytes, text, n_bytes);
        sw_texts_close(out);
    }
    close_byte_run(&run, out);
    out->bytes.is_short = out->bytes.is_short || run.is_short;
    sw_bytes_free(&run);
}

static void strip(const sw_decoder *step, const char *text, size_t n_bytes, sw_bytes *out) {
    size_t n = step->n_text;
    for (int64_t i = 0; i < step->n_start && n_bytes >= n && !memcmp(text, step->text, n); i++) {
        text += n;
        n_bytes -= n;
    }
    for (int64_t i = 0;
         i < step->n_stop && n_bytes >= n && !memcmp(text + n_bytes - n, step->text, n); i++)
        n_bytes -= n;
    sw_bytes_append(out, text, n_bytes);
}

/* Put `with` wherever `what` stands. */
static void put_instead(const char *what, size_t n_what, const char *with, size_t n_with,
                        const char *text, size_t n_bytes, sw_bytes *out) {
    const char *end = text + n_bytes, *found;
    while (n_what && (found = memmem(text, (size_t)(end - text), what, n_what))) {
        sw_bytes_append(out, text, (size_t)(found - text));
        sw_bytes_append(out, with, n_with);
        text = found + n_what;
    }
    sw_bytes_append(out, text, (size_t)(end - text));
}

/* WordPiece's clean-up of English: each pair of texts in turn, within one token. */
static void clean_up(sw_bytes *out, size_t begin) {
    static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    sw_bytes copy = {0};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !out->is_short; i++) {
        if (!memmem(out->data + begin, out->n - begin, pairs[i][0], strlen(pairs[i][0])))
            continue;
        copy.n = 0;
        sw_bytes_append(&copy, out->data + begin, out->n - begin);
        out->n = begin;
        put_instead(pairs[i][0], strlen(pairs[i][0]), pairs[i][1], strlen(pairs[i][1]), copy.data,
                    copy.n, out);
        out->is_short = out->is_short || copy.is_short;
    }
    sw_bytes_free(&copy);
}

static void decode_wordpiece(const sw_decoder *step, bool is_first, const char *text,
                             size_t n_bytes, sw_bytes *out) {
    size_t begin = out->n;
    bool continues =
        !is_first && n_bytes >= step->n_text && !memcmp(text, step->text, step->n_text);
    if (!is_first && !continues)
        sw_bytes_put(out, ' ');
    sw_bytes_append(out, text + (continues ? step->n_text : 0),
                    n_bytes - (continues ? step->n_text : 0));
    if (step->cleans_up && out->n > begin)
        clean_up(out, begin);
}

static sw_status replace(const sw_decoder *step, const sw_pattern_scratch *scratch, sw_bytes *copy,
                         const char *text, size_t n_bytes, sw_bytes *out, sw_error *err) {
    sw_matcher matcher;
    size_t start, end, done = 0;
    bool is_found = false;
    sw_status status =
        sw_matcher_begin(&matcher, &step->pattern, scratch, copy, text, n_bytes, err);
    while (!status && !(status = sw_matcher_next(&matcher, &is_found, &start, &end, err)) &&
           is_found) {
        sw_bytes_append(out, text + done, start - done);
        sw_bytes_append(out, step->text, step->n_text);
        done = end;
    }
    if (!status)
        sw_bytes_append(out, text + done, n_bytes - done);
    return status;
}

/* The steps that make one text of each. */
static sw_status run_each(const sw_decoder *step, const sw_texts *in, sw_texts *out,
                          sw_error *err) {
    sw_pattern_scratch scratch = {0};
    sw_bytes copy = {0};
    sw_status status = SW_OK;
    if (step->kind == REPLACE && !step->pattern.literal && !sw_pattern_scratch_create(&scratch))
        status = sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
    for (size_t i = 0, begin = 0; !status && i < in->n; begin = in->ends[i++]) {
        const char *text = in->bytes.data + begin;
        size_t n_bytes = in->ends[i] - begin;
        const char *blank = step->kind == METASPACE && i == 0 && step->drops_first ? "" : " ";
        if (step->kind == STRIP)
            strip(step, text, n_bytes, &out->bytes);
        else if (step->kind == REPLACE)
            status = replace(step, &scratch, &copy, text, n_bytes, &out->bytes, err);
        else if (step->kind == METASPACE)
            put_instead(step->text, step->n_text, blank, strlen(blank), text, n_bytes, &out->bytes);
        else if (step->kind == BPE_SUFFIX)
            put_instead(step->text, step->n_text, " ", i + 1 < in->n, text, n_bytes, &out->bytes);
        else
            decode_wordpiece(step, i == 0, text, n_bytes, &out->bytes);
        sw_texts_close(out);
    }
    sw_bytes_free(&copy);
    sw_pattern_scratch_free(&scratch);
    return status;
}

/* `from` takes the place of `texts` and is empty afterwards. */
static void replace_texts(sw_texts *texts, sw_texts *from) {
    sw_texts_free(texts);
    texts->bytes = from->bytes;
    texts->ends = from->ends;
    texts->n = from->n;
    texts->capacity = from->capacity;
    *from = (sw_texts){0};
}

sw_status sw_decoders_run(const sw_decoders *decoders, sw_texts *texts, sw_error *err) {
    sw_texts other = {0};
    sw_status status = SW_OK;
    if (!sw_bytes_reserve(&texts->bytes, 1)) /* so that no text is a null pointer, however short */
        return sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
    if (!decoders->n_steps) {
        for (size_t i = 0, begin = 0; i < texts->n; begin = texts->ends[i++]) {
            if (i)
                sw_bytes_put(&other.bytes, ' ');
            sw_bytes_append(&other.bytes, texts->bytes.data + begin, texts->ends[i] - begin);
        }
        sw_bytes_free(&texts->bytes);
        texts->bytes = other.bytes;
    }
    for (int i = 0; !status && i < decoders->n_steps; i++) {
        const sw_decoder *step = &decoders->steps[i];
        if (step->kind == FUSE) {
            texts->n = 0;
            sw_texts_close(texts);
            continue;
        }
        if (!sw_bytes_reserve(&other.bytes, 1))
            status = sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
        else if (step->kind == BYTE_LEVEL)
            join_byte_level(texts, &other);
        else if (step->kind == BYTE_FALLBACK)
            fall_back_to_bytes(texts, &other);
        else
            status = run_each(step, texts, &other, err);
        replace_texts(texts, &other);
    }
    return !status && texts->bytes.is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for decoding")
                                            : status;
}
