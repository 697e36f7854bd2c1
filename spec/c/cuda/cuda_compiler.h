/* cuda_compiler.h: the compiler of libtide_cuda.so, which needs no GPU until something is loaded. */
#pragma once

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/base.h"

/* NULL: the library is not there. */
static const tide_compiler *cuda_compiler(void) {
  char self[PATH_MAX], path[PATH_MAX + 40];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return NULL;
  self[n] = 0;
  snprintf(path, sizeof path, "%s/../lib/libtide_cuda.so", dirname(self));
  void *library = dlopen(path, RTLD_NOW);
  if (!library) return NULL;
  static tide_backend_host host = {.fail = tide__fail};
  host.struct_size = sizeof host;
  tide_backend_open_fn open = NULL;
  *(void **)&open = dlsym(library, "tide_backend_cuda_open");
  const tide_backend *b = open ? open(&host, TIDE_BACKEND_VERSION) : NULL;
  return b ? b->compiler : NULL;
}
