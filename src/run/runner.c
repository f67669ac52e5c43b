/* runner.c: forward programs over the parameters of a folder, split over ranks whole unit by whole unit (ZeRO stage 3). */
#include "run/runner.h"

#include "checkpoint/model_files.h"
#include "run/masters.h"
#include "run/rank_device.h"

sw_status sw_runner_begin(const char *folder, int n_ranks, sw_dtype parameter_dtype, sw_runner *r, sw_error *err) {
    *r = (sw_runner){.folder = folder,
                     .sharding = {.mesh = sw_mesh_flat(n_ranks),
                                  .stage = 3,
                                  .accumulate_sharded = true,
                                  .parameter_dtype = parameter_dtype,
                                  .mode = SW_SHM_VIEW}};
    sw_cores_find(&r->cores);
    r->sharding.n_threads = r->cores.n > n_ranks ? r->cores.n / n_ranks : 1;
    sw_status status = sw_model_config_read(folder, &r->model, err);
    r->model.dropout = 0;
    r->kernel_set = sw_kernel_set_best();
    sw_gemm_choose(r->kernel_set, sw_sharding_numbers(&r->sharding), false, &r->gemm);
    return status;
}

sw_status sw_runner_add(sw_runner *r, sw_model_end end, sw_graph *graph, sw_error *err) {
    int i = r->n_programs++;
    r->graphs[i] = graph;
    r->list[i] = &r->programs[i];
    sw_status status = sw_model_trace(&r->model, end, graph, err);
    if (!status)
        status = sw_graph_join_products(graph, err);
    if (!status)
        status = sw_graph_reuse_in_place(graph, err);
    if (!status && i == 0) {
        status = sw_model_files_check(r->folder, &r->model, graph, err);
        if (!status)
            status = sw_layout_create(graph, &r->sharding.mesh, (sw_wrap){0}, SW_BLOCK, &r->layout, err);
        if (!status)
            status = sw_states_create(&r->layout, &r->sharding, false, &r->states, err);
        if (!status)
            status = sw_states_keep(&r->states, graph, err);
    }
    return status ? status : sw_program_create(graph, &r->states, &r->programs[i], err);
}

void sw_runner_free(sw_runner *r) {
    for (int i = 0; i < r->n_programs; i++) {
        sw_program_free(&r->programs[i]);
        sw_graph_free(r->graphs[i]);
    }
    sw_states_free(&r->states);
    sw_layout_free(&r->layout);
}

sw_status sw_runner_open(sw_runner *r, sw_comm *comm, sw_error *err) {
    sw_status status = sw_rank_device_open(comm, &r->sharding, &r->cores, r->kernel_set, r->gemm.kind, &r->device, err);
    if (!status)
        status = sw_executor_create(comm, r->device, &r->states, r->list, r->n_programs, &r->executor, err);
    sw_masters masters = {r->executor, &r->states, comm->rank};
    if (!status)
        status = sw_model_files_load(r->folder, &r->model, &r->layout, comm->rank, sw_masters_put, &masters, NULL, err);
    return status ? status : sw_executor_publish(r->executor, err);
}

void sw_runner_close(sw_runner *r) {
    sw_executor_free(r->executor);
    if (r->device)
        r->device->close(r->device);
    r->executor = NULL;
    r->device = NULL;
}

sw_status sw_runner_run(sw_runner *r, int index, bool is_active, sw_error *err) {
    sw_scalars scalars = {0};
    return sw_executor_forward(r->executor, index, is_active, &scalars, err);
}

void *sw_runner_address(sw_runner *r, int index, int buffer) {
    return sw_executor_address(r->executor, index, buffer);
}
