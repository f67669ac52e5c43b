/* runner.c: forward programs over the parameters of a folder, split over ranks whole unit by whole
 * unit (ZeRO stage 3). */
#include "infer/runner.h"

#include <inttypes.h>
#include <math.h>

#include "comm/control.h"
#include "execute/masters.h"
#include "execute/rank_device.h"
#include "hf/model_files.h"

/* What says how the folder names tensors; NULL: as the parameters are called. */
static const sw_model_config *files_config(const sw_runner *r) {
    return r->source.custom ? NULL : &r->model;
}

sw_status sw_runner_dimensions(const sw_runner_model *m, sw_model_config *config, sw_error *err) {
    if (!m->custom)
        return sw_model_config_read(m->folder, config, err);
    *config = (sw_model_config){.vocabulary = m->custom->vocabulary,
                                .max_positions = m->n_positions,
                                .bos_token = -1,
                                .eos_token = -1};
    return SW_OK;
}

sw_status sw_runner_begin(const sw_runner_model *model, int n_ranks, sw_dtype parameter_dtype,
                          sw_runner *r, sw_error *err) {
    *r = (sw_runner){.source = *model, .kernel_set = sw_kernel_set_best()};
    sw_cores_find(&r->cores);
    sw_sharding sharding = {.mesh = sw_mesh_flat(n_ranks),
                            .n_threads = r->cores.n > n_ranks ? r->cores.n / n_ranks : 1,
                            .stage = 3,
                            .accumulate_sharded = true,
                            .parameter_dtype = parameter_dtype,
                            .mode = SW_SHM_VIEW};
    sw_gemm_choose(r->kernel_set, sw_sharding_numbers(&sharding), false, &r->gemm);
    sw_status status = sw_runner_dimensions(model, &r->model, err);
    sw_model_drop(&r->model, 0); /* a model is used as it is, whatever it was trained with */
    if (!status && model->adapter)
        status = sw_adapted_open(model->folder, &r->model, model->adapter, &r->adapted, err);
    return status ? status : sw_compiled_create(&sharding, &r->compiled, err);
}

sw_status sw_runner_add(sw_runner *r, sw_model_end end, sw_graph *graph, sw_error *err) {
    const sw_custom_model *custom = r->source.custom;
    sw_graph_spread(graph, &r->compiled->sharding.mesh);
    sw_status status = custom ? sw_custom_model_trace(custom, end, graph, err)
                              : sw_model_trace(&r->model, end, graph, err);
    if (!status && r->compiled->n_programs == 0)
        status = sw_model_files_check(r->source.folder, files_config(r), graph, err);
    if (status) {
        sw_graph_free(graph);
        return status;
    }
    const sw_program *program;
    status = sw_compile(r->compiled, graph, SW_COMPILE_FORWARD, &program, err);
    if (!status && program->has_shares)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "the model shares values between ranks, which here compute texts of their "
                         "own, each by itself; take one rank (shard.ranks: 1)");
    return status;
}

sw_need sw_runner_need(const sw_runner *r, int64_t planned[SW_N_MEMORY_CLASSES]) {
    const sw_layout *layout = &r->compiled->layout;
    int n_ranks = r->compiled->sharding.mesh.n_ranks, n_threads = r->compiled->sharding.n_threads;
    int64_t n_parameters = 0;
    sw_compiled_bytes(r->compiled, planned);
    planned[SW_MEMORY_TRANSPORT] += sw_control_bytes(n_ranks) / n_ranks;
    for (int p = 0; p < layout->n_parameters; p++)
        n_parameters += layout->parameters[p].parameter->n_elements;
    return sw_need_of(n_ranks, n_threads, planned, n_parameters, r->gemm.kind == SW_GEMM_BLAS);
}

void sw_runner_free(sw_runner *r) {
    sw_compiled_free(r->compiled);
    sw_adapted_close(&r->adapted);
}

sw_status sw_runner_open(sw_runner *r, sw_comm *comm, sw_error *err) {
    sw_status status = sw_rank_device_open(comm, &r->compiled->sharding, &r->cores, r->kernel_set,
                                           r->gemm.kind, &r->device, err);
    if (!status)
        status = sw_executor_create(comm, r->device, &r->compiled->states, r->compiled->readable,
                                    r->compiled->n_programs, &r->executor, err);
    sw_masters masters = sw_masters_own(r->executor, r->compiled, comm->rank);
    if (!status && r->source.adapter)
        status = sw_adapted_load(&r->adapted, r->source.folder, &r->model, &r->compiled->layout,
                                 masters.owner, sw_masters_put, &masters, err);
    else if (!status)
        status = sw_model_files_load(r->source.folder, files_config(r), &r->compiled->layout,
                                     masters.owner, sw_masters_put, &masters, NULL, err);
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

void *sw_runner_port(sw_runner *r, int index, const char *port) {
    return sw_executor_port(r->executor, index, port);
}

/* sw_piece_fn: the first element that is no number ends the search, with an error that names it. */
static sw_status look_at(void *to, int group, const sw_piece *piece, int64_t first, int64_t n,
                         float *values, sw_error *err) {
    bool *is_found = to;
    (void)group;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) {
            *is_found = true;
            return sw_fail(err, SW_BAD_FILE, "element %" PRId64 " of %s is %s",
                           piece->first + first + i, piece->parameter->name,
                           isnan(values[i]) ? "nan" : "infinite");
        }
    return SW_OK;
}

void sw_runner_blame(const sw_runner *r, sw_error *err) {
    const sw_layout *layout = &r->compiled->layout;
    sw_error found;
    bool is_found = false;
    for (int owner = 0; owner < layout->n_shards && !is_found; owner++)
        if (r->source.adapter)
            sw_adapted_load(&r->adapted, r->source.folder, &r->model, layout, owner, look_at,
                            &is_found, &found);
        else
            sw_model_files_load(r->source.folder, files_config(r), layout, owner, look_at,
                                &is_found, NULL, &found);
    if (is_found)
        sw_fail(err, err->status, "%.600s: %.300s: the model's files are damaged", err->message,
                found.message);
    else
        sw_fail(err, err->status, "%.800s, though every weight in %.100s is a number", err->message,
                r->source.folder);
}
