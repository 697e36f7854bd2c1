/* readback.c: tide_readback, a copy to the host and an event behind it. */
#include "tide/readback.h"

#include "tensor/tensor.h"

tide_status tide_readback(tide_tensor **host, tide_event **ready, const tide_tensor *x) {
  if (!host || !ready) return tide__fail(TIDE_ARGUMENT, "readback: %s: NULL", host ? "ready" : "host");
  TIDE_TRY(tide__tensor_check(x, "readback", "x"));
  int device = x->storage->device;
  tide_options pinned = {(tide_dtype)x->dtype, TIDE_CPU, device != TIDE_CPU};
  tide_stream *stream = NULL;
  tide_tensor *copy = NULL;
  tide_event *event = NULL;
  TIDE_TRY(tide_event_new(&event, 0));
  tide_status status = tide_to(&copy, x, &pinned, true, true);
  if (status == TIDE_OK && device != TIDE_CPU) status = tide_current_stream(&stream, device);
  if (status == TIDE_OK && stream) status = tide_event_record(event, stream);
  if (status != TIDE_OK) {
    tide_tensor_release(copy);
    tide_event_release(event);
    return status;
  }
  *host = copy, *ready = event;
  return TIDE_OK;
}

tide_status tide_readback_poll(bool *done, tide_event *ready) {
  TIDE_GIVEN("readback_poll", done);
  return tide_event_query(done, ready);
}
