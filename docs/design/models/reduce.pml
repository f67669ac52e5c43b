/* reduce.pml: a gradient buffer is filled again only when all ranks have read it, and every rank sums the same contributions.
 *
 * A ring of two buffers, each with a channel that numbers its uses. The uses of a step go to the buffers in turn; in all
 * but the first the last rank has no micro-batch any more and contributes nothing. The first lane acquires a buffer, fills it (in two steps: what
 * is read meanwhile would show) and posts; then the use is summed: in copy mode by a second lane that runs ahead and waits inside
 * the sum, in view mode by the first lane when it has posted the next one. At the end of the step all sums are waited for, and the
 * ranks meet in the exchange that decides.
 *
 * stands for: sw_shm_reduce_acquire, sw_shm_reduce_post, sw_shm_reduce_sum, compare (src/comm/shm_collectives.c);
 *             sw_reductions_before, sw_reductions_after, sw_reductions_end (src/shard/reductions.c); is_passed_over,
 *             wait_for (src/execute/lanes.c)
 * right: N=2; N=3; N=2 COPY; N=3 COPY
 * wrong: N=2 NO_ACQUIRE                 a buffer is filled without a look at its readers
 * wrong: N=2 COPY NO_ACQUIRE
 * wrong: N=2 COPY WAITS_FOR_ITSELF      acquire waits for the own sum only
 * wrong: N=2 POSTS_FIRST                `posted` rises before the buffer is full
 * wrong: N=2 COPY DECIDES_EARLY         the step ends before its sums: who did not contribute numbers its next use wrongly
 * wrong: N=2 PRINT_IS_LATE              the fingerprint is written after the counter
 */
#define BUFFERS 2
#define USES 3  /* of a step */
#define STEPS 2
#define TORN 255
#define CELL(rank, use) ((rank) * BUFFERS + (use) % BUFFERS) /* uses count from 0 over all steps */
#define NUMBER(use) ((use) / BUFFERS + 1)                    /* on its channel */
#define IS_LAST(use) ((use) % USES == USES - 1)
#define CONTRIBUTORS(use) (N - ((use) % USES > 0))

/* Counters only rise, so waits for one rank after the other are one wait for all. */
#define ALL(condition_of) (condition_of(0) && condition_of(1) && (N < 3 || condition_of(N - 1)))
#define HAS_SUMMED(r) (summed[CELL(r, use)] >= posted[CELL(me, use)])
#define HAS_ARRIVED(r) (arrived[r] >= arrived[me])
#define HAS_POSTED(r) ((r) >= CONTRIBUTORS(summing) || posted[CELL(r, summing)] > summed[CELL(me, summing)])
#define HAS_PRINT(r) ((r) >= CONTRIBUTORS(summing) || print[CELL(r, summing)] == NUMBER(summing))
#define IS_WHOLE(r) ((r) >= CONTRIBUTORS(summing) || buffer[CELL(r, summing)] == summing)

byte buffer[N * BUFFERS], posted[N * BUFFERS], summed[N * BUFFERS], print[N * BUFFERS], arrived[N];
#ifdef COPY
byte n_sums[N];
#endif

inline acquire(use) {
#ifdef NO_ACQUIRE
    skip
#else
#ifdef WAITS_FOR_ITSELF
    HAS_SUMMED(me)
#else
    ALL(HAS_SUMMED)
#endif
#endif
}

inline post(use) {
    last = summed[CELL(me, use)] + 1;
    assert(posted[CELL(me, use)] < last);
#ifdef PRINT_IS_LATE
    posted[CELL(me, use)] = last;
    print[CELL(me, use)] = last
#else
    print[CELL(me, use)] = last;
    posted[CELL(me, use)] = last
#endif
}

inline contribute(use) {
    acquire(use);
#ifdef POSTS_FIRST
    post(use);
#endif
    buffer[CELL(me, use)] = TORN;
    buffer[CELL(me, use)] = use;
#ifndef POSTS_FIRST
    post(use)
#endif
}

/* Who writes a buffer while it is read leaves it changed: so it is looked at first, and last. */
inline sum() {
    d_step {
        ALL(HAS_POSTED);
        assert(ALL(HAS_PRINT));
        assert(ALL(IS_WHOLE))
    };
    d_step {
        assert(ALL(IS_WHOLE));
        assert(summed[CELL(me, summing)] + 1 == NUMBER(summing));
        summed[CELL(me, summing)] = NUMBER(summing)
    }
}

#ifdef COPY
proctype second_lane(byte me) {
    byte summing;
    do
    :: summing < USES * STEPS -> sum(); d_step { n_sums[me]++; summing++ }
    :: else -> break
    od
}
#endif

proctype first_lane(byte me) {
    byte use, last;
#ifndef COPY
    byte summing;
#endif
    do
    :: use < USES * STEPS ->
       if
       :: me < CONTRIBUTORS(use) -> contribute(use)
       :: else
       fi;
#ifndef COPY
       if
       :: use % USES > 0 -> sum(); summing++
       :: else
       fi;
       if
       :: IS_LAST(use) -> sum(); summing++
       :: else
       fi;
#endif
       if
       :: IS_LAST(use) ->
#ifndef DECIDES_EARLY
#ifdef COPY
          n_sums[me] > use;
#endif
          arrived[me]++;
          ALL(HAS_ARRIVED)
#else
          skip
#endif
       :: else
       fi;
       use++
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
