/* idle_rings.c: the places of the gradient ring lie idle from a slot's beginning until backward
 * comes to fill them. What is dead by then may lie there meanwhile.
 *
 *   a slot       | forward ... last block | loss   | backward, last block | ... the one before
 *   of the root  |                        | filled ..........................................
 *   place 0      |                        | logits | filled .................................
 *   place 1      |                        kept of the last block ........| filled ..........
 *
 * The ring is a window: peers read a place until they have summed what was last posted from it.
 * Acquiring the place waits for that; so the instruction is moved from the first gradient of the
 * slot to the first loan. From there to the post the place is this rank's alone, whatever it writes
 * there. Only the slot's first use of a place lends: later ones would wait for sums that are under
 * way.
 *
 * What is lent: as long as something fits, the largest buffer among those that are alive when most
 * bytes are. So each loan lowers a peak, and what would lower none stays where it is. Where packing
 * leaves gaps, a few more that are alive when the highest byte is in use. See
 * docs/design/memory-map.md, "Idle rings".
 */
#include "shard/placement.h"

#include <stdlib.h>
#include <string.h>

/* The first instruction that touches a buffer and acquires it, or does anything else. */
static int first_use(const sw_program *program, int buffer, bool acquires) {
    for (int i = 0; i < program->instructions.n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        for (int o = 0; o < instruction->n_operands; o++)
            if (instruction->operand[o].buffer == buffer &&
                (instruction->kind == SW_DO_REDUCE_ACQUIRE) == acquires)
                return i;
    }
    return program->instructions.n;
}

/* The ring's places, from when they are filled on. Returns the end of the highest: what is lent
 * must not go beyond. */
static int64_t place_ring(const sw_program *program, sw_placements *ring) {
    int64_t end = 0;
    ring->n = 0;
    for (int b = 0; b < program->buffers.n; b++) {
        if (!sw_is_transient_in(&program->buffers.item[b], SW_MEMORY_REDUCE))
            continue;
        sw_placement *place = &ring->item[ring->n++];
        *place = sw_placement_of(&program->buffers.item[b]);
        place->first = first_use(program, b, false);
        place->address = program->buffers.item[b].address;
        end = larger(end, place->address + place->bytes);
        sw_occupancy_take(ring->taken, place->first, place->last, place->address, place->bytes);
    }
    return end;
}

/* The largest first; of equal ones that which lives longest: it is alive at other peaks too. */
static int best_loan_first(const void *a, const void *b) {
    const sw_placement *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int mine = x->last - x->first, other = y->last - y->first;
    return mine != other ? (mine > other ? -1 : 1)
                         : (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* All that could be lent, in `rest`. */
static void find_candidates(const sw_program *program, sw_placements *rest) {
    rest->n = 0;
    for (int b = 0; b < program->buffers.n; b++)
        if (sw_is_transient_in(&program->buffers.item[b], SW_MEMORY_ACTIVATIONS))
            rest->item[rest->n++] = sw_placement_of(&program->buffers.item[b]);
    qsort(rest->item, (size_t)rest->n, sizeof *rest->item, best_loan_first);
}

/* The first instruction at which most bytes are alive. */
static int peak_of(const int64_t *alive, int n) {
    int peak = 0;
    for (int i = 1; i < n; i++)
        peak = alive[i] > alive[peak] ? i : peak;
    return peak;
}

/* An instruction at which the highest byte of the activations' section is in use. */
static int top_of(const sw_program *program) {
    const sw_buffer *highest = NULL;
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        if (sw_is_transient_in(buffer, SW_MEMORY_ACTIVATIONS) &&
            (!highest || buffer->address + buffer->bytes > highest->address + highest->bytes))
            highest = buffer;
    }
    return highest ? highest->first : 0;
}

/* The best of the candidates that are alive at `peak`; false if none of them fits. A ring only
 * fills up, so what does not fit now never will: it stops being a candidate, as does what is
 * lent. */
static bool lend_one(sw_program *program, sw_placements *ring, sw_placements *rest, int64_t room,
                     int64_t *alive, int peak) {
    sw_placement *best = NULL;
    int n_left = 0;
    for (int i = 0; i < rest->n; i++) {
        sw_placement *candidate = &rest->item[i];
        bool is_alive = candidate->first <= peak && peak <= candidate->last;
        if (!best && is_alive) {
            candidate->address =
                sw_occupancy_find(ring->taken, candidate->first, candidate->last, candidate->bytes);
            if (candidate->address + candidate->bytes > room)
                continue;
            best = &ring->item[ring->n++];
            *best = *candidate;
            continue;
        }
        rest->item[n_left++] = *candidate;
    }
    rest->n = n_left;
    if (!best)
        return false;
    sw_buffer *lent = &program->buffers.item[best->buffer];
    lent->memory_class = SW_MEMORY_REDUCE;
    lent->kind = SW_BUFFER_WINDOW;
    lent->address = best->address;
    sw_occupancy_take(ring->taken, best->first, best->last, best->address, best->bytes);
    for (int i = best->first; i <= best->last; i++)
        alive[i] -= best->bytes;
    return true;
}

enum { MOST_ROUNDS = 16 };

static int moved(int i, int from, int to) {
    return i == from ? to : i >= to && i < from ? i + 1 : i;
}

/* Instruction `from` comes before `to`, in that one's segment. */
static void move_earlier(sw_program *program, int from, int to) {
    sw_instruction *all = program->instructions.item, instruction = all[from];
    program->segment_count[instruction.segment]--;
    instruction.segment = all[to].segment;
    program->segment_count[instruction.segment]++;
    memmove(&all[to + 1], &all[to], (size_t)(from - to) * sizeof *all);
    all[to] = instruction;
    for (int i = 0; i < program->instructions.n; i++)
        for (int w = 0; w < all[i].n_waits; w++)
            if (all[i].wait[w].instruction >= 0)
                all[i].wait[w].instruction = moved(all[i].wait[w].instruction, from, to);
    for (int b = 0; b < program->buffers.n; b++) {
        sw_buffer *buffer = &program->buffers.item[b];
        if (buffer->is_persistent || buffer->first < 0 ||
            buffer->last == program->instructions.n) /* which lives always */
            continue;
        buffer->first = moved(buffer->first, from, to);
        buffer->last = moved(buffer->last, from, to);
    }
}

void sw_idle_rings_lend(sw_program *program, sw_placements *ring, sw_placements *rest,
                        int64_t *alive) {
    int64_t room = place_ring(program, ring);
    int n_places = ring->n;
    if (!n_places)
        return;
    find_candidates(program, rest);
    (void)sw_count_alive(program, SW_MEMORY_ACTIVATIONS, alive);
    const int n = program->instructions.n + 1;
    while (lend_one(program, ring, rest, room, alive, peak_of(alive, n)))
        ;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (sw_map_section(program, SW_MEMORY_ACTIVATIONS, rest) <= alive[peak_of(alive, n)])
            break; /* packed without a gap */
        find_candidates(program, rest);
        if (!lend_one(program, ring, rest, room, alive, top_of(program)))
            break;
    }
    for (int p = 0; p < n_places; p++) {
        int acquire = first_use(program, ring->item[p].buffer, true), first = acquire;
        for (int k = n_places; k < ring->n; k++) {
            const sw_placement *place = &ring->item[p], *lent = &ring->item[k];
            bool meet = lent->address < place->address + place->bytes &&
                        place->address < lent->address + lent->bytes;
            first = meet ? (int)smaller(first, program->buffers.item[lent->buffer].first) : first;
        }
        if (first < acquire)
            move_earlier(program, acquire, first);
    }
}
