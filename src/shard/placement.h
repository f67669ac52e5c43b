/* placement.h: where buffers may lie, for the files that give them their places: shard/states.c,
 * memory_map.c, idle_rings.c. */
#ifndef SW_SHARD_PLACEMENT_H
#define SW_SHARD_PLACEMENT_H

#include "base/integer.h"
#include "shard/occupancy.h"
#include "shard/program.h"

/* A transient buffer of the section that is being packed. */
typedef struct sw_placement {
    int buffer;
    sw_memory_class memory_class;
    int first, last; /* instructions */
    int64_t bytes;   /* with what is lost to alignment */
    int64_t address;
} sw_placement;

/* Working space for one section. */
typedef struct sw_placements {
    int n;
    sw_placement *item; /* [n buffers] */
    sw_occupancy *taken;
} sw_placements;

static inline int64_t sw_buffer_aligned(int64_t n) {
    return round_up(n, SW_BUFFER_ALIGNMENT);
}

/* Does the memory map give this buffer an address in `section`? */
static inline bool sw_is_transient_in(const sw_buffer *buffer, sw_memory_class section) {
    return !buffer->is_persistent && buffer->first >= 0 &&
           sw_memory_section(buffer->memory_class) == section;
}

static inline sw_placement sw_placement_of(const sw_buffer *buffer) {
    return (sw_placement){buffer->id,
                          buffer->memory_class,
                          buffer->first,
                          buffer->last,
                          sw_buffer_aligned(buffer->bytes),
                          0};
}

/* Give every transient buffer of a section an address. Lifetimes are known. Returns the room that
 * they take. */
int64_t sw_map_section(sw_program *program, sw_memory_class section, sw_placements *w);

/* Place what is alive at the peak of section ACTIVATIONS in places of the gradient ring that are
 * idle all its life, as long as there is something that fits. It then counts as the ring's class,
 * and the places are acquired before it. Section REDUCE has been mapped. `ring`, `rest` and `alive`
 * [instructions + 2] are working space. */
void sw_idle_rings_lend(sw_program *program, sw_placements *ring, sw_placements *rest,
                        int64_t *alive);

/* out: alive [instructions + 1], the bytes of a section that are alive at each instruction. Returns
 * the most: no placement can go below. */
int64_t sw_count_alive(const sw_program *program, sw_memory_class section, int64_t *alive);

#endif
