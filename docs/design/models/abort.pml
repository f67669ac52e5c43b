/* abort.pml: whatever fails, and whoever is killed at whatever moment, the run ends with a cause that is whole and true.
 *
 * Ranks wait for each other. Each may fail by itself; one of them is killed at any moment, also while it writes the error, or none
 * is. Who fails wins the abort word and writes the error in two steps; who waits follows. The supervisor looks at deaths first and
 * at the abort word then, raises it for a death, ends who does not leave, and says how the run went.
 *
 * stands for: sw_control_abort, sw_control_check (src/comm/control.c); finish_rank (src/launch/launch.c); look_at_process, watch_over,
 *             end_all, sw_outcome, sw_supervise (src/launch/supervisor.c)
 * right: N=2; N=3
 * wrong: N=2 LOOKS_AND_STORES       the abort word is looked at and stored, not swapped
 * wrong: N=2 READS_HALF_AN_ERROR    the error is read while it is being written
 * wrong: N=2 BELIEVES_WHO_WRITES    the supervisor ends the run for an error that is being written, and its writer dies
 * wrong: N=2 TAKES_ANY_FINAL        the status of a rank is read that has not returned
 * wrong: N=2 TAKES_WHO_FOLLOWS      a rank that follows is taken for the cause
 */
#define RUNNING 0
#define ABORTING 1
#define HAS_ABORTED 2
/* statuses and causes */
#define OK 0
#define FOLLOWS 1
#define TORN 2
#define DEATH 3 /* + rank */
#define OWN 10  /* + rank: what it failed with */

#ifdef BELIEVES_WHO_WRITES
#define HAS_ENDED (word != RUNNING)
#else
#define HAS_ENDED (word == HAS_ABORTED)
#endif
#ifdef READS_HALF_AN_ERROR
#define IS_TO_BE_READ (word != RUNNING)
#else
#define IS_TO_BE_READ (word == HAS_ABORTED)
#endif
#ifdef TAKES_ANY_FINAL
#define IS_VALID(r) true
#else
#define IS_VALID(r) has_returned[r]
#endif
#ifdef TAKES_WHO_FOLLOWS
#define IS_CAUSE(status) ((status) != OK)
#else
#define IS_CAUSE(status) ((status) > FOLLOWS)
#endif

byte word, error, first_error, arrived[N], final[N];
bool has_returned[N], is_killed[N], is_gone[N];
bool has_failed; /* some rank did fail, or was killed before it returned */

/* Raise the word with `cause`. */
inline abort(cause) {
#ifdef LOOKS_AND_STORES
    won = (word == RUNNING);
    word = (won -> ABORTING : word);
#else
    d_step { won = (word == RUNNING); word = (won -> ABORTING : word) };
#endif
    if
    :: won ->
       error = TORN;
       error = cause;
       word = HAS_ABORTED;
       assert(first_error == OK);
       first_error = cause
    :: else
    fi
}

proctype rank(byte me) {
    byte status;
    bool won;
    {
        if
        :: has_failed = true; status = OWN + me
        :: arrived[me] = 1;
           if
           :: arrived[0] && arrived[1] && arrived[N - 1] /* they only rise: one wait for all */
           :: word != RUNNING -> assert(!IS_TO_BE_READ || error > TORN); status = FOLLOWS
           fi
        fi;
        if
        :: status == OWN + me -> abort(status)
        :: else
        fi;
        final[me] = TORN;
        final[me] = status;
        has_returned[me] = true
    }
    unless { is_killed[me] };
    is_gone[me] = true
}

inline kill_now(victim) {
    d_step { is_killed[victim] = true; has_failed = has_failed || !has_returned[victim] }
}

proctype killer() {
    if
    :: skip
    :: kill_now(0)
    :: kill_now((N - 1))
    fi
}

#define IS_NEWS(r) (is_gone[r] && !is_seen[r])

active proctype supervisor() {
    byte r, cause, outcome, follows, n_seen;
    bool won, is_seen[N];
    atomic {
        do
        :: r < N -> run rank(r); r++
        :: else -> break
        od;
        run killer()
    }
    do /* looks, a tick each; those at which nothing has changed are left out */
    :: n_seen < N ->
       IS_NEWS(0) || IS_NEWS(1) || IS_NEWS(N - 1) || HAS_ENDED;
       r = 0;
       do
       :: r < N && !cause && IS_NEWS(r) ->
          is_seen[r] = true;
          n_seen++;
          cause = (has_returned[r] -> OK : DEATH + r);
          r++
       :: r < N && !cause && !IS_NEWS(r) -> r++
       :: r == N || cause -> break
       od;
       if
       :: cause || HAS_ENDED -> break
       :: else
       fi
    :: n_seen == N -> break
    od;
    if
    :: cause -> abort(cause)
    :: else
    fi;
    r = 0;
    do /* who does not leave in half a second is killed */
    :: r < N && !is_gone[r] -> is_killed[r] = true; is_gone[r]; r++
    :: r < N && is_gone[r] -> r++
    :: r == N -> break
    od;
    outcome = (word == HAS_ABORTED -> error : OK);
    r = 0;
    do
    :: r < N && !outcome ->
       if
       :: IS_VALID(r) && IS_CAUSE(final[r]) -> outcome = final[r]
       :: IS_VALID(r) && !IS_CAUSE(final[r]) && final[r] == FOLLOWS -> follows = FOLLOWS
       :: else
       fi;
       r++
    :: r == N || outcome -> break
    od;
    outcome = (outcome -> outcome : follows);
    outcome = (cause && !IS_CAUSE(outcome) -> cause : outcome);
    assert(outcome != TORN);
    assert(outcome != FOLLOWS);
    assert(has_failed == (outcome != OK))
}
