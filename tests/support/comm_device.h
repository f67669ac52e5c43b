/* comm_device.h: a device with the kernels that transports call, for tests that need no other: FOLD
 * and SQUARES, and in doubles FOLD_VALUES and ROUND_SUM. */
#ifndef SW_TESTS_SUPPORT_COMM_DEVICE_H
#define SW_TESTS_SUPPORT_COMM_DEVICE_H

#include "device/device.h"

/* Of floats (SW_NUMBERS_F32, SW_NUMBERS_BF16) and doubles (SW_NUMBERS_F64). */
const sw_device *comm_test_device(void);

#endif
