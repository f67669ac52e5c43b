/* restart.pml: ranks that are started again meet nothing of those before them, and a checkpoint is there whole or not at all.
 *
 * Each rank writes its part of a checkpoint (in two steps), in a folder that has one name in every life; all agree that theirs is
 * written, and rank 0 publishes it. In the first life one rank is killed at any moment, by a fault that may strike once and that
 * both lanes of the rank come by. The supervisor sees the death, ends all others, reaps them, cleans the folder, and starts the second
 * life, with control memory of its own: what ranks of the first life wrote there nobody reads.
 *
 * stands for: start_ranks, watch_over, end_all, reap, send_end (src/launch/supervisor.c); sw_launch (src/launch/launch.c); launch,
 *             launch_until_done (src/train/restarts.c); claim (src/faults/faults.c); write_part, publish, compare_parts,
 *             sw_saving_settle (src/checkpoint/saving.c)
 * right: N=2; N=3
 * wrong: N=2 LEAVES_THEM           the second life begins while a rank of the first may still write
 * wrong: N=2 PUBLISHES_ALONE       rank 0 publishes when its own part is written
 * wrong: N=2 STRIKES_ANEW          what has struck is forgotten when ranks are started again
 * wrong: N=2 ONE_CONTROL_MEMORY    the second life takes the memory of the first as it is
 */
#define LIVES 2
#define TORN 255

#define OF(life, rank) ((life - 1) * N + (rank))
#ifdef ONE_CONTROL_MEMORY
#define CELL(life, rank) (rank)
#else
#define CELL(life, rank) OF(life, rank)
#endif

byte written[LIVES * N]; /* control memory: this rank's part is there */
byte n_returned[LIVES + 1];
bool is_over[LIVES + 1]; /* the abort word */
byte part[N], published[N]; /* files: the life that wrote them */
bool is_killed[LIVES * N], is_gone[LIVES * N];
byte n_struck, n_strikes; /* as claimed, and in truth */

inline come_by_fault() {
    d_step { is_first = (n_struck == 0); n_struck++ };
    if
    :: is_first -> d_step { n_strikes++; is_killed[OF(life, 1)] = true }
    :: else
    fi
}

/* The other lane of rank 1, which ends with it. */
proctype lane_beside(byte life) {
    bool is_first;
    { come_by_fault() } unless { is_killed[OF(life, 1)] || n_returned[life] > 0 || is_over[life] }
}

proctype rank(byte me, life) {
    byte peer;
    bool is_first;
    {
        if
        :: me == 1 -> come_by_fault()
        :: else
        fi;
        part[me] = TORN;
        part[me] = life;
        written[CELL(life, me)] = 1;
        if
#ifdef PUBLISHES_ALONE
        :: me == 0
#endif
        :: written[CELL(life, 0)] && written[CELL(life, 1)] && written[CELL(life, N - 1)] /* counters rise: one wait for all */
        :: is_over[life] -> goto left
        fi;
        if
        :: me == 0 ->
           d_step { /* one rename */
               peer = 0;
               do
               :: peer < N -> published[peer] = part[peer]; peer++
               :: else -> break
               od
           }
        :: else
        fi;
        n_returned[life]++;
left:
        skip
    }
    unless { is_killed[OF(life, me)] };
    is_gone[OF(life, me)] = true
}

#define IS_WHOLE (published[0] == published[1] && published[1] == published[N - 1] && published[0] != TORN)

active proctype supervisor() {
    byte life, r;
    do
    :: life < LIVES ->
       life++;
       r = 0;
       atomic {
           do
           :: r < N -> run rank(r, life); r++
           :: else -> break
           od;
#ifdef STRIKES_ANEW
           n_struck = 0;
#endif
           run lane_beside(life)
       }
       if
       :: n_returned[life] == N -> break
       :: is_gone[OF(life, 1)] && n_returned[life] < N
       fi;
       is_over[life] = true;
       r = 0;
       do
       :: r < N ->
#ifndef LEAVES_THEM
          is_killed[OF(life, r)] = true;
          is_gone[OF(life, r)];
#endif
          r++
       :: else -> break
       od;
       assert(IS_WHOLE);
       d_step { /* what is half written is removed */
           r = 0;
           do
           :: r < N -> part[r] = 0; r++
           :: else -> break
           od
       }
    :: else -> break
    od;
    assert(IS_WHOLE && n_strikes <= 1)
}
