/* indexed_order.cu: scatters in which values for one element meet in the order of the index, whatever the order in
 * which threads run.
 *
 * The element that each index stands for is a key; keys are sorted with the number of their step, and as the sort is
 * stable, equal keys stand in order. One thread then takes what belongs to an element, and, where the index stands
 * still along some dims, one for each element of these.
 *
 * Invariant: no two threads write one element. */
#include <cub/device/device_radix_sort.cuh>
#include <cstring>

#include "indexed.cuh"

namespace tidek {

/* The plan in two: the steps of the index, which are sorted, and the dims in which all of them are repeated. */
struct OrderArgs {
  IndexArgs index;    /* n: the steps */
  int64_t rows, bias; /* bias: what makes every offset at least 0 */
  uint64_t bad;
  int32_t nrow;
  int64_t row_size[TIDE_MAX_DIMS], row_stride[TIDE_MAX_DIMS][2]; /* dense, indexed */
};

static OrderArgs order_args(const IndexArgs &r) {
  OrderArgs o = {};
  o.index = r;
  o.index.ndim = 0, o.index.n = o.rows = 1;
  int64_t high = 0;
  for (int d = 0; d < r.ndim; d++) {
    bool repeats = r.stride[d][2] == 0 && (r.stride[d][1] != 0 || r.size[d] == 1);
    if (repeats) {
      o.row_size[o.nrow] = r.size[d];
      o.row_stride[o.nrow][0] = r.stride[d][0], o.row_stride[o.nrow++][1] = r.stride[d][1];
      o.rows *= r.size[d];
      continue;
    }
    int64_t far = (r.size[d] - 1) * r.stride[d][1];
    (far < 0 ? o.bias : high) += far < 0 ? -far : far;
    o.index.size[o.index.ndim] = r.size[d];
    memcpy(o.index.stride[o.index.ndim++], r.stride[d], sizeof r.stride[d]);
    o.index.n *= r.size[d];
  }
  int64_t far = (r.length - 1) * r.pitch;
  (far < 0 ? o.bias : high) += far < 0 ? -far : far;
  o.bad = (uint64_t)(o.bias + high + 1);
  return o;
}

static int bits_of(uint64_t value) {
  int n = 0;
  for (; value; value >>= 1) n++;
  return n;
}

template <bool BINS>
__global__ void __launch_bounds__(INDEX_THREADS)
    keys_kernel(const __grid_constant__ OrderArgs a, unsigned long long *key, int64_t *step) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;
  if (i >= a.index.n) return;
  Offsets o = offsets_of(a.index, i);
  IndexValue<BINS> value = load_value<BINS>(a.index, o.index);
  int64_t at = place_of(a.index, value);
  if (at < 0) report_index(a.index, value);
  key[i] = at < 0 ? a.bad : (unsigned long long)(o.indexed + at * a.index.pitch + a.bias);
  step[i] = i;
}

/* Where element i of the sorted list goes, if it is the first of its key: else `first` is false. */
struct Segment {
  bool first;
  int64_t at, dense, to;
  unsigned long long key;
};

static __device__ __forceinline__ Segment segment_of(const OrderArgs &a, const unsigned long long *key) {
  int64_t i = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;
  Segment s = {};
  if (i >= a.index.n * a.rows) return s;
  int64_t row = 0;
  s.at = i;
  if (a.rows > 1) s.at = divide(i, a.rows), row = i - s.at * a.rows;
  s.key = key[s.at];
  s.first = s.key != a.bad && (s.at == 0 || key[s.at - 1] != s.key);
  for (int d = a.nrow - 1; d >= 0; d--) {
    int64_t q = d ? divide(row, a.row_size[d]) : 0, r = row - q * a.row_size[d];
    s.dense += r * a.row_stride[d][0], s.to += r * a.row_stride[d][1];
    row = q;
  }
  s.to += (int64_t)s.key - a.bias;
  return s;
}

/* Words of any dtype: the last one of each key. */
template <class W>
__global__ void __launch_bounds__(INDEX_THREADS)
    last_kernel(const __grid_constant__ OrderArgs a, const unsigned long long *key, const int64_t *step) {
  kernel_begin();
  Segment s = segment_of(a, key);
  if (!s.first) return;
  int64_t low = s.at, high = a.index.n; /* key[low] is ours, key[high] is not */
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (key[middle] == s.key ? low : high) = middle;
  }
  ((W *)a.index.to)[s.to] = ((const W *)a.index.from)[s.dense + offsets_of(a.index, step[low]).dense];
}

template <int REDUCE, class T> static __device__ __forceinline__ T meet(T a, T b) {
  if constexpr (is_complex<T>::value)
    return REDUCE == TIDE_INDEX_SUM ? T(a.re + b.re, a.im + b.im)
                                    : T(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  else
    return REDUCE == TIDE_INDEX_SUM ? a + b : a * b;
}

template <class T> static __device__ __forceinline__ T from_lane(T value, int lane) {
  if constexpr (is_complex<T>::value)
    return T(__shfl_sync(0xffffffffu, value.re, lane), __shfl_sync(0xffffffffu, value.im, lane));
  else
    return __shfl_sync(0xffffffffu, value, lane);
}

/* Sums and products, of values of S, as D is. A thread takes the first few values of its key; what is left of a long
 * one is loaded by the whole warp, which joins it in order too. */
template <class S, class D, int REDUCE>
__global__ void __launch_bounds__(INDEX_THREADS)
    segments_kernel(const __grid_constant__ OrderArgs a, const unsigned long long *key, const int64_t *step) {
  kernel_begin();
  constexpr int FEW = 16;
  using T = decltype(plain(D()));
  Segment s = segment_of(a, key);
  const S *from = (const S *)a.index.from;
  D *p = (D *)a.index.to + s.to;
  T sum = T(0);
  bool more = s.first;
  if (s.first) {
    sum = plain(*p);
    for (int k = 0; k < FEW && more; k++) {
      sum = meet<REDUCE>(sum, cast<T>(from[s.dense + offsets_of(a.index, step[s.at]).dense]));
      s.at++;
      more = s.at < a.index.n && key[s.at] == s.key;
    }
  }
  int lane = threadIdx.x % 32;
  for (unsigned left = __ballot_sync(0xffffffffu, more); left; left &= left - 1) {
    int owner = __ffs(left) - 1;
    unsigned long long whose = __shfl_sync(0xffffffffu, s.key, owner);
    int64_t at = __shfl_sync(0xffffffffu, s.at, owner), dense = __shfl_sync(0xffffffffu, s.dense, owner);
    T whole = from_lane(sum, owner);
    for (int count = 32; count == 32; at += 32) {
      bool ours = at + lane < a.index.n && key[at + lane] == whose;
      T value = T(0);
      if (ours) value = cast<T>(from[dense + offsets_of(a.index, step[at + lane]).dense]);
      count = __popc(__ballot_sync(0xffffffffu, ours)); /* equal keys stand together: the first lanes */
      for (int k = 0; k < count; k++) whole = meet<REDUCE>(whole, from_lane(value, k));
    }
    if (lane == owner) sum = whole;
  }
  if (s.first) *p = cast<D>(sum);
}

static cudaError_t sort_keys(void *scratch, size_t &bytes, cub::DoubleBuffer<unsigned long long> &key,
                             cub::DoubleBuffer<int64_t> &step, int64_t n, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, key, step, n, 0, bits, stream);
}

/* In scratch memory: both lists twice, each at a multiple of 256 bytes, and what the sort needs. */
static size_t list_bytes(int64_t n) { return ((size_t)n * 8 + 255) / 256 * 256; }

cudaError_t order_scratch(size_t &bytes, const tide_index_args *a) {
  bool no_atomics = a->reduce == TIDE_INDEX_PROD && a->dtype == TIDE_COMPLEX128;
  if (!a->ordered && !no_atomics) return cudaSuccess;
  OrderArgs o = order_args(index_args(a, nullptr, nullptr));
  cub::DoubleBuffer<unsigned long long> key;
  cub::DoubleBuffer<int64_t> step;
  size_t sort = 0;
  cudaError_t rc = sort_keys(nullptr, sort, key, step, o.index.n, bits_of(o.bad), nullptr);
  bytes = 4 * list_bytes(o.index.n) + sort;
  return rc;
}

using Segments = void (*)(const OrderArgs, const unsigned long long *, const int64_t *);

template <class S, class D = S> static Segments choose(int reduce) {
  return reduce == TIDE_INDEX_SUM ? segments_kernel<S, D, TIDE_INDEX_SUM> : segments_kernel<S, D, TIDE_INDEX_PROD>;
}

static Segments segments_of(const tide_index_args *a) {
  if (a->reduce == TIDE_INDEX_WRITE) switch (a->item_size) {
    case 1: return last_kernel<uint8_t>;
    case 2: return last_kernel<uint16_t>;
    case 4: return last_kernel<uint32_t>;
    case 8: return last_kernel<uint2>;
    default: return last_kernel<uint4>;
    }
  switch (a->narrow) {
  case TIDE_FLOAT16: return choose<half, float>(a->reduce);
  case TIDE_BFLOAT16: return choose<bfloat16, float>(a->reduce);
  case TIDE_FLOAT32: return choose<float, double>(a->reduce);
  case TIDE_COMPLEX64: return choose<complex64, complex128>(a->reduce);
  default: break;
  }
  switch (a->dtype) { /* whole numbers come out the same in any order */
  case TIDE_FLOAT16: return choose<half>(a->reduce);
  case TIDE_BFLOAT16: return choose<bfloat16>(a->reduce);
  case TIDE_FLOAT32: return choose<float>(a->reduce);
  case TIDE_FLOAT64: return choose<double>(a->reduce);
  case TIDE_COMPLEX64: return choose<complex64>(a->reduce);
  default: return choose<complex128>(a->reduce);
  }
}

int launch_ordered(cudaStream_t stream, const IndexArgs &r, const tide_index_args *a, void *scratch, size_t bytes) {
  OrderArgs o = order_args(r);
  size_t list = list_bytes(o.index.n), sort = bytes - 4 * list;
  char *room = (char *)scratch;
  cub::DoubleBuffer<unsigned long long> key((unsigned long long *)room, (unsigned long long *)(room + list));
  cub::DoubleBuffer<int64_t> step((int64_t *)(room + 2 * list), (int64_t *)(room + 3 * list));
  int rc = launch(r.bins ? keys_kernel<true> : keys_kernel<false>, ceil_div(o.index.n, INDEX_THREADS), INDEX_THREADS,
                  stream, (const OrderArgs)o, key.Current(), step.Current());
  if (rc) return rc;
  rc = (int)sort_keys(room + 4 * list, sort, key, step, o.index.n, bits_of(o.bad), stream);
  if (rc) return rc;
  return launch(segments_of(a), ceil_div(o.index.n * o.rows, INDEX_THREADS), INDEX_THREADS, stream, (const OrderArgs)o,
                (const unsigned long long *)key.Current(), (const int64_t *)step.Current());
}

} // namespace tidek
