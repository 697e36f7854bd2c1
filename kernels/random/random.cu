/* random.cu: the numbers of random.h, as fast as memory takes them.
 *
 * A thread makes the four values of neighbouring elements at once: from one group of Philox draws, or from two where
 * the dtype needs 64 bits. Where the output is flat they leave in one vector. Kernels differ by kind only where the
 * speed asks for it; the dtype of the output is chosen at the store.
 *
 * Invariant: an element's value depends on seed, offset and its logical index alone, never on the layout or the
 * launch. */
#include <math_constants.h>

#include "base/draws.h"
#include "tidek.h"
#include "types.cuh"

namespace tidek {

constexpr int THREADS = 256, QUADS = 4; /* fours of values that a thread makes at once */
/* Threads that a multiprocessor holds. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
constexpr int FULL = 2048;
#else
constexpr int FULL = __CUDA_ARCH__ < 800 ? 1024 : 1536;
#endif
enum { OTHER = -1 };

struct RandomArgs {
  void *to;
  const void *p; /* probabilities, or NULL */
  int64_t n;
  double a, b, least, most;
  float fa, fb, fleast, fmost, unit; /* those as floats, and the value of a draw's lowest bit */
  uint32_t shift;                    /* of a draw for a uniform number */
  int64_t lo;
  uint64_t range, counter;
  uint32_t key[20];      /* of the ten rounds */
  const uint64_t *state; /* NULL, or {seed, an offset to be added} as a graph's replay finds them */
  int32_t kind, dtype, p_dtype, ndim, flat;
  int32_t plain;    /* flat, aligned, of a dtype that is_plain: whole pieces leave in vectors */
  int32_t unscaled; /* uniform in [0, 1) */
  int32_t limited;  /* by least and most */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS][2];
};

/* ---- the transformations, in the type of the values ---- */

/* ln u for u in (0, 1]: 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial whose relative error is 6e-9. */
static __device__ __forceinline__ float log_unit(float u) {
  int bits = __float_as_int(u), e = (bits - 0x3f3504f3) >> 23;
  float f = __int_as_float(bits - (e << 23)) - 1.0f;
  float p = fmaf(f, -0.0763443f, 0.1276155f);
  p = fmaf(f, p, -0.13160194f);
  p = fmaf(f, p, 0.14201762f);
  p = fmaf(f, p, -0.16623357f);
  p = fmaf(f, p, 0.20001227f);
  p = fmaf(f, p, -0.25000823f);
  p = fmaf(f, p, 0.3333333f);
  p = fmaf(f, p, -0.5f);
  p = fmaf(f * f, p, f);
  return fmaf((float)e, 0.693147181f, p);
}
static __device__ __forceinline__ double log_unit(double u) { return log(u); }

/* -2 ln u of the draw's unit_open. The instruction for the logarithm has an absolute error of 2^-22 above 1/2 and a
 * relative one below, so that near 1 a series in 1 - u stands for it, whose relative error is 6e-8. The radius is off
 * by 5e-7 at most. */
static __device__ __forceinline__ float minus_two_log(uint32_t x) {
  float k = (float)((x >> 8) + 1), v = fmaf(k, -1.0f / 16777216, 1.0f), l;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(l) : "f"(k * (1.0f / 16777216)));
  float p = fmaf(v, 0.5538218f, 0.66451675f);
  p = fmaf(v, p, 1.0000271f);
  p = fmaf(v, p, 2.0f);
  return v < 0.0625f ? v * p : l * -1.38629436f;
}

/* sin and cos of the turn x / 2^32, of whose bits 24 count, by the instructions for them, whose absolute error is 5e-7
 * between half a turn to either side. */
static __device__ __forceinline__ void turn(uint32_t x, float &s, float &c) {
  float angle = (float)((int32_t)x >> 8) * 3.7450703e-07f; /* 2 pi / 2^24 */
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(angle));
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(c) : "f"(angle));
}

static __device__ __forceinline__ void normal_pair(uint32_t x1, uint32_t x2, float mean, float deviation, float &first,
                                                   float &second) {
  float s, c, r;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(minus_two_log(x1)));
  turn(x2, s, c);
  r *= deviation;
  first = fmaf(r, c, mean), second = fmaf(r, s, mean);
}

static __device__ __forceinline__ void normal_pair(uint64_t x1, uint64_t x2, double mean, double deviation,
                                                   double &first, double &second) {
  double s, c, r = sqrt(-2.0 * log(tide_unit_open_f64(x1)));
  sincospi(2.0 * tide_unit_f64(x2), &s, &c);
  first = fma(deviation, r * c, mean), second = fma(deviation, r * s, mean);
}

/* Draws of 32 bits give floats, draws of 64 bits doubles. A unit is that of random.h for the dtype's bits. */
static __device__ __forceinline__ float unit(uint32_t x, const RandomArgs &a) { return (float)(x >> a.shift) * a.unit; }
static __device__ __forceinline__ double unit(uint64_t x, const RandomArgs &) { return tide_unit_f64(x); }
static __device__ __forceinline__ float unit_open(uint32_t x) { return tide_unit_open_f32(x); }
static __device__ __forceinline__ double unit_open(uint64_t x) { return tide_unit_open_f64(x); }
static __device__ __forceinline__ float uniform(float u, const RandomArgs &a) {
  return tide_uniform_f32(u, a.fa, a.fb, a.fmost);
}
static __device__ __forceinline__ double uniform(double u, const RandomArgs &a) {
  return tide_uniform_f64(u, a.a, a.b, a.most);
}
static __device__ __forceinline__ float within(float v, const RandomArgs &a) {
  return tide_within_f32(v, a.fleast, a.fmost);
}
static __device__ __forceinline__ double within(double v, const RandomArgs &a) {
  return tide_within_f64(v, a.least, a.most);
}
/* -ln of a unit_open, of 1 half a step. */
static __device__ __forceinline__ float minus_log(float u) { return fmaxf(-log_unit(u), 0x1p-25f); }
static __device__ __forceinline__ double minus_log(double u) { return fmax(-log_unit(u), 0x1p-54); }
static __device__ __forceinline__ float tangent(float x) { return tanf(CUDART_PI_F * x); }
static __device__ __forceinline__ double tangent(double x) { return tan(CUDART_PI * x); }

template <class T> static __device__ __forceinline__ T first_param(const RandomArgs &a) {
  return sizeof(T) == 4 ? (T)a.fa : (T)a.a;
}
template <class T> static __device__ __forceinline__ T second_param(const RandomArgs &a) {
  return sizeof(T) == 4 ? (T)a.fb : (T)a.b;
}

/* The rarer kinds. */
template <class T, class D> static __device__ T rare(const RandomArgs &a, D draw) {
  T x = first_param<T>(a);
  switch (a.kind) {
  case TIDE_EXPONENTIAL: return minus_log(unit_open(draw)) / x;
  case TIDE_CAUCHY: return x + second_param<T>(a) * tangent(unit(draw, a) - (T)0.5);
  default: return fmax((T)1, ceil(log_unit(unit_open(draw)) / log1p(-x)));
  }
}

/* ---- four values ---- */

template <class P>
static __device__ __noinline__ uint64_t bounded_again(const RandomArgs &a, const P &place, uint64_t i) {
  uint64_t seed = (uint64_t)place.key(a, 1) << 32 | place.key(a, 0);
  return tide_bounded(tide_random_group(seed, place.counter(a) * 4, tide_spare_group(i)), a.range);
}

/* Of the elements 4 quad to 4 quad + 3. */
template <int KIND, class T, class D, class P>
static __device__ __forceinline__ void four(T (&v)[4], const RandomArgs &a, const P &place, int64_t quad,
                                            const D (&draw)[4]) {
  T x = first_param<T>(a), y = second_param<T>(a);
  if constexpr (KIND == TIDE_UNIFORM) {
    TIDEK_EACH(e, 4) v[e] = unit(draw[e], a);
    if (!a.unscaled) {
      TIDEK_EACH(e, 4) v[e] = uniform(v[e], a);
    }
  } else if constexpr (KIND == TIDE_NORMAL || KIND == TIDE_LOG_NORMAL) {
    normal_pair(draw[0], draw[1], x, y, v[0], v[1]);
    normal_pair(draw[2], draw[3], x, y, v[2], v[3]);
    TIDEK_EACH(e, 4)
      if constexpr (KIND == TIDE_LOG_NORMAL) v[e] = exp(v[e]);
  } else if constexpr (KIND == TIDE_RANDINT) {
    TIDEK_EACH(e, 4) {
      const D range = (D)a.range;
      uint64_t in = range ? draw[e] % range : draw[e];
      if (range && draw[e] - (D)in > (D)0 - range) in = bounded_again(a, place, (uint64_t)quad * 4 + e);
      v[e] = (T)((uint64_t)a.lo + in);
    }
  } else {
    TIDEK_EACH(e, 4) v[e] = rare<T>(a, draw[e]);
  }
  if constexpr (KIND != TIDE_RANDINT && KIND != TIDE_UNIFORM) {
    if (a.limited) {
      TIDEK_EACH(e, 4) v[e] = within(v[e], a);
    }
  }
}

/* Where the numbers of a launch begin: known to the host, so that the keys of all rounds stand ready, */
struct Known {
  static __device__ __forceinline__ Known get(const RandomArgs &) { return Known(); }
  __device__ __forceinline__ uint64_t counter(const RandomArgs &a) const { return a.counter; }
  __device__ __forceinline__ uint32_t key(const RandomArgs &a, int i) const { return a.key[i]; }
};
/* or read when a graph is replayed. */
struct Loaded {
  uint64_t start;
  uint32_t low, high;
  static __device__ __forceinline__ Loaded get(const RandomArgs &a) {
    uint64_t seed = a.state[0];
    return Loaded{a.counter + a.state[1] / 4, (uint32_t)seed, (uint32_t)(seed >> 32)};
  }
  __device__ __forceinline__ uint64_t counter(const RandomArgs &) const { return start; }
  __device__ __forceinline__ uint32_t key(const RandomArgs &, int i) const {
    return i % 2 ? high + (uint32_t)(i / 2) * TIDE_PHILOX_W1 : low + (uint32_t)(i / 2) * TIDE_PHILOX_W0;
  }
};

/* tide_random_group, with the two halves of a product by one instruction. */
template <class P>
static __device__ __forceinline__ void group_of(uint32_t (&c)[4], const RandomArgs &a, const P &place, uint32_t group,
                                                uint32_t upper) {
  uint64_t counter = place.counter(a);
  c[0] = (uint32_t)counter, c[1] = (uint32_t)(counter >> 32), c[2] = group, c[3] = upper;
  TIDEK_EACH(r, 10) {
    uint32_t low0, high0, low2, high2;
    asm("{ .reg .u64 p; mul.wide.u32 p, %2, %3; mov.b64 {%0, %1}, p; }"
        : "=r"(low0), "=r"(high0)
        : "r"(c[0]), "r"(TIDE_PHILOX_M0));
    asm("{ .reg .u64 p; mul.wide.u32 p, %2, %3; mov.b64 {%0, %1}, p; }"
        : "=r"(low2), "=r"(high2)
        : "r"(c[2]), "r"(TIDE_PHILOX_M1));
    c[0] = high2 ^ c[1] ^ place.key(a, 2 * r), c[1] = low2;
    c[2] = high0 ^ c[3] ^ place.key(a, 2 * r + 1), c[3] = low0;
  }
}

/* The draws of quad `piece` + i. A piece begins at a multiple of so many groups that no i of it carries into the upper
 * half. */
template <class P>
static __device__ __forceinline__ void draw_four(uint32_t (&d)[4], const RandomArgs &a, const P &place, int64_t piece,
                                                 uint32_t i) {
  group_of(d, a, place, (uint32_t)piece + i, (uint32_t)(piece >> 32));
}

template <class P>
static __device__ __forceinline__ void draw_four(uint64_t (&d)[4], const RandomArgs &a, const P &place, int64_t piece,
                                                 uint32_t i) {
  uint32_t low[4], high[4], group = 2 * ((uint32_t)piece + i), upper = (uint32_t)(piece >> 31);
  group_of(low, a, place, group, upper);
  group_of(high, a, place, group + 1, upper);
  d[0] = low[0] | (uint64_t)low[1] << 32, d[1] = low[2] | (uint64_t)low[3] << 32;
  d[2] = high[0] | (uint64_t)high[1] << 32, d[3] = high[2] | (uint64_t)high[3] << 32;
}

/* ---- where they go ---- */

static __device__ int64_t offset_of(const RandomArgs &a, int64_t i, int k) {
  if (a.flat) return i;
  int64_t offset = 0;
  for (int d = a.ndim - 1; d >= 0; d--) {
    int64_t q = i / a.size[d];
    offset += (i - q * a.size[d]) * a.stride[d][k];
    i = q;
  }
  return offset;
}

/* Pack::store, by an instruction that the compiler does not take apart again. */
template <class S, int N> static __device__ __forceinline__ void store_whole(S *to, const Pack<S, N> &values) {
  union {
    typename Raw<sizeof(S) * N>::type raw;
    Pack<S, N> pack;
  } u;
  u.pack = values;
  __stcg((typename Raw<sizeof(S) * N>::type *)to, u.raw);
}

template <class S, class T>
static __device__ __forceinline__ void store_vector(const RandomArgs &a, int64_t i, const T (&v)[4]) {
  if constexpr (sizeof(S) <= 4) {
    Pack<S, 4> pack;
    TIDEK_EACH(e, 4) pack.v[e] = cast<S>(v[e]);
    store_whole((S *)a.to + i, pack);
  } else {
    Pack<S, 2> low, high;
    TIDEK_EACH(e, 2) low.v[e] = cast<S>(v[e]), high.v[e] = cast<S>(v[e + 2]);
    store_whole((S *)a.to + i, low), store_whole((S *)a.to + i + 2, high);
  }
}

template <class T> static __device__ __forceinline__ void store_four(const RandomArgs &a, int64_t i, const T (&v)[4]) {
#pragma unroll 1
  for (int e = 0; e < 4; e++)
    if (i + e < a.n)
      store_any(a.to, offset_of(a, i + e, 0), a.dtype, e == 0 ? v[0] : e == 1 ? v[1] : e == 2 ? v[2] : v[3]);
}

template <class S, class T, int N>
static __device__ __forceinline__ void store_vectors(const RandomArgs &a, int64_t piece, const T (&v)[N][4]) {
  TIDEK_EACH(q, N) store_vector<S>(a, (piece + threadIdx.x + q * THREADS) * 4, v[q]);
}

/* The N quads of each thread of a whole piece, of a dtype that is_plain. */
template <class T, int N>
static __device__ __forceinline__ void store_piece(const RandomArgs &a, int64_t piece, const T (&v)[N][4]) {
  switch (a.dtype) {
  case TIDE_FLOAT32: store_vectors<float>(a, piece, v); break;
  case TIDE_FLOAT16: store_vectors<half>(a, piece, v); break;
  case TIDE_BFLOAT16: store_vectors<bfloat16>(a, piece, v); break;
  case TIDE_FLOAT64: store_vectors<double>(a, piece, v); break;
  case TIDE_INT64: store_vectors<int64_t>(a, piece, v); break;
  default: store_vectors<int32_t>(a, piece, v); break;
  }
}
static bool is_plain(int dtype) {
  return dtype == TIDE_INT32 || dtype == TIDE_INT64 || (dtype >= TIDE_FLOAT16 && dtype <= TIDE_FLOAT64);
}

/* A piece that is not whole or does not leave in vectors; apart, so that it takes no registers of what usually
 * runs. */
template <int KIND, class T, class D, class P>
static __device__ __noinline__ void any_piece(const RandomArgs &a, const P &place, int64_t piece) {
  for (int q = 0; q < QUADS; q++) {
    int64_t quad = piece + threadIdx.x + q * THREADS;
    if (quad * 4 >= a.n) return;
    D draw[4];
    T v[4];
    draw_four(draw, a, place, piece, threadIdx.x + q * THREADS);
    four<KIND>(v, a, place, quad, draw);
    store_four(a, quad * 4, v);
  }
}

/* Blocks that a multiprocessor shall hold: all it can where arithmetic is what takes the time. */
template <int KIND, class T> constexpr int blocks_of() {
  return sizeof(T) == 4 && (KIND == TIDE_UNIFORM || KIND == TIDE_NORMAL) ? FULL / THREADS : 1;
}

/* Blocks go on with further pieces, so that what all of a thread's values share is known once. */
template <int KIND, class T, class D, class P>
__global__ void __launch_bounds__(THREADS, (blocks_of<KIND, T>())) random_kernel(const __grid_constant__ RandomArgs a) {
  kernel_begin();
  const P place = P::get(a);
  const int64_t step = (int64_t)gridDim.x * (THREADS * QUADS);
  for (int64_t piece = (int64_t)blockIdx.x * (THREADS * QUADS); piece * 4 < a.n; piece += step) {
    if (a.plain && piece + THREADS * QUADS <= a.n / 4) {
      T v[QUADS][4];
      TIDEK_EACH(q, QUADS) {
        D draw[4];
        draw_four(draw, a, place, piece, threadIdx.x + q * THREADS);
        four<KIND>(v[q], a, place, piece + threadIdx.x + q * THREADS, draw);
      }
      store_piece(a, piece, v);
      continue;
    }
    any_piece<KIND, T, D>(a, place, piece);
  }
}

template <class T, class D, class P>
__global__ void __launch_bounds__(THREADS) bernoulli_kernel(const __grid_constant__ RandomArgs a) {
  kernel_begin();
  const int64_t piece = (int64_t)blockIdx.x * THREADS, first = (piece + threadIdx.x) * 4;
  if (first >= a.n) return;
  D draw[4];
  draw_four(draw, a, P::get(a), piece, threadIdx.x);
  int v[4];
  TIDEK_EACH(e, 4) {
    T p[1] = {first_param<T>(a)};
    int64_t offset[1] = {first + e < a.n ? offset_of(a, first + e, 1) : 0};
    if (a.p) load_any(p, a.p, offset, a.p_dtype);
    v[e] = unit(draw[e], a) < p[0];
  }
  if (a.plain && piece + THREADS <= a.n / 4) {
    const int one[1][4] = {{v[0], v[1], v[2], v[3]}};
    store_piece(a, piece, one);
  } else {
    store_four(a, first, v);
  }
}

/* POISSON and PICK: an element for each thread. */
template <class P> __global__ void __launch_bounds__(THREADS) single_kernel(const __grid_constant__ RandomArgs a) {
  kernel_begin();
  const P place = P::get(a);
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= a.n) return;
  if (a.kind == TIDE_POISSON) {
    double rate[1];
    int64_t offset[1] = {offset_of(a, i, 1)};
    load_any(rate, a.p, offset, a.p_dtype);
    uint64_t seed = (uint64_t)place.key(a, 1) << 32 | place.key(a, 0);
    double v = tide_poisson_draw(rate[0], seed, place.counter(a) * 4, (uint64_t)i);
    store_any(a.to, offset_of(a, i, 0), a.dtype, a.limited ? within(v, a) : v);
  } else {
    uint32_t draw[4];
    group_of(draw, a, place, (uint32_t)(i / 2), (uint32_t)(i / 2 >> 32));
    double unit = tide_unit_f64(i % 2 ? draw[2] | (uint64_t)draw[3] << 32 : draw[0] | (uint64_t)draw[1] << 32);
    const double *sums = (const double *)a.p + i / (int64_t)a.a * (int64_t)a.range;
    ((int64_t *)a.to)[i] = a.lo + tide_pick_place(sums, (int64_t)a.range, unit);
  }
}

/* ---- launching ---- */

using RandomKernel = void (*)(const RandomArgs);

template <class T, class D, class P> static RandomKernel kernel_for(int kind) {
  switch (kind) {
  case TIDE_UNIFORM: return random_kernel<TIDE_UNIFORM, T, D, P>;
  case TIDE_NORMAL: return random_kernel<TIDE_NORMAL, T, D, P>;
  case TIDE_LOG_NORMAL: return random_kernel<TIDE_LOG_NORMAL, T, D, P>;
  case TIDE_BERNOULLI: return bernoulli_kernel<T, D, P>;
  default: return random_kernel<OTHER, T, D, P>;
  }
}

template <class P> static RandomKernel choose(const tide_random_args *a) {
  if (a->kind == TIDE_POISSON || a->kind == TIDE_PICK) return single_kernel<P>;
  if (a->kind == TIDE_RANDINT) {
    bool narrow = a->range != 0 && a->range <= 0xffffffffu;
    return narrow ? random_kernel<TIDE_RANDINT, int64_t, uint32_t, P>
                  : random_kernel<TIDE_RANDINT, int64_t, uint64_t, P>;
  }
  bool wide = a->kind == TIDE_BERNOULLI && a->head.ptr[1] ? a->dtype2 == TIDE_FLOAT64 : a->dtype == TIDE_FLOAT64;
  return wide ? kernel_for<double, uint64_t, P>(a->kind) : kernel_for<float, uint32_t, P>(a->kind);
}

/* What all threads share: the counter's upper half, the keys, and how a draw becomes a unit. */
static void prepare(RandomArgs &r, const tide_random_args *a) {
  bool narrow = a->kind == TIDE_UNIFORM && (a->dtype == TIDE_FLOAT16 || a->dtype == TIDE_BFLOAT16);
  int bits = !narrow ? 24 : a->dtype == TIDE_FLOAT16 ? 11 : 8;
  r.shift = (uint32_t)(32 - bits), r.unit = 1.0f / (float)(1u << bits);
  r.counter = a->offset / 4, r.state = a->state;
  for (uint32_t i = 0; i < 10; i++) {
    r.key[2 * i] = (uint32_t)a->seed + i * TIDE_PHILOX_W0;
    r.key[2 * i + 1] = (uint32_t)(a->seed >> 32) + i * TIDE_PHILOX_W1;
  }
}

constexpr int64_t MANY_BLOCKS = 512;

/* No more blocks than run at once. */
static int64_t resident(int64_t blocks) {
  int device = 0, sms = 0, threads = 0;
  if (cudaGetDevice(&device) || cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) ||
      cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device))
    return blocks;
  int64_t most = (int64_t)sms * (threads / THREADS);
  return blocks < most ? blocks : most;
}

} // namespace tidek

int tidek_random(cudaStream_t stream, const tide_random_args *a) {
  using namespace tidek;
  RandomArgs r = {};
  r.to = a->head.ptr[0], r.p = a->kind >= TIDE_POISSON || a->kind == TIDE_BERNOULLI ? a->head.ptr[1] : nullptr;
  r.n = a->numel, r.a = a->a, r.b = a->b, r.fa = (float)a->a, r.fb = (float)a->b, r.lo = a->lo, r.range = a->range;
  r.limited = a->limited, r.least = a->least, r.most = a->most, r.fleast = (float)a->least, r.fmost = (float)a->most;
  prepare(r, a);
  r.kind = a->kind, r.dtype = a->dtype, r.p_dtype = a->dtype2, r.ndim = a->ndim, r.flat = a->flat;
  int bytes = dtype_bytes(a->dtype);
  r.plain = is_plain(a->dtype) && a->flat && (uintptr_t)r.to % (bytes * 4 < 16 ? bytes * 4 : 16) == 0;
  r.unscaled = a->a == 0 && a->b == 1;
  for (int d = 0; d < a->ndim; d++) {
    r.size[d] = a->size[d];
    for (int k = 0; k < 2; k++) r.stride[d][k] = a->stride[k][d];
  }
  bool single = a->kind == TIDE_BERNOULLI || a->kind >= TIDE_POISSON;
  int64_t each = a->kind == TIDE_BERNOULLI ? 4 : a->kind >= TIDE_POISSON ? 1 : 4 * QUADS;
  int64_t blocks = ceil_div(a->numel, THREADS * each);
  if (!single && blocks > MANY_BLOCKS) blocks = resident(blocks);
  RandomKernel kernel = a->state ? choose<Loaded>(a) : choose<Known>(a);
  return launch(kernel, blocks, THREADS, stream, (const RandomArgs)r);
}
