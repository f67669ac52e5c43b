/* masters.h: fp32 masters in and out of this rank's buffers: loading, initialising and saving go
 * through here. */
#ifndef SW_EXECUTE_MASTERS_H
#define SW_EXECUTE_MASTERS_H

#include "execute/executor.h"
#include "shard/compile.h"

/* Where pieces of one rank's slice lie among this rank's buffers: its own slice, or at stage 0 any
 * rank's. */
typedef struct sw_masters {
    sw_executor *executor;
    const sw_states *states;
    int owner;
} sw_masters;

/* Those of this rank's own slice. */
sw_masters sw_masters_own(sw_executor *executor, const sw_compiled *compiled, int rank);

/* Values into compute copy and low halves. */
void sw_masters_write(const sw_masters *masters, int group, const sw_piece *piece, int64_t first,
                      int64_t n, float *values);

/* Whose slices a rank holds, owners first .. end - 1: its own, or at stage 0 everyone's. */
void sw_masters_owners(const sw_compiled *compiled, int rank, int *first, int *end);

/* sw_piece_fn (hf/model_files.h): values into compute copy and low halves, and back. Frozen
 * parameters have a compute copy alone, to which values are rounded. Loading ends where a signal
 * asks for it (sw_comm_check_stop). */
sw_status sw_masters_put(void *masters, int group, const sw_piece *piece, int64_t first, int64_t n,
                         float *values, sw_error *err);
sw_status sw_masters_fetch(void *masters, int group, const sw_piece *piece, int64_t first,
                           int64_t n, float *values, sw_error *err);

/* An optimizer's state of elements first .. first + n - 1 of a trainable piece, in and out. */
void sw_masters_put_state(const sw_masters *masters, sw_optimizer_state state, int group,
                          const sw_piece *piece, int64_t first, int64_t n, const float *values);
void sw_masters_fetch_state(const sw_masters *masters, sw_optimizer_state state, int group,
                            const sw_piece *piece, int64_t first, int64_t n, float *values);

/* Initial values of elements first .. first + n - 1 of a parameter, a function of (seed, name,
 * element): cuts do not matter. */
void sw_masters_draw(sw_executor *executor, const sw_parameter *parameter, uint64_t seed,
                     int64_t first, int64_t n, float *values);

/* Fill the owner's pieces, of adapters or of all else, with their initial values: a function of
 * (seed, parameter name, element), for any number of ranks. `values`: room for n_values floats, a
 * multiple of SW_BLOCK. */
sw_status sw_masters_initialise(sw_masters *masters, uint64_t seed, bool of_adapters, float *values,
                                int64_t n_values, sw_error *err);

#endif
