/* rank_device.h: the device of one rank among others on this host. */
#ifndef SW_EXECUTE_RANK_DEVICE_H
#define SW_EXECUTE_RANK_DEVICE_H

#include "comm/comm.h"
#include "device/cpu/cores.h"
#include "device/cpu/open.h"
#include "shard/program.h"

/* Open the CPU with the threads that `sharding` gives each rank. Where all threads of all ranks
 * have physical cores of their own, they are pinned to them and spin for a while when they wait;
 * else neither. Ownership: free with device->close. */
sw_status sw_rank_device_open(const sw_comm *comm, const sw_sharding *sharding,
                              const sw_cores *cores, sw_kernel_set set, sw_gemm_kind gemm,
                              sw_device **device, sw_error *err);

#endif
