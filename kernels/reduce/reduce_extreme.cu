/* reduce_extreme.cu: max, min, argmax and argmin. A maximum without its index is a plain accumulation. */
#include "reduce.cuh"

namespace tidek {

/* The least integer, and as the second result the greatest. */
struct Ends {
  struct Both {
    int64_t low, high;
  };
  using V = int64_t;
  struct Lane {
    Both both;
    __device__ __forceinline__ Lane() : both(none()) {}
    __device__ __forceinline__ void push(int64_t v, uint32_t) { both = merge(both, {v, v}); }
  };
  using Local = Both;
  using Acc = Both;
  template <class S> TIDEK_IN int64_t load(S s) { return cast<int64_t>(s); }
  TIDEK_IN Both none() { return {INT64_MAX, INT64_MIN}; }
  TIDEK_IN Both none_wide() { return none(); }
  TIDEK_IN Both gather(const Lane &l, uint32_t, uint32_t, uint32_t) { return l.both; }
  TIDEK_IN Both widen(const Both &l, int64_t) { return l; }
  TIDEK_IN Both merge(const Both &a, const Both &b) {
    return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
  }
  TIDEK_IN int64_t finish(const Both &a, const Finish &) { return a.low; }
};
template <> struct second_of<Ends> {
  static constexpr bool any = true;
  TIDEK_IN int64_t get(const Ends::Both &a, const Finish &) { return a.high; }
};

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
  if (a->op == TIDE_MIN && a->head.ptr[2] && a->param == 1) return integers<Ends>();
  bool where = a->op == TIDE_ARGMAX || a->op == TIDE_ARGMIN || a->head.ptr[2];
  return a->op == TIDE_MAX || a->op == TIDE_ARGMAX ? by_type<true>(a, where) : by_type<false>(a, where);
}

} // namespace tidek
