/* backend.h: what a kind of device must offer. One table of functions; core decides everything, a backend does what it
 * is told. A NULL slot marked (optional) means "not supported". Handles are the backend's own; all calls may come from
 * any thread, with no current device assumed and none changed. A slot that fails returns a status and has called
 * host->fail with the reason, or for driver errors host->fail_driver. */
#pragma once

#include "collective.h"
#include "compiler.h"
#include "external.h"
#include "base/pack.h"
#include "tide/device.h"
#include "base/fft_plan.h"
#include "tide/ipc.h"
#include "tracer.h"

#define TIDE_BACKEND_VERSION 12

/* What core offers to a backend that is loaded from a shared library. */
typedef struct tide_backend_host {
  size_t struct_size;
  /* Sets the thread's error, printf-like, and returns `status`. */
  tide_status (*fail)(tide_status status, const char *format, ...);
  /* A driver call failed: `what` names it, code and name are the driver's. sticky: the device is lost until the process
   * ends. */
  tide_status (*fail_driver)(int device, const char *what, int code, const char *name, const char *text, bool sticky);
  /* Asked now and then by every wait for work of the device: whatever is not TIDE_OK ends the wait; the error is
   * set. */
  tide_status (*wait_on)(int device, const char *what);
  /* Stream-ordered scratch memory from the caching allocator, for the length of the queued work. */
  tide_status (*scratch_get)(void **out, tide_stream *stream, size_t bytes);
  tide_status (*scratch_try)(void **out, tide_stream *stream, size_t bytes); /* for work that can do without */
  void (*scratch_put)(tide_stream *stream, void *ptr);
  /* A kernel met a bad index: to be called by the backend's wait functions when they find its mailbox filled. */
  tide_status (*fail_index)(int device, uint32_t site, int64_t value, int64_t length, int index_base);
} tide_backend_host;

/* "GPU-" and 36 characters, with a zero behind them; rounded up. */
enum { TIDE_UUID_TEXT = 64 };

/* Where a stream stands with capturing. BROKEN: something illegal was done, the graph will not come to be. */
typedef enum tide_capture_state { TIDE_CAPTURE_NONE, TIDE_CAPTURE_ACTIVE, TIDE_CAPTURE_BROKEN } tide_capture_state;

/* Behind which nodes of its graph a captured stream stands; n: -1 for more than there is room for. */
typedef struct tide_capture_place {
  int n;
  void *node[8];
} tide_capture_place;

/* What a node of a graph does, as words: the first `fixed` of them are the node's for good, those from `head` on may be
 * addresses of its operands. */
typedef struct tide_node_image {
  size_t words, fixed, head;
  uint64_t word[];
} tide_node_image;

typedef struct tide_backend {
  uint32_t version; /* TIDE_BACKEND_VERSION */
  const char *name; /* "cpu", "sim", "cuda" */
#define SLOT(type, name, parameters) type(*name) parameters;
#include "slot.def"
  const tide_compiler *compiler;     /* makes kernels at run time (optional) */
  const tide_collective *collective; /* operations of several devices at once (optional) */
  const tide_tracer *tracer;         /* tells when the devices did what (optional) */
  const tide_external *external;     /* memory and semaphores of other APIs (optional) */

  /* ---- kernels: queued on the stream (tide_stream for scratch memory, its backend handle inside) ---- */
#define KERNEL(name, args, writes, cost, library) tide_status (*name)(tide_stream * stream, const args *a);
#include "kernel.def"
} tide_backend;

/* The entry of libtide_cuda.so. */
typedef const tide_backend *(*tide_backend_open_fn)(const tide_backend_host *host, uint32_t version);

/* A stream as backends see it. Core's struct begins with this. */
struct tide_stream_head {
  void *impl; /* the backend's handle; NULL on the CPU */
  int device;
};
static inline void *tide_stream_impl(const tide_stream *s) { return ((const struct tide_stream_head *)s)->impl; }
