/* external.c: memory and semaphores of other APIs, as the driver imports them, and pages of the host that it locks.
 *
 * What an allocation of Vulkan's holds is one buffer for us, of its whole length: core lays tensors into it. OpenGL's
 * objects are registered by two calls of the driver that are looked up by name, since the runtime's want GL's headers;
 * the runtime's handles of them are the driver's.
 *
 * Invariant: a descriptor is the driver's exactly when its import has succeeded. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

/* ---- the host's pages ---- */

static tide_status host_lock(void *ptr, size_t bytes) {
  int device = tide__cuda_any_device();
  if (device < 0) TIDE_TRY(tide__cuda_device_open(device = 0));
  CUDA_ON_RELAXED(device);
  int rc = (int)cudaHostRegister(ptr, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (rc != cudaErrorHostMemoryAlreadyRegistered && rc != cudaErrorInvalidValue)
    return tide__cuda_check(device, "host_register", rc);
  cudaGetLastError();
  return tide__cuda_host->fail(TIDE_VALUE,
                               rc == cudaErrorInvalidValue
                                   ? "host_register: ptr is no memory that can be page-locked, got %zu bytes at %p"
                                   : "host_register: ptr overlaps memory that is page-locked already, got %zu bytes "
                                     "at %p",
                               bytes, ptr);
}

static void host_unlock(void *ptr) {
  int device = tide__cuda_any_device();
  if (device < 0) return;
  CUDA_ON_RELAXED(device);
  if (cudaHostUnregister(ptr) != cudaSuccess) cudaGetLastError();
}

/* ---- memory ---- */

typedef struct opened {
  cudaExternalMemory_t memory;
  void *ptr;
} opened;

static void memory_close(int device, void *memory) {
  opened *o = memory;
  CUDA_ON_RELAXED(device);
  if (o->ptr && cudaFree(o->ptr) != cudaSuccess) cudaGetLastError();
  if (cudaDestroyExternalMemory(o->memory) != cudaSuccess) cudaGetLastError();
  free(o);
}

static tide_status memory_open(void **out, void **ptr, int device, int fd, size_t bytes, bool dedicated) {
  struct cudaExternalMemoryHandleDesc desc = {.type = cudaExternalMemoryHandleTypeOpaqueFd, .size = bytes};
  struct cudaExternalMemoryBufferDesc buffer = {.size = bytes};
  opened *o = calloc(1, sizeof *o);
  if (!o) return tide__cuda_host->fail(TIDE_MEMORY, "import_memory: no host memory");
  desc.handle.fd = dup(fd); /* what the driver has imported it closes, also where the mapping fails */
  desc.flags = dedicated ? cudaExternalMemoryDedicated : 0;
  CUDA_ON(device);
  int rc = (int)cudaImportExternalMemory(&o->memory, &desc), mapped = 0;
  if (rc)
    close(desc.handle.fd);
  else
    mapped = (int)cudaExternalMemoryGetMappedBuffer(&o->ptr, o->memory, &buffer);
  if (mapped) cudaDestroyExternalMemory(o->memory);
  if (rc || mapped) {
    free(o);
    return tide__cuda_fail(device, "import_memory", rc ? rc : mapped);
  }
  close(fd);
  *out = o, *ptr = o->ptr;
  return TIDE_OK;
}

/* ---- semaphores ---- */

static tide_status semaphore_open(void **out, int device, int fd, bool timeline) {
  struct cudaExternalSemaphoreHandleDesc desc = {.type = timeline ? cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd
                                                                  : cudaExternalSemaphoreHandleTypeOpaqueFd};
  cudaExternalSemaphore_t s;
  desc.handle.fd = fd;
  CUDA_ON(device);
  TIDE_TRY(tide__cuda_check(device, "import_semaphore", (int)cudaImportExternalSemaphore(&s, &desc)));
  *out = s;
  return TIDE_OK;
}

static void semaphore_close(int device, void *s) {
  CUDA_ON_RELAXED(device);
  if (cudaDestroyExternalSemaphore(s) != cudaSuccess) cudaGetLastError();
}

static tide_status semaphore_wait(void *stream, void *semaphore, uint64_t value) {
  CUDA_ON_STREAM(s, stream);
  const cudaExternalSemaphore_t handle = semaphore;
  struct cudaExternalSemaphoreWaitParams params = {0};
  params.params.fence.value = value;
  return tide__cuda_check(s->device, "wait_semaphore",
                          (int)cudaWaitExternalSemaphoresAsync(&handle, &params, 1, s->handle));
}

static tide_status semaphore_signal(void *stream, void *semaphore, uint64_t value) {
  CUDA_ON_STREAM(s, stream);
  const cudaExternalSemaphore_t handle = semaphore;
  struct cudaExternalSemaphoreSignalParams params = {0};
  params.params.fence.value = value;
  return tide__cuda_check(s->device, "signal_semaphore",
                          (int)cudaSignalExternalSemaphoresAsync(&handle, &params, 1, s->handle));
}

/* ---- OpenGL ---- */

static struct {
  CUresult (*buffer)(CUgraphicsResource *out, unsigned buffer, unsigned flags);
  CUresult (*image)(CUgraphicsResource *out, unsigned image, unsigned target, unsigned flags);
} gl;
static pthread_once_t gl_once = PTHREAD_ONCE_INIT;

static void gl_find(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  *(void **)&gl.buffer = dlsym(library, "cuGraphicsGLRegisterBuffer");
  *(void **)&gl.image = dlsym(library, "cuGraphicsGLRegisterImage");
}

static tide_status gl_open(void **out, int device, uint32_t name, uint32_t target) {
  CUgraphicsResource resource;
  pthread_once(&gl_once, gl_find);
  if (!gl.buffer || !gl.image)
    return tide__cuda_host->fail(TIDE_SUPPORT, "import_gl: the driver has no calls for OpenGL");
  CUDA_ON(device);
  TIDE_TRY(tide__cuda_check(device, "import_gl",
                            (int)(target ? gl.image(&resource, name, target, cudaGraphicsRegisterFlagsWriteDiscard)
                                         : gl.buffer(&resource, name, cudaGraphicsRegisterFlagsNone))));
  *out = resource;
  return TIDE_OK;
}

static void gl_close(int device, void *resource) {
  CUDA_ON(device);
  if (cudaGraphicsUnregisterResource(resource) != cudaSuccess) cudaGetLastError();
}

static tide_status gl_unmap(void *stream, void *resource) {
  CUDA_ON_STREAM(s, stream);
  cudaGraphicsResource_t r = resource;
  return tide__cuda_check(s->device, "release", (int)cudaGraphicsUnmapResources(1, &r, s->handle));
}

static tide_status gl_map(void **ptr, size_t *bytes, void *stream, void *resource) {
  CUDA_ON_STREAM(s, stream);
  cudaGraphicsResource_t r = resource;
  int rc = (int)cudaGraphicsMapResources(1, &r, s->handle);
  if (!rc && (rc = (int)cudaGraphicsResourceGetMappedPointer(ptr, bytes, r)))
    cudaGraphicsUnmapResources(1, &r, s->handle);
  return tide__cuda_check(s->device, "acquire", rc);
}

static tide_status gl_write(void *stream, void *resource, const void *src, size_t row, size_t rows) {
  CUDA_ON_STREAM(s, stream);
  cudaGraphicsResource_t r = resource;
  cudaArray_t array;
  int rc = (int)cudaGraphicsMapResources(1, &r, s->handle);
  if (!rc) {
    rc = (int)cudaGraphicsSubResourceGetMappedArray(&array, r, 0, 0);
    if (!rc) rc = (int)cudaMemcpy2DToArrayAsync(array, 0, 0, src, row, row, rows, cudaMemcpyDeviceToDevice, s->handle);
    int unmapped = (int)cudaGraphicsUnmapResources(1, &r, s->handle);
    if (!rc) rc = unmapped;
  }
  return tide__cuda_check(s->device, "gl_texture_write", rc);
}

const tide_external tide__cuda_external = {
    .host_lock = host_lock,
    .host_unlock = host_unlock,
    .memory_open = memory_open,
    .memory_close = memory_close,
    .semaphore_open = semaphore_open,
    .semaphore_close = semaphore_close,
    .semaphore_wait = semaphore_wait,
    .semaphore_signal = semaphore_signal,
    .gl_open = gl_open,
    .gl_close = gl_close,
    .gl_map = gl_map,
    .gl_unmap = gl_unmap,
    .gl_write = gl_write,
};
