/* types.cuh: storage types, compute types and the conversions between them, for every kernel.
 *
 * A storage type says how an element lies in memory (Bool, half, bfloat16 and the C types), a compute type what it is
 * worked on as. cast<D>(s) is the one definition of a conversion: floats to integers truncate through int64 (what does
 * not fit becomes the smallest int64, as on the CPU), to Bool is != 0, complex to real drops the imaginary part, and
 * what becomes a 16-bit float is a float32 first. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include "launch.cuh"

namespace tidek {

using half = __half;
using bfloat16 = __nv_bfloat16;

struct Bool {
  uint8_t v;
};

template <class T> struct alignas(2 * sizeof(T)) Complex {
  T re, im;
  Complex() = default;
  __host__ __device__ __forceinline__ constexpr Complex(T r, T i = 0) : re(r), im(i) {}
};
using complex64 = Complex<float>;
using complex128 = Complex<double>;

template <class T> struct is_complex : std::false_type {};
template <class T> struct is_complex<Complex<T>> : std::true_type {};

/* The type of the parts of a complex type, else the type itself. */
template <class T> struct real_of { using type = T; };
template <class T> struct real_of<Complex<T>> { using type = T; };

template <class F> static __device__ __forceinline__ int64_t float_to_int(F f) {
  return f >= (F)-9223372036854775808.0 && f < (F)9223372036854775808.0 ? (int64_t)f : INT64_MIN;
}

/* What a stored element is as an ordinary number: Bool an int, 16-bit floats a float. */
static __device__ __forceinline__ int plain(Bool x) { return x.v != 0; }
static __device__ __forceinline__ float plain(half x) { return __half2float(x); }
static __device__ __forceinline__ float plain(bfloat16 x) { return __bfloat162float(x); }
template <class S> static __device__ __forceinline__ S plain(S x) { return x; }

template <class D, class S> static __device__ __forceinline__ D cast(S stored) {
  auto x = plain(stored);
  using X = decltype(x);
  if constexpr (std::is_same_v<D, S>) {
    return stored;
  } else if constexpr (is_complex<D>::value) {
    using R = typename real_of<D>::type;
    if constexpr (is_complex<X>::value)
      return D((R)x.re, (R)x.im);
    else
      return D((R)x, (R)0);
  } else if constexpr (std::is_same_v<D, Bool>) {
    if constexpr (is_complex<X>::value)
      return Bool{(uint8_t)(x.re != 0 || x.im != 0)};
    else
      return Bool{(uint8_t)(x != 0)};
  } else if constexpr (is_complex<X>::value) {
    return cast<D>(x.re);
  } else if constexpr (std::is_same_v<D, half>) {
    return __float2half_rn((float)x);
  } else if constexpr (std::is_same_v<D, bfloat16>) {
    return __float2bfloat16_rn((float)x);
  } else if constexpr (std::is_integral_v<D> && std::is_floating_point_v<X>) {
    return (D)float_to_int(x);
  } else {
    return (D)x;
  }
}

template <class T> static inline T value_of(const tide_value &v) {
  if constexpr (is_complex<T>::value)
    return T((decltype(T::re))v.re, (decltype(T::re))v.im);
  else if constexpr (std::is_integral_v<T>)
    return (T)v.i;
  else
    return (T)v.re;
}

/* The storage type of each dtype, as X(TIDE_NAME, type). */
#define TIDEK_STORAGES(X)                                                                                              \
  X(TIDE_BOOL, Bool)                                                                                                   \
  X(TIDE_UINT8, uint8_t)                                                                                               \
  X(TIDE_INT8, int8_t)                                                                                                 \
  X(TIDE_INT16, int16_t)                                                                                               \
  X(TIDE_INT32, int32_t)                                                                                               \
  X(TIDE_INT64, int64_t)                                                                                               \
  X(TIDE_FLOAT16, half)                                                                                                \
  X(TIDE_BFLOAT16, bfloat16)                                                                                           \
  X(TIDE_FLOAT32, float)                                                                                               \
  X(TIDE_FLOAT64, double)                                                                                              \
  X(TIDE_COMPLEX64, complex64)                                                                                         \
  X(TIDE_COMPLEX128, complex128)

/* The converting path: N elements at the offsets of one operand, whatever its dtype. One switch serves them all, so
 * that the loads are in flight together. */
template <class T, int N, class O>
static __device__ __forceinline__ void load_any(T (&out)[N], const void *p, const O (&offset)[N], int dtype) {
  switch (dtype) {
#define X(NAME, S)                                                                                                     \
  case NAME: _Pragma("unroll") for (int e = 0; e < N; e++) out[e] = cast<T>(((const S *)p)[offset[e]]); break;
    TIDEK_STORAGES(X)
#undef X
  }
}

template <class T> static __device__ __forceinline__ void store_any(void *p, int64_t offset, int dtype, T value) {
  switch (dtype) {
#define X(NAME, S)                                                                                                     \
  case NAME: ((S *)p)[offset] = cast<S>(value); break;
    TIDEK_STORAGES(X)
#undef X
  }
}

static inline int dtype_bytes(int dtype) {
  static const uint8_t bytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return bytes[dtype];
}

} // namespace tidek
