/* reduce.cu: the entry to reductions: which kernels, how many blocks, how much scratch memory. See reduce.cuh. */
#include "reduce.cuh"
#include "tidek.h"

namespace tidek {

static const Reducer *reducer_for(const tide_reduce_args *a) {
  switch (a->op) {
  case TIDE_SUM:
  case TIDE_MEAN:
  case TIDE_NANSUM:
  case TIDE_PROD: return reducer_sum(a);
  case TIDE_MAX:
  case TIDE_MIN:
  case TIDE_ARGMAX:
  case TIDE_ARGMIN: return reducer_extreme(a);
  case TIDE_NORM: return reducer_norm(a);
  case TIDE_VAR:
  case TIDE_STD: return reducer_var(a);
  case TIDE_ALL:
  case TIDE_ANY:
  case TIDE_COUNT_NONZERO: return reducer_test(a);
  }
  return nullptr;
}

static const Typed *typed_for(const Reducer *r, const tide_reduce_args *a) {
  for (const Typed &t : r->typed)
    if (t.row && t.dtype == a->dtype[1]) return &t;
  return nullptr;
}

} // namespace tidek

size_t tidek_reduce_scratch(const tide_reduce_args *a, int sms) {
  using namespace tidek;
  const Reducer *reducer = reducer_for(a);
  if (!reducer) return 0;
  Shape s = shape_of(a, sms, typed_for(reducer, a) != nullptr);
  return s.parts > 1 ? (size_t)s.parts * (size_t)a->outer * reducer->acc_size : 0;
}

int tidek_reduce(cudaStream_t stream, const tide_reduce_args *a, int sms, void *scratch) {
  using namespace tidek;
  const Reducer *reducer = reducer_for(a);
  if (!reducer) return (int)cudaErrorNotSupported;
  const Typed *typed = typed_for(reducer, a);
  Shape s = shape_of(a, sms, typed != nullptr);
  ReduceArgs r;
  fill_args(r, a, s, scratch);
  ReduceKernel kernel = s.way == ROWS ? typed->row : s.way == COLUMNS ? typed->col : reducer->any;
  int rc = launch(kernel, s.blocks, THREADS, stream, (const ReduceArgs)r);
  if (rc || s.parts == 1) return rc;
  r.group = a->outer >= 4096 ? 1 : group_for(s.parts, 2);
  return launch(reducer->last, ceil_div(a->outer, THREADS / r.group), THREADS, stream, (const ReduceArgs)r);
}
