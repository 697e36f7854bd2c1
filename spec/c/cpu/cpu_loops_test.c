/* cpu_loops_test.c: elementwise operations of the CPU backend against one element at a time, for every op, dtype and
 * instruction set, in layouts with holes, negative and zero strides; and the accuracy of the vector functions against
 * those of the C library.
 *
 * The reference of an op is its own expression compiled here without vector functions; conversions are those of
 * cpu_test.h. */
#define TIDE_ISA_NAME reference
#include <complex.h>
#include <float.h>
#include <math.h>
#define TIDE_IVDEP
#include "cpu_test.h"

#pragma GCC optimize("cx-fortran-rules", "wrapv")
#include "backend/cpu/loops/loops.h"

/* Rounds of random numbers, whose values a sanitizer does not see. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define ROUNDS(all, watched) (watched)
#else
#  define ROUNDS(all, watched) (all)
#endif

static tide__loop reference[TIDE_OP_COUNT][TIDE_CTYPES];

static void fill_reference(void) {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) LOOP_ROW(reference, name, rule, loop)
#include "tide/op.def"
}

static const int computes[TIDE_CTYPES] = {TIDE_INT32,   TIDE_INT64,     TIDE_FLOAT32,
                                          TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128};

/* Ops whose functions have several right answers, some ulp apart. */
static bool is_rounded(const tide_op_info *info) {
  static const char *const words[] = {"exp",   "log",   "sin",  "cos", "tan",  "pow", "erf",
                                      "hypot", "gamma", "entr", "_i0", "ndtr", "sinc"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(info->expr, words[i])) return true;
  return false;
}

static bool is_test(const tide_op_info *info) {
  static const char *const rules[] = {"TEST", "COMPARE", "EQUALC", "CLOSE", "LOGIC"};
  for (int i = 0; i < 5; i++)
    if (!strcmp(info->rule, rules[i])) return true;
  return false;
}

static double tolerance_of(int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return 0x1p-9;
  case TIDE_BFLOAT16: return 0x1p-6;
  case TIDE_FLOAT64:
  case TIDE_COMPLEX128: return 0x1p-48;
  default: return 0x1p-19;
  }
}

/* The dtype of an operand: the compute type itself, or one that is loaded into it. */
static int operand_dtype(int compute) {
  static const int into_int32[] = {TIDE_BOOL, TIDE_UINT8, TIDE_INT8, TIDE_INT16};
  static const int into_float32[] = {TIDE_FLOAT16, TIDE_BFLOAT16, TIDE_INT64, TIDE_FLOAT64};
  if (below(2)) return compute;
  if (compute == TIDE_INT32) return into_int32[below(4)];
  if (compute == TIDE_INT64) return TIDE_INT16;
  return into_float32[below(4)];
}

/* ---- elementwise ---- */

typedef struct trial {
  tide_elementwise_args a;
  memory room[TIDE_MAX_OPERANDS];
  char *before; /* the output's room */
  bool test, rounded;
} trial;

static void fill_operand(trial *t, int k, bool odd) {
  tide_elementwise_args *a = &t->a;
  int dtype = a->dtype[k];
  for (int64_t i = 0; i < a->numel; i++) {
    tide_value v = odd && below(4) == 0 ? odd_value(dtype) : plain_value(dtype);
    put(dtype, t->room[k].first + offset_at(a->size, a->stride[k], a->ndim, i) * item_of(dtype), v, dtype);
  }
}

static void make_operand(trial *t, int k, bool flat) {
  tide_elementwise_args *a = &t->a;
  a->dtype[k] = (uint8_t)operand_dtype(a->compute);
  a->is_number[k] = k > 0 && a->operands > 2 && below(6) == 0;
  a->number[k] = plain_value(a->compute);
  int layout = flat ? DENSE : (int)below(LAYOUTS);
  t->room[k] = memory_new(a->stride[k], a->size, a->ndim, layout, item_of(a->dtype[k]));
  fill_operand(t, k, kind_of(a->compute) != 'C');
  a->head.ptr[k] = a->is_number[k] ? NULL : t->room[k].first;
}

static void make_output(trial *t, bool flat) {
  tide_elementwise_args *a = &t->a;
  a->dtype[0] = (uint8_t)(t->test ? TIDE_BOOL : t->rounded && below(2) ? a->compute : operand_dtype(a->compute));
  if (t->rounded && is_whole(a->dtype[0])) a->dtype[0] = (uint8_t)a->compute;
  if (kind_of(a->compute) == 'C') a->dtype[0] = (uint8_t)a->compute;
  t->room[0] = memory_new(a->stride[0], a->size, a->ndim, flat ? DENSE : (int)below(REPEATED), item_of(a->dtype[0]));
  a->head.ptr[0] = t->room[0].first;
  t->before = malloc(t->room[0].bytes);
  memcpy(t->before, t->room[0].all, t->room[0].bytes);
}

/* What element i must be, as a value of the loop's result dtype. */
static tide_value expected(const trial *t, int64_t i, int *dtype) {
  const tide_elementwise_args *a = &t->a;
  _Alignas(64) char in[4][16 * 16], param[3 * 16];
  memset(in, 0, sizeof in);
  for (int k = 1; k < a->operands; k++) {
    tide_value v = a->number[k];
    int from = a->compute;
    if (!a->is_number[k]) {
      from = a->dtype[k];
      v = get(from, t->room[k].first + offset_at(a->size, a->stride[k], a->ndim, i) * item_of(from));
    }
    put(a->compute, in[k], v, from);
  }
  for (int k = 0; k < 3; k++) put(a->compute, param + k * item_of(a->compute), a->param[k], a->compute);
  int type = 0;
  while (computes[type] != a->compute) type++;
  reference[a->op][type](in[0], in[1], in[2], in[3], param, 1);
  *dtype = a->compute;
  if (t->test) *dtype = type == TIDE_C_I64 || type == TIDE_C_F64 ? TIDE_INT64 : TIDE_INT32;
  return get(*dtype, in[0]);
}

/* The parts of functions of complex numbers differ by ulp of the whole. */
static bool close_complex(tide_value a, tide_value b, double tolerance) {
  double size = 100 + hypot(b.re, b.im);
  if (!isfinite(size)) return !isfinite(a.re) || !isfinite(a.im);
  return fabs(a.re - b.re) <= tolerance * size && fabs(a.im - b.im) <= tolerance * size;
}

static void check_trial(trial *t, const char *isa) {
  tide_elementwise_args *a = &t->a;
  const tide_op_info *info = tide_op_get((tide_op)a->op);
  int item = item_of(a->dtype[0]), wrong = 0;
  for (int64_t i = 0; i < a->numel && !wrong; i++) {
    int from;
    char room[16];
    tide_value want = expected(t, i, &from);
    put(a->dtype[0], room, want, from);
    want = get(a->dtype[0], room);
    char *p = t->room[0].first + offset_at(a->size, a->stride[0], a->ndim, i) * item;
    tide_value got = get(a->dtype[0], p);
    double tolerance = tolerance_of(a->dtype[0] == TIDE_FLOAT64 ? a->compute : a->dtype[0]);
    bool right = t->rounded ? close_double(got.re, want.re, tolerance) : same_value(got, want, a->dtype[0]);
    if (kind_of(a->compute) == 'C' && t->rounded && !t->test) right = close_complex(got, want, 64 * tolerance);
    CHECK(right, "%s %s %s -> %s, element %lld of %lld: got %lld %.17g %.17g, expected %lld %.17g %.17g", isa,
          info->name, tide_dtype_name((tide_dtype)a->compute), tide_dtype_name((tide_dtype)a->dtype[0]), (long long)i,
          (long long)a->numel, (long long)got.i, got.re, got.im, (long long)want.i, want.re, want.im);
    wrong += !right;
    memcpy(p, t->before + (p - t->room[0].all), (size_t)item);
  }
  if (!wrong)
    CHECK(!memcmp(t->before, t->room[0].all, t->room[0].bytes), "%s %s wrote outside its elements", isa, info->name);
}

static void run_trial(int op, int type, const char *isa) {
  trial t;
  memset(&t, 0, sizeof t);
  tide_elementwise_args *a = &t.a;
  const tide_op_info *info = tide_op_get((tide_op)op);
  t.test = is_test(info), t.rounded = is_rounded(info);
  a->head.device = TIDE_CPU, a->op = op, a->compute = computes[type], a->operands = info->operands + 1;
  a->ndim = random_size(a->size);
  bool flat = below(3) == 0;
  if (flat) a->size[0] = numel_of(a->size, a->ndim), a->ndim = 1;
  a->flat = flat, a->numel = numel_of(a->size, a->ndim);
  for (int k = 0; k < 3; k++) a->param[k] = plain_value(a->compute);
  for (int k = 1; k < a->operands; k++) make_operand(&t, k, flat);
  make_output(&t, flat);
  CHECK(tide__cpu_elementwise(NULL, a) == TIDE_OK, "%s: %s", info->name, tide_error_get()->message);
  check_trial(&t, isa);
  for (int k = 0; k < a->operands; k++) free(t.room[k].all);
  free(t.before);
}

static void test_elementwise(const char *isa, int repeats) {
  for (int op = 0; op < TIDE_OP_COUNT; op++)
    for (int type = 0; type < TIDE_CTYPES; type++) {
      bool there = tide__isa_get()->op[op][type] || tide__isa_base.op[op][type];
      CHECK(!reference[op][type] == !there, "%s: other dtypes", tide_op_get((tide_op)op)->name);
      for (int r = 0; r < repeats && reference[op][type]; r++) run_trial(op, type, isa);
    }
}

/* The output may be an input. */
static void test_in_place(void) {
  enum { N = 5003 };
  float x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 2;
  tide_elementwise_args a = {.head = {.ptr = {x, x, y}},
                             .op = TIDE_OP_add,
                             .operands = 3,
                             .compute = TIDE_FLOAT32,
                             .flat = 1,
                             .ndim = 1,
                             .dtype = {TIDE_FLOAT32, TIDE_FLOAT32, TIDE_FLOAT32},
                             .numel = N,
                             .size = {N},
                             .stride = {{1}, {1}, {1}}};
  CHECK(tide__cpu_elementwise(NULL, &a) == TIDE_OK, "add");
  a.head.ptr[2] = x;
  CHECK(tide__cpu_elementwise(NULL, &a) == TIDE_OK, "add");
  for (int i = 0; i < N; i++) CHECK(x[i] == 2 * (float)(i + 2), "element %d is %g", i, (double)x[i]);
  a.op = TIDE_OP_bitwise_and;
  CHECK(tide__cpu_elementwise(NULL, &a) == TIDE_DTYPE, "bitwise_and of floats");
}

/* What the expressions of op.def do not say: integers that would trap, shifts that are undefined in C. */
static void test_integer_corners(void) {
  CHECK(tide_div_trunc(INT32_MIN, -1) == INT32_MIN && tide_div_floor(INT64_MIN, (int64_t)-1) == INT64_MIN, "wrap");
  CHECK(tide_div_trunc(7, 0) == 0 && tide_div_floor(-7, 0) == 0 && tide_fmod(7, 0) == 0 && tide_remainder(7, 0) == 0,
        "0");
  CHECK(tide_div_trunc(-7, 2) == -3 && tide_div_floor(-7, 2) == -4, "quotients");
  CHECK(tide_fmod(-7, 3) == -1 && tide_remainder(-7, 3) == 2 && tide_remainder(7, -3) == -2, "remainders");
  CHECK(tide_fmod(INT32_MIN, -1) == 0 && tide_abs(INT32_MIN) == INT32_MIN, "smallest");
  CHECK(tide_pow(3, 4) == 81 && tide_pow(2, -1) == 0 && tide_pow(-1, -3) == -1 && tide_pow(0, 0) == 1, "powers");
  CHECK(tide_shl(1, 31) == INT32_MIN && tide_shl(1, 32) == 0 && tide_shl(1, -1) == 0, "shl");
  CHECK(tide_shr(-8, 1) == -4 && tide_shr(-8, 99) == -1 && tide_shr(8, 99) == 0 &&
            tide_shr((int64_t)-1, (int64_t)-1) == -1,
        "shr");
  CHECK(tide_div_floor(1.0, 0.1) == 9 && tide_div_floor(-1.0, 0.3) == -4 && isinf(tide_div_floor(1.0, 0.0)), "floor");
  CHECK(tide_remainder(-5.5f, 2.0f) == 0.5f && tide_remainder(5.5f, -2.0f) == -0.5f, "float remainders");
  CHECK(isnan(tide_max((float)NAN, 1.0f)) && isnan(tide_max(1.0f, (float)NAN)) && tide_fmax((float)NAN, 1.0f) == 1,
        "nan");
}

/* ---- accuracy ---- */

static double ulps(double got, double want, bool single) {
  if (same_double(got, want)) return 0;
  if (!isfinite(got) || !isfinite(want)) return INFINITY;
  double spacing = single ? (double)(nextafterf((float)fabs(want), INFINITY) - (float)fabs(want))
                          : nextafter(fabs(want), INFINITY) - fabs(want);
  return fabs(got - want) / spacing;
}

typedef struct accuracy {
  int op;
  double low, high;
  long double (*exact)(long double);
} accuracy;

static long double exact_erfinv(long double x) {
  long double y = (long double)tide_erfinv_f64((double)x);
  if (!isfinite((double)y)) return y;
  for (int i = 0; i < 2; i++) y -= (erfl(y) - x) / (1.12837916709551257390L * expl(-y * y));
  return y;
}

/* The power series, as far as it serves. */
static long double exact_i0(long double x) {
  long double sum = 1, term = 1, t = x * x / 4;
  if (!(t < 40)) return (long double)tide_i0_f64((double)x);
  for (int k = 1; k < 60; k++) term *= t / k / k, sum += term;
  return sum;
}

static long double exact_ndtri(long double p) {
  long double y = (long double)tide_ndtri_f64((double)p);
  if (!isfinite((double)y)) return y;
  for (int i = 0; i < 2; i++)
    y -= (0.5L * erfcl(-y * 0.70710678118654752440L) - p) / (0.39894228040143267794L * expl(-y * y / 2));
  return y;
}

static void check_accuracy(const accuracy *c, const char *isa, bool single) {
  static const double odd[] = {0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 0.5, -0.5, 1e-30, -1e-30, 1e-42, 1e30, -1e30};
  enum { N = 4096 };
  static _Alignas(64) float f[N];
  static _Alignas(64) double d[N], in[N];
  const char param[48] = {0};
  for (int i = 0; i < N; i++) {
    in[i] = i < 14 ? odd[i] : c->low + (c->high - c->low) * ((double)next_random() * 0x1p-64);
    in[i] = single ? (double)(float)in[i] : in[i];
    f[i] = (float)in[i], d[i] = in[i];
  }
  tide__loop loop = tide__isa_get()->op[c->op][single ? TIDE_C_F32 : TIDE_C_F64];
  void *x = single ? (void *)f : (void *)d;
  loop(x, x, NULL, NULL, param, N / TIDE_BLOCK);
  double worst = 0, where = 0, value = 0;
  for (int i = 0; i < N; i++) {
    double got = single ? (double)f[i] : d[i], want = (double)c->exact((long double)in[i]);
    if (single) want = (double)(float)want;
    double e = ulps(got, want, single);
    if (e > worst) worst = e, where = in[i], value = got;
  }
  CHECK(worst <= 4.5, "%s %s of %s: %.1f ulp at %.17g, got %.17g", isa, tide_op_get((tide_op)c->op)->name,
        single ? "float32" : "float64", worst, where, value);
}

static void test_accuracy(const char *isa) {
  static const accuracy cases[] = {{TIDE_OP_exp, -100, 100, expl},   {TIDE_OP_exp, -1, 1, expl},
                                   {TIDE_OP_exp2, -140, 130, exp2l}, {TIDE_OP_expm1, -3, 3, expm1l},
                                   {TIDE_OP_log, 0, 4, logl},        {TIDE_OP_log, 0, 1e20, logl},
                                   {TIDE_OP_log2, 0, 4, log2l},      {TIDE_OP_log10, 0, 4, log10l},
                                   {TIDE_OP_log1p, -1, 3, log1pl},   {TIDE_OP_sin, -10, 10, sinl},
                                   {TIDE_OP_sin, -1e6, 1e6, sinl},   {TIDE_OP_cos, -10, 10, cosl},
                                   {TIDE_OP_tan, -10, 10, tanl},     {TIDE_OP_asin, -1, 1, asinl},
                                   {TIDE_OP_acos, -1, 1, acosl},     {TIDE_OP_atan, -20, 20, atanl},
                                   {TIDE_OP_sinh, -10, 10, sinhl},   {TIDE_OP_cosh, -10, 10, coshl},
                                   {TIDE_OP_tanh, -10, 10, tanhl},   {TIDE_OP_tanh, -0.5, 0.5, tanhl},
                                   {TIDE_OP_asinh, -10, 10, asinhl}, {TIDE_OP_acosh, 1, 20, acoshl},
                                   {TIDE_OP_atanh, -1, 1, atanhl},   {TIDE_OP_erf, -4, 4, erfl},
                                   {TIDE_OP_erfc, -4, 5, erfcl},     {TIDE_OP_erfinv, -1, 1, exact_erfinv},
                                   {TIDE_OP_sqrt, 0, 1e10, sqrtl},   {TIDE_OP_ndtri, 0.01, 0.99, exact_ndtri}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_accuracy(&cases[i], isa, true);
    if (cases[i].op != TIDE_OP_erfinv) check_accuracy(&cases[i], isa, false);
  }
  static const accuracy bessel = {TIDE_OP_i0, -11.9, 11.9, exact_i0}; /* of which the base loop loses some digits */
  if (strcmp(isa, "base")) check_accuracy(&bessel, isa, true), check_accuracy(&bessel, isa, false);
  static const accuracy gammas[] = {{TIDE_OP_lgamma, 0, 4, lgammal},  {TIDE_OP_lgamma, 0.99, 1.01, lgammal},
                                    {TIDE_OP_lgamma, 4, 40, lgammal}, {TIDE_OP_lgamma, 0, 1e37, lgammal},
                                    {TIDE_OP_lgamma, -2, 0, lgammal}, {TIDE_OP_lgamma, -1e7, 0, lgammal}};
  for (size_t i = 0; i < sizeof gammas / sizeof *gammas; i++) check_accuracy(&gammas[i], isa, true);
  static const accuracy inverses[] = {
      {TIDE_OP_erfinv, -0.9999, 0.9999, exact_erfinv}, /* nearer to 1, and of base, 5.3 ulp */
      {TIDE_OP_erfinv, 0.9998, 0.99995, exact_erfinv},
      {TIDE_OP_erfinv, -1e-7, 1e-7, exact_erfinv},
      {TIDE_OP_ndtri, 0.00005, 0.001, exact_ndtri}};
  for (size_t i = 0; strcmp(isa, "base") && i < sizeof inverses / sizeof *inverses; i++)
    check_accuracy(&inverses[i], isa, false);
}

/* The functions of float32 with vectors of their own, against float64 at every `step`-th number there is: run with 1 as
 * the argument, the test sees all of them. The bounds are in ulp. */
typedef struct span {
  int op;
  double bound;
  double (*exact)(double);
} span;

static double span_ulps(float got, double want) {
  int exponent;
  if (same_double((double)got, want)) return !signbit(got) == !signbit(want) || want != want ? 0 : INFINITY;
  if (isnan(got) || isnan(want)) return INFINITY;
  bool beyond = fabs(want) >= 0x1.fffffep127; /* where either neighbour is right */
  if (isinf(got)) return beyond && !signbit(got) == !signbit(want) ? 0 : INFINITY;
  frexp(want, &exponent);
  return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void check_span(const span *c, const char *isa, uint32_t step) {
  enum { N = 4096 };
  static _Alignas(64) float in[N], out[N];
  const char param[48] = {0};
  double worst = 0, where = 0, value = 0;
  for (uint64_t next = 0; next < (uint64_t)1 << 32;) {
    for (int i = 0; i < N; i++, next += step) in[i] = float_from_bits((uint32_t)next);
    tide__isa_get()->op[c->op][TIDE_C_F32](out, in, NULL, NULL, param, N / TIDE_BLOCK);
    for (int i = 0; i < N; i++) {
      double e = span_ulps(out[i], c->exact((double)in[i]));
      if (e > worst) worst = e, where = (double)in[i], value = (double)out[i];
    }
  }
  CHECK(worst <= c->bound, "%s %s of float32: %.2f ulp at %a, got %a", isa, tide_op_get((tide_op)c->op)->name, worst,
        where, value);
}

static void test_spans(const char *isa, uint32_t step) {
  static const span cases[] = {{TIDE_OP_exp, 1.05, exp}, {TIDE_OP_exp2, 1, exp2}, {TIDE_OP_expm1, 1.5, expm1},
                               {TIDE_OP_log, 1, log},    {TIDE_OP_log2, 2, log2}, {TIDE_OP_sin, 1.45, sin},
                               {TIDE_OP_cos, 1.45, cos}, {TIDE_OP_tanh, 1, tanh}, {TIDE_OP_erf, 1, erf}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_span(&cases[i], isa, step);
}

/* Powers of float32 against float64: every pair of odd values, any bits, and pairs whose power is finite. */
static void test_powers(const char *isa) {
  static const float odd[] = {0,
                              -0.0f,
                              1,
                              -1,
                              2,
                              -2,
                              0.5f,
                              -0.5f,
                              3,
                              -3,
                              2.5f,
                              -2.5f,
                              1e-3f,
                              1e30f,
                              1e-42f,
                              -1e-42f,
                              NAN,
                              INFINITY,
                              -INFINITY,
                              16777217,
                              0x1.fffffep0f,
                              0x1.000002p0f,
                              -0x1.000002p0f,
                              1e9f,
                              -33};
  enum { N = 1 << 18, ODD = sizeof odd / sizeof *odd };
  float *a = aligned_alloc(64, N * sizeof *a), *b = aligned_alloc(64, N * sizeof *b);
  float *out = aligned_alloc(64, N * sizeof *out);
  const char param[48] = {0};
  for (int i = 0; i < N; i++) {
    double base = exp((double)below(1 << 20) / (1 << 16) - 8);
    a[i] = i < ODD * ODD ? odd[i / ODD] : i % 2 ? (float)base : float_from_bits((uint32_t)next_random());
    b[i] = i < ODD * ODD ? odd[i % ODD] : float_from_bits((uint32_t)next_random());
    if (i >= ODD * ODD && i % 2)
      b[i] = (float)(((double)below(1 << 20) / (1 << 19) - 1) * 100 / (0.1 + fabs(log(base))));
  }
  tide__isa_get()->op[TIDE_OP_pow][TIDE_C_F32](out, a, b, NULL, param, N / TIDE_BLOCK);
  for (int i = 0; i < N; i++) {
    double want = pow((double)a[i], (double)b[i]),
           e = span_ulps(out[i], fabs(want) < 0x1p-151 ? copysign(0, want) : want);
    CHECK(e <= 0.51, "%s: pow(%a, %a) is %a, expected %a", isa, (double)a[i], (double)b[i], (double)out[i], want);
  }
  free(a), free(b), free(out);
}

/* fmod, % and // of any two floats, of near multiples and of large quotients: the bits of the expressions. */
#define QUOTIENT_CASES(test, T, U, bits, type)                                                                         \
  static void test(const char *isa) {                                                                                  \
    static const int ops[] = {TIDE_OP_fmod, TIDE_OP_remainder, TIDE_OP_floor_divide};                                  \
    static _Alignas(64) T a[4096], b[4096], got[4096], want[4096];                                                     \
    const char param[48] = {0};                                                                                        \
    for (int round = 0; round < ROUNDS(120, 40); round++) {                                                            \
      for (int i = 0; i < 4096; i++) {                                                                                 \
        U raw = (U)next_random(), other = (U)next_random();                                                            \
        memcpy(&a[i], &raw, sizeof raw), memcpy(&b[i], &other, sizeof other);                                          \
        if (round % 4) b[i] = (T)(1 + below(1000)) / (T)(1 + below(100)) * (below(2) ? 1 : -1);                        \
        if (round % 4 == 1) a[i] = (T)(below(1 << 20) - (1 << 19)) * b[i];                                             \
        if (round % 4 == 2) a[i] = (T)(below(1 << 20) - (1 << 19)) / 64;                                               \
        if (round % 4 == 3) a[i] = (T)(below(1 << bits) << (bits / 2)) * b[i];                                         \
        if (round % 4 && below(3) == 0) a[i] = (T)nextafter((double)a[i], below(2) ? INFINITY : -INFINITY);            \
        if (round % 40 == 3) a[i] = (T)odd_value(TIDE_FLOAT64).re, b[i] = (T)odd_value(TIDE_FLOAT64).re;               \
      }                                                                                                                \
      for (int k = 0; k < 3; k++) {                                                                                    \
        tide__isa_get()->op[ops[k]][type](got, a, b, NULL, param, 4096 / TIDE_BLOCK);                                  \
        reference[ops[k]][type](want, a, b, NULL, param, 4096 / TIDE_BLOCK);                                           \
        for (int i = 0; i < 4096; i++) {                                                                               \
          bool right = want[i] != want[i] ? got[i] != got[i] : !memcmp(&got[i], &want[i], sizeof(T));                  \
          CHECK(right, "%s %s(%a, %a): got %a, expected %a", isa, tide_op_get((tide_op)ops[k])->name, (double)a[i],    \
                (double)b[i], (double)got[i], (double)want[i]);                                                        \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
QUOTIENT_CASES(test_quotients_f32, float, uint32_t, 12, TIDE_C_F32)
QUOTIENT_CASES(test_quotients_f64, double, uint64_t, 30, TIDE_C_F64)

/* Powers written as numbers are those of tensors, within an ulp. */
static void test_number_powers(const char *isa) {
  enum { N = 1000 };
  static float f[N], y[N];
  static double d[N], z[N];
  static const double powers[] = {2, 3, 0.5, -1};
  for (int i = 0; i < N; i++) f[i] = (float)(i % 5 ? plain_value : odd_value)(TIDE_FLOAT32).re, d[i] = (double)f[i];
  for (int k = 0; k < 4; k++)
    for (int wide = 0; wide < 2; wide++) {
      tide_elementwise_args a = {.op = TIDE_OP_pow, .operands = 3, .flat = 1, .ndim = 1, .numel = N, .size = {N}};
      a.compute = wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
      a.head.ptr[0] = wide ? (void *)z : (void *)y, a.head.ptr[1] = wide ? (void *)d : (void *)f;
      a.dtype[0] = a.dtype[1] = a.dtype[2] = (uint8_t)a.compute;
      a.is_number[2] = 1, a.number[2].re = powers[k];
      for (int o = 0; o < 3; o++) a.stride[o][0] = 1;
      CHECK(tide__cpu_elementwise(NULL, &a) == TIDE_OK, "pow");
      for (int i = 0; i < N; i++) {
        double want = pow(d[i], powers[k]), got = wide ? z[i] : (double)y[i];
        if (!wide) want = (double)(float)want;
        bool sign = isnan(want) || want != 0 || !signbit(want) == !signbit(got);
        CHECK(sign && ulps(got, want, !wide) <= 1.5, "%s: %a^%g is %a, expected %a", isa, d[i], powers[k], got, want);
      }
    }
}

static void check_roots(const char *isa, const void *x, void *out, bool wide) {
  const char param[48] = {0};
  tide__loop loops[2] = {tide__isa_get()->op[TIDE_OP_sqrt][wide ? TIDE_C_F64 : TIDE_C_F32],
                         tide__isa_get()->root[wide]};
  for (int k = 0; k < 2; k++) {
    loops[k](out, x, NULL, NULL, param, 1);
    for (int i = 0; i < TIDE_BLOCK; i++) {
      double a = wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
      double got = wide ? ((double *)out)[i] : (double)((float *)out)[i],
             want = wide ? sqrt(a) : (double)sqrtf((float)a);
      if (k && a == 0) want = 0;
      if (k && a == -INFINITY) want = INFINITY;
      bool same = got == want ? !signbit(got) == !signbit(want) : isnan(got) && isnan(want);
      CHECK(same, "%s: root %d of %a is %a, expected %a", isa, k, a, got, want);
    }
  }
}

/* Square roots are rounded rightly: those of all kinds of numbers, and of numbers whose roots are very nearly between
 * two others, such as one that follows or comes before a square. */
static void test_roots(const char *isa) {
  static const float odd[] = {0,         -0.0f,     INFINITY,   -INFINITY, NAN,      -1,      FLT_MIN,   0x1p-149f,
                              0x1p-127f, 0x1p-126f, 0x1.8p-64f, 0x1p-65f,  0x1p-64f, FLT_MAX, 0x1p-100f, 2};
  float x[TIDE_BLOCK], y[TIDE_BLOCK];
  double d[TIDE_BLOCK], z[TIDE_BLOCK];
  for (uint32_t u = 0x3F800000u; u < 0x40800000u; u += 1021 * TIDE_BLOCK) {
    for (uint32_t i = 0; i < TIDE_BLOCK; i++) x[i] = float_from_bits(u + i);
    check_roots(isa, x, y, false);
  }
  for (int round = 0; round < 20000; round++) {
    for (int i = 0; i < TIDE_BLOCK; i++) {
      double base = 1 + (double)below(1 << 26) / (1 << 26);
      d[i] = round % 2 ? base * base : base + (double)below(1 << 20) * 0x1p-52;
      if (round % 4 == 3) d[i] = nextafter(d[i], below(2) ? 0 : INFINITY);
      d[i] = ldexp(d[i], round % 8 < 6 ? below(3) : below(2000) - 1000);
    }
    check_roots(isa, d, z, true);
  }
  for (int alone = 0; alone <= TIDE_BLOCK; alone++) {
    for (int i = 0; i < TIDE_BLOCK; i++)
      x[i] = i == alone || alone == TIDE_BLOCK ? odd[i] : (float)i, d[i] = (double)x[i];
    check_roots(isa, x, y, false);
    check_roots(isa, d, z, true);
  }
}

/* Loops that write around the caches write the same bits. */
static void test_streamed(const char *isa) {
  enum { N = 4096 + TIDE_BLOCK };
  static _Alignas(64) float in[3][N], plain[N], streamed[N];
  const float param[12] = {1.5f, -2, 0.25f};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < N; i++) in[k][i] = (float)(i % 9 ? plain_value : odd_value)(TIDE_FLOAT32).re;
  for (int op = 0; op < TIDE_OP_COUNT; op++) {
    tide__loop loop = tide__isa_get()->op[op][TIDE_C_F32], other = tide__isa_get()->streamed[op];
    if (!other) continue;
    loop(plain, in[0], in[1], in[2], param, N / TIDE_BLOCK);
    other(streamed, in[0], in[1], in[2], param, N / TIDE_BLOCK);
    tide__isa_get()->stream_end();
    CHECK(!memcmp(plain, streamed, sizeof plain), "%s %s differs where it is streamed", isa,
          tide_op_get((tide_op)op)->name);
  }
}

/* Numbers that are 3 apart, or one for all, times rows that overlap, or one for all; what follows the rows stays. */
#define TEST_ROW_PRODUCTS(T, wide)                                                                                     \
  static void test_row_products_##T(const char *isa) {                                                                 \
    enum { ROWS = 5, MOST = 96 };                                                                                      \
    static _Alignas(64) T out[ROWS * MOST + 1], a[3 * ROWS], b[ROWS + MOST];                                           \
    for (int i = 0; i < 3 * ROWS; i++) a[i] = (T)plain_value(TIDE_FLOAT32).re;                                         \
    for (int i = 0; i < ROWS + MOST; i++) b[i] = (T)plain_value(TIDE_FLOAT32).re;                                      \
    for (int k = 0; k < 4 * MOST; k++) {                                                                               \
      const int cols = k % MOST + 1, a_step = k / MOST % 2 * 3, b_step = k / MOST / 2;                                 \
      for (int stream = 0; stream <= (cols * sizeof(T) % 64 == 0 ? 1 : 0); stream++) {                                 \
        bool right = true;                                                                                             \
        for (int i = 0; i <= ROWS * cols; i++) out[i] = -7;                                                            \
        tide__isa_get()->row_products[wide](out, a, a_step, b, b_step, ROWS, cols, stream);                            \
        tide__isa_get()->stream_end();                                                                                 \
        for (int r = 0; r < ROWS; r++)                                                                                 \
          for (int c = 0; c < cols; c++) right &= out[r * cols + c] == a[r * a_step] * b[r * b_step + c];              \
        CHECK(right &&out[ROWS * cols] == -7, "%s row products of " #T " of %d columns, steps %d and %d, stream %d",   \
              isa, cols, a_step, b_step, stream);                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
  }
TEST_ROW_PRODUCTS(float, 0)
TEST_ROW_PRODUCTS(double, 1)

/* Results larger than the caches, at an address that vectors like, and at one that they do not. */
static void test_large(void) {
  enum { N = (8 << 20) + 37 };
  static const int ops[] = {TIDE_OP_mul, TIDE_OP_maximum, TIDE_OP_exp, TIDE_OP_gt};
  float *x = aligned_alloc(64, (N + 64) / 16 * 64), *y = aligned_alloc(64, (N + 64) / 16 * 64);
  for (int i = 0; i < N; i++) x[i] = (float)(i % 8191) / 4096 - 1;
  for (int k = 0; k < 8; k++) {
    int op = ops[k / 2], shift = k % 2;
    float two[TIDE_BLOCK], in[TIDE_BLOCK], want[TIDE_BLOCK];
    for (int i = 0; i < TIDE_BLOCK; i++) two[i] = 0.5f;
    tide_elementwise_args a = {.head = {.ptr = {y + shift, x}},
                               .op = op,
                               .operands = op == TIDE_OP_exp ? 2 : 3,
                               .compute = TIDE_FLOAT32,
                               .flat = 1,
                               .ndim = 1,
                               .dtype = {op == TIDE_OP_gt ? TIDE_BOOL : TIDE_FLOAT32, TIDE_FLOAT32, TIDE_FLOAT32},
                               .is_number = {0, 0, 1},
                               .number = {{0, 0, 0}, {0, 0, 0}, {0, 0.5, 0}},
                               .numel = N - shift,
                               .size = {N - shift}};
    for (int i = 0; i < TIDE_MAX_OPERANDS; i++) a.stride[i][0] = 1;
    const char param[48] = {0};
    CHECK(tide__cpu_elementwise(NULL, &a) == TIDE_OK, "elementwise");
    for (int64_t i = 0; i < N - shift; i += i < N - 4096 ? 1009 : 1) {
      for (int j = 0; j < TIDE_BLOCK; j++) in[j] = x[i];
      tide__isa_get()->op[op][TIDE_C_F32](want, in, two, NULL, param, 1);
      bool right = op == TIDE_OP_gt ? ((uint8_t *)(y + shift))[i] == (x[i] > 0.5f) : y[shift + i] == want[0];
      CHECK(right, "large %s, element %lld", tide_op_get((tide_op)op)->name, (long long)i);
      if (!right) break;
    }
  }
  free(x), free(y);
}

int main(int argc, char **argv) {
  uint32_t step = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 65537;
  fill_reference();
  test_integer_corners();
  test_in_place();
  test_large();
  for (int s = 0; s < 3; s++) {
    if (!tide__isa_set(isa_names[s])) continue;
    test_accuracy(isa_names[s]);
    test_roots(isa_names[s]);
    test_streamed(isa_names[s]);
    test_row_products_float(isa_names[s]), test_row_products_double(isa_names[s]);
    test_quotients_f32(isa_names[s]), test_quotients_f64(isa_names[s]), test_number_powers(isa_names[s]);
    if (!strcmp(isa_names[s], "avx512")) test_powers(isa_names[s]), test_spans(isa_names[s], step ? step : 1);
    test_elementwise(isa_names[s], 3);
  }
  if (failures) printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
