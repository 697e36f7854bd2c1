/* info.c: what accelerators report of themselves, and what the library was compiled for.
 *
 * A backend names its architectures in one text, "sm_80 sm_90 compute_90": machine code runs on devices of the same
 * major and no lower minor number; intermediate code (compute_) is compiled by the driver for anything later. The rest
 * passes questions on.
 *
 * Invariant: nothing here opens a device but what needs one. */
#include "accelerator.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- architectures ---- */

typedef struct arch {
  bool machine; /* else intermediate code */
  int major, minor;
} arch;

/* Reads the next "sm_90" or "compute_100a" of the text; NULL behind the last. */
static const char *next_arch(arch *out, const char *text) {
  for (;;) {
    text += strspn(text, " ");
    if (!*text) return NULL;
    size_t length = strcspn(text, " ");
    int number = 0;
    out->machine = !strncmp(text, "sm_", 3);
    bool known = sscanf(text, out->machine ? "sm_%d" : "compute_%d", &number) == 1;
    text += length;
    out->major = number / 10, out->minor = number % 10;
    if (known) return text;
  }
}

void tide_arch_list(char *text, size_t size) {
  if (!text) return;
  if (!size) return;
  int count;
  const tide_backend *b = tide__device_count(&count) == TIDE_OK ? tide__accelerators() : NULL;
  text[0] = 0;
  if (b && b->arch_list && b->arch_list(text, size) != TIDE_OK) text[0] = 0;
}

tide_status tide_min_capability(int *major, int *minor) {
  TIDE_GIVEN("min_capability", major);
  TIDE_GIVEN("min_capability", minor);
  char text[512];
  int count, least = INT32_MAX;
  TIDE_TRY(tide__device_count(&count));
  tide_arch_list(text, sizeof text);
  arch a;
  for (const char *p = text; (p = next_arch(&a, p));)
    if (10 * a.major + a.minor < least) least = 10 * a.major + a.minor;
  if (least == INT32_MAX) return tide__fail(TIDE_SUPPORT, "min_capability: the devices have no code of their own");
  *major = least / 10, *minor = least % 10;
  return TIDE_OK;
}

tide_status tide_device_supported(bool *out, int device) {
  TIDE_GIVEN("device_supported", out);
  const tide_device_props *p;
  char text[512];
  TIDE_TRY(tide_device_get_props(&p, device));
  tide_arch_list(text, sizeof text);
  arch a;
  bool can = !text[0];
  for (const char *at = text; !can && (at = next_arch(&a, at));) {
    can = a.machine ? a.major == p->major && a.minor <= p->minor : 10 * a.major + a.minor <= 10 * p->major + p->minor;
  }
  *out = can;
  return TIDE_OK;
}

bool tide_device_is_open(int device) { return tide__backend_peek(device) != NULL; }

/* ---- reports ---- */

tide_status tide_device_telemetry(int64_t *out, int device, tide_telemetry what) {
  TIDE_GIVEN("device_telemetry", out);
  static const char *const names[] = {"utilization", "memory_usage", "temperature",
                                      "power_draw",  "clock_rate",   "device_memory_used"};
  if ((unsigned)what > TIDE_MEMORY_USED)
    return tide__fail(TIDE_ARGUMENT, "telemetry: unknown question, got %d, expected 0 to %d", (int)what,
                      TIDE_MEMORY_USED);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, names[what]));
  const tide_backend *b = tide__accelerators();
  if (!b->telemetry)
    return tide__fail(TIDE_SUPPORT, "%s: %s reports nothing of the kind", names[what], tide__device_text(device));
  return b->telemetry(out, device, what);
}

tide_status tide_device_processes(tide_device_process *list, int *count, int device) {
  TIDE_GIVEN("device_processes", count);
  if (*count > 0) TIDE_GIVEN("device_processes", list);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "list_gpu_processes"));
  const tide_backend *b = tide__accelerators();
  if (!b->processes) return tide__fail(TIDE_SUPPORT, "list_gpu_processes: %s does not tell", tide__device_text(device));
  return b->processes(list, count, device);
}
