/* The tests of test_sharded.c with ranks as threads, for race checkers. */
#define AS_THREADS true
#include "test_sharded.c"
