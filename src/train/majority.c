/* majority.c: counting. */
#include "train/majority.h"

int sw_majority(const uint64_t *values, int n, bool *is_odd) {
    uint64_t common = 0;
    bool is_known = false;
    int n_odd = 0;
    for (int i = 0; i < n && !is_known; i++) {
        int n_equal = 0;
        for (int j = 0; j < n; j++)
            n_equal += values[j] == values[i];
        is_known = 2 * n_equal > n;
        common = values[i];
    }
    for (int i = 0; i < n; i++) {
        is_odd[i] = !is_known || values[i] != common;
        n_odd += is_odd[i];
    }
    return n_odd;
}
