/* softmax.cu: exp(x) / sum(exp(x)) along a dim, and its logarithm, worked on as float or double.
 *
 * warp_kernel    rows of neighbours that a warp, or some lanes of one, hold in registers
 * block_kernel   rows that a block holds in registers
 * online_kernel  longer rows, a block for each: the largest element and the sum below it are found in one pass, the sum
 *                being scaled when a larger one comes, and a second one, from the end, writes
 * tile_kernel    the same where rows are few: a first launch writes what every tile of a row is to scratch memory, a
 *                second one joins those of its row, always in the same order, and writes
 * column_kernel  rows that lie side by side: the threads of a warp take neighbours, and the warps of a block, or parts
 *                of them where rows are few, share the elements of a row; what registers hold is read once
 *
 * Invariant: what is added in what order depends on the sizes alone. A thread reads what it overwrites before it
 * writes, and nothing that others write. */
#include "types.cuh"
#include "tidek.h"

namespace tidek {

#define TIDEK_IN static __device__ __forceinline__

constexpr int THREADS = 256, ROW_THREADS = 512, ONLINE_THREADS = 512, COLUMN_THREADS = 512;
constexpr int64_t TILE = 16384, FEW_LINES = 256, MOST_BLOCKS = 0x7fffffff, MOST_TILES = 1024;

struct SoftmaxArgs {
  void *out;
  const void *in;
  void *parts; /* State of every tile of every line */
  int64_t outer, n, inner, lines, tile, tiles;
  int32_t logarithm, lanes, columns, strips; /* lanes of a warp to a line; columns side by side in a block */
};

/* float for 16-bit floats; PER: elements that a thread holds. */
template <class S> struct work_of { using type = float; };
template <> struct work_of<double> { using type = double; };
template <class S> using Work = typename work_of<S>::type;
template <class S> constexpr int held() { return 128 / (int)sizeof(Work<S>); }
template <class S> constexpr int wide() { return 16 / (int)sizeof(S); }

/* The largest of some elements, and the sum of exp(x - most). */
template <class W> struct State { W most, sum; };

TIDEK_IN float largest(float a, float b) { return fmaxf(a, b); }
TIDEK_IN double largest(double a, double b) { return fmax(a, b); }
TIDEK_IN float power(float x) { return expf(x); }
TIDEK_IN double power(double x) { return exp(x); }
TIDEK_IN float logarithm_of(float x) { return logf(x); }
TIDEK_IN double logarithm_of(double x) { return log(x); }
template <class W> TIDEK_IN W lowest() { return -(W)INFINITY; }

/* Of elements that are all -inf nothing is known yet: their sum counts for nothing beside others. */
template <class W> TIDEK_IN State<W> join(State<W> a, State<W> b) {
  W most = largest(a.most, b.most);
  if (most == lowest<W>()) return State<W>{most, a.sum + b.sum};
  return State<W>{most, a.sum * power(a.most - most) + b.sum * power(b.most - most)};
}

template <class W> TIDEK_IN W shuffled(W x, int by) { return __shfl_xor_sync(0xffffffffu, x, by); }

/* What a line's elements become: one operation with this. */
template <class W> struct Ending {
  W most, by; /* the logarithm of the sum, or 1 / sum */
  int32_t logarithm;
  __device__ __forceinline__ Ending(State<W> s, int32_t logarithm_)
      : most(s.most), by(logarithm_ ? logarithm_of(s.sum) : (W)1 / s.sum), logarithm(logarithm_) {}
  __device__ __forceinline__ W of(W x) const { return logarithm ? x - most - by : power(x - most) * by; }
};

/* V neighbours of memory; V is 1 where they may not be aligned. */
template <class S, int V> TIDEK_IN void load(Work<S> *to, const S *from) {
  Pack<S, V> pack = Pack<S, V>::load(from);
  TIDEK_EACH(k, V) to[k] = cast<Work<S>>(pack.v[k]);
}
template <class S, int V> TIDEK_IN void store(S *to, const Work<S> *from) {
  Pack<S, V> pack;
  TIDEK_EACH(k, V) pack.v[k] = cast<S>(from[k]);
  pack.store(to);
}

/* Element e of those that a thread holds, of `threads` that hold a line. */
template <int V> TIDEK_IN int place(int e, int thread, int threads) { return (e / V * threads + thread) * V + e % V; }

/* The elements of a line that a thread of several holds: E of them. */
template <class S, int V, int E> struct Held {
  using W = Work<S>;
  W v[E];
  /* What is beyond the end is -inf, which adds nothing. */
  __device__ __forceinline__ W read(const S *line, int n, int thread, int threads) {
    W most = lowest<W>();
#pragma unroll
    for (int e = 0; e < E; e += V) {
      if (place<V>(e, thread, threads) < n) {
        load<S, V>(v + e, line + place<V>(e, thread, threads));
      } else {
        TIDEK_EACH(k, V) v[e + k] = lowest<W>();
      }
    }
    TIDEK_EACH(e, E) most = largest(most, v[e]);
    return most;
  }
  /* Elements become exp(x - most), or x - most where the logarithm is asked for. */
  __device__ __forceinline__ W sum(W most, bool logarithm) {
    W all = 0;
    TIDEK_EACH(e, E) {
      v[e] -= most;
      W x = power(v[e]);
      all += x;
      if (!logarithm) v[e] = x;
    }
    return all;
  }
  __device__ __forceinline__ void write(S *line, W all, int n, int thread, int threads, bool logarithm) {
    W by = logarithm ? logarithm_of(all) : (W)1 / all;
#pragma unroll
    for (int e = 0; e < E; e += V) {
      if (place<V>(e, thread, threads) >= n) continue;
      TIDEK_EACH(k, V) v[e + k] = logarithm ? v[e + k] - by : v[e + k] * by;
      store<S, V>(line + place<V>(e, thread, threads), v + e);
    }
  }
};

/* a.lanes of a warp to each line. */
template <class S, int V, int E>
__global__ void __launch_bounds__(THREADS) warp_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  kernel_begin();
  int lane = threadIdx.x % a.lanes, each = THREADS / a.lanes;
  int64_t rounds = (a.lines + (int64_t)gridDim.x * each - 1) / ((int64_t)gridDim.x * each);
  int64_t line = (int64_t)blockIdx.x * each + threadIdx.x / a.lanes;
  for (int64_t round = 0; round < rounds; round++, line += (int64_t)gridDim.x * each) {
    Held<S, V, E> held;
    int n = line < a.lines ? (int)a.n : 0; /* all lanes of a warp take part in the exchange */
    W most = held.read((const S *)a.in + line * a.n, n, lane, a.lanes);
    for (int by = a.lanes / 2; by > 0; by /= 2) most = largest(most, shuffled(most, by));
    W all = held.sum(most, a.logarithm);
    for (int by = a.lanes / 2; by > 0; by /= 2) all += shuffled(all, by);
    held.write((S *)a.out + line * a.n, all, n, lane, a.lanes, a.logarithm);
  }
}

/* The largest or the sum of what all threads of a block have; `room` has a place for each of its warps. */
template <class W, bool SUM> TIDEK_IN W of_block(W x, W *room) {
  for (int by = 16; by > 0; by /= 2) x = SUM ? x + shuffled(x, by) : largest(x, shuffled(x, by));
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  x = lane < warps ? room[lane] : SUM ? (W)0 : lowest<W>();
  for (int by = 16; by > 0; by /= 2) x = SUM ? x + shuffled(x, by) : largest(x, shuffled(x, by));
  return x;
}

template <class S, int V>
__global__ void __launch_bounds__(ROW_THREADS, 2) block_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  kernel_begin();
  __shared__ W room[2][32];
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    Held<S, V, held<S>()> held;
    W most = held.read((const S *)a.in + line * a.n, (int)a.n, threadIdx.x, blockDim.x);
    most = of_block<W, false>(most, room[0]);
    W all = held.sum(most, a.logarithm);
    all = of_block<W, true>(all, room[1]);
    held.write((S *)a.out + line * a.n, all, (int)a.n, threadIdx.x, blockDim.x, a.logarithm);
  }
}

/* ---- longer rows ---- */

template <class W> TIDEK_IN State<W> state_of_block(State<W> s, State<W> *room) {
  for (int by = 16; by > 0; by /= 2) s = join(s, State<W>{shuffled(s.most, by), shuffled(s.sum, by)});
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = s;
  __syncthreads();
  int lane = threadIdx.x % 32;
  s = lane < (int)blockDim.x / 32 ? room[lane] : State<W>{lowest<W>(), 0};
  for (int by = 16; by > 0; by /= 2) s = join(s, State<W>{shuffled(s.most, by), shuffled(s.sum, by)});
  __syncthreads();
  return s;
}

/* Some elements join what is known. */
template <int E, class W> TIDEK_IN void take(State<W> &s, const W (&v)[E], int count) {
  W most = s.most;
  TIDEK_EACH(e, E)
    if (e < count) most = largest(most, v[e]);
  if (most == lowest<W>()) {
    TIDEK_EACH(e, E) /* NaN is not smaller than any number, but fmax ignores it */
      if (e < count && v[e] != v[e]) s.sum = v[e];
    return;
  }
  s.sum *= power(s.most - most);
  s.most = most;
  TIDEK_EACH(e, E)
    if (e < count) s.sum += power(v[e] - most);
}

/* Elements from .. end of a line, by all threads of a block: E of each at a time. */
template <class S, int V> TIDEK_IN State<Work<S>> measure(const S *line, int64_t from, int64_t end) {
  using W = Work<S>;
  constexpr int E = V == 1 ? 4 : 2 * V;
  State<W> s = {lowest<W>(), 0};
  int64_t step = (int64_t)blockDim.x * E;
  for (int64_t i = from; i < end; i += step) {
    W v[E];
    int count = 0;
#pragma unroll
    for (int e = 0; e < E; e += V) {
      int64_t at = i + place<V>(e, threadIdx.x, blockDim.x);
      if (at < end) load<S, V>(v + e, line + at), count = e + V;
    }
    take<E>(s, v, count);
  }
  return s;
}

/* From the end, whose elements the second cache still has. */
template <class S, int V>
TIDEK_IN void finish(S *out, const S *line, int64_t from, int64_t end, const Ending<Work<S>> &ending) {
  using W = Work<S>;
  constexpr int E = V == 1 ? 4 : 2 * V;
  int64_t step = (int64_t)blockDim.x * E;
  for (int64_t i = from + (end - 1 - from) / step * step; i >= from; i -= step) {
    W v[E];
#pragma unroll
    for (int e = 0; e < E; e += V) {
      int64_t at = i + place<V>(e, threadIdx.x, blockDim.x);
      if (at < end) load<S, V>(v + e, line + at);
    }
#pragma unroll
    for (int e = 0; e < E; e += V) {
      int64_t at = i + place<V>(e, threadIdx.x, blockDim.x);
      if (at >= end) continue;
      TIDEK_EACH(k, V) v[e + k] = ending.of(v[e + k]);
      store<S, V>(out + at, v + e);
    }
  }
}

template <class S, int V>
__global__ void __launch_bounds__(ONLINE_THREADS) online_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  kernel_begin();
  __shared__ State<W> room[32];
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    const S *in = (const S *)a.in + line * a.n;
    Ending<W> ending(state_of_block(measure<S, V>(in, 0, a.n), room), a.logarithm);
    finish<S, V>((S *)a.out + line * a.n, in, 0, a.n, ending);
  }
}

template <class S, int V>
__global__ void __launch_bounds__(ONLINE_THREADS) part_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  kernel_begin();
  __shared__ State<W> room[32];
  for (int64_t block = blockIdx.x; block < a.lines * a.tiles; block += gridDim.x) {
    int64_t line = block / a.tiles, from = block % a.tiles * a.tile, end = from + a.tile < a.n ? from + a.tile : a.n;
    State<W> s = state_of_block(measure<S, V>((const S *)a.in + line * a.n, from, end), room);
    if (threadIdx.x == 0) ((State<W> *)a.parts)[block] = s;
  }
}

template <class S, int V>
__global__ void __launch_bounds__(ONLINE_THREADS) tile_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  kernel_begin();
  __shared__ State<W> room[32];
  for (int64_t left = blockIdx.x; left < a.lines * a.tiles; left += gridDim.x) {
    int64_t block = a.lines * a.tiles - 1 - left; /* from the end, as within a tile */
    int64_t line = block / a.tiles, from = block % a.tiles * a.tile, end = from + a.tile < a.n ? from + a.tile : a.n;
    const State<W> *parts = (const State<W> *)a.parts + line * a.tiles;
    State<W> s = {lowest<W>(), 0};
    for (int64_t t = threadIdx.x; t < a.tiles; t += blockDim.x) s = join(s, parts[t]);
    Ending<W> ending(state_of_block(s, room), a.logarithm);
    finish<S, V>((S *)a.out + line * a.n, (const S *)a.in + line * a.n, from, end, ending);
  }
}

/* ---- columns ---- */

/* A block takes a.columns neighbouring columns: thread t column t % columns, and of `turns` rows one. */
template <class S>
__global__ void __launch_bounds__(COLUMN_THREADS, 2) column_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  constexpr int E = held<S>() / 2;
  kernel_begin();
  __shared__ State<W> room[COLUMN_THREADS];
  int turns = blockDim.x / a.columns, mine = threadIdx.x % a.columns, turn = threadIdx.x / a.columns;
  for (int64_t block = blockIdx.x; block < a.outer * a.strips; block += gridDim.x) {
    int64_t column = block % a.strips * a.columns + mine;
    bool has = column < a.inner && turn < turns;
    const S *in = (const S *)a.in + block / a.strips * a.n * a.inner + column;
    S *out = (S *)a.out + (in - (const S *)a.in);
    W v[E];
    State<W> s = {lowest<W>(), 0};
    for (int64_t row = turn; has && row < a.n; row += (int64_t)turns * E) {
      int count = 0;
      TIDEK_EACH(e, E)
        if (row + (int64_t)e * turns < a.n) v[e] = cast<W>(in[(row + (int64_t)e * turns) * a.inner]), count = e + 1;
      take<E>(s, v, count);
    }
    room[threadIdx.x] = s;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
      if (half >= turns) continue;
      if (turn < half && turn + half < turns)
        room[threadIdx.x] = join(room[threadIdx.x], room[threadIdx.x + half * a.columns]);
      __syncthreads();
    }
    Ending<W> ending(room[mine], a.logarithm);
    __syncthreads();
    bool whole = a.n <= (int64_t)turns * E; /* all rows are in registers */
    int64_t round = (int64_t)turns * E, last = (a.n - 1) / round * round;
    for (int64_t from = last; has && from >= 0; from -= round) {
      int64_t row = from + turn;
      TIDEK_EACH(e, E)
        if (!whole && row + (int64_t)e * turns < a.n) v[e] = cast<W>(in[(row + (int64_t)e * turns) * a.inner]);
      TIDEK_EACH(e, E)
        if (row + (int64_t)e * turns < a.n) out[(row + (int64_t)e * turns) * a.inner] = cast<S>(ending.of(v[e]));
    }
  }
}

/* Short columns: a thread for each. */
template <class S>
__global__ void __launch_bounds__(THREADS) short_column_kernel(const __grid_constant__ SoftmaxArgs a) {
  using W = Work<S>;
  constexpr int E = held<S>();
  kernel_begin();
  for (int64_t line = (int64_t)blockIdx.x * THREADS + threadIdx.x; line < a.lines;
       line += (int64_t)gridDim.x * THREADS) {
    int64_t at = line / a.inner * a.n * a.inner + line % a.inner;
    W v[E];
    State<W> s = {lowest<W>(), 0};
    TIDEK_EACH(e, E)
      if (e < a.n) v[e] = cast<W>(((const S *)a.in)[at + e * a.inner]);
    take<E>(s, v, (int)a.n);
    Ending<W> ending(s, a.logarithm);
    TIDEK_EACH(e, E)
      if (e < a.n) ((S *)a.out)[at + e * a.inner] = cast<S>(ending.of(v[e]));
  }
}

/* ---- launching ---- */

static int64_t grid(int64_t blocks) { return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS; }

template <class S> static bool is_short_column(const tide_scan_args *a) { return a->inner > 1 && a->n <= held<S>(); }

/* Rows that are too long for a block's registers, and too few to keep a GPU busy. */
template <class S> static bool is_tiled(const tide_scan_args *a) {
  return a->inner == 1 && a->n > ROW_THREADS * held<S>() && a->outer < FEW_LINES;
}

static int64_t tile_of(const tide_scan_args *a) {
  int64_t least = ceil_div(a->n, MOST_TILES);
  return least <= TILE ? TILE : ceil_div(least, TILE) * TILE;
}

template <class S, int V> static int run_rows(SoftmaxArgs &r, bool tiled, cudaStream_t stream) {
  constexpr int E = held<S>();
  if (r.n <= 32 * E) {
    /* Few elements to a thread while lanes are left: more loads are on their way then. */
    constexpr int LEAST = E / 4 >= V ? E / 4 : V, MORE = E / 2 >= V ? E / 2 : V;
    r.lanes = 1;
    while (r.lanes < 32 && (int64_t)r.lanes * LEAST < r.n) r.lanes *= 2;
    int64_t blocks = grid(ceil_div(r.lines, THREADS / r.lanes));
    if (r.n <= 32 * LEAST) return launch(warp_kernel<S, V, LEAST>, blocks, THREADS, stream, (const SoftmaxArgs)r);
    if (r.n <= 32 * MORE) return launch(warp_kernel<S, V, MORE>, blocks, THREADS, stream, (const SoftmaxArgs)r);
    return launch(warp_kernel<S, V, E>, blocks, THREADS, stream, (const SoftmaxArgs)r);
  }
  if (r.n <= ROW_THREADS * E) {
    int threads = 64;
    while ((int64_t)threads * E < r.n) threads *= 2;
    return launch(block_kernel<S, V>, grid(r.lines), threads, stream, (const SoftmaxArgs)r);
  }
  if (!tiled) return launch(online_kernel<S, V>, grid(r.lines), ONLINE_THREADS, stream, (const SoftmaxArgs)r);
  int rc = launch(part_kernel<S, V>, grid(r.lines * r.tiles), ONLINE_THREADS, stream, (const SoftmaxArgs)r);
  return rc ? rc : launch(tile_kernel<S, V>, grid(r.lines * r.tiles), ONLINE_THREADS, stream, (const SoftmaxArgs)r);
}

template <class S> static int run(const tide_scan_args *a, cudaStream_t stream, void *scratch) {
  SoftmaxArgs r = {};
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.parts = scratch;
  r.outer = a->outer, r.n = a->n, r.inner = a->inner, r.lines = a->outer * a->inner;
  r.logarithm = a->op == TIDE_SOFTMAX_LOG, r.tile = tile_of(a), r.tiles = ceil_div(a->n, r.tile);
  if (a->inner == 1) {
    bool aligned = (uintptr_t)r.in % 16 == 0 && (uintptr_t)r.out % 16 == 0 && a->n % wide<S>() == 0;
    return aligned ? run_rows<S, wide<S>()>(r, is_tiled<S>(a), stream) : run_rows<S, 1>(r, is_tiled<S>(a), stream);
  }
  if (is_short_column<S>(a))
    return launch(short_column_kernel<S>, grid(ceil_div(r.lines, THREADS)), THREADS, stream, (const SoftmaxArgs)r);
  r.columns = a->inner < 32 ? (int32_t)a->inner : 32;
  r.strips = (int32_t)ceil_div(a->inner, r.columns);
  int threads = 128;
  while (threads < COLUMN_THREADS && (int64_t)(threads / r.columns) * (held<S>() / 2) < a->n) threads *= 2;
  return launch(column_kernel<S>, grid(a->outer * r.strips), threads, stream, (const SoftmaxArgs)r);
}

template <class S> static size_t scratch_of(const tide_scan_args *a) {
  if (!is_tiled<S>(a)) return 0;
  return (size_t)(a->outer * ceil_div(a->n, tile_of(a))) * sizeof(State<Work<S>>);
}

} // namespace tidek

/* Both for one dtype. */
#define EACH(X)                                                                                                        \
  switch (a->dtype[0]) {                                                                                               \
  case TIDE_FLOAT16: return X(half);                                                                                   \
  case TIDE_BFLOAT16: return X(bfloat16);                                                                              \
  case TIDE_FLOAT64: return X(double);                                                                                 \
  default: return X(float);                                                                                            \
  }

size_t tidek_softmax_scratch(const tide_scan_args *a) {
  using namespace tidek;
#define SCRATCH(S) scratch_of<S>(a)
  EACH(SCRATCH)
}

int tidek_softmax(cudaStream_t stream, const tide_scan_args *a, void *scratch) {
  using namespace tidek;
#define RUN(S) run<S>(a, stream, scratch)
  EACH(RUN)
}
