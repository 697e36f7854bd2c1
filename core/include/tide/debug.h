/* tide/debug.h: finding out what a program does to a device: where it waits, which launch failed, and what then. */
#ifndef TIDE_DEBUG_H
#define TIDE_DEBUG_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* What happens when an operation makes the host wait although nobody asked it to: reading a value, counting a mask, a
 * copy between a device and memory that is not page-locked, or not asynchronous. Waits that are asked for (synchronize)
 * never count. */
typedef enum tide_sync_debug {
  TIDE_SYNC_DEFAULT, /* nothing */
  TIDE_SYNC_WARN,    /* a warning with the script line */
  TIDE_SYNC_ERROR    /* the operation fails with STATE before it does anything */
} tide_sync_debug;
TIDE_API tide_status tide_sync_debug_set(tide_sync_debug mode); /* of the process */
TIDE_API tide_sync_debug tide_sync_debug_get(void);
/* Of the calling thread: operations that would make the host wait for a device fail with STATE before they do anything,
 * explicit waits (synchronize) too. `why` ends the message and is kept; NULL: they wait. Returns the one
 * before. */
TIDE_API const char *tide_refuse_waits(const char *why);

/* Makes this the calling thread's error, for what is built on tide, and returns `status`. */
TIDE_API tide_status tide_error_set(tide_status status, const char *message);
/* A launch that may have failed: the op, the script line that queued it ("a.lua:3", or "" if unknown), the stream's
 * handle, and how many launches of that line and op are meant. */
typedef struct tide_candidate {
  const char *op, *line;
  uint64_t stream;
  int count;
} tide_candidate;
/* How many there are behind the calling thread's last error, if that is ACCELERATOR; *out is valid until the thread's
 * next call of this function. The first error of a lost device keeps its own. */
TIDE_API int tide_error_candidates(const tide_candidate **out);
/* Does CUDA_LAUNCH_BLOCKING ask for a wait after every launch? Each stream looks once, at its first launch. */
TIDE_API bool tide_launch_blocking(void);

/* For recovery after a sticky error: every accelerator in use loses its context and all that lies on it, and is opened
 * anew when it is used next. Tensors on accelerators and in page-locked memory, streams, events, graphs and pools
 * become handles whose use fails with STATE; ordinary CPU memory stays. No other thread may use tide meanwhile, and a
 * reclaim hook, which an operation under way has called, gets STATE. Whether a device works after its fault is for the
 * driver to say: a new process is the sure way. `device` must exist. */
TIDE_API tide_status tide_device_reset(int device);

/* Where the calling thread's warnings go; NULL: to the log of tide_config. The function must return. */
typedef void (*tide_warn_fn)(void *user, const char *message);
TIDE_API void tide_warn_set(tide_warn_fn fn, void *user);

TIDE_C_END
#endif
