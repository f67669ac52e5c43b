/* fuzz_npy.c: any bytes as a .npy file. What the parser accepts must lie within the bytes, so every
 * element is read. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_npy npy;
    sw_error err;
    int64_t file_bytes = (int64_t)n_bytes,
            seen = file_bytes < SW_NPY_MAX_PREFIX ? file_bytes : SW_NPY_MAX_PREFIX;
    sw_status plain = sw_npy_parse("input", data, seen, file_bytes, &npy, &err);
    sw_status marks = sw_npy_parse_marks("input", data, seen, file_bytes, &npy, &err);
    assert(plain != SW_OK || marks == SW_OK); /* which takes bool too */
    if (marks != SW_OK) {
        assert(err.status == SW_BAD_FILE && err.message[0]);
        return 0;
    }
    assert(npy.n >= 0 && npy.first + npy.n * sw_dtype_bytes(npy.dtype) == file_bytes);
    volatile int64_t sink = 0;
    for (int64_t i = 0; i < npy.n; i++)
        sink = sw_npy_element(npy.dtype, data + npy.first, i);
    (void)sink;
    return 0;
}
