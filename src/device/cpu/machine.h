/* machine.h: the machine file: what `shardwise bench gemm` measured about this machine, for the
 * choices that a run makes.
 *
 * One small JSON object in the user's cache. It names the CPU and the version of the program that
 * it was measured with; those of others are not believed.
 */
#ifndef SW_DEVICE_CPU_MACHINE_H
#define SW_DEVICE_CPU_MACHINE_H

#include "base/file.h"
#include "device/cpu/open.h"
#include "device/cpu/roof.h"

enum { SW_CPU_NAME_BYTES = 96 };

typedef struct sw_machine {
    char cpu[SW_CPU_NAME_BYTES]; /* sw_cpu_name of where it was measured */
    char version[32];            /* of the program */
    sw_kernel_set set;
    double roof[SW_N_ROOFS];      /* operations per second of one core; 0: does not run there */
    double fp32[SW_N_GEMM_KINDS]; /* of products of the shapes of training, fp32 operands; 0: not
                                     measured */
    double bf16[SW_N_GEMM_KINDS]; /* the same with bf16 operands */
} sw_machine;

/* What this CPU says of itself: on x86-64 its maker, family, model, stepping and name. */
void sw_cpu_name(char name[SW_CPU_NAME_BYTES]);

/* $XDG_CACHE_HOME/shardwise/machine.json, or ~/.cache/shardwise/machine.json. Errors: SW_BAD_CONFIG
 * where neither variable says where that is. */
sw_status sw_machine_path(char path[SW_PATH_BYTES], sw_error *err);

/* Errors: SW_BAD_FILE with path and key. `name` stands for the file in messages. */
sw_status sw_machine_read(const char *path, sw_machine *machine, sw_error *err);
sw_status sw_machine_parse(const char *name, const char *text, int64_t bytes, sw_machine *machine,
                           sw_error *err);

/* Make or replace the file, and the folders above it that are missing. Errors: SW_NO_SPACE. */
sw_status sw_machine_write(const char *path, const sw_machine *machine, sw_error *err);

/* Was it measured on this CPU, with this kernel set, by this version? */
bool sw_machine_is_this(const sw_machine *machine, sw_kernel_set set);

#endif
