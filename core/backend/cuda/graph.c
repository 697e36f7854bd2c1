/* graph.c: captures and graphs of CUDA, and how the rest of the backend lives beside them.
 *
 * A capture forbids the threads that its mode names some calls that have nothing to do with it: allocating, asking
 * events, opening libraries. Where such a call is ours and harmless, the thread is switched to the relaxed mode around
 * it (CUDA_RELAXED), which costs nothing while nobody captures. What may not be asked at all while a stream is
 * captured, the end of the device, is left out by those who would ask (device.c, stream.c).
 *
 * Kernels keep their programmatic dependent launch in captures: every kernel of ours waits for its predecessors before
 * it touches memory, so an edge that lets it start early changes nothing that it sees.
 *
 * Invariant: a capture is ended exactly once, by the thread that began it, and counted until then. */
#include "internal.h"

#include <stdio.h>

tide_status tide__cuda_capture_begin(void *stream, int mode) {
  static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                                     cudaStreamCaptureModeRelaxed};
  CUDA_ON_STREAM(s, stream);
  pthread_mutex_lock(&tide__cuda_capture_lock);
  atomic_fetch_add(&tide__cuda_captures, 1);
  int rc = (int)cudaStreamBeginCapture(s->handle, modes[mode]);
  if (rc) atomic_fetch_sub(&tide__cuda_captures, 1);
  pthread_mutex_unlock(&tide__cuda_capture_lock);
  return tide__cuda_check(s->device, "capture_begin", rc);
}

tide_status tide__cuda_capture_end(void **graph, void *stream) {
  CUDA_ON_STREAM(s, stream);
  cudaGraph_t made = NULL;
  *graph = NULL;
  int rc = (int)cudaStreamEndCapture(s->handle, &made);
  if (rc && made) cudaGraphDestroy(made);
  atomic_fetch_sub(&tide__cuda_captures, 1);
  if (rc == cudaErrorStreamCaptureUnjoined) {
    cudaGetLastError();
    return tide__cuda_host->fail(
        TIDE_STATE, "capture_end: work of a stream that joined the capture is not waited for, expected the "
                    "captured stream to wait for it before the end");
  }
  TIDE_TRY(tide__cuda_check(s->device, "capture_end", rc));
  *graph = made;
  return TIDE_OK;
}

tide_status tide__cuda_capture_query(tide_capture_state *out, void *stream) {
  CUDA_ON_STREAM(s, stream);
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  TIDE_TRY(tide__cuda_check(s->device, "capture_query", (int)cudaStreamIsCapturing(s->handle, &state)));
  *out = state == cudaStreamCaptureStatusNone     ? TIDE_CAPTURE_NONE
         : state == cudaStreamCaptureStatusActive ? TIDE_CAPTURE_ACTIVE
                                                  : TIDE_CAPTURE_BROKEN;
  return TIDE_OK;
}

tide_status tide__cuda_graph_instantiate(void **exec, void *graph, int device) {
  cudaGraphExec_t made = NULL;
  CUDA_ON(device);
  TIDE_TRY(tide__cuda_check(device, "instantiate", (int)cudaGraphInstantiate(&made, graph, 0)));
  *exec = made;
  return TIDE_OK;
}

tide_status tide__cuda_graph_launch(void *exec, void *stream) {
  CUDA_ON_STREAM(s, stream);
  int rc = tide__cuda_stop_replays(s->device, s->handle);
  if (!rc) rc = (int)cudaGraphLaunch(exec, s->handle);
  return tide__cuda_check(s->device, "replay", rc);
}

/* These belong to no context, but without a current one the runtime would choose. */
static void destroy(cudaGraph_t graph, cudaGraphExec_t exec) {
  CUDA_ON_RELAXED(tide__cuda_any_device());
  if (graph && cudaGraphDestroy(graph) != cudaSuccess) cudaGetLastError();
  if (exec && cudaGraphExecDestroy(exec) != cudaSuccess) cudaGetLastError();
}

void tide__cuda_graph_free(void *graph) { destroy(graph, NULL); }
void tide__cuda_graph_exec_free(void *exec) { destroy(NULL, exec); }

tide_status tide__cuda_graph_dot(void *graph, const char *path) {
  FILE *file = fopen(path, "w"); /* the runtime says nothing of a path that it cannot write */
  if (!file) return tide__cuda_host->fail(TIDE_FILE, "debug_dump: the file could not be written, got \"%s\"", path);
  fclose(file);
  return tide__cuda_check(TIDE_CPU, "debug_dump",
                          (int)cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
}
