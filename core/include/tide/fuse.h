/* tide/fuse.h: several elementwise operations, casts, gathers and reductions as one kernel. Conventions as in tide.h.
 * On accelerators the kernel is made in the background; on the CPU and simulated devices it is too, and until then, or
 * where there is no compiler, the operations run over pieces of the tensors that stay in the caches. */
#ifndef TIDE_FUSE_H
#define TIDE_FUSE_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* What one fused kernel takes at most: values, tensors among them that it reads and that it gives, numbers. */
enum { TIDE_FUSE_NODES = 96, TIDE_FUSE_INPUTS = 10, TIDE_FUSE_OUTPUTS = 6, TIDE_FUSE_SCALARS = 32 };

typedef struct tide_fused tide_fused;

/* How a value comes about. */
typedef enum tide_fuse_kind {
  TIDE_FUSE_INPUT,  /* a tensor that is given; inputs are counted in the order of the nodes */
  TIDE_FUSE_OP,     /* an elementwise operation */
  TIDE_FUSE_CAST,   /* a value as another dtype */
  TIDE_FUSE_REDUCE, /* a reduction over the last dims, or over the first ones */
  TIDE_FUSE_GATHER, /* elements of a tensor that is given, which is an input too, at the places that a value says */
} tide_fuse_kind;

/* Which elements an index picks: as these functions do. */
typedef enum tide_fuse_places {
  TIDE_FUSE_SLICES, /* tide_index_get */
  TIDE_FUSE_ALONG,  /* tide_take_along_dim */
  TIDE_FUSE_LINE,   /* tide_take of a contiguous tensor */
} tide_fuse_places;

/* One value. */
typedef struct tide_fuse_node {
  tide_fuse_kind kind;
  int op;           /* OP: a tide_op; REDUCE: a tide_reduction; GATHER: tide_fuse_places */
  tide_dtype dtype; /* INPUT, GATHER: of the tensor; CAST: of the result */
  int ndim;         /* INPUT, GATHER: its dims */
  int in[3];        /* operands: a node before this one, or -1 - k for number k; GATHER: the index */
  int param;        /* OP: the first of the numbers that it takes beside its operands, which follow each other;
                       REDUCE: the number that the reduction takes (var's correction, norm's p), or -1 */
  int dims;         /* REDUCE: number of last dims; GATHER: the indexed dim; INPUT: number of dims of size 1 that are
                       added behind the tensor's own, as an index for SLICES needs them */
  int line;         /* GATHER: the script's line that the error of a bad index names; 0: that which calls */
  const char *file; /* and its script, as a tide_site_fn names it */
  bool leading;     /* REDUCE: the first ones instead */
  bool keepdim;     /* REDUCE: they stay, with size 1 */
} tide_fuse_node;

/* Can an operation with operands of that dtype, after promotion, be part of a kernel? */
TIDE_API bool tide_fuse_takes(tide_op op, tide_dtype common);
/* Can a reduction of that dtype? */
TIDE_API bool tide_fuse_reduces(tide_reduction op, tide_dtype dtype);
/* How many numbers an operation takes beside its operands. */
TIDE_API int tide_fuse_params(tide_op op);
/* Makes a fused function of n nodes; `outputs` lists the results. Numbers are parameters of the kernel: functions that
 * differ in nothing else share it. `name` is for messages and profiles, and is copied. SUPPORT if one kernel cannot
 * do it. */
TIDE_API tide_status tide_fused_new(tide_fused **out, const char *name, const tide_fuse_node *nodes, int n,
                                    const int *outputs, int outputs_n, const tide_scalar *numbers, int numbers_n);
/* Sets the numbers of later calls. Their count and kinds stay, and so does the order of a norm. */
TIDE_API tide_status tide_fused_numbers(tide_fused *fused, const tide_scalar *numbers, int n);
/* Frees the handle; NULL is allowed. */
TIDE_API void tide_fused_free(tide_fused *fused);
/* Runs it. *done is false, and nothing has happened, where its kernel is not there yet, or where these tensors are not
 * what it can be applied to: other dtypes or dims, several devices, results of different sizes, destinations that
 * share memory with an input otherwise than element by element. into: NULL, or for each result the tensor that it is
 * written to, or NULL; out gets new references to all results. Nothing is written to tensors where there are gathers.
 * What an index of a gather has outside is an error of the same kind as in the function that gives it alone: on the CPU
 * *done is false, as that one tells it; elsewhere a later wait fails. */
TIDE_API tide_status tide_fused_call(bool *done, tide_tensor **out, tide_fused *fused, tide_tensor *const *in,
                                     tide_tensor *const *into);
/* Waits until every kernel that has been begun is there, or has failed. STATE where waits are refused. */
TIDE_API tide_status tide_fused_wait(tide_fused *fused);
/* How many elements there are. */
TIDE_API int64_t tide_fuse_numel(const int64_t *size, int ndim);
/* Are all kernels there that have been begun, and is one? */
TIDE_API bool tide_fused_ready(tide_fused *fused);
/* What the compiler said where it failed; NULL: it did not. As long as the handle lives. */
TIDE_API const char *tide_fused_problem(const tide_fused *fused);
/* Bytes that one element of its results makes it move: of inputs of the same size and of the results. */
TIDE_API int64_t tide_fused_bytes(const tide_fused *fused);

/* ---- pending operations ----
 *
 * The functions below give tensors whose values are pending: shape, dtype and device are known, nothing is computed.
 * Any other function of tide that gets such a tensor computes it first, with what it needs, by as few kernels as
 * possible. A write to memory that pending values read computes these first. What cannot be pending runs at once. */

typedef struct tide_fuse tide_fuse;

/* Where pending operations are noted; `name` is for messages. One thread at a time may call with it; tensors may be
 * dropped by any. */
TIDE_API tide_status tide_fuse_new(tide_fuse **out, const char *name);
/* Frees the handle; values that are pending stay so. NULL is allowed. */
TIDE_API void tide_fuse_free(tide_fuse *fuse);
/* As tide_elementwise. */
TIDE_API tide_status tide_fuse_elementwise(tide_tensor **out, tide_fuse *fuse, tide_op op, const tide_operand *in,
                                           const tide_scalar *params, tide_tensor *into);
/* As tide_reduce. */
TIDE_API tide_status tide_fuse_reduce(tide_tensor **out, tide_fuse *fuse, tide_reduction op, const tide_tensor *x,
                                      const tide_reduce_options *options);
/* x as another dtype. *done: false where it cannot be pending, and nothing has happened. */
TIDE_API tide_status tide_fuse_cast(bool *done, tide_tensor **out, tide_fuse *fuse, const tide_tensor *x,
                                    tide_dtype dtype);
/* As the functions that `places`, a tide_fuse_places, names; file and line: for the error of a bad index. */
TIDE_API tide_status tide_fuse_gather(bool *done, tide_tensor **out, tide_fuse *fuse, const tide_tensor *x,
                                      const tide_tensor *index, int dim, int places, const char *file, int line);
/* Computes those of the tensors that are pending in it. */
TIDE_API tide_status tide_fuse_compute(tide_fuse *fuse, tide_tensor *const *list, int n);
TIDE_API bool tide_tensor_is_pending(const tide_tensor *x);

/* One kernel that has run, shared by all calls of its structure. */
typedef struct tide_fuse_kernel tide_fuse_kernel;
typedef struct tide_fuse_kernel_info {
  int operations, reads, writes;
  int64_t bytes, elements; /* bytes that one element moves; elements of a result, when it ran last */
  const char *operation[TIDE_FUSE_NODES];
  tide_fused *fused; /* borrowed; NULL: one operation, which has a kernel of its own, or operations one by one */
} tide_fuse_kernel_info;
/* Forgets what has run. NULL is allowed. */
TIDE_API void tide_fuse_trace_begin(tide_fuse *fuse);
/* What has run since then: how many, and the first n of them, borrowed until the next operation. */
TIDE_API int tide_fuse_trace(tide_fuse_kernel **out, int n, const tide_fuse *fuse);
/* A kernel lives as long as a reference to it. NULL is allowed. */
TIDE_API void tide_fuse_kernel_retain(tide_fuse_kernel *kernel);
TIDE_API void tide_fuse_kernel_release(tide_fuse_kernel *kernel);
TIDE_API void tide_fuse_kernel_get(tide_fuse_kernel_info *out, const tide_fuse_kernel *kernel);

TIDE_C_END
#endif
