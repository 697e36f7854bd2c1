/* tensor_reduce_test.c: reductions, indexing, products, random numbers and pictures on the CPU, against plain loops.
 *
 * Reductions are walked over every subset of the dims of tensors in every layout; products over every combination of
 * layouts of both operands and of the destination. The last test fails one allocation after the other and looks for
 * leaks. */
#include "tensor_test.h"

/* ---- reductions ---- */

typedef struct folded {
  double value;
  int64_t position;
} folded;

/* One result by the definition, from the elements in row-major order of the reduced dims. */
static folded fold(tide_reduction op, const double *v, int64_t n, double param) {
  folded f = {op == TIDE_PROD || op == TIDE_ALL, 0};
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) mean += v[i] / (double)n;
  for (int64_t i = 0; i < n; i++) {
    bool first = i == 0;
    squares += (v[i] - mean) * (v[i] - mean);
    switch (op) {
    case TIDE_SUM: f.value += v[i]; break;
    case TIDE_NANSUM: f.value += isnan(v[i]) ? 0 : v[i]; break;
    case TIDE_PROD: f.value *= v[i]; break;
    case TIDE_ALL: f.value = f.value && v[i] != 0; break;
    case TIDE_ANY: f.value = f.value || v[i] != 0; break;
    case TIDE_COUNT_NONZERO: f.value += v[i] != 0; break;
    case TIDE_NORM: f.value += pow(fabs(v[i]), param); break;
    case TIDE_LOGSUMEXP: f.value += exp(v[i]); break;
    case TIDE_MAX:
    case TIDE_ARGMAX:
      if (first || v[i] > f.value || (isnan(v[i]) && !isnan(f.value))) f = (folded){v[i], i};
      break;
    case TIDE_MIN:
    case TIDE_ARGMIN:
      if (first || v[i] < f.value || (isnan(v[i]) && !isnan(f.value))) f = (folded){v[i], i};
      break;
    default: break;
    }
  }
  if (op == TIDE_MEAN) f.value = n ? mean : NAN;
  if (op == TIDE_LOGSUMEXP) f.value = log(f.value);
  if (op == TIDE_NORM) f.value = pow(f.value, 1 / param);
  if (op == TIDE_VAR || op == TIDE_STD) f.value = squares / fmax(0, (double)n - param);
  if (op == TIDE_STD) f.value = sqrt(f.value);
  if (op == TIDE_ARGMAX || op == TIDE_ARGMIN) f.value = (double)f.position;
  return f;
}

/* The elements of x that meet in result `flat`, where dims of `mask` are reduced. */
static int64_t gather_group(double *v, const tide_tensor *x, unsigned mask, int64_t flat) {
  int64_t index[TIDE_MAX_DIMS] = {0}, inner = 1, n = 0;
  for (int d = x->ndim - 1; d >= 0; d--) {
    if (mask & 1u << d) {
      inner *= x->size[d];
      continue;
    }
    index[d] = flat % x->size[d];
    flat /= x->size[d];
  }
  for (int64_t i = 0; i < inner; i++) {
    int64_t rest = i;
    for (int d = x->ndim - 1; d >= 0; d--) {
      if (!(mask & 1u << d)) continue;
      index[d] = rest % x->size[d];
      rest /= x->size[d];
    }
    v[n++] = at(x, index);
  }
  return n;
}

static void check_reduction(tide_reduction op, const tide_tensor *x, unsigned mask, bool keepdim) {
  int dims[3], n = 0;
  for (int d = 0; d < x->ndim; d++)
    if (mask & 1u << d) dims[n++] = d;
  bool arg = op == TIDE_ARGMAX || op == TIDE_ARGMIN;
  if (n == 0 || (arg && n > 1 && n < x->ndim)) return;
  tide_reduce_options o = {arg && n == x->ndim ? NULL : dims, n, keepdim, TIDE_DTYPE_NONE, op == TIDE_NORM ? 3 : 1};
  tide_tensor *r = NULL;
  OK(tide_reduce(&r, op, x, &o, NULL));
  if (!r) return;
  CHECK(r->ndim == (keepdim ? x->ndim : x->ndim - n));
  double v[256], tolerance = r->dtype == TIDE_FLOAT16 ? 5e-3 : r->dtype == TIDE_FLOAT32 ? 1e-5 : 1e-12;
  bool same = true;
  for (int64_t i = 0; i < r->numel && same; i++) {
    int64_t count = gather_group(v, x, mask, i);
    double expected = fold(op, v, count, o.param).value, got = flat_at(r, i);
    same = (isinf(got) && fabs(expected) > 60000) || close_to(got, expected, tolerance);
    if (!same)
      fprintf(stderr, "reduction %d mask %u dtype %d: got %g, expected %g\n", op, mask, x->dtype, got, expected);
  }
  CHECK(same);
  tide_tensor_release(r);
}

static void test_reductions(void) {
  static const tide_dtype dtypes[] = {TIDE_BOOL,    TIDE_UINT8,   TIDE_INT32,  TIDE_INT64,
                                      TIDE_FLOAT16, TIDE_FLOAT32, TIDE_FLOAT64};
  static const int64_t sizes[][3] = {{3, 4, 5}, {1, 6, 2}};
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (int layout = 0; layout < LAYOUTS; layout++)
      for (int s = 0; s < 2; s++) {
        tide_tensor *x = laid_out(sizes[s], 3, dtypes[t], layout, 4);
        bool floating = tide_dtype_kind(dtypes[t]) == 'F';
        for (int op = 0; op < TIDE_REDUCTION_COUNT; op++) {
          if (!floating && (op == TIDE_MEAN || op == TIDE_NORM || op == TIDE_VAR || op == TIDE_STD)) continue;
          if (op == TIDE_PROD && dtypes[t] != TIDE_FLOAT64) continue; /* the reference does not wrap or round */
          for (unsigned mask = 1; mask < 8; mask++) check_reduction((tide_reduction)op, x, mask, mask & 1);
        }
        tide_tensor_release(x);
      }
}

static int one_based(void) { return 1; }

static double reduced(tide_reduction op, const tide_tensor *x, tide_dtype dtype, tide_dtype *result) {
  tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  o.dtype = dtype;
  tide_tensor *r = NULL;
  OK(tide_reduce(&r, op, x, &o, NULL));
  double v = r ? flat_at(r, 0) : NAN;
  if (r && result) *result = (tide_dtype)r->dtype;
  tide_tensor_release(r);
  return v;
}

static void test_reduction_rules(void) {
  tide_tensor *empty = made((int64_t[]){0, 3}, 2, TIDE_FLOAT32), *r = NULL, *i = NULL,
              *x = laid_out((int64_t[]){4, 5}, 2, TIDE_FLOAT32, 1, 0);
  tide_dtype d = TIDE_DTYPE_NONE;
  CHECK(reduced(TIDE_SUM, empty, TIDE_DTYPE_NONE, NULL) == 0 && reduced(TIDE_PROD, empty, TIDE_DTYPE_NONE, NULL) == 1);
  CHECK(reduced(TIDE_ALL, empty, TIDE_DTYPE_NONE, &d) == 1 && d == TIDE_BOOL);
  CHECK(reduced(TIDE_ANY, empty, TIDE_DTYPE_NONE, NULL) == 0 &&
        isnan(reduced(TIDE_MEAN, empty, TIDE_DTYPE_NONE, NULL)));
  FAILS(TIDE_VALUE, tide_reduce(&r, TIDE_MAX, empty, NULL, NULL));
  CHECK(strstr(tide_error_get()->message, "dim 0") != NULL);
  tide_reduce_options rows = {(int[]){1}, 1, false, TIDE_DTYPE_NONE, 0};
  OK(tide_reduce(&r, TIDE_MAX, empty, &rows, NULL));
  CHECK(r->numel == 0 && r->ndim == 1);
  tide_tensor_release(r);
  FAILS(TIDE_DTYPE, tide_reduce(&r, TIDE_MEAN, (i = counted(5, TIDE_INT32)), NULL, NULL));
  CHECK(reduced(TIDE_SUM, i, TIDE_DTYPE_NONE, &d) == 10 && d == TIDE_INT64);
  CHECK(reduced(TIDE_MEAN, i, TIDE_FLOAT64, &d) == 2 && d == TIDE_FLOAT64);
  CHECK(reduced(TIDE_SUM, i, TIDE_FLOAT32, &d) == 10 && d == TIDE_FLOAT32);
  CHECK(reduced(TIDE_SUM, i, TIDE_BOOL, &d) == 1 && d == TIDE_BOOL);
  CHECK(reduced(TIDE_SUM, i, TIDE_COMPLEX64, &d) == 10 && d == TIDE_COMPLEX64);
  tide_tensor_release(i);
  FAILS(TIDE_ARGUMENT,
        tide_reduce(&r, TIDE_SUM, x, &(tide_reduce_options){(int[]){0, 0}, 2, false, TIDE_DTYPE_NONE, 0}, NULL));
  FAILS(TIDE_INDEX,
        tide_reduce(&r, TIDE_SUM, x, &(tide_reduce_options){(int[]){2}, 1, false, TIDE_DTYPE_NONE, 0}, NULL));
  FAILS(TIDE_ARGUMENT, tide_reduce_index(&r, NULL, TIDE_MIN, x, 0, true));
  FAILS(TIDE_ARGUMENT, tide_reduce_index(NULL, &i, TIDE_MIN, x, 0, true));
  OK(tide_reduce_index(&r, &i, TIDE_MIN, x, 0, true));
  tide_tensor *m = NULL, *v = NULL;
  CHECK(r->ndim == 2 && i->dtype == TIDE_INT64 && r->size[0] == 1);
  for (int64_t k = 0; k < 5; k++) CHECK(at(x, (int64_t[]){(int64_t)flat_at(i, k), k}) == flat_at(r, k));
  tide_tensor_release(r), tide_tensor_release(i);
  tide_reduce_options one = {(int[]){0}, 1, false, TIDE_DTYPE_NONE, 1};
  FAILS(TIDE_ARGUMENT, tide_var_mean(&v, NULL, x, &one));
  OK(tide_var_mean(&v, &m, x, &one));
  double g[4];
  gather_group(g, x, 1, 2);
  CHECK(close_to(flat_at(m, 2), fold(TIDE_MEAN, g, 4, 0).value, 1e-6) &&
        close_to(flat_at(v, 2), fold(TIDE_VAR, g, 4, 1).value, 1e-6));
  tide_tensor *first = NULL;
  OK(tide_select(&first, x, 0, 0));
  OK(tide_reduce(NULL, TIDE_SUM, x, &one, first)); /* into a part of the input */
  CHECK(close_to(flat_at(first, 2), g[0] + g[1] + g[2] + g[3], 1e-6));
  FAILS(TIDE_SHAPE, tide_reduce(NULL, TIDE_SUM, x, NULL, first));
  bool same = false;
  OK(tide_equal(&same, x, x));
  CHECK(same);
  OK(tide_equal(&same, x, first));
  CHECK(!same);
  tide_index_base_set(one_based);
  CHECK(reduced(TIDE_ARGMAX, v, TIDE_DTYPE_NONE, NULL) >= 1);
  tide_index_base_set(NULL);
  tide_tensor *all[] = {empty, x, m, v, first};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) tide_tensor_release(all[k]);
}

static void test_nan_and_half(void) {
  float values[6] = {1, NAN, -2, NAN, INFINITY, 0};
  tide_options o = {TIDE_FLOAT32, TIDE_CPU, false};
  tide_tensor *x = NULL, *half = NULL, *small = NULL;
  OK(tide_from_data(&x, values, (int64_t[]){6}, 1, &o));
  CHECK(isnan(reduced(TIDE_MAX, x, TIDE_DTYPE_NONE, NULL)) && reduced(TIDE_ARGMIN, x, TIDE_DTYPE_NONE, NULL) == 1);
  CHECK(isinf(reduced(TIDE_NANSUM, x, TIDE_DTYPE_NONE, NULL)) &&
        reduced(TIDE_COUNT_NONZERO, x, TIDE_DTYPE_NONE, NULL) == 5);
  OK(tide_full(&half, (int64_t[]){100000}, 1, tide_float(0.25), &(tide_options){TIDE_FLOAT16, TIDE_CPU, false}));
  CHECK(reduced(TIDE_MEAN, half, TIDE_DTYPE_NONE, NULL) == 0.25 &&
        reduced(TIDE_SUM, half, TIDE_FLOAT32, NULL) == 25000);
  CHECK(reduced(TIDE_COUNT_NONZERO, half, TIDE_DTYPE_NONE, NULL) == 100000);
  OK(tide_full(&small, (int64_t[]){3000000}, 1, tide_float(0.1), &o));
  CHECK(close_to(reduced(TIDE_SUM, small, TIDE_DTYPE_NONE, NULL), 300000.0 * (double)0.1f / 0.1, 1e-6));
  tide_tensor_release(x), tide_tensor_release(half), tide_tensor_release(small);
}

/* ---- indexing ---- */

static tide_tensor *index_of(const int64_t *values, const int64_t *size, int ndim, tide_dtype dtype) {
  tide_tensor *x = NULL, *y = NULL;
  OK(tide_from_data(&x, values, size, ndim, &(tide_options){TIDE_INT64, TIDE_CPU, false}));
  OK(tide_to(&y, x, &(tide_options){dtype, TIDE_CPU, false}, false, false));
  tide_tensor_release(x);
  return y;
}

static void test_index(void) {
  static const int64_t picks[4] = {2, -1, 0, 2}, pick_size[2] = {2, 2}, size[3] = {2, 4, 3};
  for (int layout = 0; layout < LAYOUTS; layout++) {
    tide_tensor *x = laid_out(size, 3, TIDE_FLOAT32, layout, 0);
    tide_tensor *index = index_of(picks, pick_size, 2, layout % 2 ? TIDE_INT32 : TIDE_INT64), *r = NULL;
    for (int dim = 0; dim < 3; dim++) {
      if (dim == 0) continue; /* index 2 is too large there: tested below */
      OK(tide_index_get(&r, x, dim, index));
      CHECK(r->ndim == 4);
      bool same = true;
      for (int64_t i = 0; i < r->numel; i++) {
        int64_t at_r[TIDE_MAX_DIMS], at_x[TIDE_MAX_DIMS] = {0}, k = 0;
        unravel(at_r, r, i);
        int64_t pick = picks[at_r[dim] * 2 + at_r[dim + 1]];
        for (int d = 0; d < 4; d++) {
          if (d == dim) at_x[k++] = pick < 0 ? pick + size[dim] : pick;
          if (d != dim && d != dim + 1) at_x[k++] = at_r[d];
        }
        same &= at(r, at_r) == at(x, at_x);
      }
      CHECK(same);
      tide_tensor_release(r);
    }
    FAILS(TIDE_INDEX, tide_index_get(&r, x, 0, index));
    tide_tensor *column = NULL, *value = counted_as((int64_t[]){2, 1}, 2, TIDE_INT32), *two = NULL;
    OK(tide_narrow(&two, index, 0, 0, 1)); /* {2, -1} as [1, 2] */
    OK(tide_reshape(&column, two, (int64_t[]){2}, 1));
    OK(tide_index_set(x, 1, column, &(tide_operand){.tensor = value})); /* x[:, {2, 3}] = 0 and 1 */
    CHECK(at(x, (int64_t[]){1, 2, 1}) == 0 && at(x, (int64_t[]){0, 3, 2}) == 1);
    OK(tide_index_set(x, -1, index, &(tide_operand){.number = tide_float(9.5)}));
    CHECK(at(x, (int64_t[]){1, 3, 0}) == 9.5 && at(x, (int64_t[]){0, 0, 2}) == 9.5 && at(x, (int64_t[]){0, 2, 1}) == 0);
    FAILS(TIDE_SHAPE, tide_index_set(x, 1, column, &(tide_operand){.tensor = x}));
    FAILS(TIDE_DTYPE, tide_index_get(&r, x, 0, x));
    tide_tensor *all[] = {x, index, column, value, two};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tide_tensor_release(all[k]);
  }
}

/* Positions of what is not 0, from each base: none, every second one, two of three. */
static void test_nonzero(void) {
  static const int64_t sizes[][3] = {{7}, {1}, {3, 5}, {5, 1}, {1, 5}, {2, 3, 4}, {2, 1, 3}};
  static const int dims[] = {1, 1, 2, 2, 2, 3, 3};
  for (int i = 0; i < 2 * 7 * 3; i++) {
    const int64_t *size = sizes[i % 7];
    int ndim = dims[i % 7], base = i / 7 % 2, step = i / 14 + 1;
    tide_tensor *x = counted_as(size, ndim, TIDE_INT64), *flags = NULL, *places = NULL;
    tide_index_base_set(base ? one_based : NULL);
    OK(tide_elementwise(&flags, TIDE_OP_remainder, (tide_operand[]){{.tensor = x}, {.number = tide_int(step)}}, NULL,
                        NULL));
    OK(tide_nonzero(&places, flags));
    int64_t row = 0;
    for (int64_t k = 0; k < flags->numel; k++) {
      if (flat_at(flags, k) == 0) continue;
      int64_t rest = k;
      for (int d = ndim - 1; d >= 0; rest /= size[d--])
        CHECK(at(places, (int64_t[]){row, d}) == (double)(rest % size[d] + base));
      row++;
    }
    CHECK(places->size[0] == row && places->size[1] == ndim);
    tide_tensor_release(x), tide_tensor_release(flags), tide_tensor_release(places);
  }
  tide_index_base_set(NULL);
}

static void test_mask(void) {
  static const int64_t size[2] = {3, 5};
  for (int layout = 0; layout < LAYOUTS; layout++) {
    tide_tensor *x = laid_out(size, 2, TIDE_FLOAT32, layout, 0), *mask = NULL, *r = NULL, *n = NULL;
    tide_operand in[2] = {{.tensor = x}, {.number = tide_int(0)}};
    OK(tide_elementwise(&mask, TIDE_OP_gt, in, NULL, NULL));
    OK(tide_mask_get(&r, x, mask));
    OK(tide_nonzero(&n, mask));
    int64_t k = 0;
    for (int64_t i = 0; i < 15; i++) {
      if (flat_at(x, i) <= 0) continue;
      CHECK(flat_at(r, k) == flat_at(x, i) && at(n, (int64_t[]){k, 0}) == (double)(i / 5) &&
            at(n, (int64_t[]){k, 1}) == (double)(i % 5));
      k++;
    }
    CHECK(r->numel == k && n->size[0] == k && n->size[1] == 2);
    tide_tensor *line = counted(k, TIDE_FLOAT64);
    OK(tide_mask_set(x, mask, &(tide_operand){.tensor = line}));
    tide_tensor_release(r), r = NULL;
    OK(tide_mask_get(&r, x, mask));
    for (int64_t i = 0; i < k; i++) CHECK(flat_at(r, i) == (double)i);
    OK(tide_mask_set(x, mask, &(tide_operand){.number = tide_int(-3)}));
    for (int64_t i = 0; i < 15; i++) CHECK(flat_at(x, i) < 0);
    tide_tensor *row = counted(5, TIDE_FLOAT32);
    if (k != 5) {
      OK(tide_mask_set(x, mask, &(tide_operand){.tensor = row}));
      CHECK(flat_at(mask, 7) == 0 || flat_at(x, 7) == 2);
    }
    FAILS(TIDE_DTYPE, tide_mask_get(&r, x, x));
    FAILS(TIDE_SHAPE, tide_mask_get(&r, row, mask));
    tide_tensor *all[] = {x, mask, r, n, line, row};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tide_tensor_release(all[i]);
  }
}

static void test_triangles(void) {
  tide_tensor *x = laid_out((int64_t[]){2, 3, 4}, 3, TIDE_INT16, 1, 0), *r = NULL;
  for (int64_t k = -4; k <= 5; k++)
    for (int upper = 0; upper < 2; upper++) {
      OK(tide_tril(&r, x, k, upper));
      bool same = r->dtype == TIDE_INT16;
      for (int64_t i = 0; i < 24; i++) {
        int64_t row = i / 4 % 3, column = i % 4;
        bool kept = upper ? column - row >= k : column - row <= k;
        same &= flat_at(r, i) == (kept ? flat_at(x, i) : 0);
      }
      CHECK(same);
      tide_tensor_release(r);
    }
  tide_tensor_release(x);
}

/* ---- products ---- */

/* a as [batch..., n, k] for reading: vectors get their dim of 1. */
static double product_at(const tide_tensor *a, const tide_tensor *b, const int64_t *index, int ndim, int64_t k) {
  bool va = a->ndim == 1, vb = b->ndim == 1;
  int batch = ndim - !va - !vb;
  int64_t at_a[TIDE_MAX_DIMS], at_b[TIDE_MAX_DIMS], ia = 0, ib = 0;
  for (int d = 0; d < batch; d++) {
    int da = d - (batch - (a->ndim - 2)), db = d - (batch - (b->ndim - 2));
    if (!va && da >= 0) at_a[ia++] = a->size[da] == 1 ? 0 : index[d];
    if (!vb && db >= 0) at_b[ib++] = b->size[db] == 1 ? 0 : index[d];
  }
  if (!va) at_a[ia++] = index[batch];
  at_a[ia] = k;
  at_b[ib++] = k;
  if (!vb) at_b[ib] = index[ndim - 1];
  return at(a, at_a) * at(b, at_b);
}

static void check_product(const tide_tensor *a, const tide_tensor *b, const tide_tensor *r) {
  int64_t inner = a->size[a->ndim - 1];
  bool same = true;
  for (int64_t i = 0; i < r->numel && same; i++) {
    int64_t index[TIDE_MAX_DIMS];
    double sum = 0;
    unravel(index, r, i);
    for (int64_t k = 0; k < inner; k++) sum += product_at(a, b, index, r->ndim, k);
    same = close_to(at(r, index), sum, 1e-4);
  }
  CHECK(same);
}

static void test_matmul(void) {
  static const struct {
    int64_t a[4], b[4], r[4];
    int na, nb, nr;
  } cases[] = {{{5}, {5}, {0}, 1, 1, 0},
               {{3, 5}, {5}, {3}, 2, 1, 1},
               {{5}, {5, 2}, {2}, 1, 2, 1},
               {{3, 5}, {5, 4}, {3, 4}, 2, 2, 2},
               {{6, 3, 5}, {5, 4}, {6, 3, 4}, 3, 2, 3},
               {{3, 5}, {6, 5, 4}, {6, 3, 4}, 2, 3, 3},
               {{2, 1, 3, 5}, {3, 5, 4}, {2, 3, 3, 4}, 4, 3, 4},
               {{2, 1, 3, 5}, {1, 3, 5, 4}, {2, 3, 3, 4}, 4, 4, 4},
               {{2, 3, 1, 5}, {5}, {2, 3, 1}, 4, 1, 3},
               {{5}, {2, 5, 3}, {2, 3}, 1, 3, 2},
               {{3, 0}, {0, 4}, {3, 4}, 2, 2, 2},
               {{0, 5}, {5, 4}, {0, 4}, 2, 2, 2}};
  static const tide_dtype dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_INT32};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (size_t t = 0; t < 3; t++)
      for (int layout = 0; layout < LAYOUTS * LAYOUTS; layout++) {
        tide_tensor *a = laid_out(cases[c].a, cases[c].na, dtypes[t], layout % LAYOUTS, 1), *r = NULL;
        tide_tensor *b = laid_out(cases[c].b, cases[c].nb, dtypes[t], layout / LAYOUTS, 4);
        OK(tide_matmul(&r, a, b, NULL));
        CHECK(r && r->ndim == cases[c].nr && memcmp(r->size, cases[c].r, sizeof(int64_t) * (size_t)r->ndim) == 0);
        if (r) check_product(a, b, r);
        tide_tensor *into = laid_out(cases[c].r, cases[c].nr, dtypes[t], (layout + 1) % LAYOUTS, 0);
        OK(tide_matmul(NULL, a, b, into));
        check_product(a, b, into);
        tide_tensor_release(a), tide_tensor_release(b), tide_tensor_release(r), tide_tensor_release(into);
      }
}

static void test_addmm(void) {
  tide_tensor *a = laid_out((int64_t[]){3, 5}, 2, TIDE_FLOAT32, 1, 0),
              *b = laid_out((int64_t[]){5, 4}, 2, TIDE_FLOAT32, 2, 1);
  tide_tensor *c = laid_out((int64_t[]){4}, 1, TIDE_FLOAT32, 2, 2), *r = NULL, *p = NULL, *square = NULL, *row = NULL;
  OK(tide_addmm(&r, c, a, b, 2, 0.5, NULL));
  OK(tide_mm(&p, a, b, NULL));
  for (int64_t i = 0; i < 12; i++) CHECK(close_to(flat_at(r, i), 2 * flat_at(c, i % 4) + 0.5 * flat_at(p, i), 1e-5));
  OK(tide_fill(r, tide_float(NAN)));
  OK(tide_addmm(NULL, r, a, b, 0, 1, r)); /* what r holds is not read */
  for (int64_t i = 0; i < 12; i++) CHECK(close_to(flat_at(r, i), flat_at(p, i), 1e-5));
  OK(tide_addmm(NULL, r, a, b, 1, 1, r));
  for (int64_t i = 0; i < 12; i++) CHECK(close_to(flat_at(r, i), 2 * flat_at(p, i), 1e-5));
  square = laid_out((int64_t[]){4, 4}, 2, TIDE_FLOAT64, 0, 0);
  tide_tensor *copy = NULL;
  OK(tide_clone(&copy, square));
  OK(tide_matmul(NULL, square, square, square)); /* the destination is an operand */
  check_product(copy, copy, square);
  OK(tide_dot(&row, c, c, NULL));
  CHECK(row->ndim == 0);
  tide_tensor *v = NULL;
  FAILS(TIDE_SHAPE, tide_mm(&v, a, a, NULL));
  FAILS(TIDE_SHAPE, tide_mm(&v, a, c, NULL));
  FAILS(TIDE_SHAPE, tide_matmul(&v, row, a, NULL));
  FAILS(TIDE_DTYPE, tide_matmul(&v, square, b, NULL));
  FAILS(TIDE_SHAPE, tide_addmm(&v, b, a, b, 1, 1, NULL));
  FAILS(TIDE_SHAPE, tide_matmul(NULL, a, b, square));
  tide_tensor *all[] = {a, b, c, r, p, square, row, copy};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) tide_tensor_release(all[k]);
}

/* ---- random numbers ---- */

static void test_philox(void) {
  /* The known-answer vectors of Random123 for philox4x32-10. */
  static const uint32_t rows[3][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                       {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
                                        0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (int i = 0; i < 3; i++) {
    const uint32_t *r = rows[i];
    tide_philox p = tide_philox4x32_10(r[0], r[1], r[2], r[3], r[4], r[5]);
    CHECK(memcmp(p.v, r + 6, sizeof p.v) == 0);
  }
}

static void test_random(void) {
  static const int64_t size[2] = {7, 9};
  static const tide_dtype dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_FLOAT16};
  for (int t = 0; t < 3; t++)
    for (int kind = 0; kind <= TIDE_GEOMETRIC; kind++) {
      tide_tensor *first = NULL;
      for (int layout = 0; layout < LAYOUTS; layout++) { /* the same numbers in every layout */
        tide_tensor *x = laid_out(size, 2, dtypes[t], layout, 0);
        tide_manual_seed(123);
        OK(tide_random(x, (tide_random_kind)kind, kind == TIDE_RANDINT ? 0 : 0.5, kind == TIDE_RANDINT ? 10 : 2, NULL));
        bool same = true;
        for (int64_t i = 0; first && i < 63; i++) same &= flat_at(x, i) == flat_at(first, i);
        CHECK(same);
        if (first)
          tide_tensor_release(x);
        else
          first = x;
      }
      tide_tensor_release(first);
    }
  tide_generator *g = NULL;
  OK(tide_generator_default(&g, TIDE_CPU));
  CHECK(tide_generator_get_seed(g) == 123 && tide_generator_get_offset(g) == 4);
  OK(tide_generator_new(&g, TIDE_CPU));
  tide_generator_seed(g, 1);
  tide_tensor *x = made((int64_t[]){1000}, 1, TIDE_FLOAT32), *p = made((int64_t[]){1000}, 1, TIDE_UINT8), *perm = NULL;
  OK(tide_random(x, TIDE_UNIFORM, 2, 3, g));
  for (int64_t i = 0; i < 1000; i++) CHECK(flat_at(x, i) >= 2 && flat_at(x, i) < 3);
  OK(tide_random_bits(p, g));
  OK(tide_random_int(x, -3, 3, g));
  for (int64_t i = 0; i < 1000; i++) CHECK(flat_at(x, i) >= -3 && flat_at(x, i) < 3);
  OK(tide_full(&perm, (int64_t[]){1000}, 1, tide_float(0.25), NULL));
  OK(tide_bernoulli(p, perm, g));
  double sum = reduced(TIDE_SUM, p, TIDE_DTYPE_NONE, NULL);
  CHECK(sum > 180 && sum < 320);
  tide_tensor_release(perm);
  OK(tide_randperm(&perm, 1000, &(tide_options){TIDE_INT16, TIDE_CPU, false}, g));
  bool seen[1000] = {false};
  for (int64_t i = 0; i < 1000; i++) seen[(int64_t)flat_at(perm, i)] = true;
  for (int i = 0; i < 1000; i++) CHECK(seen[i]);
  CHECK(tide_generator_get_offset(g) == 20);
  FAILS(TIDE_VALUE, tide_generator_set_offset(g, 3));
  FAILS(TIDE_VALUE, tide_random(x, TIDE_UNIFORM, 1, 0, g));
  FAILS(TIDE_VALUE, tide_random_int(p, 0, 300, g));
  FAILS(TIDE_VALUE, tide_random_int(x, 3, 3, g));
  FAILS(TIDE_DTYPE, tide_random(p, TIDE_NORMAL, 0, 1, g));
  FAILS(TIDE_VALUE, tide_random(x, TIDE_BERNOULLI, 1.5, 0, g));
  tide_generator_release(g);
  tide_tensor_release(x), tide_tensor_release(p), tide_tensor_release(perm);
}

/* ---- pictures ---- */

static void test_png(void) {
  char path[] = "/tmp/tide_png_XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  static const int64_t sizes[][3] = {{5, 7, 1}, {5, 7, 2}, {5, 7, 3}, {5, 7, 4}};
  for (int i = 0; i < 4; i++)
    for (int layout = 0; layout < LAYOUTS; layout++) {
      tide_tensor *x = laid_out(sizes[i], 3, TIDE_UINT8, layout, 0), *y = NULL;
      bool same = false;
      OK(tide_png_save(path, x));
      OK(tide_png_load(&y, path));
      OK(tide_equal(&same, x, y));
      CHECK(same);
      tide_tensor_release(x), tide_tensor_release(y);
    }
  tide_tensor *x = NULL, *f = counted_as((int64_t[]){2, 2}, 2, TIDE_FLOAT32),
              *odd = made((int64_t[]){2, 2, 5}, 3, TIDE_UINT8);
  CHECK(truncate(path, 60) == 0);
  FAILS(TIDE_FILE, tide_png_load(&x, path));
  CHECK(truncate(path, 0) == 0);
  FAILS(TIDE_FILE, tide_png_load(&x, path));
  CHECK(write(fd, "not a picture at all", 20) == 20);
  FAILS(TIDE_FILE, tide_png_load(&x, path));
  close(fd);
  remove(path);
  FAILS(TIDE_FILE, tide_png_load(&x, path));
  CHECK(strstr(tide_error_get()->message, path) != NULL);
  FAILS(TIDE_FILE,
        tide_png_save("/nonexistent/picture.png", (tide_tensor *)(x = made((int64_t[]){2, 2}, 2, TIDE_UINT8))));
  FAILS(TIDE_DTYPE, tide_png_save(path, f));
  FAILS(TIDE_SHAPE, tide_png_save(path, odd));
  tide_tensor_release(x), tide_tensor_release(f), tide_tensor_release(odd);
}

/* ---- no memory ---- */

/* A bit of everything; the first failure ends it. */
static tide_status walk(const tide_tensor *x, tide_tensor **held) {
  tide_tensor *list[2] = {(tide_tensor *)x, (tide_tensor *)x};
  tide_operand in[2] = {{.tensor = x}, {.number = tide_int(0)}};
  TIDE_TRY(tide_matmul(&held[0], x, x, NULL));
  TIDE_TRY(tide_elementwise(&held[1], TIDE_OP_gt, in, NULL, NULL));
  TIDE_TRY(tide_mask_get(&held[2], x, held[1]));
  TIDE_TRY(tide_nonzero(&held[3], x));
  TIDE_TRY(tide_index_get(&held[4], held[2], 0, held[3]));
  TIDE_TRY(tide_cat(&held[5], list, 2, 1, NULL));
  TIDE_TRY(tide_tril(&held[6], x, 0, false));
  TIDE_TRY(tide_flip(&held[7], x, (int[]){0}, 1));
  TIDE_TRY(tide_var_mean(&held[8], &held[9], x, NULL));
  TIDE_TRY(tide_reduce_index(&held[10], &held[11], TIDE_MAX, x, 0, false));
  TIDE_TRY(tide_mask_set(held[0], held[1], &in[1]));
  TIDE_TRY(tide_addmm(&held[12], x, x, x, 1, 1, NULL));
  return tide_randperm(&held[13], 10, &(tide_options){TIDE_INT32, TIDE_CPU, false}, NULL);
}

static void test_no_memory(void) {
  tide_tensor *x = laid_out((int64_t[]){6, 6}, 2, TIDE_FLOAT32, 2, 0);
  tide_memory_pump();
  size_t before = tide_memory_cpu_allocated();
  tide_status status = TIDE_MEMORY;
  int64_t n = 1;
  for (; status != TIDE_OK && n < 500; n++) {
    tide_tensor *held[14] = {NULL};
    tide__fault_alloc(n);
    status = walk(x, held);
    tide__fault_alloc(0);
    CHECK(status == TIDE_OK || status == TIDE_MEMORY);
    for (int i = 0; i < 14; i++) tide_tensor_release(held[i]);
    CHECK(tide_memory_cpu_allocated() == before);
  }
  CHECK(n > 20 && n < 500);
  tide_tensor_release(x);
}

int main(void) {
  OK(tide_init(NULL));
  size_t before = tide_memory_cpu_allocated();
  test_reductions();
  test_reduction_rules();
  test_nan_and_half();
  test_index();
  test_mask();
  test_nonzero();
  test_triangles();
  test_matmul();
  test_addmm();
  test_philox();
  test_random();
  test_png();
  test_no_memory();
  tide_memory_pump();
  CHECK(tide_memory_cpu_allocated() == before);
  tide_shutdown();
  return finish("tensor_reduce_test");
}
