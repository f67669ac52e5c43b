/* fuzz_file_format.c: any bytes as the first of a file, whatever is wanted: a kind, and where it is
 * refused a message. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    int64_t n = (int64_t)n_bytes;
    for (int wanted = SW_FILE_TEXT; wanted <= SW_FILE_NPY; wanted++)
        for (int more = 0; more < 2;
             more++) { /* the whole file, and the beginning of a longer one */
            sw_error err = {0};
            sw_status status =
                sw_file_expect("input", data, n, n + more * 10000, (sw_file_format)wanted, &err);
            assert(status == SW_OK ||
                   (status == SW_BAD_FILE && strncmp(err.message, "input: is ", 10) == 0));
        }
    sw_file_format kind = sw_file_format_of(data, n, n);
    assert(kind == SW_FILE_UNKNOWN || sw_file_format_words(kind));
    assert((kind == SW_FILE_EMPTY) == (n == 0));
    return 0;
}
