/* npy.c: the header of a .npy file, read strictly.
 *
 * The header is a Python literal, but only one shape of it is valid here, so a cursor that expects
 * what must come next is enough: the three keys, each once, in any order, then spaces and a
 * newline. Tried on damaged headers in tests/data/test_npy.c and fuzz/fuzz_npy.c.
 */
#include "formats/npy.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/file_format.h"

#define MAX_WORD 64 /* of a quoted string in the header */

typedef struct cursor {
    const char *name; /* of the file, for messages */
    const char *at, *end;
    bool takes_bool; /* whose bytes are 0 and 1 */
    sw_error *err;
} cursor;

static sw_status not_a_header(const cursor *c, const char *expected) {
    char found[32] = "the end";
    if (c->at < c->end)
        snprintf(found, sizeof found, "byte 0x%02x", (unsigned)(uint8_t)*c->at);
    return sw_fail(c->err, SW_BAD_FILE,
                   "%s: the .npy header is damaged: expected %s, found %s; write the file again "
                   "with numpy.save",
                   c->name, expected, found);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && *c->at == ' ')
        c->at++;
}

static bool take(cursor *c, const char *text) {
    skip_spaces(c);
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* A quoted string without escapes. */
static sw_status take_word(cursor *c, const char *expected, char word[MAX_WORD]) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return not_a_header(c, expected);
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n == MAX_WORD - 1 || *c->at < ' ' || *c->at > '~' || *c->at == '\\')
            return not_a_header(c, expected);
        word[n++] = *c->at++;
    }
    if (c->at == c->end)
        return not_a_header(c, expected);
    c->at++;
    word[n] = '\0';
    return SW_OK;
}

static sw_status take_count(cursor *c, int64_t *count) {
    skip_spaces(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return not_a_header(c, "a number in 'shape'");
    *count = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*count, 10, count) ||
            __builtin_add_overflow(*count, *c->at - '0', count))
            return sw_fail(c->err, SW_BAD_FILE,
                           "%s: the .npy header claims more elements than any file can hold",
                           c->name);
    return SW_OK;
}

static sw_status take_descr(cursor *c, sw_dtype *dtype) {
    static const struct {
        const char *descr;
        sw_dtype dtype;
    } known[] = {{"|u1", SW_U8},  {"<u1", SW_U8},  {"<u2", SW_U16},
                 {"<i4", SW_I32}, {"<u4", SW_U32}, {"<i8", SW_I64}};
    skip_spaces(c);
    if (c->at < c->end && *c->at == '[')
        return sw_fail(c->err, SW_BAD_FILE, "%s: holds records; it must hold plain integers",
                       c->name);
    char word[MAX_WORD];
    sw_status status = take_word(c, "the text of 'descr'", word);
    if (status != SW_OK)
        return status;
    if (c->takes_bool && strcmp(word, "|b1") == 0) {
        *dtype = SW_U8;
        return SW_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(word, known[i].descr) == 0) {
            *dtype = known[i].dtype;
            return SW_OK;
        }
    return sw_fail(c->err, SW_BAD_FILE,
                   "%s: holds numbers of type '%s'%s; these types can be read: uint8, uint16, "
                   "int32, uint32 and int64, "
                   "little-endian: convert with array.astype('<u4')",
                   c->name, word, word[0] == '>' ? " (big-endian)" : "");
}

static sw_status take_shape(cursor *c, int64_t *n) {
    if (!take(c, "("))
        return not_a_header(c, "'(' of 'shape'");
    if (take(c, ")"))
        return sw_fail(c->err, SW_BAD_FILE,
                       "%s: holds a single number (0 dimensions); it must have 1 dimension",
                       c->name);
    sw_status status = take_count(c, n);
    if (status != SW_OK)
        return status;
    int n_dimensions = 1;
    if (!take(c, ","))
        return not_a_header(c, "',' after the first number of 'shape'");
    while (!take(c, ")")) {
        int64_t ignored;
        if ((status = take_count(c, &ignored)) != SW_OK)
            return status;
        n_dimensions++;
        if (take(c, ","))
            continue;
        if (take(c, ")"))
            break;
        return not_a_header(c, "')' of 'shape'");
    }
    if (n_dimensions != 1)
        return sw_fail(c->err, SW_BAD_FILE,
                       "%s: has %d dimensions; it must have 1: flatten with array.reshape(-1)",
                       c->name, n_dimensions);
    return SW_OK;
}

static sw_status take_order(cursor *c) {
    if (take(c, "False"))
        return SW_OK;
    if (take(c, "True"))
        return sw_fail(c->err, SW_BAD_FILE,
                       "%s: is in Fortran order; save numpy.ascontiguousarray(array)", c->name);
    return not_a_header(c, "False after 'fortran_order'");
}

static sw_status parse_dict(cursor *c, sw_npy *npy) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    if (!take(c, "{"))
        return not_a_header(c, "'{'");
    while (!take(c, "}")) {
        char key[MAX_WORD];
        sw_status status = take_word(c, "a key", key);
        if (status != SW_OK)
            return status;
        unsigned this = strcmp(key, "descr") == 0           ? DESCR
                        : strcmp(key, "fortran_order") == 0 ? ORDER
                        : strcmp(key, "shape") == 0         ? SHAPE
                                                            : 0;
        if (!this || seen & this)
            return sw_fail(c->err, SW_BAD_FILE, "%s: the .npy header is damaged: %s key '%s'",
                           c->name, this ? "repeated" : "unknown", key);
        seen |= this;
        if (!take(c, ":"))
            return not_a_header(c, "':'");
        status = this == DESCR   ? take_descr(c, &npy->dtype)
                 : this == ORDER ? take_order(c)
                                 : take_shape(c, &npy->n);
        if (status != SW_OK)
            return status;
        if (!take(c, ",")) {
            if (!take(c, "}"))
                return not_a_header(c, "',' or '}'");
            break;
        }
    }
    if (seen != ALL)
        return sw_fail(c->err, SW_BAD_FILE, "%s: the .npy header is damaged: '%s' is missing",
                       c->name,
                       !(seen & DESCR)   ? "descr"
                       : !(seen & ORDER) ? "fortran_order"
                                         : "shape");
    skip_spaces(c);
    if (c->at < c->end && *c->at == '\n')
        c->at++;
    return c->at == c->end ? SW_OK : not_a_header(c, "spaces and a newline after '}'");
}

static sw_status parse(const char *name, const uint8_t *bytes, int64_t n_bytes, int64_t file_bytes,
                       bool takes_bool, sw_npy *npy, sw_error *err) {
    sw_status status = sw_file_expect(name, bytes, n_bytes, file_bytes, SW_FILE_NPY, err);
    if (status != SW_OK)
        return status;
    if (n_bytes < 8 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is not a .npy file (it does not begin with its magic string)", name);
    int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is a .npy file of version %d.%d; readable are 1.0, 2.0 and 3.0", name,
                       major, minor);

    int64_t header_first = major == 1 ? 10 : 12;
    if (n_bytes < header_first)
        return sw_fail(err, SW_BAD_FILE, "%s: ends within the .npy header; is the copy complete?",
                       name);
    int64_t header_bytes =
        major == 1 ? sw_npy_element(SW_U16, bytes + 8, 0) : sw_npy_element(SW_U32, bytes + 8, 0);
    if (header_bytes > file_bytes - header_first)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the .npy header claims %" PRId64 " bytes, the file has %" PRId64
                       " left; is the copy complete?",
                       name, header_bytes, file_bytes - header_first);
    if (header_bytes > n_bytes - header_first)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the .npy header claims %" PRId64
                       " bytes; a list of integers needs about a hundred",
                       name, header_bytes);

    *npy = (sw_npy){.first = header_first + header_bytes};
    cursor c = {name, (const char *)bytes + header_first,
                (const char *)bytes + header_first + header_bytes, takes_bool, err};
    if ((status = parse_dict(&c, npy)) != SW_OK)
        return status;

    int64_t data_bytes, available = file_bytes - npy->first;
    if (__builtin_mul_overflow(npy->n, sw_dtype_bytes(npy->dtype), &data_bytes) ||
        data_bytes > available)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the header claims %" PRId64 " elements of %" PRId64
                       " bytes, the file has %" PRId64 " bytes after it; is the copy complete?",
                       name, npy->n, sw_dtype_bytes(npy->dtype), available);
    if (data_bytes < available)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: has %" PRId64 " bytes after the %" PRId64
                       " elements that its header claims",
                       name, available - data_bytes, npy->n);
    return SW_OK;
}

sw_status sw_npy_parse(const char *name, const uint8_t *bytes, int64_t n_bytes, int64_t file_bytes,
                       sw_npy *npy, sw_error *err) {
    return parse(name, bytes, n_bytes, file_bytes, false, npy, err);
}

sw_status sw_npy_parse_marks(const char *name, const uint8_t *bytes, int64_t n_bytes,
                             int64_t file_bytes, sw_npy *npy, sw_error *err) {
    return parse(name, bytes, n_bytes, file_bytes, true, npy, err);
}

void sw_npy_header(sw_dtype dtype, int64_t n, char header[SW_NPY_HEADER]) {
    const char *descr = dtype == SW_U8    ? "|u1"
                        : dtype == SW_U16 ? "<u2"
                        : dtype == SW_I32 ? "<i4"
                        : dtype == SW_U32 ? "<u4"
                                          : "<i8";
    const int first = 10, length = SW_NPY_HEADER - first;
    memset(header, ' ', SW_NPY_HEADER);
    memcpy(header, "\x93NUMPY\1\0", 8);
    header[8] = (char)length;
    header[9] = 0;
    int n_text =
        snprintf(header + first, (size_t)length,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",), }", descr, n);
    header[first + n_text] = ' '; /* snprintf's NUL */
    header[SW_NPY_HEADER - 1] = '\n';
}
