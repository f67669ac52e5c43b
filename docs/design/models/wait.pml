/* wait.pml: a rank that waits for a peer's counter sleeps only if somebody will wake it.
 *
 * One rank raises its counter, or aborts the run on the way; N lanes of others wait for it, each for a number of its own, and
 * sleep on the rank's bell. A sleep here has no end of its own (the real one lasts 50 ms), so a wake-up that is lost is a
 * deadlock.
 *
 * stands for: sw_shm_wait_for (src/comm/shm_wait.c); sw_control_ring, sw_control_abort (src/comm/control.c); sw_futex_wait,
 *             sw_futex_wake (src/base/futex.h)
 * right: N=2; N=3
 * wrong: N=2 LOOKS_BEFORE_IT_COUNTS    the waiter looks at the counter, and counts itself then
 * wrong: N=2 RINGS_BEFORE_IT_RAISES    the rank looks at `waiters`, and raises its counter then
 * wrong: N=2 BELL_IS_READ_LAST         the waiter reads the bell when it has looked at the counter
 * wrong: N=2 ABORTS_IN_SILENCE         the abort word is raised, and no bell rung
 */
#define RAISES 2
#define IS_ASLEEP(id) ((asleep >> (id)) & 1)

byte counter, waiters, bell, asleep; /* asleep: a bit for each lane */
bool has_aborted;

inline ring() {
    if
    :: waiters > 0 -> bell++; asleep = 0
    :: else
    fi
}

active proctype owner() {
    byte i;
    do
    :: i < RAISES ->
#ifdef RINGS_BEFORE_IT_RAISES
       ring();
       counter++;
#else
       counter++;
       ring();
#endif
       i++
    :: i < RAISES ->
       has_aborted = true;
#ifndef ABORTS_IN_SILENCE
       bell++;
       asleep = 0;
#endif
       break
    :: i == RAISES -> break
    od
}

proctype waiter(byte id, target) {
    byte seen;
#ifdef LOOKS_BEFORE_IT_COUNTS
    if
    :: counter >= target -> goto done
    :: else
    fi;
#endif
    waiters++;
    do
    ::
#ifndef BELL_IS_READ_LAST
       seen = bell;
#endif
#ifndef LOOKS_BEFORE_IT_COUNTS
       if
       :: counter >= target -> break
       :: else
       fi;
#endif
       if
       :: has_aborted -> break
       :: else
       fi;
#ifdef BELL_IS_READ_LAST
       seen = bell;
#endif
       if /* the kernel looks at the word and puts to sleep in one step */
       :: atomic { bell == seen -> asleep = asleep | (1 << id) }; !IS_ASLEEP(id)
       :: bell != seen
       fi;
#ifdef LOOKS_BEFORE_IT_COUNTS
       if
       :: counter >= target -> break
       :: else
       fi
#endif
    od;
    waiters--;
    assert(counter >= target || has_aborted);
done:
    skip
}

init {
    byte i;
    atomic {
        do
        :: i < N -> run waiter(i, 1 + i % RAISES); i++
        :: else -> break
        od
    }
}
