/* yielding.h: forced into every file of the library in a build with SW_YIELD, and in no other:
 * before each access to a word that threads or ranks share, before each lock and each look for a
 * dead process, a thread may sleep, so that what happens once in a thousand hours on a busy machine
 * happens in a minute. SW_YIELD_SEED chooses who sleeps, where and for how long. See yielding.c and
 * scripts/yield. */
#ifndef SW_BASE_YIELDING_H
#define SW_BASE_YIELDING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* Before an access; `place` says where it is written. */
void sw_yield_perhaps(const char *place);
#define SW_YIELD_TEXT(number) #number
#define SW_YIELD_LINE(number) SW_YIELD_TEXT(number)
#define SW_YIELD_HERE sw_yield_perhaps(__FILE__ ":" SW_YIELD_LINE(__LINE__))

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#define atomic_load_explicit(p, order) (SW_YIELD_HERE, __atomic_load_n(p, order))
#define atomic_load(p) atomic_load_explicit(p, __ATOMIC_SEQ_CST)
#define atomic_store_explicit(p, value, order) (SW_YIELD_HERE, __atomic_store_n(p, value, order))
#define atomic_store(p, value) atomic_store_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_exchange_explicit(p, value, order) \
    (SW_YIELD_HERE, __atomic_exchange_n(p, value, order))
#define atomic_exchange(p, value) atomic_exchange_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add_explicit(p, value, order) \
    (SW_YIELD_HERE, __atomic_fetch_add(p, value, order))
#define atomic_fetch_add(p, value) atomic_fetch_add_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub_explicit(p, value, order) \
    (SW_YIELD_HERE, __atomic_fetch_sub(p, value, order))
#define atomic_fetch_sub(p, value) atomic_fetch_sub_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_or_explicit(p, value, order) \
    (SW_YIELD_HERE, __atomic_fetch_or(p, value, order))
#define atomic_fetch_or(p, value) atomic_fetch_or_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong_explicit(p, expected, value, order, otherwise) \
    (SW_YIELD_HERE, __atomic_compare_exchange_n(p, expected, value, 0, order, otherwise))
#define atomic_compare_exchange_strong(p, expected, value) \
    atomic_compare_exchange_strong_explicit(p, expected, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_weak(p, expected, value) \
    (SW_YIELD_HERE,                                      \
     __atomic_compare_exchange_n(p, expected, value, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define pthread_mutex_lock(mutex) (SW_YIELD_HERE, pthread_mutex_lock(mutex))
#define wait4(pid, status, flags, usage) (SW_YIELD_HERE, wait4(pid, status, flags, usage))

#endif
