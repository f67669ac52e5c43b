/* doctor.h: what shardwise doctor says of the machine, as an object. */
#ifndef SW_CLI_DOCTOR_H
#define SW_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

/* cpu, threads, cores, features, kernels, products, memory, limits; missing: what ranks cannot do
 * without. NULL where memory is short. */
json_t *sw_doctor_object(const char *cpu, const char *cpu_flags, bool has_windows);

#endif
