/* threads.pml: every task of a call is run once, by somebody who knows the call; nobody sleeps for ever.
 *
 * A caller makes two calls of two tasks and then stops its N workers. Gate, number of the call and count of those inside are one
 * word, so entering is one compare-and-swap; workers sleep on that word, the caller on a word of its own until the last has left.
 *
 * stands for: sw_parallel, take_tasks, wait_for_call, has_call, work, leave, wait_until_empty, sw_threads_stop
 *             (src/device/cpu/threads.c); sw_futex_wait, sw_futex_wake (src/base/futex.h)
 * right: N=1; N=2
 * wrong: N=1 DOES_NOT_LOOK_AGAIN     the caller says that it sleeps, and does not look whether somebody is inside still
 * wrong: N=2 DOES_NOT_WAIT           the caller returns while a worker is inside
 * wrong: N=2 ENTERS_WITHOUT_SWAP     a worker looks at the gate, and counts itself then
 * wrong: N=1 STOPS_IN_SILENCE        the end is told, and the gate stays as it is
 */
#define CALLS 2
#define TASKS 2

byte number, n_inside; /* the gate: three parts of one word */
bool is_open;
byte next_task, call; /* the call's: written while nobody is inside */
byte n_done[CALLS * TASKS];
bool caller_sleeps, caller_is_asleep, is_over;
byte asleep; /* workers on the gate, a bit each */

#define IS_ASLEEP(id) ((asleep >> (id)) & 1)
#define HAS_CALL(open, n) (open && n != last)

inline take_tasks(of_call) {
    do
    :: atomic { task = next_task; next_task++ };
       if
       :: task < TASKS -> d_step { assert(call == of_call); n_done[(of_call - 1) * TASKS + task]++ }
       :: else -> break
       fi
    od
}

proctype worker(byte id) {
    byte last, task, seen_number, seen_inside;
    bool seen_open, has_left_last, has_entered;
    do
    ::
       do /* wait_for_call */
       :: atomic { seen_number = number; seen_open = is_open; seen_inside = n_inside };
          if
          :: HAS_CALL(seen_open, seen_number) || is_over -> break
          :: else
          fi;
          if
          :: d_step { number == seen_number && is_open == seen_open && n_inside == seen_inside -> asleep = asleep | (1 << id) };
             !IS_ASLEEP(id)
          :: number != seen_number || is_open != seen_open || n_inside != seen_inside
          fi
       od;
       if
       :: is_over -> break
       :: else
       fi;
       do
       :: HAS_CALL(seen_open, seen_number) ->
          d_step {
#ifdef ENTERS_WITHOUT_SWAP
              has_entered = true;
#else
              has_entered = (number == seen_number && is_open == seen_open && n_inside == seen_inside);
#endif
              n_inside = n_inside + has_entered;
              seen_number = number;
              seen_open = is_open;
              seen_inside = n_inside
          };
          if
          :: has_entered ->
             last = seen_number;
             take_tasks(last);
             atomic { n_inside--; has_left_last = (n_inside == 0 && !is_open) };
             if
             :: has_left_last ->
                d_step { has_left_last = caller_sleeps; caller_sleeps = false };
                if
                :: has_left_last -> caller_is_asleep = false
                :: else
                fi
             :: else
             fi;
             break
          :: else
          fi
       :: else -> break
       od
    od
}

active proctype caller() {
    byte i, task;
    atomic {
        do
        :: i < N -> run worker(i); i++
        :: else -> break
        od;
        i = 0
    }
    do
    :: i < CALLS ->
       i++;
       call = i;
       next_task = 0;
       d_step { number++; is_open = true };
       asleep = 0; /* wakes those that sleep */
       take_tasks(i);
       is_open = false;
#ifndef DOES_NOT_WAIT
       do
       :: n_inside > 0 ->
          caller_sleeps = true;
#ifndef DOES_NOT_LOOK_AGAIN
          if
          :: n_inside > 0 ->
#endif
             if
             :: d_step { caller_sleeps -> caller_is_asleep = true }; !caller_is_asleep
             :: !caller_sleeps
             fi
#ifndef DOES_NOT_LOOK_AGAIN
          :: else
          fi
#endif
       :: n_inside == 0 -> break
       od;
       caller_sleeps = false;
#endif
       assert(n_done[(i - 1) * TASKS] == 1 && n_done[(i - 1) * TASKS + 1] == 1)
    :: else -> break
    od;
    is_over = true;
#ifndef STOPS_IN_SILENCE
    number++;
    asleep = 0
#endif
}
