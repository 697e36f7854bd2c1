/* reduce_sum.cu: sum, mean, nansum and prod. */
#include "reduce.cuh"

namespace tidek {

template <class T> struct Own { static constexpr int dtype = NO_DTYPE; };
template <> struct Own<double> { static constexpr int dtype = TIDE_FLOAT64; };
template <> struct Own<complex64> { static constexpr int dtype = TIDE_COMPLEX64; };
template <> struct Own<complex128> { static constexpr int dtype = TIDE_COMPLEX128; };

static const Reducer *floats(const tide_reduce_args *a) {
  using T = float;
  static const Reducer sum = reducer<Sum<T>>(typed<Sum<T>, float>(TIDE_FLOAT32), typed<Sum<T>, half>(TIDE_FLOAT16),
                                             typed<Sum<T>, bfloat16>(TIDE_BFLOAT16));
  static const Reducer nansum = reducer<NanSum<T>>(typed<NanSum<T>, float>(TIDE_FLOAT32));
  static const Reducer prod = reducer<Prod<T>>(typed<Prod<T>, float>(TIDE_FLOAT32));
  return a->op == TIDE_PROD ? &prod : a->op == TIDE_NANSUM ? &nansum : &sum;
}

static const Reducer *integers(const tide_reduce_args *a) {
  using T = int64_t;
  static const Reducer sum = reducer<Sum<T>>(typed<Sum<T>, int64_t>(TIDE_INT64), typed<Sum<T>, int32_t>(TIDE_INT32),
                                             typed<Sum<T>, Bool>(TIDE_BOOL));
  static const Reducer prod = reducer<Prod<T>>(typed<Prod<T>, int64_t>(TIDE_INT64));
  return a->op == TIDE_PROD ? &prod : &sum;
}

template <class T> static const Reducer *wide(const tide_reduce_args *a) {
  static const Reducer sum = reducer<Sum<T>>(typed<Sum<T>, T>(Own<T>::dtype));
  static const Reducer nansum = reducer<NanSum<T>>();
  static const Reducer prod = reducer<Prod<T>>();
  return a->op == TIDE_PROD ? &prod : a->op == TIDE_NANSUM ? &nansum : &sum;
}

const Reducer *reducer_sum(const tide_reduce_args *a) {
  switch (a->acc) {
  case TIDE_FLOAT32: return floats(a);
  case TIDE_FLOAT64: return wide<double>(a);
  case TIDE_COMPLEX64: return wide<complex64>(a);
  case TIDE_COMPLEX128: return wide<complex128>(a);
  default: return integers(a);
  }
}

} // namespace tidek
