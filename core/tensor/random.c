/* random.c: tensors filled with random numbers.
 *
 * What element i gets depends on the generator's seed and offset and on i alone, i counting in row-major order of the
 * tensor as the caller sees it. So dims are merged where they are neighbours but never reordered, and the same seed
 * gives the same picture on every device and in every layout.
 *
 * Invariant: every call that fills at least one element moves the generator on by exactly one step; one that is refused
 * leaves it where it was. */
#include "tensor.h"

/* ---- checks ---- */

static tide_status begin(tide_tensor *x, tide_generator **g, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__writable_check(x, what, "x"));
  tide__made_here(x); /* random factories fill what empty has made */
  int device = x->storage->device;
  if (!*g) return tide_generator_default(g, device);
  if (tide_generator_device(*g) == device) return TIDE_OK;
  return tide__fail(TIDE_DEVICE, "%s: wrong device of the generator, got %s, expected %s like x", what,
                    tide__device_text(tide_generator_device(*g)), tide__device_text(device));
}

static tide_status fail_param(const char *what, const char *name, double got, const char *expected) {
  return tide__fail(TIDE_VALUE, "%s: wrong %s, got %g, expected %s", what, name, got, expected);
}

static tide_status check_range(double a, double b, tide_dtype dtype) {
  if (!(a <= b) || isinf(b - a))
    return tide__fail(TIDE_VALUE, "uniform: wrong range, got %g to %g, expected finite bounds in order", a, b);
  TIDE_TRY(tide__scalar_check(tide_float(a), dtype, "uniform"));
  TIDE_TRY(tide__scalar_check(tide_float(b), dtype, "uniform"));
  /* The kernels scale by b - a, in float32 for the 16-bit dtypes too. */
  return tide__scalar_check(tide_float(b - a), dtype == TIDE_FLOAT64 ? dtype : TIDE_FLOAT32, "uniform");
}

static tide_status check_params(tide_random_kind kind, double a, double b, tide_dtype dtype) {
  const char *what = tide__random_names[kind];
  switch (kind) {
  case TIDE_UNIFORM: return check_range(a, b, dtype);
  case TIDE_NORMAL: return b >= 0 ? TIDE_OK : fail_param(what, "standard deviation", b, "at least 0");
  case TIDE_LOG_NORMAL: return b > 0 ? TIDE_OK : fail_param(what, "standard deviation", b, "above 0");
  case TIDE_CAUCHY: return b > 0 ? TIDE_OK : fail_param(what, "sigma", b, "above 0");
  case TIDE_EXPONENTIAL: return a > 0 ? TIDE_OK : fail_param(what, "rate", a, "above 0");
  case TIDE_BERNOULLI: return a >= 0 && a <= 1 ? TIDE_OK : fail_param(what, "probability", a, "0 to 1");
  case TIDE_GEOMETRIC: return a > 0 && a < 1 ? TIDE_OK : fail_param(what, "probability", a, "between 0 and 1");
  default: return TIDE_OK;
  }
}

static tide_status check_dtype(const tide_tensor *x, bool floating, const char *what) {
  int category = tide__category(x->dtype);
  if (category == 2 || (!floating && category < 2)) return TIDE_OK;
  return tide__fail_dtype(what, x->dtype, floating ? "a floating dtype" : "a real dtype");
}

/* ---- the plan ---- */

typedef struct draw {
  tide_random_kind kind;
  double a, b;
  int64_t lo;
  uint64_t range;
  const tide_tensor *p; /* probabilities, rates or running sums, or NULL */
} draw;

static tide_status run(const tide_tensor *x, const draw *d, tide_generator *g) {
  if (x->numel == 0) return TIDE_OK;
  tide__queue q;
  tide_random_args a;
  int operands = d->p ? 2 : 1;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 2, (const tide_tensor *[]){x, d->p}));
  a.kind = d->kind;
  a.dtype = x->dtype, a.dtype2 = d->p ? d->p->dtype : x->dtype;
  a.a = d->a, a.b = d->b, a.lo = d->lo, a.range = d->range;
  tide__random_limits(&a);
  a.numel = x->numel;
  memcpy(a.size, x->size, (size_t)x->ndim * sizeof *a.size);
  memcpy(a.stride[0], x->stride, (size_t)x->ndim * sizeof *a.size);
  if (d->kind == TIDE_PICK) operands = 1; /* a line of sums serves several elements */
  if (operands > 1) tide__stride_broadcast(a.stride[1], d->p, x->size, x->ndim);
  a.ndim = tide__collapse(a.size, a.stride, operands, x->ndim, true);
  a.flat = a.ndim == 1 && a.stride[0][0] == 1 && (operands == 1 || a.stride[1][0] == 1);
  tide__draw at;
  TIDE_TRY(tide__generator_take(&at, g, q.stream));
  a.seed = at.seed, a.offset = at.offset, a.state = at.state;
  tide_status status = TIDE_LAUNCH(&q, random, &a, (int)a.kind);
  if (status != TIDE_OK) tide__generator_untake(&at, g, q.stream);
  return status;
}

/* ---- the entries ---- */

/* A bound given as a float, for the integer form. */
static tide_status integer_bound(int64_t *out, double f) {
  if (!(f >= -9223372036854775808.0 && f < 9223372036854775808.0) || f != trunc(f))
    return fail_param("random", "bound", f, "an integer");
  *out = (int64_t)f;
  return TIDE_OK;
}

/* Complex numbers have two parts, between them the variance that is asked for; the mean is real. */
static tide_status draw_parts(tide_tensor *x, tide_random_kind kind, double a, double b, tide_generator *g) {
  TIDE_OWNED tide_tensor *parts = NULL;
  TIDE_TRY(tide_view_as_real(&parts, x));
  if (kind != TIDE_NORMAL) return tide_random(parts, kind, a, b, g);
  TIDE_TRY(tide_random(parts, kind, 0, b * 0.70710678118654752440, g));
  if (a == 0) return TIDE_OK;
  tide_operand in[2] = {{.tensor = x}, {.tensor = NULL, .number = tide_float(a)}};
  return tide_elementwise(NULL, TIDE_OP_add, in, NULL, x);
}

tide_status tide_random(tide_tensor *x, tide_random_kind kind, double a, double b, tide_generator *generator) {
  if ((unsigned)kind > TIDE_GEOMETRIC)
    return tide__fail(TIDE_ARGUMENT, "random: unknown kind, got %d, expected 0 to %d", (int)kind, TIDE_GEOMETRIC);
  if (kind == TIDE_RANDINT) {
    int64_t lo = 0, hi = 0;
    TIDE_TRY(integer_bound(&lo, a));
    TIDE_TRY(integer_bound(&hi, b));
    return tide_random_int(x, lo, hi, generator);
  }
  TIDE_TRY(begin(x, &generator, tide__random_names[kind]));
  if (tide__category(x->dtype) == 3 && (kind == TIDE_NORMAL || kind == TIDE_UNIFORM))
    return draw_parts(x, kind, a, b, generator);
  TIDE_TRY(check_dtype(x, kind != TIDE_BERNOULLI && kind != TIDE_GEOMETRIC, tide__random_names[kind]));
  TIDE_TRY(check_params(kind, a, b, (tide_dtype)x->dtype));
  draw d = {.kind = kind, .a = a, .b = b};
  return run(x, &d, generator);
}

/* The largest integer up to which the dtype holds every integer. */
static int64_t largest_exact(tide_dtype dtype) {
  switch (dtype) {
  case TIDE_BOOL: return 1;
  case TIDE_UINT8: return UINT8_MAX;
  case TIDE_INT8: return INT8_MAX;
  case TIDE_INT16: return INT16_MAX;
  case TIDE_INT32: return INT32_MAX;
  case TIDE_FLOAT16: return 1 << 11;
  case TIDE_BFLOAT16: return 1 << 8;
  case TIDE_FLOAT32: return 1 << 24;
  case TIDE_FLOAT64: return INT64_C(1) << 53;
  default: return INT64_MAX;
  }
}

/* The numbers of a floating dtype in lo to last are those from the new lo to the new last that it holds: what lies
 * between is rounded, and stays between. */
static tide_status representable(int64_t *lo, int64_t *last, tide_dtype dtype) {
  const uint64_t exact = (uint64_t)largest_exact(dtype);
  uint64_t low = *lo < 0 ? 0 - (uint64_t)*lo : (uint64_t)*lo, high = *last < 0 ? 0 - (uint64_t)*last : (uint64_t)*last;
  uint64_t below = 0, above = 0; /* the digits that do not fit */
  while (low >= exact) low >>= 1, below = below << 1 | 1;
  while (high >= exact) high >>= 1, above = above << 1 | 1;
  uint64_t up = (0 - (uint64_t)*lo) & below, down = (uint64_t)*last & above;
  if (up + down < up || up + down > (uint64_t)*last - (uint64_t)*lo)
    return tide__fail(TIDE_VALUE, "random: %s holds no number of the range, got %lld to %lld, expected a longer one",
                      tide_dtype_name(dtype), (long long)*lo, (long long)*last + 1);
  *lo = (int64_t)((uint64_t)*lo + up), *last = (int64_t)((uint64_t)*last - down);
  return TIDE_OK;
}

tide_status tide_random_int(tide_tensor *x, int64_t lo, int64_t hi, tide_generator *generator) {
  TIDE_TRY(begin(x, &generator, "random"));
  TIDE_TRY(check_dtype(x, false, "random"));
  if (lo >= hi)
    return tide__fail(TIDE_VALUE, "random: empty range, got %lld to %lld, expected the upper bound above the lower",
                      (long long)lo, (long long)hi);
  tide_dtype dtype = (tide_dtype)x->dtype;
  TIDE_TRY(tide__scalar_check(tide_int(hi - 1), dtype, "random"));
  bool low = lo < 0 && (dtype == TIDE_UINT8 || dtype == TIDE_BOOL), high = hi > 2 && dtype == TIDE_BOOL;
  if (low || high)
    return tide__fail(TIDE_VALUE, "random: bound does not fit, got %lld, expected one that %s can hold",
                      (long long)(low ? lo : hi - 1), tide_dtype_name(dtype));
  TIDE_TRY(tide__scalar_check(tide_int(lo), dtype, "random"));
  int64_t last = hi - 1;
  if (tide__category(dtype) == 2) TIDE_TRY(representable(&lo, &last, dtype));
  draw d = {.kind = TIDE_RANDINT, .lo = lo, .range = (uint64_t)last - (uint64_t)lo + 1};
  return run(x, &d, generator);
}

tide_status tide_random_bits(tide_tensor *x, tide_generator *generator) {
  TIDE_TRY(begin(x, &generator, "random"));
  TIDE_TRY(check_dtype(x, false, "random"));
  draw d = {.kind = TIDE_RANDINT, .lo = 0, .range = (uint64_t)largest_exact((tide_dtype)x->dtype) + 1};
  return run(x, &d, generator);
}

/* By a parameter for each element; `verify`: what it has to be. */
static tide_status draw_each(tide_tensor *x, tide_random_kind kind, const tide_tensor *p, const char *name, int verify,
                             tide_generator *generator) {
  const char *what = tide__random_names[kind];
  TIDE_TRY(begin(x, &generator, what));
  TIDE_TRY(tide__check(p, what, name));
  TIDE_TRY(check_dtype(x, kind == TIDE_POISSON, what));
  TIDE_TRY(check_dtype(p, true, what));
  TIDE_TRY(tide__operand_device(x, "x", p, name, what));
  if (!tide__broadcasts_to(p, x->size, x->ndim))
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of %s, got %s, expected one that broadcasts to %s", what, name,
                      tide__shape_text(p->size, p->ndim), tide__shape_text(x->size, x->ndim));
  if (x->numel) TIDE_TRY(tide__verify(p, verify, what));
  draw d = {.kind = kind, .p = p};
  TIDE_OWNED tide_tensor *apart = NULL;
  if (tide__tensor_overlaps(x, p)) {
    TIDE_TRY(tide_clone(&apart, p));
    d.p = apart;
  }
  return run(x, &d, generator);
}

tide_status tide_bernoulli(tide_tensor *x, const tide_tensor *p, tide_generator *generator) {
  return draw_each(x, TIDE_BERNOULLI, p, "p", TIDE_VERIFY_PROBABILITY, generator);
}

tide_status tide_poisson(tide_tensor *x, const tide_tensor *rate, tide_generator *generator) {
  return draw_each(x, TIDE_POISSON, rate, "the rates", TIDE_VERIFY_RATE, generator);
}

tide_status tide_pick(tide_tensor **out, const tide_tensor *sums, int64_t n, tide_generator *generator) {
  static const char *what = "multinomial";
  TIDE_OWNED tide_tensor *lines = NULL, *x = NULL;
  int64_t size[TIDE_MAX_DIMS];
  TIDE_TRY(tide__check(sums, what, "the sums"));
  if (sums->dtype != TIDE_FLOAT64)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the sums, got %s, expected float64", what,
                      tide_dtype_name((tide_dtype)sums->dtype));
  if (sums->ndim == 0 || sums->size[sums->ndim - 1] == 0 || n < 0)
    return tide__fail(TIDE_SHAPE, "%s: nothing to pick from, got sums of %s and %lld picks, expected lines of sums",
                      what, tide__shape_text(sums->size, sums->ndim), (long long)n);
  memcpy(size, sums->size, sizeof size);
  size[sums->ndim - 1] = n;
  draw d = {.kind = TIDE_PICK, .lo = tide_get_index_base(), .range = (uint64_t)sums->size[sums->ndim - 1]};
  d.a = (double)n;
  TIDE_TRY(tide__as_contiguous(&lines, sums, TIDE_FLOAT64));
  d.p = lines;
  TIDE_TRY(tide__tensor_new(&x, size, sums->ndim, TIDE_INT64, sums->storage->device));
  TIDE_TRY(begin(x, &generator, what));
  TIDE_TRY(run(x, &d, generator));
  return tide__owned_give(out, &x);
}

/* ---- normals of a mean and a deviation for each element ---- */

static tide_status check_normal(const tide_operand *in, const char *name) {
  if (in->tensor) {
    TIDE_TRY(tide__check(in->tensor, "normal", name));
    return check_dtype(in->tensor, true, "normal");
  }
  if (in->number.kind != 'C') return TIDE_OK;
  return tide__fail(TIDE_DTYPE, "normal: %s is complex, expected a real number", name);
}

static double real_value(tide_scalar s) { return s.kind == 'F' ? s.re : (double)s.i; }

tide_status tide_normal(tide_tensor **out, const tide_operand *mean, const tide_operand *deviation,
                        tide_generator *generator) {
  TIDE_GIVEN("normal", mean);
  TIDE_GIVEN("normal", deviation);
  TIDE_GIVEN("normal", out);
  static const char *names[2] = {"the mean", "the deviation"};
  tide_operand in[2] = {*mean, *deviation};
  const tide_tensor *one = in[0].tensor ? in[0].tensor : in[1].tensor;
  tide_tensor *x;
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0;
  tide__types types;
  for (int k = 0; k < 2; k++) TIDE_TRY(check_normal(&in[k], names[k]));
  if (!one) return tide__fail(TIDE_ARGUMENT, "normal: got two numbers, expected a tensor among them");
  for (int k = 0; k < 2; k++) {
    if (!in[k].tensor) continue;
    TIDE_TRY(tide__operand_device(one, names[0], in[k].tensor, names[k], "normal"));
    if (!tide__size_broadcast(size, &ndim, in[k].tensor))
      return tide__fail(TIDE_SHAPE, "normal: the deviation does not broadcast to the mean, got %s, expected like %s",
                        tide__shape_text(in[k].tensor->size, in[k].tensor->ndim), tide__shape_text(size, ndim));
  }
  double number = in[1].tensor ? 1 : real_value(in[1].number);
  if (!(number >= 0)) return fail_param("normal", "standard deviation", number, "at least 0");
  if (in[1].tensor) TIDE_TRY(tide__verify(in[1].tensor, TIDE_VERIFY_RATE, "normal"));
  TIDE_TRY(tide__op_types(&types, TIDE_OP_add, in, NULL));
  TIDE_TRY(tide__tensor_new(&x, size, ndim, types.result, one->storage->device));
  tide_status status = tide_random(x, TIDE_NORMAL, 0, number, generator);
  for (int k = 1; k >= 0 && status == TIDE_OK; k--) {
    tide_operand with[2] = {{.tensor = x}, in[k]};
    if (k == 0 || in[k].tensor) status = tide_elementwise(NULL, k ? TIDE_OP_mul : TIDE_OP_add, with, NULL, x);
  }
  return tide__hand_out(out, x, status);
}

/* Fills x, int64 and contiguous, with a permutation. */
static tide_status permute(const tide_tensor *x, tide_generator *g) {
  if (x->numel == 0) return TIDE_OK;
  tide__queue q;
  tide_randperm_args a;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 1, &x));
  a.n = x->numel, a.index_base = tide_get_index_base();
  tide__draw at;
  TIDE_TRY(tide__generator_take(&at, g, q.stream));
  a.seed = at.seed, a.offset = at.offset, a.state = at.state;
  tide_status status = TIDE_LAUNCH(&q, randperm, &a, 0);
  if (status != TIDE_OK) tide__generator_untake(&at, g, q.stream);
  return status;
}

static tide_status check_randperm(int64_t n, tide_dtype dtype) {
  if (n < 0) return tide__fail(TIDE_VALUE, "randperm: negative length, got %lld, expected at least 0", (long long)n);
  if ((unsigned)dtype >= TIDE_DTYPE_COUNT || dtype == TIDE_BOOL || tide__category(dtype) == 3)
    return tide__fail_dtype("randperm", dtype, "a real dtype");
  int64_t most = largest_exact(dtype), last = n ? n - 1 + tide_get_index_base() : 0;
  if (last <= most) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "randperm: %s does not hold every number, got up to %lld, expected at most %lld",
                    tide_dtype_name(dtype), (long long)last, (long long)most);
}

tide_status tide_randperm(tide_tensor **out, int64_t n, const tide_options *options, tide_generator *generator) {
  TIDE_GIVEN("randperm", out);
  tide_options o;
  TIDE_OWNED tide_tensor *x = NULL;
  TIDE_TRY(tide__options_read(&o, options, "randperm"));
  tide_dtype dtype = o.dtype == TIDE_DTYPE_NONE ? TIDE_INT64 : o.dtype;
  TIDE_TRY(check_randperm(n, dtype));
  o.dtype = TIDE_INT64;
  TIDE_TRY(tide_empty(&x, &n, 1, &o));
  TIDE_TRY(begin(x, &generator, "randperm"));
  TIDE_TRY(permute(x, generator));
  o.dtype = dtype, o.device = x->storage->device;
  return dtype == TIDE_INT64 ? tide__owned_give(out, &x) : tide_to(out, x, &o, false, false);
}
