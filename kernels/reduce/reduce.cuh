/* reduce.cuh: the kernels of reductions and how they are chosen; reduce_*.cu instantiate them.
 *
 * row_kernel   the reduced dim is contiguous: a group of threads (8 to 256) takes one row, in 16-byte loads
 * col_kernel   a kept dim is contiguous and one dim is reduced: each thread owns a vector of columns
 * any_kernel   the rest: any dtype, any strides, an index computation for each element
 * Where there are fewer results than the device needs blocks, the reduced dim is split: each part writes a partial
 * accumulator to scratch memory, as [part][result], and last_kernel merges them in order. No atomics, so equal calls
 * give equal bits.
 *
 * Invariant: a chain of additions is at most inner / (parts * threads * lanes) long; the rest is a tree. */
#pragma once

#include "reduce_ops.cuh"

namespace tidek {

constexpr int THREADS = 256;

/* Where results go, and how kept positions become offsets. */
struct Keep {
  int32_t n, big; /* big: positions need 64 bits */
  Div size[TIDE_MAX_DIMS];
  int64_t length[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS][3];
};

struct ReduceArgs {
  void *out, *second, *partial;
  const void *in;
  int64_t outer, inner;
  int64_t part; /* elements (rows of col_kernel) of the reduced dim in one part */
  int32_t parts, group, out_dtype, in_dtype, second_dtype, vector, nred;
  int32_t where_only; /* the result is the index itself */
  int64_t columns;    /* col_kernel: the innermost kept dim; keep holds the other ones, then it */
  Finish finish;
  Keep keep;
  Div red_size[TIDE_MAX_DIMS];
  int64_t red_length[TIDE_MAX_DIMS], red_stride[TIDE_MAX_DIMS];
};

/* The offsets of a kept position: result, input, second result. */
static __device__ __forceinline__ void keep_offsets(const Keep &k, int64_t position, int64_t (&offset)[3]) {
  offset[0] = offset[1] = offset[2] = 0;
  for (int d = k.n - 1; d >= 0; d--) {
    int64_t i = position;
    if (d > 0 && k.big) {
      position /= k.length[d], i -= position * k.length[d];
    } else if (d > 0) {
      uint32_t q = (uint32_t)position;
      i = k.size[d].split(q), position = q;
    }
#pragma unroll
    for (int j = 0; j < 3; j++) offset[j] += i * k.stride[d][j];
  }
}

template <class P>
static __device__ __forceinline__ void store_result(const ReduceArgs &a, int64_t position, const typename P::Acc &acc) {
  int64_t offset[3];
  keep_offsets(a.keep, position, offset);
  if constexpr (second_of<P>::any) {
    auto second = second_of<P>::get(acc, a.finish);
    if (a.where_only) {
      store_any(a.out, offset[0], TIDE_INT64, second);
      return;
    }
    if (a.second) store_any(a.second, offset[2], a.second_dtype, second);
  }
  store_any(a.out, offset[0], a.out_dtype, P::finish(acc, a.finish));
}

/* The result of a part, or of all, for one kept position. */
template <class P>
static __device__ __forceinline__ void put(const ReduceArgs &a, int64_t position, int part,
                                           const typename P::Local &local) {
  typename P::Acc acc = P::widen(local, part * a.part);
  if (a.parts > 1)
    ((typename P::Acc *)a.partial)[part * a.outer + position] = acc;
  else
    store_result<P>(a, position, acc);
}

template <class A> static __device__ __forceinline__ A shuffle_down(const A &a, int by, int width) {
  static_assert(sizeof(A) % 4 == 0, "accumulators are moved as words");
  union {
    A acc;
    uint32_t word[sizeof(A) / 4];
  } u = {a};
#pragma unroll
  for (int i = 0; i < (int)(sizeof(A) / 4); i++) u.word[i] = __shfl_down_sync(0xffffffff, u.word[i], by, width);
  return u.acc;
}

/* Merges over a warp; the first thread has the result. */
template <class P, class A> static __device__ __forceinline__ A merge_warp(A acc) {
#if __CUDA_ARCH__ >= 800
  constexpr bool quick = quick_warp<P, A>::value;
#else
  constexpr bool quick = false;
#endif
  if constexpr (quick) {
    acc = quick_warp<P, A>::merge(acc);
  } else {
#pragma unroll
    for (int by = 1; by < 32; by *= 2) acc = P::merge(acc, shuffle_down(acc, by, 32));
  }
  return acc;
}

/* Merges over groups of `group` neighbouring threads, a power of two; the group's first thread has the result. Every
 * thread of the block takes part. A is a policy's Local or Acc. */
template <class P, class A> static __device__ __forceinline__ A merge_group(A acc, int group) {
  int width = group < 32 ? group : 32;
  if (width < 32)
    for (int by = 1; by < width; by *= 2) acc = P::merge(acc, shuffle_down(acc, by, width));
  else
    acc = merge_warp<P>(acc);
  if (group <= 32) return acc;
  __shared__ alignas(16) char room[sizeof(A) * THREADS / 32];
  A *warps = (A *)room;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = group / 32;
  if (lane == 0) warps[warp] = acc;
  __syncthreads();
  if (warp % each == 0) {
    acc = warps[warp + lane % each];
    for (int by = 1; by < each; by *= 2) acc = P::merge(acc, shuffle_down(acc, by, each));
  }
  return acc;
}

/* ---- rows ---- */

/* The first n vectors at p, by the threads of a group, of which this is number t. */
template <class P, class S>
static __device__ __forceinline__ typename P::Local reduce_vectors(const ReduceArgs &a, const S *p, int64_t n, int t) {
  constexpr int VEC = 16 / sizeof(S) < 8 ? 16 / sizeof(S) : 8, UNROLL = VEC >= 8 ? 2 : 4;
  typename P::Lane lane[VEC];
  uint32_t step = 0;
  int64_t i = t, group = a.group;
  for (; i + (UNROLL - 1) * group < n; i += UNROLL * group) {
    Pack<S, VEC> in[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) in[u] = Pack<S, VEC>::load(p + (i + u * group) * VEC);
    /* Where a push is long, the compiler would put off loads until others have been used. A branch, never taken, keeps
     * them together before it, so that they are all on their way at once. */
    if constexpr (sizeof(typename P::Lane) > sizeof(typename P::V))
      if (a.parts == 0) break;
#pragma unroll
    for (int u = 0; u < UNROLL; u++, step++)
#pragma unroll
      for (int l = 0; l < VEC; l++) lane[l].push(load_value<P>(in[u].v[l], a.finish), step);
  }
  for (; i < n; i += group, step++) {
    Pack<S, VEC> in = Pack<S, VEC>::load(p + i * VEC);
#pragma unroll
    for (int l = 0; l < VEC; l++) lane[l].push(load_value<P>(in.v[l], a.finish), step);
  }
  typename P::Local acc = P::none();
#pragma unroll
  for (int l = 0; l < VEC; l++)
    acc = P::merge(acc, P::gather(lane[l], step, (uint32_t)(t * VEC + l), (uint32_t)(group * VEC)));
  return acc;
}

/* A part of a row, n elements at p: vectors first, then the rest one by one. Positions count from p. */
template <class P, class S>
static __device__ __forceinline__ typename P::Local reduce_range(const ReduceArgs &a, const S *p, int64_t n, int t) {
  constexpr int VEC = 16 / sizeof(S) < 8 ? 16 / sizeof(S) : 8;
  typename P::Local acc = P::none();
  int64_t group = a.group, i = t;
  if (a.vector) {
    acc = reduce_vectors<P, S>(a, p, n / VEC, t);
    i += n / VEC * VEC;
  }
  typename P::Lane lane;
  uint32_t step = 0, first = (uint32_t)i;
  for (; i + 3 * group < n; i += 4 * group) {
    S in[4];
#pragma unroll
    for (int u = 0; u < 4; u++) in[u] = p[i + u * group];
#pragma unroll
    for (int u = 0; u < 4; u++, step++) lane.push(load_value<P>(in[u], a.finish), step);
  }
  for (; i < n; i += group, step++) lane.push(load_value<P>(p[i], a.finish), step);
  return P::merge(acc, P::gather(lane, step, first, (uint32_t)group));
}

template <class P, class S>
__global__ void __launch_bounds__(THREADS) row_kernel(const __grid_constant__ ReduceArgs a) {
  kernel_begin();
  int group = a.group, rows = THREADS / group, t = threadIdx.x % group;
  int64_t block = blockIdx.x;
  int part = 0;
  if (a.parts > 1) {
    part = (int)(block % a.parts);
    block /= a.parts;
  }
  int64_t position = block * rows + threadIdx.x / group;
  typename P::Local acc = P::none();
  if (position < a.outer) {
    int64_t offset[3];
    keep_offsets(a.keep, position, offset);
    int64_t low = part * a.part, n = low + a.part < a.inner ? a.part : a.inner - low;
    acc = reduce_range<P, S>(a, (const S *)a.in + offset[1] + low, n, t);
  }
  acc = merge_group<P>(acc, group);
  if (t == 0 && position < a.outer) put<P>(a, position, part, acc);
}

/* ---- columns ---- */

constexpr int COL_X = 32, COL_Y = THREADS / COL_X;

/* Block: 32 threads side by side with a vector of columns each, 8 above one another that take every eighth row. */
template <class P, class S>
__global__ void __launch_bounds__(THREADS) col_kernel(const __grid_constant__ ReduceArgs a) {
  kernel_begin();
  constexpr int VEC = 16 / sizeof(S) < 4 ? 16 / sizeof(S) : 4, UNROLL = 4, WIDTH = COL_X * VEC;
  using Local = typename P::Local;
  int x = threadIdx.x % COL_X, y = threadIdx.x / COL_X;
  int64_t block = blockIdx.x, strips = (a.columns + WIDTH - 1) / WIDTH;
  int64_t column = block % strips * WIDTH;
  block /= strips;
  int part = (int)(block % a.parts);
  int64_t other = block / a.parts, offset[3];
  keep_offsets(a.keep, other * a.columns, offset);
  bool vector = a.vector && column + WIDTH <= a.columns;
  int64_t low = part * a.part, high = low + a.part < a.inner ? low + a.part : a.inner, r = low + y;
  const S *p = (const S *)a.in + offset[1] + column;
  typename P::Lane lane[VEC];
  uint32_t step = 0;
  if (vector) {
    p += x * VEC;
    for (; r + (UNROLL - 1) * COL_Y < high; r += UNROLL * COL_Y) {
      Pack<S, VEC> in[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) in[u] = Pack<S, VEC>::load(p + (r + u * COL_Y) * a.red_stride[0]);
      if constexpr (sizeof(typename P::Lane) > sizeof(typename P::V))
        if (a.parts == 0) break; /* as in reduce_vectors */
#pragma unroll
      for (int u = 0; u < UNROLL; u++, step++)
#pragma unroll
        for (int l = 0; l < VEC; l++) lane[l].push(load_value<P>(in[u].v[l], a.finish), step);
    }
  }
  for (; r < high; r += COL_Y, step++) {
#pragma unroll
    for (int l = 0; l < VEC; l++) {
      int c = vector ? l : x + l * COL_X;
      if (vector || column + c < a.columns) lane[l].push(load_value<P>(p[r * a.red_stride[0] + c], a.finish), step);
    }
  }
  __shared__ alignas(16) char room[sizeof(Local) * THREADS];
  Local(*all)[COL_X] = (Local(*)[COL_X])room;
#pragma unroll
  for (int l = 0; l < VEC; l++) {
    all[y][x] = P::gather(lane[l], step, (uint32_t)y, COL_Y);
    __syncthreads();
    int64_t c = column + (vector ? x * VEC + l : x + l * COL_X);
    if (y == 0 && c < a.columns) {
      Local acc = all[0][x];
      for (int j = 1; j < COL_Y; j++) acc = P::merge(acc, all[j][x]);
      put<P>(a, other * a.columns + c, part, acc);
    }
    __syncthreads();
  }
}

/* ---- anything ---- */

template <class P>
static __device__ __forceinline__ void load_elements(typename P::V (&out)[4], const ReduceArgs &a,
                                                     const int64_t (&offset)[4]) {
  switch (a.in_dtype) {
#define X(NAME, S)                                                                                                     \
  case NAME:                                                                                                           \
    _Pragma("unroll") for (int e = 0; e < 4; e++) out[e] = load_value<P>(((const S *)a.in)[offset[e]], a.finish);      \
    break;
    TIDEK_STORAGES(X)
#undef X
  }
}

template <class P> __global__ void __launch_bounds__(THREADS) any_kernel(const __grid_constant__ ReduceArgs a) {
  kernel_begin();
  int group = a.group, rows = THREADS / group, t = threadIdx.x % group;
  int64_t block = blockIdx.x;
  int part = (int)(block % a.parts);
  int64_t position = block / a.parts * rows + threadIdx.x / group;
  typename P::Local acc = P::none();
  if (position < a.outer) {
    int64_t kept[3], low = part * a.part, high = low + a.part < a.inner ? low + a.part : a.inner;
    keep_offsets(a.keep, position, kept);
    typename P::Lane lane;
    uint32_t step = 0;
    for (int64_t i = low + t; i < high; i += 4 * group) {
      int64_t offset[4];
      int here = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int64_t at = i + e * group < high ? i + e * group : i, o = kept[1];
        here += i + e * group < high;
        for (int d = a.nred - 1; d > 0; d--) {
          int64_t q;
          if (a.inner < MAX_PIECE)
            q = a.red_size[d].quotient((uint32_t)at);
          else
            q = at / a.red_length[d];
          o += (at - q * a.red_length[d]) * a.red_stride[d];
          at = q;
        }
        offset[e] = o + at * a.red_stride[0];
      }
      typename P::V v[4];
      load_elements<P>(v, a, offset);
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (e < here) lane.push(v[e], step++);
    }
    acc = P::gather(lane, step, (uint32_t)t, (uint32_t)group);
  }
  acc = merge_group<P>(acc, group);
  if (t == 0 && position < a.outer) put<P>(a, position, part, acc);
}

/* Merges the parts of each result by a group of threads, four loads in flight for each. */
template <class P> __global__ void __launch_bounds__(THREADS) last_kernel(const __grid_constant__ ReduceArgs a) {
  kernel_begin();
  int group = a.group, rows = THREADS / group, t = threadIdx.x % group;
  int64_t position = (int64_t)blockIdx.x * rows + threadIdx.x / group;
  typename P::Acc acc = P::none_wide();
  if (position < a.outer) {
    const typename P::Acc *from = (const typename P::Acc *)a.partial + position;
    int i = t;
    for (; i + 3 * group < a.parts; i += 4 * group) {
      typename P::Acc in[4];
#pragma unroll
      for (int u = 0; u < 4; u++) in[u] = from[(i + u * group) * a.outer];
#pragma unroll
      for (int u = 0; u < 4; u++) acc = P::merge(acc, in[u]);
    }
    for (; i < a.parts; i += group) acc = P::merge(acc, from[i * a.outer]);
  }
  acc = merge_group<P>(acc, group);
  if (t == 0 && position < a.outer) store_result<P>(a, position, acc);
}

/* ---- choosing ---- */

enum { ROWS, COLUMNS, ANYHOW };

/* How a reduction is divided. The same for the question of scratch memory and for the launch. */
struct Shape {
  int way, group, parts;
  int64_t part, blocks, columns;
  int column_dim;
  bool vector;
};

static inline int group_for(int64_t n, int64_t per_thread) {
  int group = 1;
  while (group < THREADS && group * per_thread < n) group *= 2;
  return group;
}

/* Splits the reduced dim until there are enough blocks, but leaves at least `least` elements a part. */
static inline void split(Shape &s, int64_t inner, int64_t blocks, int64_t least, int64_t unit, int sms) {
  int64_t wanted = (int64_t)sms * 16, parts = 1;
  if (blocks < wanted && inner > least) parts = ceil_div(wanted, blocks);
  if (parts > inner / least) parts = inner / least > 0 ? inner / least : 1;
  if (parts < ceil_div(inner, MAX_PIECE)) parts = ceil_div(inner, MAX_PIECE); /* positions in a part have 32 bits */
  s.part = ceil_div(ceil_div(inner, parts), unit) * unit;
  s.parts = (int)ceil_div(inner, s.part);
  s.blocks = blocks * s.parts;
}

/* The kept dim along which the input is contiguous, if columns suit. */
static inline int column_of(const tide_reduce_args *a) {
  if (a->nred != 1 || a->red_stride[0] == 1) return -1;
  for (int d = 0; d < a->nkeep; d++)
    if (a->keep_stride[1][d] == 1 && a->keep_size[d] >= 32) return d;
  return -1;
}

/* `hot`: the typed kernels exist for this dtype. */
static inline Shape shape_of(const tide_reduce_args *a, int sms, bool hot) {
  Shape s = {};
  int bytes = dtype_bytes(a->dtype[1]);
  s.column_dim = hot ? column_of(a) : -1;
  s.way = hot && a->nred == 1 && (a->red_stride[0] == 1 || a->inner == 1) ? ROWS : s.column_dim >= 0 ? COLUMNS : ANYHOW;
  int vec = 16 / bytes < (s.way == COLUMNS ? 4 : 8) ? 16 / bytes : (s.way == COLUMNS ? 4 : 8);
  int64_t misfit = (uintptr_t)a->head.ptr[1] % (vec * bytes) != 0;
  if (s.way == COLUMNS) {
    for (int d = 0; d < a->nkeep; d++)
      if (d != s.column_dim && a->keep_size[d] > 1) misfit |= a->keep_stride[1][d] % vec;
    misfit |= a->red_stride[0] % vec;
    s.columns = a->keep_size[s.column_dim];
    split(s, a->inner, ceil_div(s.columns, COL_X * vec) * (a->outer / s.columns), 64, COL_Y, sms);
  } else {
    for (int d = 0; d < a->nkeep; d++)
      if (a->keep_size[d] > 1) misfit |= a->keep_stride[1][d] % vec;
    s.group = group_for(a->inner, s.way == ROWS ? 16 * vec : 4);
    if (s.way == ROWS && s.group < 4) s.group = group_for(a->inner, 8 * vec); /* short rows: reads side by side */
    if (s.way == ROWS) /* few rows: enough threads instead of few merges */
      while (s.group < THREADS && s.group * vec < a->inner && a->outer * s.group < (int64_t)sms * THREADS * 8)
        s.group *= 2;
    bool side_by_side =
        a->nkeep > 0 && a->nred > 0 && a->keep_stride[1][a->nkeep - 1] == 1 && a->red_stride[a->nred - 1] != 1;
    if (s.way == ANYHOW && side_by_side && a->outer >= THREADS * 4) s.group = 1;
    int64_t least = s.way == ROWS ? THREADS * vec * 8 : THREADS * 4;
    int64_t blocks = ceil_div(a->outer, THREADS / s.group);
    if (s.group < THREADS) least = a->inner;
    split(s, a->inner, blocks, least, vec, sms);
  }
  s.vector = !misfit;
  return s;
}

static inline void fill_args(ReduceArgs &r, const tide_reduce_args *a, const Shape &s, void *scratch) {
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.second = a->head.ptr[2], r.partial = scratch;
  r.outer = a->outer, r.inner = a->inner, r.part = s.part, r.parts = s.parts, r.group = s.group;
  r.out_dtype = a->dtype[0], r.in_dtype = a->dtype[1], r.second_dtype = a->dtype[2], r.vector = s.vector;
  r.columns = s.columns, r.nred = a->nred;
  r.where_only = a->op == TIDE_ARGMAX || a->op == TIDE_ARGMIN;
  r.finish = {a->param, a->scale, a->inner, a->index_base, a->op == TIDE_STD};
  if (a->op == TIDE_MAX || a->op == TIDE_MIN) r.second_dtype = TIDE_INT64;
  r.keep.n = 0, r.keep.big = a->outer >= ((int64_t)1 << 31);
  for (int i = 0; i < a->nkeep; i++) {
    /* The column dim, if any, comes last. */
    int d = s.way != COLUMNS ? i : i == a->nkeep - 1 ? s.column_dim : i < s.column_dim ? i : i + 1;
    r.keep.size[i] = make_div(a->keep_size[d]), r.keep.length[i] = a->keep_size[d];
    for (int j = 0; j < 3; j++) r.keep.stride[i][j] = a->keep_stride[j][d];
    r.keep.n++;
  }
  for (int d = 0; d < a->nred; d++) {
    r.red_size[d] = make_div(a->red_size[d]);
    r.red_length[d] = a->red_size[d], r.red_stride[d] = a->red_stride[d];
  }
}

/* What a policy can do: its kernels, by storage type for the typed ones. */
using ReduceKernel = void (*)(const ReduceArgs);
struct Typed {
  int dtype;
  ReduceKernel row, col;
};
struct Reducer {
  ReduceKernel any, last;
  size_t acc_size;
  Typed typed[3];
};
template <class P, class S> constexpr Typed typed(int dtype) { return {dtype, row_kernel<P, S>, col_kernel<P, S>}; }
template <class P, class... Ts> constexpr Reducer reducer(Ts... typed) {
  return {any_kernel<P>, last_kernel<P>, sizeof(typename P::Acc), {typed...}};
}

/* Stands where a type has no typed kernels of its own. */
constexpr int NO_DTYPE = -1;

/* The reducer of each op for the arguments; NULL if there is none. By the reduce_*.cu. */
const Reducer *reducer_sum(const tide_reduce_args *a);
const Reducer *reducer_extreme(const tide_reduce_args *a);
const Reducer *reducer_norm(const tide_reduce_args *a);
const Reducer *reducer_var(const tide_reduce_args *a);
const Reducer *reducer_test(const tide_reduce_args *a);
const Reducer *reducer_pair(const tide_reduce_args *a);

} // namespace tidek
