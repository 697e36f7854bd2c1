/* runtime.h: the face of runtime: which devices there are, and what waits for them. Private to core. */
#pragma once

#include "backend/backend.h"
#include "base/base.h"
#include "deferred.h"

/* ---- backends.c: which devices there are ---- */

/* Opens the CPU; every other device is opened at its first use, which `opened` ends. */
void tide__backends_start(tide_status (*opened)(int device));
/* The table of a device's backend; opens library and device at first use. Below 0 is the CPU. */
tide_status tide__backend_slow(const tide_backend **out, int device);
/* The CPU's, then those of devices that are open and not lost, else NULL. */
extern _Atomic(const tide_backend *) tide__backends_ready[TIDE_MAX_DEVICES + 1];
static inline tide_status tide__backend(const tide_backend **out, int device) {
  unsigned at = device < 0 ? 0 : (unsigned)device + 1;
  const tide_backend *b = NULL;
  if (at <= TIDE_MAX_DEVICES) b = atomic_load_explicit(&tide__backends_ready[at], memory_order_acquire);
  if (__builtin_expect(!b, 0)) return tide__backend_slow(out, device);
  *out = b;
  return TIDE_OK;
}
/* How many accelerators there are, at least one; opens the library, not a device. Fails with the reason why there is
 * none. */
tide_status tide__device_count(int *out);
int tide__device_count_known(void);                 /* 0 until someone has asked; opens nothing */
const tide_backend *tide__backend_peek(int device); /* of an opened device, lost or not; else NULL. Sets no error. */
bool tide__device_any_open(void);
/* The first cause stays; first(device) is called for it, before anybody can see that the device is lost. */
void tide__device_set_lost(int device, const tide_error *cause, void (*first)(int device));
/* What backends are given. The rooms that own its slots fill them in before any backend is opened. */
extern tide_backend_host tide__backend_host;
bool tide__device_lost(tide_error *cause, int device); /* cause may be NULL; its strings live as long as the epoch */
/* reset: the devices lose their contexts too. In between, closed(all) drops what was made of the backends' kernels:
 * all, or those of accelerators alone. */
void tide__backends_close(bool reset, void (*closed)(bool all));
/* Runs once, when the first device is opened, before the locks of a backend are taken. */
typedef void (*tide__on_open_fn)(void);
void tide__device_on_first_open(tide__on_open_fn fn);
/* What a start reads. */
tide_status tide__configure(const tide_config *given);
/* The accelerators' table once they were counted; NULL before and without any. */
const tide_backend *tide__accelerators(void);

/* ---- device.c ---- */

/* TIDE_CURRENT becomes the current accelerator; checks the range: `what` names the function in the error. */
tide_status tide__device_resolve(int *out, int device, const char *what);
/* Likewise, but the CPU is an error. */
tide_status tide__device_resolve_accelerator(int *out, int device, const char *what);
/* Where the device of factories is kept for this thread, instead of the process's; NULL: nowhere. */
void tide__default_device_bind(int *device);
/* Whose answer TIDE_CURRENT is. */
typedef int (*tide__device_current_fn)(void);
void tide__device_current_set(tide__device_current_fn fn);

/* ---- defer.c ---- */

/* What the opening of a device ends with: warns of one that is too old, runs what was deferred. */
tide_status tide__opened(int device);
void tide__defer_shutdown(void);
