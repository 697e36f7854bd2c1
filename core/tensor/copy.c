/* copy.c: values from one place to another, between any two dtypes, layouts and devices.
 *
 * On one device a copy is one kernel. Between devices only contiguous bytes of one dtype travel; so each side may have
 * to pack first or unpack last. The cast is done where it makes the journey shorter: before it if the destination's
 * elements are smaller, else after it.
 *
 *   host to device    on the device's current stream. Pageable memory: the call returns when the source may be changed,
 *                     and other streams wait for what is still queued (staged_copy.c), unless non_blocking.
 *                     Pinned memory: likewise, unless non_blocking.
 *   device to host    as above: returns when the values are there, unless non_blocking and straight into pinned memory.
 *   device to device  on the source device's current stream, between two waits: it begins after what the destination's
 *                     current stream had queued, and that stream goes on after it.
 *
 * Invariant: whatever the route, dst ends up as cast(src) as if it were one step on the current streams. */
#include "tensor.h"

/* ---- on one device ---- */

tide_status tide__copy_kernel(const tide_tensor *dst, const tide_tensor *src) {
  if (dst->numel == 0) return TIDE_OK;
  tide__queue q;
  TIDE_TRY(tide__queue_begin(&q, dst->storage->device));
  if (tide__sync_watched()) tide__observe_copy(dst, src);
  tide__storage_use(dst->storage, q.stream);
  tide__storage_use(src->storage, q.stream);
  return tide__copy_queued(&q, dst, src);
}

tide_status tide__copy_queued(tide__queue *q, const tide_tensor *dst, const tide_tensor *src) {
  tide_copy_args a;
  a.head.nptr = 2, a.head.device = q->stream->device;
  a.head.site = q->stream->device < 0 ? 0 : tide__site_now();
  a.head.ptr[0] = tide__tensor_ptr(dst), a.head.ptr[1] = tide__tensor_ptr(src);
  a.dtype[0] = dst->dtype, a.dtype[1] = src->dtype;
  a.numel = dst->numel;
  if (dst->contiguous && src->contiguous && tide__same_size(dst, src)) {
    a.flat = 1, a.ndim = 1, a.size[0] = dst->numel, a.stride[0][0] = a.stride[1][0] = 1;
    return TIDE_LAUNCH(q, copy, &a, 0);
  }
  memcpy(a.size, dst->size, (size_t)dst->ndim * sizeof *a.size);
  memcpy(a.stride[0], dst->stride, (size_t)dst->ndim * sizeof *a.size);
  tide__stride_broadcast(a.stride[1], src, dst->size, dst->ndim);
  a.ndim = tide__collapse(a.size, a.stride, 2, dst->ndim, false);
  a.flat = a.ndim == 1 && a.stride[0][0] == 1 && a.stride[1][0] == 1;
  return TIDE_LAUNCH(q, copy, &a, 0);
}

static tide_status copy_here(tide_tensor *dst, const tide_tensor *src) {
  if (!tide__tensor_overlaps(dst, src)) return tide__copy_kernel(dst, src);
  if (tide__same_elements(dst, src)) return dst->dtype == src->dtype ? TIDE_OK : tide__copy_kernel(dst, src);
  TIDE_OWNED tide_tensor *apart = NULL;
  TIDE_TRY(tide_clone(&apart, src));
  return tide__copy_kernel(dst, apart);
}

tide_status tide__as_contiguous(tide_tensor **out, const tide_tensor *x, tide_dtype dtype) {
  if (x->contiguous && x->dtype == dtype) {
    *out = tide__tensor_ref(x);
    return TIDE_OK;
  }
  tide_tensor *copy;
  TIDE_TRY(tide__tensor_new(&copy, x->size, x->ndim, dtype, x->storage->device));
  return tide__hand_out(out, copy, tide__copy_kernel(copy, x));
}

static tide_status copy_like(tide_tensor **out, const tide_tensor *x, tide_dtype dtype) {
  tide_tensor *copy;
  TIDE_TRY(tide__tensor_new_like(&copy, x, dtype, x->storage->device));
  return tide__hand_out(out, copy, tide__copy_kernel(copy, x));
}

tide_status tide__as_dtype(tide_tensor **out, const tide_tensor *x, tide_dtype dtype) {
  if (x->dtype != dtype) return copy_like(out, x, dtype);
  return *out = tide__tensor_ref(x), TIDE_OK;
}

/* ---- between devices ---- */

static tide_status transfer_begin(tide__queue *q, const tide_tensor *dst, const tide_tensor *src, uint32_t site,
                                  tide__launch what, const tide__transfer *subject) {
  if (tide__sync_watched()) tide__observe_copy(dst, src);
  return tide__launch_begin(&q->number, q->stream, site, what, 0, subject);
}

/* To memory of the host that is not pinned: when the backend returns, they are there. */
static tide_status fetch(tide__queue *q, void *target, const void *source, size_t bytes) {
  tide_status status = q->backend->copy_to_host(q->stream->impl, target, source, bytes, false);
  if (status == TIDE_OK) tide__launch_over(q->stream, q->number);
  if (tide__sync_watched()) tide__observe_queued(status);
  if (status == TIDE_OK && tide__sync_watched()) TIDE_OBSERVE(host_stream, q->stream);
  return status;
}

/* The bytes of two contiguous tensors of one dtype and as many elements. Returns when the host's memory may be used,
 * unless it is pinned and `non_blocking`. */
static tide_status transfer(const tide_tensor *dst, const tide_tensor *src, bool non_blocking) {
  int to = dst->storage->device, from = src->storage->device;
  size_t bytes = (size_t)(src->numel * tide__itemsize(src->dtype));
  tide__queue q;
  TIDE_TRY(tide__queue_begin(&q, from >= 0 ? from : to));
  void *target = tide__tensor_ptr(dst), *source = tide__tensor_ptr(src), *impl = q.stream->impl;
  const tide__transfer subject = {target, source, bytes, to, from};
  tide__storage_use(src->storage, q.stream);
  uint32_t site = tide__site_now();
  if (to >= 0 && from >= 0) {
    tide_stream *other;
    TIDE_TRY(tide__stream_current(&other, to));
    tide__storage_use(dst->storage, other);
    if (q.stream->capture && !other->capture) TIDE_TRY(tide_stream_wait_stream(other, q.stream)); /* it joins */
    TIDE_TRY(tide_stream_wait_stream(q.stream, other));
    TIDE_TRY(transfer_begin(&q, dst, src, site, TIDE__LAUNCH_COPY_PEER, &subject));
    tide_status status = q.backend->copy_peer(impl, target, to, source, from, bytes);
    TIDE_TRY(tide__launch_done(q.stream, q.number, status));
    return tide_stream_wait_stream(other, q.stream);
  }
  tide__storage_use(dst->storage, q.stream);
  bool pinned = to >= 0 ? src->storage->pinned : dst->storage->pinned;
  TIDE_TRY(transfer_begin(&q, dst, src, site, to >= 0 ? TIDE__LAUNCH_COPY_IN : TIDE__LAUNCH_COPY_OUT,
                          pinned ? &subject : NULL));
  if (!pinned && to < 0) return fetch(&q, target, source, bytes);
  tide_status status = to >= 0 ? q.backend->copy_to_device(impl, target, source, bytes, pinned)
                               : q.backend->copy_to_host(impl, target, source, bytes, true);
  TIDE_TRY(tide__launch_done(q.stream, q.number, status));
  if (pinned && non_blocking && to < 0 && tide__sync_watched())
    tide__early_read_note(dst->storage, q.stream, q.number, site);
  if (!pinned || non_blocking) return TIDE_OK;
  TIDE_TRY(q.backend->stream_sync(impl));
  tide__progress_reached(q.stream, q.number);
  if (tide__sync_watched()) TIDE_OBSERVE(host_stream, q.stream);
  tide__after_wait();
  return TIDE_OK;
}

/* The last step at the destination: where the bytes land is dst itself, or a staging tensor that is unpacked then. */
static tide_status land(tide_tensor *dst, const tide_tensor *packed, bool non_blocking) {
  if (dst->contiguous && dst->dtype == packed->dtype && tide__same_size(dst, packed))
    return transfer(dst, packed, non_blocking);
  TIDE_OWNED tide_tensor *staging = NULL;
  TIDE_TRY(tide__tensor_new(&staging, packed->size, packed->ndim, (tide_dtype)packed->dtype, dst->storage->device));
  TIDE_TRY(transfer(staging, packed, non_blocking));
  return tide__copy_kernel(dst, staging);
}

/* The dtype that travels: the cast is done where it makes the journey shorter. */
static tide_dtype wire_dtype(const tide_tensor *dst, const tide_tensor *src) {
  return tide__itemsize(dst->dtype) < tide__itemsize(src->dtype) ? (tide_dtype)dst->dtype : (tide_dtype)src->dtype;
}

bool tide__copy_travels(const tide_tensor *dst, const tide_tensor *src) {
  if (dst->dtype != src->dtype || !tide__same_size(dst, src) || !tide__tensor_dense(src)) return false;
  for (int d = 0; d < dst->ndim; d++)
    if (dst->size[d] > 1 && dst->stride[d] != src->stride[d]) return false;
  return true;
}

static tide_status route(tide_tensor *dst, const tide_tensor *src, bool non_blocking) {
  if (tide__copy_travels(dst, src)) return transfer(dst, src, non_blocking);
  TIDE_OWNED tide_tensor *packed = NULL;
  TIDE_TRY(tide__as_contiguous(&packed, src, wire_dtype(dst, src)));
  return land(dst, packed, non_blocking);
}

/* A blocking copy to a device counts as done for every stream, though its last step may still be queued. */
static tide_status copy_across(tide_tensor *dst, const tide_tensor *src, bool non_blocking) {
  TIDE_TRY(route(dst, src, non_blocking));
  int device = dst->storage->device;
  if (non_blocking || device < 0 || src->storage->device >= 0) return TIDE_OK;
  if (src->storage->pinned && tide__copy_travels(dst, src)) return TIDE_OK; /* it has been waited for */
  tide_stream *stream;
  TIDE_TRY(tide__stream_current(&stream, device));
  tide__staged_copy_note(dst->storage, stream);
  return TIDE_OK;
}

/* A copy between the host and a device makes the host wait, unless it may be asynchronous and what travels is
 * page-locked memory itself. */
static bool copy_waits(const tide_tensor *dst, const tide_tensor *src, bool non_blocking) {
  bool to_device = dst->storage->device >= 0;
  if (to_device && src->storage->device >= 0) return false;
  const tide_tensor *host = to_device ? src : dst;
  if (!non_blocking || !host->storage->pinned) return true;
  return !tide__copy_travels(dst, src) &&
         (!host->contiguous || host->dtype != wire_dtype(dst, src) || !tide__same_size(dst, src));
}

tide_status tide__copy_named(tide_tensor *dst, const tide_tensor *src, bool non_blocking, const char *what) {
  TIDE_TRY(tide__check(dst, what, "the destination"));
  TIDE_TRY(tide__check(src, what, "the source"));
  TIDE_TRY(tide__replay_check(src, what));
  if (!tide__broadcasts_to(src, dst->size, dst->ndim))
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of the source, got %s%s, expected one that broadcasts to %s%s", what,
                      tide__shape_text(src->size, src->ndim), tide__made_text(src),
                      tide__shape_text(dst->size, dst->ndim), tide__made_text(dst));
  TIDE_TRY(tide__writable_check(dst, what, "the destination"));
  if (dst->numel == 0) return TIDE_OK;
  if (dst->storage->device == src->storage->device) return copy_here(dst, src);
  bool asked = tide__sync_watched() || tide__quota_bound();
  if (asked && copy_waits(dst, src, non_blocking)) TIDE_TRY(tide__sync_begin(what));
  return copy_across(dst, src, non_blocking);
}

tide_status tide_copy(tide_tensor *dst, const tide_tensor *src, bool non_blocking) {
  return tide__copy_named(dst, src, non_blocking, "copy");
}

tide_status tide__deliver(tide_tensor **out, tide_tensor *result, tide_tensor *into, tide_status status) {
  if (status == TIDE_OK && into && result != into) status = tide_copy(into, result, true);
  if (result != into && (into || status != TIDE_OK)) tide_tensor_release(result);
  if (status == TIDE_OK && out) *out = into ? into : result;
  return status;
}

/* ---- new tensors from old ones ---- */

tide_status tide_clone(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "clone"));
  TIDE_TRY(tide__replay_check(x, "clone"));
  return copy_like(out, x, (tide_dtype)x->dtype);
}

tide_status tide_contiguous(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "contiguous"));
  return tide__as_contiguous(out, x, (tide_dtype)x->dtype);
}

/* ---- between tensors and the host's numbers ---- */

tide_status tide_item(tide_scalar *out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "item"));
  if (x->numel != 1)
    return tide__fail(TIDE_SHAPE, "item: x has not one element, got %s, expected a single element",
                      tide__shape_text(x->size, x->ndim));
  if (x->storage->device >= 0) TIDE_TRY(tide__sync_begin("item"));
  TIDE_TRY(tide__replay_check(x, "item"));
  return tide__item_now(out, x);
}

tide_status tide__item_now(tide_scalar *out, const tide_tensor *x) {
  if (x->storage->device < 0) {
    if (x->storage->early_read) TIDE_TRY(tide__early_read_check(x->storage, "item"));
    TIDE_TRY(tide__observe_read(x));
    *out = tide__scalar_unpack(tide__tensor_ptr(x), (tide_dtype)x->dtype);
    return TIDE_OK;
  }
  uint64_t bits[2];
  tide__queue q;
  TIDE_TRY(tide__queue_begin(&q, x->storage->device));
  tide__storage_use(x->storage, q.stream);
  uint32_t launched = tide__progress_now(q.stream);
  if (tide__sync_watched()) {
    tide__observe_operands();
    tide__observe_operand(x, false);
    TIDE_TRY(tide__observe_launch(q.stream, tide__site_now(), TIDE__LAUNCH_ITEM, 0, NULL, NULL));
  }
  tide_status status =
      q.backend->read_small(q.stream->impl, bits, tide__tensor_ptr(x), (size_t)tide__itemsize(x->dtype));
  if (tide__sync_watched()) tide__observe_queued(status);
  TIDE_TRY(status);
  tide__progress_reached(q.stream, launched);
  if (tide__sync_watched()) TIDE_OBSERVE(host_stream, q.stream);
  *out = tide__scalar_unpack(bits, (tide_dtype)x->dtype);
  return TIDE_OK;
}

/* Between x and contiguous values of its dtype in the host's memory. */
static tide_status copy_host(tide_tensor *x, void *host, const char *what, bool reads) {
  TIDE_TRY(tide__check(x, what, "x"));
  if (x->numel == 0) return TIDE_OK;
  if (!host)
    return tide__fail(TIDE_ARGUMENT, "%s: no memory to %s, got a null pointer, expected %s", what,
                      reads ? "read to" : "write from", reads ? "a buffer" : "values");
  tide_storage memory;
  tide_tensor wrapped;
  size_t bytes = (size_t)(x->numel * tide__itemsize(x->dtype));
  tide__tensor_wrap(&wrapped, &memory, host, bytes, TIDE_CPU, (tide_dtype)x->dtype, x->size, x->ndim);
  return reads ? tide__copy_named(&wrapped, x, false, what) : tide__copy_named(x, &wrapped, false, what);
}

tide_status tide_read(void *host, const tide_tensor *x) { return copy_host((tide_tensor *)x, host, "read", true); }
tide_status tide_write(tide_tensor *x, const void *host) { return copy_host(x, (void *)host, "write", false); }

tide_status tide_fill(tide_tensor *x, tide_scalar value) {
  TIDE_TRY(tide__check(x, "fill", "x"));
  TIDE_TRY(tide__writable_check(x, "fill", "x"));
  TIDE_TRY(tide__scalar_check(value, (tide_dtype)x->dtype, "fill"));
  if (x->numel == 0) return TIDE_OK;
  tide__queue q;
  tide_fill_args a;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 1, (const tide_tensor *[]){x}));
  a.dtype = x->dtype, a.numel = x->numel;
  tide__scalar_pack(a.bits, value, (tide_dtype)x->dtype);
  if (x->contiguous) {
    a.flat = 1, a.ndim = 1, a.size[0] = x->numel, a.stride[0] = 1;
    return TIDE_LAUNCH(&q, fill, &a, 0);
  }
  memcpy(a.size, x->size, (size_t)x->ndim * sizeof *a.size);
  memcpy(a.stride, x->stride, (size_t)x->ndim * sizeof *a.size);
  a.ndim = tide__collapse(a.size, &a.stride, 1, x->ndim, false);
  a.flat = a.ndim == 1 && a.stride[0] == 1;
  return TIDE_LAUNCH(&q, fill, &a, 0);
}
