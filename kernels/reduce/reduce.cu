/* reduce.cu: the entry to reductions: which kernels, how many blocks, how much scratch memory. See reduce.cuh. */
#include "reduce.cuh"
#include "tidek.h"

namespace tidek {

static const Reducer *reducer_for(const tide_reduce_args *a) {
  using Choice = const Reducer *(*)(const tide_reduce_args *);
  static const Choice table[] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) reducer_##kernels,
#include "tide/reduction.def"
  };
  return table[a->op](a);
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
