/* futex.h: sleeping until a word of memory changes, and what to do while looking at it. */
#ifndef SW_BASE_FUTEX_H
#define SW_BASE_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between two looks at a word: leaves the core's units to its other hardware thread. */
static inline void sw_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while *word is `value`, at most for *most (NULL: for ever). It also returns when woken,
 * interrupted or for no reason: the caller looks again. `is_shared`: other processes wake too. */
static inline void sw_futex_wait(_Atomic uint32_t *word, uint32_t value,
                                 const struct timespec *most, bool is_shared) {
    syscall(SYS_futex, word, is_shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, most, NULL, 0);
}

/* Wake at most n of those who sleep on the word. */
static inline void sw_futex_wake(_Atomic uint32_t *word, int n, bool is_shared) {
    syscall(SYS_futex, word, is_shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
