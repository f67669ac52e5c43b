/* mesh.c: see mesh.h. */
#include "comm/mesh.h"

#include <stdio.h>

sw_mesh sw_mesh_flat(int n_ranks) {
    sw_mesh mesh = {.n_ranks = n_ranks};
    for (int axis = SW_N_AXES - 1, stride = 1; axis >= 0; axis--) {
        mesh.size[axis] = axis == SW_AXIS_SHARD ? n_ranks : 1;
        mesh.stride[axis] = stride;
        stride *= mesh.size[axis];
    }
    return mesh;
}

const char *sw_axis_name(sw_axis axis) {
    static const char *const names[] = {
#define SW_MESH_AXIS_NAME(name, text, is_data, is_program) text,
        SW_MESH_AXES(SW_MESH_AXIS_NAME)
#undef SW_MESH_AXIS_NAME
    };
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

sw_rank_class sw_mesh_class(const sw_mesh *mesh, sw_axes axes, int rank) {
    sw_rank_class class = {.number = sw_mesh_place(mesh, axes, rank)};
    for (int axis = 0, used = 0; axis < SW_N_AXES && used < (int)sizeof class.name; axis++)
        if (axes >> axis & 1 && mesh->size[axis] > 1)
            used += snprintf(class.name + used, sizeof class.name - (size_t)used, "%s%s %d",
                             used ? ", " : "", sw_axis_name((sw_axis)axis),
                             sw_mesh_coordinate(mesh, (sw_axis)axis, rank));
    return class;
}
