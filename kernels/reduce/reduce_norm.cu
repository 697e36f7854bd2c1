/* reduce_norm.cu: norms, accumulated in real numbers also for complex inputs. */
#include "reduce.cuh"

namespace tidek {

template <class T> struct Own { static constexpr int dtype = TIDE_FLOAT32; };
template <> struct Own<double> { static constexpr int dtype = TIDE_FLOAT64; };

template <class P> static const Reducer *plain_reducer() {
  static const Reducer r = reducer<P>();
  return &r;
}

template <class T> static const Reducer *norm(double p) {
  static const Reducer two = reducer<Norm2<T>>(typed<Norm2<T>, T>(Own<T>::dtype));
  if (p == 2) return &two;
  if (p == 1) return plain_reducer<Norm1<T>>();
  if (p == 0) return plain_reducer<Norm0<T>>();
  if (isinf(p)) return p > 0 ? plain_reducer<NormExtreme<T, true>>() : plain_reducer<NormExtreme<T, false>>();
  return plain_reducer<NormP<T>>();
}

const Reducer *reducer_norm(const tide_reduce_args *a) {
  return a->acc == TIDE_FLOAT64 || a->acc == TIDE_COMPLEX128 ? norm<double>(a->param) : norm<float>(a->param);
}

} // namespace tidek
