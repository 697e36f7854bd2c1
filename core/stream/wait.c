/* wait.c: waits of the host for a stream or for devices, and what is freed behind one. */
#include "capture_state.h"
#include "hooks.h"
#include "observe.h"

tide_status tide__wait_on(int device, const char *what) {
  if (tide__interrupt_asked()) {
    tide__watch_interrupt(device);
    return tide__quota_interrupted(what);
  }
  return tide__overdue(device);
}

void tide__after_wait(void) {
  tide__deferred_drain();
  tide__stream_hooks->poll();
  tide__stream_reap();
  tide__event_reap();
  tide__stream_hooks->idle();
}

/* A device that was never opened has nothing to wait for. */
static tide_status wait_for(int device) {
  const tide_backend *b;
  tide__reached reached[64];
  if (!tide__backend_peek(device) && !tide__device_lost(NULL, device)) return TIDE_OK;
  TIDE_TRY(tide__backend(&b, device));
  int n = tide__progress_list(reached, 64, device);
  TIDE_TRY(b->device_sync(device));
  tide__progress_reached_all(reached, n);
  if (tide__sync_watched()) TIDE_OBSERVE(host_device, device);
  return TIDE_OK;
}

/* Dropped memory gets its events before the wait, so that they have passed after it. What is freed then may drop more,
 * as a graph does: its events need a further wait. */
static tide_status wait_and_settle(uint64_t devices) {
  uint64_t left = devices;
  tide__stream_hooks->settle();
  for (int i = 0; left && i < 8; i++) {
    for (int d = 0; d < TIDE_MAX_DEVICES; d++)
      if (left >> d & 1) TIDE_TRY(wait_for(d));
    left = devices & tide__stream_hooks->settle();
  }
  tide__after_wait();
  return TIDE_OK;
}

tide_status tide_device_synchronize(int device) {
  bool all = device == TIDE_ALL_DEVICES;
  if (!all) TIDE_TRY(tide__device_resolve_accelerator(&device, device, "synchronize"));
  TIDE_TRY(tide__sync_asked("synchronize"));
  return wait_and_settle(all ? UINT64_MAX : (uint64_t)1 << device);
}

tide_status tide_stream_synchronize(tide_stream *s) {
  const tide_backend *b;
  TIDE_TRY(tide__stream_check(s, "stream_synchronize"));
  TIDE_TRY(tide__sync_asked("stream_synchronize"));
  TIDE_TRY(tide__capture_stream(s, "stream_synchronize"));
  TIDE_TRY(tide__backend(&b, s->device));
  uint32_t launched = tide__progress_now(s);
  TIDE_TRY(b->stream_sync(s->impl));
  tide__progress_reached(s, launched);
  if (tide__sync_watched()) TIDE_OBSERVE(host_stream, s);
  tide__after_wait();
  return TIDE_OK;
}
