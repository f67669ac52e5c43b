/* copy.h: copying what is not read again soon. */
#ifndef SW_COMM_COPY_H
#define SW_COMM_COPY_H

#include <stddef.h>

/* memcpy, and what is large goes past the caches: no line of the destination is fetched to be
 * overwritten, and what kernels are working on stays. Measured on Zen 4, 128 MiB in pieces of 3.4
 * MiB: 9.5 ms against 15.7, and 15.3 against 18.7 with the reading that follows; pieces of 128 KiB
 * gain nothing. What was copied may be handed to another thread at once. */
void sw_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
