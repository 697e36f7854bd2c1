/* logging.c: an allocator of a program's own for tide, which writes a line for every call.
 *
 *   cc -shared -fPIC -O2 -o liblogging.so logging.c -ldl
 *   lua> a = tide.cuda.CUDAPluggableAllocator("./liblogging.so", "logging_alloc", "logging_free")
 *   lua> tide.cuda.change_current_allocator(a)                  -- for all device memory, before any is used
 *   lua> pool = tide.cuda.MemPool(a)                            -- or for the segments of a pool
 *
 * The lines go to the file that ALLOCATOR_LOG names, else to stderr: "alloc SIZE DEVICE PTR", "free SIZE DEVICE PTR".
 * The memory is the CUDA driver's, asked for without CUDA's headers; with simulated devices it is theirs. The functions
 * may be called from any thread and must not call tide, except for tide_sim_*. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *logging_alloc(ptrdiff_t size, int device, void *stream);
void logging_free(void *ptr, ptrdiff_t size, int device, void *stream);

static void note(const char *what, ptrdiff_t size, int device, const void *ptr) {
  const char *path = getenv("ALLOCATOR_LOG");
  FILE *file = path ? fopen(path, "a") : stderr;
  if (!file) return;
  fprintf(file, "%s %td %d %p\n", what, size, device, ptr);
  if (path) fclose(file);
}

/* ---- simulated devices, if this program has them ---- */

static int (*sim_alloc(void))(void **, int, size_t) {
  int (*fn)(void **, int, size_t) = NULL;
  if (getenv("TIDE_SIM_DEVICES")) *(void **)&fn = dlsym(RTLD_DEFAULT, "tide_sim_mem_alloc");
  return fn;
}
static void (*sim_free(void))(int, void *) {
  void (*fn)(int, void *) = NULL;
  if (getenv("TIDE_SIM_DEVICES")) *(void **)&fn = dlsym(RTLD_DEFAULT, "tide_sim_mem_free");
  return fn;
}

/* ---- the driver, with the primary context of the device ---- */

static void *driver(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

static int enter(int device) {
  int (*retain)(void **, int), (*push)(void *);
  void *context = NULL;
  *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
  *(void **)&push = driver("cuCtxPushCurrent_v2");
  return retain && push && retain(&context, device) == 0 && push(context) == 0;
}

static void leave(int device) {
  int (*release)(int), (*pop)(void **);
  void *context;
  *(void **)&release = driver("cuDevicePrimaryCtxRelease_v2");
  *(void **)&pop = driver("cuCtxPopCurrent_v2");
  if (pop) pop(&context);
  if (release) release(device);
}

static void *driver_alloc(ptrdiff_t size, int device) {
  int (*alloc)(uint64_t *, size_t);
  uint64_t ptr = 0;
  *(void **)&alloc = driver("cuMemAlloc_v2");
  if (!alloc || !enter(device)) return NULL;
  if (alloc(&ptr, (size_t)size) != 0) ptr = 0;
  leave(device);
  return (void *)(uintptr_t)ptr;
}

/* cuMemFree waits for the work that uses the memory. */
static void driver_free(void *ptr, int device) {
  int (*release)(uint64_t);
  *(void **)&release = driver("cuMemFree_v2");
  if (!release || !enter(device)) return;
  release((uint64_t)(uintptr_t)ptr);
  leave(device);
}

/* ---- what tide calls ---- */

void *logging_alloc(ptrdiff_t size, int device, void *stream) {
  (void)stream;
  void *ptr = NULL;
  if (!sim_alloc())
    ptr = driver_alloc(size, device);
  else if (sim_alloc()(&ptr, device, (size_t)size) != 0)
    ptr = NULL;
  note("alloc", size, device, ptr);
  return ptr;
}

void logging_free(void *ptr, ptrdiff_t size, int device, void *stream) {
  (void)stream;
  note("free", size, device, ptr);
  if (sim_free())
    sim_free()(device, ptr);
  else
    driver_free(ptr, device);
}
