/* external.h: what a backend makes of memory and semaphores of other APIs. The table is optional, and of it the part
 * for OpenGL. */
#pragma once

#include "tide/external.h"

typedef struct tide_external {
  tide_status (*host_lock)(void *ptr, size_t bytes); /* VALUE where some of it is page-locked already */
  void (*host_unlock)(void *ptr);

  /* The descriptor is the backend's after success. *ptr: where the allocation's bytes begin on the device. */
  tide_status (*memory_open)(void **out, void **ptr, int device, int fd, size_t bytes, bool dedicated);
  void (*memory_close)(int device, void *memory);
  tide_status (*semaphore_open)(void **out, int device, int fd, bool timeline);
  void (*semaphore_close)(int device, void *semaphore); /* no queued work uses it any more */
  tide_status (*semaphore_wait)(void *stream, void *semaphore, uint64_t value);
  tide_status (*semaphore_signal)(void *stream, void *semaphore, uint64_t value);

  /* target 0: a buffer */
  tide_status (*gl_open)(void **out, int device, uint32_t name, uint32_t target);
  void (*gl_close)(int device, void *gl);
  tide_status (*gl_map)(void **ptr, size_t *bytes, void *stream, void *gl); /* of a buffer; queued on the stream */
  tide_status (*gl_unmap)(void *stream, void *gl);
  tide_status (*gl_write)(void *stream, void *gl, const void *src, size_t row, size_t rows); /* to a texture */
} tide_external;
