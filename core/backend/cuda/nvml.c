/* nvml.c: what NVIDIA's management library tells, which is opened at the first question.
 *
 * It starts no driver in this process, so devices can be listed before a fork. It counts all devices of the machine in
 * an order of its own; a device of ours is found there by its uuid, whatever CUDA_VISIBLE_DEVICES made of the numbers.
 *
 * Invariant: every question fails with LIBRARY, naming what to install, where the library is missing. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* Values of nvml.h, which are part of the library's binary interface. */
enum { NVML_OK = 0, NVML_INSUFFICIENT_SIZE = 7, NVML_NOT_SUPPORTED = 3, NVML_DIE = 0, NVML_CLOCK_SM = 1 };
enum { LIST = 256 };
static const unsigned long long UNKNOWN_BYTES = ~0ull;

typedef struct nvml_utilization {
  unsigned gpu, memory;
} nvml_utilization;
typedef struct nvml_memory {
  unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} nvml_process;

static tide__nvml nvml;

static pthread_once_t nvml_once = PTHREAD_ONCE_INIT;
static char nvml_problem[512];

static void nvml_open(void) {
  if (!tide__library_open(&nvml, TIDE__LIBRARY_nvml, nvml_problem, sizeof nvml_problem)) return;
  int rc = nvml.init();
  if (rc)
    snprintf(nvml_problem, sizeof nvml_problem, "libnvidia-ml.so.1 could not be started, got: %s",
             nvml.error_string(rc));
}

static tide_status ready(const char *what) {
  pthread_once(&nvml_once, nvml_open);
  return nvml_problem[0] ? tide__cuda_host->fail(TIDE_LIBRARY, "%s: %s", what, nvml_problem) : TIDE_OK;
}

static tide_status check(const char *what, int device, int rc) {
  if (rc == NVML_OK) return TIDE_OK;
  return tide__cuda_host->fail(rc == NVML_NOT_SUPPORTED ? TIDE_SUPPORT : TIDE_ACCELERATOR,
                               "%s: NVML cannot tell for cuda:%d, got: %s", what, device, nvml.error_string(rc));
}

/* ---- the machine's devices ---- */

/* A device that is cut into instances is counted otherwise by the driver: that is left to it. */
tide_status tide__cuda_machine_list(char (*uuid)[TIDE_UUID_TEXT], int *count) {
  TIDE_TRY(ready("device_count"));
  unsigned n = 0;
  TIDE_TRY(check("device_count", 0, nvml.count(&n)));
  for (unsigned i = 0; i < n && i < (unsigned)*count; i++) {
    void *device;
    unsigned now = 0, pending = 0;
    TIDE_TRY(check("device_count", (int)i, nvml.by_index(i, &device)));
    if (nvml.mig_mode(device, &now, &pending) == NVML_OK && now)
      return tide__cuda_host->fail(TIDE_SUPPORT, "device_count: a device is in MIG mode, expected whole ones");
    TIDE_TRY(check("device_count", (int)i, nvml.uuid(device, uuid[i], TIDE_UUID_TEXT)));
  }
  if (n < (unsigned)*count) *count = (int)n;
  return TIDE_OK;
}

/* ---- one device of ours ---- */

static tide_status find(void **out, const char *what, int device) {
  tide_device_props p;
  char text[TIDE_UUID_TEXT];
  TIDE_TRY(ready(what));
  TIDE_TRY(tide__cuda_device_props(&p, device));
  const unsigned char *u = p.uuid;
  for (int mig = 0; mig < 2; mig++) {
    snprintf(text, sizeof text, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
             u[13], u[14], u[15]);
    if (nvml.by_uuid(text, out) == NVML_OK) return TIDE_OK;
  }
  return tide__cuda_host->fail(TIDE_SUPPORT, "%s: NVML does not know cuda:%d, got uuid %s", what, device, text + 4);
}

tide_status tide__cuda_telemetry(int64_t *out, int device, tide_telemetry what) {
  static const char *const names[] = {"utilization", "memory_usage", "temperature",
                                      "power_draw",  "clock_rate",   "device_memory_used"};
  void *d;
  TIDE_TRY(find(&d, names[what], device));
  nvml_utilization used = {0};
  nvml_memory memory = {0};
  unsigned value = 0;
  int rc = 0;
  switch (what) {
  case TIDE_UTILIZATION:
  case TIDE_MEMORY_UTILIZATION: rc = nvml.utilization(d, &used); break;
  case TIDE_TEMPERATURE: rc = nvml.temperature(d, NVML_DIE, &value); break;
  case TIDE_POWER: rc = nvml.power(d, &value); break;
  case TIDE_CLOCK: rc = nvml.clock(d, NVML_CLOCK_SM, &value); break;
  case TIDE_MEMORY_USED: rc = nvml.memory(d, &memory); break;
  }
  TIDE_TRY(check(names[what], device, rc));
  *out = what == TIDE_UTILIZATION          ? used.gpu
         : what == TIDE_MEMORY_UTILIZATION ? used.memory
         : what == TIDE_MEMORY_USED        ? (int64_t)memory.used
                                           : value;
  return TIDE_OK;
}

tide_status tide__cuda_processes(tide_device_process *list, int *count, int device) {
  void *d;
  nvml_process found[LIST];
  unsigned n = LIST;
  TIDE_TRY(find(&d, "list_gpu_processes", device));
  int rc = nvml.processes(d, &n, found);
  if (rc == NVML_INSUFFICIENT_SIZE) n = LIST;
  TIDE_TRY(check("list_gpu_processes", device, rc == NVML_INSUFFICIENT_SIZE ? NVML_OK : rc));
  for (unsigned i = 0; i < n && i < (unsigned)*count; i++) {
    list[i].pid = found[i].pid;
    list[i].bytes = found[i].bytes == UNKNOWN_BYTES ? -1 : (int64_t)found[i].bytes;
  }
  *count = (int)n;
  return TIDE_OK;
}

/* ---- what this library was compiled for ---- */

tide_status tide__cuda_arch_list(char *text, size_t size) {
  snprintf(text, size, "%s", TIDE_CUDA_ARCH_LIST);
  return TIDE_OK;
}
