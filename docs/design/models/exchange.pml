/* exchange.pml: small payloads, all to all, by two slots in turn.
 *
 * A rank that fills the slot of exchange k + 2 has left k + 1, which all enter when they have read k. Payloads are written in two
 * steps, so that one that is read while it is written would show.
 *
 * stands for: sw_shm_exchange, compare (src/comm/shm_collectives.c); sw_shm_wait_for (src/comm/shm_wait.c)
 * right: N=2; N=3
 * wrong: N=2 ONE_SLOT         the slot does not change
 * wrong: N=2 RAISES_FIRST     `arrived` rises before the slot is filled
 * wrong: N=3 WAITS_FOR_ONE    a rank waits for its neighbour only
 */
#define EXCHANGES 4
#define TORN 255
#ifdef ONE_SLOT
#define SLOT(count) 0
#else
#define SLOT(count) ((count) % 2)
#endif
#define AT(r, count) slot[(r) * 2 + SLOT(count)]

byte arrived[N], slot[2 * N];

active [N] proctype rank() {
    byte count, i, peer;
    do
    :: count < EXCHANGES ->
       count++;
#ifdef RAISES_FIRST
       arrived[_pid] = count;
#endif
       AT(_pid, count) = TORN;
       AT(_pid, count) = count * 8 + _pid;
#ifndef RAISES_FIRST
       arrived[_pid] = count;
#endif
       i = 0;
       do
       :: i < N ->
          peer = (_pid + i) % N;
#ifdef WAITS_FOR_ONE
          if
          :: i > 1 -> skip
          :: else -> arrived[peer] >= count
          fi;
#else
          arrived[peer] >= count;
#endif
          assert(AT(peer, count) == count * 8 + peer);
          i++
       :: else -> break
       od
    :: else -> break
    od
}
