/* device.c: which accelerators there are and what they are like.
 *
 * Asking whether there is one never fails; using one that is not there fails with the reason. Properties are read once
 * and kept, because a driver takes long to tell them. The default device of factories is the thread's own, like the
 * current one.
 *
 * Invariant: a device's properties are complete before `known` says so, and stay where they are while tide runs. */
#include <stdlib.h>

#include "accelerator.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  _Atomic uint32_t known; /* the epoch they were read in */
  tide_device_props props;
} kept[TIDE_MAX_DEVICES];

static _Thread_local struct {
  uint32_t epoch;
  int device;
} factory = {.device = TIDE_CPU};

/* Counting must not start the driver while nobody uses a device: a process that has started it cannot fork. */
int tide_device_count(void) {
  int count = tide__device_count_known();
  if (count || tide__visible_count(&count) == TIDE_OK) return count;
  return tide__device_count(&count) == TIDE_OK ? count : 0;
}

/* The driver's own answer is the stronger one; the other is for programs that fork and say so. */
bool tide_is_available(void) {
  const char *quiet = getenv("TIDE_NVML_BASED_CUDA_CHECK");
  int count = tide__device_count_known();
  if (count || (quiet && !strcmp(quiet, "1") && tide__visible_count(&count) == TIDE_OK)) return count > 0;
  return tide__device_count(&count) == TIDE_OK;
}
bool tide_is_initialized(void) { return tide__device_any_open(); }

static tide__device_current_fn current;

void tide__device_current_set(tide__device_current_fn fn) { current = fn; }

tide_status tide_device_init(void) {
  int count;
  const tide_backend *b;
  TIDE_TRY(tide__device_count(&count));
  return tide__backend(&b, current());
}

tide_status tide__device_resolve(int *out, int device, const char *what) {
  if (device == TIDE_CPU) {
    *out = device;
    return TIDE_OK;
  }
  return tide__device_resolve_accelerator(out, device, what);
}

tide_status tide__device_resolve_accelerator(int *out, int device, const char *what) {
  if (device == TIDE_CURRENT) device = current();
  if (tide__backend_peek(device)) {
    *out = device;
    return TIDE_OK;
  }
  if (device == TIDE_CPU) return tide__fail(TIDE_DEVICE, "%s: wrong device, got cpu, expected an accelerator", what);
  int count;
  TIDE_TRY(tide__device_count(&count));
  if (device < 0 || device >= count)
    return tide__fail(TIDE_DEVICE, "%s: no such device, got cuda:%d, expected a number from 0 to %d", what, device,
                      count - 1);
  *out = device;
  return TIDE_OK;
}

/* Asking what a device is like does not open it: one that is not used gets no context. */
static tide_status read_props(int device) {
  const tide_backend *b = tide__accelerators();
  tide_error cause;
  if (tide__device_lost(&cause, device)) return tide__fail_again(&cause);
  pthread_mutex_lock(&lock);
  tide_status status = TIDE_OK;
  if (atomic_load_explicit(&kept[device].known, memory_order_relaxed) != tide__epoch_now()) {
    tide_device_props props = {0};
    status = b->device_props(&props, device);
    if (status == TIDE_OK) {
      kept[device].props = props;
      atomic_store_explicit(&kept[device].known, tide__epoch_now(), memory_order_release);
    }
  }
  pthread_mutex_unlock(&lock);
  return status;
}

tide_status tide_device_get_props(const tide_device_props **out, int device) {
  TIDE_GIVEN("device_get_props", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "get_device_properties"));
  if (atomic_load_explicit(&kept[device].known, memory_order_acquire) != tide__epoch_now())
    TIDE_TRY(read_props(device));
  *out = &kept[device].props;
  return TIDE_OK;
}

/* Nothing is used by asking, so nothing is opened. */
tide_status tide_device_can_access_peer(bool *out, int device, int peer) {
  TIDE_GIVEN("device_can_access_peer", out);
  tide_error cause;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "can_device_access_peer"));
  TIDE_TRY(tide__device_resolve_accelerator(&peer, peer, "can_device_access_peer (peer)"));
  if (tide__device_lost(&cause, device)) return tide__fail_again(&cause);
  return tide__accelerators()->device_can_access_peer(out, device, peer);
}

tide_status tide_driver_version(int *driver, int *runtime) {
  const tide_backend *b;
  TIDE_TRY(tide_device_init());
  TIDE_TRY(tide__backend(&b, current()));
  if (!b->versions) return tide__fail(TIDE_SUPPORT, "driver_version: the devices have no driver, expected a real one");
  return b->versions(driver, runtime);
}

/* ---- the device of factories ---- */

static _Thread_local int *bound_default;

void tide__default_device_bind(int *device) { bound_default = device; }

int tide_default_device(void) {
  if (bound_default) return *bound_default;
  return factory.device == TIDE_CPU || factory.epoch == tide__epoch_now() ? factory.device : TIDE_CPU;
}

/* TIDE_CURRENT stays what it is: the device that is current when a tensor is made. */
tide_status tide_set_default_device(int device) {
  int checked;
  TIDE_TRY(tide__device_resolve(&checked, device, "set_default_device"));
  if (bound_default) {
    *bound_default = device;
    return TIDE_OK;
  }
  factory.device = device;
  factory.epoch = tide__epoch_now();
  return TIDE_OK;
}
