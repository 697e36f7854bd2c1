/* reduce.c: sums, means, extremes and the like over any set of dims.
 *
 * The dims are split into those that stay and those that are reduced. Both lists are collapsed on their own: the first
 * by the result's strides, the second by the input's, except for argmax and argmin, whose index counts in the order of
 * the dims. What a reduction of nothing gives is decided here (0, 1, true, false, NaN, or an error for extremes).
 *
 * Invariant: a backend gets at least one element for every result, and an input in which one conversion on loading
 * gives the dtype that is accumulated in. */
#include "tide/sort.h"

#include "tensor.h"

/* The rules of reduction.def: the categories of dtypes that are taken (see tide__category), and what comes out. */
enum { GIVES_SAME, GIVES_WIDE, GIVES_FLOAT, GIVES_INDEX, GIVES_COUNT, GIVES_TRUTH };
typedef struct rule {
  uint8_t least, most, gives;
  const char *expected; /* what is said of other categories */
} rule;
enum {
  RULE_SUM,
  RULE_SUM_REAL,
  RULE_MEAN,
  RULE_SIZE,
  RULE_SPREAD,
  RULE_CHOICE,
  RULE_PLACE,
  RULE_TRUTH,
  RULE_COUNT,
  RULE_FLOAT
};
static const rule rules[] = {
    [RULE_SUM] = {0, 3, GIVES_WIDE, NULL},
    [RULE_SUM_REAL] = {0, 2, GIVES_WIDE, "a real dtype"},
    [RULE_MEAN] = {2, 3, GIVES_SAME, "a floating or complex dtype: give one as dtype"},
    [RULE_SIZE] = {2, 2, GIVES_SAME, "a floating dtype"},
    [RULE_SPREAD] = {2, 2, GIVES_SAME, "a floating dtype"},
    [RULE_CHOICE] = {0, 2, GIVES_SAME, "a real dtype"},
    [RULE_PLACE] = {0, 2, GIVES_INDEX, "a real dtype"},
    [RULE_TRUTH] = {0, 3, GIVES_TRUTH, NULL},
    [RULE_COUNT] = {0, 3, GIVES_COUNT, NULL},
    [RULE_FLOAT] = {0, 2, GIVES_FLOAT, "a real dtype"},
};

enum { EMPTY_ZERO, EMPTY_ONE, EMPTY_NAN, EMPTY_LOWEST, EMPTY_NONE };
enum { FORM_DIMS, FORM_DIMS_DTYPE, FORM_TEST, FORM_CHOICE, FORM_PLACE, FORM_SPREAD, FORM_NORM };
static const struct {
  uint8_t rule, empty, form;
} traits[] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) {RULE_##rule, EMPTY_##empty, FORM_##form},
#include "tide/reduction.def"
};

typedef struct job {
  tide_reduction op;
  const char *what;
  bool keepdim, both_ends; /* both_ends: of MIN, the second result is the maximum */
  unsigned reduced;        /* bit d: dim d is reduced */
  double param;
  tide_dtype result, acc;
  const tide_tensor *x;
  tide_tensor *owned; /* x in another dtype, if that was needed */
  int64_t inner;
  int ndim;
  int64_t size[TIDE_MAX_DIMS]; /* of the result */
} job;

static bool is_place(tide_reduction op) { return traits[op].rule == RULE_PLACE; }
static bool is_extreme(tide_reduction op) { return op == TIDE_MAX || op == TIDE_MIN; }
static bool takes_dtype(tide_reduction op) {
  return traits[op].form == FORM_DIMS_DTYPE || traits[op].form == FORM_NORM;
}

/* ---- what is reduced ---- */

static tide_status job_dims(job *j, const tide_reduce_options *o) {
  const tide_tensor *x = j->x;
  bool all = !o->dims || o->ndims == 0;
  j->keepdim = o->keepdim;
  j->reduced = all ? (1u << x->ndim) - 1 : 0;
  for (int i = 0; !all && i < o->ndims; i++) {
    int dim;
    TIDE_TRY(tide__dim_check(&dim, o->dims[i], x->ndim, j->what));
    if (j->reduced & 1u << dim)
      return tide__fail(TIDE_ARGUMENT, "%s: dim %lld is given twice, expected every dim at most once", j->what,
                        (long long)tide__shown(dim));
    j->reduced |= 1u << dim;
  }
  if (is_place(j->op) && !all && o->ndims != 1)
    return tide__fail(TIDE_ARGUMENT, "%s: too many dims, got %d, expected one or none", j->what, o->ndims);
  j->inner = 1, j->ndim = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (j->reduced & 1u << d)
      j->inner = tide__size_mul(j->inner, x->size[d]);
    else
      j->size[j->ndim++] = x->size[d];
    if (j->reduced & 1u << d && j->keepdim) j->size[j->ndim++] = 1;
  }
  return TIDE_OK;
}

/* ---- dtypes ---- */

static tide_dtype accumulator(tide_dtype dtype) {
  int category = tide__category(dtype);
  if (category == 3) return dtype;
  return category <= 1 ? TIDE_INT64 : tide__compute_dtype(dtype);
}

tide_dtype tide__reduced_dtype(tide_reduction op, tide_dtype dtype) {
  bool whole = tide__category(dtype) <= 1;
  switch (rules[traits[op].rule].gives) {
  case GIVES_WIDE: return whole ? TIDE_INT64 : dtype;
  case GIVES_FLOAT: return whole ? tide_get_default_dtype() : dtype;
  case GIVES_INDEX:
  case GIVES_COUNT: return TIDE_INT64;
  case GIVES_TRUTH: return TIDE_BOOL;
  default: return dtype;
  }
}

/* Which dtype comes out, and whether x is one that the reduction takes. */
static tide_status job_result(job *j, tide_dtype wanted) {
  const rule *r = &rules[traits[j->op].rule];
  bool chosen = takes_dtype(j->op) && wanted != TIDE_DTYPE_NONE;
  tide_dtype base = chosen ? wanted : (tide_dtype)j->x->dtype;
  int category = tide__category(base);
  if (category < r->least || category > r->most) return tide__fail_dtype(j->what, base, r->expected);
  j->result = chosen ? base : tide__reduced_dtype(j->op, base);
  return TIDE_OK;
}

/* x with every element tested against zero, for what counts truth values. */
static tide_status test_nonzero(tide_tensor **out, const tide_tensor *x) {
  tide_operand in[2] = {{.tensor = x}, {.tensor = NULL, .number = tide_int(0)}};
  return tide_elementwise(out, TIDE_OP_ne, in, NULL, NULL);
}

static tide_status own(job *j, tide_status status, tide_tensor *copy) {
  TIDE_TRY(status);
  j->owned = copy;
  j->x = copy;
  return TIDE_OK;
}

/* Chooses the accumulator and converts x where loading alone would not do: from another category, or of complex numbers
 * whose truth is asked. */
static tide_status job_input(job *j) {
  tide_dtype from = (tide_dtype)j->x->dtype;
  tide_tensor *copy = NULL;
  int gives = rules[traits[j->op].rule].gives;
  bool truth = gives == GIVES_TRUTH || gives == GIVES_COUNT;
  j->acc = truth ? j->result : accumulator(is_place(j->op) ? from : j->result);
  if (truth && tide__category(from) == 3) {
    tide_status status = test_nonzero(&copy, j->x);
    return own(j, status, copy);
  }
  bool to_bool = j->result == TIDE_BOOL && takes_dtype(j->op) && from != TIDE_BOOL;
  int kind = tide__category(from), acc_kind = tide__category(j->acc);
  bool loads = truth || kind == acc_kind || (kind == 0 && acc_kind == 1);
  if (loads && !to_bool) return TIDE_OK;
  tide_status status = tide__as_dtype(&copy, j->x, j->result);
  return own(j, status, copy);
}

/* ---- nothing to reduce ---- */

static tide_status check_empty(const job *j) {
  bool chooses = traits[j->op].empty == EMPTY_NONE || (j->op == TIDE_NORM && (j->param < 0 || isinf(j->param)));
  if (!chooses) return TIDE_OK;
  for (int d = 0; d < j->x->ndim; d++)
    if (j->reduced & 1u << d && j->x->size[d] == 0)
      return tide__fail(TIDE_VALUE,
                        "%s: nothing to choose from, got size 0 in dim %lld of %s, expected at least one element",
                        j->what, (long long)tide__shown(d), tide__shape_text(j->x->size, j->x->ndim));
  return TIDE_OK;
}

static tide_scalar empty_value(tide_reduction op) {
  int empty = traits[op].empty;
  if (empty == EMPTY_NAN) return tide_float(NAN);
  return empty == EMPTY_LOWEST ? tide_float(-INFINITY) : tide_int(empty == EMPTY_ONE);
}

/* ---- the plan ---- */

static void plan_kept(tide_reduce_args *a, const job *j, const tide_tensor *first, const tide_tensor *second) {
  const tide_tensor *x = j->x;
  int n = 0, at = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (j->reduced & 1u << d) {
      at += j->keepdim;
      continue;
    }
    a->keep_size[n] = x->size[d];
    a->keep_stride[0][n] = first->stride[at];
    a->keep_stride[1][n] = x->stride[d];
    a->keep_stride[2][n] = second ? second->stride[at] : 0;
    n++, at++;
  }
  a->nkeep = tide__collapse(a->keep_size, a->keep_stride, second ? 3 : 2, n, false);
  a->outer = first->numel;
}

static void plan_reduced(tide_reduce_args *a, const job *j) {
  const tide_tensor *x = j->x;
  int n = 0;
  for (int d = 0; d < x->ndim; d++)
    if (j->reduced & 1u << d) a->red_size[n] = x->size[d], a->red_stride[n++] = x->stride[d];
  a->nred = tide__collapse(a->red_size, &a->red_stride, 1, n, is_place(j->op));
  a->inner = j->inner;
}

static tide_status run(const job *j, const tide_tensor *first, const tide_tensor *second) {
  tide__queue q;
  tide_reduce_args a;
  TIDE_TRY(tide__operands(&a.head, &q, j->x->storage->device, 3, (const tide_tensor *[]){first, j->x, second}));
  a.op = j->op, a.acc = j->acc, a.index_base = tide_get_index_base();
  a.dtype[0] = first->dtype, a.dtype[1] = j->x->dtype, a.dtype[2] = second ? second->dtype : first->dtype;
  a.param = is_extreme(j->op) ? j->both_ends : j->param;
  a.scale = j->op == TIDE_MEAN ? 1.0 / (double)j->inner : 1.0;
  plan_kept(&a, j, first, second);
  plan_reduced(&a, j);
  return TIDE_LAUNCH(&q, reduce, &a, a.op);
}

/* Fills `first` (and `second`), which have the result's size. */
static tide_status reduce_to(const job *j, tide_tensor *first, tide_tensor *second) {
  if (first->numel == 0) return TIDE_OK;
  if (j->inner > 0) return run(j, first, second);
  if (second) TIDE_TRY(tide_fill(second, empty_value(j->op)));
  return tide_fill(first, empty_value(j->op));
}

/* ---- the entries ---- */

static tide_status job_begin(job *j, tide_reduction op, const tide_tensor *x, const tide_reduce_options *options) {
  static const tide_reduce_options defaults = TIDE_REDUCE_OPTIONS;
  const tide_reduce_options *o = options ? options : &defaults;
  if ((unsigned)op >= TIDE_REDUCTION_COUNT)
    return tide__fail(TIDE_ARGUMENT, "reduce: unknown reduction, got %d, expected 0 to %d", (int)op,
                      TIDE_REDUCTION_COUNT - 1);
  j->op = op, j->what = tide_reduction_get(op)->name, j->x = x, j->owned = NULL, j->both_ends = false;
  j->param = o->param;
  TIDE_TRY(tide__check(x, j->what, "x"));
  TIDE_SIZED(j->what, o);
  if (o->ndims < 0) return tide__fail_list(j->what, "dims", o->ndims);
  if (o->dtype != TIDE_DTYPE_NONE && (unsigned)o->dtype >= TIDE_DTYPE_COUNT)
    return tide__fail(TIDE_ARGUMENT, "%s: unknown dtype, got %d, expected 0 to %d", j->what, (int)o->dtype,
                      TIDE_DTYPE_COUNT - 1);
  TIDE_TRY(job_dims(j, o));
  TIDE_TRY(job_result(j, o->dtype));
  return check_empty(j);
}

static tide_status new_result(tide_tensor **out, const job *j, tide_dtype dtype) {
  return tide__tensor_new(out, j->size, j->ndim, dtype, j->x->storage->device);
}

static tide_status check_into(const job *j, tide_tensor *into) {
  TIDE_TRY(tide__into_check(into, j->x, "x", j->result, j->what));
  return tide__size_give(into, j->size, j->ndim, into->storage == j->x->storage, j->what);
}

/* ---- of complex numbers what is real: from their sizes, or from both parts ---- */

static bool is_of_parts(tide_reduction op, const tide_tensor *x, const tide_reduce_options *o) {
  if ((unsigned)op >= TIDE_REDUCTION_COUNT) return false;
  if (traits[op].rule != RULE_SIZE && traits[op].rule != RULE_SPREAD) return false;
  bool asked = op == TIDE_NORM && o && o->dtype != TIDE_DTYPE_NONE; /* with a real dtype the ordinary way refuses */
  return tide__check(x, tide_reduction_get(op)->name, "x") == TIDE_OK && tide__category(x->dtype) == 3 && !asked;
}

static tide_status norm_of_sizes(tide_tensor **out, const tide_tensor *x, const tide_reduce_options *o,
                                 tide_tensor *into) {
  TIDE_OWNED tide_tensor *sizes = NULL;
  TIDE_TRY(tide_unary(&sizes, TIDE_OP_abs, x, NULL));
  return tide_reduce(out, TIDE_NORM, sizes, o, into);
}

/* The variance is the sum of those of the parts. */
static tide_status spread_of_parts(tide_tensor **out, tide_reduction op, const tide_tensor *x,
                                   const tide_reduce_options *o, tide_tensor *into) {
  TIDE_OWNED tide_tensor *re = NULL, *im = NULL, *first = NULL, *second = NULL, *sum = NULL;
  TIDE_TRY(tide_real(&re, x));
  TIDE_TRY(tide_imag(&im, x));
  TIDE_TRY(tide_reduce(&first, TIDE_VAR, re, o, NULL));
  TIDE_TRY(tide_reduce(&second, TIDE_VAR, im, o, NULL));
  if (op == TIDE_VAR) return tide_binary(out, TIDE_OP_add, first, second, into);
  TIDE_TRY(tide_binary(&sum, TIDE_OP_add, first, second, NULL));
  return tide_unary(out, TIDE_OP_sqrt, sum, into);
}

tide_status tide_reduce(tide_tensor **out, tide_reduction op, const tide_tensor *x, const tide_reduce_options *options,
                        tide_tensor *into) {
  job j;
  if (TIDE_UNLIKELY(is_of_parts(op, x, options)))
    return op == TIDE_NORM ? norm_of_sizes(out, x, options, into) : spread_of_parts(out, op, x, options, into);
  TIDE_TRY(job_begin(&j, op, x, options));
  TIDE_TRY(tide__out_check(out, into, j.what));
  if (into) TIDE_TRY(check_into(&j, into));
  tide_tensor *result = into;
  if (!into || into->dtype != (uint8_t)j.result || tide__tensor_overlaps(into, x))
    TIDE_TRY(new_result(&result, &j, j.result));
  tide_status status = job_input(&j);
  if (status == TIDE_OK) status = reduce_to(&j, result, NULL);
  tide_tensor_release(j.owned);
  return tide__deliver(out, result, into, status);
}

/* A reduction with two new results. */
static tide_status reduce_two(tide_tensor **first, tide_tensor **second, job *j, tide_dtype second_dtype) {
  TIDE_OWNED tide_tensor *a = NULL, *b = NULL;
  if (!first || !second)
    return tide__fail(TIDE_ARGUMENT, "%s: a place for a result is missing, got NULL, expected two", j->what);
  TIDE_TRY(new_result(&a, j, j->result));
  TIDE_TRY(new_result(&b, j, second_dtype));
  tide_status status = job_input(j);
  if (status == TIDE_OK) status = reduce_to(j, a, b);
  tide_tensor_release(j->owned);
  TIDE_TRY(status);
  tide__owned_give(first, &a);
  return tide__owned_give(second, &b);
}

tide_status tide_reduce_index(tide_tensor **values, tide_tensor **indices, tide_reduction op, const tide_tensor *x,
                              int dim, bool keepdim) {
  job j;
  tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  o.dims = &dim, o.ndims = 1, o.keepdim = keepdim;
  if (op != TIDE_MAX && op != TIDE_MIN)
    return tide__fail(TIDE_ARGUMENT, "reduce_index: wrong reduction, got %d, expected TIDE_MAX or TIDE_MIN", (int)op);
  TIDE_TRY(job_begin(&j, op, x, &o));
  return reduce_two(values, indices, &j, TIDE_INT64);
}

/* Both by one pass over x, and one wait. */
tide_status tide_extremes(int64_t *least, int64_t *greatest, const tide_tensor *x) {
  job j;
  TIDE_OWNED tide_tensor *both = NULL, *low = NULL, *high = NULL;
  int64_t two = 2, value[2];
  if (!least || !greatest)
    return tide__fail(TIDE_ARGUMENT, "extremes: a place for a result is missing, got NULL, expected two");
  TIDE_TRY(tide__check(x, "extremes", "x"));
  if (tide__category(x->dtype) != 1) return tide__fail_dtype("extremes", x->dtype, "integers");
  TIDE_TRY(job_begin(&j, TIDE_MIN, x, NULL));
  j.both_ends = true, j.acc = TIDE_INT64;
  TIDE_TRY(tide__tensor_new(&both, &two, 1, TIDE_INT64, x->storage->device));
  TIDE_TRY(tide_select(&low, both, 0, 0));
  TIDE_TRY(tide_select(&high, both, 0, 1));
  TIDE_TRY(run(&j, low, high));
  TIDE_TRY(tide_read(value, both));
  *least = value[0], *greatest = value[1];
  return TIDE_OK;
}

tide_status tide_var_mean(tide_tensor **var, tide_tensor **mean, const tide_tensor *x,
                          const tide_reduce_options *options) {
  job j;
  if (is_of_parts(TIDE_VAR, x, options) && var && mean) {
    tide_tensor *v;
    TIDE_TRY(tide_reduce(&v, TIDE_VAR, x, options, NULL));
    return tide__hand_out(var, v, tide_reduce(mean, TIDE_MEAN, x, options, NULL));
  }
  TIDE_TRY(job_begin(&j, TIDE_VAR, x, options));
  return reduce_two(var, mean, &j, j.result);
}

/* One bool of the host: do all elements of the bool tensor hold? */
static tide_status all_hold(bool *out, const tide_tensor *x) {
  TIDE_OWNED tide_tensor *all = NULL;
  tide_scalar value = tide_int(0);
  TIDE_TRY(tide_reduce(&all, TIDE_ALL, x, NULL, NULL));
  TIDE_TRY(tide__item_now(&value, all));
  *out = value.i != 0;
  return TIDE_OK;
}

tide_status tide_equal(bool *out, const tide_tensor *x, const tide_tensor *y) {
  TIDE_TRY(tide__unary_check(out, x, "equal"));
  TIDE_TRY(tide__check(y, "equal", "y"));
  TIDE_TRY(tide__operand_device(x, "x", y, "y", "equal"));
  bool fits = tide__same_size(x, y);
  if (!fits || x->numel == 0) return *out = fits, TIDE_OK;
  TIDE_OWNED tide_tensor *same = NULL;
  if (x->storage->device >= 0) TIDE_TRY(tide__sync_begin("equal"));
  TIDE_TRY(tide_binary(&same, TIDE_OP_eq, x, y, NULL));
  return all_hold(out, same);
}
