/* gather.pml: every rank sees every slice of an epoch whole, and nobody writes the next one too early.
 *
 * Two epochs of one unit. Each rank writes its slice (in two steps: what is read meanwhile would show), publishes it, gathers all,
 * once for the forward and once for the backward pass, and meets the others in the exchange that decides the update. In copy mode
 * a second lane copies each slice as its owner is seen, and the first lane waits for it; in view mode the first lane reads the
 * slices where they lie, at any time until the exchange. Frozen units are published once: what is shown of an epoch here holds.
 *
 * stands for: sw_shm_gather_publish, sw_shm_gather, gather_from, compare (src/comm/shm_collectives.c); wait_for, advance,
 *             go_on (src/execute/lanes.c); sw_updates_emit (src/shard/updates.c)
 * right: N=2; N=3; N=2 COPY; N=3 COPY
 * wrong: N=2 NO_EXCHANGE                   a rank updates when it has gathered, whatever the others have
 * wrong: N=2 COPY NO_EXCHANGE
 * wrong: N=2 PUBLISHES_FIRST               the counter rises before the slice is there
 * wrong: N=2 COPY DOES_NOT_WAIT_FOR_LANE   the first lane goes to the exchange while the second still copies
 */
#define EPOCHS 2
#define PASSES 2
#define TORN 255

byte slice[N], published[N], print[N], gathered[N], arrived[N];
#ifdef COPY
byte position[N]; /* gathers that the second lane has done */
byte given[N];
#endif

inline see(peer) {
    assert(slice[peer] == epoch);
}

inline gather() {
    i = 0;
    do
    :: i < N ->
       peer = (me + i) % N;
       published[peer] >= epoch;
       assert(print[peer] == print[me] && published[peer] == epoch);
#ifdef COPY
       see(peer);
#endif
       i++
    :: else -> break
    od;
    gathered[me]++
}

#ifdef COPY
proctype second_lane(byte me) {
    byte epoch, pass, i, peer;
    do
    :: epoch < EPOCHS ->
       epoch++;
       given[me] >= epoch;
       pass = 0;
       do
       :: pass < PASSES -> gather(); position[me]++; pass++
       :: else -> break
       od
    :: else -> break
    od
}
#endif

inline read_all() { /* a kernel, in view mode */
    i = 0;
    do
    :: i < N -> see(i); i++
    :: else -> break
    od
}

proctype first_lane(byte me) {
    byte epoch, pass, i, peer;
    do
    :: epoch < EPOCHS ->
       epoch++;
#ifdef PUBLISHES_FIRST
       published[me] = epoch;
#endif
       slice[me] = TORN;
       slice[me] = epoch;
#ifndef PUBLISHES_FIRST
       print[me] = gathered[me];
       published[me] = epoch;
#endif
       pass = 0;
#ifdef COPY
       given[me] = epoch;
#ifndef DOES_NOT_WAIT_FOR_LANE
       position[me] == epoch * PASSES;
#endif
#else
       do
       :: pass < PASSES -> gather(); read_all(); pass++
       :: else -> break
       od;
#endif
#ifndef NO_EXCHANGE
       arrived[me]++;
       i = 0;
       do
       :: i < N -> arrived[i] >= arrived[me]; i++
       :: else -> break
       od;
#endif
    :: else -> break
    od
}

init {
    byte i;
    atomic {
        do
        :: i < N ->
           run first_lane(i);
#ifdef COPY
           run second_lane(i);
#endif
           i++
        :: else -> break
        od
    }
}
