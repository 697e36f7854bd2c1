/* cpu_kernels_test.c: reductions, matrix products, indexing, compaction, random numbers and permutations of the CPU
 * backend against naive loops, for every dtype and instruction set, in layouts with holes, negative and zero
 * strides. */
#include "cpu_test.h"

#include "base/random.h"
#include "reductions.h"

/* Where every access is watched, one instruction set has to do. */
#if defined(__SANITIZE_THREAD__)
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

static const char *isa;

/* ---- reductions ---- */

/* As core chooses it. */
static int accumulator(int op, int dtype) {
  if (op == TIDE_ALL || op == TIDE_ANY) return TIDE_BOOL;
  if (op == TIDE_COUNT_NONZERO || is_whole(dtype)) return TIDE_INT64;
  return dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16 ? TIDE_FLOAT32 : dtype;
}

static int result_dtype(int op, int dtype) {
  if (op == TIDE_ALL || op == TIDE_ANY) return TIDE_BOOL;
  if (op == TIDE_COUNT_NONZERO || op == TIDE_ARGMAX || op == TIDE_ARGMIN) return TIDE_INT64;
  return (op == TIDE_SUM || op == TIDE_PROD || op == TIDE_NANSUM) && is_whole(dtype) ? TIDE_INT64 : dtype;
}

typedef struct naive {
  long double re, im, squares;
  int64_t i, nonzero, best;
  tide_value best_value;
} naive;

static bool is_better(tide_value v, tide_value best, bool max, int dtype) {
  if (is_whole(dtype)) return max ? v.i > best.i : v.i < best.i;
  if (isnan(best.re)) return false;
  return isnan(v.re) || (max ? v.re > best.re : v.re < best.re);
}

static void naive_step(naive *s, int op, double p, tide_value v, int dtype, int64_t n) {
  long double re = (long double)v.re, im = (long double)v.im, was = s->re;
  bool nonzero = is_whole(dtype) ? v.i != 0 : v.re != 0;
  s->nonzero += nonzero;
  if (n == 0 || is_better(v, s->best_value, op == TIDE_MAX || op == TIDE_ARGMAX, dtype)) s->best = n, s->best_value = v;
  switch (op) {
  case TIDE_PROD:
    s->i = (int64_t)((uint64_t)s->i * (uint64_t)v.i);
    s->re = was * re - s->im * im, s->im = was * im + s->im * re;
    return;
  case TIDE_NORM:
    re = fabsl(re);
    if (isinf(p))
      s->re = n == 0 || isnan(v.re) || (p > 0 ? re > was : re < was) ? re : was;
    else
      s->re += p == 0 ? (long double)nonzero : p == 1 ? re : powl(re, (long double)p);
    return;
  case TIDE_NANSUM: s->re += isnan(v.re) ? 0 : re; break;
  case TIDE_LOGSUMEXP: s->re += expl(re); break;
  default: s->re += re, s->im += im; break;
  }
  s->i = (int64_t)((uint64_t)s->i + (uint64_t)v.i);
}

static tide_value naive_end(const naive *s, const tide_reduce_args *a, long double deviations) {
  tide_value v = {s->i, (double)(s->re * (long double)a->scale), (double)(s->im * (long double)a->scale)};
  long double divisor = (long double)a->inner - (long double)a->param;
  switch (a->op) {
  case TIDE_MAX:
  case TIDE_MIN: return s->best_value;
  case TIDE_ARGMAX:
  case TIDE_ARGMIN: v.i = s->best + a->index_base; break;
  case TIDE_LOGSUMEXP: v.re = (double)logl(s->re); break;
  case TIDE_ALL: v.i = s->nonzero == a->inner; break;
  case TIDE_ANY: v.i = s->nonzero != 0; break;
  case TIDE_COUNT_NONZERO: v.i = s->nonzero; break;
  case TIDE_NORM:
    if (a->param != 0 && !isinf(a->param)) v.re = (double)powl(s->re, 1 / (long double)a->param);
    break;
  case TIDE_STD:
  case TIDE_VAR: v.re = (double)(deviations / (divisor > 0 ? divisor : 0));
  }
  if (a->op == TIDE_STD) v.re = sqrt(v.re);
  return v;
}

typedef struct reduction {
  tide_reduce_args a;
  memory in, out, second;
  int64_t index[TIDE_MAX_DIMS];
} reduction;

static tide_value element(const reduction *r, int64_t kept, int64_t reduced) {
  const tide_reduce_args *a = &r->a;
  int64_t offset = offset_at(a->keep_size, a->keep_stride[1], a->nkeep, kept) +
                   offset_at(a->red_size, a->red_stride, a->nred, reduced);
  return get(a->dtype[1], r->in.first + offset * item_of(a->dtype[1]));
}

static void check_reduction(const reduction *r) {
  const tide_reduce_args *a = &r->a;
  double tolerance = a->dtype[0] == TIDE_FLOAT16                           ? 0x1p-9
                     : a->dtype[0] == TIDE_BFLOAT16                        ? 0x1p-6
                     : a->acc == TIDE_FLOAT64 || a->acc == TIDE_COMPLEX128 ? 0x1p-44
                                                                           : 0x1p-18;
  for (int64_t o = 0; o < a->outer; o++) {
    naive s = {.re = a->op == TIDE_PROD, .i = a->op == TIDE_PROD};
    long double deviations = 0, size = 0;
    for (int64_t n = 0; n < a->inner; n++) {
      tide_value v = element(r, o, n);
      naive_step(&s, a->op, a->param, v, a->dtype[1], n);
      if (isfinite(v.re)) size += fabsl((long double)v.re);
    }
    long double mean = s.re / (long double)a->inner;
    for (int64_t n = 0; n < a->inner && (a->op == TIDE_VAR || a->op == TIDE_STD); n++) {
      long double d = (long double)element(r, o, n).re - mean;
      deviations += d * d;
    }
    tide_value want = naive_end(&s, a, deviations);
    char room[16];
    put(a->dtype[0], room, want,
        is_whole(a->dtype[0]) && is_whole(a->dtype[1]) ? TIDE_INT64
        : is_whole(a->dtype[0])                        ? TIDE_INT64
                                                       : TIDE_COMPLEX128);
    want = get(a->dtype[0], room);
    tide_value got =
        get(a->dtype[0], r->out.first + offset_at(a->keep_size, a->keep_stride[0], a->nkeep, o) * item_of(a->dtype[0]));
    double scale = a->op == TIDE_SUM || a->op == TIDE_NANSUM ? (double)size : 0;
    bool right = is_whole(a->dtype[0]) ? got.i == want.i
                                       : same_double(got.re, want.re) ||
                                             fabs(got.re - want.re) <= tolerance * (1 + fabs(want.re) + scale);
    if (kind_of(a->dtype[0]) == 'C')
      right = right && (same_double(got.im, want.im) ||
                        fabs(got.im - want.im) <= 64 * tolerance * (1 + fabs(want.im) + fabs(want.re) + scale));
    CHECK(right, "%s %s of %s, %lld x %lld, result %lld: got %lld %.17g, expected %lld %.17g", isa,
          tide_reduction_get((tide_reduction)a->op)->name, tide_dtype_name((tide_dtype)a->dtype[1]),
          (long long)a->outer, (long long)a->inner, (long long)o, (long long)got.i, got.re, (long long)want.i, want.re);
    if (a->head.ptr[2]) {
      char *p = r->second.first + offset_at(a->keep_size, a->keep_stride[2], a->nkeep, o) * item_of(a->dtype[2]);
      tide_value second = get(a->dtype[2], p);
      if (a->op == TIDE_MAX || a->op == TIDE_MIN)
        CHECK(second.i == s.best + a->index_base, "%s index of %s: got %lld, expected %lld", isa,
              tide_reduction_get((tide_reduction)a->op)->name, (long long)second.i, (long long)s.best);
      else
        CHECK(close_double(second.re, (double)mean, tolerance), "%s mean: got %g, expected %g", isa, second.re,
              (double)mean);
    }
    if (!right) return;
  }
}

/* A tensor, of whose dims those in the set `reduced` are reduced. */
static void reduce_one(int op, int dtype, bool odd, const int64_t *size, int ndim, int layout, uint32_t reduced) {
  reduction r;
  tide_reduce_args *a = &r.a;
  memset(&r, 0, sizeof r);
  int64_t stride[TIDE_MAX_DIMS];
  r.in = memory_new(stride, size, ndim, layout, item_of(dtype));
  a->head.device = TIDE_CPU, a->op = op, a->acc = accumulator(op, dtype), a->index_base = (int32_t)below(2);
  a->dtype[0] = (uint8_t)result_dtype(op, dtype), a->dtype[1] = (uint8_t)dtype;
  for (int d = 0; d < ndim; d++)
    if (!(reduced >> d & 1)) {
      a->keep_size[a->nkeep] = size[d];
      a->keep_stride[1][a->nkeep] = stride[d];
      a->nkeep++;
    } else {
      a->red_size[a->nred] = size[d], a->red_stride[a->nred++] = stride[d];
    }
  if (a->nkeep == 0) a->keep_size[a->nkeep++] = 1;
  if (a->nred == 0) a->red_size[a->nred++] = 1;
  a->outer = numel_of(a->keep_size, a->nkeep), a->inner = numel_of(a->red_size, a->nred);
  a->scale = op == TIDE_MEAN ? 1.0 / (double)a->inner : 1;
  static const double powers[] = {0, 1, 2, 3, INFINITY, -INFINITY};
  a->param = op == TIDE_NORM ? powers[below(6)] : (double)below(op == TIDE_MIN ? 1 : 2); /* 1 of MIN: both ends */
  r.out = memory_new(a->keep_stride[0], a->keep_size, a->nkeep, (int)below(REPEATED), item_of(a->dtype[0]));
  bool two = (op == TIDE_MAX || op == TIDE_MIN || op == TIDE_VAR || op == TIDE_STD) && below(2);
  a->dtype[2] = op == TIDE_MAX || op == TIDE_MIN ? TIDE_INT64 : a->dtype[0];
  if (two) r.second = memory_new(a->keep_stride[2], a->keep_size, a->nkeep, (int)below(REPEATED), item_of(a->dtype[2]));
  a->head.ptr[0] = r.out.first, a->head.ptr[1] = r.in.first, a->head.ptr[2] = two ? r.second.first : NULL;
  for (int64_t i = 0; i < numel_of(size, ndim); i++) {
    tide_value v = plain_value(dtype);
    if (op == TIDE_PROD) v.re = below(3) - 1.0 + (double)below(3) / 8, v.im /= 16, v.i = v.i % 3;
    if (odd && kind_of(dtype) != 'C' && below(300) == 0)
      v.re = op == TIDE_SUM || op == TIDE_MEAN || is_whole(dtype) ? 0 : (double)NAN;
    if (op == TIDE_ALL && below(50)) v.re = v.i = 1;
    if (op == TIDE_ANY && below(200)) v.re = v.i = 0;
    put(dtype, r.in.first + offset_at(size, stride, ndim, i) * item_of(dtype), v,
        is_whole(dtype) ? TIDE_INT64 : TIDE_COMPLEX128);
  }
  CHECK(tide__cpu_reduce(NULL, a) == TIDE_OK, "reduce");
  check_reduction(&r);
  free(r.in.all), free(r.out.all), free(r.second.all);
}

/* Dims dealt out to the kept and the reduced ones. */
static void reduce_trial(int op, int dtype, bool odd) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim = random_size(size), shape = (int)below(12);
  if (shape == 0) ndim = 2, size[0] = 3 + below(4), size[1] = 40000 + below(1000);
  if (shape == 1) ndim = 2, size[0] = 3000 + below(1000), size[1] = 1 + below(40);
  reduce_one(op, dtype, odd, size, ndim, (int)below(LAYOUTS), (uint32_t)below(16));
}

/* Shapes that have ways of their own: short rows, small blocks, tall columns. */
static void test_reduce_shapes(void) {
  static const struct {
    int64_t size[4];
    int ndim;
    uint32_t reduced;
  } shapes[] = {{{100, 9}, 2, 2},       {{70, 33}, 2, 2},       {{65, 257}, 2, 2},       {{5, 20, 31}, 3, 4},
                {{6, 5, 50, 8}, 4, 10}, {{3, 7, 2, 16}, 4, 10}, {{2, 3, 900, 3}, 4, 10}, {{4, 4, 4, 4}, 4, 10},
                {{3, 5, 4, 7}, 4, 5},   {{150, 1100}, 2, 1},    {{20, 10, 300}, 3, 3},   {{6, 7, 10, 90}, 4, 5},
                {{2, 36000}, 2, 2},     {{3000, 3}, 2, 1},      {{17, 1025}, 2, 1},      {{9, 70, 64}, 3, 2}};
  static const int ops[] = {TIDE_SUM, TIDE_MEAN, TIDE_MAX, TIDE_MIN};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int k = 0; k < 4; k++)
      for (int layout = 0; layout < LAYOUTS; layout++)
        reduce_one(ops[k], TIDE_FLOAT32, k > 1, shapes[i].size, shapes[i].ndim, layout, shapes[i].reduced);
}

static void test_reduce(void) {
  test_reduce_shapes();
  for (int op = 0; op < TIDE_REDUCTION_COUNT; op++)
    for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++)
      for (int k = 0; k < 3 && reduction_takes(op, kind_of(dtype)); k++) reduce_trial(op, dtype, k % 2);
}

/* A sum of many equal float32 numbers, which one long chain would get wrong; the same with any number of threads. */
static void test_sum_accuracy(void) {
  enum { N = 3000000 };
  float *x = malloc(N * sizeof *x), first = 0;
  for (int i = 0; i < N; i++) x[i] = 0.1f + (float)(i % 7) * 0.01f;
  double exact = 0;
  for (int i = 0; i < N; i++) exact += (double)x[i];
  for (int threads = 1; threads <= 4; threads++) {
    float sum;
    tide_reduce_args a = {.head = {.ptr = {&sum, x}},
                          .op = TIDE_SUM,
                          .acc = TIDE_FLOAT32,
                          .nkeep = 1,
                          .nred = 1,
                          .dtype = {TIDE_FLOAT32, TIDE_FLOAT32},
                          .scale = 1,
                          .outer = 1,
                          .inner = N,
                          .keep_size = {1},
                          .red_size = {N},
                          .red_stride = {1}};
    tide_set_num_threads(threads);
    CHECK(tide__cpu_reduce(NULL, &a) == TIDE_OK, "sum");
    CHECK(fabs((double)sum - exact) < 1e-6 * exact, "sum is %.9g, expected %.9g", (double)sum, exact);
    if (threads == 1) first = sum;
    CHECK(sum == first, "the sum depends on the number of threads");
  }
  free(x);
}

/* ---- products ---- */

static tide_value naive_product(const tide_gemm_args *a, int64_t b, int64_t i, int64_t j) {
  long double re = 0, im = 0;
  uint64_t whole = 0;
  int item = item_of(a->dtype);
  for (int64_t k = 0; k < a->k; k++) {
    tide_value x = get(a->dtype, (char *)a->head.ptr[1] + (b * a->a_batch + i * a->a_row + k * a->a_col) * item);
    tide_value y = get(a->dtype, (char *)a->head.ptr[2] + (b * a->b_batch + k * a->b_row + j * a->b_col) * item);
    re += (long double)x.re * (long double)y.re - (long double)x.im * (long double)y.im;
    im += (long double)x.re * (long double)y.im + (long double)x.im * (long double)y.re;
    whole += (uint64_t)x.i * (uint64_t)y.i;
  }
  return (tide_value){(int64_t)whole, (double)re, (double)im};
}

static void gemm_trial(int dtype, int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t batch, double beta) {
  int item = item_of(dtype);
  char *x = malloc((size_t)(batch * m * k * item + 1)), *y = malloc((size_t)(k * n * item + 1));
  char *c = malloc((size_t)(batch * m * (n + 3) * item)), *before = malloc((size_t)(batch * m * (n + 3) * item));
  for (int64_t i = 0; i < batch * m * k; i++) put(dtype, x + i * item, plain_value(dtype), dtype);
  for (int64_t i = 0; i < k * n; i++) put(dtype, y + i * item, plain_value(dtype), dtype);
  tide_value strange = {0, NAN, NAN};
  for (int64_t i = 0; i < batch * m * (n + 3); i++)
    put(dtype, c + i * item, beta == 0 && !is_whole(dtype) ? strange : plain_value(dtype), dtype);
  memcpy(before, c, (size_t)(batch * m * (n + 3) * item));
  tide_gemm_args a = {.head = {.ptr = {c, x, y}, .device = TIDE_CPU},
                      .dtype = dtype,
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = batch,
                      .a_row = ta ? 1 : k,
                      .a_col = ta ? m : 1,
                      .b_row = tb ? 1 : n,
                      .b_col = tb ? k : 1,
                      .c_row = n + 3,
                      .a_batch = m * k,
                      .b_batch = 0,
                      .c_batch = m * (n + 3),
                      .alpha = {2, 2, 0},
                      .beta = {(int64_t)beta, beta, 0}};
  CHECK(tide__cpu_gemm(NULL, &a) == TIDE_OK, "gemm");
  double tolerance = dtype == TIDE_FLOAT16                               ? 0x1p-9
                     : dtype == TIDE_BFLOAT16                            ? 0x1p-6
                     : dtype == TIDE_FLOAT64 || dtype == TIDE_COMPLEX128 ? 1e-12
                                                                         : 1e-4;
  bool right = true;
  for (int64_t e = 0; e < batch * m * (n + 3) && right; e++) {
    int64_t b = e / (m * (n + 3)), i = e / (n + 3) % m, j = e % (n + 3);
    tide_value got = get(dtype, c + e * item), old = get(dtype, before + e * item), want = old;
    if (j < n) {
      want = naive_product(&a, b, i, j);
      want.re = 2 * want.re + (beta == 0 ? 0 : beta * old.re), want.im = 2 * want.im + (beta == 0 ? 0 : beta * old.im);
      want.i = (int64_t)(2 * (uint64_t)want.i + (uint64_t)beta * (uint64_t)old.i);
      char room[16];
      put(dtype, room, want, is_whole(dtype) ? TIDE_INT64 : TIDE_COMPLEX128);
      want = get(dtype, room);
    }
    right = is_whole(dtype) ? got.i == want.i
                            : same_double(got.re, want.re) ||
                                  fabs(got.re - want.re) <= tolerance * (20 + fabs(want.re) + fabs(want.im));
    if (kind_of(dtype) == 'C')
      right = right && (same_double(got.im, want.im) ||
                        fabs(got.im - want.im) <= tolerance * (20 + fabs(want.re) + fabs(want.im)));
    CHECK(right, "%s %s %lldx%lldx%lld %d%d (%lld, %lld): got %lld %.9g %.9g, expected %lld %.9g %.9g", isa,
          tide_dtype_name((tide_dtype)dtype), (long long)m, (long long)n, (long long)k, ta, tb, (long long)i,
          (long long)j, (long long)got.i, got.re, got.im, (long long)want.i, want.re, want.im);
  }
  free(x), free(y), free(c), free(before);
}

static void test_gemm(void) {
  static const int64_t sizes[][3] = {{1, 1, 1},      {7, 1, 300},   {1, 9, 5}, {5, 17, 3},
                                     {100, 130, 60}, {13, 40, 520}, {3, 4, 0}, {300, 20, 30}};
  for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int t = 0; t < 4; t++)
        gemm_trial(dtype, sizes[s][0], sizes[s][1], sizes[s][2], t & 1, t & 2, 1 + (int64_t)(s % 3), s % 2 ? 0 : 3);
}

/* Products of many slices, parts and tasks: A is u + v and B is v + u of small whole numbers, so that every sum is
 * exact and known from the sums of v alone; the same bits with any number of threads. */
static int64_t small_u(int64_t i) { return i % 7 - 3; }
static int64_t small_v(int64_t k) { return k % 5 - 1; }

/* A matrix of u of its rows and v of its columns, or the reverse, whose rows repeat after 5 times 7. */
static void fill_sums(int dtype, char *x, int64_t rows, int64_t columns, bool reverse) {
  int64_t item = item_of(dtype), row = columns * item;
  for (int64_t e = 0; e < (rows < 35 ? rows : 35) * columns; e++) {
    int64_t r = e / columns, c = e % columns, whole = reverse ? small_v(r) + small_u(c) : small_u(r) + small_v(c);
    put(dtype, x + e * item, (tide_value){whole, (double)whole, 0}, dtype);
  }
  for (int64_t r = 35; r < rows; r++) memcpy(x + r * row, x + (r - 35) * row, (size_t)row);
}

static void gemm_large(int dtype, int64_t m, int64_t n, int64_t k, bool ta, bool tb, int threads) {
  int item = item_of(dtype);
  char *x = malloc((size_t)(m * k * item)), *y = malloc((size_t)(k * n * item)), *c = malloc((size_t)(m * n * item));
  int64_t sum = 0, squares = 0;
  for (int64_t p = 0; p < k; p++) sum += small_v(p), squares += small_v(p) * small_v(p);
  fill_sums(dtype, x, ta ? k : m, ta ? m : k, ta), fill_sums(dtype, y, tb ? n : k, tb ? k : n, !tb);
  tide_gemm_args a = {.head = {.ptr = {c, x, y}, .device = TIDE_CPU}, .dtype = dtype, .m = m, .n = n, .k = k};
  a.batch = 1, a.c_row = n, a.alpha = (tide_value){1, 1, 0};
  a.a_row = ta ? 1 : k, a.a_col = ta ? m : 1, a.b_row = tb ? 1 : n, a.b_col = tb ? k : 1;
  tide_set_num_threads(threads);
  CHECK(tide__cpu_gemm(NULL, &a) == TIDE_OK, "gemm");
  bool right = true;
  for (int64_t i = 0; i < m && right; i++)
    for (int64_t j = 0; j < n && right; j++) {
      int64_t want = k * small_u(i) * small_u(j) + (small_u(i) + small_u(j)) * sum + squares;
      tide_value got = get(dtype, c + (i * n + j) * item);
      right = is_whole(dtype) ? got.i == want : got.re == (double)want && got.im == 0;
      CHECK(right, "%s %s %lldx%lldx%lld %d%d by %d threads (%lld, %lld): got %lld %g, expected %lld", isa,
            tide_dtype_name((tide_dtype)dtype), (long long)m, (long long)n, (long long)k, ta, tb, threads, (long long)i,
            (long long)j, (long long)got.i, got.re, (long long)want);
    }
  free(x), free(y), free(c);
}

static void test_gemm_large(void) {
  static const int dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_INT32, TIDE_COMPLEX64};
  static const int64_t sizes[][3] = {{70, 1500, 4300}, {300, 200, 700}, {20, 3000, 900},
                                     {1, 700, 9000},   {2500, 1, 8200}, {5, 6, 9000}};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (size_t s = SLOW ? 1 : 0; s < sizeof sizes / sizeof *sizes; s++) {
      int t = (int)(d + s) % 4;
      for (int threads = 1; threads <= 3; threads += 2)
        gemm_large(dtypes[d], sizes[s][0], sizes[s][1], sizes[s][2], t & 1, t & 2, threads);
    }
  tide_set_num_threads(2);
}

/* Floats that are no whole numbers: AVX2 and AVX-512 fuse the same sums in the same order. */
static void test_gemm_same_bits(void) {
  enum { M = 130, N = 90, K = 800 };
  float *x = malloc(sizeof(float) * M * K), *y = malloc(sizeof(float) * K * N), *c = malloc(sizeof(float) * 3 * M * N);
  for (int i = 0; i < M * K; i++) x[i] = (float)plain_value(TIDE_FLOAT32).re / 3;
  for (int i = 0; i < K * N; i++) y[i] = (float)plain_value(TIDE_FLOAT32).re / 7;
  tide_gemm_args a = {.head = {.ptr = {c, x, y}, .device = TIDE_CPU}, .dtype = TIDE_FLOAT32, .m = M, .n = N, .k = K};
  a.batch = 1, a.c_row = N, a.alpha.re = 1, a.a_row = K, a.a_col = 1, a.b_row = N, a.b_col = 1;
  static const char *const names[] = {"avx2", "avx512"};
  int sets = 0;
  for (int s = 0; s < 2; s++)
    for (int threads = 1; threads <= 3 && tide__isa_set(names[s]); threads += 2) {
      tide_set_num_threads(threads);
      a.head.ptr[0] = c + (sets++ ? M * N : 0);
      CHECK(tide__cpu_gemm(NULL, &a) == TIDE_OK, "gemm");
      CHECK(sets == 1 || !memcmp(c, c + M * N, sizeof(float) * M * N), "%s with %d threads: other bits", names[s],
            threads);
    }
  tide__isa_set(NULL);
  tide_set_num_threads(2);
  free(x), free(y), free(c);
}

/* ---- indexes ---- */

/* What a value that meets another one becomes there; float32 or bytes. */
static void join_one(const tide_index_args *a, char *to, const char *from) {
  if (a->reduce == TIDE_INDEX_WRITE) {
    memcpy(to, from, (size_t)a->item_size);
    return;
  }
  float x = *(float *)(void *)to, y = *(const float *)(const void *)from;
  float r = a->reduce == TIDE_INDEX_SUM    ? x + y
            : a->reduce == TIDE_INDEX_PROD ? x * y
            : a->reduce == TIDE_INDEX_MAX  ? fmaxf(x, y)
                                           : fminf(x, y);
  memcpy(to, &r, sizeof r);
}

/* Both sides and the index as tensors over the same dims, in any layout; the indexed one is longer along `dim`. The
 * index stands still along some dims. */
static void index_trial(bool scatter, int item, int64_t bad, int reduce) {
  tide_index_args a;
  memset(&a, 0, sizeof a);
  a.head.device = TIDE_CPU, a.item_size = item, a.index_dtype = below(2) ? TIDE_INT32 : TIDE_INT64,
  a.index_base = (int32_t)below(2), a.dtype = TIDE_FLOAT32, a.reduce = reduce;
  a.ndim = 1 + (int32_t)below(4);
  int dim = (int)below(a.ndim);
  a.length = 1 + below(50), a.numel = 1;
  int64_t size[TIDE_MAX_DIMS], places = 1, place[TIDE_MAX_DIMS];
  for (int d = 0; d < a.ndim; d++) a.size[d] = 1 + below(6);
  a.size[dim] = 1 + below(bad ? 100 : 60);
  if (below(10) == 0) {
    a.length = 5000;
    for (int d = 0; d < a.ndim; d++) a.size[d] = d == dim ? 40000 : 1 + below(2);
  }
  for (int d = 0; d < a.ndim; d++) a.numel *= size[d] = a.size[d];
  memory side[2]; /* dense, indexed */
  side[0] = memory_new(a.stride[0], size, a.ndim, (int)below(REPEATED), item);
  size[dim] = a.length;
  side[1] = memory_new(a.stride[1], size, a.ndim, (int)below(REPEATED), item);
  a.pitch = a.stride[1][dim], a.stride[1][dim] = 0;
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < side[k].bytes; i++) side[k].all[i] = (char)next_random();
  if (reduce)
    for (int k = 0; k < 2; k++)
      for (size_t i = 0; i < side[k].bytes / 4; i++) ((float *)(void *)side[k].all)[i] = (float)(1 + below(9));
  for (int d = a.ndim - 1; d >= 0; d--) {
    bool still = d != dim && below(2);
    a.stride[2][d] = still ? 0 : places, places *= still ? 1 : a.size[d];
  }
  int64_t *wide = malloc((size_t)places * 8), *plain = malloc((size_t)places * 8), step[3];
  int32_t *narrow = malloc((size_t)places * 4);
  for (int64_t i = 0; i < places; i++) {
    plain[i] = below(a.length);
    wide[i] = below(2) ? plain[i] + a.index_base : plain[i] - a.length;
    if (bad && i == places / 2) wide[i] = bad > 0 ? a.length + a.index_base : -a.length - 1, plain[i] = -1;
    narrow[i] = (int32_t)wide[i];
  }
  a.head.ptr[0] = side[scatter].first, a.head.ptr[1] = side[!scatter].first;
  a.head.ptr[2] = a.index_dtype == TIDE_INT32 ? (void *)narrow : (void *)wide;
  const memory *to = &side[scatter], *from = &side[!scatter];
  char *want = malloc(to->bytes), zero[16] = {0};
  memcpy(want, to->all, to->bytes);
  memset(place, 0, sizeof place);
  for (int64_t i = 0; i < a.numel && !(bad && scatter); i++) { /* a scatter with a bad index writes nothing */
    int64_t rest = i;
    for (int d = a.ndim - 1; d >= 0; d--) place[d] = rest % a.size[d], rest /= a.size[d];
    for (int s = 0; s < 3; s++) {
      step[s] = 0;
      for (int d = 0; d < a.ndim; d++) step[s] += place[d] * a.stride[s][d];
    }
    int64_t at = plain[step[2]], d = scatter ? step[1] + at * a.pitch : step[0],
            s = scatter ? step[0] : step[1] + at * a.pitch;
    join_one(&a, want + (to->first - to->all) + d * item, at < 0 ? zero : from->first + s * item);
  }
  tide_status status = scatter ? tide__cpu_scatter(NULL, &a) : tide__cpu_gather(NULL, &a);
  CHECK(status == (bad ? TIDE_INDEX : TIDE_OK), "status %d", (int)status);
  CHECK(!memcmp(want, to->all, to->bytes), "%s %d of %d bytes, %lld of %lld", scatter ? "scatter" : "gather", reduce,
        item, (long long)places, (long long)a.length);
  free(side[0].all), free(side[1].all), free(wide), free(narrow), free(plain), free(want);
}

static void test_index(void) {
  static const int items[] = {1, 2, 4, 8, 16};
  for (int k = 0; k < 200; k++) index_trial(k & 1, items[below(5)], below(3) - 1, TIDE_INDEX_WRITE);
  for (int k = 0; k < 100; k++) index_trial(true, 4, 0, 1 + k % 4);
}

static void test_compact(void) {
  static const int64_t sizes[] = {1, 7, 8, 1000, 16384, 100001, 1500000};
  for (int s = 0; s < 7; s++)
    for (int density = 1; density < 300; density *= 6) {
      int64_t n = sizes[s], held = 0;
      size_t item = (size_t)1 << below(5), bytes = (size_t)n * item;
      uint8_t *x = malloc((size_t)n);
      int64_t *starts = malloc((size_t)(n / TIDE_COMPACT_PIECE + 2) * 8);
      for (int64_t i = 0; i < n; i++) held += x[i] = below(density) == 0;
      char *from = malloc(bytes), *taken = malloc(bytes);
      for (size_t i = 0; i < bytes; i++) from[i] = (char)below(256);
      tide_compact_args a = {.head = {.ptr = {starts, x}}, .numel = n};
      CHECK(tide__cpu_mask_count(NULL, &a) == TIDE_OK, "mask_count");
      CHECK(starts[(n + TIDE_COMPACT_PIECE - 1) / TIDE_COMPACT_PIECE] == held, "mask_count of %lld", (long long)n);
      int64_t *out = malloc((size_t)n * 8), at = 0;
      a.head.ptr[0] = out, a.head.ptr[2] = starts, a.item_size = s & 1; /* what positions count from */
      CHECK(tide__cpu_compact(NULL, &a) == TIDE_OK, "compact");
      a.head.ptr[0] = taken, a.head.ptr[3] = from, a.item_size = (int32_t)item;
      CHECK(tide__cpu_compact(NULL, &a) == TIDE_OK, "compact");
      bool right = true;
      for (int64_t i = 0; i < n && right; i++)
        if (x[i])
          right = out[at] == i + (s & 1) && !memcmp(taken + (size_t)at * item, from + (size_t)i * item, item), at++;
      CHECK(right && at == held, "compact of %lld, one in %d, of %zu bytes", (long long)n, density, item);
      free(x), free(out), free(starts), free(from), free(taken);
    }
}

/* ---- random numbers ---- */

static double random_exact(const tide_random_args *a, int64_t i, bool wide) {
  const double pi = 3.14159265358979323846;
  tide_philox p = tide_random_group(a->seed, a->offset, (uint64_t)(i / (wide ? 2 : 4)));
  uint32_t x = p.v[i % 4];
  uint64_t y = tide_random_u64(&p, (int)(i % 2));
  int bits = a->dtype == TIDE_FLOAT16 ? 11 : a->dtype == TIDE_BFLOAT16 ? 8 : 24;
  double open = wide ? tide_unit_open_f64(y) : (double)tide_unit_open_f32(x);
  double unit = wide ? tide_unit_f64(y) : (double)tide_unit_f32(x, 24), turn, radius;
  switch (a->kind) {
  case TIDE_UNIFORM:
    return wide ? tide_uniform_f64(unit, a->a, a->b, a->most)
                : (double)tide_uniform_f32(tide_unit_f32(x, bits), (float)a->a, (float)a->b, (float)a->most);
  case TIDE_BERNOULLI: return wide ? unit < a->a : (float)unit < (float)a->a;
  case TIDE_EXPONENTIAL: return -log(open) / a->a;
  case TIDE_CAUCHY: return a->a + a->b * tan(pi * (unit - 0.5));
  case TIDE_GEOMETRIC: return fmax(1, ceil(log(open) / log1p(-a->a)));
  default: break;
  }
  int pair = wide ? 0 : (int)(i % 4 / 2) * 2;
  radius = sqrt(-2 * log(wide ? tide_unit_open_f64(tide_random_u64(&p, 0)) : (double)tide_unit_open_f32(p.v[pair])));
  turn = 2 * pi * (wide ? tide_unit_f64(tide_random_u64(&p, 1)) : (double)tide_unit_f32(p.v[pair + 1], 24));
  double normal = a->a + a->b * radius * (i % 2 ? sin(turn) : cos(turn));
  return a->kind == TIDE_NORMAL ? normal : exp(normal);
}

static void random_trial(int kind, int dtype) {
  tide_random_args a;
  memset(&a, 0, sizeof a);
  a.head.device = TIDE_CPU, a.kind = kind, a.dtype = (uint8_t)dtype, a.seed = next_random(),
  a.offset = (uint64_t)below(1000) * 4;
  a.a = kind == TIDE_GEOMETRIC || kind == TIDE_BERNOULLI ? 0.3 : kind == TIDE_EXPONENTIAL ? 2 : 0.5, a.b = 1.25;
  tide__random_limits(&a);
  a.ndim = random_size(a.size), a.flat = below(2) == 0;
  if (a.flat) a.size[0] = numel_of(a.size, a.ndim), a.ndim = 1;
  a.numel = numel_of(a.size, a.ndim);
  memory m = memory_new(a.stride[0], a.size, a.ndim, a.flat ? DENSE : (int)below(REPEATED), item_of(dtype));
  a.head.ptr[0] = m.first;
  CHECK(tide__cpu_random(NULL, &a) == TIDE_OK, "random");
  bool exact = kind == TIDE_UNIFORM || kind == TIDE_BERNOULLI, wide = dtype == TIDE_FLOAT64;
  double tolerance = dtype == TIDE_FLOAT16 ? 0x1p-9 : dtype == TIDE_BFLOAT16 ? 0x1p-6 : wide ? 1e-13 : 4e-6;
  for (int64_t i = 0; i < a.numel; i++) {
    double want = random_exact(&a, i, wide), got;
    char room[16];
    tide_value v = {0, want, 0};
    put(dtype, room, v, TIDE_FLOAT64);
    v = get(dtype, room), want = is_whole(dtype) ? (double)v.i : v.re;
    v = get(dtype, m.first + offset_at(a.size, a.stride[0], a.ndim, i) * item_of(dtype)),
    got = is_whole(dtype) ? (double)v.i : v.re;
    bool right = exact ? got == want
                       : close_double(got, want, tolerance) ||
                             (kind == TIDE_CAUCHY && fabs(got - want) <= tolerance * want * want) ||
                             (kind == TIDE_GEOMETRIC && fabs(got - want) <= 1);
    CHECK(right, "%s kind %d of %s, element %lld: got %.9g, expected %.9g", isa, kind,
          tide_dtype_name((tide_dtype)dtype), (long long)i, got, want);
    if (!right) break;
  }
  free(m.all);
}

static void randint_trial(uint64_t range) {
  enum { N = 5001 };
  static int64_t out[N];
  tide_random_args a = {.head = {.ptr = {out}},
                        .kind = TIDE_RANDINT,
                        .ndim = 1,
                        .flat = 1,
                        .dtype = TIDE_INT64,
                        .lo = -17,
                        .range = range,
                        .seed = next_random(),
                        .numel = N,
                        .size = {N},
                        .stride = {{1}}};
  bool wide = range == 0 || range > UINT32_MAX;
  CHECK(tide__cpu_random(NULL, &a) == TIDE_OK, "random");
  for (int64_t i = 0; i < N; i++) {
    tide_philox p = tide_random_group(a.seed, 0, (uint64_t)(i / (wide ? 2 : 4)));
    uint64_t x = wide ? tide_random_u64(&p, (int)(i % 2)) : p.v[i % 4], place = range ? x % range : x;
    p = tide_random_group(a.seed, 0, tide_spare_group((uint64_t)i));
    if (range && x - place > (wide ? UINT64_MAX : UINT32_MAX) - range + 1) place = tide_bounded(p, range);
    CHECK(out[i] == (int64_t)((uint64_t)-17 + place), "randint below %llu", (unsigned long long)range);
  }
}

static void test_chances(void) {
  enum { N = 3000 };
  static double p[N];
  static float out[N];
  for (int i = 0; i < N; i++) p[i] = i % 2 ? 0.25 : 0.75;
  tide_random_args a = {.head = {.ptr = {out, p}},
                        .kind = TIDE_BERNOULLI,
                        .ndim = 1,
                        .dtype = TIDE_FLOAT32,
                        .dtype2 = TIDE_FLOAT64,
                        .seed = 5,
                        .numel = N,
                        .size = {N},
                        .stride = {{1}, {1}}};
  CHECK(tide__cpu_random(NULL, &a) == TIDE_OK, "bernoulli");
  for (int i = 0; i < N; i++) {
    tide_philox g = tide_random_group(5, 0, (uint64_t)(i / 2));
    CHECK((out[i] == 1) == (tide_unit_f64(tide_random_u64(&g, i % 2)) < p[i]), "chance of element %d", i);
  }
}

static void test_random(void) {
  static const uint64_t ranges[] = {0, 2, 6, 256, UINT32_MAX, 1ull << 32, (1ull << 40) + 7, 3ull << 30, 3ull << 62};
  for (int kind = 0; kind <= TIDE_GEOMETRIC; kind++)
    for (int k = 0; k < 12 && kind != TIDE_RANDINT; k++) random_trial(kind, TIDE_FLOAT16 + k % 4);
  random_trial(TIDE_BERNOULLI, TIDE_INT32), random_trial(TIDE_BERNOULLI, TIDE_BOOL),
      random_trial(TIDE_GEOMETRIC, TIDE_INT64);
  for (int r = 0; r < 9; r++) randint_trial(ranges[r]);
  test_chances();
}

static void test_randperm(void) {
  static const int64_t sizes[] = {1, 2, 31, 32, 33, 1000, 2048, 2049, 65537, 300000, (1 << 20) + 3};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t n = sizes[s], *out = malloc((size_t)n * 8);
    uint8_t *seen = calloc((size_t)n, 1);
    tide_randperm_args a = {.head = {.ptr = {out}}, .n = n, .index_base = s & 1, .seed = 77, .offset = 8};
    CHECK(tide__cpu_randperm(NULL, &a) == TIDE_OK, "randperm");
    uint64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t v = out[i] - a.index_base;
      bool fresh = v >= 0 && v < n && !seen[v];
      CHECK(fresh, "randperm of %lld: value %lld", (long long)n, (long long)v);
      if (!fresh) break;
      seen[v] = 1;
      uint64_t key = tide_random_key(77, 8, (uint64_t)v);
      CHECK(key >= last, "randperm of %lld: order of keys at %lld", (long long)n, (long long)i);
      last = key;
    }
    free(out), free(seen);
  }
}

int main(void) {
  for (int s = 0; s < 3; s++) {
    isa = isa_names[s];
    if (!tide__isa_set(isa) || (SLOW && s != 1)) continue;
    test_reduce();
    test_sum_accuracy();
    test_gemm();
    test_gemm_large();
    test_index();
    test_compact();
    test_random();
    test_randperm();
  }
  test_gemm_same_bits();
  if (failures) printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
