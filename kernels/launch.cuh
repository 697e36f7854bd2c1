/* launch.cuh: how every kernel of ours starts, and the index arithmetic that they share.
 *
 * Kernels are launched with programmatic dependent launch: the next kernel of a stream may be set up while this one
 * still runs, or waits. The invariant that makes this safe: every thread of every kernel calls kernel_begin() before it
 * touches global memory. That lets the next kernel in, which does likewise, and waits for the whole of the previous
 * one, with its writes, which in turn has waited for all before it. Library kernels and copies know nothing of this and
 * are ordered in full. */
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#include "base/plan.h"

/* A loop over the numbers below n that the compiler writes out. */
#define TIDEK_EACH(e, n) _Pragma("unroll") for (int e = 0; e < (n); e++)

namespace tidek {

static __device__ __forceinline__ void kernel_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

/* Set while a device is open that knows no dependent launch: before compute capability 9.0. */
extern "C" int tidek_plain_launches;

/* Launches kernel(args...) on the stream with so many bytes of shared memory; the types must be the kernel's own. */
template <class... P>
static inline int launch_shared(void (*kernel)(P...), int64_t blocks, unsigned threads, size_t shared,
                                cudaStream_t stream, P... args) {
  void *list[] = {(void *)&args...};
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = tidek_plain_launches ? 0 : 1;
  return (int)cudaLaunchKernelExC(&config, (const void *)kernel, list);
}

template <class... P>
static inline int launch(void (*kernel)(P...), int64_t blocks, unsigned threads, cudaStream_t stream, P... args) {
  return launch_shared(kernel, blocks, threads, 0, stream, args...);
}

/* Division by a number that is known at launch: one high multiplication, an addition and a shift; for n < 2^31.
 * Source: T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", PLDI 1994. */
struct Div {
  uint32_t d, mul, shift;
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, mul) + n) >> shift; }
  /* n becomes the quotient; returns the remainder. */
  __device__ __forceinline__ uint32_t split(uint32_t &n) const {
    uint32_t q = quotient(n), r = n - q * d;
    n = q;
    return r;
  }
};

static inline Div make_div(int64_t d) {
  Div out = {(uint32_t)d, 1, 0};
  while (((uint64_t)1 << out.shift) < (uint64_t)d) out.shift++;
  out.mul = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << out.shift) - (uint64_t)d)) / (uint64_t)d + 1);
  return out;
}

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t MAX_PIECE = (int64_t)1 << 30;

/* Calls f(args) for pieces of at most MAX_PIECE elements, so that kernels may count in 32 bits: halves the outermost
 * dim that can be. move(args, dim, count) advances the pointers of args by `count` along dim. */
template <class A, class M, class F> static int in_pieces(const A &a, M move, F f) {
  if (a.numel <= MAX_PIECE) return f(a);
  int d = 0;
  while (a.size[d] == 1) d++;
  A low = a, high = a;
  low.size[d] = a.size[d] / 2, high.size[d] = a.size[d] - low.size[d];
  low.numel = a.numel / a.size[d] * low.size[d], high.numel = a.numel - low.numel;
  move(high, d, low.size[d]);
  int rc = in_pieces(low, move, f);
  return rc ? rc : in_pieces(high, move, f);
}

/* Aligned bytes that move in one instruction. */
template <int BYTES> struct Raw;
template <> struct Raw<1> { using type = uint8_t; };
template <> struct Raw<2> { using type = uint16_t; };
template <> struct Raw<4> { using type = uint32_t; };
template <> struct Raw<8> { using type = uint2; };
template <> struct Raw<16> { using type = uint4; };

/* N elements moved at once. */
template <class S, int N> struct alignas(sizeof(S) * N) Pack {
  S v[N];
  static __device__ __forceinline__ Pack load(const S *p) {
    union {
      typename Raw<sizeof(S) * N>::type raw;
      Pack pack;
    } u;
    u.raw = *(const typename Raw<sizeof(S) * N>::type *)p;
    return u.pack;
  }
  __device__ __forceinline__ void store(S *p) const {
    union {
      typename Raw<sizeof(S) * N>::type raw;
      Pack pack;
    } u;
    u.pack = *this;
    *(typename Raw<sizeof(S) * N>::type *)p = u.raw;
  }
};

} // namespace tidek
