/* scan_long.cu: the running sums of a single line of very many numbers, at the speed of the memory.
 *
 * A block holds a tile in registers. Tiles, 32 of them and 32 times as many say what they are together, and one warp
 * reads at most 32 words of each, and some of the last. Tiles go by blockIdx: the hardware starts blocks in that order,
 * as CUB's scans take for granted, and taking turns costs a tenth of the time. What is added to what depends on the
 * length alone, so equal calls give equal bits.
 *
 * Invariant: a thread reads what it is going to overwrite before it writes, and no elements that others write. */
#include "scan.cuh"

namespace tidek {

/* What a lane is told: asked for at once, awaited when it is needed. */
template <class A> struct Told {
  const volatile uint64_t *slot;
  uint64_t word[Words<A>::COUNT];
  bool wanted;
  __device__ __forceinline__ Told(const uint64_t *slots, int64_t i, bool wanted_)
      : slot(slots + i * Words<A>::COUNT), wanted(wanted_) {
    TIDEK_EACH(k, Words<A>::COUNT) word[k] = wanted ? slot[k] : 0;
  }
  __device__ __forceinline__ A get(const A &none) {
    Words<A> u;
    TIDEK_EACH(k, u.COUNT) {
      while (wanted && !(word[k] >> 32)) word[k] = slot[k];
      u.w[k] = (uint32_t)word[k];
    }
    return wanted ? u.a : none;
  }
};

constexpr int64_t LONG_LINE = 1 << 20, LONG_GROUP = 32;
template <class W> constexpr int long_steps() { return sizeof(W) <= 4 ? 12 : 6; }
template <class W> constexpr int64_t long_tile() { return (int64_t)WARPS * long_steps<W>() * 128; }

template <class P> __global__ void __launch_bounds__(THREADS, 3) long_kernel(const __grid_constant__ ScanArgs a) {
  using W = typename P::W;
  constexpr int STEPS = long_steps<W>(), N = 16 / sizeof(W);
  kernel_begin();
  __shared__ W totals[WARPS], sum_ahead;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t tile = blockIdx.x, first = tile * long_tile<W>();
  const int32_t left = (int32_t)(a.n - first < long_tile<W>() ? a.n - first : long_tile<W>());
  const int32_t from = warp * STEPS * 128 + lane * 4;
  const W *in = (const W *)a.in + first;
  W *out = (W *)a.out + first;
  W v[STEPS][4], before[STEPS], total = P::none();
  TIDEK_EACH(s, STEPS) {
    const int32_t i = from + s * 128;
    if (i + 4 <= left) {
#pragma unroll
      for (int e = 0; e < 4; e += N) {
        Pack<W, N> pack = Pack<W, N>::load(in + i + e);
        TIDEK_EACH(k, N) v[s][e + k] = pack.v[k];
      }
    } else {
      TIDEK_EACH(e, 4) v[s][e] = i + e < left ? in[i + e] : P::none();
    }
  }
  TIDEK_EACH(s, STEPS) {
    W mine = P::join(P::join(P::join(v[s][0], v[s][1]), v[s][2]), v[s][3]), all;
    before[s] = P::join(total, warp_before<P>(mine, all));
    total = P::join(total, shuffled<false>(all, 31));
  }
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  if (warp == 0) {
    W own = P::none(), near, mid, far = P::none();
    for (int w = 0; w < WARPS; w++) own = P::join(own, totals[w]);
    if (lane == 0) publish(a.tile, tile, own);
    const int64_t group = tile / LONG_GROUP, range = group / LONG_GROUP;
    uint64_t *ranges = a.group + a.groups * Words<W>::COUNT;
    Told<W> tiles(a.tile, group * LONG_GROUP + lane, lane < tile % LONG_GROUP);
    Told<W> groups(a.group, range * LONG_GROUP + lane, lane < group % LONG_GROUP);
    warp_before<P>(tiles.get(P::none()), near);
    if (lane == 31 && tile % LONG_GROUP == LONG_GROUP - 1) publish(a.group, group, P::join(near, own));
    warp_before<P>(groups.get(P::none()), mid);
    if (lane == 31 && tile % (LONG_GROUP * LONG_GROUP) == LONG_GROUP * LONG_GROUP - 1)
      publish(ranges, range, P::join(P::join(mid, near), own));
    const int64_t each = (range + 31) / 32;
    for (int64_t r = lane * each; r < (lane + 1) * each && r < range; r++) far = P::join(far, await<W>(ranges, r));
    warp_before<P>(far, far);
    if (lane == 31) sum_ahead = P::join(P::join(far, mid), near);
  }
  __syncthreads();
  W ahead = sum_ahead;
  for (int w = 0; w < warp; w++) ahead = P::join(ahead, totals[w]);
  TIDEK_EACH(s, STEPS) {
    const int32_t i = from + s * 128;
    W acc = P::join(ahead, before[s]);
    TIDEK_EACH(e, 4) v[s][e] = acc = P::join(acc, v[s][e]);
    if (i + 4 <= left) {
#pragma unroll
      for (int e = 0; e < 4; e += N) {
        Pack<W, N> pack;
        TIDEK_EACH(k, N) pack.v[k] = v[s][e + k];
        pack.store(out + i + e);
      }
    } else {
      TIDEK_EACH(e, 4)
        if (i + e < left) out[i + e] = v[s][e];
    }
  }
}

/* ---- launching ---- */

static bool is_long(const tide_scan_args *a) {
  bool known = a->work == TIDE_FLOAT32 || a->work == TIDE_FLOAT64 || a->work == TIDE_INT64;
  return known && a->op == TIDE_SCAN_CUMSUM && a->outer * a->inner == 1 && a->n >= LONG_LINE &&
         a->n / LONG_LINE < INT32_MAX && a->dtype[0] == a->work && a->dtype[1] == a->work &&
         ((uintptr_t)a->head.ptr[0] | (uintptr_t)a->head.ptr[1]) % 16 == 0;
}

static int64_t tiles_of(const tide_scan_args *a) {
  return ceil_div(a->n, a->work == TIDE_FLOAT32 ? long_tile<float>() : long_tile<double>());
}

/* Slots of tiles, of groups of them, and of ranges of these. */
size_t scan_long_scratch(const tide_scan_args *a) {
  if (!is_long(a)) return 0;
  int64_t tiles = tiles_of(a), groups = ceil_div(tiles, LONG_GROUP);
  return (size_t)(tiles + groups + ceil_div(groups, LONG_GROUP)) * (a->work == TIDE_FLOAT32 ? 8 : 16);
}

int scan_long(cudaStream_t stream, const tide_scan_args *a, void *scratch) {
  ScanArgs r = {};
  int rc = (int)cudaMemsetAsync(scratch, 0, scan_long_scratch(a), stream);
  if (rc) return rc;
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.n = a->n;
  r.tiles = tiles_of(a), r.groups = ceil_div(r.tiles, LONG_GROUP);
  r.tile = (uint64_t *)scratch, r.group = r.tile + r.tiles * (a->work == TIDE_FLOAT32 ? 1 : 2);
  if (a->work == TIDE_FLOAT32)
    return launch(long_kernel<Scan_cumsum<float>>, r.tiles, THREADS, stream, (const ScanArgs)r);
  if (a->work == TIDE_FLOAT64)
    return launch(long_kernel<Scan_cumsum<double>>, r.tiles, THREADS, stream, (const ScanArgs)r);
  return launch(long_kernel<Scan_cumsum<int64_t>>, r.tiles, THREADS, stream, (const ScanArgs)r);
}

} // namespace tidek
