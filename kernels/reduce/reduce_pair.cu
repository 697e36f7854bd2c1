/* reduce_pair.cu: the reductions of reduction.def whose fold is PAIR, by the functions of pairs.h. */
#include "base/pairs.h"
#include "reduce.cuh"

namespace tidek {

#define PAIR_FUNCTIONS(name, s, T)                                                                                     \
  static __device__ __forceinline__ void none(T *first, T *second) { tide_##name##_none_##s(first, second); }          \
  static __device__ __forceinline__ void of(T *first, T *second, T x) { tide_##name##_of_##s(first, second, x); }      \
  static __device__ __forceinline__ void join(T *first, T *second, T f, T its) {                                       \
    tide_##name##_join_##s(first, second, f, its);                                                                     \
  }                                                                                                                    \
  static __device__ __forceinline__ T end(T first, T second) { return tide_##name##_end_##s(first, second); }
#define PAIR_STRUCT(name)                                                                                              \
  struct pair_##name {                                                                                                 \
    PAIR_FUNCTIONS(name, f32, float)                                                                                   \
    PAIR_FUNCTIONS(name, f64, double)                                                                                  \
  };
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) TIDE_IF_PAIR(fold, PAIR_STRUCT(name))
#include "tide/reduction.def"

template <class F> static const Reducer *pair(int acc) {
  using Single = Pair<F, float>;
  using Wide = Pair<F, double>;
  static const Reducer floats = reducer<Single>(typed<Single, float>(TIDE_FLOAT32), typed<Single, half>(TIDE_FLOAT16),
                                                typed<Single, bfloat16>(TIDE_BFLOAT16));
  static const Reducer doubles = reducer<Wide>(typed<Wide, double>(TIDE_FLOAT64));
  if (acc == TIDE_FLOAT64) return &doubles;
  return acc == TIDE_FLOAT32 ? &floats : nullptr;
}

const Reducer *reducer_pair(const tide_reduce_args *a) {
#define PAIR_RETURN(NAME, name)                                                                                        \
  if (a->op == TIDE_##NAME) return pair<pair_##name>(a->acc);
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) TIDE_IF_PAIR(fold, PAIR_RETURN(NAME, name))
#include "tide/reduction.def"
  return nullptr;
}

} // namespace tidek
