/* rank_device.c: see rank_device.h. */
#include "execute/rank_device.h"

sw_status sw_rank_device_open(const sw_comm *comm, const sw_sharding *sharding,
                              const sw_cores *cores, sw_kernel_set set, sw_gemm_kind gemm,
                              sw_device **device, sw_error *err) {
    int cpus[SW_MAX_THREADS], n_lanes = sw_sharding_lanes(sharding);
    bool fits = sw_cores_of_rank(cores, comm->n_here, sharding->n_threads,
                                 comm->rank - comm->first_here, cpus);
    sw_cpu_options options = {.set = set,
                              .gemm = gemm,
                              .n_threads = sharding->n_threads,
                              .may_spin =
                                  comm->n_here * (sharding->n_threads + n_lanes - 1) <= cores->n,
                              .cpus = fits ? cpus : NULL};
    return sw_cpu_open(&options, device, err);
}
