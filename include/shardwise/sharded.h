/* sharded.h: parameters split over ranks, for programs with compute of their own.
 *
 * The library keeps parameters, gradients and optimizer state, each rank a slice of everything
 * (ZeRO stage 3); the caller computes. Inside a rank of sw_launch:
 *
 *     sw_sharded_create, then sw_sharded_add_unit and sw_sharded_add_parameter for all there is,
 *     then sw_sharded_commit
 *     each step:
 *         sw_sharded_gather(unit)      its parameters are whole here:
 *                                      sw_sharded_values(parameter) -> const float *
 *         ... the caller's forward and backward ...
 *         sw_sharded_gradient(parameter) -> float *, zeros to write this rank's gradient into
 *         sw_sharded_release(unit)     the memory of the others' slices may go
 *         sw_sharded_reduce(unit)      each rank gets the sum of its slice over all ranks
 *         sw_sharded_step              norm, clipping, optimizer, new values
 *
 * Gathers, gradients and reductions of a unit may come in any order that suits the computation, and
 * several times a step (gradient accumulation). Functions marked *collective* are called by all
 * ranks, in the same order, with the same arguments, whether or not a rank has data: one without
 * leaves the zeros of its gradients. Ranks that disagree end with SW_MISMATCH naming the unit.
 *
 * Values are fp32, or bf16 beside fp32 masters. Sums over ranks are left folds in rank order, the
 * norm is exact, and initial values are drawn per element. So if a step's work is cut into
 * micro-batches that are dealt to ranks in turn (number k to rank k mod N), one reduce for each
 * slot, then any number of ranks gives the same bits.
 *
 * Errors: all functions return SW_BAD_CONFIG when they are called out of turn, with a unit or
 * parameter that is not of this object, or with arguments that cannot be used, and say which;
 * collective ones also SW_ABORTED, SW_MISMATCH, SW_NO_MEMORY. A rank passes on any status that is
 * not SW_OK: return it from the function given to sw_launch, and it ends all ranks with its
 * message.
 *
 * An object belongs to one rank and one thread. A rank may have several.
 */
#ifndef SHARDWISE_SHARDED_H
#define SHARDWISE_SHARDED_H

#include <stddef.h>
#include <stdint.h>

#include <shardwise/graph.h>
#include <shardwise/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_sharded sw_sharded;

typedef enum sw_sharded_optimizer {
    SW_SHARDED_ADAMW, /* Loshchilov and Hutter 2019, as torch.optim.AdamW: betas, epsilon,
                         weight_decay */
    SW_SHARDED_SGD    /* as torch.optim.SGD: momentum, weight_decay */
} sw_sharded_optimizer;

typedef enum sw_sharded_dtype {
    SW_SHARDED_FP32,
    SW_SHARDED_BF16 /* the values that are gathered and read; beside them each owner keeps what
                       makes its masters fp32 */
} sw_sharded_dtype;

typedef struct sw_sharded_options {
    size_t size; /* sizeof(sw_sharded_options) */
    sw_sharded_optimizer optimizer;
    double beta1, beta2, epsilon;
    double momentum;
    double weight_decay; /* of parameters with two or more dimensions */
    double clip_norm;    /* gradients are scaled down to this global norm; 0: they are not */
    uint64_t seed;       /* of initial values that are drawn */
    /* Units whose gradients may be open (asked for and not reduced) at once. Each takes memory for
     * the largest unit. */
    int n_gradient_buffers;
    int unused; /* bytes that programs built with 0.1.0 leave as they were */
    /* What is cut into slices; each holds of the rest its own slice alone. 0: nothing (sums are
     * gathered, and every rank updates everything); 1: the optimizer's states; 2: sums of gradients
     * too, which differs from 1 in nothing here; 3: parameters too. Below 3 every rank has all
     * values: gathering moves nothing, and a step brings the new ones. Results have the same
     * bits. */
    int stage;
    sw_sharded_dtype parameter_dtype;
    int n_threads; /* that sum and update in each rank, at least 1 */
} sw_sharded_options;

#define SW_SHARDED_OPTIONS_INIT                                                                \
    {                                                                                          \
        .size = sizeof(sw_sharded_options), .optimizer = SW_SHARDED_ADAMW, .beta1 = 0.9,       \
        .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0, .weight_decay = 0, .clip_norm = 0,      \
        .seed = 1234, .n_gradient_buffers = 2, .stage = 3, .parameter_dtype = SW_SHARDED_FP32, \
        .n_threads = 1                                                                         \
    }

/* Write elements first .. first + n - 1 of parameter `name` (row after row) into values [n]. Called
 * in sw_sharded_commit, on each rank for the elements that it owns, so it must not depend on the
 * rank. */
typedef sw_status (*sw_initial_fn)(void *self, const char *name, int64_t first, int64_t n,
                                   float *values, sw_error *err);

/* How a parameter starts: what `fill` writes, or if that is NULL the initializer. */
typedef struct sw_initial {
    sw_initializer initializer;
    double std; /* of SW_INIT_NORMAL and SW_INIT_UNIFORM */
    sw_initial_fn fill;
    void *self;
} sw_initial;

/* An object without parameters. Ownership: sw_sharded_free, before the rank returns; `comm`
 * outlives it. */
SW_API sw_status sw_sharded_create(sw_comm *comm, const sw_sharded_options *options,
                                   sw_sharded **sharded, sw_error *err);

/* Not collective, may be called after a failure. Memory that peers see stays until the rank ends.
 * NULL does nothing. */
SW_API void sw_sharded_free(sw_sharded *sharded);

/* ---- before the first step ---- */

/* A unit is the set of parameters that is gathered together: a layer. out: *unit, owned by
 * `sharded`. */
SW_API sw_status sw_sharded_add_unit(sw_sharded *sharded, const char *name, sw_unit **unit,
                                     sw_error *err);

/* A parameter of 1 to 4 dimensions, any sizes of at least 1. `name` is used once in the object.
 * out: *parameter, owned by `sharded`. sw_parameter_freeze(*parameter), before the commit, leaves
 * it without gradient and optimizer state. */
SW_API sw_status sw_sharded_add_parameter(sw_sharded *sharded, sw_unit *unit, const char *name,
                                          int n_dimensions, const int64_t *dimensions,
                                          sw_initial initial, sw_parameter **parameter,
                                          sw_error *err);

/* Collective. All is registered: compare it between ranks, cut it into slices, take all memory,
 * fill in the initial values. */
SW_API sw_status sw_sharded_commit(sw_sharded *sharded, sw_error *err);

/* ---- in a step ---- */

/* Collective. Bring the unit's parameters together, until sw_sharded_release. */
SW_API sw_status sw_sharded_gather(sw_sharded *sharded, const sw_unit *unit, sw_error *err);

/* out: *values [n elements], row after row, of a parameter whose unit is gathered; valid until its
 * release. */
SW_API sw_status sw_sharded_values(const sw_sharded *sharded, const sw_parameter *parameter,
                                   const float **values, sw_error *err);

/* The same of an object whose parameters are SW_SHARDED_BF16: each value is the upper half of a
 * float's bits. Either function refuses the other's objects. */
SW_API sw_status sw_sharded_values_bf16(const sw_sharded *sharded, const sw_parameter *parameter,
                                        const uint16_t **values, sw_error *err);

/* The unit's values are not read any more. In the transport's trap mode, reading them ends the run
 * with a message. */
SW_API sw_status sw_sharded_release(sw_sharded *sharded, const sw_unit *unit, sw_error *err);

/* Collective, at the first call for a unit since its last reduce, which opens the gradients of the
 * whole unit: they become zero. out: *gradient [n elements], where this rank writes or adds its
 * share; valid until the unit is reduced. Parameters that are not asked for contribute zeros. */
SW_API sw_status sw_sharded_gradient(sw_sharded *sharded, const sw_parameter *parameter,
                                     float **gradient, sw_error *err);

/* Collective. Sum the unit's open gradients over all ranks and add them to what was reduced since
 * the last step. It is a sum: for a mean, divide before. */
SW_API sw_status sw_sharded_reduce(sw_sharded *sharded, const sw_unit *unit, sw_error *err);

/* Collective. All units are released, and each with a trainable parameter has been reduced at least
 * once since the last step. Clip to clip_norm, update, and make the new values known. out: *norm
 * (may be NULL), the global norm of the summed gradients before clipping, each element counted
 * once: the same on all ranks and for any number of ranks. If it is not finite, nothing is updated
 * and the step does not count for Adam's corrections; that is no error. */
SW_API sw_status sw_sharded_step(sw_sharded *sharded, double learning_rate, double *norm,
                                 sw_error *err);

/* Collective. Copy the whole parameter, as of the last step, into values [n elements], those of
 * bf16 as floats. Its unit is gathered on all ranks or on none. */
SW_API sw_status sw_sharded_fetch(sw_sharded *sharded, const sw_parameter *parameter, float *values,
                                  sw_error *err);

/* ---- files ---- */

/* Collective, between steps: no unit is gathered, and nothing was reduced since the last step. Save
 * the trainable parameters as fp32 masters, the optimizer's states and the number of steps in
 * `folder`/steps/NNNNNNNN, by the parameters' names: any number of ranks may load them, at any
 * stage, in either dtype. `folder` is made if it is not there; a checkpoint of the same step is
 * replaced, others stay. Every rank writes its own part; the checkpoint is whole or not there.
 * Frozen parameters are the caller's. Errors: SW_NO_SPACE, SW_NO_MEMORY. What cannot be written is
 * told alike on all ranks, nothing of it stays, and the object may be used on. */
SW_API sw_status sw_sharded_save(sw_sharded *sharded, const char *folder, sw_error *err);

/* Collective, between steps. Load the checkpoint of `step` that sw_sharded_save left in `folder`;
 * -1: the newest that is whole. Parameters, shapes and optimizer must be those that were saved.
 * out: *loaded (may be NULL), its step, from which sw_sharded_step goes on. Errors: SW_BAD_FILE:
 * there is none, it is damaged, or of other parameters; then the object is not to be used any
 * more. */
SW_API sw_status sw_sharded_load(sw_sharded *sharded, const char *folder, int64_t step,
                                 int64_t *loaded, sw_error *err);

#ifdef __cplusplus
}
#endif
#endif
