/* tensor.h: the face of tensor: handles, operands, and the small common steps of operations, inline where the hot path
 * goes. Private to core. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "base/op.h"
#include "operand.h"

/* ---- checks ---- */

/* Can it be read? The epoch is another one after shutdown, so a live storage says that the runtime is up as well. */
static inline bool tide__tensor_live(const tide_tensor *x) {
  return x && atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage && tide__storage_live(x->storage);
}
static inline tide_status tide__check(const tide_tensor *x, const char *what, const char *name) {
  return TIDE_LIKELY(tide__tensor_live(x)) ? TIDE_OK : tide__tensor_check(x, what, name);
}
/* Is there a place for the result, and can x be read? */
static inline tide_status tide__unary_check(const void *out, const tide_tensor *x, const char *what) {
  TIDE_GIVEN(what, out);
  return tide__check(x, what, "x");
}
/* ARGUMENT when a function got neither a place for its result nor a destination. */
tide_status tide__out_check(tide_tensor **out, const tide_tensor *into, const char *what);
/* The defaults, or what a host has given. */
tide_status tide__options_read(tide_options *o, const tide_options *options, const char *what);
/* VALUE if several elements of x share one address (an expanded dim), for tensors that are written. */
tide_status tide__writable_check(const tide_tensor *x, const char *what, const char *name);
bool tide__size_equal(const tide_tensor *x, const int64_t *size, int ndim);
/* SHAPE if x does not have this size. */
tide_status tide__size_expect(const tide_tensor *x, const int64_t *size, int ndim, const char *what, const char *name);
/* SHAPE unless a destination has this size, or is empty and shares no memory with an operand, so that it can be given
 * it. In shape.c, as the next one. */
tide_status tide__size_takes(const tide_tensor *into, const int64_t *size, int ndim, bool shared, const char *what);
/* Likewise, and gives it: after all other checks, since it changes the destination. */
tide_status tide__size_give(tide_tensor *into, const int64_t *size, int ndim, bool shared, const char *what);
/* DTYPE if results of dtype `result` may not be written to x. */
tide_status tide__cast_expect(const tide_tensor *x, tide_dtype result, const char *what);
/* All checks of a destination but for its size: live, writable, on x's device, of a dtype that takes the result's. */
tide_status tide__into_check(const tide_tensor *into, const tide_tensor *x, const char *name, tide_dtype result,
                             const char *what);
/* DTYPE, where a dtype is refused. */
tide_status tide__fail_dtype(const char *what, int got, const char *expected);
/* " made at a.lua:3", where the line is known, for messages; as tide__shape_text's. */
const char *tide__made_text(const tide_tensor *x);
/* Notes the running line as the one that made x, where none is known. */
void tide__made_here(const tide_tensor *x);
/* DEVICE unless both tensors are on one device. */
tide_status tide__same_device(const tide_tensor *a, const char *a_name, const tide_tensor *b, const char *b_name,
                              const char *what);
/* DEVICE unless operations on a's device may read b: it lies there, or on a peer. */
static inline tide_status tide__operand_device(const tide_tensor *a, const char *a_name, const tide_tensor *b,
                                               const char *b_name, const char *what) {
  return tide__peer_reads(a->storage->device, b->storage->device) ? TIDE_OK
                                                                  : tide__same_device(a, a_name, b, b_name, what);
}
/* Sizes, strides and positions are multiplied and added by these two alone. INT64_MAX stands for whatever int64 cannot
 * hold: as a size it is refused by tide__size_check, as a stride it belongs to a dim along which nothing lies. */
static inline int64_t tide__size_mul(int64_t a, int64_t b) {
  int64_t c;
  return TIDE_UNLIKELY(__builtin_mul_overflow(a, b, &c)) ? INT64_MAX : c;
}
static inline int64_t tide__size_add(int64_t a, int64_t b) {
  int64_t c;
  return TIDE_UNLIKELY(__builtin_add_overflow(a, b, &c)) ? INT64_MAX : c;
}
/* The product of all sizes: 0 if one of them is, however large the others are. */
static inline int64_t tide__size_product(const int64_t *size, int ndim) {
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n = tide__size_mul(n, size[d]);
  return n;
}
/* Checks the sizes and multiplies them: VALUE for negative ones, SHAPE for too many, MEMORY for a number of bytes that
 * no machine has. */
tide_status tide__size_check(int64_t *numel, const int64_t *size, int ndim, tide_dtype dtype, const char *what);
/* A dim as the host language counts it, for messages. */
static inline int64_t tide__shown(int64_t index) { return index < 0 ? index : index + tide_get_index_base(); }

/* ---- layout ---- */

static inline bool tide__same_size(const tide_tensor *a, const tide_tensor *b) {
  bool same = a->ndim == b->ndim;
  for (int d = 0; same && d < a->ndim; d++) same = a->size[d] == b->size[d];
  return same;
}
void tide__stride_contiguous(int64_t *stride, const int64_t *size, int ndim);
/* Every element of the range has exactly one position: a permutation of a contiguous tensor. */
bool tide__tensor_dense(const tide_tensor *x);
/* The bytes [first, last) that x's elements lie in, as offsets into its storage. */
void tide__tensor_range(int64_t *first, int64_t *last, const tide_tensor *x);
/* May the two share memory? Ranges are compared, so interleaved views count as sharing. */
bool tide__tensor_overlaps(const tide_tensor *a, const tide_tensor *b);
/* Does each element of the one lie exactly where that of the other does? */
bool tide__same_elements(const tide_tensor *a, const tide_tensor *b);
/* Strides of x as if it had `ndim` dims of `size`, which x broadcasts to: 0 where it is repeated. */
void tide__stride_broadcast(int64_t *stride, const tide_tensor *x, const int64_t *size, int ndim);
/* Joins x's size into the broadcast size; false if they do not fit. */
bool tide__size_broadcast(int64_t *size, int *ndim, const tide_tensor *x);
/* Does x broadcast to exactly this size? */
bool tide__broadcasts_to(const tide_tensor *x, const int64_t *size, int ndim);

/* Another dim, between others or behind them; and two that change places. */
static inline void tide__dim_insert(tide_tensor *v, int dim, int64_t size, int64_t stride) {
  for (int d = v->ndim; d > dim; d--) v->size[d] = v->size[d - 1], v->stride[d] = v->stride[d - 1];
  v->size[dim] = size, v->stride[dim] = stride;
  v->ndim++;
}
static inline void tide__dims_swap(tide_tensor *v, int a, int b) {
  int64_t size = v->size[a], stride = v->stride[a];
  v->size[a] = v->size[b], v->stride[a] = v->stride[b];
  v->size[b] = size, v->stride[b] = stride;
}

/* ---- making ---- */

/* A variable that releases its reference wherever its block is left; begin it with NULL. */
#define TIDE_OWNED __attribute__((cleanup(tide__owned_end)))
void tide__owned_end(tide_tensor **x);
/* Hands the reference of such a variable out, as a function's last act. */
static inline tide_status tide__owned_give(tide_tensor **out, tide_tensor **x) {
  *out = *x, *x = NULL;
  return TIDE_OK;
}
/* Ends a function whose result is complete if the status says so; else it is released. */
static inline tide_status tide__hand_out(tide_tensor **out, tide_tensor *made, tide_status status) {
  if (TIDE_LIKELY(status == TIDE_OK))
    *out = made;
  else
    tide_tensor_release(made);
  return status;
}
/* A copy on the stack, for views that never leave a function: it holds no reference. */
static inline tide_tensor tide__tensor_borrow(const tide_tensor *x) {
  tide_tensor v = {.storage = x->storage, .offset = x->offset, .numel = x->numel, .ndim = x->ndim, .dtype = x->dtype};
  v.replay = x->replay;
  memcpy(v.size, x->size, sizeof v.size);
  memcpy(v.stride, x->stride, sizeof v.stride);
  v.contiguous = x->contiguous;
  return v;
}

static inline void tide__storage_ref(tide_storage *s) { tide__ref_take(&s->refs); }
static inline tide_tensor *tide__tensor_ref(const tide_tensor *x) {
  tide_tensor *same = (tide_tensor *)x;
  tide__ref_take(&same->refs);
  return same;
}
/* As tide__tensor_new, over that many elements of new storage, or numel of -1; then with strides that are dense. */
tide_status tide__tensor_new_over(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                                  int64_t elements, tide_dtype dtype, int device, bool pinned);
tide_status tide__tensor_new_strided(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                                     tide_dtype dtype, int device);
/* A new tensor with x's size; x's strides if it is dense, else contiguous. */
tide_status tide__tensor_new_like(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, int device);
/* A tensor on the stack over memory of somebody else: valid while that memory is; never released. */
void tide__tensor_wrap(tide_tensor *x, tide_storage *s, void *ptr, size_t bytes, int device, tide_dtype dtype,
                       const int64_t *size, int ndim);
/* Ends a function with `into`: result, if it is not `into`, is copied there and released; or becomes *out. A status
 * that is an error comes back, and result, if it is not `into`, is released. */
tide_status tide__deliver(tide_tensor **out, tide_tensor *result, tide_tensor *into, tide_status status);

/* ---- queueing ---- */

typedef struct tide__queue {
  const tide_backend *backend;
  tide_stream *stream;
  uint32_t number; /* of the launch */
} tide__queue;
static inline tide_status tide__queue_begin(tide__queue *q, int device) {
  TIDE_TRY(tide__backend(&q->backend, device));
  return tide__stream_current(&q->stream, device);
}
/* Fills the head and notes the use of the operand; k counts from 0. */
static inline void tide__head_begin_at(tide_head *head, int device, int nptr, uint32_t site) {
  head->nptr = nptr;
  head->device = device;
  head->site = site;
  if (tide__sync_watched()) tide__observe_operands();
}
static inline void tide__head_begin(tide_head *head, int device, int nptr) {
  tide__head_begin_at(head, device, nptr, device < 0 ? 0 : tide__site_now()); /* the CPU reports at once, without it */
}
/* The first operand is the one that is written. */
static inline void tide__head_set(tide_head *head, int k, const tide_tensor *x, const tide__queue *q) {
  head->ptr[k] = tide__tensor_ptr(x);
  tide__storage_use(x->storage, q->stream);
  if (tide__sync_watched()) tide__observe_argument(x, k);
}
/* The queue of the device, and a head with up to n operands, NULL where there is none. The first one is written. */
tide_status tide__operands(tide_head *head, tide__queue *q, int device, int n, const tide_tensor *const *x);
/* Launches a kernel with the arguments and notes it; `detail` as in tide__launch_note. A status. */
#define TIDE_LAUNCH(q, kernel, args, detail)                                                                           \
  (tide__launch_begin(&(q)->number, (q)->stream, (args)->head.site, TIDE__LAUNCH_##kernel, (detail), (args)) !=        \
           TIDE_OK                                                                                                     \
       ? tide__early                                                                                                   \
       : tide__launch_done((q)->stream, (q)->number, (q)->backend->kernel((q)->stream, (args))))
/* tide_copy as a part of the operation `what`, which errors and waits name. */
tide_status tide__copy_named(tide_tensor *dst, const tide_tensor *src, bool non_blocking, const char *what);
/* dst = cast(src) on one device: src broadcasts, may have negative strides, and must not overlap dst. */
tide_status tide__copy_kernel(const tide_tensor *dst, const tide_tensor *src);
/* Likewise, on whatever stream q holds: the uses of the storages are noted, and one of them may be a peer's. */
tide_status tide__copy_queued(tide__queue *q, const tide_tensor *dst, const tide_tensor *src);
/* Two pieces of memory without holes, whose elements stand in the same order: their bytes travel as they are. */
bool tide__copy_travels(const tide_tensor *dst, const tide_tensor *src);
/* VALUE, before anything is written, if an element of x is not what `kind` of plan.h asks for; a device reports it at
 * its next wait. */
tide_status tide__verify(const tide_tensor *x, int kind, const char *what);
/* The one element of x, by a wait that somebody has announced already. */
tide_status tide__item_now(tide_scalar *out, const tide_tensor *x);
/* x as contiguous values of dtype on its own device; a new reference to x itself if it is that already. */
tide_status tide__as_contiguous(tide_tensor **out, const tide_tensor *x, tide_dtype dtype);
/* What comes out of a reduction that takes the dtype, unless another one is asked for. */
tide_dtype tide__reduced_dtype(tide_reduction op, tide_dtype dtype);
/* x as dtype on its own device, in any layout; a new reference to x itself if it is that already. */
tide_status tide__as_dtype(tide_tensor **out, const tide_tensor *x, tide_dtype dtype);

/* ---- promote.c ---- */

typedef struct tide__types {
  tide_op op; /* may differ from the op that was asked for: bitwise_not of bool is logical_not */
  tide_dtype common, compute, result;
} tide__types;
tide_status tide__fail_divisor(tide_op op);
tide_status tide__op_types(tide__types *out, tide_op op, const tide_operand *in, const tide_scalar *params);
/* Running promotion over operands: tensors with dims win over 0-d tensors, these over numbers. */
typedef struct tide__promotion {
  int dim, zero, weak; /* TIDE_DTYPE_NONE: none yet */
} tide__promotion;
#define TIDE_PROMOTION                                                                                                 \
  { TIDE_DTYPE_NONE, TIDE_DTYPE_NONE, TIDE_DTYPE_NONE }
void tide__promote_tensor(tide__promotion *p, const tide_tensor *x);
void tide__promote_scalar(tide__promotion *p, tide_scalar s);
tide_dtype tide__promote_end(const tide__promotion *p);
/* The dtype that a number takes on its own. */
tide_dtype tide__scalar_dtype(tide_scalar s);
/* VALUE if the number does not fit in dtype, for values that a user writes. */
tide_status tide__scalar_check(tide_scalar s, tide_dtype dtype, const char *what);
