/* meeting.pml: ranks that are threads meet in the memory that they share.
 *
 * Two exchanges of bytes, each between two meetings: nobody reads before all have written, nor writes again before all have read.
 *
 * stands for: meet, exchange_bytes (src/comm/bootstrap_thread.c)
 * right: N=2; N=3
 * wrong: N=2 MEETS_ONCE          nobody waits for those that read
 * wrong: N=3 COUNTS_BACK_LATE    the round ends before the count of those that came is back at zero
 */
#define EXCHANGES 2

byte n_arrived, round, bytes[N];

inline meet() {
    seen = round;
    d_step { n_arrived++; is_last = (n_arrived == N) };
    if
    :: is_last ->
#ifdef COUNTS_BACK_LATE
       round++;
       n_arrived = 0
#else
       n_arrived = 0;
       round++
#endif
    :: else -> round != seen
    fi
}

active [N] proctype rank() {
    byte i, peer, seen;
    bool is_last;
    do
    :: i < EXCHANGES ->
       i++;
       bytes[_pid] = i;
       meet();
       peer = 0;
       do
       :: peer < N -> assert(bytes[peer] == i); peer++
       :: else -> break
       od;
#ifndef MEETS_ONCE
       meet()
#endif
    :: else -> break
    od
}
