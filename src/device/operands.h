/* operands.h: what the table of kernels (kernel.h) says about operands, and whether a call keeps to
 * it. */
#ifndef SW_DEVICE_OPERANDS_H
#define SW_DEVICE_OPERANDS_H

#include <shardwise/status.h>

#include "base/slice.h"
#include "device/kernel.h"

/* What an operand consists of: the types of the table. */
typedef enum sw_element {
    SW_ELEMENT_R,
    SW_ELEMENT_A,
    SW_ELEMENT_P,
    SW_ELEMENT_I32,
    SW_ELEMENT_U16,
    SW_ELEMENT_F64,
    SW_ELEMENT_WIDE,
    SW_N_ELEMENTS
} sw_element;

int64_t sw_element_bytes(sw_element element, sw_number_kind numbers);

/* A row, read. Its words are parts of the table's text. */
typedef struct sw_operand_row {
    sw_slice name, shape; /* "B*T,C" */
    sw_element element;
    bool is_written;     /* *, + or ! */
    bool may_accumulate; /* + or ! */
    bool may_be_absent;  /* ? */
    uint32_t lies_over;  /* bits of operands */
} sw_operand_row;

typedef struct sw_kernel_row {
    int n_operands, n_dimensions, n_attributes;
    sw_operand_row operand[SW_MAX_OPERANDS];
    sw_slice dimension[SW_MAX_DIMENSIONS];
} sw_kernel_row;

void sw_kernel_describe(sw_kernel kernel, sw_kernel_row *row);

/* An operand that a kernel is to be given. Those of different buffers share no byte. */
typedef struct sw_given_operand {
    int buffer; /* -1: absent */
    int64_t offset, bytes;
    sw_element element;
    bool is_written;
} sw_given_operand;

typedef struct sw_given_call {
    int n_operands;
    sw_given_operand operand[SW_MAX_OPERANDS];
    int64_t dim[SW_MAX_DIMENSIONS]; /* 0 behind those of the row, as attributes */
    double attribute[SW_MAX_ATTRIBUTES];
    uint32_t accumulate; /* bits of operands that are ever added to */
} sw_given_call;

/* Is that a call as the table has it? How many operands there are, which are absent, of what type,
 * how large, and what lies over what. A part of a larger value may have as many bytes as are left
 * of that. Errors: SW_BUG says which operand of which kernel.
 */
sw_status sw_kernel_check(sw_kernel kernel, sw_number_kind numbers, const sw_given_call *call,
                          sw_error *err);

#endif
