/* elementwise.cuh: out = op(inputs), for one compute type; elementwise_*.cu each build one of them.
 *
 * Two kernels for each op. `fast_kernel` takes operands of one storage type (the output may be Bool instead) whose
 * innermost dim is long: one block works on one tile of one row, with 16-byte accesses where all operands allow them; a
 * flat operation is one row. Rows shorter than a tile that are made of whole vectors are packed: each thread finds the
 * row of its vector. `any_kernel` takes everything else: any mix of dtypes, any strides, an index computation for each
 * element. Both read all their operands before the op's expression appears, which is compiled once in each.
 *
 * Invariant: a fast_kernel's vector accesses are aligned for every row, because the launcher has checked all pointers
 * and outer strides; a last, incomplete tile of a row goes element by element. */
#pragma once

#include "opmath.cuh"

namespace tidek {

/* ---- the ops ---- */

template <class T> constexpr bool is_float = std::is_floating_point_v<T>;
template <class T> constexpr bool is_int = std::is_integral_v<T>;

/* Which compute types a rule of op.def accepts, and whether the result is Bool. */
#define RULE(name, accepted, is_test)                                                                                  \
  struct name {                                                                                                        \
    template <class T> static constexpr bool accepts = accepted;                                                       \
    static constexpr bool test = is_test;                                                                              \
  };
RULE(FLOAT, is_float<T>, false)
RULE(FLOATC, !is_int<T>, false)
RULE(MATHC, !is_int<T>, false)
RULE(EXACT, is_float<T>, false)
RULE(REAL, !is_complex<T>::value, false)
RULE(DIVIDE, !is_complex<T>::value, false)
RULE(REALC, true, false)
RULE(ARITHC, true, false)
RULE(TEST, true, true)
RULE(COMPARE, !is_complex<T>::value, true)
RULE(EQUALC, true, true)
RULE(CLOSE, !is_int<T>, true)
RULE(LOGIC, true, true)
RULE(BITS, is_int<T>, false)
#undef RULE

#define FUNCTOR(name, rule, inputs, A, B, C, expr)                                                                     \
  struct op_##name {                                                                                                   \
    using Rule = rule;                                                                                                 \
    static constexpr int n = inputs, id = TIDE_OP_##name;                                                              \
    template <class T> static __device__ __forceinline__ auto apply(T A, T B, T C, T p0, T p1, T p2) { return expr; }  \
  };
#define UNARY(name, rule, loop, expr, doc)   FUNCTOR(name, rule, 1, x, , , expr)
#define BINARY(name, rule, loop, expr, doc)  FUNCTOR(name, rule, 2, a, b, , expr)
#define TERNARY(name, rule, loop, expr, doc) FUNCTOR(name, rule, 3, a, b, c, expr)
#include "tide/op.def"
#undef FUNCTOR

/* where's condition is Bool beside operands of another dtype. */
template <class Op, class S> using First = std::conditional_t<Op::id == TIDE_OP_where, Bool, S>;
/* What an op's value is before it is stored: a test's is an int. */
template <class Op, class T> using Value = std::conditional_t<Op::Rule::test, int, T>;
template <class Op, class S> using Result = std::conditional_t<Op::Rule::test, Bool, S>;

/* ---- one storage type ---- */

constexpr int THREADS = 256;
constexpr int MAX_OUTER = 4;
enum { VECTOR, ONE_VALUE, NUMBER, STRIDED }; /* how an operand is read */

template <class T> struct FastArgs {
  void *ptr[4];
  T number[4], p[3];
  int64_t n; /* length of a row */
  int32_t mode[4];
  int32_t whole;              /* tiles may use vectors */
  int32_t outer;              /* outer dims, from the outermost */
  Div tiles, size[MAX_OUTER]; /* tiles of a row, of packed rows its vectors */
  int64_t inner_stride[4], stride[MAX_OUTER][4];
  uint32_t packed; /* vectors of all rows where these are packed, else 0 */
};

/* Elements of a thread: one vector, in which the widest of the types takes 16 bytes. More of them would be slower:
 * reads and writes then come in longer bursts, which memory likes less (measured on an H200). */
template <class S, class R> constexpr int vec_of = 16 / (sizeof(S) > sizeof(R) ? sizeof(S) : sizeof(R));

/* One operand's elements of this thread, as they are stored: in a whole tile, which is the short way... */
template <int VEC, class S>
static __device__ __forceinline__ void read_whole(Pack<S, VEC> &out, const S *p, int mode, int64_t at) {
  if (mode == VECTOR) {
    out = Pack<S, VEC>::load(p + at);
  } else if (mode == ONE_VALUE) {
    S value = *p;
#pragma unroll
    for (int e = 0; e < VEC; e++) out.v[e] = value;
  }
}

/* ...and one by one, `left` of them from number `first` of the row. */
template <int VEC, class S>
static __device__ __forceinline__ void read_some(Pack<S, VEC> &out, const S *p, int mode, int64_t stride, int64_t first,
                                                 int left) {
  if (mode == NUMBER) return;
#pragma unroll
  for (int e = 0; e < VEC; e++) {
    int at = e * THREADS + threadIdx.x;
    if (at < left) out.v[e] = p[(first + at) * stride];
  }
}

/* PACKED: for packed rows. In one kernel the two would cost a flat operation of 16-bit elements registers, 8 % of its
 * rate on an H200. */
template <class Op, class T, class S, bool PACKED>
__global__ void __launch_bounds__(THREADS) fast_kernel(const __grid_constant__ FastArgs<T> a) {
  kernel_begin();
  using R = Result<Op, S>;
  using F = First<Op, S>;
  constexpr int VEC = vec_of<S, R>, TILE = THREADS * VEC;
  uint32_t row = blockIdx.x, tile = row;
  int64_t offset[4] = {};
  if constexpr (PACKED) {
    row = row * THREADS + threadIdx.x;
    if (row >= a.packed) return;
  }
  if (PACKED || a.outer) {
    tile = a.tiles.split(row);
    for (int d = a.outer - 1; d >= 0; d--) {
      uint32_t i = a.size[d].split(row);
#pragma unroll
      for (int k = 0; k <= Op::n; k++) offset[k] += i * a.stride[d][k];
    }
  }
  const F *p1 = (const F *)a.ptr[1] + offset[1];
  const S *p2 = (const S *)a.ptr[2] + offset[2], *p3 = (const S *)a.ptr[3] + offset[3];
  int64_t first = (int64_t)tile * TILE, mine = first + threadIdx.x * VEC;
  int left = a.n - first < TILE ? (int)(a.n - first) : TILE;
  bool whole = PACKED || (a.whole && left == TILE);
  if constexpr (PACKED) mine = (int64_t)tile * VEC;
  Pack<F, VEC> in1;
  Pack<S, VEC> in2, in3;
  if (whole) {
    read_whole(in1, p1, a.mode[1], mine);
    if constexpr (Op::n > 1) read_whole(in2, p2, a.mode[2], mine);
    if constexpr (Op::n > 2) read_whole(in3, p3, a.mode[3], mine);
  } else {
    read_some(in1, p1, a.mode[1], a.inner_stride[1], first, left);
    if constexpr (Op::n > 1) read_some(in2, p2, a.mode[2], a.inner_stride[2], first, left);
    if constexpr (Op::n > 2) read_some(in3, p3, a.mode[3], a.inner_stride[3], first, left);
  }
  Pack<R, VEC> out;
#pragma unroll
  for (int e = 0; e < VEC; e++) {
    T x = a.mode[1] == NUMBER ? a.number[1] : cast<T>(in1.v[e]), y = x, z = x;
    if constexpr (Op::n > 1) y = a.mode[2] == NUMBER ? a.number[2] : cast<T>(in2.v[e]);
    if constexpr (Op::n > 2) z = a.mode[3] == NUMBER ? a.number[3] : cast<T>(in3.v[e]);
    out.v[e] = cast<R>((Value<Op, T>)Op::apply(x, y, z, a.p[0], a.p[1], a.p[2]));
  }
  R *to = (R *)a.ptr[0] + offset[0];
  if (whole) {
    out.store(to + mine);
    return;
  }
#pragma unroll
  for (int e = 0; e < VEC; e++) {
    int at = e * THREADS + threadIdx.x;
    if (at < left) to[(first + at) * a.inner_stride[0]] = out.v[e];
  }
}

/* ---- any dtypes, any strides ---- */

constexpr int ANY = 4; /* elements of a thread */

template <class T> struct AnyArgs {
  void *ptr[4];
  T number[4], p[3];
  uint8_t dtype[4], is_number[4];
  int32_t ndim;
  uint32_t n;
  Div size[TIDE_MAX_DIMS];
  int64_t stride[TIDE_MAX_DIMS][4];
};

template <class Op, class T>
__global__ void __launch_bounds__(THREADS) any_kernel(const __grid_constant__ AnyArgs<T> a) {
  kernel_begin();
  uint32_t index[ANY], start = blockIdx.x * (THREADS * ANY) + threadIdx.x;
  int64_t offset[Op::n + 1][ANY] = {};
  /* Elements past the end repeat the last one, and are not stored. */
#pragma unroll
  for (int e = 0; e < ANY; e++) index[e] = start + e * THREADS < a.n ? start + e * THREADS : a.n - 1;
  for (int d = a.ndim - 1; d > 0; d--) {
#pragma unroll
    for (int e = 0; e < ANY; e++) {
      uint32_t i = a.size[d].split(index[e]);
#pragma unroll
      for (int k = 0; k <= Op::n; k++) offset[k][e] += i * a.stride[d][k];
    }
  }
#pragma unroll
  for (int k = 0; k <= Op::n; k++)
#pragma unroll
    for (int e = 0; e < ANY; e++) offset[k][e] += index[e] * a.stride[0][k];
  T in[3][ANY];
#pragma unroll
  for (int k = 0; k < Op::n; k++) {
    if (a.is_number[k + 1])
      for (int e = 0; e < ANY; e++) in[k][e] = a.number[k + 1];
    else
      load_any(in[k], a.ptr[k + 1], offset[k + 1], a.dtype[k + 1]);
  }
  Value<Op, T> out[ANY];
#pragma unroll
  for (int e = 0; e < ANY; e++)
    out[e] = Op::apply(in[0][e], in[Op::n > 1][e], in[Op::n > 2 ? 2 : 0][e], a.p[0], a.p[1], a.p[2]);
  int stored = a.dtype[0];
#define X(NAME, S)                                                                                                     \
  case NAME:                                                                                                           \
    _Pragma("unroll") for (int e = 0; e < ANY; e++) if (start + e * THREADS < a.n)((S *)a.ptr[0])[offset[0][e]] =      \
        cast<S>(out[e]);                                                                                               \
    break;
  switch (stored) { TIDEK_STORAGES(X) }
#undef X
}

/* ---- launching ---- */

/* The kernels of an op for one compute type: `fast` by storage type, see storage_index. */
template <class T> struct Kernels {
  void (*any)(const AnyArgs<T>);
  void (*fast[3])(const FastArgs<T>), (*packed[3])(const FastArgs<T>);
};

/* The storage types of the fast path of a compute type. */
template <class T> struct Storages {
  using A = T;
  using B = void;
  using C = void;
  static constexpr int dtype[] = {-1};
};
template <> struct Storages<float> {
  using A = float;
  using B = half;
  using C = bfloat16;
  static constexpr int dtype[] = {TIDE_FLOAT32, TIDE_FLOAT16, TIDE_BFLOAT16};
};
template <> struct Storages<double> {
  using A = double;
  using B = void;
  using C = void;
  static constexpr int dtype[] = {TIDE_FLOAT64};
};
template <> struct Storages<int32_t> {
  using A = int32_t;
  using B = void;
  using C = void;
  static constexpr int dtype[] = {TIDE_INT32};
};
template <> struct Storages<int64_t> {
  using A = int64_t;
  using B = void;
  using C = void;
  static constexpr int dtype[] = {TIDE_INT64};
};

template <class Op, class T, class S, bool PACKED> constexpr auto fast_of() -> void (*)(const FastArgs<T>) {
  if constexpr (std::is_void_v<S> || is_complex<T>::value)
    return nullptr;
  else
    return fast_kernel<Op, T, S, PACKED>;
}

template <class Op, class T> constexpr Kernels<T> kernels_of() {
  if constexpr (Op::Rule::template accepts<T>) {
    using St = Storages<T>;
    return {any_kernel<Op, T>,
            {fast_of<Op, T, typename St::A, false>(), fast_of<Op, T, typename St::B, false>(),
             fast_of<Op, T, typename St::C, false>()},
            {fast_of<Op, T, typename St::A, true>(), fast_of<Op, T, typename St::B, true>(),
             fast_of<Op, T, typename St::C, true>()}};
  } else {
    return {};
  }
}

/* Which of the fast kernels fits the dtypes, or -1. */
template <class T> static int storage_index(const tide_elementwise_args *a) {
  bool test = a->dtype[0] == TIDE_BOOL;
  int first = a->op == TIDE_OP_where ? 2 : 1, dtype = -1;
  if (first == 2 && !a->is_number[1] && a->dtype[1] != TIDE_BOOL) return -1;
  for (int k = first; k < a->operands; k++) {
    if (a->is_number[k]) continue;
    if (dtype >= 0 && a->dtype[k] != dtype) return -1;
    dtype = a->dtype[k];
  }
  if (dtype < 0) dtype = a->dtype[0];
  if (!test && a->dtype[0] != dtype) return -1;
  for (int i = 0; i < (int)(sizeof Storages<T>::dtype / sizeof(int)); i++)
    if (Storages<T>::dtype[i] == dtype) return i;
  return -1;
}

template <class T, class A> static void fill_values(A &out, const tide_elementwise_args *a) {
  for (int k = 0; k < a->operands; k++) {
    out.ptr[k] = a->head.ptr[k];
    if (a->is_number[k]) out.number[k] = value_of<T>(a->number[k]);
  }
  for (int k = 0; k < 3; k++) out.p[k] = value_of<T>(a->param[k]);
}

/* Rows of the fast kernel, and how many blocks they take: 0 if the op's shape does not suit it. */
template <class T> static int64_t plan_rows(FastArgs<T> &out, const tide_elementwise_args *a, int vec) {
  int last = a->ndim - 1;
  if (last > MAX_OUTER) return 0;
  bool whole = true;
  int64_t rows = 1;
  for (int d = 0; d < last; d++) {
    rows *= a->size[d];
    out.size[d] = make_div(a->size[d]);
  }
  for (int k = 0; k < a->operands; k++) {
    int64_t inner = a->is_number[k] ? 0 : a->stride[k][last], misfit = 0, bytes = dtype_bytes(a->dtype[k]);
    out.inner_stride[k] = inner;
    out.mode[k] = a->is_number[k] ? NUMBER : inner == 0 ? ONE_VALUE : inner == 1 ? VECTOR : STRIDED;
    for (int d = 0; d < last; d++) {
      out.stride[d][k] = a->is_number[k] ? 0 : a->stride[k][d];
      misfit |= out.stride[d][k] % vec;
    }
    if (out.mode[k] == VECTOR && (misfit || (uintptr_t)a->head.ptr[k] % (vec * bytes))) whole = false;
    if (out.mode[k] == STRIDED) whole = false;
  }
  if (out.mode[0] != VECTOR) whole = false;
  out.whole = whole;
  out.outer = last;
  out.n = a->size[last];
  const int64_t tile = (int64_t)THREADS * vec, tiles = ceil_div(out.n, tile), vectors = out.n / vec;
  const bool packed = last > 0 && whole && out.n % vec == 0 && out.n % tile && out.n < 8 * tile;
  if (packed && rows * vectors <= MAX_PIECE) {
    out.packed = (uint32_t)(rows * vectors);
    out.tiles = make_div(vectors);
    return ceil_div(rows * vectors, THREADS);
  }
  out.packed = 0;
  if (last > 0) out.tiles = make_div(tiles);
  /* blocks that are partly idle cost more than an index computation for each element */
  const bool full = last == 0 || out.n * 8 > tiles * tile * 7;
  return full && tiles * rows < (int64_t)1 << 31 ? tiles * rows : 0;
}

template <class T>
static int launch_any_piece(void (*kernel)(const AnyArgs<T>), cudaStream_t stream, const tide_elementwise_args &a) {
  AnyArgs<T> out = {};
  fill_values<T>(out, &a);
  out.ndim = a.ndim;
  out.n = (uint32_t)a.numel;
  for (int k = 0; k < a.operands; k++) {
    out.dtype[k] = a.dtype[k], out.is_number[k] = a.is_number[k];
    for (int d = 0; d < a.ndim; d++) out.stride[d][k] = a.is_number[k] ? 0 : a.stride[k][d];
  }
  for (int d = 0; d < a.ndim; d++) out.size[d] = make_div(a.size[d]);
  return launch(kernel, ceil_div(a.numel, THREADS * ANY), THREADS, stream, (const AnyArgs<T>)out);
}

template <class T>
static int launch_any(void (*kernel)(const AnyArgs<T>), cudaStream_t stream, const tide_elementwise_args *a) {
  auto move = [](tide_elementwise_args &p, int d, int64_t count) {
    for (int k = 0; k < p.operands; k++)
      if (!p.is_number[k]) p.head.ptr[k] = (char *)p.head.ptr[k] + count * p.stride[k][d] * dtype_bytes(p.dtype[k]);
  };
  return in_pieces(*a, move, [&](const tide_elementwise_args &p) { return launch_any_piece(kernel, stream, p); });
}

template <class T>
static int launch_elementwise(const Kernels<T> &kernels, cudaStream_t stream, const tide_elementwise_args *a) {
  if (!kernels.any) return (int)cudaErrorInvalidDeviceFunction;
  int index = storage_index<T>(a);
  if (index >= 0 && kernels.fast[index]) {
    FastArgs<T> out;
    int bytes = dtype_bytes(Storages<T>::dtype[index]), vec = 16 / bytes;
    const int64_t blocks = plan_rows(out, a, vec);
    if (blocks) {
      fill_values<T>(out, a);
      return launch((out.packed ? kernels.packed : kernels.fast)[index], blocks, THREADS, stream,
                    (const FastArgs<T>)out);
    }
  }
  return launch_any(kernels.any, stream, a);
}

/* Of the ops of op.def that compute in T. */
template <class T> static int launch_op(cudaStream_t stream, const tide_elementwise_args *a) {
  static const Kernels<T> table[] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) kernels_of<op_##name, T>(),
#include "tide/op.def"
  };
  return launch_elementwise(table[a->op], stream, a);
}

} // namespace tidek
