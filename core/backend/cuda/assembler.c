/* assembler.c: PTX to machine code by the driver, for the texts that ptx.c writes.
 *
 * Nothing has to be installed for it but the driver, whose part for it is opened at the first use. It works on several
 * threads at once, which loading PTX as a module would not do.
 *
 * Invariant: the thread's context is the one that it had before. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jit.h"

/* The driver tells no patch level: the size of its file stands for it. */
tide_status tide__driver_identify(char *path, size_t path_size, char *version, size_t version_size) {
  int number = 0, runtime;
  struct stat s = {0};
  Dl_info info;
  void *address;
  TIDE_TRY(tide__cuda_driver_ready());
  TIDE_TRY(tide__cuda_versions(&number, &runtime));
  memcpy(&address, &tide__cuda_driver.link_create, sizeof address);
  bool found = dladdr(address, &info) && info.dli_fname;
  snprintf(path, path_size, "%s", found ? info.dli_fname : "");
  if (!found || stat(path, &s)) s.st_size = 0;
  snprintf(version, version_size, "driver %d %lld", number, (long long)s.st_size);
  return TIDE_OK;
}

/* An opened device of the architecture, or -1: code is made for the device whose context is current. */
static int device_of(const char *arch) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    char text[64];
    if (!atomic_load_explicit(&tide__cuda_devices[d].context, memory_order_acquire)) continue;
    if (tide__cuda_compiler.loader->arch(text, sizeof text, d) == TIDE_OK && !strcmp(text, arch)) return d;
  }
  return -1;
}

static CUresult assemble(tide_image *out, const char *source, char *log, unsigned log_size) {
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)log_size}, *image = NULL;
  CUlinkState state = NULL;
  const tide__driver *d = &tide__cuda_driver;
  CUresult rc = d->link_create(2, names, values, &state);
  if (rc) return rc;
  rc = d->link_add(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)source, strlen(source) + 1, "tide", 0, NULL, NULL);
  if (!rc) rc = d->link_complete(state, &image, &out->size);
  if (!rc && (out->bytes = malloc(out->size))) memcpy(out->bytes, image, out->size);
  d->link_destroy(state);
  return rc;
}

enum { LOG = 4096 };

tide_status tide__driver_assemble(tide_image *out, char **log, const char *source, const char *const *options, int n,
                                  const char *arch) {
  TIDE_TRY(tide__cuda_driver_ready());
  int device = device_of(arch);
  if (device < 0) return tide__cuda_host->fail(TIDE_LIBRARY, "jit: no device of %s is open", arch);
  char *text = calloc(1, LOG);
  if (!text) return tide__cuda_host->fail(TIDE_MEMORY, "jit: no host memory");
  CUDA_ON(device);
  CUDA_RELAXED_FULLY;
  out->bytes = NULL;
  int rc = (int)assemble(out, source, text, LOG);
  if (log && rc == CUDA_ERROR_INVALID_PTX && *text) /* what it says of other failures is about the machine */
    *log = text;
  else
    free(text);
  TIDE_TRY(tide__cuda_check(device, "jit", rc));
  return out->bytes ? TIDE_OK : tide__cuda_host->fail(TIDE_MEMORY, "jit: no host memory for %zu bytes", out->size);
}
