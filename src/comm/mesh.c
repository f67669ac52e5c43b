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

/* The ranks of one group along an axis, from its first: "4-7", "0+2+4", "0+2+..+30". */
static int describe_group(const sw_mesh *mesh, sw_axis axis, int first, char *text, size_t bytes) {
    enum { MOST_NAMED = 4 };
    int size = mesh->size[axis], stride = mesh->stride[axis], last = first + (size - 1) * stride;
    if (stride == 1)
        return snprintf(text, bytes, "%d-%d", first, last);
    if (size > MOST_NAMED)
        return snprintf(text, bytes, "%d+%d+..+%d", first, first + stride, last);
    int n = 0;
    for (int i = 0; i < size; i++)
        n += snprintf(text + n, bytes - (size_t)n, "%s%d", i ? "+" : "", first + i * stride);
    return n;
}

void sw_mesh_describe(const sw_mesh *mesh, sw_axis axis, int ranks_per_host,
                      char line[SW_MESH_LINE_BYTES]) {
    enum { MOST_GROUPS = 3 };
    char groups[96];
    int length = 0, n_groups = 0, size = mesh->size[axis], stride = mesh->stride[axis];
    bool is_inside = true;
    for (int r = 0; r < mesh->n_ranks; r++) {
        if (sw_mesh_coordinate(mesh, axis, r) != 0)
            continue;
        is_inside &= r / ranks_per_host == (r + (size - 1) * stride) / ranks_per_host;
        if (n_groups++ < MOST_GROUPS) {
            length += snprintf(groups + length, sizeof groups - (size_t)length, "%s",
                               n_groups > 1 ? ", " : "");
            length +=
                describe_group(mesh, axis, r, groups + length, sizeof groups - (size_t)length);
        }
    }
    if (n_groups > MOST_GROUPS)
        snprintf(groups + length, sizeof groups - (size_t)length, ", ..");
    snprintf(line, SW_MESH_LINE_BYTES, "%-10s %-3d ranks %-23s %s", sw_axis_name(axis), size,
             groups,
             !is_inside                        ? "across hosts"
             : ranks_per_host >= mesh->n_ranks ? "inside one host"
                                               : "inside each host");
}

sw_line sw_mesh_line(const sw_mesh *mesh, sw_axis axis, int rank) {
    int step = mesh->stride[axis];
    return (sw_line){mesh->size[axis], rank - step * sw_mesh_coordinate(mesh, axis, rank), step};
}

int sw_mesh_line_contributors(const sw_mesh *mesh, sw_axis axis, int rank, int n_places) {
    sw_line line = sw_mesh_line(mesh, axis, rank);
    int n = 0;
    while (n < line.n && sw_mesh_place(mesh, SW_DATA_AXES, line.first + n * line.step) < n_places)
        n++;
    return n;
}

const char *sw_share_name(sw_share share) {
    static const char *const names[SW_N_SHARES] = {"nothing", "gather", "sum", "sum of slices"};
    return names[share];
}
