/* scan.cu: running sums, products and extremes along a dim; what is joined comes from scan.def.
 *
 * short_kernel   lines of neighbours (or nearly so) that one warp holds: a warp for each, in 16-byte loads
 * line_kernel    lines that a block holds, a stretch to each of its warps
 * chain_kernel   longer lines, in tiles that a block holds
 * strip_kernel   lines that lie side by side: a block holds a tile of 32 of them, a run of rows to each of its warps
 * column_kernel  very short lines, side by side or not: a thread for each
 *
 * Sums of a single very long line are scan_long.cu's. Everything is read once. Blocks take the tiles in turn, so that
 * whatever a tile waits for is already running: it says what its elements are together, the last one of a group of
 * tiles says it of the group, and each waits for the tiles before it in its group and for the groups before that. What
 * is known goes through memory in words that say of themselves that they are there. What is joined with what depends on
 * the sizes alone, never on who came first, so equal calls give equal bits.
 *
 * Invariant: a thread reads what it is going to overwrite before it writes, and no elements that others write. */
#include "scan.cuh"

namespace tidek {

constexpr int STRIP = 32, ROWS_AHEAD = 8;
constexpr int64_t SHORT_LINE = 32, MOST_BLOCKS = 0x7fffffff;
constexpr int64_t LINE_GROUP = THREADS, STRIP_GROUP = 16; /* tiles of a group */

/* The number of the tile that this block takes. */
TIDEK_IN int64_t take_turn(const ScanArgs &a) {
  __shared__ uint32_t turn;
  if (!a.turn) return blockIdx.x;
  if (threadIdx.x == 0) turn = atomicAdd(a.turn, 1u);
  __syncthreads();
  return turn;
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
      TIDEK_EACH(k, N) v[e + k] = pack.v[k];
    }
    return;
  }
  int64_t offset[4];
  TIDEK_EACH(e, 4) offset[e] = line_at + (i + e < a.n ? i + e : a.n - 1) * a.inner;
  load_any(v, a.in, offset, a.in_dtype);
}

template <class W> TIDEK_IN void store_four(const W (&v)[4], const ScanArgs &a, int64_t line_at, int64_t i) {
  constexpr int N = sizeof(W) * 4 <= 16 ? 4 : 16 / sizeof(W);
  if (a.vector_out && i + 4 <= a.n) {
#pragma unroll
    for (int e = 0; e < 4; e += N) {
      Pack<W, N> pack;
      TIDEK_EACH(k, N) pack.v[k] = v[e + k];
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
    TIDEK_EACH(s, STEPS)
      if (from + s * 128 < a.n) load_four(v[s], a, line_at, first + s * 128);
    total = P::none();
    TIDEK_EACH(s, STEPS) {
      Acc mine = P::none(), all;
      TIDEK_EACH(e, 4)
        if (first + s * 128 + e < a.n) mine = P::join(mine, P::of(v[s][e], first + s * 128 + e));
      before[s] = P::join(total, warp_before<P>(mine, all));
      total = P::join(total, shuffled<false>(all, 31));
    }
  }
  __device__ __forceinline__ void write(const ScanArgs &a, int64_t line_at, int64_t from, const Acc &ahead) {
    int64_t first = from + threadIdx.x % 32 * 4;
    TIDEK_EACH(s, STEPS) {
      int64_t i = first + s * 128;
      if (i >= a.n) continue;
      Acc acc = P::join(ahead, before[s]);
      TIDEK_EACH(e, 4) {
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
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    int64_t at = start_of_line(a, line), from = warp * stretch_of<P>();
    Stretch<P> s;
    s.read(a, at, from);
    if (threadIdx.x % 32 == 0) totals[warp] = s.total;
    __syncthreads();
    Acc ahead = P::none();
    for (int w = 0; w < warp; w++) ahead = P::join(ahead, totals[w]);
    s.write(a, at, from, ahead);
    __syncthreads();
  }
}

template <class P> __global__ void __launch_bounds__(THREADS) chain_kernel(const __grid_constant__ ScanArgs a) {
  using Acc = typename P::Acc;
  kernel_begin();
  __shared__ alignas(16) char room[3 * sizeof(Acc) * WARPS];
  Acc *totals = (Acc *)room;
  int64_t block = take_turn(a), line = block / a.tiles, tile = block % a.tiles, at = start_of_line(a, line);
  int warp = threadIdx.x / 32;
  int64_t from = (tile * WARPS + warp) * stretch_of<P>();
  Stretch<P> s;
  s.read(a, at, from);
  if (threadIdx.x % 32 == 0) totals[warp] = s.total;
  __syncthreads();
  Acc own = P::none(), near = P::none(), far = P::none();
  for (int w = 0; w < WARPS; w++) own = P::join(own, totals[w]);
  if (threadIdx.x == 0) publish(a.tile, block, own);
  int64_t in_group = tile % LINE_GROUP, group = tile / LINE_GROUP;
  if (in_group > 0) {
    if (threadIdx.x < in_group) near = await<Acc>(a.tile, block - in_group + threadIdx.x);
    near = block_join<P>(near, totals + WARPS);
  }
  if (in_group == LINE_GROUP - 1 && threadIdx.x == 0) publish(a.group, line * a.groups + group, P::join(near, own));
  if (group > 0) {
    int64_t each = (group + THREADS - 1) / THREADS, first = threadIdx.x * each;
    for (int64_t g = first; g < first + each && g < group; g++)
      far = P::join(far, await<Acc>(a.group, line * a.groups + g));
    far = block_join<P>(far, totals + 2 * WARPS);
  }
  Acc ahead = P::join(far, near);
  for (int w = 0; w < warp; w++) ahead = P::join(ahead, totals[w]);
  s.write(a, at, from, ahead);
}

/* ---- columns ---- */

/* Rows that a thread holds of its column. */
template <class P> constexpr int rows_of() {
  return sizeof(typename P::W) <= 4 ? 32 : sizeof(typename P::W) <= 8 ? 16 : 8;
}

/* The slots from first to last of a column, which are STRIP apart, joined; several are on their way together. */
template <class P>
TIDEK_IN typename P::Acc join_slots(const uint64_t *slots, int64_t column, int64_t first, int64_t last) {
  using Acc = typename P::Acc;
  constexpr int AHEAD = sizeof(Acc) <= 4 ? 4 : sizeof(Acc) <= 8 ? 2 : 1;
  Acc acc = P::none();
  for (; first < last; first += AHEAD) {
    Acc next[AHEAD];
    uint64_t word[AHEAD];
    TIDEK_EACH(e, AHEAD) /* asks for the lines, all at once */
      word[e] =
          first + e < last ? ((const volatile uint64_t *)slots)[((first + e) * STRIP + column) * (sizeof(Acc) / 4)] : 0;
    TIDEK_EACH(e, AHEAD) {
      if (first + e >= last) break;
      if (sizeof(Acc) == 4 && word[e] >> 32) {
        Words<Acc> u;
        u.w[0] = (uint32_t)word[e];
        next[e] = u.a;
      } else {
        next[e] = await<Acc>(slots, (first + e) * STRIP + column);
      }
      acc = P::join(acc, next[e]);
    }
  }
  return acc;
}

template <class P> __global__ void __launch_bounds__(THREADS) strip_kernel(const __grid_constant__ ScanArgs a) {
  using W = typename P::W;
  using Acc = typename P::Acc;
  constexpr int E = rows_of<P>();
  kernel_begin();
  __shared__ alignas(16) char room[3 * sizeof(Acc) * THREADS];
  Acc(*totals)[STRIP] = (Acc(*)[STRIP])room, (*nears)[STRIP] = totals + WARPS, (*fars)[STRIP] = nears + WARPS;
  int lane = threadIdx.x % STRIP, warp = threadIdx.x / STRIP, warps = blockDim.x / STRIP;
  int64_t block = take_turn(a), strip = block % a.strips, rest = block / a.strips, tile = rest % a.tiles;
  int64_t line = rest / a.tiles, column = strip * STRIP + lane, row = (tile * warps + warp) * E;
  int64_t at = (line * a.n + row) * a.inner + column, rows = column < a.inner ? a.n - row : 0;
  W v[E];
  if (a.vector_in) {
    TIDEK_EACH(e, E)
      if (e < rows) v[e] = ((const W *)a.in)[at + e * a.inner];
  } else {
#pragma unroll
    for (int e = 0; e < E; e += ROWS_AHEAD) {
      W some[ROWS_AHEAD];
      int64_t offset[ROWS_AHEAD];
      TIDEK_EACH(k, ROWS_AHEAD) offset[k] = at + (e + k < rows ? e + k : rows - 1) * a.inner;
      if (e < rows) load_any(some, a.in, offset, a.in_dtype);
      TIDEK_EACH(k, ROWS_AHEAD) v[e + k] = some[k];
    }
  }
  Acc acc = P::none();
  TIDEK_EACH(e, E)
    if (e < rows) acc = P::join(acc, P::of(v[e], row + e));
  totals[warp][lane] = acc;
  __syncthreads();
  Acc ahead = P::none();
  if (a.tiles > 1) {
    int64_t strip_of_line = line * a.strips + strip, in_group = tile % STRIP_GROUP, group = tile / STRIP_GROUP;
    const uint64_t *slots = a.tile + (strip_of_line * a.tiles + tile - in_group) * STRIP * Words<Acc>::COUNT;
    uint64_t *groups = a.group + strip_of_line * a.groups * STRIP * Words<Acc>::COUNT;
    Acc own = P::none();
    for (int w = 0; w < WARPS; w++) own = P::join(own, totals[w][lane]);
    if (warp == 0) publish((uint64_t *)slots, in_group * STRIP + lane, own);
    int64_t first = warp * (STRIP_GROUP / WARPS), last = first + STRIP_GROUP / WARPS;
    nears[warp][lane] = join_slots<P>(slots, lane, first, last < in_group ? last : in_group);
    __syncthreads();
    Acc near = P::none();
    for (int w = 0; w < WARPS; w++) near = P::join(near, nears[w][lane]);
    if (warp == 0 && in_group == STRIP_GROUP - 1) publish(groups, group * STRIP + lane, P::join(near, own));
    int64_t each = (group + WARPS - 1) / WARPS;
    first = warp * each, last = first + each;
    fars[warp][lane] = join_slots<P>(groups, lane, first, last < group ? last : group);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) ahead = P::join(ahead, fars[w][lane]);
    ahead = P::join(ahead, near);
  }
  for (int w = 0; w < warp; w++) ahead = P::join(ahead, totals[w][lane]);
  TIDEK_EACH(e, E) {
    if (e >= rows) continue;
    ahead = P::join(ahead, P::of(v[e], row + e));
    if (a.vector_out)
      ((W *)a.out)[at + e * a.inner] = P::value(ahead);
    else
      store_any(a.out, at + e * a.inner, a.out_dtype, P::value(ahead));
    if (a.places) a.places[at + e * a.inner] = P::place(ahead) + a.base;
  }
}

template <class P> __global__ void __launch_bounds__(THREADS) column_kernel(const __grid_constant__ ScanArgs a) {
  using W = typename P::W;
  using Acc = typename P::Acc;
  kernel_begin();
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.lines; i += (int64_t)gridDim.x * THREADS) {
    int64_t at = i / a.inner * a.n * a.inner + i % a.inner;
    Acc acc = P::none();
    for (int64_t row = 0; row < a.n; row += ROWS_AHEAD) {
      W v[ROWS_AHEAD];
      int64_t offset[ROWS_AHEAD];
      TIDEK_EACH(e, ROWS_AHEAD) offset[e] = at + (row + e < a.n ? row + e : a.n - 1) * a.inner;
      load_any(v, a.in, offset, a.in_dtype);
      TIDEK_EACH(e, ROWS_AHEAD) {
        if (row + e >= a.n) continue;
        acc = P::join(acc, P::of(v[e], row + e));
        store_any(a.out, offset[e], a.out_dtype, P::value(acc));
        if (a.places) a.places[offset[e]] = P::place(acc) + a.base;
      }
    }
  }
}

/* ---- launching ---- */

/* The kernels of one scan in one work type. */
using ScanKernel = void (*)(const ScanArgs);
struct Scanner {
  ScanKernel brief, line, chain, strip, column;
  size_t slot; /* bytes of what is published */
  int64_t stretch, rows;
};
template <class P> static Scanner scanner() {
  return {short_kernel<P>, line_kernel<P>,   chain_kernel<P>,
          strip_kernel<P>, column_kernel<P>, 2 * sizeof(typename P::Acc),
          stretch_of<P>(), rows_of<P>()};
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

static bool by_columns(const tide_scan_args *a) { return a->n <= SHORT_LINE; }
static bool in_strips(const tide_scan_args *a) { return a->inner >= STRIP && !by_columns(a); }

static int64_t tiles_of(const tide_scan_args *a, const Scanner &s) {
  return by_columns(a) ? 1 : ceil_div(a->n, (in_strips(a) ? s.rows : s.stretch) * WARPS);
}
static int64_t groups_of(const tide_scan_args *a, int64_t tiles) {
  return ceil_div(tiles, in_strips(a) ? STRIP_GROUP : LINE_GROUP);
}
/* Lines that have slots, those that only fill a strip among them. */
static int64_t slots_of(const tide_scan_args *a) {
  return a->outer * (in_strips(a) ? ceil_div(a->inner, STRIP) * STRIP : a->inner);
}

/* Do all lines begin at 16 bytes? */
static bool is_aligned(const void *p, int dtype, const tide_scan_args *a) {
  return dtype == a->work && a->inner == 1 && (uintptr_t)p % 16 == 0 &&
         (a->outer == 1 || a->n * dtype_bytes(dtype) % 16 == 0);
}

static int64_t grid(int64_t blocks) { return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS; }

} // namespace tidek

/* The turn, and the slots of tiles and groups, if there are several. */
size_t tidek_scan_scratch(const tide_scan_args *a) {
  using namespace tidek;
  Scanner s = scanners[a->op](a->work);
  int64_t tiles = tiles_of(a, s);
  if (scan_long_scratch(a)) return scan_long_scratch(a);
  return tiles > 1 ? 8 + (size_t)(slots_of(a) * (tiles + groups_of(a, tiles))) * s.slot : 0;
}

int tidek_scan(cudaStream_t stream, const tide_scan_args *a, void *scratch) {
  using namespace tidek;
  if (scan_long_scratch(a)) return scan_long(stream, a, scratch);
  Scanner s = scanners[a->op](a->work);
  ScanArgs r = {};
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.places = (int64_t *)a->head.ptr[2];
  r.outer = a->outer, r.n = a->n, r.inner = a->inner, r.lines = a->outer * a->inner;
  r.tiles = tiles_of(a, s), r.groups = groups_of(a, r.tiles), r.strips = ceil_div(a->inner, STRIP);
  r.out_dtype = a->dtype[0], r.in_dtype = a->dtype[1], r.base = a->index_base;
  if (r.tiles > 1) {
    int rc = (int)cudaMemsetAsync(scratch, 0, tidek_scan_scratch(a), stream);
    if (rc) return rc;
    r.turn = (uint32_t *)scratch, r.tile = (uint64_t *)scratch + 1;
    r.group = r.tile + slots_of(a) * r.tiles * (int64_t)(s.slot / 8);
  }
  if (in_strips(a)) {
    r.vector_in = r.in_dtype == a->work, r.vector_out = r.out_dtype == a->work;
    int64_t warps = r.tiles > 1 ? WARPS : ceil_div(a->n, s.rows);
    return launch(s.strip, grid(a->outer * r.tiles * r.strips), (unsigned)warps * 32, stream, (const ScanArgs)r);
  }
  r.vector_in = is_aligned(r.in, r.in_dtype, a), r.vector_out = is_aligned(r.out, r.out_dtype, a);
  if (by_columns(a)) return launch(s.column, grid(ceil_div(r.lines, THREADS)), THREADS, stream, (const ScanArgs)r);
  if (r.tiles > 1) return launch(s.chain, grid(r.lines * r.tiles), THREADS, stream, (const ScanArgs)r);
  if (a->n <= s.stretch) return launch(s.brief, grid(ceil_div(r.lines, WARPS)), THREADS, stream, (const ScanArgs)r);
  return launch(s.line, grid(r.lines), (unsigned)ceil_div(a->n, s.stretch) * 32, stream, (const ScanArgs)r);
}
