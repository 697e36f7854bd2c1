/* reduce_extreme.cu: max, min, argmax and argmin. A maximum without its index is a plain accumulation. */
#include "reduce.cuh"

namespace tidek {

template <class P> static const Reducer *floats() {
  static const Reducer r =
      reducer<P>(typed<P, float>(TIDE_FLOAT32), typed<P, half>(TIDE_FLOAT16), typed<P, bfloat16>(TIDE_BFLOAT16));
  return &r;
}
template <class P> static const Reducer *doubles() {
  static const Reducer r = reducer<P>(typed<P, double>(TIDE_FLOAT64));
  return &r;
}
template <class P> static const Reducer *integers() {
  static const Reducer r = reducer<P>(typed<P, int64_t>(TIDE_INT64), typed<P, int32_t>(TIDE_INT32));
  return &r;
}

template <bool MAX> static const Reducer *by_type(const tide_reduce_args *a, bool where) {
  switch (a->acc) {
  case TIDE_FLOAT32: return where ? floats<Where<float, MAX>>() : floats<Extreme<float, MAX>>();
  case TIDE_FLOAT64: return where ? doubles<Where<double, MAX>>() : doubles<Extreme<double, MAX>>();
  default: return where ? integers<Where<int64_t, MAX>>() : integers<Extreme<int64_t, MAX>>();
  }
}

const Reducer *reducer_extreme(const tide_reduce_args *a) {
  bool where = a->op == TIDE_ARGMAX || a->op == TIDE_ARGMIN || a->head.ptr[2];
  return a->op == TIDE_MAX || a->op == TIDE_ARGMAX ? by_type<true>(a, where) : by_type<false>(a, where);
}

} // namespace tidek
