/* reduce_test.cu: all, any and count_nonzero. */
#include "reduce.cuh"

namespace tidek {

template <class P> static const Reducer *of() {
  static const Reducer r = reducer<P>(typed<P, Bool>(TIDE_BOOL), typed<P, float>(TIDE_FLOAT32));
  return &r;
}

const Reducer *reducer_test(const tide_reduce_args *a) {
  if (a->op == TIDE_COUNT_NONZERO) return of<Count>();
  return a->op == TIDE_ALL ? of<Test<true>>() : of<Test<false>>();
}

} // namespace tidek
