/* copy_rate.c: how fast one core copies memory: the measure that bench/decode holds decoding
 * against.
 *
 *     copy_rate [MIB [TIMES]]
 *
 * Copies one buffer onto another with memcpy, both much larger than any cache and touched before,
 * and prints the best rate in bytes per second. A byte that is copied counts once, although it
 * crosses the memory bus at least twice. The second number is the median.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TIMES = 1000 };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int n_arguments, char **arguments) {
    size_t mib = n_arguments > 1 ? strtoul(arguments[1], NULL, 10) : 256, n = mib << 20;
    size_t n_times = n_arguments > 2 ? strtoul(arguments[2], NULL, 10) : 11;
    double seconds[MOST_TIMES];
    char *from = malloc(n), *to = malloc(n);
    if (!mib || !n_times || n_times > MOST_TIMES || !from || !to) {
        fprintf(stderr,
                "usage: copy_rate [MIB [TIMES]], at most %d times, and memory for two buffers\n",
                MOST_TIMES);
        free(from);
        free(to);
        return 2;
    }
    memset(from, 1, n);
    memset(to, 2, n);
    for (size_t i = 0; i < n_times; i++) {
        double begin = seconds_now();
        memcpy(to, from, n);
        __asm__ volatile("" : : "r"(to) : "memory"); /* the copy is wanted */
        seconds[i] = seconds_now() - begin;
    }
    qsort(seconds, n_times, sizeof *seconds, by_size);
    printf("%.0f %.0f\n", (double)n / seconds[0], (double)n / seconds[n_times / 2]);
    free(from);
    free(to);
    return 0;
}
