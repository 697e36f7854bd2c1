/* tide/comm.h: collectives: values that go from one device to several and back.
 *
 * Nothing here makes the host wait, unless memory of the host takes part. Each device works on its current stream; when
 * a call returns, what is queued later on the current stream of any device that takes part comes after it, so inputs on
 * devices may be changed and results used at once; inputs in page-locked memory of the host are read later. Arguments
 * are all checked before anything is written. A list of devices may hold TIDE_CURRENT. Where one of the devices does
 * not come to an operation, or does not finish it, the waits of the others end with TIDE_ACCELERATOR and a message that
 * names it: tide_comm_set_timeout. */
#ifndef TIDE_COMM_H
#define TIDE_COMM_H

#include "tide/tide.h"

TIDE_C_BEGIN

enum { TIDE_COMM_BUFFER = 10 << 20 }; /* what torch takes for buffer_size if nothing is said */

/* ---- Between tensors ---- */

/* outs[i] becomes x on devices[i]: x itself with a new reference where it lies there already. x may lie on the CPU. */
TIDE_API tide_status tide_comm_broadcast(tide_tensor **outs, const tide_tensor *x, const int *devices, int n);
/* Writes x to n tensors of accelerators, which have its shape and dtype. */
TIDE_API tide_status tide_comm_broadcast_into(tide_tensor *const *outs, int n, const tide_tensor *x);
/* The list to each device: outs[d * n + i] is list[i] on devices[d]. All lie on devices[0], whose results are the list
 * itself. Tensors of at most buffer_size bytes travel together, in buffers of at most that size, of one dtype. */
TIDE_API tide_status tide_comm_broadcast_coalesced(tide_tensor **outs, tide_tensor *const *list, int n,
                                                   const int *devices, int n_devices, size_t buffer_size);
/* The sum of n tensors of one shape and dtype, one of them on the destination: list[0] itself if n is 1. Summed
 * in the order of the list, but for the last one on the destination, which comes first. */
TIDE_API tide_status tide_comm_reduce_add(tide_tensor **out, tide_tensor *const *list, int n, int destination);
/* outs[i] is the sum of lists[r * n + i] over all ranks r. The tensors of one rank lie on one device. */
TIDE_API tide_status tide_comm_reduce_add_coalesced(tide_tensor **outs, tide_tensor *const *lists, int ranks, int n,
                                                    int destination, size_t buffer_size);
/* Splits x along dim into chunks of these sizes, or, if chunk_sizes is NULL, into at most n equal ones; the
 * last may be smaller; *count says how many there are. outs[i] is chunk i on devices[i]: a view of x where it lies
 * there. The copy runs on streams[i], of devices[i], where streams and that one are given: then of the current streams
 * only the stream of x's device waits for it. x may lie on the CPU. */
TIDE_API tide_status tide_comm_scatter(tide_tensor **outs, int *count, const tide_tensor *x, const int *devices, int n,
                                       const int64_t *chunk_sizes, int dim, tide_stream *const *streams);
/* The same into n tensors of accelerators, whose sizes along dim add up to x's. */
TIDE_API tide_status tide_comm_scatter_into(tide_tensor *const *outs, int n, const tide_tensor *x, int dim,
                                            tide_stream *const *streams);
/* Joins n tensors of accelerators along dim, on the destination, which may be the CPU, or in `into`. The first one's
 * dtype is the result's. Synchronises if the result lies on the CPU. */
TIDE_API tide_status tide_comm_gather(tide_tensor **out, tide_tensor *const *list, int n, int dim, int destination,
                                      tide_tensor *into);

/* ---- Time ---- */

/* Seconds, from its call on, within which a collective operation is expected to be done; those queued already keep
 * theirs. At the start 600. 0: it may take any time. */
TIDE_API tide_status tide_comm_set_timeout(double seconds);
TIDE_API double tide_comm_get_timeout(void); /* as set */

TIDE_C_END
#endif
