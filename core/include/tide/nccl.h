/* tide/nccl.h: collectives with torch.cuda.nccl's meaning: lists of tensors, one of each device that takes part.
 *
 * They go over NCCL, which is opened at the first call, where it is there and knows the dtype, else over copies between
 * the devices; either way they are queued on streams[i], or, where streams or that one is NULL, on the current stream
 * of tensor i's device, and order these streams only as far as the operation needs. Tensors are contiguous, of one
 * dtype, each on a device of its own. Rank i is the device of entry i, from 0. */
#ifndef TIDE_NCCL_H
#define TIDE_NCCL_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* How values are joined: in the order of torch's and NCCL's own numbers. Of bool values SUM and MAX are or, PROD and
 * MIN are and. AVG of integers is rounded toward zero. Complex numbers have neither MAX nor MIN. */
typedef enum tide_nccl_op {
  TIDE_NCCL_SUM,
  TIDE_NCCL_PROD,
  TIDE_NCCL_MAX,
  TIDE_NCCL_MIN,
  TIDE_NCCL_AVG,
  TIDE_NCCL_OPS
} tide_nccl_op;

/* LIBRARY, with the reason, where NCCL is not there. Simulated devices have a simulated one, of tide's own version. */
TIDE_API tide_status tide_nccl_version(int *major, int *minor, int *patch);
/* Could these tensors go over NCCL? With n = 0: is it there? Never fails. */
TIDE_API bool tide_nccl_is_available(tide_tensor *const *list, int n);
/* Every outputs[i] becomes the inputs joined; outputs may be the inputs. */
TIDE_API tide_status tide_nccl_all_reduce(tide_tensor *const *inputs, tide_tensor *const *outputs, int n,
                                          tide_nccl_op op, tide_stream *const *streams);
/* The same for one output, on the device of rank root; it may be that rank's input. */
TIDE_API tide_status tide_nccl_reduce(tide_tensor *const *inputs, tide_tensor *output, int n, int root, tide_nccl_op op,
                                      tide_stream *const *streams);
/* Every tensor becomes rank root's. */
TIDE_API tide_status tide_nccl_broadcast(tide_tensor *const *list, int n, int root, tide_stream *const *streams);
/* Every outputs[i], which has n times the elements, becomes the inputs one behind the other. */
TIDE_API tide_status tide_nccl_all_gather(tide_tensor *const *inputs, tide_tensor *const *outputs, int n,
                                          tide_stream *const *streams);
/* outputs[i] becomes part i, of n equal ones, of the inputs joined. */
TIDE_API tide_status tide_nccl_reduce_scatter(tide_tensor *const *inputs, tide_tensor *const *outputs, int n,
                                              tide_nccl_op op, tide_stream *const *streams);

/* ---- one rank of several processes, each with a device of its own ---- */

enum { TIDE_NCCL_ID = 128 };
typedef struct tide_nccl_rank tide_nccl_rank;
typedef enum tide_nccl_kind {
  TIDE_NCCL_BROADCAST,
  TIDE_NCCL_REDUCE,
  TIDE_NCCL_ALL_REDUCE,
  TIDE_NCCL_ALL_GATHER,
  TIDE_NCCL_REDUCE_SCATTER,
  TIDE_NCCL_KINDS
} tide_nccl_kind;

/* A name for a communicator, which travels from its first rank to the others. LIBRARY or SUPPORT where it cannot be. */
TIDE_API tide_status tide_nccl_rank_id(unsigned char id[TIDE_NCCL_ID]);
/* Begins to make the communicator of n ranks; `rank` is the number of this one. */
TIDE_API tide_status tide_nccl_rank_new(tide_nccl_rank **out, int device, const unsigned char id[TIDE_NCCL_ID], int n,
                                        int rank);
/* Is it made? Fails after an error, also one of work that is queued. */
TIDE_API tide_status tide_nccl_rank_ready(bool *ready, tide_nccl_rank *rank);
TIDE_API bool tide_nccl_takes(tide_nccl_kind kind, tide_nccl_op op, tide_dtype dtype);
/* Queues this rank's part on the current stream of its device, behind all that other ranks of this process have queued
 * on that device. Both tensors are contiguous and on the device; the larger one has the parts of all. `out` may be
 * `in`, and is NULL where a reduction has another root. */
TIDE_API tide_status tide_nccl_rank_queue(tide_nccl_rank *rank, tide_nccl_kind kind, tide_nccl_op op, int root,
                                          tide_tensor *in, tide_tensor *out);
/* From any thread: what runs there ends, and its results are worth nothing. */
TIDE_API void tide_nccl_rank_abort(tide_nccl_rank *rank);
TIDE_API void tide_nccl_rank_release(tide_nccl_rank *rank); /* NULL is allowed */

TIDE_C_END
#endif
