/* memory.c: device memory, page-locked host memory, and copies.
 *
 * Core's allocator sits above mem_alloc, so the driver is asked seldom. Copies of page-locked memory are queued. Copies
 * of pageable memory go through staging buffers, of the runtime or, when they are large, of staged.c, and return when
 * the host memory is its owner's again; because that may block, the work before such a copy is waited for here first,
 * where waits can be interrupted.
 *
 * Invariant: a copy's stream belongs to one of its two devices, whose context is current during the call. */
#include "internal.h"

/* Up to this size the runtime copies pageable memory aside at once and does not wait for the stream. */
#define STAGED_AT_ONCE ((size_t)64 << 10)

tide_status tide__cuda_mem_alloc(void **out, int device, size_t bytes) {
  CUDA_ON(device);
  void *ptr = NULL;
  CUDA_RELAXED;
  TIDE_TRY(tide__cuda_check(device, "mem_alloc", (int)cudaMalloc(&ptr, bytes)));
  *out = ptr;
  return TIDE_OK;
}

void tide__cuda_mem_free(int device, void *ptr, size_t bytes) {
  CUDA_ON_RELAXED(device);
  if (cudaFree(ptr) != cudaSuccess) cudaGetLastError();
}

/* Every device may use the memory, so any opened device's context will do. */
tide_status tide__cuda_host_alloc(void **out, size_t bytes) {
  int device = tide__cuda_any_device();
  if (device < 0) {
    device = 0;
    TIDE_TRY(tide__cuda_device_open(device));
  }
  CUDA_ON(device);
  void *ptr = NULL;
  CUDA_RELAXED;
  int rc = (int)cudaHostAlloc(&ptr, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (rc == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return tide__cuda_host->fail(TIDE_MEMORY, "pin_memory: no page-locked memory, got a request for %zu bytes", bytes);
  }
  TIDE_TRY(tide__cuda_check(device, "pin_memory", rc));
  *out = ptr;
  return TIDE_OK;
}

void tide__cuda_host_free(void *ptr, size_t bytes) {
  int device = tide__cuda_any_device();
  if (device < 0) return;
  CUDA_ON_RELAXED(device);
  if (cudaFreeHost(ptr) != cudaSuccess) cudaGetLastError();
}

/* Before the runtime blocks: everything queued must have passed, unless nothing is queued. */
static tide_status settle(const cuda_stream *s, const char *what) {
  int rc = (int)cudaStreamQuery(s->handle);
  if (rc != cudaErrorNotReady) return tide__cuda_check(s->device, what, rc);
  cudaGetLastError();
  return tide__cuda_stream_drain(s, what);
}

/* Pageable memory, after what the stream had to do: by staged.c if it is large, else by the runtime. */
static tide_status copy_pageable(const cuda_stream *s, void *dst, const void *src, size_t bytes, bool to_host,
                                 const char *what) {
  if (to_host || bytes > STAGED_AT_ONCE) TIDE_TRY(settle(s, what));
  int rc = 0;
  if (!tide__cuda_staged_copy(&rc, s, dst, src, bytes, to_host))
    rc = (int)cudaMemcpyAsync(dst, src, bytes, to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, s->handle);
  TIDE_TRY(tide__cuda_check(s->device, what, rc));
  return to_host ? tide__cuda_stream_drain(s, what) : TIDE_OK;
}

tide_status tide__cuda_copy_to_device(void *stream, void *dst, const void *src, size_t bytes, bool pinned) {
  CUDA_ON_STREAM(s, stream);
  tide_status status;
  if (pinned)
    status = tide__cuda_check(s->device, "copy_to_device",
                              (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, s->handle));
  else
    status = copy_pageable(s, dst, src, bytes, false, "copy_to_device");
  return status;
}

tide_status tide__cuda_copy_to_host(void *stream, void *dst, const void *src, size_t bytes, bool pinned) {
  CUDA_ON_STREAM(s, stream);
  tide_status status;
  if (pinned)
    status = tide__cuda_check(s->device, "copy_to_host",
                              (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, s->handle));
  else
    status = copy_pageable(s, dst, src, bytes, true, "copy_to_host");
  return status == TIDE_OK && !pinned ? tide__cuda_mail(s->device) : status;
}

/* ---- between devices ---- */

tide_status tide__cuda_copy_peer(void *stream, void *dst, int dst_device, const void *src, int src_device,
                                 size_t bytes) {
  CUDA_ON_STREAM(s, stream);
  /* Where each device sees the other's memory the copy is like any other, and may be captured. */
  bool seen = dst_device == src_device ||
              (tide__cuda_peer_open(dst_device, src_device) && tide__cuda_peer_open(src_device, dst_device));
  return tide__cuda_check(s->device, "copy_peer",
                          seen ? (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, s->handle)
                               : (int)cudaMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, s->handle));
}
