/* layout.h: the ownership map: who owns which elements of which parameter.
 *
 * A shard unit has one flat buffer per group (trainable, frozen): its parameters in declaration
 * order, each at a multiple of SW_BLOCK elements, padded and cut into n_shards equal shards, whose
 * length is a multiple of `cut` elements. It is cut over some axes of the mesh and replicated over
 * the others: the owner of a shard is a place of the axes that it is cut over.
 *
 *      group  | wte ............ |..| norm |..| w1 ......... |..| w2 ......... | padding |
 *      owner  |  place 0      |  place 1      |  place 2      |  place 3                 |
 *
 * Everything that walks parameters across ranks (init, load, norm, decay, update, save) asks this
 * map; nothing recomputes it.
 */
#ifndef SW_SHARD_LAYOUT_H
#define SW_SHARD_LAYOUT_H

#include "base/arena.h"
#include "comm/mesh.h"
#include "graph/graph.h"

typedef struct sw_slot_of_parameter {
    const sw_parameter *parameter;
    int group;
    int64_t offset; /* elements from the start of the group's flat buffer */
} sw_slot_of_parameter;

typedef struct sw_group {
    int id;
    int unit; /* shard unit */
    bool is_trainable;
    int n_parameters;
    const int *parameters; /* [n_parameters] graph parameter ids, in order of offset */
    int64_t n_elements;    /* of the parameters, without padding */
    int64_t
        shard; /* elements of one owner, padding included: the flat buffer has n_shards * shard */
} sw_group;

typedef struct sw_shard_unit {
    int id;
    const char *name;
    bool is_root;
    int trainable_group, frozen_group; /* -1 if it has none */
} sw_shard_unit;

typedef struct sw_layout {
    sw_arena arena;
    sw_mesh mesh;
    sw_axes cut_over; /* the axes that every group is cut over */
    int n_shards;     /* places of those axes: owners */
    int64_t cut;
    int n_units, n_groups, n_parameters;
    sw_shard_unit *units;
    sw_group *groups;
    sw_slot_of_parameter *parameters; /* [n_parameters] by parameter id */
    int *unit_of_graph_unit;          /* shard unit of each graph unit */
} sw_layout;

/* Part of a parameter that lies in one owner's shard of a group. */
typedef struct sw_piece {
    const sw_parameter *parameter;
    int64_t first;        /* element of the parameter */
    int64_t shard_offset; /* element of the shard */
    int64_t length;       /* elements, more than 0 */
} sw_piece;

typedef struct sw_wrap {
    int64_t min_parameters; /* 0: every block is a unit; else neighbours with one parent join until
                               they have so many; too small a rest joins those before it */
} sw_wrap;

/* `cut` is a multiple of SW_BLOCK. Errors: SW_BAD_CONFIG: more than 2^56 parameters. Ownership:
 * free with sw_layout_free; the graph must outlive the layout. */
sw_status sw_layout_create(const sw_graph *graph, const sw_mesh *mesh, sw_wrap wrap, int64_t cut,
                           sw_layout *layout, sw_error *err);
void sw_layout_free(sw_layout *layout);

/* Which shard a rank owns. */
static inline int sw_layout_owner(const sw_layout *layout, int rank) {
    return sw_mesh_place(&layout->mesh, layout->cut_over, rank);
}

/* Walk the pieces of `owner`'s shard of `group` in order of shard_offset: `*at` starts at 0; false
 * when there are no more. */
bool sw_layout_next_piece(const sw_layout *layout, int group, int owner, int *at, sw_piece *piece);

#endif
