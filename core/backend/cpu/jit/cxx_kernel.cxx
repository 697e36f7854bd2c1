/* cxx_kernel.cxx: the C++ that stands around a user's code on the CPU: compiler.h says which piece is what.
 *
 * The names that CUDA has and C++ has not are defined here, so that one code string serves both. Arithmetic is the same
 * as in the CPU's own loops: no contraction of a multiplication and an addition, integers wrap round, 16-bit floats
 * round to nearest even.
 *
 * Half of the time would go to headers, of which those that only std needs, and the special functions that libstdc++
 * has in <cmath> since C++17, are left out of code that does not name std.
 *
 * Invariant: every name of ours that a user could clash with begins with tide_ or TIDE_. */

//@ prelude
#ifdef TIDE_NAMES_STD
#include <algorithm>
#include <limits>
#else
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif
#include <cmath>
#include <cstdint>
#include <cstring>
#include <math.h>
#include <stdlib.h>
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define TIDE_INLINE inline __attribute__((always_inline))
/* Behind a sign of division stands tide_by (jit/text/rewrite.c), in macros as TIDE_BY, and gives the divisor. The value of
 * an integer that may be 0, or -1 which the least number overflows by, goes through an empty instruction that the
 * compiler knows nothing of. */
template <class T> struct tide_whole { enum { value = 0 }; };
#define TIDE_WHOLE(T) template <> struct tide_whole<T> { enum { value = 1 }; };
TIDE_WHOLE(bool) TIDE_WHOLE(char) TIDE_WHOLE(signed char) TIDE_WHOLE(unsigned char) TIDE_WHOLE(short)
TIDE_WHOLE(unsigned short) TIDE_WHOLE(int) TIDE_WHOLE(unsigned) TIDE_WHOLE(long) TIDE_WHOLE(unsigned long)
TIDE_WHOLE(long long) TIDE_WHOLE(unsigned long long) TIDE_WHOLE(wchar_t) TIDE_WHOLE(char16_t)
TIDE_WHOLE(char32_t)
#ifdef __SIZEOF_INT128__
TIDE_WHOLE(__int128) TIDE_WHOLE(unsigned __int128)
#endif
template <class T> TIDE_INLINE T tide_hidden(T x) {
  if constexpr (sizeof(T) > 8) {
    unsigned long long low = (unsigned long long)x, high = (unsigned long long)(x >> 64);
    asm("" : "+r"(low), "+r"(high));
    return (T)high << 64 | (T)low;
  } else { int y = 0; if constexpr (sizeof(T) < sizeof y) { y = x; asm("" : "+r"(y)); return (T)y; }
    else { asm("" : "+r"(x)); return x; } }
}
template <class B> TIDE_INLINE constexpr B tide_divisor(B b) {
  if constexpr (__is_enum(B)) return (B)tide_divisor((__underlying_type(B))b);
  else if constexpr (tide_whole<B>::value) {
    if (__builtin_is_constant_evaluated()) return b;
    return __builtin_constant_p(b) && b != (B)0 && b != (B)-1 ? b : tide_hidden(b);
  } else return b;
}
static constexpr struct tide_division {
  template <class B> TIDE_INLINE constexpr B operator->*(B b) const { return tide_divisor(b); }
  template <class B> TIDE_INLINE constexpr B operator=(B b) const { return tide_divisor(b); }
} tide_by = {};
#define TIDE_BY tide_by->*
template <class A, class B> inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
template <class A, class B> inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
#define TIDE_REAL(name, expr) \
  inline float name(float x) { return (float)(expr); } \
  inline double name(double x) { return (expr); }
TIDE_REAL(rsqrt, 1 / std::sqrt(x))
TIDE_REAL(rcbrt, 1 / std::cbrt(x))
TIDE_REAL(normcdf, std::erfc((double)x * -0.70710678118654752440) / 2)
TIDE_REAL(sinpi, std::sin(3.14159265358979323846 * std::remainder((double)x, 2.0)))
TIDE_REAL(cospi, std::cos(3.14159265358979323846 * std::remainder((double)x, 2.0)))
TIDE_REAL(tide_exp10, std::pow(10.0, (double)x))
#define exp10(x) tide_exp10(x)
#define exp10f(x) tide_exp10((float)(x))
TIDE_REAL(erfcx, std::exp((double)x * x) * std::erfc((double)x))
inline float rsqrtf(float x) { return rsqrt(x); }
inline float normcdff(float x) { return normcdf(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }

//@ small
struct tide_f16 { unsigned short v; };
struct tide_bf16 { unsigned short v; };
struct tide_b8 { unsigned char v; };
template <class To, class From> inline To tide_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
inline float tide_get(tide_f16 x) {
  unsigned s = (x.v & 0x8000u) << 16, r = x.v & 0x7fffu;
  if (r >= 0x7c00u) return tide_bits<float>(s | 0x7f800000u | (r & 0x3ffu) << 13);
  if (r >= 0x400u) return tide_bits<float>(s | ((r << 13) + 0x38000000u));
  float y = (float)r * 5.9604644775390625e-8f;
  return s ? -y : y;
}
inline void tide_put(tide_f16 &to, float f) {
  unsigned u = tide_bits<unsigned>(f), s = (u >> 16) & 0x8000u, r = u & 0x7fffffffu;
  if (r >= 0x7f800000u) to.v = s | 0x7c00u | (r > 0x7f800000u ? 0x200u : 0);
  else if (r >= 0x477ff000u) to.v = s | 0x7c00u;
  else if (r < 0x38800000u) to.v = s | (tide_bits<unsigned>(tide_bits<float>(r) + 0.5f) - 0x3f000000u);
  else to.v = s | ((r - 0x38000000u + 0xfffu + ((r >> 13) & 1u)) >> 13);
}
inline float tide_get(tide_bf16 x) { return tide_bits<float>((unsigned)x.v << 16); }
inline void tide_put(tide_bf16 &to, float f) {
  unsigned u = tide_bits<unsigned>(f);
  to.v = (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
inline bool tide_get(tide_b8 x) { return x.v != 0; }
inline void tide_put(tide_b8 &to, bool x) { to.v = x; }

//@ dims
struct tide_div { unsigned d, mul, shift; };

//@ complex
#include <complex>
typedef std::complex<float> tide_c64;
typedef std::complex<double> tide_c128;

/* Operands never overlap a result, so the loop may be made of vector instructions. */
//@ flat
extern "C" __attribute__((visibility("default")))
int tide_kernel(const void *packed, const unsigned *, long long begin, long long end, const void *) {
  const tide_args a = *(const tide_args *)packed;
  const long long tile = TIDE_THREADS * TIDE_VECTOR, first = begin * tile;
  const long long last = end * tile < a.n ? end * tile : a.n;
#define TIDE_POINTER(k) tide_s##k *__restrict p##k = (tide_s##k *)a.ptr[k];
  TIDE_EACH(TIDE_POINTER)
#define TIDE_AT(k) p##k[i]
  for (long long i = first; i < last; i++) tide_apply(a, TIDE_ARGS(TIDE_AT));
  return 0;
}

/* Row by row of the innermost dim. */
//@ strided
extern "C" __attribute__((visibility("default")))
int tide_kernel(const void *packed, const unsigned *, long long begin, long long end, const void *) {
  const tide_args a = *(const tide_args *)packed;
  const long long tile = TIDE_THREADS * TIDE_VECTOR, row = a.size[TIDE_NDIM - 1].d;
  const long long last = end * tile < a.n ? end * tile : a.n;
  for (long long i = begin * tile; i < last;) {
    long long rest = i / row, at = i % row, count = row - at < last - i ? row - at : last - i;
    long long offset[TIDE_OPERANDS];
    for (int k = 0; k < TIDE_OPERANDS; k++) offset[k] = at * a.stride[TIDE_NDIM - 1][k];
    for (int d = TIDE_NDIM - 2; d >= 0; d--) {
      long long index = rest % a.size[d].d;
      rest /= a.size[d].d;
      for (int k = 0; k < TIDE_OPERANDS; k++) offset[k] += index * a.stride[d][k];
    }
#define TIDE_POINTER(k) tide_s##k *p##k = (tide_s##k *)a.ptr[k] + offset[k]; \
  const long long step##k = a.stride[TIDE_NDIM - 1][k];
    TIDE_EACH(TIDE_POINTER)
#define TIDE_AT(k) p##k[j * step##k]
    for (long long j = 0; j < count; j++) tide_apply(a, TIDE_ARGS(TIDE_AT));
    i += count;
  }
  return 0;
}

/* What stands before a raw kernel of the user's on the CPU.
 *
 * It has what CUDA C has for threads of a block, and the 16-bit floats of CUDA's headers, which are named there only
 * where the code includes anything. Threads that do not wait for each other are a loop inside the kernel: tide_run
 * calls the body, which core has made a function without a name, with the place of each thread, so that the compiler
 * sees through all of it and can make vector instructions. Where the places count without wrapping round, which is
 * nearly always, a loop of its own tells the compiler so. Threads that wait run by turns, each on a stack of its own
 * (fiber.c). threadIdx and the rest are variables of the running thread too, for functions that the kernel calls; a
 * body that core could not find is called once for each thread with those alone. */
//@ raw
#include <cstdio>
#include <setjmp.h>
#define __global__
#define __constant__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))
#define TIDE_VECTOR_TYPE(T, name) \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; }; struct name##3 { T x, y, z; }; \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TIDE_VECTOR_TYPE(float, float) TIDE_VECTOR_TYPE(double, double) TIDE_VECTOR_TYPE(int, int)
TIDE_VECTOR_TYPE(unsigned, uint) TIDE_VECTOR_TYPE(unsigned char, uchar) TIDE_VECTOR_TYPE(signed char, char)
TIDE_VECTOR_TYPE(short, short) TIDE_VECTOR_TYPE(unsigned short, ushort) TIDE_VECTOR_TYPE(long long, longlong)
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static const int warpSize = 32;
#define TIDE_SMALL_FLOAT(T, B) \
  struct T { B b; T() = default; T(float x) { tide_put(b, x); } T(double x) : T((float)x) {} T(int x) : T((float)x) {} \
    T(unsigned x) : T((float)x) {} T(long x) : T((float)x) {} T(unsigned long x) : T((float)x) {} \
    T(long long x) : T((float)x) {} T(unsigned long long x) : T((float)x) {} T(short x) : T((float)x) {} \
    operator float() const { return tide_get(b); } };
TIDE_SMALL_FLOAT(__half, tide_f16) TIDE_SMALL_FLOAT(__nv_bfloat16, tide_bf16)
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
template <class T> inline T __ldg(const T *p) { return *p; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __float_as_int(float x) { return tide_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return tide_bits<unsigned>(x); }
inline float __int_as_float(int x) { return tide_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return tide_bits<float>(x); }
inline long long __double_as_longlong(double x) { return tide_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return tide_bits<double>(x); }
template <class T> struct tide_same { typedef T type; };
template <class T, class F> inline T tide_atomic(T *p, F f) {
  T old, now;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do now = f(old); while (!__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
#define TIDE_ATOMIC(name, expr) template <class T> inline T name(T *p, typename tide_same<T>::type x) { \
  return tide_atomic(p, [=](T old) -> T { return (expr); }); }
TIDE_ATOMIC(atomicAdd, old + x) TIDE_ATOMIC(atomicSub, old - x) TIDE_ATOMIC(atomicExch, x)
TIDE_ATOMIC(atomicMin, old < x ? old : x) TIDE_ATOMIC(atomicMax, old > x ? old : x)
TIDE_ATOMIC(atomicAnd, old & x) TIDE_ATOMIC(atomicOr, old | x) TIDE_ATOMIC(atomicXor, old ^ x)
TIDE_ATOMIC(atomicInc, old >= x ? 0 : old + 1) TIDE_ATOMIC(atomicDec, old == 0 || old > x ? x : old - 1)
template <class T> inline T atomicCAS(T *p, typename tide_same<T>::type from, typename tide_same<T>::type to) {
  return tide_atomic(p, [=](T old) -> T { return old == from ? to : old; }); }
template <class T> struct tide_plain { typedef T type; };
template <class T> struct tide_plain<const T> { typedef T type; };
template <class T> inline T tide_at(const char *p) {
  typename tide_plain<T>::type x; memcpy((void *)&x, p, sizeof x); return x; }
#ifdef TIDE_NAMES_CUDA
template <class X, int WHOLE = tide_whole<X>::value> struct tide_mixed {};
template <class X> struct tide_mixed<X, 1> { typedef float type; typedef bool truth; };
template <> struct tide_mixed<float, 0> { typedef float type; typedef bool truth; };
template <> struct tide_mixed<double, 0> { typedef double type; typedef bool truth; };
#define TIDE_SMALL_OPERATOR(T, op) \
  inline T operator op(T a, T b) { return T((float)a op (float)b); } \
  inline T &operator op##=(T &a, T b) { return a = a op b; } \
  template <class X> inline typename tide_mixed<X>::type operator op(T a, X b) { \
    return (float)a op b; } \
  template <class X> inline typename tide_mixed<X>::type operator op(X a, T b) { \
    return a op (float)b; }
#define TIDE_SMALL_COMPARE(T, op, name) \
  inline bool operator op(T a, T b) { return (float)a op (float)b; } \
  template <class X> inline typename tide_mixed<X>::truth operator op(T a, X b) { return (float)a op b; } \
  template <class X> inline typename tide_mixed<X>::truth operator op(X a, T b) { return a op (float)b; } \
  inline bool name(T a, T b) { return (float)a op (float)b; }
#define TIDE_SMALL_UNARY(T, name, expr) inline T name(T v) { float x = v; return T(expr); }
#define TIDE_SMALL_PAIR(T, T2, name, op) \
  inline T name(T a, T b) { return a op b; } \
  inline T2 name##2(T2 a, T2 b) { return {a.x op b.x, a.y op b.y}; } \
  inline T2 operator op(T2 a, T2 b) { return name##2(a, b); } \
  inline T2 &operator op##=(T2 &a, T2 b) { return a = name##2(a, b); }
#define TIDE_SMALL_ALL(T, T2) \
  struct alignas(4) T2 { T x, y; }; \
  TIDE_SMALL_OPERATOR(T, +) TIDE_SMALL_OPERATOR(T, -) TIDE_SMALL_OPERATOR(T, *) TIDE_SMALL_OPERATOR(T, /) \
  inline T operator-(T a) { return T(-(float)a); } inline T operator+(T a) { return a; } \
  TIDE_SMALL_COMPARE(T, ==, __heq) TIDE_SMALL_COMPARE(T, !=, __hne) TIDE_SMALL_COMPARE(T, <, __hlt) \
  TIDE_SMALL_COMPARE(T, <=, __hle) TIDE_SMALL_COMPARE(T, >, __hgt) TIDE_SMALL_COMPARE(T, >=, __hge) \
  TIDE_SMALL_PAIR(T, T2, __hadd, +) TIDE_SMALL_PAIR(T, T2, __hsub, -) TIDE_SMALL_PAIR(T, T2, __hmul, *) \
  inline T __hdiv(T a, T b) { return a / b; } inline T2 __h2div(T2 a, T2 b) { return {a.x / b.x, a.y / b.y}; } \
  inline T2 operator/(T2 a, T2 b) { return __h2div(a, b); } \
  inline T __hfma(T a, T b, T c) { return T((float)((double)(float)a * (float)b + (double)(float)c)); } \
  inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
  inline T2 __hneg2(T2 a) { return {-a.x, -a.y}; } \
  inline T __hmax(T a, T b) { return T(std::fmax((float)a, (float)b)); } \
  inline T __hmin(T a, T b) { return T(std::fmin((float)a, (float)b)); } \
  inline bool __hisnan(T a) { return std::isnan((float)a); } inline int __hisinf(T a) { return std::isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0; } \
  TIDE_SMALL_UNARY(T, __hneg, -x) TIDE_SMALL_UNARY(T, __habs, std::fabs(x)) TIDE_SMALL_UNARY(T, hexp, std::exp(x)) \
  TIDE_SMALL_UNARY(T, hexp2, std::exp2(x)) TIDE_SMALL_UNARY(T, hexp10, std::pow(10.0, (double)x)) \
  TIDE_SMALL_UNARY(T, hlog, std::log(x)) TIDE_SMALL_UNARY(T, hlog2, std::log2(x)) TIDE_SMALL_UNARY(T, hlog10, std::log10(x)) \
  TIDE_SMALL_UNARY(T, hsqrt, std::sqrt(x)) TIDE_SMALL_UNARY(T, hrsqrt, 1 / std::sqrt(x)) TIDE_SMALL_UNARY(T, hrcp, 1 / x) \
  TIDE_SMALL_UNARY(T, hsin, std::sin(x)) TIDE_SMALL_UNARY(T, hcos, std::cos(x)) TIDE_SMALL_UNARY(T, htanh, std::tanh(x)) \
  TIDE_SMALL_UNARY(T, hfloor, std::floor(x)) TIDE_SMALL_UNARY(T, hceil, std::ceil(x)) TIDE_SMALL_UNARY(T, htrunc, std::trunc(x)) \
  TIDE_SMALL_UNARY(T, hrint, std::rint(x))
TIDE_SMALL_ALL(__half, __half2) TIDE_SMALL_ALL(__nv_bfloat16, __nv_bfloat162)
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
#define TIDE_HALF_FROM(name, X) inline __half __##name##2half(X x) { return __half((float)x); } \
  inline __half __##name##2half_rn(X x) { return __half((float)x); } \
  inline __nv_bfloat16 __##name##2bfloat16(X x) { return __nv_bfloat16((float)x); } \
  inline __nv_bfloat16 __##name##2bfloat16_rn(X x) { return __nv_bfloat16((float)x); }
#define TIDE_HALF_TO(name, X) inline X __half2##name##_rn(__half x) { return (X)std::rint((float)x); } \
  inline X __half2##name##_rz(__half x) { return (X)(float)x; } \
  inline X __bfloat162##name##_rn(__nv_bfloat16 x) { return (X)std::rint((float)x); } \
  inline X __bfloat162##name##_rz(__nv_bfloat16 x) { return (X)(float)x; }
TIDE_HALF_FROM(double, double) TIDE_HALF_FROM(int, int) TIDE_HALF_FROM(uint, unsigned) TIDE_HALF_FROM(ll, long long)
TIDE_HALF_FROM(short, short) TIDE_HALF_TO(int, int) TIDE_HALF_TO(uint, unsigned) TIDE_HALF_TO(ll, long long) TIDE_HALF_TO(short, short)
inline __half __float2half_rn(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline unsigned short __half_as_ushort(__half x) { return x.b.v; }
inline short __half_as_short(__half x) { return (short)x.b.v; }
inline __half __ushort_as_half(unsigned short x) { __half y; y.b.v = x; return y; }
inline __half __short_as_half(short x) { return __ushort_as_half((unsigned short)x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.b.v; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { __nv_bfloat16 y; y.b.v = x; return y; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __float2half2_rn(float x) { return {x, x}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 x) { return {x.x, x.y}; }
inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }
inline __half __low2half(__half2 x) { return x.x; }
inline __half __high2half(__half2 x) { return x.y; }
inline float __low2float(__half2 x) { return x.x; }
inline float __high2float(__half2 x) { return x.y; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {x.x, x.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }
#endif
#define TIDE_GRID(d) gridDim = dim3(d[0], d[1], d[2]); blockDim = dim3(d[3], d[4], d[5]);
#define TIDE_BLOCK(b, d) blockIdx = {(unsigned)(b % d[0]), (unsigned)(b / d[0] % d[1]), (unsigned)(b / d[0] / d[1])};
struct tide_hooks { void *self; char *shared; int (*block)(void *, unsigned, void (*)(const void *, unsigned), const void *);
  void (*wait)(void *); unsigned (*vote)(void *, int, unsigned *); void (*leave)(void *);
  bool (*stops)(void *); };
static thread_local const tide_hooks *tide_hook;
static thread_local char *tide_shared;
template <class T> struct tide_dynamic { operator T *() const { return (T *)tide_shared; } };
#define TIDE_DYNAMIC(T, name) T *const name = (T *)tide_shared;
#define TIDE_DYNAMIC_GLOBAL(T, name) static const tide_dynamic<T> name{};
#ifdef __clang__
#define TIDE_LAMBDA __attribute__((always_inline)) mutable
#else
#define TIDE_LAMBDA mutable __attribute__((always_inline))
#endif
static thread_local bool tide_ran;
#define TIDE_EACH_THREAD for (unsigned z = 0; z < n.z; z++) for (unsigned y = 0; y < n.y; y++) for (unsigned x = 0; x < n.x; x++)
template <class F> TIDE_INLINE void tide_run(F f) {
  const uint3 b = blockIdx;
  const dim3 n = blockDim, g = gridDim;
  tide_ran = true;
  if ((unsigned long long)b.x * n.x < 0x7ffff000u && b.x * n.x < 0x7ffff000u && n.x <= 1024) {
    TIDE_EACH_THREAD f(uint3{x, y, z}, b, n, g);
  } else {
    TIDE_EACH_THREAD f(uint3{x, y, z}, b, n, g);
  }
}
#ifdef TIDE_EACH_ID
#define TIDE_SET_ID ::threadIdx = threadIdx;
#else
#define TIDE_SET_ID
#endif
#define TIDE_BODY tide_run([=](const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim) TIDE_LAMBDA { \
  TIDE_SET_ID [=]() TIDE_LAMBDA {
#define TIDE_BODY_END }(); });
#define TIDE_FOR_OTHERS(d) for (threadIdx.z = 0; threadIdx.z < d[5]; threadIdx.z++) \
  for (threadIdx.y = 0; threadIdx.y < d[4]; threadIdx.y++) \
    for (threadIdx.x = 0; threadIdx.x < d[3]; threadIdx.x++) \
      if (threadIdx.x | threadIdx.y | threadIdx.z)
#define TIDE_SET_THREAD(i) threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
#ifdef TIDE_FIBERS
inline void __syncthreads() { uint3 me = threadIdx; tide_hook->wait(tide_hook->self); threadIdx = me; }
inline int tide_vote(int yes, unsigned *voters) {
  uint3 me = threadIdx;
  int n = (int)tide_hook->vote(tide_hook->self, yes != 0, voters);
  threadIdx = me;
  return n;
}
inline int __syncthreads_count(int yes) { unsigned n; return tide_vote(yes, &n); }
inline int __syncthreads_or(int yes) { unsigned n; return tide_vote(yes, &n) != 0; }
inline int __syncthreads_and(int yes) { unsigned n; return tide_vote(yes, &n) == (int)n; }
#endif
/* An assertion that fails ends the kernel and not the process, and says what a GPU says. The C library's own function
 * is hidden behind one of the same name, so that it does not matter who includes <assert.h>. */
static thread_local jmp_buf tide_end;
#ifdef __GLIBC__
extern "C" __attribute__((noreturn, visibility("hidden")))
void __assert_fail(const char *what, const char *file, unsigned line, const char *function) noexcept {
  char text[200];
  size_t n = 0;
  while (*what && n + 1 < sizeof text) {
    while (!strncmp(what, "tide_by->*", 10) || !strncmp(what, "TIDE_BY ", 8)) what += *what == 'T' ? 8 : 10;
    text[n++] = *what++;
  }
  text[n] = 0;
  fprintf(stderr, "%s:%u: %.*s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, line,
          (int)(strchr(function, ')') ? strchr(function, ')') + 1 - function : strlen(function)), function,
          blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, text);
#ifdef TIDE_FIBERS
  tide_hook->leave(tide_hook->self);
#endif
  longjmp(tide_end, 1);
}
#endif
#include <cassert>
#define TIDE_KERNEL(loop) extern "C" __attribute__((visibility("default"))) \
  int tide_kernel(const void *packed, const unsigned *dims, long long begin, long long end, const void *hooks) { \
    tide_hook = (const tide_hooks *)hooks; \
    tide_shared = tide_hook->shared; \
    if (setjmp(tide_end)) return 1; \
    return loop(packed, dims, begin, end); }
