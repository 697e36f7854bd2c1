/* range.c: address ranges that are backed piece by piece, and the driver's stream-ordered allocator.
 *
 * Ranges need the driver's virtual memory calls, which are looked up by name once; a driver or device without them says
 * so and core goes on with plain segments. The handle of a piece's memory is given up as soon as it is mapped: the
 * mapping keeps the memory. Which pieces there are is noted by range, because a device that gets access to another's
 * memory must be given it for each piece that is there, and for those that come.
 *
 * Invariant: `piece` has, at the granule where a piece begins, its number of granules, and 0 elsewhere. */
#include "internal.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct range {
  struct range *next;
  char *ptr;
  size_t bytes;
  int device;
  uint32_t *piece;
} range;

static struct {
  CUresult (*granularity)(size_t *out, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option);
  CUresult (*reserve)(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags);
  CUresult (*release)(CUdeviceptr ptr, size_t bytes);
  CUresult (*create)(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags);
  CUresult (*drop)(CUmemGenericAllocationHandle handle);
  CUresult (*map)(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
  CUresult (*unmap)(CUdeviceptr ptr, size_t bytes);
  CUresult (*access)(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count);
  CUresult (*attribute)(int *out, CUdevice_attribute which, CUdevice device);
} vm;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool complete;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is below */
static range *ranges;
static uint64_t peers[TIDE_MAX_DEVICES]; /* of each device, a bit for each other one that may use its memory */
static size_t granules[TIDE_MAX_DEVICES];

static void find_calls(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  *(void **)&vm.granularity = dlsym(library, "cuMemGetAllocationGranularity");
  *(void **)&vm.reserve = dlsym(library, "cuMemAddressReserve");
  *(void **)&vm.release = dlsym(library, "cuMemAddressFree");
  *(void **)&vm.create = dlsym(library, "cuMemCreate");
  *(void **)&vm.drop = dlsym(library, "cuMemRelease");
  *(void **)&vm.map = dlsym(library, "cuMemMap");
  *(void **)&vm.unmap = dlsym(library, "cuMemUnmap");
  *(void **)&vm.access = dlsym(library, "cuMemSetAccess");
  *(void **)&vm.attribute = dlsym(library, "cuDeviceGetAttribute");
  complete = vm.granularity && vm.reserve && vm.release && vm.create && vm.drop && vm.map && vm.unmap && vm.access &&
             vm.attribute;
}

static CUmemAllocationProp memory_of(int device) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUmemAccessDesc access_of(int device) {
  return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

tide_status tide__cuda_range_granularity(size_t *out, int device) {
  pthread_once(&once, find_calls);
  int can = 0;
  size_t bytes = 0;
  CUmemAllocationProp prop = memory_of(device);
  CUDA_ON(device);
  bool known = complete && !vm.attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
               can && !vm.granularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (!known || !bytes)
    return tide__cuda_host->fail(TIDE_SUPPORT, "range: cuda:%d cannot map memory piece by piece", device);
  TIDE_LOCKED(&lock);
  *out = granules[device] = bytes;
  return TIDE_OK;
}

tide_status tide__cuda_range_reserve(void **out, int device, size_t bytes) {
  range *r = calloc(1, sizeof *r);
  uint32_t *piece = calloc(bytes / granules[device], sizeof *piece);
  CUdeviceptr ptr = 0;
  CUDA_ON(device);
  int rc = r && piece ? (int)vm.reserve(&ptr, bytes, 0, 0, 0) : cudaErrorMemoryAllocation;
  if (rc) {
    free(r);
    free(piece);
    return tide__cuda_check(device, "range_reserve", rc);
  }
  TIDE_LOCKED(&lock);
  *r = (range){ranges, (char *)(uintptr_t)ptr, bytes, device, piece};
  ranges = r;
  *out = r->ptr;
  return TIDE_OK;
}

void tide__cuda_range_release(int device, void *ptr, size_t bytes) {
  pthread_mutex_lock(&lock);
  range **at = &ranges;
  while (*at && (*at)->ptr != ptr) at = &(*at)->next;
  range *r = *at;
  if (r) *at = r->next;
  pthread_mutex_unlock(&lock);
  if (!r) return;
  CUDA_ON(device);
  vm.release((CUdeviceptr)(uintptr_t)ptr, bytes);
  free(r->piece);
  free(r);
}

/* With the lock held. */
static void note(int device, const char *ptr, size_t granules_now) {
  for (range *r = ranges; r; r = r->next)
    if (ptr >= r->ptr && ptr < r->ptr + r->bytes)
      r->piece[(size_t)(ptr - r->ptr) / granules[device]] = (uint32_t)granules_now;
}

/* With the lock held: the device itself and its peers may use the piece. */
static int open_piece(int device, CUdeviceptr ptr, size_t bytes) {
  CUmemAccessDesc desc = access_of(device);
  int rc = (int)vm.access(ptr, bytes, &desc, 1);
  for (int d = 0; d < TIDE_MAX_DEVICES && !rc; d++) {
    if (!(peers[device] >> d & 1)) continue;
    desc = access_of(d);
    rc = (int)vm.access(ptr, bytes, &desc, 1);
  }
  return rc;
}

tide_status tide__cuda_range_map(int device, void *ptr, size_t bytes) {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = memory_of(device);
  CUdeviceptr at = (CUdeviceptr)(uintptr_t)ptr;
  CUDA_ON_RELAXED(device);
  pthread_mutex_lock(&lock);
  int rc = (int)vm.create(&handle, bytes, &prop, 0);
  if (!rc) {
    rc = (int)vm.map(at, bytes, 0, handle, 0);
    int access = rc ? 0 : open_piece(device, at, bytes);
    if (access) vm.unmap(at, bytes), rc = access;
    vm.drop(handle);
  }
  if (!rc) note(device, ptr, bytes / granules[device]);
  pthread_mutex_unlock(&lock);
  return tide__cuda_check(device, "range_map", rc);
}

void tide__cuda_range_unmap(int device, void *ptr, size_t bytes) {
  CUDA_ON_RELAXED(device);
  TIDE_LOCKED(&lock);
  vm.unmap((CUdeviceptr)(uintptr_t)ptr, bytes);
  note(device, ptr, 0);
}

void tide__cuda_range_peer(int device, int peer) {
  CUmemAccessDesc desc = access_of(peer);
  cudaMemPool_t pool;
  struct cudaMemAccessDesc pool_desc = {.location = {.type = cudaMemLocationTypeDevice, .id = peer},
                                        .flags = cudaMemAccessFlagsProtReadWrite};
  CUDA_ON(device);
  pthread_mutex_lock(&lock);
  bool known = peers[device] >> peer & 1;
  peers[device] |= (uint64_t)1 << peer;
  for (range *r = known ? NULL : ranges; r; r = r->next) {
    size_t granule = granules[device];
    for (size_t at = 0; r->device == device && at < r->bytes;) {
      size_t n = r->piece[at / granule];
      if (n) vm.access((CUdeviceptr)(uintptr_t)(r->ptr + at), n * granule, &desc, 1);
      at += (n ? n : 1) * granule;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!known && !cudaDeviceGetDefaultMemPool(&pool, device)) cudaMemPoolSetAccess(pool, &pool_desc, 1);
  cudaGetLastError();
}

/* ---- the driver's stream-ordered allocator ---- */

/* The pool of a device keeps what is freed until it is trimmed; asked for once. */
static cudaMemPool_t pools[TIDE_MAX_DEVICES];

static int pool_of(cudaMemPool_t *out, int device) {
  int rc = 0;
  TIDE_LOCKED(&lock);
  if (!pools[device]) {
    cudaMemPool_t pool = NULL;
    uint64_t keep = UINT64_MAX;
    rc = (int)cudaDeviceGetDefaultMemPool(&pool, device);
    if (!rc) rc = (int)cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (!rc) pools[device] = pool;
  }
  *out = pools[device];
  return rc;
}

tide_status tide__cuda_mem_alloc_async(void **out, void *stream, size_t bytes) {
  CUDA_ON_STREAM(s, stream);
  cudaMemPool_t pool;
  void *ptr = NULL;
  int rc = pool_of(&pool, s->device);
  if (!rc) rc = (int)cudaMallocAsync(&ptr, bytes, s->handle);
  TIDE_TRY(tide__cuda_check(s->device, "mem_alloc_async", rc));
  *out = ptr;
  return TIDE_OK;
}

tide_status tide__cuda_mem_free_async(void *stream, void *ptr) {
  CUDA_ON_STREAM(s, stream);
  return tide__cuda_check(s->device, "mem_free_async", (int)cudaFreeAsync(ptr, s->handle));
}

tide_status tide__cuda_mem_trim_async(int device) {
  cudaMemPool_t pool;
  CUDA_ON(device);
  int rc = pool_of(&pool, device);
  if (!rc) rc = (int)cudaMemPoolTrimTo(pool, 0);
  return tide__cuda_check(device, "mem_trim_async", rc);
}

tide_status tide__cuda_mem_reserved_async(size_t *out, int device) {
  cudaMemPool_t pool;
  uint64_t bytes = 0;
  CUDA_ON(device);
  int rc = pool_of(&pool, device);
  if (!rc) rc = (int)cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes);
  *out = (size_t)bytes;
  return tide__cuda_check(device, "mem_reserved_async", rc);
}
