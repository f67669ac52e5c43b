/* mesh.h: the ranks of a run as a grid with named axes.
 *
 * Every rank has one coordinate on each axis. What the sharding code says of ranks it says of axes:
 * a group's parameters are cut over some and replicated over others, a collective goes along one,
 * micro-batches are dealt over those that hold different data.
 *
 *        replicate 2, shard 3          shard 0  shard 1  shard 2
 *                       replicate 0    rank 0   rank 1   rank 2
 *                       replicate 1    rank 3   rank 4   rank 5
 *
 * Neighbours on the last axis are neighbouring ranks, so that what talks most stays inside a host.
 */
#ifndef SW_COMM_MESH_H
#define SW_COMM_MESH_H

#include <stdbool.h>
#include <stdint.h>

/* The axes, from the outermost, whose neighbours lie furthest apart. Adding one is a row here: of
 * size 1 until a mesh is made with more. X(NAME, "name", 1: ranks along it take different
 * micro-batches, 1: ranks along it run different programs) */
#define SW_MESH_AXES(X)             \
    X(REPLICATE, "replicate", 1, 0) \
    X(SHARD, "shard", 1, 0)

typedef enum sw_axis {
#define SW_MESH_AXIS(name, text, is_data, is_program) SW_AXIS_##name,
    SW_MESH_AXES(SW_MESH_AXIS)
#undef SW_MESH_AXIS
        SW_N_AXES
} sw_axis;

/* Axes as a set: bit i is axis i. */
typedef unsigned sw_axes;
#define SW_AXES(axis) (1u << (axis))

/* Along these, ranks take different micro-batches. */
#define SW_MESH_DATA_BIT(name, text, is_data, is_program) ((is_data)*SW_AXES(SW_AXIS_##name)) |
#define SW_DATA_AXES (SW_MESH_AXES(SW_MESH_DATA_BIT) 0u)

/* Along these, ranks run different programs. */
#define SW_MESH_PROGRAM_BIT(name, text, is_data, is_program) \
    ((is_program)*SW_AXES(SW_AXIS_##name)) |
#define SW_PROGRAM_AXES (SW_MESH_AXES(SW_MESH_PROGRAM_BIT) 0u)

typedef struct sw_mesh {
    int n_ranks;           /* product of the sizes */
    int size[SW_N_AXES];   /* 1: the axis is not used */
    int stride[SW_N_AXES]; /* ranks from one coordinate to the next */
} sw_mesh;

/* The mesh of one flat group of ranks: `shard` alone. */
sw_mesh sw_mesh_flat(int n_ranks);

/* "shard" */
const char *sw_axis_name(sw_axis axis);

/* A line of the mesh's table for an axis of more than one place: its name, its size, the ranks
 * along it and whether they share a host, of which each has ranks_per_host neighbouring ranks:
 *
 *     shard      3   ranks 0-2, 3-5                inside each host
 *     replicate  2   ranks 0+3, 1+4, 2+5           across hosts */
enum { SW_MESH_LINE_BYTES = 160 };
void sw_mesh_describe(const sw_mesh *mesh, sw_axis axis, int ranks_per_host,
                      char line[SW_MESH_LINE_BYTES]);

static inline int sw_mesh_coordinate(const sw_mesh *mesh, sw_axis axis, int rank) {
    return rank / mesh->stride[axis] % mesh->size[axis];
}

/* How many places a set of axes has, and which of them a rank stands at: those of the last axis
 * count fastest. */
int sw_mesh_size(const sw_mesh *mesh, sw_axes axes);
int sw_mesh_place(const sw_mesh *mesh, sw_axes axes, int rank);

/* Ranks that stand at the same place of `axes` hold the same: in sums over all ranks the first of
 * them counts, and it alone writes what they hold. Does this one? */
bool sw_mesh_counts(const sw_mesh *mesh, sw_axes axes, int rank);

/* The ranks that differ from a rank in their coordinate on one axis alone, itself among them: rank
 * first + i * step is the i-th. A collective goes along a line. */
typedef struct sw_line {
    int n, first, step;
} sw_line;

sw_line sw_mesh_line(const sw_mesh *mesh, sw_axis axis, int rank);

/* How many ranks of that line have a micro-batch when places 0 .. n_places - 1 of the data axes do:
 * they are its first ones. */
int sw_mesh_line_contributors(const sw_mesh *mesh, sw_axis axis, int rank, int n_places);

/* What the ranks of a line make of what each of them has. One without a micro-batch has nothing,
 * and is given nothing. */
typedef enum sw_share {
    SW_SHARE_NOTHING,
    SW_SHARE_GATHER, /* all of it, side by side in the order of ranks; zeros for who has nothing */
    SW_SHARE_SUM,    /* its sum, in the order of ranks */
    SW_SHARE_SUM_SLICE, /* the sum, cut into as many slices as there are ranks: to each its own */
    SW_N_SHARES
} sw_share;

/* "gather", "sum", "sum of slices" */
const char *sw_share_name(sw_share share);

/* Ranks that run one program: those that stand at the same place of the axes along which programs
 * differ. */
typedef struct sw_rank_class {
    int number;    /* that place */
    char name[56]; /* "replicate 1", coordinates on those of the axes that have more than one; "":
                      there is one class */
} sw_rank_class;

/* `axes`: SW_PROGRAM_AXES. */
sw_rank_class sw_mesh_class(const sw_mesh *mesh, sw_axes axes, int rank);

/* How the micro-batches of a step, or of an evaluation, are dealt: micro-batch k goes to place k
 * mod n of the data axes, slot k div n. Whatever asks who computes what, and when, asks here. */
typedef struct sw_deal {
    int64_t n_micro_batches;
    int n_places;
} sw_deal;

static inline sw_deal sw_mesh_deal(const sw_mesh *mesh, int64_t n_micro_batches) {
    return (sw_deal){n_micro_batches, sw_mesh_size(mesh, SW_DATA_AXES)};
}

static inline int sw_deal_slots(sw_deal deal) {
    return (int)((deal.n_micro_batches + deal.n_places - 1) / deal.n_places);
}

/* The micro-batch of a place in a slot; one that is not below n_micro_batches is not there, and the
 * rank idles. */
static inline int64_t sw_deal_micro_batch(sw_deal deal, int place, int slot) {
    return (int64_t)slot * deal.n_places + place;
}

/* Places 0 .. n - 1 that have a micro-batch in the slot. */
static inline int sw_deal_contributors(sw_deal deal, int slot) {
    int64_t left = deal.n_micro_batches - (int64_t)slot * deal.n_places;
    return (int)(left < deal.n_places ? left : deal.n_places);
}

#endif
