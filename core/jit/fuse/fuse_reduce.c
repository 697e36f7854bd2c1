/* fuse_reduce.c: reductions of fused operations: what a kernel knows, and operations around it.
 *
 * A kernel knows sums, means, products and extremes. The other reductions are made of these: a variance is the sum of
 * the squares of what remains when the mean is taken away, divided by how many there are less the correction; a norm is
 * a root of a sum of powers; a logsumexp takes the largest element away before the exponentials.
 *
 * 16-bit floats are float32 on the way, and what norms of float32 add up is float64, so that what is far from 1 neither
 * overflows nor vanishes. */
#include "jit/fuse/fuse_maker.h"

bool tide_fuse_reduces(tide_reduction op, tide_dtype dtype) {
  int category = tide__category(dtype);
  if (category > 2) return false;
  switch (op) {
  case TIDE_SUM:
  case TIDE_PROD:
  case TIDE_ALL:
  case TIDE_ANY:
  case TIDE_COUNT_NONZERO:
  case TIDE_LOGSUMEXP: return true;
  case TIDE_MAX:
  case TIDE_MIN: return category > 0;
  case TIDE_MEAN:
  case TIDE_VAR:
  case TIDE_STD:
  case TIDE_NORM: return category == 2;
  default: return false;
  }
}

static int spread(maker *m, int x, int correction, bool is_std) {
  int apart = make_op(m, TIDE_OP_sub, x, make_fold(m, TIDE_MEAN, x, -1), 0);
  int variance = make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_mul, apart, apart, 0), correction);
  return is_std ? make_op(m, TIDE_OP_sqrt, variance, 0, 0) : variance;
}

static int norm(maker *m, int x, double p) {
  if (p == 0)
    return make_fold(m, TIDE_SUM, make_cast(m, make_op(m, TIDE_OP_ne, x, make_number(m, 0), 0), m->f->value[x].dtype),
                     -1);
  if (isinf(p)) return make_fold(m, p > 0 ? TIDE_MAX : TIDE_MIN, make_op(m, TIDE_OP_abs, x, 0, 0), -1);
  if (p == 1) return make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_abs, x, 0, 0), -1);
  x = make_cast(m, x, TIDE_FLOAT64);
  if (p == 2) return make_op(m, TIDE_OP_sqrt, make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_mul, x, x, 0), -1), 0, 0);
  int powers = make_op(m, TIDE_OP_pow, make_op(m, TIDE_OP_abs, x, 0, 0), make_number(m, p), 0);
  return make_op(m, TIDE_OP_pow, make_fold(m, TIDE_SUM, powers, -1), make_number(m, 1 / p), 0);
}

/* An infinite or NaN maximum is not taken away: the exponentials tell of it. */
static int logsumexp(maker *m, int x) {
  int most = make_fold(m, TIDE_MAX, x, -1);
  most = make_op(m, TIDE_OP_where, make_op(m, TIDE_OP_isfinite, most, 0, 0), most, make_number(m, 0));
  int sum = make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_exp, make_op(m, TIDE_OP_sub, x, most, 0), 0, 0), -1);
  return make_op(m, TIDE_OP_add, make_op(m, TIDE_OP_log, sum, 0, 0), most, 0);
}

static int test(maker *m, tide_reduction fold_of, int x, tide_dtype counted, tide_dtype result) {
  int is = m->f->value[x].dtype == TIDE_BOOL ? x : make_op(m, TIDE_OP_ne, x, make_number(m, 0), 0);
  return make_cast(m, make_fold(m, fold_of, make_cast(m, is, counted), -1), result);
}

static int any_of(maker *m, const tide_fuse_node *node, int x) {
  tide_dtype dtype = (tide_dtype)m->f->value[x].dtype;
  bool is_float = tide__category(dtype) == 2;
  tide_dtype wide = is_float ? tide__compute_dtype(dtype) : tide_get_default_dtype();
  switch (node->op) {
  case TIDE_SUM:
  case TIDE_PROD: return make_fold(m, node->op, is_float ? x : make_cast(m, x, TIDE_INT64), -1);
  case TIDE_ALL: return test(m, TIDE_MIN, x, TIDE_INT32, TIDE_BOOL);
  case TIDE_ANY: return test(m, TIDE_MAX, x, TIDE_INT32, TIDE_BOOL);
  case TIDE_COUNT_NONZERO: return test(m, TIDE_SUM, x, TIDE_INT64, TIDE_INT64);
  case TIDE_VAR:
  case TIDE_STD: return make_cast(m, spread(m, make_cast(m, x, wide), node->param, node->op == TIDE_STD), dtype);
  case TIDE_NORM: return make_cast(m, norm(m, make_cast(m, x, wide), tide__value(m->f->number[node->param]).re), dtype);
  case TIDE_LOGSUMEXP: return make_cast(m, logsumexp(m, make_cast(m, x, wide)), is_float ? dtype : wide);
  default: return make_fold(m, node->op, x, -1);
  }
}

tide_status tide__fuse_add_reduction(int *out, tide_fused *f, const tide_fuse_node *node) {
  maker m = {.f = f, .dims = node->dims, .leading = node->leading};
  bool takes_number = node->op == TIDE_VAR || node->op == TIDE_STD || node->op == TIDE_NORM;
  if (node->in[0] < 0 || (takes_number && (node->param < 0 || node->param >= f->numbers)))
    return tide__fail(TIDE_ARGUMENT, "%s: a reduction: got node %d and number %d, expected a node, and 0 to %d",
                      f->name, node->in[0], node->param, f->numbers - 1);
  if (!tide_fuse_reduces((tide_reduction)node->op, (tide_dtype)f->value[node->in[0]].dtype))
    return tide__fuse_refuse(f, "such a reduction");
  if (node->op == TIDE_NORM) f->fixed |= 1u << node->param;
  int at = any_of(&m, node, node->in[0]);
  TIDE_TRY(m.status);
  tide_fused_node *v = &f->value[at];
  v->keepdim = node->keepdim;
  if (!node->keepdim) v->ndim = (uint8_t)(v->ndim - node->dims);
  *out = at;
  return TIDE_OK;
}
