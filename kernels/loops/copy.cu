/* copy.cu: copies, casts, fills and arange.
 *
 * Four ways for a copy: flat (one dim, both contiguous; vectors, one kernel for each pair of dtypes, or one for each
 * size of element where nothing is converted); transposed (the source's contiguous dim is not the destination's: tiles
 * through shared memory, so that both sides see whole vectors); rows (both contiguous along the innermost dim, handled
 * as elements of up to 16 bytes); and any (an index computation for each element). Copies without conversion move plain
 * words of the element's size, whatever the dtype. */
#include "tidek.h"
#include "types.cuh"

namespace tidek {

constexpr int THREADS = 256;

/* ---- flat: n elements from S to D ---- */

template <class D, class S, int VEC> struct FlatCopy {
  /* Vectors in flight: as few as keep the reads going (measured on an H200). */
  static constexpr int UNROLL = sizeof(D) == sizeof(S)  ? 1
                                : sizeof(D) > sizeof(S) ? 2
                                                        : 4,
                       TILE = THREADS * VEC * UNROLL;
  static __device__ __forceinline__ void whole(D *to, const S *from) {
    Pack<S, VEC> in[UNROLL];
    TIDEK_EACH(u, UNROLL) in[u] = Pack<S, VEC>::load(from + (u * THREADS + threadIdx.x) * VEC);
    TIDEK_EACH(u, UNROLL) {
      Pack<D, VEC> out;
      TIDEK_EACH(l, VEC) out.v[l] = cast<D>(in[u].v[l]);
      out.store(to + (u * THREADS + threadIdx.x) * VEC);
    }
  }
};

template <class D, class S, int VEC>
__global__ void __launch_bounds__(THREADS) flat_kernel(D *to, const S *from, int64_t n, int aligned) {
  kernel_begin();
  using Copy = FlatCopy<D, S, VEC>;
  int64_t first = (int64_t)blockIdx.x * Copy::TILE;
  if (aligned && n - first >= Copy::TILE) {
    Copy::whole(to + first, from + first);
    return;
  }
  int left = n - first < Copy::TILE ? (int)(n - first) : Copy::TILE;
  for (int i = threadIdx.x; i < left; i += THREADS) to[first + i] = cast<D>(from[first + i]);
}

template <class D, class S> static int launch_flat(cudaStream_t stream, void *to, const void *from, int64_t n) {
  constexpr int vec = 16 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S)),
                VEC = vec > 4 && sizeof(D) != sizeof(S) ? 8 : vec;
  int aligned = (uintptr_t)to % (VEC * sizeof(D)) == 0 && (uintptr_t)from % (VEC * sizeof(S)) == 0;
  int64_t blocks = ceil_div(n, FlatCopy<D, S, VEC>::TILE);
  return launch(flat_kernel<D, S, VEC>, blocks, THREADS, stream, (D *)to, (const S *)from, n, aligned);
}

template <class S> static int launch_cast(cudaStream_t stream, void *to, int dtype, const void *from, int64_t n) {
  switch (dtype) {
#define X(NAME, D)                                                                                                     \
  case NAME: return launch_flat<D, S>(stream, to, from, n);
    TIDEK_STORAGES(X)
#undef X
  }
  return (int)cudaErrorInvalidValue;
}

static int flat_cast(cudaStream_t stream, const tide_copy_args *a) {
  switch (a->dtype[1]) {
#define X(NAME, S)                                                                                                     \
  case NAME: return launch_cast<S>(stream, a->head.ptr[0], a->dtype[0], a->head.ptr[1], a->numel);
    TIDEK_STORAGES(X)
#undef X
  }
  return (int)cudaErrorInvalidValue;
}

/* Plain bytes, as words of 16 where both sides allow it. */
static int flat_words(cudaStream_t stream, void *to, const void *from, int64_t bytes) {
  uintptr_t both = (uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes;
  if (both % 16 == 0) return launch_flat<uint4, uint4>(stream, to, from, bytes / 16);
  if (both % 8 == 0) return launch_flat<uint2, uint2>(stream, to, from, bytes / 8);
  if (both % 4 == 0) return launch_flat<uint32_t, uint32_t>(stream, to, from, bytes / 4);
  if (both % 2 == 0) return launch_flat<uint16_t, uint16_t>(stream, to, from, bytes / 2);
  return launch_flat<uint8_t, uint8_t>(stream, to, from, bytes);
}

/* ---- any strides ---- */

struct StridedArgs {
  void *to;
  const void *from;
  uint32_t n;
  int32_t ndim;
  uint8_t dtype[2];
  Div size[TIDE_MAX_DIMS];
  int64_t stride[TIDE_MAX_DIMS][2];
};

constexpr int ANY = 4;

/* The offsets of this thread's elements; past the end those of the last element. */
static __device__ __forceinline__ uint32_t strided_offsets(const StridedArgs &a, int64_t (&to)[ANY],
                                                           int64_t (&from)[ANY]) {
  uint32_t index[ANY], start = blockIdx.x * (THREADS * ANY) + threadIdx.x;
  TIDEK_EACH(e, ANY) {
    index[e] = start + e * THREADS < a.n ? start + e * THREADS : a.n - 1;
    to[e] = from[e] = 0;
  }
  for (int d = a.ndim - 1; d >= 0; d--) {
    TIDEK_EACH(e, ANY) {
      uint32_t i = d ? a.size[d].split(index[e]) : index[e];
      to[e] += i * a.stride[d][0];
      from[e] += i * a.stride[d][1];
    }
  }
  return start;
}

template <class W> __global__ void __launch_bounds__(THREADS) strided_kernel(const __grid_constant__ StridedArgs a) {
  kernel_begin();
  int64_t to[ANY], from[ANY];
  uint32_t start = strided_offsets(a, to, from);
  W x[ANY];
  TIDEK_EACH(e, ANY) x[e] = ((const W *)a.from)[from[e]];
  TIDEK_EACH(e, ANY)
    if (start + e * THREADS < a.n) ((W *)a.to)[to[e]] = x[e];
}

/* Converts through T, which holds every value of the source's dtype: int64, double or complex128. */
template <class T>
__global__ void __launch_bounds__(THREADS) strided_cast_kernel(const __grid_constant__ StridedArgs a) {
  kernel_begin();
  int64_t to[ANY], from[ANY];
  uint32_t start = strided_offsets(a, to, from);
  T x[ANY];
  load_any(x, a.from, from, a.dtype[1]);
  TIDEK_EACH(e, ANY)
    if (start + e * THREADS < a.n) store_any(a.to, to[e], a.dtype[0], x[e]);
}

static int launch_strided(cudaStream_t stream, const tide_copy_args &a) {
  StridedArgs s = {};
  s.to = a.head.ptr[0], s.from = a.head.ptr[1];
  s.n = (uint32_t)a.numel, s.ndim = a.ndim;
  s.dtype[0] = a.dtype[0], s.dtype[1] = a.dtype[1];
  for (int d = 0; d < a.ndim; d++) {
    s.size[d] = make_div(a.size[d]);
    s.stride[d][0] = a.stride[0][d], s.stride[d][1] = a.stride[1][d];
  }
  void (*kernel)(const StridedArgs);
  if (a.dtype[0] != a.dtype[1]) {
    kernel = a.dtype[1] >= TIDE_COMPLEX64 ? strided_cast_kernel<complex128>
             : a.dtype[1] >= TIDE_FLOAT16 ? strided_cast_kernel<double>
                                          : strided_cast_kernel<int64_t>;
  } else {
    switch (dtype_bytes(a.dtype[0])) {
    case 1: kernel = strided_kernel<uint8_t>; break;
    case 2: kernel = strided_kernel<uint16_t>; break;
    case 4: kernel = strided_kernel<uint32_t>; break;
    case 8: kernel = strided_kernel<uint2>; break;
    default: kernel = strided_kernel<uint4>; break;
    }
  }
  return launch(kernel, ceil_div(a.numel, THREADS * ANY), THREADS, stream, (const StridedArgs)s);
}

/* ---- transposed: tiles through shared memory ---- */

/* The destination is contiguous along x, the source along y. Blocks count tiles of x, then of y, then the other
 * dims. */
struct TransposeArgs {
  void *to;
  const void *from;
  uint32_t nx, ny;
  Div tiles_x, tiles_y;
  int64_t to_y, from_x; /* strides of the other dim of each side */
  int32_t ndim;         /* other dims */
  Div size[TIDE_MAX_DIMS];
  int64_t stride[TIDE_MAX_DIMS][2];
};

/* A tile of TILE x TILE words; each row of shared memory is one row of the destination, padded by one word so that the
 * scattered writes of a source vector fall into different banks. VEC words move at once. */
template <class W, int TILE, int VEC>
__global__ void __launch_bounds__(THREADS) transpose_kernel(const __grid_constant__ TransposeArgs a) {
  __shared__ W tile[TILE][TILE + 1];
  kernel_begin();
  constexpr int LANES = TILE / VEC, ROWS = THREADS / LANES;
  uint32_t rest = blockIdx.x, x0 = a.tiles_x.split(rest) * TILE, y0 = a.tiles_y.split(rest) * TILE;
  W *to = (W *)a.to;
  const W *from = (const W *)a.from;
  for (int d = a.ndim - 1; d >= 0; d--) {
    uint32_t i = a.size[d].split(rest);
    to += i * a.stride[d][0], from += i * a.stride[d][1];
  }
  uint32_t lane = threadIdx.x % LANES * VEC, row = threadIdx.x / LANES;
  bool whole = x0 + TILE <= a.nx && y0 + TILE <= a.ny;
  if (whole) {
    Pack<W, VEC> in[TILE / ROWS];
    TIDEK_EACH(j, TILE / ROWS) in[j] = Pack<W, VEC>::load(from + (x0 + row + j * ROWS) * a.from_x + y0 + lane);
    TIDEK_EACH(j, TILE / ROWS)
      TIDEK_EACH(l, VEC) tile[lane + l][row + j * ROWS] = in[j].v[l];
    __syncthreads();
    TIDEK_EACH(j, TILE / ROWS) {
      Pack<W, VEC> out;
      TIDEK_EACH(l, VEC) out.v[l] = tile[row + j * ROWS][lane + l];
      out.store(to + (y0 + row + j * ROWS) * a.to_y + x0 + lane);
    }
    return;
  }
  for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
    uint32_t y = y0 + i % TILE, x = x0 + i / TILE;
    if (x < a.nx && y < a.ny) tile[i % TILE][i / TILE] = from[x * a.from_x + y];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
    uint32_t x = x0 + i % TILE, y = y0 + i / TILE;
    if (x < a.nx && y < a.ny) to[y * a.to_y + x] = tile[i / TILE][i % TILE];
  }
}

template <class W, int TILE, int VEC>
static int launch_tiles(cudaStream_t stream, TransposeArgs &t, int64_t others, bool aligned) {
  int64_t x = ceil_div(t.nx, TILE), y = ceil_div(t.ny, TILE);
  t.tiles_x = make_div(x), t.tiles_y = make_div(y);
  auto kernel = aligned ? transpose_kernel<W, TILE, VEC> : transpose_kernel<W, TILE, 1>;
  return launch(kernel, x * y * others, THREADS, stream, (const TransposeArgs)t);
}

/* Words moved at once for elements of this size. */
static int transpose_vec(int bytes) { return bytes == 16 ? 1 : bytes >= 4 ? 2 : 4; }

static int launch_transposed(cudaStream_t stream, const tide_copy_args &a, int y) {
  int last = a.ndim - 1, bytes = dtype_bytes(a.dtype[0]), vec = transpose_vec(bytes);
  TransposeArgs t = {};
  t.to = a.head.ptr[0], t.from = a.head.ptr[1];
  t.nx = (uint32_t)a.size[last], t.ny = (uint32_t)a.size[y];
  t.to_y = a.stride[0][y], t.from_x = a.stride[1][last];
  int64_t others = 1, misfit = t.to_y % vec | t.from_x % vec;
  for (int d = 0; d < last; d++) {
    if (d == y) continue;
    t.size[t.ndim] = make_div(a.size[d]);
    t.stride[t.ndim][0] = a.stride[0][d], t.stride[t.ndim][1] = a.stride[1][d];
    misfit |= t.stride[t.ndim][0] % vec | t.stride[t.ndim][1] % vec;
    t.ndim++, others *= a.size[d];
  }
  bool aligned = !misfit && ((uintptr_t)t.to | (uintptr_t)t.from) % (vec * bytes) == 0;
  switch (bytes) {
  case 1: return launch_tiles<uint8_t, 64, 4>(stream, t, others, aligned);
  case 2: return launch_tiles<uint16_t, 64, 4>(stream, t, others, aligned);
  case 4: return launch_tiles<uint32_t, 64, 2>(stream, t, others, aligned);
  case 8: return launch_tiles<uint2, 32, 2>(stream, t, others, aligned);
  default: return launch_tiles<uint4, 32, 1>(stream, t, others, aligned);
  }
}

/* The dim to transpose with the innermost one, or -1: the source's contiguous one, if tiles pay. */
static int transposed_dim(const tide_copy_args &a) {
  int last = a.ndim - 1;
  if (a.dtype[0] != a.dtype[1] || last == 0 || a.stride[0][last] != 1 || a.stride[1][last] == 1 || a.size[last] < 8)
    return -1;
  for (int d = 0; d < last; d++)
    if (a.stride[1][d] == 1 && a.size[d] >= 8) return d;
  return -1;
}

/* ---- rows: contiguous along the innermost dim on both sides, so wider words may be moved ---- */

static tide_copy_args widened(const tide_copy_args &a) {
  tide_copy_args out = a;
  int last = a.ndim - 1, bytes = dtype_bytes(a.dtype[0]);
  if (a.dtype[0] != a.dtype[1] || a.stride[0][last] != 1 || a.stride[1][last] != 1) return out;
  static const uint8_t as[] = {TIDE_UINT8, TIDE_INT16, TIDE_INT32, TIDE_INT64, TIDE_COMPLEX128};
  for (int log = 4; log > 0; log--) {
    int64_t times = (1 << log) / bytes, misfit = times ? a.size[last] % times : 1;
    if (times < 2 || ((uintptr_t)a.head.ptr[0] | (uintptr_t)a.head.ptr[1]) % (1 << log)) continue;
    for (int d = 0; d < last; d++) misfit |= a.stride[0][d] % times | a.stride[1][d] % times;
    if (misfit) continue;
    for (int d = 0; d < last; d++) out.stride[0][d] /= times, out.stride[1][d] /= times;
    out.size[last] /= times, out.numel /= times;
    out.dtype[0] = out.dtype[1] = as[log];
    break;
  }
  return out;
}

static int copy_piece(cudaStream_t stream, const tide_copy_args &a) {
  int y = transposed_dim(a);
  return y >= 0 ? launch_transposed(stream, a, y) : launch_strided(stream, a);
}

/* ---- fill and arange ---- */

constexpr int FILL_UNROLL = 4;

/* `pattern` repeats the element to 16 bytes. */
__global__ void __launch_bounds__(THREADS)
    fill_flat_kernel(char *to, int64_t bytes, uint4 pattern, int size, int aligned) {
  kernel_begin();
  constexpr int TILE = THREADS * 16 * FILL_UNROLL;
  int64_t first = (int64_t)blockIdx.x * TILE;
  if (aligned && bytes - first >= TILE) {
    TIDEK_EACH(u, FILL_UNROLL) *(uint4 *)(to + first + (u * THREADS + threadIdx.x) * 16) = pattern;
    return;
  }
  int left = bytes - first < TILE ? (int)(bytes - first) : TILE;
  for (int i = threadIdx.x * size; i < left; i += THREADS * size) {
    char *p = to + first + i;
    switch (size) {
    case 1: *(uint8_t *)p = (uint8_t)pattern.x; break;
    case 2: *(uint16_t *)p = (uint16_t)pattern.x; break;
    case 4: *(uint32_t *)p = pattern.x; break;
    case 8: *(uint2 *)p = make_uint2(pattern.x, pattern.y); break;
    default: *(uint4 *)p = pattern; break;
    }
  }
}

static int fill_flat(cudaStream_t stream, const tide_fill_args *a) {
  int size = dtype_bytes(a->dtype);
  uint64_t b[2] = {a->bits[0], a->bits[1]};
  if (size == 1) b[0] = (b[0] & 0xff) * 0x0101010101010101u;
  if (size == 2) b[0] = (b[0] & 0xffff) * 0x0001000100010001u;
  if (size == 4) b[0] = (b[0] & 0xffffffff) * 0x0000000100000001u;
  if (size < 16) b[1] = b[0];
  uint4 pattern = make_uint4((uint32_t)b[0], (uint32_t)(b[0] >> 32), (uint32_t)b[1], (uint32_t)(b[1] >> 32));
  int64_t bytes = a->numel * size, blocks = ceil_div(bytes, THREADS * 16 * FILL_UNROLL);
  int aligned = (uintptr_t)a->head.ptr[0] % 16 == 0;
  return launch(fill_flat_kernel, blocks, THREADS, stream, (char *)a->head.ptr[0], bytes, pattern, size, aligned);
}

template <class W>
__global__ void __launch_bounds__(THREADS) fill_strided_kernel(const __grid_constant__ StridedArgs a, W value) {
  kernel_begin();
  int64_t to[ANY], from[ANY];
  uint32_t start = strided_offsets(a, to, from);
  TIDEK_EACH(e, ANY)
    if (start + e * THREADS < a.n) ((W *)a.to)[to[e]] = value;
}

static int fill_piece(cudaStream_t stream, const tide_fill_args &a) {
  StridedArgs s = {};
  s.to = a.head.ptr[0], s.n = (uint32_t)a.numel, s.ndim = a.ndim;
  for (int d = 0; d < a.ndim; d++) s.size[d] = make_div(a.size[d]), s.stride[d][0] = a.stride[d];
  int64_t blocks = ceil_div(a.numel, THREADS * ANY);
  const uint32_t *w = (const uint32_t *)a.bits;
  switch (dtype_bytes(a.dtype)) {
  case 1: return launch(fill_strided_kernel<uint8_t>, blocks, THREADS, stream, (const StridedArgs)s, (uint8_t)w[0]);
  case 2: return launch(fill_strided_kernel<uint16_t>, blocks, THREADS, stream, (const StridedArgs)s, (uint16_t)w[0]);
  case 4: return launch(fill_strided_kernel<uint32_t>, blocks, THREADS, stream, (const StridedArgs)s, w[0]);
  case 8:
    return launch(fill_strided_kernel<uint2>, blocks, THREADS, stream, (const StridedArgs)s, make_uint2(w[0], w[1]));
  default:
    return launch(fill_strided_kernel<uint4>, blocks, THREADS, stream, (const StridedArgs)s,
                  make_uint4(w[0], w[1], w[2], w[3]));
  }
}

struct ArangeArgs {
  void *to;
  int32_t dtype, symmetric;
  int64_t n;
  tide_value start, step, last;
};

__global__ void __launch_bounds__(THREADS) arange_kernel(const __grid_constant__ ArangeArgs a) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= a.n) return;
  if (a.dtype <= TIDE_INT64) {
    store_any(a.to, i, a.dtype, (int64_t)((uint64_t)a.start.i + (uint64_t)i * (uint64_t)a.step.i));
  } else {
    bool upper = a.symmetric && i >= a.n / 2;
    store_any(a.to, i, a.dtype,
              upper ? fma(-(double)(a.n - 1 - i), a.step.re, a.last.re) : fma((double)i, a.step.re, a.start.re));
  }
}

} // namespace tidek

/* ---- launchers ---- */

int tidek_copy(cudaStream_t stream, const tide_copy_args *a) {
  using namespace tidek;
  if (a->flat && a->dtype[0] == a->dtype[1])
    return flat_words(stream, a->head.ptr[0], a->head.ptr[1], a->numel * dtype_bytes(a->dtype[0]));
  if (a->flat) return flat_cast(stream, a);
  auto move = [](tide_copy_args &p, int d, int64_t count) {
    for (int k = 0; k < 2; k++)
      p.head.ptr[k] = (char *)p.head.ptr[k] + count * p.stride[k][d] * dtype_bytes(p.dtype[k]);
  };
  return in_pieces(widened(*a), move, [&](const tide_copy_args &p) { return copy_piece(stream, p); });
}

int tidek_fill(cudaStream_t stream, const tide_fill_args *a) {
  using namespace tidek;
  if (a->flat) return fill_flat(stream, a);
  auto move = [](tide_fill_args &p, int d, int64_t count) {
    p.head.ptr[0] = (char *)p.head.ptr[0] + count * p.stride[d] * dtype_bytes(p.dtype);
  };
  return in_pieces(*a, move, [&](const tide_fill_args &p) { return fill_piece(stream, p); });
}

int tidek_arange(cudaStream_t stream, const tide_arange_args *a) {
  using namespace tidek;
  ArangeArgs r = {a->head.ptr[0], a->dtype, a->symmetric, a->numel, a->start, a->step, a->last};
  return launch(arange_kernel, ceil_div(a->numel, THREADS), THREADS, stream, (const ArangeArgs)r);
}
