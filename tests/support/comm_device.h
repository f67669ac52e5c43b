/* comm_device.h: a device with two kernels, FOLD and SQUARES, for tests of transports that need no
 * other. */
#ifndef SW_TESTS_SUPPORT_COMM_DEVICE_H
#define SW_TESTS_SUPPORT_COMM_DEVICE_H

#include "device/device.h"

/* Of floats (SW_NUMBERS_F32, SW_NUMBERS_BF16) and doubles (SW_NUMBERS_F64). */
const sw_device *comm_test_device(void);

#endif
