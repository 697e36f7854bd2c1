/* state.c: what every file of the CUDA backend asks for: the host's functions, which contexts there are, who captures.
 *
 * This is the bottom of the room: it calls none of its other files. device.c opens the driver and the contexts, graph.c
 * begins and ends captures, backend.c takes the host's table; what they find stands here, so that nobody needs them
 * for it.
 *
 * Invariant: a device has a context here exactly while it is open. */
#include "internal.h"

const tide_backend_host *tide__cuda_host;

cuda_device tide__cuda_devices[TIDE_MAX_DEVICES];
CUresult (*tide__cuda_ask_stream)(CUstream stream);
CUresult (*tide__cuda_get_current)(CUcontext *out);
CUresult (*tide__cuda_set_current)(CUcontext context);

_Atomic int tide__cuda_captures;
pthread_mutex_t tide__cuda_capture_lock = PTHREAD_MUTEX_INITIALIZER;

int tide__cuda_any_device(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (atomic_load_explicit(&tide__cuda_devices[d].context, memory_order_acquire)) return d;
  return -1;
}

bool tide__cuda_stream_captured(const cuda_stream *s) {
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  if (!atomic_load_explicit(&tide__cuda_captures, memory_order_relaxed)) return false;
  if (cudaStreamIsCapturing(s->handle, &state) != cudaSuccess) cudaGetLastError();
  return state != cudaStreamCaptureStatusNone;
}
