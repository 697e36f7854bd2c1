/* query.c: what a stream, or a device by its default stream, answers without a wait; a kernel that only sleeps.
 *
 * Invariant: nothing is asked of a stream that is captured, since the question would end the capture. */
#include "capture_state.h"
#include "observe.h"
#include "order.h"

tide_status tide_stream_query(bool *done, tide_stream *s) {
  TIDE_GIVEN("stream_query", done);
  const tide_backend *b;
  TIDE_TRY(tide__stream_check(s, "stream_query"));
  TIDE_TRY(tide__capture_stream(s, "stream_query"));
  TIDE_TRY(tide__backend(&b, s->device));
  uint32_t launched = tide__progress_now(s);
  uint64_t now = tide__order_now(s);
  *done = now && now == atomic_load_explicit(&s->order.done, memory_order_relaxed);
  if (*done && !tide__sync_watched()) return TIDE_OK; /* nothing was queued since the driver said so */
  TIDE_TRY(b->stream_query(done, s->impl));
  if (!*done) return tide__overdue(s->device);
  tide__progress_reached(s, launched);
  atomic_store_explicit(&s->order.done, now, memory_order_relaxed);
  if (tide__sync_watched()) TIDE_OBSERVE(host_stream, s);
  return TIDE_OK;
}

static tide_status stream_health(int device) {
  const tide_backend *b = tide__backend_peek(device);
  tide_status status = TIDE_OK;
  bool done;
  tide__capture_lock(); /* the question would end a capture of that stream */
  tide_stream *s = atomic_load_explicit(&tide__stream_defaults[device], memory_order_acquire);
  if (b && s && atomic_load_explicit(&tide__captures, memory_order_relaxed) == 0)
    status = b->stream_query(&done, s->impl);
  tide__capture_unlock();
  return status;
}

/* The driver says with any answer that the device is lost, so its default stream is asked whether it is idle. */
tide_status tide_device_health(int device) {
  tide_error cause;
  TIDE_TRY(tide__device_resolve(&device, device, "healthy"));
  if (tide__device_lost(&cause, device)) return tide__fail_again(&cause);
  return tide__backend_peek(device) ? stream_health(device) : TIDE_OK;
}

tide_status tide_blas_handle(uint64_t *out, int device) {
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "current_blas_handle"));
  const tide_backend *b;
  tide_stream *stream;
  TIDE_TRY(tide__backend(&b, device));
  if (!b->blas_handle)
    return tide__fail(TIDE_SUPPORT, "current_blas_handle: %s has no cuBLAS, expected a real device",
                      tide__device_text(device));
  TIDE_TRY(tide__stream_current(&stream, device));
  tide__order_expose(stream);
  return b->blas_handle(out, stream);
}

tide_status tide_stream_sleep(tide_stream *s, int64_t cycles) {
  const tide_backend *b;
  TIDE_TRY(tide__stream_check(s, "stream_sleep"));
  if (cycles < 0)
    return tide__fail(TIDE_VALUE, "stream_sleep: negative cycles, got %lld, expected 0 or more", (long long)cycles);
  TIDE_TRY(tide__backend(&b, s->device));
  uint32_t number;
  if (tide__sync_watched()) tide__observe_operands();
  TIDE_TRY(tide__launch_begin(&number, s, tide__site_now(), TIDE__LAUNCH_SLEEP, 0, NULL));
  return tide__launch_done(s, number, b->stream_sleep(s->impl, cycles));
}
