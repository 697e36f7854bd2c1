/* ipc.c: memory and events of other processes, as the driver shares them.
 *
 * The driver's own handles fit the 64 bytes. Memory is what mem_alloc gave, whole; an opened piece is another address
 * of the same bytes, and opening it twice counts.
 *
 * Invariant: an opened event is an event of ours like any other, but that of another process when it is recorded. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == TIDE_IPC_BYTES && sizeof(cudaIpcEventHandle_t) == TIDE_IPC_BYTES,
               "the driver's handles have another size");

tide_status tide__cuda_ipc_mem_export(tide_ipc_handle *out, int device, void *ptr) {
  cudaIpcMemHandle_t handle;
  CUDA_ON(device);
  TIDE_TRY(tide__cuda_check(device, "ipc_handle", (int)cudaIpcGetMemHandle(&handle, ptr)));
  memcpy(out, &handle, sizeof *out);
  return TIDE_OK;
}

tide_status tide__cuda_ipc_mem_open(void **out, int device, const tide_ipc_handle *handle) {
  cudaIpcMemHandle_t h;
  void *ptr = NULL;
  memcpy(&h, handle, sizeof h);
  CUDA_ON(device);
  TIDE_TRY(
      tide__cuda_check(device, "tensor_from_ipc", (int)cudaIpcOpenMemHandle(&ptr, h, cudaIpcMemLazyEnablePeerAccess)));
  *out = ptr;
  return TIDE_OK;
}

void tide__cuda_ipc_mem_close(int device, void *ptr) {
  CUDA_ON(device);
  if (cudaIpcCloseMemHandle(ptr) != cudaSuccess) cudaGetLastError();
}

tide_status tide__cuda_ipc_event_export(tide_ipc_handle *out, void *event) {
  const cuda_event *e = event;
  cudaIpcEventHandle_t handle;
  CUDA_ON(e->device);
  TIDE_TRY(tide__cuda_check(e->device, "ipc_handle", (int)cudaIpcGetEventHandle(&handle, e->handle)));
  memcpy(out, &handle, sizeof *out);
  return TIDE_OK;
}

tide_status tide__cuda_ipc_event_open(void **out, int device, const tide_ipc_handle *handle) {
  cudaIpcEventHandle_t h;
  cuda_event *e = calloc(1, sizeof *e);
  if (!e) return tide__cuda_host->fail(TIDE_MEMORY, "from_ipc_handle: no host memory");
  memcpy(&h, handle, sizeof h);
  e->device = device, e->flags = TIDE_EVENT_INTERPROCESS;
  CUDA_ON(device);
  int rc = (int)cudaIpcOpenEventHandle(&e->handle, h);
  if (rc) {
    free(e);
    return tide__cuda_fail(device, "from_ipc_handle", rc);
  }
  *out = e;
  return TIDE_OK;
}
