/* scan.cuh: what the kernels of scans share: what is joined, by scan.def, within warps and between blocks. */
#pragma once

#include "loops/opmath.cuh"
#include "tide/scan.h"
#include "tidek.h"

namespace tidek {

#define TIDEK_IN static __device__ __forceinline__

constexpr int THREADS = 256, WARPS = THREADS / 32;

struct ScanArgs {
  void *out;
  const void *in;
  int64_t *places;
  uint32_t *turn;         /* how many tiles have been taken; NULL where a line is one tile */
  uint64_t *tile, *group; /* what tiles and groups of them are together, in the words of publish() */
  int64_t outer, n, inner, tiles, groups, strips, lines;
  int32_t out_dtype, in_dtype, base, vector_in, vector_out;
};

/* ---- the policies: Acc is what is known of some elements ---- */

template <class W_> struct Placed {
  W_ v;
  int64_t at; /* in the line; below 0: of no element */
};

#define SCAN_VALUE(name, none_value, join_)                                                                            \
  template <class W_> struct Scan_##name {                                                                             \
    using W = W_;                                                                                                      \
    using Acc = W;                                                                                                     \
    TIDEK_IN Acc none() { return (W)(none_value); }                                                                    \
    TIDEK_IN Acc of(W x, int64_t) { return x; }                                                                        \
    TIDEK_IN Acc join(const Acc &a, const Acc &b) { return join_; }                                                    \
    TIDEK_IN W value(const Acc &a) { return a; }                                                                       \
    TIDEK_IN int64_t place(const Acc &) { return 0; }                                                                  \
  };
#define SCAN_COSTLY(name, none_value, join_) SCAN_VALUE(name, none_value, join_)
#define SCAN_PLACE(name, none_value, join_)                                                                            \
  template <class W_> struct Scan_##name {                                                                             \
    using W = W_;                                                                                                      \
    using Acc = Placed<W>;                                                                                             \
    TIDEK_IN Acc none() { return Acc{(W)(none_value), -1}; }                                                           \
    TIDEK_IN Acc of(W x, int64_t at) { return Acc{x, at}; }                                                            \
    TIDEK_IN bool takes(W a, W b) { return b != b || (a == a && (join_)); }                                            \
    TIDEK_IN Acc join(const Acc &a, const Acc &b) { return b.at >= 0 && (a.at < 0 || takes(a.v, b.v)) ? b : a; }       \
    TIDEK_IN W value(const Acc &a) { return a.v; }                                                                     \
    TIDEK_IN int64_t place(const Acc &a) { return a.at; }                                                              \
  };
#define SCAN(NAME, name, rule, kind, none, join, doc) SCAN_##kind(name, none, join)
#include "tide/scan.def"

template <class A> union Words {
  static constexpr int COUNT = sizeof(A) / 4;
  A a;
  uint32_t w[COUNT];
  __device__ Words() {}
};

/* The value of the lane `by` before this one, or of the lane of that number. */
template <bool UP, class A> TIDEK_IN A shuffled(const A &a, int by) {
  Words<A> u;
  u.a = a;
  TIDEK_EACH(i, u.COUNT) u.w[i] = UP ? __shfl_up_sync(0xffffffffu, u.w[i], by) : __shfl_sync(0xffffffffu, u.w[i], by);
  return u.a;
}

/* What lanes before this one are together, and at `total`, of the last lane, what all are. */
template <class P> TIDEK_IN typename P::Acc warp_before(typename P::Acc acc, typename P::Acc &total) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    typename P::Acc other = shuffled<true>(acc, by);
    if (lane >= by) acc = P::join(other, acc);
  }
  total = acc;
  typename P::Acc before = shuffled<true>(acc, 1);
  return lane ? before : P::none();
}

/* What all threads of a block are together, in their order; `room` has a place for each warp. */
template <class P> TIDEK_IN typename P::Acc block_join(const typename P::Acc &acc, typename P::Acc *room) {
  typename P::Acc all, joined = P::none();
  warp_before<P>(acc, all);
  if (threadIdx.x % 32 == 31) room[threadIdx.x / 32] = all;
  __syncthreads();
  for (int w = 0; w < (int)blockDim.x / 32; w++) joined = P::join(joined, room[w]);
  return joined;
}

/* ---- what other blocks are told: each word beside a one, in memory that began as zeros ---- */

template <class A> TIDEK_IN void publish(uint64_t *slots, int64_t i, const A &a) {
  Words<A> u;
  u.a = a;
  TIDEK_EACH(k, u.COUNT) ((volatile uint64_t *)slots)[i * u.COUNT + k] = (uint64_t)1 << 32 | u.w[k];
}

template <class A> TIDEK_IN A await(const uint64_t *slots, int64_t i) {
  Words<A> u;
  TIDEK_EACH(k, u.COUNT) {
    const volatile uint64_t *slot = slots + i * u.COUNT + k;
    uint64_t word = *slot;
    while (!(word >> 32)) {
#if __CUDA_ARCH__ >= 700
      __nanosleep(32);
#endif
      word = *slot;
    }
    u.w[k] = (uint32_t)word;
  }
  return u.a;
}

/* scan_long.cu: bytes of scratch; 0: the scan is none for its kernel. */
size_t scan_long_scratch(const tide_scan_args *a);
int scan_long(cudaStream_t stream, const tide_scan_args *a, void *scratch);

} // namespace tidek
