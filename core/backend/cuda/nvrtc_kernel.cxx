/* nvrtc_kernel.cxx: the CUDA C++ that stands around a user's code on a GPU: compiler.h says which piece is what.
 *
 * All of it is made to compile fast: the rest of the time is NVRTC's own. It includes nothing: 16-bit floats are
 * converted by their instructions, and what C++ has in std is declared, as far as an elementwise function needs it,
 * where it is named. A kernel is one path without a loop, as lanes that the preprocessor writes out cost less than
 * those that are unrolled. Where one copy of the user's code takes long enough, all lanes call it (TIDE_APART, which
 * costs less bandwidth than it saves time); what writes through references cannot be called without going through
 * memory, so there core says TIDE_ROLLED and a loop serves all lanes: values rotate through lane 0, so that they stay
 * in registers. Where NVRTC's own header is left out (nvrtc.c), the names of it that count are
 * declared here; what the assertions say is where code would otherwise mean something else without an error.
 *
 * A thread of the flat kernel moves 16 bytes of the widest operand at once, which was measured to be best; what it does
 * besides, indexes and the lanes that the last one has not, is kept to a few instructions in 32 bits, which count where
 * the user's code keeps the arithmetic units busy. A strided thread does four elements, all of whose loads are in
 * flight together. The flat kernel's last thread moves as much as the others: an aligned piece ends in the page that it
 * begins in, and results are new, in blocks of a multiple of 512 bytes. Lanes past the end get the value of lane 0, as
 * any other one might not be fit for the user's code; where core says TIDE_TAKES_ANY they compute with what lies there,
 * as the branch costs a compiler 4 ms.
 *
 * Invariant: every name of ours that a user could clash with begins with tide_ or TIDE_. */

/* The names of <stdint.h>, as there is no such header. */
//@ integers
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

/* Instead of NVRTC's own header, before a text that needs no more of it. */
//@ bare
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define __grid_constant__ __attribute__((grid_constant))
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ __attribute__((shared))
#define __noinline__ __attribute__((noinline))
extern const uint3 __attribute__((device_builtin)) threadIdx, blockIdx, blockDim, gridDim;

/* Before the first text that lacks the header: says whether all others can. */
//@ asserts
static_assert(sizeof(abs(0)) == 4 && sizeof(abs(0l)) == 8 && sizeof(abs(0ll)) == 8 && sizeof(abs(0.f)) == 4 &&
              sizeof(abs(0.)) == 8 && sizeof(max(0ll, 0ll)) == 8 && sizeof(min(0ul, 0ul)) == 8 &&
              sizeof(max(0.f, 0.f)) == 4 && sizeof(min(0.f, 0.)) == 8 && sizeof(exp(0.f)) == 4 &&
              sizeof(sqrt(0.f)) == 4 && sizeof(floor(0.f)) == 4 &&
              sizeof(fmod(0.f, 0.f)) == 4, "CUDA's overloads");

//@ prelude
#define TIDE_INLINE __device__ __forceinline__
#define TIDE_APART __device__ __attribute__((noinline))
TIDE_INLINE void tide_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#ifdef TIDE_NAMES_STD
namespace std {
template <class T> TIDE_INLINE const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> TIDE_INLINE const T &max(const T &a, const T &b) { return a < b ? b : a; }
#define TIDE_STD(f) template <class T> TIDE_INLINE auto f(T x) -> decltype(::f(x)) { return ::f(x); }
#define TIDE_STD2(f) template <class T, class U> TIDE_INLINE auto f(T x, U y) -> decltype(::f(x, y)) { return ::f(x, y); }
TIDE_STD(abs) TIDE_STD(fabs) TIDE_STD(sqrt) TIDE_STD(cbrt) TIDE_STD(exp) TIDE_STD(exp2) TIDE_STD(expm1)
TIDE_STD(log) TIDE_STD(log2) TIDE_STD(log10) TIDE_STD(log1p) TIDE_STD(sin) TIDE_STD(cos) TIDE_STD(tan)
TIDE_STD(asin) TIDE_STD(acos) TIDE_STD(atan) TIDE_STD(sinh) TIDE_STD(cosh) TIDE_STD(tanh) TIDE_STD(asinh)
TIDE_STD(acosh) TIDE_STD(atanh) TIDE_STD(erf) TIDE_STD(erfc) TIDE_STD(tgamma) TIDE_STD(lgamma) TIDE_STD(ceil)
TIDE_STD(floor) TIDE_STD(trunc) TIDE_STD(round) TIDE_STD(rint) TIDE_STD(isnan) TIDE_STD(isinf) TIDE_STD(isfinite)
TIDE_STD2(pow) TIDE_STD2(fmod) TIDE_STD2(remainder) TIDE_STD2(atan2) TIDE_STD2(hypot) TIDE_STD2(fmin)
TIDE_STD2(fmax) TIDE_STD2(copysign)
template <class T> struct numeric_limits;
#define TIDE_LIMITS(T, low, high, eps, inf, nan) template <> struct numeric_limits<T> { \
  static __device__ constexpr T lowest() { return low; } static __device__ constexpr T max() { return high; } \
  static __device__ constexpr T epsilon() { return eps; } static __device__ T infinity() { return inf; } \
  static __device__ T quiet_NaN() { return nan; } };
TIDE_LIMITS(float, -3.402823466e+38f, 3.402823466e+38f, 1.192092896e-07f, __int_as_float(0x7f800000),
            __int_as_float(0x7fc00000))
TIDE_LIMITS(double, -1.7976931348623157e+308, 1.7976931348623157e+308, 2.2204460492503131e-16,
            __longlong_as_double(0x7ff0000000000000ll), __longlong_as_double(0x7ff8000000000000ll))
TIDE_LIMITS(int, -2147483647 - 1, 2147483647, 0, 0, 0)
TIDE_LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll, 0, 0, 0)
}
#endif

//@ small
struct tide_f16 { unsigned short v; };
struct tide_bf16 { unsigned short v; };
struct tide_b8 { unsigned char v; };
TIDE_INLINE float tide_get(tide_f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.v)); return y; }
TIDE_INLINE void tide_put(tide_f16 &to, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.v) : "f"(x)); }
TIDE_INLINE float tide_get(tide_bf16 x) { return __int_as_float((int)x.v << 16); }
TIDE_INLINE void tide_put(tide_bf16 &to, float x) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.v) : "f"(x));
#else
  unsigned u = __float_as_uint(x);
  to.v = (u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
#endif
}
TIDE_INLINE bool tide_get(tide_b8 x) { return x.v != 0; }
TIDE_INLINE void tide_put(tide_b8 &to, bool x) { to.v = x; }

//@ complex
namespace std {
template <class R> struct alignas(2 * sizeof(R)) complex {
  R re, im;
  TIDE_INLINE complex(R r = 0, R i = 0) : re(r), im(i) {}
  template <class Q> TIDE_INLINE complex(const complex<Q> &z) : re((R)z.re), im((R)z.im) {}
  TIDE_INLINE R real() const { return re; }
  TIDE_INLINE R imag() const { return im; }
  TIDE_INLINE complex &operator+=(complex z) { return *this = *this + z; }
  TIDE_INLINE complex &operator-=(complex z) { return *this = *this - z; }
  TIDE_INLINE complex &operator*=(complex z) { return *this = *this * z; }
  TIDE_INLINE complex &operator/=(complex z) { return *this = *this / z; }
  friend TIDE_INLINE complex operator+(complex a, complex b) { return complex(a.re + b.re, a.im + b.im); }
  friend TIDE_INLINE complex operator-(complex a, complex b) { return complex(a.re - b.re, a.im - b.im); }
  friend TIDE_INLINE complex operator*(complex a, complex b) {
    return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  friend TIDE_INLINE complex operator/(complex a, complex b) {
    bool wide = ::fabs(b.re) >= ::fabs(b.im);
    R p = wide ? b.re : b.im, q = wide ? b.im : b.re, r = q / p, d = p + q * r;
    R x = wide ? a.re + a.im * r : a.re * r + a.im, y = wide ? a.im - a.re * r : a.im * r - a.re;
    return complex(x / d, y / d);
  }
  friend TIDE_INLINE bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }
  friend TIDE_INLINE bool operator!=(complex a, complex b) { return !(a == b); }
};
#define TIDE_C template <class R> TIDE_INLINE
TIDE_C complex<R> operator+(complex<R> z) { return z; }
TIDE_C complex<R> operator-(complex<R> z) { return complex<R>(-z.re, -z.im); }
TIDE_C R real(complex<R> z) { return z.re; }
TIDE_C R imag(complex<R> z) { return z.im; }
TIDE_C R norm(complex<R> z) { return z.re * z.re + z.im * z.im; }
TIDE_C R abs(complex<R> z) { return ::hypot(z.re, z.im); }
TIDE_C R arg(complex<R> z) { return ::atan2(z.im, z.re); }
TIDE_C complex<R> conj(complex<R> z) { return complex<R>(z.re, -z.im); }
TIDE_C complex<R> polar(R r, R t) { return complex<R>(r * ::cos(t), r * ::sin(t)); }
TIDE_C complex<R> exp(complex<R> z) { return polar(::exp(z.re), z.im); }
TIDE_C complex<R> log(complex<R> z) { return complex<R>(::log(abs(z)), arg(z)); }
TIDE_C complex<R> pow(complex<R> a, complex<R> b) { return a == complex<R>() ? complex<R>(b == complex<R>()) : exp(b * log(a)); }
TIDE_C complex<R> sqrt(complex<R> z) {
  R m = ::sqrt((::fabs(z.re) + abs(z)) / 2);
  if (m == 0) return complex<R>(0, z.im);
  R n = z.im / (2 * m);
  return z.re >= 0 ? complex<R>(m, n) : complex<R>(::fabs(n), ::copysign(m, z.im));
}
TIDE_C complex<R> sinh(complex<R> z) { return complex<R>(::sinh(z.re) * ::cos(z.im), ::cosh(z.re) * ::sin(z.im)); }
TIDE_C complex<R> cosh(complex<R> z) { return complex<R>(::cosh(z.re) * ::cos(z.im), ::sinh(z.re) * ::sin(z.im)); }
TIDE_C complex<R> sin(complex<R> z) { return complex<R>(::sin(z.re) * ::cosh(z.im), ::cos(z.re) * ::sinh(z.im)); }
TIDE_C complex<R> cos(complex<R> z) { return complex<R>(::cos(z.re) * ::cosh(z.im), -::sin(z.re) * ::sinh(z.im)); }
TIDE_C complex<R> tanh(complex<R> z) { return sinh(z) / cosh(z); }
TIDE_C complex<R> tan(complex<R> z) { return sin(z) / cos(z); }
}
typedef std::complex<float> tide_c64;
typedef std::complex<double> tide_c128;

//@ begin
extern "C" __global__ void __launch_bounds__(TIDE_THREADS) tide_kernel(const __grid_constant__ tide_args a) {
  tide_begin();
  TIDE_OPEN

/* Does the lanes in p<k>[0 .. TIDE_VECTOR). */
//@ apply
#if TIDE_ROLLED
#define TIDE_AT(k) p##k[0]
#define TIDE_ROTATE(k) { const auto tide_0 = p##k[0]; TIDE_SHIFT(p##k) p##k[TIDE_VECTOR - 1] = tide_0; }
#pragma unroll 1
  for (int e = 0; e < TIDE_VECTOR; e++) {
    if (TIDE_LIVE(e)) tide_apply(a, TIDE_ARGS(TIDE_AT) TIDE_WATCH);
    TIDE_EACH(TIDE_ROTATE)
  }
#else
#define TIDE_AT(k) p##k[tide_e]
#define TIDE_STEP(e) { enum { tide_e = e }; tide_apply(a, TIDE_ARGS(TIDE_AT) TIDE_WATCH); }
  TIDE_LANES(TIDE_STEP)
#endif

//@ raws
template <int BYTES> struct tide_raw;
template <> struct tide_raw<1> { typedef unsigned char type; };
template <> struct tide_raw<2> { typedef unsigned short type; };
template <> struct tide_raw<4> { typedef unsigned type; };
template <> struct tide_raw<8> { typedef uint2 type; };
template <> struct tide_raw<16> { typedef uint4 type; };

//@ flat_begin
  const unsigned mine = blockIdx.x * TIDE_THREADS + threadIdx.x;
  if (mine >= a.threads) return;
#define TIDE_DECLARE(k) typedef tide_raw<sizeof(tide_s##k) * TIDE_VECTOR>::type tide_r##k; \
  alignas(tide_r##k) tide_s##k p##k[TIDE_VECTOR];
  TIDE_EACH(TIDE_DECLARE)
#define TIDE_LOAD(k) *(tide_r##k *)p##k = ((const tide_r##k *)a.ptr[k])[mine];
  TIDE_EACH_IN(TIDE_LOAD)
#if TIDE_TAKES_ANY
#define TIDE_LIVE(e) true
#else
#define TIDE_LIVE(e) (mine < a.full || e < (unsigned)a.n % TIDE_VECTOR)
#endif
#if !TIDE_ROLLED && !TIDE_TAKES_ANY
#define TIDE_KEEP(k) p##k[tide_e] = TIDE_LIVE(tide_e) ? p##k[tide_e] : p##k[0];
#define TIDE_FILL(e) { enum { tide_e = e }; TIDE_EACH_IN(TIDE_KEEP) }
  if (mine >= a.full) { TIDE_LANES(TIDE_FILL) }
#endif

//@ flat_end
#define TIDE_STORE(k) ((tide_r##k *)a.ptr[k])[mine] = *(tide_r##k *)p##k;
  TIDE_EACH_OUT(TIDE_STORE)
  TIDE_CLOSE
}

//@ dims
struct tide_div {
  unsigned d, mul, shift;
  TIDE_INLINE unsigned split(unsigned &n) const {
    unsigned q = (__umulhi(n, mul) + n) >> shift, r = n - q * d;
    n = q;
    return r;
  }
};

/* Threads past the end do the last element again, which costs less than a branch for each lane. */
//@ strided_begin
  const unsigned n = (unsigned)a.n, start = blockIdx.x * (TIDE_THREADS * TIDE_VECTOR) + threadIdx.x;
#define TIDE_DECLARE(k) tide_v##k p##k[TIDE_VECTOR]; long long at##k[TIDE_VECTOR];
  TIDE_EACH(TIDE_DECLARE)
#define TIDE_ZERO(k) at##k[tide_e] = 0;
#define TIDE_MOVE(k) at##k[tide_e] += i * a.stride[tide_d][k];
#define TIDE_DIM(d) { enum { tide_d = d }; const unsigned i = d ? a.size[d].split(rest) : rest; TIDE_EACH(TIDE_MOVE) }
#define TIDE_FIND(e) { enum { tide_e = e }; TIDE_EACH(TIDE_ZERO) \
  unsigned rest = start + e * TIDE_THREADS < n ? start + e * TIDE_THREADS : n - 1; TIDE_DIMS(TIDE_DIM) }
  TIDE_LANES(TIDE_FIND)
#define TIDE_LOAD(k) p##k[tide_e] = ((const tide_s##k *)a.ptr[k])[at##k[tide_e]];
#define TIDE_POINT(k) p##k[tide_e] = (const tide_s##k *)a.ptr[k] + at##k[tide_e];
#define TIDE_READ(e) { enum { tide_e = e }; TIDE_EACH_IN(TIDE_LOAD) TIDE_EACH_PLACE(TIDE_POINT) }
  TIDE_LANES(TIDE_READ)
#define TIDE_LIVE(e) true

//@ strided_end
#define TIDE_STORE(k) ((tide_s##k *)a.ptr[k])[at##k[tide_e]] = p##k[tide_e];
#define TIDE_WRITE(e) { enum { tide_e = e }; TIDE_EACH_OUT(TIDE_STORE) }
  TIDE_LANES(TIDE_WRITE)
  TIDE_CLOSE
}
