/* first_use.pml: two lanes of a rank come to a channel for the first time, at once.
 *
 * The first lane fills its buffer and posts, the second sums what all have posted: a fingerprint that is compared must be that of
 * the use. A channel is opened before the second lane knows of it. Were it the first user's to find out that the channel is idle
 * and to write a first fingerprint, then a lane that finds so could overwrite that of a post.
 *
 * stands for: sw_shm_channel_open, begin, compare, sw_shm_reduce_acquire, sw_shm_reduce_post, sw_shm_reduce_sum
 *             (src/comm/shm_collectives.c); open_channels (src/execute/executor.c)
 * right: N=2; N=3
 * wrong: N=2 FINDS_OUT_AT_FIRST_USE    each lane looks whether the channel is idle, and writes then
 * wrong: N=2 OPENS_LATE                the second lane is given its work before the channel is opened
 */
#define CLOSED 0
#define REDUCES 1

byte kind[N], print[N], posted[N], summed[N];
bool has_work[N];

inline begin() {
#ifdef FINDS_OUT_AT_FIRST_USE
    if
    :: kind[me] == CLOSED -> print[me] = 0; kind[me] = REDUCES
    :: else
    fi;
#endif
    assert(kind[me] == REDUCES)
}

inline open() {
#ifdef FINDS_OUT_AT_FIRST_USE
    skip
#else
    kind[me] = REDUCES
#endif
}

proctype first_lane(byte me) {
#ifdef OPENS_LATE
    has_work[me] = true;
    open();
#else
    open();
    has_work[me] = true;
#endif
    begin(); /* acquire: nobody has used it yet, so there is nothing to wait for */
    begin(); /* post */
    print[me] = 1;
    posted[me] = 1
}

proctype second_lane(byte me) {
    byte peer;
    has_work[me];
    begin();
    do
    :: peer < N ->
       posted[peer] >= 1;
       assert(print[peer] == 1);
       peer++
    :: else -> break
    od;
    summed[me] = 1
}

init {
    byte i;
    atomic {
        do
        :: i < N -> run first_lane(i); run second_lane(i); i++
        :: else -> break
        od
    }
}
