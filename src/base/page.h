/* page.h: whole pages of memory. */
#ifndef SW_BASE_PAGE_H
#define SW_BASE_PAGE_H

#include <unistd.h>

#include "base/integer.h"

/* The fewest whole pages that hold n bytes, in bytes. */
static inline int64_t sw_round_to_page(int64_t n) {
    return round_up(n, sysconf(_SC_PAGESIZE));
}

#endif
