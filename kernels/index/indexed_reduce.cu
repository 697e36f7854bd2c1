/* indexed_reduce.cu: scatters in which values join what is there, by atomic operations, in any order.
 *
 * Sums go straight to memory, of float32 and 16-bit floats several neighbours at once where the index stands still
 * along a row. Where all values fall on few places, each block sums in shared memory first, in as many copies as fit;
 * values of a warp for one place are joined before; what is merely counted is indexed_count.cu's. What the hardware has
 * no operation for is exchanged until it fits. The values, of type S, may be narrower than what they join, of type D.
 *
 * Invariant: products of complex128 do not come here: 16 bytes cannot be exchanged everywhere. */
#include <algorithm>
#include <cstring>

#include "indexed.cuh"

namespace tidek {

/* ---- one value joins another ---- */

template <int REDUCE, class T> static __device__ __forceinline__ T joined(T a, T b) {
  if constexpr (REDUCE == TIDE_INDEX_SUM) {
    if constexpr (is_complex<T>::value)
      return T(a.re + b.re, a.im + b.im);
    else
      return a + b;
  } else if constexpr (REDUCE == TIDE_INDEX_PROD) {
    if constexpr (is_complex<T>::value)
      return T(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
    else
      return a * b;
  } else if constexpr (REDUCE == TIDE_INDEX_MAX) {
    return a >= b || a != a ? a : b;
  } else {
    return a <= b || a != a ? a : b;
  }
}

/* Until nobody has come in between, or nothing changes. U: the word that is exchanged, S lies `shift` bits up in it. */
template <int REDUCE, class S, class U> static __device__ __forceinline__ void exchange(U *word, int shift, S value) {
  U seen = *(volatile U *)word, before,
    mask = sizeof(S) == sizeof(U) ? (U) ~(U)0 : (((U)1 << (8 * sizeof(S) % 64)) - 1);
  mask <<= shift;
  do {
    before = seen;
    U bits = (before & mask) >> shift, made = 0;
    S now;
    memcpy(&now, &bits, sizeof now);
    now = cast<S>(joined<REDUCE>(plain(now), plain(value)));
    memcpy(&made, &now, sizeof now);
    made = (before & ~mask) | (made << shift);
    if (made == before) return;
    seen = atomicCAS(word, before, made);
  } while (seen != before);
}

template <int REDUCE, class S> static __device__ __forceinline__ void exchange_at(S *p, S value) {
  if constexpr (sizeof(S) == 8) {
    exchange<REDUCE, S, unsigned long long>((unsigned long long *)p, 0, value);
  } else {
    uintptr_t at = (uintptr_t)p;
    exchange<REDUCE, S, unsigned>((unsigned *)(at & ~(uintptr_t)3), 8 * (int)(at & 3), value);
  }
}

static __device__ __forceinline__ void add(float *p, float v) { atomicAdd(p, v); }
static __device__ __forceinline__ void add(double *p, double v) { atomicAdd(p, v); }
static __device__ __forceinline__ void add(int32_t *p, int32_t v) { atomicAdd(p, v); }
static __device__ __forceinline__ void add(unsigned long long *p, unsigned long long v) { atomicAdd(p, v); }
static __device__ __forceinline__ void add(half *p, half v) { atomicAdd(p, v); }
static __device__ __forceinline__ void add(bfloat16 *p, bfloat16 v) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(p, v);
#else
  exchange_at<TIDE_INDEX_SUM>(p, v);
#endif
}
static __device__ __forceinline__ void add(Bool *p, Bool v) {
  if (v.v) p->v = 1;
}
template <class S> static __device__ __forceinline__ void add(S *p, S v) { exchange_at<TIDE_INDEX_SUM>(p, v); }

/* To global memory, without an answer: beside a fence, as in report(), atomicAdd asks for one that nobody wants. */
static __device__ __forceinline__ void send(float *p, float v) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "f"(v) : "memory");
}
static __device__ __forceinline__ void send(double *p, double v) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "d"(v) : "memory");
}
static __device__ __forceinline__ void send(int32_t *p, int32_t v) {
  asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v) : "memory");
}
static __device__ __forceinline__ void send(int64_t *p, int64_t v) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
}
template <class T> static __device__ __forceinline__ void send(Complex<T> *p, Complex<T> v) {
  send(&p->re, v.re);
  send(&p->im, v.im);
}
template <class S> static __device__ __forceinline__ void send(S *p, S v) { add(p, v); }

template <int REDUCE, class S> static __device__ __forceinline__ void join_atomic(S *p, S v) {
  if constexpr (REDUCE == TIDE_INDEX_SUM)
    send(p, v);
  else if constexpr (std::is_same_v<S, int32_t> && REDUCE == TIDE_INDEX_MAX)
    atomicMax(p, v);
  else if constexpr (std::is_same_v<S, int32_t> && REDUCE == TIDE_INDEX_MIN)
    atomicMin(p, v);
  else if constexpr (std::is_same_v<S, int64_t> && REDUCE == TIDE_INDEX_MAX)
    atomicMax((long long *)p, (long long)v);
  else if constexpr (std::is_same_v<S, int64_t> && REDUCE == TIDE_INDEX_MIN)
    atomicMin((long long *)p, (long long)v);
  else if constexpr (std::is_same_v<S, Bool>) {
    if constexpr (REDUCE == TIDE_INDEX_MAX) {
      if (v.v) p->v = 1;
    } else {
      if (!v.v) p->v = 0;
    }
  } else
    exchange_at<REDUCE>(p, v);
}

/* Neighbours at once, where the hardware can. */
template <int N, class S> static __device__ __forceinline__ void send_pack(S *p, const Pack<S, N> &v) {
  [[maybe_unused]] size_t to = __cvta_generic_to_global(p);
#if __CUDA_ARCH__ >= 900
  if constexpr (sizeof(S) > 4) {
#  pragma unroll
    for (int k = 0; k < N; k++) send(p + k, v.v[k]);
  } else if constexpr (std::is_same_v<S, float>) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.v[0]), "f"(v.v[1]),
                 "f"(v.v[2]), "f"(v.v[3])
                 : "memory");
  } else {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if constexpr (std::is_same_v<S, half>)
      asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(to), "r"(bits) : "memory");
    else
      asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(to), "r"(bits) : "memory");
  }
#else
#  pragma unroll
  for (int k = 0; k < N; k++) send(p + k, v.v[k]);
#endif
}

/* ---- straight to memory ---- */

/* Where N > 1 all sizes and strides count packs of N. */
template <class S, class D, int N, int REDUCE, bool BINS>
__global__ void __launch_bounds__(INDEX_THREADS) reduce_kernel(const __grid_constant__ IndexArgs a) {
  kernel_begin();
  constexpr int EACH = INDEX_EACH;
  int64_t start = (int64_t)blockIdx.x * (INDEX_THREADS * EACH) + threadIdx.x, to[EACH];
  IndexValue<BINS> index[EACH];
  Pack<S, N> value[EACH];
  TIDEK_EACH(e, EACH) {
    int64_t i = start + e * INDEX_THREADS;
    Offsets o = offsets_of(a, i < a.n ? i : a.n - 1);
    index[e] = load_value<BINS>(a, o.index), to[e] = o.indexed;
    value[e] = Pack<S, N>::load((const S *)a.from + o.dense * N);
  }
  TIDEK_EACH(e, EACH) {
    if (start + e * INDEX_THREADS >= a.n) break;
    int64_t at = place_of(a, index[e]);
    if (at < 0) {
      report_index(a, index[e]);
      continue;
    }
    D *p = (D *)a.to + (to[e] + at * a.pitch) * N;
    Pack<D, N> joins;
    TIDEK_EACH(k, N) joins.v[k] = cast<D>(value[e].v[k]);
    if constexpr (N > 1)
      send_pack<N>(p, joins);
    else
      join_atomic<REDUCE>(p, joins.v[0]);
  }
}

template <class S, class D, int N, int REDUCE, bool BINS>
static int launch_straight(cudaStream_t stream, const IndexArgs &r) {
  return launch(reduce_kernel<S, D, N, REDUCE, BINS>, ceil_div(r.n, INDEX_THREADS * INDEX_EACH), INDEX_THREADS, stream,
                (const IndexArgs)r);
}

/* ---- few places: shared memory first ---- */

/* The copies of a place lie side by side, in banks of their own, and neighbouring threads use different ones. */
constexpr int FEW_THREADS = 512, FEW_BYTES = 40960, FEW_COPIES = 64;

/* What sums of S are kept in by a block. Those of float32 that end in float64 are short: float32, too. */
template <class S> struct wide_of { using type = void; };
template <> struct wide_of<uint8_t> { using type = unsigned long long; };
template <> struct wide_of<int8_t> { using type = unsigned long long; };
template <> struct wide_of<int16_t> { using type = unsigned long long; };
template <> struct wide_of<float> { using type = float; };
template <> struct wide_of<half> { using type = float; };
template <> struct wide_of<bfloat16> { using type = float; };
template <> struct wide_of<double> { using type = double; };
template <> struct wide_of<int32_t> { using type = int32_t; };
template <> struct wide_of<int64_t> { using type = unsigned long long; };

template <class S, class D, class T, bool BINS>
__global__ void __launch_bounds__(FEW_THREADS) few_kernel(const __grid_constant__ IndexArgs a, int copies) {
  extern __shared__ __align__(16) unsigned char room[];
  kernel_begin();
  constexpr int EACH = INDEX_EACH;
  T *sums = (T *)room, *own = sums + threadIdx.x % copies;
  for (int64_t k = threadIdx.x; k < copies * a.length; k += FEW_THREADS) sums[k] = 0;
  __syncthreads();
  /* All threads of a warp take as many turns. */
  int64_t step = (int64_t)gridDim.x * (FEW_THREADS * EACH);
  for (int64_t first = (int64_t)blockIdx.x * (FEW_THREADS * EACH); first < a.n; first += step) {
    IndexValue<BINS> index[EACH];
    T value[EACH];
    TIDEK_EACH(e, EACH) {
      int64_t i = first + e * FEW_THREADS + threadIdx.x;
      Offsets o = offsets_of(a, i < a.n ? i : a.n - 1);
      index[e] = load_value<BINS>(a, o.index);
      value[e] = (T)plain(((const S *)a.from)[o.dense]);
    }
    TIDEK_EACH(e, EACH) {
      bool there = first + e * FEW_THREADS + threadIdx.x < a.n;
      int32_t place = there ? (int32_t)place_of(a, index[e]) : -1;
      if (there && place < 0) report_index(a, index[e]);
      int32_t leader = __shfl_sync(0xffffffffu, place, 0);
      if (__all_sync(0xffffffffu, place == leader)) {
        T sum = there ? value[e] : (T)0;
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (leader >= 0 && threadIdx.x % 32 == 0) add(own + leader * copies, sum);
      } else if (place >= 0) {
        add(own + place * copies, value[e]);
      }
    }
  }
  __syncthreads();
  for (int64_t k = threadIdx.x; k < a.length; k += FEW_THREADS) {
    T sum = 0;
    for (int c = 0; c < copies; c++) sum += sums[k * copies + (c + k) % copies];
    if (sum == 0) continue; /* NaN is not */
    send((D *)a.to + k * a.pitch, cast<D>(sum));
  }
}

/* Do all values fall on one line of few places, and are they many? */
template <class T> static bool takes_few(const IndexArgs &r) {
  if (r.length * (int64_t)sizeof(T) > FEW_BYTES || r.n < 32768 || r.n / r.length < 64) return false;
  for (int d = 0; d < r.ndim; d++)
    if (r.size[d] > 1 && r.stride[d][1] != 0) return false;
  return true;
}

/* False where it is not for this kernel. */
template <class S, class D, bool BINS> static bool try_few(int &rc, cudaStream_t stream, const IndexArgs &r, int sms) {
  using T = std::conditional_t<std::is_same_v<D, int64_t>, unsigned long long, typename wide_of<S>::type>;
  if constexpr (!std::is_void_v<T>) {
    if (!takes_few<T>(r)) return false;
    int64_t each = r.length * (int64_t)sizeof(T), copies = std::min<int64_t>(FEW_COPIES, FEW_BYTES / each);
    if (copies > 32) copies = copies / 32 * 32;
    int64_t most = std::max<int64_t>(1, r.n / std::max<int64_t>(4 * r.length, FEW_THREADS * INDEX_EACH));
    int64_t blocks = std::min<int64_t>(4 * (int64_t)sms, most);
    rc = launch_shared(few_kernel<S, D, T, BINS>, blocks, FEW_THREADS, (size_t)(copies * each), stream,
                       (const IndexArgs)r, (int)copies);
    return true;
  } else {
    return false;
  }
}

/* ---- which kernel ---- */

template <class S, class D> static int launch_sum(cudaStream_t stream, IndexArgs r, int sms) {
  constexpr bool can_bin = std::is_same_v<S, int64_t> || std::is_same_v<S, float> || std::is_same_v<S, double> ||
                           std::is_same_v<S, half> || std::is_same_v<S, bfloat16>;
  int rc = 0;
  if constexpr (std::is_same_v<S, int64_t>)
    if (try_count(rc, stream, r, sms)) return rc;
  if constexpr (can_bin)
    if (r.bins)
      return try_few<S, D, true>(rc, stream, r, sms) ? rc : launch_straight<S, D, 1, TIDE_INDEX_SUM, true>(stream, r);
  if (try_few<S, D, false>(rc, stream, r, sms)) return rc;
  constexpr bool halves = std::is_same_v<S, half> || std::is_same_v<S, bfloat16>;
  constexpr int N = std::is_same_v<S, float> || (halves && sizeof(D) == 4) ? 4 : halves ? 2 : 1;
  if constexpr (N > 1) /* a red of four float32 needs 16 bytes */
    if (widen(r, N, N * (int64_t)sizeof(D) > 16 ? 16 : N * (int64_t)sizeof(D), N * (int64_t)sizeof(S)))
      return launch_straight<S, D, N, TIDE_INDEX_SUM, false>(stream, r);
  return launch_straight<S, D, 1, TIDE_INDEX_SUM, false>(stream, r);
}

template <class S> static int launch_kind(cudaStream_t stream, const IndexArgs &r, int reduce, int sms) {
  if (reduce == TIDE_INDEX_SUM) return launch_sum<S, S>(stream, r, sms);
  if constexpr (sizeof(S) < 16)
    if (reduce == TIDE_INDEX_PROD) return launch_straight<S, S, 1, TIDE_INDEX_PROD, false>(stream, r);
  if constexpr (!is_complex<S>::value) {
    if (reduce == TIDE_INDEX_MAX) return launch_straight<S, S, 1, TIDE_INDEX_MAX, false>(stream, r);
    if (reduce == TIDE_INDEX_MIN) return launch_straight<S, S, 1, TIDE_INDEX_MIN, false>(stream, r);
  }
  return (int)cudaErrorNotSupported;
}

template <class S, class D> static int launch_narrow(cudaStream_t stream, const IndexArgs &r, int reduce, int sms) {
  if (reduce == TIDE_INDEX_SUM) return launch_sum<S, D>(stream, r, sms);
  if constexpr (std::is_floating_point_v<D>)
    if (reduce == TIDE_INDEX_PROD) return launch_straight<S, D, 1, TIDE_INDEX_PROD, false>(stream, r);
  return (int)cudaErrorNotSupported;
}

int launch_reduce(cudaStream_t stream, IndexArgs r, int dtype, int narrow, int reduce, int sms) {
  switch (narrow) { /* each is summed in one dtype */
  case 0: break;
  case TIDE_UINT8: return launch_narrow<uint8_t, int64_t>(stream, r, reduce, sms);
  case TIDE_INT8: return launch_narrow<int8_t, int64_t>(stream, r, reduce, sms);
  case TIDE_INT16: return launch_narrow<int16_t, int64_t>(stream, r, reduce, sms);
  case TIDE_INT32: return launch_narrow<int32_t, int64_t>(stream, r, reduce, sms);
  case TIDE_FLOAT16: return launch_narrow<half, float>(stream, r, reduce, sms);
  case TIDE_BFLOAT16: return launch_narrow<bfloat16, float>(stream, r, reduce, sms);
  case TIDE_FLOAT32: return launch_narrow<float, double>(stream, r, reduce, sms);
  default: return launch_narrow<complex64, complex128>(stream, r, reduce, sms);
  }
  switch (dtype) {
#define X(NAME, S)                                                                                                     \
  case NAME: return launch_kind<S>(stream, r, reduce, sms);
    TIDEK_STORAGES(X)
#undef X
  }
  return (int)cudaErrorNotSupported;
}

} // namespace tidek
