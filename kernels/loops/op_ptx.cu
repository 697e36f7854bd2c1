/* op_ptx.cu: every op of op.def and every conversion as a function of its own, compiled to PTX, not to machine code:
 * the CUDA backend copies what it needs of them into kernels that it writes at run time (core/backend/cuda/ptx.c).
 *
 * tide_<op>_<i, l, f or d> computes in int32, int64, float or double; those that an op does not take only trap.
 * tide_to_<dtype>_<i, l, f or d> gives what an element of the dtype has of a value: bool and small integers as int,
 * 16-bit floats as float; tide_bits_bfloat16 the bits that are stored of one.
 *
 * Invariant: long functions are inlined here, so a body calls nothing unless the compiler itself makes a call. */
#define TIDEK_LONG static __device__ __forceinline__
#include "elementwise.cuh"

namespace tidek {

template <class Op, class T> static __device__ __forceinline__ Value<Op, T> value_of(T a, T b, T c, T p0, T p1, T p2) {
  if constexpr (Op::Rule::template accepts<T>) return (Value<Op, T>)Op::template apply<T>(a, b, c, p0, p1, p2);
  asm volatile("trap;");
  return 0;
}

} // namespace tidek

#define FUNCTION(name, tag, T)                                                                                         \
  extern "C" __device__ tidek::Value<tidek::op_##name, T> tide_##name##_##tag(T a, T b, T c, T p0, T p1, T p2) {       \
    return tidek::value_of<tidek::op_##name, T>(a, b, c, p0, p1, p2);                                                  \
  }
#define TIDE_EACH_OP(name, rule, loop, expr, doc)                                                                      \
  FUNCTION(name, i, int) FUNCTION(name, l, int64_t) FUNCTION(name, f, float) FUNCTION(name, d, double)
#include "tide/op.def"

#define CONVERSION(name, S, V, tag, T)                                                                                 \
  extern "C" __device__ V tide_to_##name##_##tag(T x) { return (V)tidek::plain(tidek::cast<S>(x)); }
#define CONVERSIONS(name, S, V)                                                                                        \
  CONVERSION(name, S, V, i, int)                                                                                       \
  CONVERSION(name, S, V, l, int64_t) CONVERSION(name, S, V, f, float) CONVERSION(name, S, V, d, double)
CONVERSIONS(bool, tidek::Bool, int)
CONVERSIONS(uint8, uint8_t, int)
CONVERSIONS(int8, int8_t, int)
CONVERSIONS(int16, int16_t, int)
CONVERSIONS(int32, int, int)
CONVERSIONS(int64, int64_t, int64_t)
CONVERSIONS(float16, tidek::half, float)
CONVERSIONS(bfloat16, tidek::bfloat16, float)
CONVERSIONS(float32, float, float)
CONVERSIONS(float64, double, double)

extern "C" __device__ unsigned tide_bits_bfloat16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
