/* operands.c: see operands.h. A row is read where it is asked for: nothing is kept, so nothing is
 * shared. */
#include "device/operands.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/wide_sum.h"

static const char *const ELEMENT_WORDS[SW_N_ELEMENTS] = {"R",   "A",   "P",   "i32",
                                                         "u16", "f64", "wide"};

int64_t sw_element_bytes(sw_element element, sw_number_kind numbers) {
    switch (element) {
    case SW_ELEMENT_A:
        return sw_dtype_bytes(sw_activation_type(numbers));
    case SW_ELEMENT_P:
        return sw_dtype_bytes(sw_parameter_type(numbers));
    case SW_ELEMENT_I32:
        return sw_dtype_bytes(SW_I32);
    case SW_ELEMENT_U16:
        return sw_dtype_bytes(SW_U16);
    case SW_ELEMENT_F64:
        return sw_dtype_bytes(SW_F64);
    case SW_ELEMENT_WIDE:
        return (int64_t)sizeof(sw_wide_sum);
    default:
        return sw_dtype_bytes(sw_real_type(numbers));
    }
}

/* ---- reading a row ---- */

typedef struct row_text {
    const char *operands, *dimensions, *attributes;
    int optimizer; /* whose states are operands too; -1 */
} row_text;

static const row_text ROWS[SW_N_KERNELS] = {
#define ROW(NAME, name, operands, dimensions, attributes) \
    [SW_KERNEL_##NAME] = {operands, dimensions, attributes, -1},
#define OPTIMIZER_ROW(NAME, ...) \
    [SW_KERNEL_##NAME] = {SW_OPTIMIZER_OPERANDS, "n", "", SW_OPTIMIZER_##NAME},
    SW_KERNELS(ROW, OPTIMIZER_ROW)
#undef OPTIMIZER_ROW
#undef ROW
};

static bool same(sw_slice a, sw_slice b) {
    return a.bytes == b.bytes && memcmp(a.text, b.text, (size_t)a.bytes) == 0;
}

/* The text up to one of `ends`; *at is then behind it, there. */
static sw_slice take_until(const char **at, const char *ends) {
    sw_slice word = {*at, (int64_t)strcspn(*at, ends)};
    *at += word.bytes;
    return word;
}

static void pass(const char **at, char c) {
    *at += **at == c;
}

/* Words with one blank between them; returns how many. words may be NULL. */
static int read_words(const char *text, sw_slice *words) {
    int n = 0;
    while (*text) {
        sw_slice word = take_until(&text, " ");
        if (words)
            words[n] = word;
        n++;
        pass(&text, ' ');
    }
    return n;
}

/* "name TYPE[shape]marks over x|y", up to the comma or the end. */
static void read_operand(const char **at, const sw_kernel_row *row, sw_operand_row *o) {
    *o = (sw_operand_row){.name = take_until(at, " ")};
    pass(at, ' ');
    sw_slice element = take_until(at, "[");
    for (int e = 0; e < SW_N_ELEMENTS; e++)
        if (same(element, sw_slice_of(ELEMENT_WORDS[e])))
            o->element = (sw_element)e;
    pass(at, '[');
    o->shape = take_until(at, "]");
    pass(at, ']');
    for (; **at && strchr("*+!?", **at); ++*at) {
        o->is_written |= **at != '?';
        o->may_accumulate |= **at == '+' || **at == '!';
        o->may_be_absent |= **at == '?';
    }
    if (strncmp(*at, " over ", 6) == 0) {
        for (*at += 5; **at == ' ' || **at == '|';) {
            ++*at;
            sw_slice over = take_until(at, "|,");
            for (int i = 0; i < row->n_operands; i++)
                o->lies_over |= same(row->operand[i].name, over) ? 1u << i : 0;
        }
    }
    pass(at, ',');
    pass(at, ' ');
}

void sw_kernel_describe(sw_kernel kernel, sw_kernel_row *row) {
    const row_text *text = &ROWS[kernel];
    *row = (sw_kernel_row){.n_attributes = read_words(text->attributes, NULL)};
    row->n_dimensions = read_words(text->dimensions, row->dimension);
    for (const char *at = text->operands; *at; row->n_operands++)
        read_operand(&at, row, &row->operand[row->n_operands]);
    if (text->optimizer < 0)
        return;
    const sw_optimizer_spec spec = {.kind = (sw_optimizer_kind)text->optimizer};
    sw_optimizer_state state;
    bool is_kept;
    row->n_attributes = SW_MAX_ATTRIBUTES;
    for (int i = 0; sw_optimizer_state_at(&spec, i, &state, &is_kept); i++) {
        row->operand[row->n_operands++] =
            (sw_operand_row){.name = sw_slice_of(sw_optimizer_state_name(state)),
                             .shape = sw_slice_of("n"),
                             .element = SW_ELEMENT_R,
                             .is_written = true,
                             .may_accumulate = true,
                             .may_be_absent = true};
    }
}

/* ---- how large an operand is ---- */

/* Rows of `width` elements, from one to the next `stride`. Of `any` it is one. */
typedef struct extent {
    int64_t rows, width, stride, bytes; /* of an element */
    bool is_any, is_wrong;
} extent;

static int64_t number_of(const sw_kernel_row *row, const int64_t *dim, sw_slice name,
                         bool *is_wrong) {
    for (int i = 0; i < row->n_dimensions; i++)
        if (same(row->dimension[i], name))
            return dim[i];
    *is_wrong |= name.bytes != 1 || *name.text < '0' || *name.text > '9';
    return *is_wrong ? 0 : *name.text - '0';
}

/* A sum of products: "out0+out1", "D/2". */
static int64_t evaluate(const char **at, const sw_kernel_row *row, const int64_t *dim,
                        bool *is_wrong) {
    int64_t sum = 0, product = 1;
    char operation = '*';
    for (;;) {
        const int64_t factor = number_of(row, dim, take_until(at, "*/+,:]"), is_wrong);
        if (operation == '/')
            product /= factor ? factor : 1;
        else
            *is_wrong |= factor < 0 || __builtin_mul_overflow(product, factor, &product);
        operation = **at;
        if (operation != '*' && operation != '/') {
            *is_wrong |= __builtin_add_overflow(sum, product, &sum);
            product = 1;
        }
        if (operation != '*' && operation != '/' && operation != '+')
            return sum;
        ++*at;
    }
}

static extent extent_of(const sw_kernel_row *row, const sw_operand_row *o, const int64_t *dim,
                        sw_number_kind numbers) {
    extent e = {.rows = 1, .width = 1, .bytes = sw_element_bytes(o->element, numbers)};
    const char *at = o->shape.text;
    if (strncmp(at, "any,", 4) == 0) {
        e.is_any = true;
        at += 4;
    }
    for (;; at++) {
        const int64_t n = evaluate(&at, row, dim, &e.is_wrong);
        if (*at == ':') {
            at++;
            e.rows = e.width;
            e.width = n;
            e.stride = evaluate(&at, row, dim, &e.is_wrong);
            e.is_wrong |= e.stride < e.width;
            break;
        }
        e.is_wrong |= __builtin_mul_overflow(e.width, n, &e.width);
        if (*at != ',')
            break;
    }
    if (e.stride == 0 || e.stride == e.width) { /* dense */
        e.is_wrong |= __builtin_mul_overflow(e.rows, e.width, &e.width);
        e.rows = 1;
        e.stride = e.width;
    }
    int64_t all;
    e.is_wrong |= __builtin_mul_overflow(e.rows, e.stride, &all) ||
                  __builtin_add_overflow(all, e.width, &all) ||
                  __builtin_mul_overflow(all, e.bytes, &all);
    return e;
}

/* From its first byte to behind its last. */
static int64_t span_of(const extent *e) {
    return e->width && e->rows ? ((e->rows - 1) * e->stride + e->width) * e->bytes : 0;
}

/* ---- checking a call ---- */

typedef struct check {
    sw_kernel kernel;
    sw_kernel_row row;
    const sw_given_call *call;
    extent extents[SW_MAX_OPERANDS];
    sw_error *err;
} check;

static sw_status wrong(const check *c, int operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static sw_status wrong(const check *c, int operand, const char *format, ...) {
    char what[192], dimensions[256];
    size_t used = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    *dimensions = '\0';
    for (int i = 0; i < c->row.n_dimensions && used < sizeof dimensions; i++)
        used += (size_t)snprintf(dimensions + used, sizeof dimensions - used, "%s%.*s %" PRId64,
                                 i ? ", " : "", (int)c->row.dimension[i].bytes,
                                 c->row.dimension[i].text, c->call->dim[i]);
    const sw_operand_row *o = &c->row.operand[operand];
    return sw_fail(c->err, SW_BUG, "kernel %s, operand %d, %.*s %s[%.*s]: %s; %s",
                   sw_kernel_name(c->kernel), operand, (int)o->name.bytes, o->name.text,
                   ELEMENT_WORDS[o->element], (int)o->shape.bytes, o->shape.text, what, dimensions);
}

static sw_status check_operand(check *c, int i, const sw_given_operand *given) {
    const sw_operand_row *o = &c->row.operand[i];
    const extent *e = &c->extents[i];
    if (e->is_wrong)
        return wrong(c, i, "its shape makes no sense");
    const int64_t span = span_of(e);
    if (given->buffer < 0)
        return o->may_be_absent || span == 0 ? SW_OK : wrong(c, i, "it is missing");
    if (span == 0)
        return wrong(c, i, "it is given, and has no element");
    if (given->element != o->element)
        return wrong(c, i, "it is given as %s", ELEMENT_WORDS[given->element]);
    if (given->is_written != o->is_written)
        return wrong(c, i,
                     o->is_written ? "it is written, and counts as read"
                                   : "it is read, and counts as written");
    if (c->call->accumulate >> i & 1 && !o->may_accumulate)
        return wrong(c, i, "nothing is added to it");
    const int64_t most = e->is_any ? given->bytes / span * span : e->rows * e->stride * e->bytes;
    if (given->offset < 0 || given->bytes < span || given->bytes > most)
        return wrong(c, i, "it has %" PRId64 " bytes, and needs %" PRId64, given->bytes, span);
    return SW_OK;
}

/* Have they a byte in common? Rows of the same stride may lie beside one another. */
static bool meet(const sw_given_operand *a, const extent *x, const sw_given_operand *b,
                 const extent *y) {
    if (a->buffer != b->buffer || a->offset >= b->offset + span_of(y) ||
        b->offset >= a->offset + span_of(x))
        return false;
    const int64_t stride = x->stride * x->bytes, width = x->width * x->bytes;
    if (x->rows == 1 || y->rows == 1 || stride != y->stride * y->bytes)
        return true;
    const int64_t between = ((b->offset - a->offset) % stride + stride) % stride;
    return between < width || between + y->width * y->bytes > stride;
}

static bool lie_alike(const sw_given_operand *a, const extent *x, const sw_given_operand *b,
                      const extent *y) {
    return a->offset == b->offset && x->rows == y->rows && x->width == y->width &&
           x->stride == y->stride && x->bytes == y->bytes;
}

static sw_status check_place(check *c, int i) {
    const sw_given_call *call = c->call;
    const sw_given_operand *out = &call->operand[i];
    for (int k = 0; k < call->n_operands; k++) {
        const sw_given_operand *other = &call->operand[k];
        if (k == i || other->buffer < 0 || !meet(out, &c->extents[i], other, &c->extents[k]))
            continue;
        const bool may = c->row.operand[i].lies_over >> k & 1 && !(call->accumulate >> i & 1);
        if (!may || !lie_alike(out, &c->extents[i], other, &c->extents[k]))
            return wrong(c, i, "it lies over operand %d, %.*s", k,
                         (int)c->row.operand[k].name.bytes, c->row.operand[k].name.text);
    }
    return SW_OK;
}

sw_status sw_kernel_check(sw_kernel kernel, sw_number_kind numbers, const sw_given_call *call,
                          sw_error *err) {
    if ((unsigned)kernel >= SW_N_KERNELS)
        return sw_fail(err, SW_BUG, "there is no kernel number %d", (int)kernel);
    check c = {.kernel = kernel, .call = call, .err = err};
    sw_kernel_describe(kernel, &c.row);
    if (call->n_operands > c.row.n_operands)
        return sw_fail(err, SW_BUG, "kernel %s has %d operands, and is given %d",
                       sw_kernel_name(kernel), c.row.n_operands, call->n_operands);
    for (int i = c.row.n_dimensions; i < SW_MAX_DIMENSIONS; i++)
        if (call->dim[i])
            return sw_fail(err, SW_BUG,
                           "kernel %s has %d dimensions, and is given one more, %" PRId64,
                           sw_kernel_name(kernel), c.row.n_dimensions, call->dim[i]);
    for (int i = c.row.n_attributes; i < SW_MAX_ATTRIBUTES; i++)
        if (call->attribute[i] != 0)
            return sw_fail(err, SW_BUG, "kernel %s has %d attributes, and is given one more, %g",
                           sw_kernel_name(kernel), c.row.n_attributes, call->attribute[i]);
    sw_status status = SW_OK;
    for (int i = 0; i < c.row.n_operands && !status; i++) {
        const sw_given_operand absent = {.buffer = -1};
        c.extents[i] = extent_of(&c.row, &c.row.operand[i], call->dim, numbers);
        status = check_operand(&c, i, i < call->n_operands ? &call->operand[i] : &absent);
    }
    for (int i = 0; i < call->n_operands && !status; i++)
        if (call->operand[i].buffer >= 0 && call->operand[i].is_written)
            status = check_place(&c, i);
    return status;
}
