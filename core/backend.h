/* backend.h: what a kind of device must offer. One table of functions; core decides everything, a backend does what it
 * is told. A NULL slot marked (optional) means "not supported". Handles are the backend's own; all calls may come from
 * any thread, with no current device assumed and none changed. A slot that fails returns a status and has called
 * host->fail with the reason, or for driver errors host->fail_driver. */
#ifndef TIDE_BACKEND_H
#define TIDE_BACKEND_H

#include "plan.h"

#define TIDE_BACKEND_VERSION 1

/* What core offers to a backend that is loaded from a shared library. */
typedef struct tide_backend_host {
  size_t struct_size;
  /* Sets the thread's error, printf-like, and returns `status`. */
  tide_status (*fail)(tide_status status, const char *format, ...);
  /* A driver call failed: `what` names it, code and name are the driver's. sticky: the device is lost until the process
   * ends. */
  tide_status (*fail_driver)(int device, const char *what, int code, const char *name, const char *text, bool sticky);
  int (*interrupted)(void); /* nonzero: end the wait with TIDE_INTERRUPTED (call host->fail) */
  /* Stream-ordered scratch memory from the caching allocator, for the length of the queued work. */
  tide_status (*scratch_get)(void **out, tide_stream *stream, size_t bytes);
  void (*scratch_put)(tide_stream *stream, void *ptr);
  /* A kernel met a bad index: to be called by the backend's wait functions when they find its mailbox filled. */
  tide_status (*fail_index)(int device, uint32_t site, int64_t value, int64_t length, int index_base);
} tide_backend_host;

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

  /* ---- kernels: queued on the stream (tide_stream for scratch memory, its backend handle inside) ---- */
#define KERNEL(name, args) tide_status (*name)(tide_stream * stream, const args *a);
#include "kernel.def"
#undef KERNEL
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
