/* kernels.c: the kernel slots: enters the stream's device, gets scratch memory where a kernel wants some, launches.
 *
 * Scratch memory comes from core's allocator and goes back as soon as the work is queued: the block may then serve
 * later work of the same stream, which runs after this one.
 *
 * Invariant: a slot that fails has queued nothing that still needs its scratch memory. */
#include "internal.h"
#include "tidek_pack.h"

/* A slot whose launcher needs the stream and the arguments only. */
#define SLOT(name, args, launcher)                                                                                     \
  tide_status tide__cuda_##name(tide_stream *stream, const args *a) {                                                  \
    CUDA_ON_STREAM(s, cuda_stream_of(stream));                                                                         \
    return tide__cuda_check(s->device, #name, launcher(s->handle, a));                                                 \
  }

static int launch_elementwise(cudaStream_t stream, const tide_elementwise_args *a) {
  switch (a->compute) {
  case TIDE_FLOAT32: return tidek_elementwise_float32(stream, a);
  case TIDE_FLOAT64: return tidek_elementwise_float64(stream, a);
  case TIDE_INT32: return tidek_elementwise_int32(stream, a);
  case TIDE_INT64: return tidek_elementwise_int64(stream, a);
  default: return tidek_elementwise_complex(stream, a);
  }
}

SLOT(elementwise, tide_elementwise_args, launch_elementwise)
SLOT(copy, tide_copy_args, tidek_copy)
SLOT(fill, tide_fill_args, tidek_fill)
SLOT(arange, tide_arange_args, tidek_arange)
SLOT(random, tide_random_args, tidek_random)
SLOT(search, tide_search_args, tidek_search)
SLOT(mask_count, tide_compact_args, tidek_mask_count)
SLOT(compact, tide_compact_args, tidek_compact)
SLOT(pack, tide_pack_args, tidek_pack)
SLOT(pad, tide_pad_args, tidek_pad)
SLOT(window, tide_window_args, tidek_window)
SLOT(pairs, tide_pairs_args, tidek_pairs)
SLOT(sample, tide_sample_args, tidek_sample)

/* ---- with scratch memory ---- */

tide_status tide__cuda_reduce(tide_stream *stream, const tide_reduce_args *a) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  int sms = tide__cuda_devices[s->device].multiprocessors;
  CUDA_SCRATCH(scratch);
  TIDE_TRY(cuda_scratch_get(&scratch, stream, tidek_reduce_scratch(a, sms)));
  int rc = tidek_reduce(s->handle, a, sms, scratch.memory);
  if (rc != cudaErrorNotSupported) return tide__cuda_check(s->device, "reduce", rc);
  cudaGetLastError();
  return tide__cuda_host->fail(TIDE_SUPPORT, "reduce: operation %d does not accumulate in dtype %d on CUDA", a->op,
                               a->acc);
}

/* A slot whose kernel says by tidek_<name>_scratch how much it wants. */
#define SCRATCH_SLOT(name, args)                                                                                       \
  tide_status tide__cuda_##name(tide_stream *stream, const args *a) {                                                  \
    CUDA_ON_STREAM(s, cuda_stream_of(stream));                                                                         \
    size_t bytes = 0;                                                                                                  \
    CUDA_SCRATCH(scratch);                                                                                             \
    TIDE_TRY(tide__cuda_check(s->device, #name, tidek_##name##_scratch(&bytes, a)));                                   \
    TIDE_TRY(cuda_scratch_get(&scratch, stream, bytes ? bytes : 1));                                                   \
    return tide__cuda_check(s->device, #name, tidek_##name(s->handle, a, scratch.memory, bytes));                      \
  }
SCRATCH_SLOT(randperm, tide_randperm_args)
SCRATCH_SLOT(sort, tide_sort_args)

/* A slot that often wants none, and whose kernel cannot fail to say so. */
#define LINE_SLOT(name)                                                                                                \
  tide_status tide__cuda_##name(tide_stream *stream, const tide_scan_args *a) {                                        \
    CUDA_ON_STREAM(s, cuda_stream_of(stream));                                                                         \
    CUDA_SCRATCH(scratch);                                                                                             \
    TIDE_TRY(cuda_scratch_get(&scratch, stream, tidek_##name##_scratch(a)));                                           \
    return tide__cuda_check(s->device, #name, tidek_##name(s->handle, a, scratch.memory));                             \
  }
LINE_SLOT(scan)
LINE_SLOT(softmax)

/* ---- with a mailbox ---- */

#define MAILBOX_SLOT(name, args)                                                                                       \
  tide_status tide__cuda_##name(tide_stream *stream, const args *a) {                                                  \
    CUDA_ON_STREAM(s, cuda_stream_of(stream));                                                                         \
    uint32_t *taken;                                                                                                   \
    tidek_mailbox *mailbox;                                                                                            \
    TIDE_TRY(tide__cuda_mailbox(&taken, &mailbox, s->device));                                                         \
    return tide__cuda_check(s->device, #name, tidek_##name(s->handle, a, taken, mailbox));                             \
  }
MAILBOX_SLOT(gather, tide_index_args)
MAILBOX_SLOT(locate, tide_locate_args)
MAILBOX_SLOT(verify, tide_verify_args)

/* What keeps an order is sorted in scratch memory. */
tide_status tide__cuda_scatter(tide_stream *stream, const tide_index_args *a) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  int sms = tide__cuda_devices[s->device].multiprocessors;
  uint32_t *taken;
  tidek_mailbox *mailbox;
  size_t bytes = 0;
  CUDA_SCRATCH(scratch);
  TIDE_TRY(tide__cuda_check(s->device, "scatter", tidek_scatter_scratch(&bytes, a)));
  TIDE_TRY(cuda_scratch_get(&scratch, stream, bytes));
  TIDE_TRY(tide__cuda_mailbox(&taken, &mailbox, s->device));
  return tide__cuda_check(s->device, "scatter",
                          tidek_scatter(s->handle, a, taken, mailbox, sms, scratch.memory, bytes));
}
