/* preload.c: which kernels of ours there are, and how one is loaded before it is used.
 *
 * Only the runtime knows them: the code that nvcc writes registers each with it when this library is opened. The linker
 * leads these calls by way of here (--wrap), where the functions are noted. To ask for a function's attributes loads
 * it.
 *
 * Invariant: the list is complete before the library's one exported function can be called, and is not changed then. */
#include "internal.h"

#include <stdlib.h>

static struct {
  const void **list;
  int count, room;
} kernels;

void __real___cudaRegisterFunction(void **module, const char *function, char *device_function, const char *name,
                                   int threads, void *tid, void *bid, void *block, void *grid, int *warp);
void __wrap___cudaRegisterFunction(void **module, const char *function, char *device_function, const char *name,
                                   int threads, void *tid, void *bid, void *block, void *grid, int *warp);

/* One that finds no memory is not loaded ahead. */
void __wrap___cudaRegisterFunction(void **module, const char *function, char *device_function, const char *name,
                                   int threads, void *tid, void *bid, void *block, void *grid, int *warp) {
  if (kernels.count == kernels.room) {
    int room = kernels.room ? 2 * kernels.room : 1024;
    const void **list = realloc(kernels.list, (size_t)room * sizeof *list);
    if (list) kernels.list = list, kernels.room = room;
  }
  if (kernels.count < kernels.room) kernels.list[kernels.count++] = function;
  __real___cudaRegisterFunction(module, function, device_function, name, threads, tid, bid, block, grid, warp);
}

static void __attribute__((destructor)) forget(void) { free(kernels.list); }

int tide__cuda_kernel_count(void) { return kernels.count; }

/* Not every kernel is for every device: those for newer ones are passed over. */
tide_status tide__cuda_kernel_load(int device, int i) {
  struct cudaFuncAttributes attributes;
  CUDA_ON_RELAXED(device);
  int rc = (int)cudaFuncGetAttributes(&attributes, kernels.list[i]);
  bool passed_over = rc == cudaErrorInvalidDeviceFunction || rc == cudaErrorNoKernelImageForDevice;
  if (passed_over) cudaGetLastError();
  return passed_over ? TIDE_OK : tide__cuda_check(device, "preload", rc);
}
