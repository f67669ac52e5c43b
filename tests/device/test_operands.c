/* The table of kernels says what every call is given; whatever else is given is caught before
 * anything runs. The right call of each kernel is made from its row, and spoiled in every way.
 * (That the rows are what kernels do is found out where those are run: every case of
 * tests/support/device_case.c is held to its row.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "device/operands.h"

static const sw_number_kind ALL_NUMBERS[] = {SW_NUMBERS_F32, SW_NUMBERS_BF16, SW_NUMBERS_F64};

static bool has(sw_slice text, const char *part) {
    return memmem(text.text, (size_t)text.bytes, part, strlen(part)) != NULL;
}

/* "B*T,out0+out1", where every name is 6. */
static int64_t value_of(char *text) {
    int64_t all = 1;
    char *outer, *middle, *inner;
    for (char *size = strtok_r(text, ",", &outer); size; size = strtok_r(NULL, ",", &outer)) {
        int64_t sum = 0;
        for (char *term = strtok_r(size, "+", &middle); term; term = strtok_r(NULL, "+", &middle)) {
            if (strcmp(term, "D/2") == 0)
                strcpy(term, "3");
            int64_t product = 1;
            for (char *factor = strtok_r(term, "*", &inner); factor;
                 factor = strtok_r(NULL, "*", &inner))
                product *= strcmp(factor, "any") == 0         ? 1
                           : *factor >= '0' && *factor <= '9' ? *factor - '0'
                                                              : 6;
            sum += product;
        }
        all *= sum;
    }
    return all;
}

/* Of a shape in which every dimension is 6, but those from row to row, which are 100. */
static int64_t elements_of(sw_slice shape) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)shape.bytes, shape.text);
    char *colon = strchr(text, ':'), *comma = strchr(text, ',');
    if (!colon)
        return value_of(text);
    *colon = *comma = '\0';
    return (value_of(text) - 1) * 100 + value_of(comma + 1);
}

/* The right call: every operand in memory of its own, with its elements from byte 1600 on. */
static sw_given_call right(sw_kernel kernel, sw_number_kind numbers, sw_kernel_row *row) {
    sw_kernel_describe(kernel, row);
    sw_given_call call = {.n_operands = row->n_operands};
    for (int i = 0; i < row->n_dimensions; i++)
        call.dim[i] = has(row->dimension[i], "stride") ? 100 : 6;
    if (kernel == SW_KERNEL_ROTARY)
        call.dim[4] = 6;
    if (kernel == SW_KERNEL_ROTARY_PLACED)
        call.dim[5] = 6;
    for (int i = 0; i < row->n_operands; i++)
        call.operand[i] =
            (sw_given_operand){.buffer = i,
                               .offset = 1600,
                               .bytes = elements_of(row->operand[i].shape) *
                                        sw_element_bytes(row->operand[i].element, numbers),
                               .element = row->operand[i].element,
                               .is_written = row->operand[i].is_written};
    return call;
}

static void passes(sw_kernel kernel, sw_number_kind numbers, const sw_given_call *call) {
    sw_error err;
    if (sw_kernel_check(kernel, numbers, call, &err))
        fail_msg("%s", err.message);
}

/* It names the kernel, and what it is about. */
static void fails(sw_kernel kernel, sw_number_kind numbers, const sw_given_call *call,
                  const char *about, const char *what) {
    sw_error err;
    if (sw_kernel_check(kernel, numbers, call, &err) != SW_BUG)
        fail_msg("%s: %s is not caught: %s", sw_kernel_name(kernel), what, about);
    char name[64];
    snprintf(name, sizeof name, "kernel %s", sw_kernel_name(kernel));
    if (!strstr(err.message, name) || !strstr(err.message, about))
        fail_msg("%s: %s: the message is: %s", sw_kernel_name(kernel), what, err.message);
}

/* "operand 3, dx" */
static const char *about(const sw_kernel_row *row, int i, char text[64]) {
    snprintf(text, 64, "operand %d, %.*s", i, (int)row->operand[i].name.bytes,
             row->operand[i].name.text);
    return text;
}

/* Every row can be read: names of operands, types, shapes of the row's dimensions. */
static void rows_make_sense(void **state) {
    (void)state;
    for (int k = 0; k < SW_N_KERNELS; k++)
        for (int n = 0; n < 3; n++) {
            sw_kernel_row row;
            const sw_given_call call = right((sw_kernel)k, ALL_NUMBERS[n], &row);
            assert_true(row.n_operands > 0 && row.n_operands <= SW_MAX_OPERANDS);
            assert_true(row.n_dimensions > 0 && row.n_dimensions <= SW_MAX_DIMENSIONS);
            assert_true(row.n_attributes <= SW_MAX_ATTRIBUTES);
            bool writes = false;
            for (int i = 0; i < row.n_operands; i++) {
                assert_true(row.operand[i].name.bytes > 0 && row.operand[i].shape.bytes > 0);
                assert_true(row.operand[i].lies_over >> i == 0); /* over operands before it */
                assert_true(row.operand[i].is_written || !row.operand[i].lies_over);
                writes |= row.operand[i].is_written;
            }
            assert_true(writes);
            passes((sw_kernel)k, ALL_NUMBERS[n], &call);
        }
}

static void wrong_operands_are_caught(void **state) {
    (void)state;
    char text[64];
    for (int k = 0; k < SW_N_KERNELS; k++)
        for (int n = 0; n < 3; n++) {
            const sw_kernel kernel = (sw_kernel)k;
            const sw_number_kind numbers = ALL_NUMBERS[n];
            sw_kernel_row row;
            const sw_given_call good = right(kernel, numbers, &row);
            sw_given_call call = good;
            call.n_operands++;
            if (good.n_operands < SW_MAX_OPERANDS)
                fails(kernel, numbers, &call, "operands", "one more");
            for (int i = 0; i < row.n_operands; i++) {
                const sw_operand_row *o = &row.operand[i];
                call = good;
                call.n_operands = i;
                bool may = true;
                for (int later = i; later < row.n_operands; later++)
                    may &= row.operand[later].may_be_absent;
                if (may)
                    passes(kernel, numbers, &call);
                else
                    fails(kernel, numbers, &call, "it is missing", "too few");
                call = good;
                call.operand[i].buffer = -1;
                if (o->may_be_absent)
                    passes(kernel, numbers, &call);
                else
                    fails(kernel, numbers, &call, about(&row, i, text), "absent");
                call = good;
                call.operand[i].bytes--;
                fails(kernel, numbers, &call, about(&row, i, text), "one byte too few");
                call = good;
                call.operand[i].offset = -1;
                fails(kernel, numbers, &call, about(&row, i, text), "before its buffer");
                call = good; /* as in a value that is no part of a larger one, or of one with other
                                rows */
                call.operand[i].bytes += 100 * 8 + 1;
                fails(kernel, numbers, &call, about(&row, i, text), "too many bytes");
                for (int e = 0; e < SW_N_ELEMENTS; e++) {
                    call = good;
                    call.operand[i].element = (sw_element)e;
                    if (e != (int)o->element)
                        fails(kernel, numbers, &call, about(&row, i, text), "another type");
                }
                call = good;
                call.operand[i].is_written = !o->is_written;
                fails(kernel, numbers, &call, about(&row, i, text), "written or not");
                call = good;
                call.accumulate = 1u << i;
                if (o->may_accumulate)
                    passes(kernel, numbers, &call);
                else
                    fails(kernel, numbers, &call, about(&row, i, text), "added to");
            }
            for (int d = 0; d < row.n_dimensions; d++) {
                call = good;
                call.dim[d] = -1;
                bool counts = false;
                for (int i = 0; i < row.n_operands; i++)
                    counts |= has(row.operand[i].shape, (char[]){row.dimension[d].text[0], '\0'}) &&
                              row.dimension[d].bytes == 1;
                if (counts && strchr("nBTCVHKDPF", row.dimension[d].text[0]))
                    fails(kernel, numbers, &call, "", "a dimension below 0");
                call.dim[d] = INT64_MAX / 2;
                if (counts && strchr("nBTCVHKPF", row.dimension[d].text[0]))
                    fails(kernel, numbers, &call, "", "a dimension beyond all bounds");
            }
            call = good;
            call.dim[SW_MAX_DIMENSIONS - 1] = 6;
            if (row.n_dimensions < SW_MAX_DIMENSIONS)
                fails(kernel, numbers, &call, "dimensions", "one dimension more");
            call = good;
            call.attribute[SW_MAX_ATTRIBUTES - 1] = 1;
            if (row.n_attributes < SW_MAX_ATTRIBUTES)
                fails(kernel, numbers, &call, "attributes", "one attribute more");
        }
}

static bool lie_alike(const sw_kernel_row *row, int i, int k) {
    const sw_slice a = row->operand[i].shape, b = row->operand[k].shape;
    return a.bytes == b.bytes && memcmp(a.text, b.text, (size_t)a.bytes) == 0;
}

/* In place where the row allows it, and nowhere else: not shifted, not where it is added to, not
 * over anything else. */
static void what_lies_over_another_operand_is_caught(void **state) {
    (void)state;
    char text[64];
    for (int k = 0; k < SW_N_KERNELS; k++)
        for (int n = 0; n < 3; n++) {
            const sw_kernel kernel = (sw_kernel)k;
            const sw_number_kind numbers = ALL_NUMBERS[n];
            sw_kernel_row row;
            const sw_given_call good = right(kernel, numbers, &row);
            for (int i = 0; i < row.n_operands; i++)
                for (int other = 0; other < row.n_operands && row.operand[i].is_written; other++) {
                    if (other == i)
                        continue;
                    const bool may = row.operand[i].lies_over >> other & 1;
                    sw_given_call call = good;
                    call.operand[i].buffer = other;
                    if (may && lie_alike(&row, i, other))
                        passes(kernel, numbers, &call);
                    else
                        fails(kernel, numbers, &call, "lies over operand", "the same place");
                    call.operand[i].offset += sw_element_bytes(row.operand[i].element, numbers);
                    if (call.operand[other].bytes >
                        sw_element_bytes(row.operand[i].element, numbers))
                        fails(kernel, numbers, &call, "lies over operand", "shifted by an element");
                    call.operand[i].offset =
                        call.operand[other].offset + call.operand[other].bytes - 1;
                    fails(kernel, numbers, &call, "lies over operand", "the last byte");
                    call.operand[i].offset = call.operand[other].offset + call.operand[other].bytes;
                    passes(kernel, numbers, &call);
                    call = good;
                    call.operand[i].buffer = other;
                    call.accumulate = 1u << i;
                    if (row.operand[i].may_accumulate)
                        fails(kernel, numbers, &call, about(&row, i, text),
                              "in place, and added to");
                }
        }
}

/* Rows with something between them: q, k and v, or gate and up, side by side in one value. */
static void parts_lie_beside_one_another(void **state) {
    (void)state;
    sw_kernel_row row;
    sw_given_call call = right(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &row);
    const int64_t stride = 12, width = 6 * 4, all = 6 * stride * 4;
    call.dim[2] = stride;
    for (int i = 1; i <= 4; i++) { /* gate, up, and their gradients over them */
        const int64_t offset = i % 2 ? 0 : width;
        call.operand[i] = (sw_given_operand){.buffer = 1,
                                             .offset = offset,
                                             .bytes = all - offset,
                                             .element = SW_ELEMENT_A,
                                             .is_written = i > 2};
    }
    passes(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &call);
    call.operand[4].offset = width - 4; /* dup begins in the last column of dgate */
    fails(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &call, "operand 3, dgate", "a column in common");
    call.operand[4].offset = width + 4; /* and ends in the first of its next row */
    call.operand[4].bytes = all - width - 4;
    fails(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &call, "operand 4, dup",
          "a row that does not fit");
    call.operand[4].offset = 0;
    call.operand[4].bytes = all;
    fails(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &call, "it lies over operand 4, dup",
          "both gradients in one place");
    call.dim[2] = 5; /* rows of 6 that begin after 5 */
    fails(SW_KERNEL_SWIGLU_GRAD, SW_NUMBERS_F32, &call, "operand 1, gate", "rows over one another");
}

/* Products that are absent have no columns, and what has columns has a weight. */
static void a_product_has_its_weight(void **state) {
    (void)state;
    sw_kernel_row row;
    sw_given_call call = right(SW_KERNEL_LINEAR, SW_NUMBERS_BF16, &row);
    call.operand[3].buffer = -1; /* the third weight */
    fails(SW_KERNEL_LINEAR, SW_NUMBERS_BF16, &call, "operand 3, weight P[out2,in]: it is missing",
          "a weight too few");
    call.dim[5] = 0; /* out2 */
    fails(SW_KERNEL_LINEAR, SW_NUMBERS_BF16, &call, "operand 6, bias P[out2]", "a bias of nothing");
    call.operand[6].buffer = -1;
    call.operand[7].bytes = call.operand[8].bytes =
        6 * 12 * 2; /* residual and y have two products left */
    passes(SW_KERNEL_LINEAR, SW_NUMBERS_BF16, &call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_make_sense),
        cmocka_unit_test(wrong_operands_are_caught),
        cmocka_unit_test(what_lies_over_another_operand_is_caught),
        cmocka_unit_test(parts_lie_beside_one_another),
        cmocka_unit_test(a_product_has_its_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
