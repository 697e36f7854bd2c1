/* tidek.h: the launchers of every kernel, as the host side of the backend calls them. Plain C.
 *
 * Each takes the stream and a struct of plan.h, queues its kernels and returns the cudaError_t of doing so, as an int.
 * The device of the stream is current. Scratch memory is given by the caller, who asks for its size first; `sms` is the
 * device's number of multiprocessors. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be set when a device is opened whose compute capability is below 9.0: kernels then start without programmatic
 * dependent launch, which it does not know. */
extern int tidek_plain_launches;

/* Where kernels report a bad index. `taken` lies in device memory: the first thread that swaps it from 0 to 1 fills the
 * rest, which is pinned host memory that the device writes. The host clears `full`, then `taken`. */
typedef struct tidek_mailbox {
  volatile uint32_t full;
  uint32_t site;
  int32_t index_base, reserved;
  int64_t value, length;
} tidek_mailbox;

int tidek_elementwise_int32(cudaStream_t stream, const tide_elementwise_args *a);
int tidek_elementwise_int64(cudaStream_t stream, const tide_elementwise_args *a);
int tidek_elementwise_float32(cudaStream_t stream, const tide_elementwise_args *a);
int tidek_elementwise_float64(cudaStream_t stream, const tide_elementwise_args *a);
int tidek_elementwise_complex(cudaStream_t stream, const tide_elementwise_args *a);

int tidek_copy(cudaStream_t stream, const tide_copy_args *a);
int tidek_fill(cudaStream_t stream, const tide_fill_args *a);
int tidek_arange(cudaStream_t stream, const tide_arange_args *a);

size_t tidek_reduce_scratch(const tide_reduce_args *a, int sms);
int tidek_reduce(cudaStream_t stream, const tide_reduce_args *a, int sms, void *scratch);

size_t tidek_scan_scratch(const tide_scan_args *a);
int tidek_scan(cudaStream_t stream, const tide_scan_args *a, void *scratch);
size_t tidek_softmax_scratch(const tide_scan_args *a);
int tidek_softmax(cudaStream_t stream, const tide_scan_args *a, void *scratch);

int tidek_sort_scratch(size_t *bytes, const tide_sort_args *a);
int tidek_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch, size_t bytes);
int tidek_search(cudaStream_t stream, const tide_search_args *a);

int tidek_pad(cudaStream_t stream, const tide_pad_args *a);

size_t tidek_conv_scratch(const tide_conv_args *a);
int tidek_conv(cudaStream_t stream, const tide_conv_args *a, void *scratch);
int tidek_pairs(cudaStream_t stream, const tide_pairs_args *a);
int tidek_sample(cudaStream_t stream, const tide_sample_args *a);
int tidek_window(cudaStream_t stream, const tide_window_args *a);

int tidek_gemm_integer(cudaStream_t stream, const tide_gemm_args *a);
/* Of floating numbers: is the product smaller than what cuBLAS is for? */
bool tidek_gemm_is_small(const tide_gemm_args *a);
int tidek_gemm_small(cudaStream_t stream, const tide_gemm_args *a);

int tidek_gather(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox);
/* Only scatters that keep an order need it. */
int tidek_scatter_scratch(size_t *bytes, const tide_index_args *a);
int tidek_scatter(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox, int sms,
                  void *scratch, size_t bytes);
int tidek_locate(cudaStream_t stream, const tide_locate_args *a, uint32_t *taken, tidek_mailbox *mailbox);
int tidek_verify(cudaStream_t stream, const tide_verify_args *a, uint32_t *taken, tidek_mailbox *mailbox);
int tidek_mask_count(cudaStream_t stream, const tide_compact_args *a);
int tidek_compact(cudaStream_t stream, const tide_compact_args *a);

int tidek_random(cudaStream_t stream, const tide_random_args *a);
int tidek_randperm_scratch(size_t *bytes, const tide_randperm_args *a);
int tidek_randperm(cudaStream_t stream, const tide_randperm_args *a, void *scratch, size_t bytes);

/* A slot of pinned host memory that a waiting thread watches. */
typedef struct tidek_slot {
  uint32_t data[4];
  volatile uint32_t sequence;
  uint32_t reserved[11];
} tidek_slot;
/* Copies at most 16 bytes to the slot and then writes its sequence number. */
int tidek_tell(cudaStream_t stream, tidek_slot *slot, const void *src, size_t bytes, uint32_t sequence);
int tidek_sleep(cudaStream_t stream, int64_t cycles);

#ifdef __cplusplus
}
#endif
