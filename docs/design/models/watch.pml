/* watch.pml: the supervisor says that all wait for each other only when nobody can go on.
 *
 * N ranks of two lanes; with VIEW of one. The first gives the second its work, and waits for its peers' sums, which are the second lanes' work, and
 * for its own second lane; the second rests until it is given something, waits for what the first lanes post, and sums. Every wait is
 * on record with its counter; a record is read whole, with its turn. The watch looks at all lanes twice: a verdict needs that no
 * turn has changed since the look before, and that each lane stands in a wait whose counter is too low. The real one wants a second
 * between the two; here there may be no time at all, and the verdict must be right all the same. With DISAGREE one rank goes to
 * wait for sums that it has not worked for, so that all come to stand, and the verdict must come.
 *
 * stands for: sw_watch_look, look_at_rank (src/launch/watch.c); sw_lane_wait_begins, sw_lane_wait_ends, sw_lane_is_blocked,
 *             sw_lane_load (src/comm/control.c); begin_sleep, rest, wait_until_taken, sw_lanes_give (src/execute/lanes.c)
 * right: N=2; N=3 VIEW; N=2 DISAGREE; N=3 VIEW DISAGREE
 * wrong: N=2 IDLE_IS_STUCK     a second lane that is in no wait is taken for one that has nothing to do
 * wrong: N=2 ONE_LOOK          what is seen at one look is believed
 * wrong: N=2 COUNTERS_UNREAD   a wait on record is believed, whether or not its counter is there by now
 * wrong: N=2 SKIPS_WHO_RETURNED    a rank that has returned since the first look is left out, and not one that has moved
 * wrong: N=2 DISAGREE UNTOLD   waits for the other lane are not on record
 */
#define ROUNDS 2
#define LANES (2 * N)
#define LANE(rank, number) ((rank) * 2 + (number))
#define NOTHING 255

/* counters: what each rank has posted, what it has summed, what its second lane was given */
#define POSTED(rank) (rank)
#define SUMMED(rank) (N + (rank))
#define GIVEN(rank) (2 * N + (rank))

byte counter[3 * N];
byte waits_for[LANES] = NOTHING, target[LANES]; /* a lane's record */
bool has_moved[LANES];                          /* its turn has changed since the first look at it */
bool has_returned[N], is_looking, has_judged;

/* For a counter of n ranks one after the other, from the neighbour on. Nothing is on record where the counter is there already. */
inline wait(lane, of_rank_0, neighbour, n, value) {
    peer = 0;
    do
    :: atomic { peer < n && counter[of_rank_0 + (neighbour + peer) % N] >= value -> peer++ }
    :: d_step {
           peer < n && counter[of_rank_0 + (neighbour + peer) % N] < value -> has_moved[lane] = is_looking;
           waits_for[lane] = of_rank_0 + (neighbour + peer) % N;
           target[lane] = value
       };
       counter[of_rank_0 + (neighbour + peer) % N] >= value || has_judged;
       d_step { has_moved[lane] = is_looking; waits_for[lane] = NOTHING; target[lane] = 0; peer++ }
    :: peer == n -> break
    od
}

proctype first_lane(byte me) {
    byte peer, round;
    do
    :: round < ROUNDS && !has_judged ->
       round++;
#ifdef DISAGREE
       if
       :: me == 0 && round == ROUNDS -> goto left_out
       :: else
       fi;
#endif
#ifndef VIEW
       counter[GIVEN(me)] = round;
#endif
       counter[POSTED(me)] = round;
#ifdef DISAGREE
left_out:
#endif
#ifdef VIEW
       wait(LANE(me, 0), POSTED(0), me + 1, N, round);
       counter[SUMMED(me)] = round;
#endif
       wait(LANE(me, 0), SUMMED(0), me + 1, N, round)
    :: else -> break
    od;
    has_returned[me] = true
}

#ifndef VIEW
proctype second_lane(byte me) {
    byte peer, round;
    do
    :: round < ROUNDS && !has_judged ->
       round++;
#ifdef UNTOLD
       counter[GIVEN(me)] >= round;
#else
       wait(LANE(me, 1), GIVEN(0), me, 1, round);
#endif
       wait(LANE(me, 1), POSTED(0), me + 1, N, round);
       counter[SUMMED(me)] = round
    :: else -> break
    od
}
#endif

#ifdef COUNTERS_UNREAD
#define IS_THERE(lane) false
#else
#define IS_THERE(lane) (counter[waits_for[lane]] >= target[lane])
#endif
#ifdef VIEW
#define IS_BLOCKED(lane) (waits_for[lane] == NOTHING -> (lane) % 2 == 1 : !IS_THERE(lane)) /* there is no second lane */
#else
#ifdef IDLE_IS_STUCK
#define IS_BLOCKED(lane) (waits_for[lane] == NOTHING -> (lane) % 2 == 1 : !IS_THERE(lane))
#else
#define IS_BLOCKED(lane) (waits_for[lane] == NOTHING -> false : !IS_THERE(lane))
#endif
#endif
#ifdef ONE_LOOK
#define HAS_MOVED(lane) false
#else
#define HAS_MOVED(lane) has_moved[lane]
#endif

/* The first look is one step here, the last of those that it takes: what has not moved since a lane was looked at before that has
 * not moved since then either. So is a lane's record with its counter: counters only rise. */
active proctype watch() {
    byte lane;
    bool had_returned[N];
    atomic {
        do
        :: lane < N ->
           run first_lane(lane);
#ifndef VIEW
           run second_lane(lane);
#endif
           lane++
        :: else -> break
        od
    }
#ifdef DISAGREE
    timeout; /* nobody can go on: now it looks */
#endif
    d_step {
        is_looking = true;
        lane = 0;
        do
        :: lane < N -> had_returned[lane] = has_returned[lane]; lane++
        :: else -> break
        od;
        lane = 0
    }
    do
    :: lane == LANES -> has_judged = true; break
    :: d_step { lane < LANES && had_returned[lane / 2] -> lane++ }
    :: d_step { lane < LANES && !has_returned[lane / 2] && IS_BLOCKED(lane) && !HAS_MOVED(lane) -> lane++ }
    :: lane < LANES && !has_returned[lane / 2] && !(IS_BLOCKED(lane) && !HAS_MOVED(lane)) -> break
#ifdef SKIPS_WHO_RETURNED
    :: d_step { lane < LANES && has_returned[lane / 2] && !had_returned[lane / 2] -> lane++ }
#else
    :: lane < LANES && has_returned[lane / 2] && !had_returned[lane / 2] -> break /* it has moved */
#endif
    od;
#ifdef DISAGREE
    assert(has_judged);
#else
    assert(!has_judged || (has_returned[0] && has_returned[1] && has_returned[N - 1]));
#endif
    d_step {
        is_looking = false;
        lane = 0;
        do
        :: lane < LANES -> has_moved[lane] = false; had_returned[lane / 2] = false; lane++
        :: else -> break
        od;
        lane = 0
    }
}
