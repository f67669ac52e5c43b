/* schedule.h: the order in which a program's segments run, and what its instructions wait for.
 * Whoever follows a program (the executor, a checker, a simulator) asks here, so that all mean the
 * same by a wait.
 *
 * Positions count instructions in the order in which a rank comes to them, over all lanes, since
 * the run began: every run of a segment takes as many positions as it has instructions. A lane
 * tells the position up to which it is done; a wait is for a lane to reach a position. Waits point
 * backward, and lanes go forward, so waits cannot form a circle.
 */
#ifndef SW_SHARD_SCHEDULE_H
#define SW_SHARD_SCHEDULE_H

#include "shard/program.h"

/* One segment, run for a slot. */
typedef struct sw_turn {
    sw_segment segment;
    int slot;
} sw_turn;

/* The schedule of gradient accumulation: forward and backward of every slot (forward alone where
 * nothing is trained), then the reduction where it comes once a step, then the update. What belongs
 * to the whole step counts to its last slot. */
void sw_schedule_accumulation(sw_program *program);

/* The i-th turn of a step with n_slots slots; false at the end. */
bool sw_schedule_turn(const sw_program *program, int n_slots, int i, sw_turn *turn);

/* How often a segment runs in a step with n_slots slots. */
int64_t sw_segment_turns(const sw_program *program, int n_slots, sw_segment segment);

/* Where the turns lie that a wait may be about. */
typedef struct sw_positions {
    int64_t base; /* of this turn: position of its segment's first instruction */
    int64_t next; /* of the turn after it */
    int64_t
        this_slot[SW_N_SEGMENTS]; /* base of each segment in this slot, or at the end of the step */
    int64_t slot_before[SW_N_SEGMENTS]; /* ... in the slot before, of this step or the one before */
} sw_positions;

/* Nothing of this program has run yet, whatever ran before: there is nothing to wait for. */
void sw_positions_forget(sw_positions *positions);

/* Go on to the next turn. */
void sw_positions_lay(sw_positions *positions, const sw_program *program, sw_segment segment);

/* The position that the awaited lane must have reached before an instruction of this turn may
 * run. */
int64_t sw_wait_position(const sw_program *program, const sw_positions *positions,
                         const sw_wait *wait);

#endif
