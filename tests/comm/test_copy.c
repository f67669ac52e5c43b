/* sw_copy_past_caches copies what memcpy copies, whatever the alignment, and nothing beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/copy.h"

enum { ROOM = (1 << 20) + 4096, LEFT_ALONE = 0xa5 };

static void every_byte_is_copied_and_no_other(void **state) {
    (void)state;
    static const size_t lengths[] = {
        0,      1, 63, 64, 65, 4096, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, (1 << 20) - 77,
        1 << 20};
    unsigned char *from = malloc(ROOM), *to = malloc(ROOM);
    assert_true(from && to);
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t shift = 0; shift < 3; shift++) {
            size_t source = 64 + 13 * shift, begin = 64 + 7 * shift * shift,
                   end = begin + lengths[l];
            memset(to, LEFT_ALONE, ROOM);
            sw_copy_past_caches(to + begin, from + source, lengths[l]);
            assert_memory_equal(to + begin, from + source, lengths[l]);
            for (size_t i = 0; i < begin; i++)
                assert_int_equal(to[i], LEFT_ALONE);
            for (size_t i = end; i < ROOM; i++)
                if (to[i] != LEFT_ALONE)
                    fail_msg("%zu bytes at %zu: byte %zu behind them is touched", lengths[l], begin,
                             i - end);
        }
    free(from);
    free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_is_copied_and_no_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
