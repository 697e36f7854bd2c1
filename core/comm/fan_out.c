/* fan_out.c: copies from one device to several, queued as one operation; and what else the operations share: the checks
 * of their arguments, one copy of their own.
 *
 * The one device sets a point on its current stream, the streams of the others wait for it and copy, side by side, and
 * the one device's stream waits for what they have done. That is the rule of copies between devices (copy.c) with the
 * two waits shared by the whole fan-out: what is queued later on any of the streams comes after it, so nobody has to
 * know that it happened. A copy that stays on the one device is part of the fan-out too, since it may have a stream of
 * its own.
 *
 * What lies in one piece travels as bytes. Anything else is copied by a kernel that reaches into the other device's
 * memory, where the machine can; where not, it takes the way of copy.c, packed and unpacked on either side. Memory of
 * the host goes that way too.
 *
 * Invariant: the uses of a storage are noted on streams of its own device alone; the work of others is covered by the
 * waits. */
#include "comm.h"

#include <stdio.h>

/* ---- checks ---- */

tide_status tide__comm_device(int *out, int device, int i, const char *what) {
  int count = 0;
  if (device < 0 && device != TIDE_CURRENT)
    return tide__fail(TIDE_DEVICE, "%s: entry %lld of devices is no accelerator, got %s, expected a cuda device", what,
                      (long long)tide__shown(i), device == TIDE_CPU ? "cpu" : "a negative id");
  TIDE_TRY(tide__device_count(&count));
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (device >= count)
    return tide__fail(TIDE_DEVICE, "%s: entry %lld of devices does not exist, got cuda:%d, expected 0 to %d", what,
                      (long long)tide__shown(i), device, count - 1);
  *out = device;
  return TIDE_OK;
}

tide_status tide__comm_tensor(const tide_tensor *x, int i, const char *name, const char *what) {
  char text[48];
  if (TIDE_LIKELY(x && x->storage && tide__storage_live(x->storage) && !x->replay)) return TIDE_OK;
  snprintf(text, sizeof text, "%s %lld", name, (long long)tide__shown(i));
  TIDE_TRY(tide__check(x, what, text));
  return tide__replay_check(x, what);
}

tide_status tide__comm_cuda(const tide_tensor *x, int i, const char *name, const char *what) {
  TIDE_TRY(tide__comm_tensor(x, i, name, what));
  if (x->storage->device >= 0) return TIDE_OK;
  return tide__fail(TIDE_DEVICE, "%s: %s %lld is not on an accelerator, got cpu, expected a cuda device", what, name,
                    (long long)tide__shown(i));
}

/* ---- one copy ---- */

void tide__tensors_drop(tide_tensor **list, int n) {
  for (int i = 0; i < n; i++) {
    tide_tensor_release(list[i]);
    list[i] = NULL;
  }
}

bool tide__comm_direct(const tide_tensor *dst, const tide_tensor *src, int device) {
  return tide__copy_travels(dst, src) ||
         (tide__comm_reaches(device, dst->storage) && tide__comm_reaches(device, src->storage));
}

tide_status tide__comm_send(tide_stream *on, tide_tensor *dst, const tide_tensor *src) {
  tide__queue q = {.stream = on};
  TIDE_TRY(tide__backend(&q.backend, on->device));
  if (tide__sync_watched()) tide__observe_copy(dst, src);
  if (!tide__copy_travels(dst, src)) return tide__copy_queued(&q, dst, src);
  size_t bytes = (size_t)(src->numel * tide__itemsize(src->dtype));
  TIDE_TRY(tide__launch_begin(&q.number, on, tide__site_now(), TIDE__LAUNCH_COPY_PEER, 0, NULL));
  tide_status status = q.backend->copy_peer(on->impl, tide__tensor_ptr(dst), dst->storage->device,
                                            tide__tensor_ptr(src), src->storage->device, bytes);
  return tide__launch_done(on, q.number, status);
}

tide_status tide__comm_join(tide_stream *const *streams, int n, const char *what) {
  if (!tide__sync_watched()) return TIDE_OK;
  int k = 0;
  tide__point point;
  while (k < n && !streams[k]->capture) k++;
  if (k == n) return TIDE_OK;
  TIDE_TRY(tide__point_set(&point, streams[k], what));
  tide_status status = TIDE_OK;
  for (int i = 0; i < n && status == TIDE_OK; i++)
    if (!streams[i]->capture) status = tide__point_wait(streams[i], &point, what);
  tide__point_drop(&point);
  return status;
}

/* ---- a fan-out ---- */

/* A new tensor that belongs to the stream, as it would if the stream were current. */
static tide_status make_on(tide_tensor **out, const tide_tensor *like, tide_stream *on) {
  tide__selection selection = tide__selection_begin(on);
  tide_status status = tide__tensor_new_like(out, like, (tide_dtype)like->dtype, on->device);
  tide__selection_end(selection);
  return status;
}

/* By the general way of copy.c, as if the stream were current. */
static tide_status copy_on(tide_stream *on, tide_tensor *dst, const tide_tensor *src) {
  tide__selection selection = tide__selection_begin(on);
  tide_status status = tide_copy(dst, src, true);
  tide__selection_end(selection);
  return status;
}

/* start: NULL where the copy's stream has waited for the source's already. What copy.c brings to another device comes
 * between the two waits by itself. */
static tide_status fan_out_one(tide__fan_copy *f, const tide__point *start, tide__collective_tracker *tracker,
                               tide_stream *source) {
  const tide__point *done;
  if (start && f->on != source) TIDE_TRY(tide__point_wait(f->on, start, tracker->what));
  if (!*f->dst) TIDE_TRY(make_on(f->dst, f->src, f->on));
  tide_tensor *dst = *f->dst;
  if (dst->numel == 0) return TIDE_OK;
  bool here = f->on->device == source->device, direct = !here && tide__comm_direct(dst, f->src, f->on->device);
  if (direct) {
    tide__storage_use(f->src->storage, source);
    tide__storage_use(dst->storage, f->on);
    TIDE_TRY(tide__comm_send(f->on, dst, f->src));
  } else {
    TIDE_TRY(copy_on(f->on, dst, f->src));
  }
  if (f->on == source) return TIDE_OK;
  TIDE_TRY(tide__tracker_point(&done, tracker, f->on, f->rank, false));
  return direct || here ? tide__point_wait(source, done, tracker->what) : TIDE_OK;
}

static tide_status fan_out_queue(tide__fan_copy *copies, int n, tide__collective_tracker *tracker,
                                 tide_stream *source) {
  const tide__point *start = NULL;
  bool settled = true;
  for (int i = 0; i < n; i++) settled &= copies[i].on == source || tide__order_settled(copies[i].on, source);
  if (!settled) TIDE_TRY(tide__tracker_point(&start, tracker, source, TIDE__RANK_SOURCE, true));
  for (int i = 0; i < n; i++) TIDE_TRY(fan_out_one(&copies[i], start, tracker, source));
  return TIDE_OK;
}

/* From the host: each copy by the general way. */
static tide_status fan_out_host(tide__fan_copy *copies, int n, tide__collective_tracker *tracker) {
  const tide__point *done;
  for (int i = 0; i < n; i++) {
    if (!*copies[i].dst) TIDE_TRY(make_on(copies[i].dst, copies[i].src, copies[i].on));
    if ((*copies[i].dst)->numel == 0) continue;
    TIDE_TRY(copy_on(copies[i].on, *copies[i].dst, copies[i].src));
    TIDE_TRY(tide__tracker_point(&done, tracker, copies[i].on, copies[i].rank, false));
  }
  return TIDE_OK;
}

static tide_status fan_out_begin(tide__fan_copy *copies, int n, tide__collective_tracker *tracker) {
  int from = copies[0].src->storage->device;
  tide_stream *streams[TIDE_MAX_DEVICES + 1];
  if (from < 0) return fan_out_host(copies, n, tracker);
  TIDE_TRY(tide__stream_current(&streams[0], from));
  for (int i = 0; i < n; i++) streams[i + 1] = copies[i].on;
  TIDE_TRY(tide__comm_join(streams, n + 1, tracker->what));
  return fan_out_queue(copies, n, tracker, streams[0]);
}

tide_status tide__copies_fan_out(tide__fan_copy *copies, int n, const char *what) {
  tide__collective_tracker tracker;
  bool given[TIDE_MAX_DEVICES];
  if (n == 0) return TIDE_OK;
  for (int i = 0; i < n; i++) given[i] = *copies[i].dst != NULL;
  tide__tracker_begin(&tracker, what);
  tide_status status = tide__tracker_end(&tracker, fan_out_begin(copies, n, &tracker));
  for (int i = 0; i < n && status != TIDE_OK; i++)
    if (!given[i]) tide__tensors_drop(copies[i].dst, 1);
  return status;
}
