/* fuzz_safetensors.c: any bytes as a safetensors file. What is accepted must account for its every
 * byte, and be readable. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_tensor(sw_safetensors *file, const sw_tensor_entry *tensor) {
    float values[64];
    unsigned char bytes[64];
    sw_error err;
    assert(sw_safetensors_find(file, tensor->name) == tensor);
    assert(tensor->n_bytes == tensor->n_elements * tensor->dtype_bits / 8);
    int64_t n = tensor->n_elements < 64 ? tensor->n_elements : 64;
    sw_status status = sw_safetensors_read(file, tensor, tensor->n_elements - n, n, values, &err);
    assert(status == (sw_safetensors_is_real(tensor) ? SW_OK : SW_BAD_FILE));
    n = tensor->n_bytes < 64 ? tensor->n_bytes : 64;
    status = sw_safetensors_read_bytes(file, tensor, tensor->n_bytes - n, n, bytes, &err);
    assert(status == SW_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char path[64];
    sw_safetensors *file;
    sw_error err;
    int fd = memfd_create("fuzz_safetensors", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n_bytes) != (ssize_t)n_bytes)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (sw_safetensors_open(path, &file, &err) == SW_OK) {
        int64_t n = sw_safetensors_count(file),
                end = sw_safetensors_bytes_read(file); /* the header, so far */
        for (int64_t i = 0; i < n; i++) {
            const sw_tensor_entry *tensor = sw_safetensors_at(file, i);
            assert(tensor->file_offset == end);
            end += tensor->n_bytes;
            check_tensor(file, tensor);
        }
        assert(end == (int64_t)n_bytes);
        sw_safetensors_close(file);
    } else {
        assert(err.status == SW_BAD_FILE && err.message[0]);
    }
    close(fd);
    return 0;
}
