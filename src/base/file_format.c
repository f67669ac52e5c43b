/* file_format.c: see file_format.h. The fuzz target is fuzz/fuzz_file_format.c. */
#include "base/file_format.h"

#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"

/* The first bytes of a file. */
typedef struct head {
    const char *bytes;
    int64_t n, file_bytes;
} head;

/* ---- formats that begin with a mark of their own ---- */

typedef struct mark {
    sw_file_format kind;
    int at, n;
    const char *bytes;
} mark;

static const mark marks[] = {
    {SW_FILE_GGUF, 0, 4, "GGUF"},
    {SW_FILE_NPY, 0, 6, "\x93NUMPY"},
    {SW_FILE_ZIP, 0, 4, "PK\x03\x04"},
    {SW_FILE_ZIP, 0, 4, "PK\x05\x06"}, /* an empty one */
    {SW_FILE_ZIP, 0, 4, "PK\x07\x08"}, /* one of several parts */
    {SW_FILE_GZIP, 0, 3, "\x1F\x8B\x08"},
    {SW_FILE_BZIP2, 0, 3, "BZh"},
    {SW_FILE_XZ, 0, 6,
     "\xFD"
     "7zXZ\0"},
    {SW_FILE_ZSTD, 0, 4, "\x28\xB5\x2F\xFD"},
    {SW_FILE_TAR, 257, 5, "ustar"},
    {SW_FILE_HDF5, 0, 8, "\x89HDF\r\n\x1A\n"},
    {SW_FILE_PARQUET, 0, 4, "PAR1"},
    {SW_FILE_ARROW, 0, 6, "ARROW1"},
    {SW_FILE_SQLITE, 0, 15, "SQLite format 3"},
    {SW_FILE_PDF, 0, 5, "%PDF-"},
    {SW_FILE_IMAGE, 0, 8, "\x89PNG\r\n\x1A\n"},
    {SW_FILE_IMAGE, 0, 3, "\xFF\xD8\xFF"}, /* JPEG */
    {SW_FILE_IMAGE, 0, 6, "GIF89a"},
    {SW_FILE_PROGRAM, 0, 4,
     "\x7F"
     "ELF"},
};

static bool has(const head *h, int64_t at, const char *bytes, int64_t n) {
    return at >= 0 && n <= h->n && at <= h->n - n && memcmp(h->bytes + at, bytes, (size_t)n) == 0;
}

/* A zip archive is told by the name of its first member. */
static sw_file_format kind_of_zip(const head *h) {
    static const char *const of_torch[] = {"/data.pkl", "/version", "/byteorder",
                                           "/.format_version", "/.storage_alignment"};
    enum { NAME_BYTES_AT = 26, NAME_AT = 30 };
    const unsigned char *bytes = (const unsigned char *)h->bytes;
    int64_t end =
        h->n > NAME_AT ? NAME_AT + (bytes[NAME_BYTES_AT] | bytes[NAME_BYTES_AT + 1] << 8) : 0;
    for (size_t i = 0; i < sizeof of_torch / sizeof *of_torch; i++) {
        int64_t n = (int64_t)strlen(of_torch[i]);
        if (end - n >= NAME_AT && has(h, end - n, of_torch[i], n))
            return SW_FILE_TORCH;
    }
    return end - 4 >= NAME_AT && has(h, end - 4, ".npy", 4) ? SW_FILE_NPZ : SW_FILE_ZIP;
}

/* A pickle begins with its protocol; PyTorch's older files are several, the first of which is a
 * number known for it. */
static sw_file_format kind_of_pickle(const head *h) {
    if (h->n < 3 || h->bytes[0] != '\x80' || h->bytes[1] < 2 || h->bytes[1] > 5)
        return SW_FILE_UNKNOWN;
    static const char torch_number[] = "\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
    return has(h, 2, torch_number, 12) ? SW_FILE_TORCH : SW_FILE_PICKLE;
}

/* A model of SentencePiece begins with its first piece: a message of a text and a score. */
static bool is_sentencepiece(const head *h) {
    const unsigned char *bytes = (const unsigned char *)h->bytes;
    return h->n > 5 && bytes[0] == 0x0A && bytes[2] == 0x0A && bytes[3] + 4 < h->n &&
           bytes[3] + 2 <= bytes[1] && bytes[4 + bytes[3]] == 0x15;
}

/* The length of a header that can be, and the header's first byte. */
static bool is_safetensors(const head *h) {
    enum { MOST_HEADER_BYTES = 100000000 };
    uint64_t header_bytes;
    if (h->n < 9 || h->bytes[8] != '{')
        return false;
    memcpy(&header_bytes, h->bytes, sizeof header_bytes);
    return le64toh(header_bytes) <= MOST_HEADER_BYTES;
}

/* ---- text ---- */

/* Without the character at its end that the end of the head has cut. */
static int64_t without_cut_character(const head *h) {
    for (int64_t i = h->n - 1; i >= 0 && i >= h->n - 3 && h->n < h->file_bytes; i--) {
        unsigned char byte = (unsigned char)h->bytes[i];
        int64_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        if ((byte & 0xC0) != 0x80)
            return length > h->n - i ? i : h->n;
    }
    return h->n;
}

/* UTF-8 without control characters, as far as it is seen. */
static bool is_text(const head *h) {
    int64_t n = without_cut_character(h);
    for (int64_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)h->bytes[i];
        if (byte == 0x7F || byte == 0 || (byte < 0x20 && !strchr("\t\n\v\f\r\x1B", byte)))
            return false;
    }
    return h->n > 0 && sw_text_is_utf8(h->bytes, (size_t)n);
}

/* UTF-16 or UTF-32: by its byte order mark, or because every other byte of ASCII is zero. */
static sw_file_format kind_of_wide_text(const head *h) {
    if (has(h, 0, "\xFF\xFE\0\0", 4) || has(h, 0, "\0\0\xFE\xFF", 4))
        return SW_FILE_UTF32;
    if (has(h, 0, "\xFF\xFE", 2) || has(h, 0, "\xFE\xFF", 2))
        return SW_FILE_UTF16;
    int64_t n = h->n < 64 ? h->n / 2 * 2 : 64;
    for (int order = 0; order < 2; order++) {
        bool fits = n >= 8 || (n >= 4 && n == h->file_bytes);
        for (int64_t i = 0; i < n && fits; i += 2) {
            unsigned char letter = (unsigned char)h->bytes[i + order];
            fits = h->bytes[i + 1 - order] == 0 && letter < 0x7F &&
                   (letter >= 0x20 || strchr("\t\n\r", letter)) && letter;
        }
        if (fits)
            return SW_FILE_UTF16;
    }
    return SW_FILE_UNKNOWN;
}

static bool begins_with_any(const char *text, int64_t n, const char *const *words, size_t n_words) {
    for (size_t i = 0; i < n_words; i++)
        if ((int64_t)strlen(words[i]) <= n && strncasecmp(text, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}
#define BEGINS_WITH_ANY(text, n, words) \
    begins_with_any(text, n, words, sizeof(words) / sizeof *(words))

/* {"error": "text"} and nothing else. */
static bool is_error_object(const char *text, int64_t n) {
    static const char *const begins[] = {"{\"error\":\"", "{\"error\": \""};
    if (!BEGINS_WITH_ANY(text, n, begins))
        return false;
    const char *end = text + n, *at = memchr(text, ':', (size_t)n);
    at = memchr(at, '"', (size_t)(end - at));
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    for (at++; at < end && strchr(" \t\r\n", *at); at++)
        ;
    if (at >= end || *at++ != '}')
        return false;
    while (at < end && strchr(" \t\r\n", *at))
        at++;
    return at == end;
}

/* Lines of base64, a blank, and the line's number from 0. */
static bool is_tiktoken(const char *text, int64_t n) {
    static const char base64[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *end = text + n;
    for (int line = 0; line < 3; line++) {
        const char *word = text;
        while (text < end && strchr(base64, *text))
            text++;
        if (text == word || (text - word) % 4 || end - text < 3 || text[0] != ' ' ||
            text[1] != '0' + line || text[2] != '\n')
            return false;
        text += 3;
    }
    return true;
}

static sw_file_format kind_of_text(const head *h) {
    static const char *const pages[] = {"<!doctype html", "<html", "<head>", "<body", "<title>"};
    static const char *const answers[] = {"entry not found",
                                          "repository not found",
                                          "invalid username or password",
                                          "invalid credentials",
                                          "access to model",
                                          "access to this",
                                          "not found",
                                          "404: not found",
                                          "404 not found",
                                          "unauthorized",
                                          "forbidden",
                                          "internal server error",
                                          "bad gateway",
                                          "<error>",
                                          "<?xml version=\"1.0\" encoding=\"utf-8\"?><error>",
                                          "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<error>"};
    static const char pointer[] = "version https://", *const spec = "/spec/v1\noid ";
    enum { LONGEST_POINTER = 1024, LONGEST_ANSWER = SW_FILE_HEAD_BYTES };
    const char *text = h->bytes;
    int64_t n = h->n;
    if (h->file_bytes < LONGEST_POINTER && has(h, 0, pointer, sizeof pointer - 1) &&
        memmem(text, (size_t)n, spec, strlen(spec)))
        return SW_FILE_LFS_POINTER;
    if (is_tiktoken(text, n))
        return SW_FILE_TIKTOKEN;
    sw_text_skip_mark(&text, &n);
    while (n > 0 && strchr(" \t\r\n", *text))
        text++, n--;
    if (BEGINS_WITH_ANY(text, n, pages))
        return SW_FILE_WEB_PAGE;
    if (h->file_bytes <= LONGEST_ANSWER &&
        (BEGINS_WITH_ANY(text, n, answers) || is_error_object(text, n)))
        return SW_FILE_SERVER_ANSWER;
    return n > 0 && (*text == '{' || *text == '[') ? SW_FILE_JSON : SW_FILE_TEXT;
}

sw_file_format sw_file_format_of(const void *bytes, int64_t n_head, int64_t file_bytes) {
    const head h = {bytes, n_head < SW_FILE_HEAD_BYTES ? n_head : SW_FILE_HEAD_BYTES, file_bytes};
    if (file_bytes == 0)
        return SW_FILE_EMPTY;
    if (is_text(&h)) /* which may begin with the letters of a mark */
        return kind_of_text(&h);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has(&h, marks[i].at, marks[i].bytes, marks[i].n))
            return marks[i].kind == SW_FILE_ZIP ? kind_of_zip(&h) : marks[i].kind;
    if (is_safetensors(&h))
        return SW_FILE_SAFETENSORS;
    if (is_sentencepiece(&h))
        return SW_FILE_SENTENCEPIECE;
    sw_file_format kind = kind_of_pickle(&h);
    return kind == SW_FILE_UNKNOWN ? kind_of_wide_text(&h) : kind;
}

/* ---- what a reader is told ---- */

#define FETCH "fetch the file itself, for example with hf download OWNER/NAME --local-dir DIR"
#define CONVERT_TORCH                                                                          \
    "only safetensors are read, which cannot run code: python3 -c \"from transformers import " \
    "AutoModelForCausalLM as M; "                                                              \
    "M.from_pretrained('DIR').save_pretrained('NEW')\" writes them"

#define CONVERT_TOKENIZER                                        \
    "python3 -c \"from transformers import AutoTokenizer as T; " \
    "T.from_pretrained('DIR').save_pretrained('DIR')\" writes a tokenizer.json of it"

static const struct {
    const char *words, *remedy;
} about[SW_N_FILE_FORMATS] = {
    [SW_FILE_UNKNOWN] = {NULL, ""},
    [SW_FILE_EMPTY] = {"empty", "is the download complete?"},
    [SW_FILE_TEXT] = {"plain text",
                      "is it the right file? To fetch it: hf download OWNER/NAME --local-dir DIR"},
    [SW_FILE_JSON] = {"JSON", "is it the right file? (An index of several files is called "
                              "model.safetensors.index.json)"},
    [SW_FILE_JSON_LINES] = {"lines of JSON", "is it the right file?"},
    [SW_FILE_YAML] = {"a file of settings (YAML)", "is it the right file?"},
    [SW_FILE_TEMPLATE] = {"a chat template", "is it the right file?"},
    [SW_FILE_SAFETENSORS] = {"a safetensors file", "is it the right file?"},
    [SW_FILE_GGUF] = {"a GGUF file",
                      "shardwise checkpoint import FILE.gguf DIR makes a model's folder of it"},
    [SW_FILE_NPY] = {"a .npy file of numpy", "is it the right file?"},
    [SW_FILE_LFS_POINTER] =
        {"a Git LFS pointer",
         "the file that it stands for was not fetched: run git lfs pull in its folder, "
         "or hf download OWNER/NAME --local-dir DIR"},
    [SW_FILE_WEB_PAGE] = {"a web page (HTML)", "the page about the file was saved: " FETCH},
    [SW_FILE_SERVER_ANSWER] = {"the answer of a server that did not give the file",
                               "is the name right, and does it need "
                               "hf auth login? Then " FETCH},
    [SW_FILE_UTF16] = {"text in UTF-16", "UTF-8 is read: iconv -f UTF-16 -t UTF-8 OLD >NEW"},
    [SW_FILE_UTF32] = {"text in UTF-32", "UTF-8 is read: iconv -f UTF-32 -t UTF-8 OLD >NEW"},
    [SW_FILE_SENTENCEPIECE] = {"a model of SentencePiece", CONVERT_TOKENIZER},
    [SW_FILE_TIKTOKEN] = {"a vocabulary of tiktoken", CONVERT_TOKENIZER},
    [SW_FILE_ZIP] = {"a zip archive", "unpack it: unzip FILE"},
    [SW_FILE_NPZ] = {"an .npz archive of numpy", "save one array by itself with numpy.save"},
    [SW_FILE_TORCH] = {"a file of PyTorch (pickle)", CONVERT_TORCH},
    [SW_FILE_PICKLE] = {"a Python pickle", CONVERT_TORCH},
    [SW_FILE_GZIP] = {"compressed by gzip", "unpack it: gzip -d (tar xzf, if it is an archive)"},
    [SW_FILE_BZIP2] = {"compressed by bzip2", "unpack it: bzip2 -d (tar xjf, if it is an archive)"},
    [SW_FILE_XZ] = {"compressed by xz", "unpack it: xz -d (tar xJf, if it is an archive)"},
    [SW_FILE_ZSTD] = {"compressed by zstd", "unpack it: zstd -d"},
    [SW_FILE_TAR] = {"a tar archive", "unpack it: tar xf FILE"},
    [SW_FILE_HDF5] = {"an HDF5 file (TensorFlow's or Keras's weights)",
                      "fetch the model's safetensors: hf download OWNER/NAME --local-dir DIR"},
    [SW_FILE_PARQUET] =
        {"a Parquet table",
         "write its rows as lines of JSON: python3 -c \"import pandas as p; "
         "p.read_parquet('OLD').to_json('NEW.jsonl', orient='records', lines=True)\""},
    [SW_FILE_ARROW] = {"an Arrow table",
                       "write its rows as lines of JSON, for example with datasets' to_json"},
    [SW_FILE_SQLITE] = {"a SQLite database", "is it the right file?"},
    [SW_FILE_PDF] = {"a PDF document", "is it the right file? Its text can be had with pdftotext"},
    [SW_FILE_IMAGE] = {"an image", "is it the right file?"},
    [SW_FILE_PROGRAM] = {"a program", "is it the right file?"},
};

const char *sw_file_format_words(sw_file_format kind) {
    return about[kind].words;
}

static bool is_told_by_reader(sw_file_format kind, sw_file_format wanted) {
    bool is_any_text = wanted == SW_FILE_TEXT,
         are_words = wanted == SW_FILE_JSON || wanted == SW_FILE_JSON_LINES ||
                     wanted == SW_FILE_YAML || wanted == SW_FILE_TEMPLATE || wanted == SW_FILE_TEXT;
    switch (kind) {
    case SW_FILE_UNKNOWN:
        return true;
    case SW_FILE_EMPTY:
        return are_words && wanted != SW_FILE_JSON;
    case SW_FILE_TEXT:
    case SW_FILE_JSON:
        return are_words;
    case SW_FILE_WEB_PAGE:
    case SW_FILE_SERVER_ANSWER:
    case SW_FILE_TIKTOKEN:
        return is_any_text;
    default:
        return kind == wanted;
    }
}

static bool is_binary(sw_file_format kind) {
    return kind == SW_FILE_SAFETENSORS || kind == SW_FILE_GGUF || kind == SW_FILE_NPY;
}

/* "\"Entry not found\"": how a text begins, its first line. */
static void quote_beginning(const char *text, int64_t n, char *quoted, size_t n_quoted) {
    int64_t length = 0;
    sw_text_skip_mark(&text, &n);
    while (n > 0 && *text && strchr(" \t\r\n", *text))
        text++, n--;
    while (length < n && length < 48 && (unsigned char)text[length] >= 0x20 &&
           (unsigned char)text[length] < 0x7F)
        length++;
    quoted[0] = 0;
    if (length)
        snprintf(quoted, n_quoted, " (\"%.*s\")", (int)length, text);
}

sw_status sw_file_expect(const char *path, const void *bytes, int64_t n_head, int64_t file_bytes,
                         sw_file_format wanted, sw_error *err) {
    sw_file_format kind = sw_file_format_of(bytes, n_head, file_bytes);
    bool is_wide_by_guess = kind == SW_FILE_UTF16 && ((const unsigned char *)bytes)[0] < 0x80;
    char quoted[64] = "";
    if (is_told_by_reader(kind, wanted) || (is_wide_by_guess && is_binary(wanted)))
        return SW_OK;
    if (kind == SW_FILE_TEXT || kind == SW_FILE_SERVER_ANSWER)
        quote_beginning(bytes, n_head < SW_FILE_HEAD_BYTES ? n_head : SW_FILE_HEAD_BYTES, quoted,
                        sizeof quoted);
    const char *remedy = about[kind].remedy;
    if ((kind == SW_FILE_TORCH || kind == SW_FILE_PICKLE) && wanted != SW_FILE_SAFETENSORS &&
        wanted != SW_FILE_GGUF)
        remedy = "is it the right file?";
    if (kind == SW_FILE_GGUF &&
        (wanted == SW_FILE_TEXT || wanted == SW_FILE_JSON_LINES || wanted == SW_FILE_NPY))
        remedy = "is it the right file?";
    if (kind == SW_FILE_SAFETENSORS && wanted == SW_FILE_GGUF)
        remedy = "name the folder that holds it and its config.json";
    if (kind == SW_FILE_JSON && wanted != SW_FILE_SAFETENSORS)
        remedy = "is it the right file?";
    return sw_fail(err, SW_BAD_FILE, "%s: is %s%s, not %s; %s", path, about[kind].words, quoted,
                   about[wanted].words, remedy);
}

sw_status sw_file_expect_open(int descriptor, const char *path, int64_t file_bytes,
                              sw_file_format wanted, sw_error *err) {
    char bytes[SW_FILE_HEAD_BYTES];
    int64_t n = file_bytes < SW_FILE_HEAD_BYTES ? file_bytes : SW_FILE_HEAD_BYTES;
    sw_status status = sw_file_read_at(descriptor, path, bytes, n, 0, err);
    return status ? status : sw_file_expect(path, bytes, n, file_bytes, wanted, err);
}

void sw_text_skip_mark(const char **text, int64_t *bytes) {
    if (*bytes >= 3 && memcmp(*text, "\xEF\xBB\xBF", 3) == 0)
        *text += 3, *bytes -= 3;
}
