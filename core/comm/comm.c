/* comm.c: broadcast, scatter and gather.
 *
 * All of them are copies between one device and several. From one to several they run on the destinations' streams
 * (fan_out.c), from several to one on the sources', with the same two waits. What is large and goes to several devices
 * is broadcast by the backend's own collectives, if it has some (collective.c).
 *
 * Invariant: every argument is checked before anything is queued or written. */
#include "comm.h"

#include <stdio.h>

/* ---- checks ---- */

static tide_status check_count(int n, const char *of, const char *what) {
  if (n < 1) return tide__fail(TIDE_VALUE, "%s: no %s, got an empty list, expected at least one", what, of);
  if (n > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "%s: too many %s, got %d, expected at most %d", what, of, n, TIDE_MAX_DEVICES);
  return TIDE_OK;
}

static tide_status check_devices(int *out, const int *devices, int n, const char *what) {
  TIDE_TRY(check_count(n, "devices", what));
  if (!devices) return tide__fail(TIDE_ARGUMENT, "%s: no devices, got NULL, expected %d", what, n);
  for (int i = 0; i < n; i++) TIDE_TRY(tide__comm_device(&out[i], devices[i], i, what));
  return TIDE_OK;
}

/* A destination that the caller gave: on an accelerator, of x's dtype, no element twice. */
static tide_status check_out(const tide_tensor *out, int i, const tide_tensor *x, const char *what) {
  char name[32];
  TIDE_TRY(tide__comm_cuda(out, i, "out", what));
  if (out->dtype != x->dtype)
    return tide__fail(TIDE_DTYPE, "%s: out %lld has another dtype, got %s, expected %s", what,
                      (long long)tide__shown(i), tide_dtype_name((tide_dtype)out->dtype),
                      tide_dtype_name((tide_dtype)x->dtype));
  snprintf(name, sizeof name, "out %lld", (long long)tide__shown(i));
  return tide__writable_check(out, what, name);
}

/* No two destinations share elements, as far as their layouts tell at once: of interleaved ones nothing is said. */
static tide_status check_disjoint(tide_tensor *const *outs, int n, const char *what) {
  for (int i = 1; i < n; i++)
    for (int k = 0; k < i; k++) {
      const tide_tensor *a = outs[k], *b = outs[i];
      if (!tide__tensor_overlaps(a, b)) continue;
      if (tide__tensor_ptr(a) != tide__tensor_ptr(b) && !(tide__tensor_dense(a) && tide__tensor_dense(b))) continue;
      return tide__fail(TIDE_VALUE,
                        "%s: out %lld shares memory with out %lld, got both of them, expected tensors apart", what,
                        (long long)tide__shown(i), (long long)tide__shown(k));
    }
  return TIDE_OK;
}

static tide_status wrong_size(const tide_tensor *x, int i, const char *name, const int64_t *size, const char *what) {
  return tide__fail(TIDE_SHAPE, "%s: %s %lld has another shape, got %s, expected %s", what, name,
                    (long long)tide__shown(i), tide__shape_text(x->size, x->ndim), tide__shape_text(size, x->ndim));
}

static tide_status check_dim(int *out, int dim, const tide_tensor *x, const char *what) {
  if (x->ndim == 0)
    return tide__fail(TIDE_SHAPE, "%s: a tensor without dimensions cannot be split or joined, got [], expected one",
                      what);
  return tide__dim_check(out, dim, x->ndim, what);
}

/* ---- sources and destinations ---- */

/* Nothing changes where a destination is its own source. */
static bool is_itself(const tide_tensor *dst, const tide_tensor *src) {
  return dst->dtype == src->dtype && tide__same_elements(dst, src);
}

/* from[i] becomes list[i] with a new reference, or a copy of it where a destination could be written over it before it
 * is read; to[i] is where list[i] goes. */
static tide_status sources_apart(tide_tensor **from, tide_tensor *const *list, tide_tensor *const *to, int n) {
  for (int i = 0; i < n; i++) {
    bool apart = true;
    for (int k = 0; k < n && apart; k++) apart = !tide__tensor_overlaps(to[k], list[i]) || is_itself(to[k], list[k]);
    tide_status status = TIDE_OK;
    if (apart)
      from[i] = tide__tensor_ref(list[i]);
    else
      status = tide_clone(&from[i], list[i]);
    if (status != TIDE_OK) tide__tensors_drop(from, i);
    TIDE_TRY(status);
  }
  return TIDE_OK;
}

/* ---- broadcast ---- */

tide_status tide_comm_broadcast(tide_tensor **outs, const tide_tensor *x, const int *devices, int n) {
  TIDE_GIVEN("comm_broadcast", outs);
  static const char what[] = "comm.broadcast";
  int to[TIDE_MAX_DEVICES];
  tide_tensor *made[TIDE_MAX_DEVICES] = {NULL};
  TIDE_TRY(tide__check(x, what, "tensor"));
  TIDE_TRY(tide__replay_check(x, what));
  TIDE_TRY(check_devices(to, devices, n, what));
  TIDE_TRY(tide__collective_broadcast(made, x, to, n, what));
  for (int i = 0; i < n; i++) outs[i] = made[i] ? made[i] : tide__tensor_ref(x);
  return TIDE_OK;
}

/* Copies to destinations that the caller gave. */
static tide_status fan_out_into(tide_tensor *const *outs, tide_tensor *const *chunks, int n,
                                tide_stream *const *streams, const char *what) {
  tide__fan_copy copies[TIDE_MAX_DEVICES];
  tide_tensor *dst[TIDE_MAX_DEVICES], *from[TIDE_MAX_DEVICES];
  TIDE_TRY(check_disjoint(outs, n, what));
  TIDE_TRY(sources_apart(from, chunks, outs, n));
  tide_status status = TIDE_OK;
  for (int i = 0; i < n && status == TIDE_OK; i++) {
    tide_stream *on = streams ? streams[i] : NULL;
    if (!on) status = tide__stream_current(&on, outs[i]->storage->device);
    dst[i] = outs[i];
    copies[i] = (tide__fan_copy){&dst[i], from[i], on, i};
  }
  if (status == TIDE_OK) status = tide__copies_fan_out(copies, n, what);
  tide__tensors_drop(from, n);
  return status;
}

tide_status tide_comm_broadcast_into(tide_tensor *const *outs, int n, const tide_tensor *x) {
  TIDE_LIST("comm_broadcast_into", outs, n);
  static const char what[] = "comm.broadcast";
  tide_tensor *same[TIDE_MAX_DEVICES];
  TIDE_TRY(tide__check(x, what, "tensor"));
  TIDE_TRY(tide__replay_check(x, what));
  TIDE_TRY(check_count(n, "destinations", what));
  for (int i = 0; i < n; i++) {
    TIDE_TRY(check_out(outs[i], i, x, what));
    if (!tide__same_size(outs[i], x))
      return tide__fail(TIDE_SHAPE, "%s: out %lld has another shape, got %s, expected %s", what,
                        (long long)tide__shown(i), tide__shape_text(outs[i]->size, outs[i]->ndim),
                        tide__shape_text(x->size, x->ndim));
    same[i] = (tide_tensor *)x;
  }
  return fan_out_into(outs, same, n, NULL, what);
}

/* ---- scatter ---- */

static tide_status check_streams(tide_stream *const *streams, const int *devices, int n, const char *what) {
  for (int i = 0; streams && i < n; i++) {
    if (!streams[i]) continue;
    TIDE_TRY(tide__stream_check(streams[i], what));
    if (streams[i]->device != devices[i])
      return tide__fail(TIDE_DEVICE, "%s: stream %lld is on another device, got %s, expected %s", what,
                        (long long)tide__shown(i), tide__device_text(streams[i]->device),
                        tide__device_text(devices[i]));
  }
  return TIDE_OK;
}

static tide_status check_chunks(const int64_t *sizes, int n, int64_t length, const char *what) {
  int64_t left = length;
  for (int i = 0; i < n; i++) {
    if (sizes[i] <= 0)
      return tide__fail(TIDE_VALUE, "%s: chunk size %lld is not positive, got %lld, expected at least 1", what,
                        (long long)tide__shown(i), (long long)sizes[i]);
    if (sizes[i] > left)
      return tide__fail(TIDE_VALUE, "%s: the chunk sizes do not add up, got more than %lld, the size of the dim", what,
                        (long long)length);
    left -= sizes[i];
  }
  if (left == 0) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: the chunk sizes do not add up, got %lld, expected %lld, the size of the dim", what,
                    (long long)(length - left), (long long)length);
}

/* torch's chunk: equal parts, rounded up, as many as it takes. */
static int equal_chunks(int64_t *sizes, int n, int64_t length) {
  int64_t each = (length + n - 1) / n;
  int count = each ? (int)((length + each - 1) / each) : n; /* an empty dim has n empty chunks */
  for (int i = 0; i < count; i++) sizes[i] = each && i == count - 1 ? length - each * i : each;
  return count;
}

/* Views of x, one for each chunk. */
static tide_status split(tide_tensor **chunks, const tide_tensor *x, int dim, const int64_t *sizes, int n) {
  int64_t start = 0;
  for (int i = 0; i < n; i++) {
    chunks[i] = NULL;
    tide_status status = tide_narrow(&chunks[i], x, dim, start, sizes[i]);
    if (status != TIDE_OK) {
      tide__tensors_drop(chunks, i);
      return status;
    }
    start += sizes[i];
  }
  return TIDE_OK;
}

tide_status tide_comm_scatter(tide_tensor **outs, int *count, const tide_tensor *x, const int *devices, int n,
                              const int64_t *chunk_sizes, int dim, tide_stream *const *streams) {
  TIDE_GIVEN("comm_scatter", count);
  TIDE_GIVEN("comm_scatter", outs);
  static const char what[] = "comm.scatter";
  int to[TIDE_MAX_DEVICES], jobs = 0;
  int64_t sizes[TIDE_MAX_DEVICES] = {0}; /* where the caller gives none */
  tide_tensor *chunks[TIDE_MAX_DEVICES], *made[TIDE_MAX_DEVICES];
  tide__fan_copy copies[TIDE_MAX_DEVICES];
  TIDE_TRY(tide__check(x, what, "tensor"));
  TIDE_TRY(tide__replay_check(x, what));
  TIDE_TRY(check_devices(to, devices, n, what));
  TIDE_TRY(check_dim(&dim, dim, x, what));
  if (chunk_sizes) TIDE_TRY(check_chunks(chunk_sizes, n, x->size[dim], what));
  TIDE_TRY(check_streams(streams, to, n, what));
  int parts = chunk_sizes ? n : equal_chunks(sizes, n, x->size[dim]);
  TIDE_TRY(split(chunks, x, dim, chunk_sizes ? chunk_sizes : sizes, parts));
  tide_status status = TIDE_OK;
  for (int i = 0; i < parts && status == TIDE_OK; i++) {
    made[i] = NULL;
    if (to[i] == x->storage->device) continue;
    tide_stream *on = streams ? streams[i] : NULL;
    if (!on) status = tide__stream_current(&on, to[i]);
    copies[jobs++] = (tide__fan_copy){&made[i], chunks[i], on, i};
  }
  if (status == TIDE_OK) status = tide__copies_fan_out(copies, jobs, what);
  if (status == TIDE_OK) {
    *count = parts;
    for (int i = 0; i < parts; i++) outs[i] = made[i] ? made[i] : tide__tensor_ref(chunks[i]);
  }
  tide__tensors_drop(chunks, parts);
  return status;
}

tide_status tide_comm_scatter_into(tide_tensor *const *outs, int n, const tide_tensor *x, int dim,
                                   tide_stream *const *streams) {
  TIDE_LIST("comm_scatter_into", outs, n);
  static const char what[] = "comm.scatter";
  int to[TIDE_MAX_DEVICES];
  int64_t sizes[TIDE_MAX_DEVICES], sum = 0;
  tide_tensor *chunks[TIDE_MAX_DEVICES];
  TIDE_TRY(tide__check(x, what, "tensor"));
  TIDE_TRY(tide__replay_check(x, what));
  TIDE_TRY(check_count(n, "destinations", what));
  TIDE_TRY(check_dim(&dim, dim, x, what));
  for (int i = 0; i < n; i++) {
    TIDE_TRY(check_out(outs[i], i, x, what));
    int64_t want[TIDE_MAX_DIMS];
    memcpy(want, x->size, sizeof want);
    if (outs[i]->ndim == x->ndim) want[dim] = sizes[i] = outs[i]->size[dim];
    if (outs[i]->ndim != x->ndim || memcmp(want, outs[i]->size, (size_t)x->ndim * sizeof *want) != 0)
      return tide__fail(TIDE_SHAPE, "%s: out %lld has another shape, got %s, expected %s but for dim %lld", what,
                        (long long)tide__shown(i), tide__shape_text(outs[i]->size, outs[i]->ndim),
                        tide__shape_text(x->size, x->ndim), (long long)tide__shown(dim));
    sum += sizes[i];
    to[i] = outs[i]->storage->device;
  }
  if (sum != x->size[dim])
    return tide__fail(TIDE_SHAPE, "%s: the sizes of the destinations do not add up, got %lld, expected %lld", what,
                      (long long)sum, (long long)x->size[dim]);
  TIDE_TRY(check_streams(streams, to, n, what));
  TIDE_TRY(split(chunks, x, dim, sizes, n));
  tide_status status = fan_out_into(outs, chunks, n, streams, what);
  tide__tensors_drop(chunks, n);
  return status;
}

/* ---- gather ---- */

/* One copy to the destination, on the current stream of its source, which has waited for `start`. */
static tide_status gather_one(tide_tensor *dst, const tide_tensor *src, tide_stream *on, tide_stream *destination) {
  if (src->storage->device == dst->storage->device || !tide__comm_direct(dst, src, on->device))
    return tide_copy(dst, src, true);
  tide__storage_use(src->storage, on);
  tide__storage_use(dst->storage, destination);
  return tide__comm_send(on, dst, src);
}

static tide_status gather_queue(tide_tensor *const *parts, tide_tensor *const *list, int n,
                                tide__collective_tracker *tracker, tide_stream *const *streams) {
  const tide__point *start = NULL, *done;
  tide_stream *destination = streams[n];
  bool settled = true;
  for (int i = 0; i < n; i++) settled &= streams[i] == destination || tide__order_settled(streams[i], destination);
  if (!settled) TIDE_TRY(tide__tracker_point(&start, tracker, destination, TIDE__RANK_DESTINATION, true));
  for (int i = 0; i < n; i++) {
    if (list[i]->numel == 0) continue;
    if (start) TIDE_TRY(tide__point_wait(streams[i], start, tracker->what));
    TIDE_TRY(gather_one(parts[i], list[i], streams[i], destination));
    if (streams[i] == destination) continue;
    TIDE_TRY(tide__tracker_point(&done, tracker, streams[i], i, false));
  }
  for (int i = 0; i < tracker->n; i++)
    if (!tracker->entry[i].arrival) TIDE_TRY(tide__point_wait(destination, &tracker->entry[i].point, tracker->what));
  return TIDE_OK;
}

/* To the host, which waits for each: so the points stand before the copies. */
static tide_status gather_host(tide_tensor *const *parts, tide_tensor *const *list, int n, const char *what,
                               tide_stream *const *streams) {
  tide__collective_tracker tracker;
  const tide__point *point;
  tide_status status = TIDE_OK;
  TIDE_TRY(tide__capture_check(what));
  tide__tracker_begin(&tracker, what);
  for (int i = 0; i < n && status == TIDE_OK; i++) status = tide__tracker_point(&point, &tracker, streams[i], i, true);
  TIDE_TRY(tide__tracker_end(&tracker, status));
  for (int i = 0; i < n; i++) TIDE_TRY(tide_copy(parts[i], list[i], false));
  return TIDE_OK;
}

static tide_status gather_into(tide_tensor *out, tide_tensor *const *list, int n, int dim, const int64_t *sizes,
                               const char *what) {
  tide_tensor *parts[TIDE_MAX_DEVICES], *from[TIDE_MAX_DEVICES];
  tide_stream *streams[TIDE_MAX_DEVICES + 1];
  tide__collective_tracker tracker;
  int to = out->storage->device;
  for (int i = 0; i < n; i++) TIDE_TRY(tide__stream_current(&streams[i], list[i]->storage->device));
  TIDE_TRY(tide__stream_current(&streams[n], to));
  if (to >= 0) TIDE_TRY(tide__comm_join(streams, n + 1, what));
  TIDE_TRY(split(parts, out, dim, sizes, n));
  tide_status status = sources_apart(from, list, parts, n);
  if (status == TIDE_OK) {
    if (to < 0) {
      status = gather_host(parts, from, n, what, streams);
    } else {
      tide__tracker_begin(&tracker, what);
      status = tide__tracker_end(&tracker, gather_queue(parts, from, n, &tracker, streams));
    }
    tide__tensors_drop(from, n);
  }
  tide__tensors_drop(parts, n);
  return status;
}

/* The size of the result, and of each part along dim. */
static tide_status gather_size(int64_t *size, int64_t *parts, tide_tensor *const *list, int n, int dim,
                               const char *what) {
  int64_t sum = 0;
  memcpy(size, list[0]->size, (size_t)list[0]->ndim * sizeof *size);
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = list[i];
    TIDE_TRY(tide__comm_cuda(x, i, "tensor", what));
    if (x->ndim != list[0]->ndim)
      return tide__fail(TIDE_SHAPE, "%s: tensor %lld has another number of dimensions, got %d, expected %d", what,
                        (long long)tide__shown(i), x->ndim, list[0]->ndim);
    size[dim] = parts[i] = x->size[dim];
    if (memcmp(size, x->size, (size_t)x->ndim * sizeof *size) != 0) return wrong_size(x, i, "tensor", size, what);
    sum += parts[i];
  }
  size[dim] = sum;
  return TIDE_OK;
}

tide_status tide_comm_gather(tide_tensor **out, tide_tensor *const *list, int n, int dim, int destination,
                             tide_tensor *into) {
  TIDE_LIST("comm_gather", list, n);
  static const char what[] = "comm.gather";
  int64_t size[TIDE_MAX_DIMS], parts[TIDE_MAX_DEVICES];
  TIDE_TRY(tide__out_check(out, into, what));
  TIDE_TRY(check_count(n, "tensors", what));
  TIDE_TRY(tide__comm_cuda(list[0], 0, "tensor", what));
  TIDE_TRY(check_dim(&dim, dim, list[0], what));
  TIDE_TRY(gather_size(size, parts, list, n, dim, what));
  tide_tensor *result = into;
  if (into) {
    TIDE_TRY(tide__check(into, what, "out"));
    TIDE_TRY(tide__size_expect(into, size, list[0]->ndim, what, "out"));
    if (into->dtype != list[0]->dtype)
      return tide__fail(TIDE_DTYPE, "%s: out has another dtype, got %s, expected %s", what,
                        tide_dtype_name((tide_dtype)into->dtype), tide_dtype_name((tide_dtype)list[0]->dtype));
    TIDE_TRY(tide__writable_check(into, what, "out"));
  } else {
    TIDE_TRY(tide__device_resolve(&destination, destination, what));
    TIDE_TRY(tide__tensor_new(&result, size, list[0]->ndim, (tide_dtype)list[0]->dtype, destination));
  }
  tide_status status = gather_into(result, list, n, dim, parts, what);
  if (status != TIDE_OK) {
    if (!into) tide_tensor_release(result);
    return status;
  }
  if (out) *out = result;
  return TIDE_OK;
}
