/* device.c: devices, their primary contexts and properties.
 *
 * The driver is opened by name when devices are first counted, so this library loads without one. A device's primary
 * context is retained when the device is opened and stays until the process ends: the runtime's own state hangs on it,
 * and other libraries in the process may share it.
 *
 * Invariant: no call here gives a context to a device that is not opened, and CUDA_ON is used only for opened
 * devices. */
#include "internal.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static const char *driver_problem;
static _Atomic pid_t driver_process; /* which process started the driver */

/* The driver does not follow a fork: the child could not start it again either. */
static tide_status check_process(void) {
  pid_t started = 0, now = getpid();
  if (atomic_compare_exchange_strong(&driver_process, &started, now) || started == now) return TIDE_OK;
  return tide__cuda_host->fail(TIDE_STATE, "cuda: the driver was started in the process that this one was forked from, "
                                           "expected a fork before the first use, or a program started anew");
}

const char *tide__cuda_find(const cuda_symbol *wanted, size_t n) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const char *lacks = NULL;
  for (size_t i = 0; i < n; i++) {
    void *symbol = library ? dlsym(library, wanted[i].name) : NULL;
    if (!symbol) lacks = wanted[i].name;
    memcpy(wanted[i].to, &symbol, sizeof symbol);
  }
  return lacks;
}

static void driver_open(void) {
  const cuda_symbol wanted[] = {{&tide__cuda_ask_stream, "cuStreamQuery"},
                                {&tide__cuda_get_current, "cuCtxGetCurrent"},
                                {&tide__cuda_set_current, "cuCtxSetCurrent"}};
  if (tide__cuda_find(wanted, sizeof wanted / sizeof *wanted))
    driver_problem = "libcuda.so.1 could not be opened, expected NVIDIA's driver to be installed";
}

tide_status tide__cuda_device_count(int *out) {
  pthread_once(&driver_once, driver_open);
  if (driver_problem) return tide__cuda_host->fail(TIDE_LIBRARY, "cuda: %s", driver_problem);
  TIDE_TRY(check_process());
  int count = 0, rc = (int)cudaGetDeviceCount(&count);
  if (rc == cudaErrorNoDevice) {
    cudaGetLastError();
    rc = 0, count = 0;
  }
  if (rc == cudaErrorInsufficientDriver || rc == cudaErrorInitializationError || rc == cudaErrorSystemDriverMismatch) {
    int driver = 0, runtime = 0;
    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    return tide__cuda_host->fail(TIDE_LIBRARY, "cuda: %s, got a driver for CUDA %d.%d, expected at least %d.0",
                                 cudaGetErrorString((cudaError_t)rc), driver / 1000, driver % 1000 / 10,
                                 runtime / 1000);
  }
  TIDE_TRY(tide__cuda_check(TIDE_CPU, "device_count", rc));
  *out = count;
  return TIDE_OK;
}

tide_status tide__cuda_device_open(int device) {
  cuda_device *d = &tide__cuda_devices[device];
  TIDE_TRY(check_process());
  if (atomic_load_explicit(&d->context, memory_order_acquire)) return TIDE_OK;
  CUcontext before = NULL, context = NULL;
  tide__cuda_get_current(&before);
  int rc = (int)cudaSetDevice(device);
  if (!rc) rc = (int)cudaFree(NULL);
  if (!rc) rc = (int)cudaDeviceGetAttribute(&d->multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (!rc) rc = (int)cudaDeviceGetAttribute(&d->major, cudaDevAttrComputeCapabilityMajor, device);
  if (!rc) tide__cuda_get_current(&context);
  if (before || device != 0) tide__cuda_set_current(before);
  TIDE_TRY(tide__cuda_check(device, "device_open", rc));
  if (d->major < 9) tidek_plain_launches = 1;
  atomic_store_explicit(&d->context, context, memory_order_release);
  return TIDE_OK;
}

/* The driver may refuse after a fault; what is used next will tell. */
tide_status tide__cuda_device_reset(int device) {
  CUcontext before = NULL, gone = atomic_exchange(&tide__cuda_devices[device].context, NULL);
  if (!gone) return TIDE_OK;
  tide__cuda_get_current(&before);
  int rc = (int)cudaSetDevice(device);
  if (!rc) rc = (int)cudaDeviceReset();
  tide__cuda_streams_forget(device);
  tide__cuda_set_current(before == gone ? NULL : before);
  return tide__cuda_check(device, "device_reset", rc);
}

static int attribute(int device, enum cudaDeviceAttr which) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) cudaGetLastError();
  return value;
}

tide_status tide__cuda_device_props(tide_device_props *out, int device) {
  struct cudaDeviceProp p;
  TIDE_TRY(tide__cuda_check(device, "get_device_properties", (int)cudaGetDeviceProperties(&p, device)));
  memset(out, 0, sizeof *out);
  size_t length = strnlen(p.name, sizeof out->name - 1);
  memcpy(out->name, p.name, length);
  out->major = p.major, out->minor = p.minor;
  out->is_integrated = p.integrated != 0, out->is_multi_gpu_board = p.isMultiGpuBoard != 0;
  out->multi_processor_count = p.multiProcessorCount;
  out->max_threads_per_multi_processor = p.maxThreadsPerMultiProcessor;
  out->max_threads_per_block = p.maxThreadsPerBlock;
  out->warp_size = p.warpSize, out->regs_per_multiprocessor = p.regsPerMultiprocessor;
  out->total_memory = p.totalGlobalMem, out->shared_memory_per_block = p.sharedMemPerBlock;
  out->shared_memory_per_block_optin = p.sharedMemPerBlockOptin;
  out->shared_memory_per_multiprocessor = p.sharedMemPerMultiprocessor;
  out->L2_cache_size = (size_t)p.l2CacheSize;
  memcpy(out->uuid, p.uuid.bytes, sizeof out->uuid);
  out->pci_bus_id = p.pciBusID, out->pci_device_id = p.pciDeviceID, out->pci_domain_id = p.pciDomainID;
  out->clock_rate = attribute(device, cudaDevAttrClockRate);
  out->memory_clock_rate = attribute(device, cudaDevAttrMemoryClockRate);
  out->memory_bus_width = p.memoryBusWidth;
  return TIDE_OK;
}

tide_status tide__cuda_device_mem_info(size_t *free, size_t *total, int device) {
  CUDA_ON(device);
  return tide__cuda_check(device, "mem_get_info", (int)cudaMemGetInfo(free, total));
}

/* Our own streams first, interruptibly; then what others have queued, by the runtime's wait, which cannot be
 * interrupted, and which would break a capture that is under way on another thread. */
tide_status tide__cuda_device_sync(int device) {
  TIDE_TRY(tide__cuda_streams_drain(device));
  CUDA_ON(device);
  pthread_mutex_lock(&tide__cuda_capture_lock);
  int rc = atomic_load(&tide__cuda_captures) ? 0 : (int)cudaDeviceSynchronize();
  pthread_mutex_unlock(&tide__cuda_capture_lock);
  TIDE_TRY(tide__cuda_check(device, "synchronize", rc));
  return tide__cuda_mail(device);
}

tide_status tide__cuda_device_can_access_peer(bool *out, int device, int peer) {
  int can = 0;
  TIDE_TRY(tide__cuda_check(device, "can_device_access_peer", (int)cudaDeviceCanAccessPeer(&can, device, peer)));
  *out = can != 0;
  return TIDE_OK;
}

tide_status tide__cuda_versions(int *driver, int *runtime) {
  TIDE_TRY(tide__cuda_check(TIDE_CPU, "versions", (int)cudaDriverGetVersion(driver)));
  return tide__cuda_check(TIDE_CPU, "versions", (int)cudaRuntimeGetVersion(runtime));
}
