/* cuda_library.c: libtide_cuda.so, the backend for CUDA, as a kind of device.
 *
 * The library is opened when someone first asks about accelerators: not before, so a program that uses none starts at
 * once and needs no driver. It lies where the configuration says, beside this code, in ../lib, ../lib/tide or, where
 * LuaRocks has installed it, ../lib/lua/5.4, or where the loader looks.
 *
 * Invariant: an open library stays mapped until the process ends: drivers do not survive being unmapped. */
#include "registry.h"

#include <limits.h>

#include "base/base.h"
#include "os/file.h"
#include "os/os.h"

static void *library;
static const char library_name[] = "libtide_cuda.so";

/* The folder that the code of this very function was loaded from; for the runner, that of the program. */
static bool own_folder(char *out, size_t size) {
  char *slash = tide__os_file_of(out, size, (void *)(uintptr_t)own_folder) ? strrchr(out, '/') : NULL;
  if (slash) *slash = 0;
  return slash != NULL;
}

static tide_status open_path(const char *path) {
  library = tide__os_library(path, true);
  if (library) return TIDE_OK;
  return tide__fail(TIDE_LIBRARY, "cuda: %s could not be opened: %s", path, tide__os_library_problem());
}

static tide_status open_library(const char *configured) {
  if (configured && *configured) return open_path(configured);
  char folder[PATH_MAX] = "", path[PATH_MAX + 64];
  static const char *const places[] = {"", "../lib/", "../lib/tide/", "../lib/lua/5.4/"};
  if (own_folder(folder, sizeof folder)) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
      snprintf(path, sizeof path, "%s/%s%s", folder, places[i], library_name);
      if (tide__os_access(path, 0) == 0) return open_path(path);
    }
  }
  library = tide__os_library(library_name, true);
  if (library) return TIDE_OK;
  return tide__fail(
      TIDE_LIBRARY,
      "cuda: %s was not found beside %s, in ../lib, ../lib/tide, ../lib/lua/5.4 or where the loader looks, expected a "
      "tide that was built with CUDA",
      library_name, folder[0] ? folder : "this program");
}

static tide_status open_cuda(const tide_backend **out, const tide_backend_host *host, const tide_config *config) {
  if (!library) TIDE_TRY(open_library(config->cuda_path));
  tide_backend_open_fn open = NULL;
  *(void **)&open = tide__os_symbol(library, "tide_backend_cuda_open");
  if (!open)
    return tide__fail(TIDE_LIBRARY, "cuda: %s has no tide_backend_cuda_open, expected the library of tide %s",
                      library_name, TIDE_VERSION);
  /* The library may refuse with a reason of its own; this one stands if it gives none. */
  tide_status status =
      tide__fail(TIDE_LIBRARY, "cuda: %s is of another version, expected that of tide %s", library_name, TIDE_VERSION);
  const tide_backend *table = open(host, TIDE_BACKEND_VERSION);
  if (!table) return tide_error_get()->status;
  if (table->version != TIDE_BACKEND_VERSION) return status;
  *out = table;
  return TIDE_OK;
}

static tide_backend_kind cuda = {.name = "cuda", .open = open_cuda};
TIDE_BACKEND_REGISTER(cuda)
