/* tide/device.h: more about accelerators: what they report of themselves, what they were compiled for, access from one
 * to another's memory, and what is done at the first use of one. */
#ifndef TIDE_DEVICE_H
#define TIDE_DEVICE_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* ---- What a device reports -------------------------------------------------------------------------------------- */

/* Of a real device the driver's management library tells, which is opened at the first question. A simulated device
 * tells what it knows; of the rest it tells what an idle device would. */
typedef enum tide_telemetry {
  TIDE_UTILIZATION,        /* percent of the last sample period while a kernel ran */
  TIDE_MEMORY_UTILIZATION, /* percent of it while device memory was read or written */
  TIDE_TEMPERATURE,        /* degrees Celsius of the die */
  TIDE_POWER,              /* milliwatts */
  TIDE_CLOCK,              /* MHz of the multiprocessors */
  TIDE_MEMORY_USED         /* bytes, by all processes together */
} tide_telemetry;
TIDE_API tide_status tide_device_telemetry(int64_t *out, int device, tide_telemetry what);

typedef struct tide_device_process {
  int64_t pid;
  int64_t bytes; /* -1: the driver does not tell */
} tide_device_process;
/* The processes that compute on the device: at most *count of them; *count becomes how many there are. */
TIDE_API tide_status tide_device_processes(tide_device_process *list, int *count, int device);

/* ---- Whether a device still serves ------------------------------------------------------------------------------ */

/* OK, or the first error after which the device serves no more (tide_error_get tells it). One that is in use is asked,
 * without a wait, so an error of queued work is noticed here too; one that was not used yet, and the CPU, are
 * healthy. */
TIDE_API tide_status tide_device_health(int device);
/* Called once for each device that is lost, with the first cause, which lives as long as tide: on any thread, in the
 * middle of the call that noticed it. It must not call tide: it notes the loss, or wakes a thread that acts on it. One
 * function for the process; NULL: none. */
typedef void (*tide_device_lost_fn)(void *user, int device, const tide_error *cause);
TIDE_API void tide_device_on_lost(tide_device_lost_fn fn, void *user);

/* ---- What the library was compiled for -------------------------------------------------------------------------- */

/* "sm_90 compute_90": machine code and, for what comes later, intermediate code; "" without an accelerator. */
TIDE_API void tide_arch_list(char *text, size_t size);
/* The lowest compute capability that there is code for. DEVICE without an accelerator. */
TIDE_API tide_status tide_min_capability(int *major, int *minor);
/* Is there code that the device can run? */
TIDE_API tide_status tide_device_supported(bool *out, int device);
/* Has the device been opened, that is: has this process a context on it? */
TIDE_API bool tide_device_is_open(int device);
/* The cuBLAS handle of the device, bound to its current stream: borrowed, lives as long as tide. */
TIDE_API tide_status tide_blas_handle(uint64_t *out, int device);

/* ---- Ahead of the first use ------------------------------------------------------------------------------------- */

/* Opens the device, makes its default stream, and begins to load the kernels of this library, on a thread of its own: a
 * driver that loads lazily brings each to the device at its first use, which may wait for all that runs there. Call it
 * at the start of a program that must not stop later. Called again it tells how far that is; either may be NULL.
 * `wait`: returns when all are loaded. A failure is reported by the next call, and the one after it begins anew, as
 * after tide_device_reset. Simulated devices have no kernels to load, so *all is 0. What is not included: libraries
 * such as cuBLAS, which open at their first use, and kernels from text. */
TIDE_API tide_status tide_preload(int *loaded, int *all, int device, bool wait);

/* ---- Access between devices ------------------------------------------------------------------------------------- */

/* With it on, operations on `device` may read operands that lie on `peer`: the current stream of `device` first
 * waits for the current stream of `peer`, and what `peer` does with the operand later waits for the operation. Off at
 * the start; switching it off waits for `device`. */
TIDE_API tide_status tide_set_peer_access(int device, int peer, bool enabled);
TIDE_API tide_status tide_get_peer_access(bool *out, int device, int peer);

/* ---- Streams that are selected ---------------------------------------------------------------------------------- */

/* What tide_current_set_stream has selected on the device for this thread, borrowed; NULL: its default stream, which
 * need not have been made yet. Opens no device, unlike tide_current_stream. */
TIDE_API tide_stream *tide_current_selected(int device);
/* Selects that stream again; NULL: the default stream. Never fails. */
TIDE_API void tide_current_select(int device, tide_stream *selected);
/* Selects the stream for work of the caller's own in between, until it is called with NULL. What an allocation runs
 * meanwhile to find memory, reclaim hooks and observers, sees and sets what was selected before. Does not nest, but in
 * such a hook it may be used. TIDE_STATE where the stream is one of before a reset: what was selected stays selected,
 * and no call with NULL is needed. */
TIDE_API tide_status tide_current_override(int device, tide_stream *stream);

/* Where factories make tensors for which no device is named while this one is bound, instead of tide_default_device of
 * the process; it is what tide_default_device and tide_set_default_device then mean. What tide_current_new makes
 * inherits it. A device as in tide_set_default_device. */
TIDE_API tide_status tide_current_set_default_device(tide_current *current, int device);

/* ---- Before and at the first use -------------------------------------------------------------------------------- */

/* Runs fn when the first accelerator is opened, or at once if one is open; `drop`, if any, is called with user when it
 * is over or will never run. A failure of fn makes the opening call fail with DEFERRED, once: `where` says in that
 * error's text where the call came from. */
TIDE_API tide_status tide_defer(tide_status (*fn)(void *user), void (*drop)(void *user), void *user, const char *where);
/* The default generator of a device that may not have been looked for yet: touches no driver. */
TIDE_API tide_status tide_generator_early(tide_generator **out, int device);

TIDE_C_END
#endif
