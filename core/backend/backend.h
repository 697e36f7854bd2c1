/* backend.h: what a kind of device must offer. One table of functions; core decides everything, a backend does what it
 * is told. A NULL slot marked (optional) means "not supported". Handles are the backend's own; all calls may come from
 * any thread, with no current device assumed and none changed. A slot that fails returns a status and has called
 * host->fail with the reason, or for driver errors host->fail_driver. */
#ifndef TIDE_BACKEND_H
#define TIDE_BACKEND_H

#include "collective.h"
#include "compiler.h"
#include "external.h"
#include "base/pack.h"
#include "base/plan.h"
#include "tide/device.h"
#include "base/fft_plan.h"
#include "tide/ipc.h"
#include "tracer.h"

#define TIDE_BACKEND_VERSION 11

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

  /* ---- library and devices ---- */
  void (*close)(void);                    /* frees everything; the table is not used again until opened */
  tide_status (*device_count)(int *out);  /* may be called before anything is opened */
  tide_status (*device_open)(int device); /* makes the device usable (its primary context) */
  tide_status (*device_props)(tide_device_props *out, int device);
  tide_status (*device_mem_info)(size_t *free, size_t *total, int device);
  tide_status (*device_sync)(int device); /* waits, interruptibly */
  tide_status (*device_can_access_peer)(bool *out, int device, int peer);
  tide_status (*versions)(int *driver, int *runtime); /* (optional) */

  /* ---- memory ---- */
  tide_status (*mem_alloc)(void **out, int device, size_t bytes); /* TIDE_MEMORY when it does not fit */
  void (*mem_free)(int device, void *ptr, size_t bytes);          /* no work uses it any more */
  tide_status (*host_alloc)(void **out, size_t bytes);            /* page-locked host memory */
  void (*host_free)(void *ptr, size_t bytes);

  /* ---- streams and events ---- */
  tide_status (*stream_new)(void **out, int device, int priority);
  tide_status (*stream_wrap)(void **out, int device, uint64_t handle); /* (optional) foreign stream, not owned */
  void (*stream_free)(void *stream);                                   /* queued work still completes */
  uint64_t (*stream_handle)(void *stream);
  uint64_t (*stream_identity)(void *stream); /* (optional) what no other stream ever has; 0: not known */
  tide_status (*stream_priority_range)(int *least, int *greatest, int device);
  tide_status (*stream_query)(bool *done, void *stream);
  tide_status (*stream_sync)(void *stream); /* waits, interruptibly; reports asynchronous errors and bad indexes */
  tide_status (*stream_sleep)(void *stream, int64_t cycles);
  tide_status (*event_new)(void **out, int device, uint32_t flags);
  void (*event_free)(void *event);
  uint64_t (*event_handle)(void *event);
  tide_status (*event_record)(void *event, void *stream);
  tide_status (*event_wait)(void *stream, void *event); /* later work of stream waits for event, host does not */
  tide_status (*event_query)(bool *done, void *event);
  tide_status (*event_sync)(void *event); /* waits, interruptibly */
  tide_status (*event_elapsed)(double *ms, void *start, void *end);

  /* ---- copies; queued on the stream, which belongs to the destination's or the source's device ---- */
  /* Host memory is pinned or pageable; with pageable memory the call returns when the host memory may be reused or
   * read. */
  tide_status (*copy_to_device)(void *stream, void *dst, const void *src, size_t bytes, bool pinned);
  tide_status (*copy_to_host)(void *stream, void *dst, const void *src, size_t bytes, bool pinned);
  tide_status (*copy_peer)(void *stream, void *dst, int dst_device, const void *src, int src_device, size_t bytes);
  /* Blocking read of at most 16 bytes after everything queued on the stream: the fast way to one value. */
  tide_status (*read_small)(void *stream, void *dst, const void *src, size_t bytes);

  /* ---- memory that grows: address ranges, backed piece by piece (optional, all or none) ---- */
  tide_status (*range_granularity)(size_t *out, int device); /* what reservations and pieces are multiples of */
  tide_status (*range_reserve)(void **out, int device, size_t bytes); /* addresses alone */
  void (*range_release)(int device, void *ptr, size_t bytes);         /* no piece of it is backed any more */
  tide_status (*range_map)(int device, void *ptr, size_t bytes); /* backs a piece; TIDE_MEMORY when it does not fit */
  void (*range_unmap)(int device, void *ptr, size_t bytes); /* pieces as they were mapped; no work uses them any more */

  /* ---- the driver's own stream-ordered allocator (optional, all or none) ---- */
  tide_status (*mem_alloc_async)(void **out, void *stream, size_t bytes);
  tide_status (*mem_free_async)(void *stream, void *ptr);
  tide_status (*mem_trim_async)(int device);
  tide_status (*mem_reserved_async)(size_t *out, int device); /* bytes that it holds of the device */

  /* ---- between devices and processes (optional) ---- */
  tide_status (*peer_access)(int device, int peer, bool enabled); /* kernels of `device` may use memory of `peer` */
  tide_status (*ipc_mem_export)(tide_ipc_handle *out, int device, void *ptr); /* ptr as mem_alloc gave it */
  tide_status (*ipc_mem_open)(void **out, int device, const tide_ipc_handle *handle);
  void (*ipc_mem_close)(int device, void *ptr);
  tide_status (*ipc_event_export)(tide_ipc_handle *out, void *event);
  tide_status (*ipc_event_open)(void **out, int device, const tide_ipc_handle *handle);

  /* ---- graphs (optional, all or none) ---- */
  /* mode: 0 global, 1 thread-local, 2 relaxed: whose calls may break the capture. */
  tide_status (*capture_begin)(void *stream, int mode);
  /* Ends it in any case, the stream is usable again. Fails, with *graph NULL, if the capture was broken. */
  tide_status (*capture_end)(void **graph, void *stream);
  tide_status (*capture_query)(tide_capture_state *out, void *stream);
  tide_status (*graph_instantiate)(void **exec, void *graph, int device);
  tide_status (*graph_launch)(void *exec, void *stream);
  void (*graph_free)(void *graph);
  void (*graph_exec_free)(void *exec);                     /* not while it runs */
  tide_status (*graph_dot)(void *graph, const char *path); /* a file for Graphviz */

  /* ---- graphs whose operands are replaced (optional, all or none) ---- */
  tide_status (*capture_place)(tide_capture_place *out, void *stream);
  /* The kernels, copies and fills that the captured stream has recorded since it stood at `before`, in their order.
   * *count: the room before, the number after. SUPPORT where they are not one chain. */
  tide_status (*capture_nodes)(void **nodes, int *count, void *stream, const tide_capture_place *before);
  tide_status (*node_read)(tide_node_image **out, void *node, int device); /* malloc'ed */
  /* Replays that are queued from now on do in these nodes what their images say. Each is one of its node with other
   * addresses, or of a node that the same call has recorded for other operands. *count: of a failure how many nodes are
   * changed, the first ones. */
  tide_status (*nodes_write)(void *exec, void *const *node, const tide_node_image *const *image, int *count,
                             int device);

  /* ---- how far a stream has come, readable even after a fault (optional, both or none) ---- */
  tide_status (*progress_note)(void *stream, uint32_t value); /* queued: the stream's progress becomes value */
  uint32_t (*progress_read)(void *stream);

  /* ---- where a stream and the host meet (optional, all or none) ---- */
  tide_status (*meet_new)(void **out, int device);
  tide_status (*meet_arrive)(void *stream, void *place); /* once: the stream gets there behind what is queued */
  bool (*meet_arrived)(const void *place);               /* did it? Asks no driver */
  tide_status (*meet_wait)(void *stream, void *place);   /* later work of stream waits until meet_open */
  void (*meet_open)(void *place);                        /* for good; from any thread, asks no driver */
  void (*meet_free)(void *place);                        /* an open one; streams may still be on the way there */

  /* ---- the rest (optional) ---- */
  /* Drops the context of a device that was opened, after close: everything on it is gone. */
  tide_status (*device_reset)(int device);
  /* Our own kernels, where the driver would load each at its first use: how many, and loads one for an open device. */
  int (*kernel_count)(void);
  tide_status (*kernel_load)(int device, int i);
  tide_status (*blas_handle)(uint64_t *out, tide_stream *stream);
  tide_status (*arch_list)(char *text, size_t size); /* what kernels were compiled for: "sm_90 compute_90", ... */
  /* The uuids of the machine's devices, before anything is opened and without starting the driver: a process may fork
   * afterwards. *count: the room before, the number after. Fails where the driver might count otherwise. */
  tide_status (*machine_list)(char (*uuid)[TIDE_UUID_TEXT], int *count);
  tide_status (*telemetry)(int64_t *out, int device, tide_telemetry what);     /* of a device that need not be opened */
  tide_status (*processes)(tide_device_process *list, int *count, int device); /* likewise */

  /* ---- plans of Fourier transforms (optional, both or none) ---- */
  /* *work: bytes of device memory that every call of the plan needs. TIDE_MEMORY when there is no room for it. */
  tide_status (*fft_plan_new)(void **out, size_t *work, int device, const tide_fft_shape *shape);
  void (*fft_plan_free)(int device, void *plan); /* work that is queued still completes */

  const tide_compiler *compiler;     /* makes kernels at run time (optional) */
  const tide_collective *collective; /* operations of several devices at once (optional) */
  const tide_tracer *tracer;         /* tells when the devices did what (optional) */
  const tide_external *external;     /* memory and semaphores of other APIs (optional) */

  /* From any thread, and without a wait: kernels of that owner that can be stopped and were launched up to that number
   * end soon. They report TIDE__MAIL_STOPPED with these milliseconds, or with 0 nothing. Below 0: nothing, and the
   * caller may be a signal's handler; what cannot be done there is left (optional). */
  void (*kernels_stop)(int device, int owner, uint64_t number, int64_t ms);

  /* Copies pieces by one kernel on the stream's device, whose own and whose peers' memory they are (optional). */
  tide_status (*pack)(tide_stream *stream, const tide_pack_args *a);

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

#endif
