/* test_occupancy.c: the lowest place that is free all through a stretch of instructions, beside a
 * search of everything placed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/occupancy.h"

typedef struct placed {
    int first, last;
    int64_t address, bytes;
} placed;

static int by_address(const void *a, const void *b) {
    const placed *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* The lowest gap, from addresses alone. */
static int64_t search(placed *all, int n, int first, int last, int64_t bytes) {
    int64_t address = 0;
    qsort(all, (size_t)n, sizeof *all, by_address);
    for (int i = 0; i < n; i++)
        if (all[i].first <= last && first <= all[i].last && all[i].address < address + bytes &&
            all[i].bytes) {
            int64_t end = all[i].address + all[i].bytes;
            address = end > address ? end : address;
        }
    return address;
}

static uint64_t random_state;

static int below(int n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static void the_lowest_gap_is_found(void **state) {
    (void)state;
    for (int seed = 1; seed <= 300; seed++) {
        placed all[200];
        random_state = (uint64_t)seed;
        int n_instructions = 1 + below(seed % 3 ? 60 : 5), n = 0;
        sw_occupancy *o = sw_occupancy_create(n_instructions);
        assert_non_null(o);
        for (int round = 0; round < 2; round++, sw_occupancy_clear(o), n = 0)
            for (; n < 200; n++) {
                placed p = {.first = below(n_instructions),
                            .bytes = below(8) ? 64 * below(6) : 1 + below(100)};
                p.last = p.first + below(seed % 2 ? n_instructions - p.first
                                                  : 1 + (n_instructions - p.first) / 8);
                p.address = sw_occupancy_find(o, p.first, p.last, p.bytes);
                if (p.address != search(all, n, p.first, p.last, p.bytes))
                    fail_msg("seed %d: buffer %d at %lld", seed, n, (long long)p.address);
                if (below(20) == 0) /* not where it was found: anywhere */
                    p.address = 64 * below(100);
                sw_occupancy_take(o, p.first, p.last, p.address, p.bytes);
                all[n] = p;
            }
        assert_false(sw_occupancy_is_short(o));
        sw_occupancy_free(o);
    }
    sw_occupancy_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_lowest_gap_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
