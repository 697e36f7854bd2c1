/* library.c: finds NVIDIA's libraries, which are opened at the first call that needs them.
 *
 * The folders of TIDE_CUDA_LIBRARY_PATH come first, then the loader's path, then the toolkit's usual place; a newer
 * name is preferred to an older one. An open library stays until the process ends. */
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_in(const char *folder, size_t length, const char *name) {
  char path[1024];
  if (snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name) >= (int)sizeof path) return NULL;
  return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

void *tide__cuda_library(const char *const *names, int count) {
  const char *folders = getenv("TIDE_CUDA_LIBRARY_PATH");
  for (int i = 0; i < count; i++) {
    void *library = NULL;
    for (const char *p = folders; p && *p && !library;) {
      size_t length = strcspn(p, ":");
      if (length) library = open_in(p, length, names[i]);
      p += length + (p[length] == ':');
    }
    if (!library) library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library) library = open_in("/usr/local/cuda/lib64", 21, names[i]);
    if (library) return library;
  }
  return NULL;
}
