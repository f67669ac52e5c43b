/* yielding.h: forced into every file of the library in a build with SW_YIELD, and in no other: before each access to a word that
 * threads or ranks share, and before each lock, a thread may give its core away or sleep for a while, so that what happens once
 * in a thousand hours on a busy machine happens in a minute. SW_YIELD_SEED chooses when. See scripts/yield. */
#ifndef SW_BASE_YIELDING_H
#define SW_BASE_YIELDING_H

#include <pthread.h>
#include <stdatomic.h>

void sw_yield_perhaps(void);

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
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#define atomic_load_explicit(p, order) (sw_yield_perhaps(), __atomic_load_n(p, order))
#define atomic_load(p) atomic_load_explicit(p, __ATOMIC_SEQ_CST)
#define atomic_store_explicit(p, value, order) (sw_yield_perhaps(), __atomic_store_n(p, value, order))
#define atomic_store(p, value) atomic_store_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_exchange_explicit(p, value, order) (sw_yield_perhaps(), __atomic_exchange_n(p, value, order))
#define atomic_exchange(p, value) atomic_exchange_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add_explicit(p, value, order) (sw_yield_perhaps(), __atomic_fetch_add(p, value, order))
#define atomic_fetch_add(p, value) atomic_fetch_add_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub_explicit(p, value, order) (sw_yield_perhaps(), __atomic_fetch_sub(p, value, order))
#define atomic_fetch_sub(p, value) atomic_fetch_sub_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_or_explicit(p, value, order) (sw_yield_perhaps(), __atomic_fetch_or(p, value, order))
#define atomic_fetch_or(p, value) atomic_fetch_or_explicit(p, value, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong_explicit(p, expected, value, order, otherwise) \
    (sw_yield_perhaps(), __atomic_compare_exchange_n(p, expected, value, 0, order, otherwise))
#define atomic_compare_exchange_strong(p, expected, value) \
    atomic_compare_exchange_strong_explicit(p, expected, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define pthread_mutex_lock(mutex) (sw_yield_perhaps(), pthread_mutex_lock(mutex))

#endif
