/* reduce_var.cu: variance and standard deviation, with the mean as a second result. */
#include "reduce.cuh"

namespace tidek {

const Reducer *reducer_var(const tide_reduce_args *a) {
  static const Reducer floats = reducer<Var<float>>(typed<Var<float>, float>(TIDE_FLOAT32));
  static const Reducer doubles = reducer<Var<double>>(typed<Var<double>, double>(TIDE_FLOAT64));
  if (a->acc == TIDE_FLOAT64) return &doubles;
  return a->acc == TIDE_FLOAT32 ? &floats : nullptr;
}

} // namespace tidek
