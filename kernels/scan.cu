/* scan.cu: running sums, products and extremes along a dim; what is joined comes from scan.def.
 *
 * line_kernel    lines of neighbours (or nearly so): a warp takes a stretch of a line in 16-byte loads, a block a tile
 * of eight stretches; short lines get a warp each column_kernel  lines that lie side by side, or are very short: a
 * thread walks down its own Long lines are cut into tiles of a fixed length: a first launch writes every tile's total
 * to scratch memory, a second one makes of them what stands before each tile, and a third one scans. Blocks never wait
 * for each other, and what is joined with what depends on the sizes alone, so equal calls give equal bits.
 *
 * Invariant: a thread reads what it is going to overwrite before it writes, and nothing that others write. */
#include "opmath.cuh"
#include "base/special.h"
#include "tide/scan.h"
#include "tidek.h"

namespace tidek {

#define TIDEK_IN static __device__ __forceinline__

constexpr int THREADS = 256, WARPS = THREADS / 32, TOTAL_THREADS = 1024, ROWS = 128, ROWS_AHEAD = 8;
constexpr int64_t LEAST_COLUMNS = 32, SHORT_LINE = 32, ENOUGH_COLUMNS = (int64_t)1 << 18, MOST_BLOCKS = 0x7fffffff;

struct ScanArgs {
  void *out;
  const void *in;
  int64_t *places;
  void *totals; /* of tiles, or NULL where a line is one tile */
  int64_t outer, n, inner, tiles, lines;
  int32_t out_dtype, in_dtype, base, only_totals, vector_in, vector_out;
};

TIDEK_IN float tide_log_add(float a, float b) { return tide_log_add_f32(a, b); }
TIDEK_IN double tide_log_add(double a, double b) { return tide_log_add_f64(a, b); }

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

template <class A> TIDEK_IN A shuffle_up(const A &a, int by) {
  constexpr int WORDS = sizeof(A) / 4;
  union Words {
    A a;
    uint32_t w[WORDS];
    __device__ Words() {}
  } u;
  u.a = a;
#pragma unroll
  for (int i = 0; i < WORDS; i++) u.w[i] = __shfl_up_sync(0xffffffffu, u.w[i], by);
  return u.a;
}

/* What lanes before this one are together, and at `total`, of the last lane, what all are. */
template <class P> TIDEK_IN typename P::Acc warp_before(typename P::Acc acc, typename P::Acc &total) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    typename P::Acc other = shuffle_up(acc, by);
    if (lane >= by) acc = P::join(other, acc);
  }
  total = acc;
  typename P::Acc before = shuffle_up(acc, 1);
  return lane ? before : P::none();
}

/* The value of the last lane, for all of them. */
template <class A> TIDEK_IN A from_last(const A &a) {
  constexpr int WORDS = sizeof(A) / 4;
  union Words {
    A a;
    uint32_t w[WORDS];
    __device__ Words() {}
  } u;
  u.a = a;
#pragma unroll
  for (int i = 0; i < WORDS; i++) u.w[i] = __shfl_sync(0xffffffffu, u.w[i], 31);
  return u.a;
}

/* ---- lines ---- */

/* Steps of a warp, each of four elements a lane: as many as its registers hold well. */
template <class P> constexpr int steps_of() {
  return sizeof(typename P::Acc) <= 4 ? 8 : sizeof(typename P::Acc) <= 8 ? 4 : 2;
}
template <class P> constexpr int64_t stretch_of() { return steps_of<P>() * 128; }

template <class W> TIDEK_IN void load_four(W (&v)[4], const ScanArgs &a, int64_t line_at, int64_t i) {
  constexpr int N = sizeof(W) * 4 <= 16 ? 4 : 16 / sizeof(W);
  if (a.vector_in && i + 4 <= a.n) {
#pragma unroll
    for (int e = 0; e < 4; e += N) {
      Pack<W, N> pack = Pack<W, N>::load((const W *)a.in + line_at + i + e);
#pragma unroll
      for (int k = 0; k < N; k++) v[e + k] = pack.v[k];
    }
    return;
  }
  int64_t offset[4];
#pragma unroll
  for (int e = 0; e < 4; e++) offset[e] = line_at + (i + e < a.n ? i + e : a.n - 1) * a.inner;
  load_any(v, a.in, offset, a.in_dtype);
}

template <class W> TIDEK_IN void store_four(const W (&v)[4], const ScanArgs &a, int64_t line_at, int64_t i) {
  constexpr int N = sizeof(W) * 4 <= 16 ? 4 : 16 / sizeof(W);
  if (a.vector_out && i + 4 <= a.n) {
#pragma unroll
    for (int e = 0; e < 4; e += N) {
      Pack<W, N> pack;
#pragma unroll
      for (int k = 0; k < N; k++) pack.v[k] = v[e + k];
      pack.store((W *)a.out + line_at + i + e);
    }
    return;
  }
#pragma unroll 1
  for (int e = 0; e < 4; e++)
    if (i + e < a.n)
      store_any(a.out, line_at + (i + e) * a.inner, a.out_dtype, e == 0 ? v[0] : e == 1 ? v[1] : e == 2 ? v[2] : v[3]);
}

/* A warp's stretch of a line, from `from` on. */
template <class P> struct Stretch {
  using W = typename P::W;
  using Acc = typename P::Acc;
  static constexpr int STEPS = steps_of<P>();
  W v[STEPS][4];
  Acc before[STEPS], total; /* what stands before this lane's elements of a step within the stretch; of all */

  __device__ __forceinline__ void read(const ScanArgs &a, int64_t line_at, int64_t from) {
    int64_t first = from + threadIdx.x % 32 * 4;
#pragma unroll
    for (int s = 0; s < STEPS; s++)
      if (from + s * 128 < a.n) load_four(v[s], a, line_at, first + s * 128);
    total = P::none();
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      Acc mine = P::none(), all;
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (first + s * 128 + e < a.n) mine = P::join(mine, P::of(v[s][e], first + s * 128 + e));
      before[s] = P::join(total, warp_before<P>(mine, all));
      total = P::join(total, from_last(all));
    }
  }
  __device__ __forceinline__ void write(const ScanArgs &a, int64_t line_at, int64_t from, const Acc &ahead) {
    int64_t first = from + threadIdx.x % 32 * 4;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      int64_t i = first + s * 128;
      if (i >= a.n) continue;
      Acc acc = P::join(ahead, before[s]);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if (i + e < a.n) acc = P::join(acc, P::of(v[s][e], i + e));
        v[s][e] = P::value(acc);
        if (a.places && i + e < a.n) a.places[line_at + (i + e) * a.inner] = P::place(acc) + a.base;
      }
      store_four(v[s], a, line_at, i);
    }
  }
};

TIDEK_IN int64_t start_of_line(const ScanArgs &a, int64_t line) {
  return a.inner == 1 ? line * a.n : line / a.inner * a.n * a.inner + line % a.inner;
}

/* A warp for each line, which is one stretch. */
template <class P> __global__ void __launch_bounds__(THREADS) short_kernel(const __grid_constant__ ScanArgs a) {
  kernel_begin();
  for (int64_t line = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; line < a.lines;
       line += (int64_t)gridDim.x * WARPS) {
    Stretch<P> s;
    int64_t at = start_of_line(a, line);
    s.read(a, at, 0);
    s.write(a, at, 0, P::none());
  }
}

template <class P> __global__ void __launch_bounds__(THREADS) line_kernel(const __grid_constant__ ScanArgs a) {
  using Acc = typename P::Acc;
  kernel_begin();
  __shared__ alignas(16) char room[sizeof(Acc) * WARPS];
  Acc *totals = (Acc *)room;
  int warp = threadIdx.x / 32;
  for (int64_t block = blockIdx.x; block < a.lines * a.tiles; block += gridDim.x) {
    int64_t line = block / a.tiles, tile = block % a.tiles, at = start_of_line(a, line);
    int64_t from = (tile * WARPS + warp) * stretch_of<P>();
    Stretch<P> s;
    s.read(a, at, from);
    if (threadIdx.x % 32 == 0) totals[warp] = s.total;
    __syncthreads();
    Acc ahead = P::none();
    if (a.only_totals) {
      if (threadIdx.x == 0) {
        for (int w = 0; w < WARPS; w++) ahead = P::join(ahead, totals[w]);
        ((Acc *)a.totals)[block] = ahead;
      }
    } else {
      if (a.tiles > 1) ahead = ((const Acc *)a.totals)[block];
      for (int w = 0; w < warp; w++) ahead = P::join(ahead, totals[w]);
      s.write(a, at, from, ahead);
    }
    __syncthreads();
  }
}

/* The totals of a line's tiles become what stands before each of them; a block for each line. */
template <class P>
__global__ void __launch_bounds__(TOTAL_THREADS) line_totals_kernel(const __grid_constant__ ScanArgs a) {
  using Acc = typename P::Acc;
  kernel_begin();
  __shared__ alignas(16) char room[sizeof(Acc) * TOTAL_THREADS / 32];
  Acc *warps = (Acc *)room;
  int warp = threadIdx.x / 32;
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    Acc *totals = (Acc *)a.totals + line * a.tiles, carry = P::none();
    for (int64_t from = 0; from < a.tiles; from += TOTAL_THREADS) {
      int64_t i = from + threadIdx.x;
      Acc all, before = warp_before<P>(i < a.tiles ? totals[i] : P::none(), all);
      if (threadIdx.x % 32 == 31) warps[warp] = all;
      __syncthreads();
      Acc ahead = carry;
      for (int w = 0; w < TOTAL_THREADS / 32; w++) {
        if (w == warp) ahead = carry;
        carry = P::join(carry, warps[w]);
      }
      if (i < a.tiles) totals[i] = P::join(ahead, before);
      __syncthreads();
    }
  }
}

/* ---- columns ---- */

template <class P> __global__ void __launch_bounds__(THREADS) column_kernel(const __grid_constant__ ScanArgs a) {
  using W = typename P::W;
  using Acc = typename P::Acc;
  kernel_begin();
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.lines * a.tiles;
       i += (int64_t)gridDim.x * THREADS) {
    int64_t column = i % a.inner, rest = i / a.inner, tile = rest % a.tiles;
    int64_t at = rest / a.tiles * a.n * a.inner + column;
    int64_t row = a.tiles > 1 ? tile * ROWS : 0, end = a.tiles > 1 && row + ROWS < a.n ? row + ROWS : a.n;
    Acc acc = P::none();
    if (a.tiles > 1 && !a.only_totals) acc = ((const Acc *)a.totals)[i];
    for (; row < end; row += ROWS_AHEAD) {
      W v[ROWS_AHEAD];
      int64_t offset[ROWS_AHEAD];
#pragma unroll
      for (int e = 0; e < ROWS_AHEAD; e++) offset[e] = at + (row + e < end ? row + e : end - 1) * a.inner;
      load_any(v, a.in, offset, a.in_dtype);
#pragma unroll
      for (int e = 0; e < ROWS_AHEAD; e++) {
        if (row + e >= end) continue;
        acc = P::join(acc, P::of(v[e], row + e));
        if (a.only_totals) continue;
        store_any(a.out, offset[e], a.out_dtype, P::value(acc));
        if (a.places) a.places[offset[e]] = P::place(acc) + a.base;
      }
    }
    if (a.only_totals) ((Acc *)a.totals)[i] = acc;
  }
}

template <class P> __global__ void __launch_bounds__(THREADS) column_totals_kernel(const __grid_constant__ ScanArgs a) {
  using Acc = typename P::Acc;
  kernel_begin();
  for (int64_t line = (int64_t)blockIdx.x * THREADS + threadIdx.x; line < a.lines;
       line += (int64_t)gridDim.x * THREADS) {
    Acc *totals = (Acc *)a.totals + line / a.inner * a.tiles * a.inner + line % a.inner, carry = P::none();
    for (int64_t tile = 0; tile < a.tiles; tile += ROWS_AHEAD) {
      Acc next[ROWS_AHEAD];
#pragma unroll
      for (int e = 0; e < ROWS_AHEAD; e++) next[e] = tile + e < a.tiles ? totals[(tile + e) * a.inner] : P::none();
#pragma unroll
      for (int e = 0; e < ROWS_AHEAD; e++) {
        if (tile + e < a.tiles) totals[(tile + e) * a.inner] = carry;
        carry = P::join(carry, next[e]);
      }
    }
  }
}

/* ---- launching ---- */

/* The kernels of one scan in one work type. */
using ScanKernel = void (*)(const ScanArgs);
struct Scanner {
  ScanKernel brief, line, line_totals, column, column_totals;
  size_t acc_size;
  int64_t stretch;
};
template <class P> static Scanner scanner() {
  return {short_kernel<P>,         line_kernel<P>,          line_totals_kernel<P>, column_kernel<P>,
          column_totals_kernel<P>, sizeof(typename P::Acc), stretch_of<P>()};
}

template <template <class> class P> static Scanner works_CHOICE(int work) {
  return work == TIDE_FLOAT64 ? scanner<P<double>>() : work == TIDE_INT64 ? scanner<P<int64_t>>() : scanner<P<float>>();
}
template <template <class> class P> static Scanner works_FLOAT(int work) {
  return work == TIDE_FLOAT64 ? scanner<P<double>>() : scanner<P<float>>();
}
template <template <class> class P> static Scanner works_WIDE(int work) {
  if (work == TIDE_COMPLEX64) return scanner<P<complex64>>();
  if (work == TIDE_COMPLEX128) return scanner<P<complex128>>();
  return works_CHOICE<P>(work);
}

static Scanner (*const scanners[])(int work) = {
#define SCAN(NAME, name, rule, kind, none, join, doc) works_##rule<Scan_##name>,
#include "tide/scan.def"
};

static bool by_columns(const tide_scan_args *a) { return a->inner >= LEAST_COLUMNS || a->n <= SHORT_LINE; }

static int64_t tiles_of(const tide_scan_args *a, const Scanner &s) {
  if (!by_columns(a)) return ceil_div(a->n, s.stretch * WARPS);
  return a->n > 2 * ROWS && a->outer * a->inner < ENOUGH_COLUMNS ? ceil_div(a->n, ROWS) : 1;
}

static bool is_aligned(const void *p, int dtype, int work, int64_t n) {
  int bytes = dtype_bytes(work);
  return dtype == work && (uintptr_t)p % 16 == 0 && n * bytes % 16 == 0;
}

static int64_t grid(int64_t blocks) { return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS; }

} // namespace tidek

size_t tidek_scan_scratch(const tide_scan_args *a) {
  using namespace tidek;
  Scanner s = scanners[a->op](a->work);
  int64_t tiles = tiles_of(a, s);
  return tiles > 1 ? (size_t)(a->outer * a->inner * tiles) * s.acc_size : 0;
}

int tidek_scan(cudaStream_t stream, const tide_scan_args *a, void *scratch) {
  using namespace tidek;
  Scanner s = scanners[a->op](a->work);
  ScanArgs r = {};
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.places = (int64_t *)a->head.ptr[2], r.totals = scratch;
  r.outer = a->outer, r.n = a->n, r.inner = a->inner, r.lines = a->outer * a->inner, r.tiles = tiles_of(a, s);
  r.out_dtype = a->dtype[0], r.in_dtype = a->dtype[1], r.base = a->index_base;
  r.vector_in = a->inner == 1 && is_aligned(r.in, r.in_dtype, a->work, a->n);
  r.vector_out = a->inner == 1 && is_aligned(r.out, r.out_dtype, a->work, a->n);
  bool columns = by_columns(a);
  if (!columns && a->n <= s.stretch)
    return launch(s.brief, grid(ceil_div(r.lines, WARPS)), THREADS, stream, (const ScanArgs)r);
  int64_t blocks = grid(columns ? ceil_div(r.lines * r.tiles, THREADS) : r.lines * r.tiles);
  ScanKernel kernel = columns ? s.column : s.line;
  if (r.tiles > 1) {
    r.only_totals = 1;
    int rc = launch(kernel, blocks, THREADS, stream, (const ScanArgs)r);
    if (!rc && columns)
      rc = launch(s.column_totals, grid(ceil_div(r.lines, THREADS)), THREADS, stream, (const ScanArgs)r);
    if (!rc && !columns) rc = launch(s.line_totals, grid(r.lines), TOTAL_THREADS, stream, (const ScanArgs)r);
    if (rc) return rc;
    r.only_totals = 0;
  }
  return launch(kernel, blocks, THREADS, stream, (const ScanArgs)r);
}
