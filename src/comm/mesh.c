/* mesh.c: see mesh.h. */
#include "comm/mesh.h"

sw_mesh sw_mesh_flat(int n_ranks) {
    return (sw_mesh){.n_ranks = n_ranks,
                     .size = {[SW_AXIS_REPLICATE] = 1, [SW_AXIS_SHARD] = n_ranks},
                     .stride = {[SW_AXIS_REPLICATE] = n_ranks, [SW_AXIS_SHARD] = 1}};
}

const char *sw_axis_name(sw_axis axis) {
    static const char *const names[SW_N_AXES] = {[SW_AXIS_REPLICATE] = "replicate", [SW_AXIS_SHARD] = "shard"};
    return names[axis];
}

int sw_mesh_size(const sw_mesh *mesh, sw_axes axes) {
    int size = 1;
    for (int axis = 0; axis < SW_N_AXES; axis++)
        size *= axes >> axis & 1 ? mesh->size[axis] : 1;
    return size;
}

int sw_mesh_place(const sw_mesh *mesh, sw_axes axes, int rank) {
    int place = 0;
    for (int axis = 0; axis < SW_N_AXES; axis++)
        if (axes >> axis & 1)
            place = place * mesh->size[axis] + sw_mesh_coordinate(mesh, (sw_axis)axis, rank);
    return place;
}

bool sw_mesh_counts(const sw_mesh *mesh, sw_axes axes, int rank) {
    for (int axis = 0; axis < SW_N_AXES; axis++)
        if (!(axes >> axis & 1) && sw_mesh_coordinate(mesh, (sw_axis)axis, rank) != 0)
            return false;
    return true;
}
