/* tensor_test.c: the tensor half of core on the CPU, against straightforward loops over indexes.
 *
 * Every operation is checked with operands in adversarial layouts: contiguous, transposed, every other element of a
 * larger tensor, broadcast, offset, 0-d and empty. The reference reads single elements by their strides and computes in
 * double. */
#include "tensor_test.h"

/* ---- dtypes ---- */

static tide_dtype result_of(tide_op op, tide_tensor *a, tide_tensor *b, tide_scalar s) {
  tide_operand in[2] = {{.tensor = a}, {.tensor = b, .number = s}};
  tide_dtype d = TIDE_DTYPE_NONE;
  if (tide_result_dtype(&d, op, in) != TIDE_OK) d = TIDE_DTYPE_NONE;
  return d;
}

static void test_promotion(void) {
  static const struct {
    tide_dtype a, b, result;
  } pairs[] = {{TIDE_UINT8, TIDE_INT8, TIDE_INT16},      {TIDE_BOOL, TIDE_UINT8, TIDE_UINT8},
               {TIDE_INT32, TIDE_FLOAT16, TIDE_FLOAT16}, {TIDE_FLOAT16, TIDE_BFLOAT16, TIDE_FLOAT32},
               {TIDE_INT64, TIDE_FLOAT32, TIDE_FLOAT32}, {TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128},
               {TIDE_INT8, TIDE_INT64, TIDE_INT64},      {TIDE_UINT8, TIDE_INT32, TIDE_INT32}};
  int64_t two = 2;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    tide_tensor *a = made(&two, 1, pairs[i].a), *b = made(&two, 1, pairs[i].b), *zero = made(NULL, 0, pairs[i].b);
    CHECK(result_of(TIDE_OP_add, a, b, tide_int(0)) == pairs[i].result);
    CHECK(result_of(TIDE_OP_add, b, a, tide_int(0)) == pairs[i].result);
    tide_dtype weak = tide_dtype_kind(pairs[i].b) == tide_dtype_kind(pairs[i].a) ? pairs[i].a : TIDE_DTYPE_NONE;
    if (weak != TIDE_DTYPE_NONE) CHECK(result_of(TIDE_OP_add, a, zero, tide_int(0)) == weak);
    tide_tensor_release(a), tide_tensor_release(b), tide_tensor_release(zero);
  }
  tide_tensor *i8 = made(&two, 1, TIDE_INT8), *h = made(&two, 1, TIDE_FLOAT16), *b = made(&two, 1, TIDE_BOOL);
  tide_tensor *f64 = made(NULL, 0, TIDE_FLOAT64);
  CHECK(result_of(TIDE_OP_add, i8, NULL, tide_int(1000)) == TIDE_INT8);
  CHECK(result_of(TIDE_OP_add, i8, NULL, tide_float(1)) == TIDE_FLOAT32);
  CHECK(result_of(TIDE_OP_mul, h, NULL, tide_float(1)) == TIDE_FLOAT16);
  CHECK(result_of(TIDE_OP_mul, b, NULL, tide_int(1)) == TIDE_INT64);
  CHECK(result_of(TIDE_OP_mul, h, f64, tide_int(0)) == TIDE_FLOAT16);
  CHECK(result_of(TIDE_OP_mul, i8, f64, tide_int(0)) == TIDE_FLOAT64);
  CHECK(result_of(TIDE_OP_div, i8, i8, tide_int(0)) == TIDE_FLOAT32);
  CHECK(result_of(TIDE_OP_lt, i8, h, tide_int(0)) == TIDE_BOOL);
  CHECK(result_of(TIDE_OP_sub, b, i8, tide_int(0)) == TIDE_DTYPE_NONE);
  CHECK(result_of(TIDE_OP_bitwise_and, h, i8, tide_int(0)) == TIDE_DTYPE_NONE);
  tide_tensor_release(i8), tide_tensor_release(h), tide_tensor_release(b), tide_tensor_release(f64);
}

/* ---- elementwise ---- */

static double reference(tide_op op, double a, double b) {
  switch (op) {
  case TIDE_OP_add: return a + b;
  case TIDE_OP_mul: return a * b;
  case TIDE_OP_div: return a / b;
  case TIDE_OP_floor_divide: return floor(a / b);
  case TIDE_OP_maximum: return fmax(a, b);
  case TIDE_OP_lt: return a < b;
  case TIDE_OP_eq: return a == b;
  default: return NAN;
  }
}

static void check_binary(tide_op op, const tide_tensor *a, const tide_tensor *b, const tide_tensor *r) {
  bool same = true;
  tide_dtype d = (tide_dtype)r->dtype;
  for (int64_t i = 0; i < r->numel && same; i++) {
    int64_t index[TIDE_MAX_DIMS];
    unravel(index, r, i);
    double expected = reference(op, broadcast_at(a, index, r->ndim), broadcast_at(b, index, r->ndim));
    if (d == TIDE_BOOL) expected = expected != 0;
    same = close_to(at(r, index), expected, d == TIDE_FLOAT16 || d == TIDE_BFLOAT16 ? 1e-2 : 1e-6);
  }
  CHECK(same);
}

static void test_binary_layouts(void) {
  static const tide_op ops[] = {TIDE_OP_add,     TIDE_OP_mul, TIDE_OP_div, TIDE_OP_floor_divide,
                                TIDE_OP_maximum, TIDE_OP_lt,  TIDE_OP_eq};
  static const struct {
    int64_t a[3], b[3];
    int na, nb;
  } shapes[] = {{{3, 4, 5}, {3, 4, 5}, 3, 3}, {{3, 1, 5}, {4, 1}, 3, 2}, {{4}, {3, 4}, 1, 2},
                {{2, 3}, {0}, 2, 0},          {{0, 3}, {3}, 2, 1},       {{1}, {1, 1}, 1, 2}};
  static const tide_dtype dtypes[][2] = {{TIDE_FLOAT32, TIDE_FLOAT32},   {TIDE_INT8, TIDE_FLOAT64},
                                         {TIDE_INT32, TIDE_INT64},       {TIDE_FLOAT16, TIDE_INT16},
                                         {TIDE_BFLOAT16, TIDE_BFLOAT16}, {TIDE_INT16, TIDE_INT8}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (int layout = 0; layout < LAYOUTS * LAYOUTS; layout++) {
        tide_tensor *a = laid_out(shapes[s].a, shapes[s].na, dtypes[t][0], layout % LAYOUTS, 1);
        tide_tensor *b = laid_out(shapes[s].b, shapes[s].nb, dtypes[t][1], layout / LAYOUTS, 5), *r = NULL;
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
          OK(tide_binary(&r, ops[o], a, b, NULL));
          check_binary(ops[o], a, b, r);
          tide_tensor_release(r);
        }
        tide_tensor_release(a), tide_tensor_release(b);
      }
}

static void test_numbers_and_into(void) {
  int64_t size[2] = {3, 4};
  tide_tensor *x = laid_out(size, 2, TIDE_FLOAT32, 0, 0), *y = NULL, *into = laid_out(size, 2, TIDE_FLOAT64, 1, 0);
  tide_operand in[3] = {{.tensor = NULL, .number = tide_int(2)}, {.tensor = x}};
  OK(tide_elementwise(&y, TIDE_OP_sub, in, NULL, NULL));
  CHECK(y->dtype == TIDE_FLOAT32 && flat_at(y, 5) == 2 - flat_at(x, 5));
  OK(tide_elementwise(NULL, TIDE_OP_sub, in, NULL, into));
  CHECK(flat_at(into, 7) == 2 - flat_at(x, 7));
  tide_scalar alpha = tide_float(3);
  in[0] = (tide_operand){.tensor = x}, in[1] = (tide_operand){.tensor = x};
  OK(tide_elementwise(NULL, TIDE_OP_add_scaled, in, &alpha, y));
  CHECK(flat_at(y, 2) == 4 * flat_at(x, 2));
  OK(tide_elementwise(NULL, TIDE_OP_add_scaled, in, &alpha, x)); /* in place */
  CHECK(flat_at(y, 2) == flat_at(x, 2));
  tide_tensor *bytes = laid_out(size, 2, TIDE_UINT8, 0, 0), *wide = laid_out(size, 2, TIDE_INT32, 2, 0), *q = NULL;
  OK(tide_fill(bytes, tide_int(200)));
  OK(tide_binary(NULL, TIDE_OP_add, bytes, bytes, wide)); /* wraps as uint8 before it is widened */
  CHECK(flat_at(wide, 3) == 144);
  OK(tide_binary(NULL, TIDE_OP_lt, x, y, wide)); /* a test into a number */
  CHECK(flat_at(wide, 0) == (flat_at(x, 0) < flat_at(y, 0)));
  tide_scalar bounds[2] = {tide_float(-0.5), tide_int(1)};
  in[0] = (tide_operand){.tensor = wide};
  OK(tide_elementwise(&q, TIDE_OP_clamp, in, bounds, NULL));
  CHECK(q->dtype == TIDE_FLOAT32);
  tide_tensor_release(q);
  tide_tensor *flags = NULL, *inverse = NULL;
  OK(tide_binary(&flags, TIDE_OP_lt, x, y, NULL));
  OK(tide_unary(&inverse, TIDE_OP_bitwise_not, flags, NULL));
  CHECK(inverse->dtype == TIDE_BOOL && flat_at(inverse, 1) == !flat_at(flags, 1));
  tide_operand w[3] = {{.tensor = into}, {.tensor = x}, {.tensor = NULL, .number = tide_int(7)}};
  CHECK(tide_elementwise(&q, TIDE_OP_where, w, NULL, NULL) == TIDE_DTYPE); /* a condition is bool */
  w[0].tensor = x, w[2].tensor = x;
  CHECK(tide_elementwise(&q, TIDE_OP_where, w, NULL, NULL) == TIDE_DTYPE);
  w[0].tensor = flags, w[2].tensor = NULL;
  OK(tide_elementwise(&q, TIDE_OP_where, w, NULL, NULL));
  CHECK(q->dtype == TIDE_FLOAT32 && flat_at(q, 4) == (flat_at(flags, 4) != 0 ? flat_at(x, 4) : 7));
  tide_tensor *all[] = {x, y, into, bytes, wide, q, flags, inverse};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tide_tensor_release(all[i]);
}

static void test_overlap(void) {
  tide_tensor *x = counted(10, TIDE_INT64), *low = NULL, *high = NULL, *t = NULL;
  OK(tide_narrow(&low, x, 0, 0, 9));
  OK(tide_narrow(&high, x, 0, 1, 9));
  OK(tide_binary(NULL, TIDE_OP_add, high, low, high));
  for (int64_t i = 1; i < 10; i++) CHECK(flat_at(x, i) == (double)(2 * i - 1));
  OK(tide_copy(high, low, false)); /* a shift by one */
  CHECK(flat_at(x, 1) == 0 && flat_at(x, 2) == 1 && flat_at(x, 9) == 15);
  tide_tensor_release(low), tide_tensor_release(high), tide_tensor_release(x);
  int64_t size[2] = {3, 3};
  x = counted_as(size, 2, TIDE_FLOAT32);
  OK(tide_transpose(&t, x, 0, 1));
  OK(tide_binary(NULL, TIDE_OP_add, x, t, x)); /* x + x^T in place */
  CHECK(flat_at(x, 1) == 4 && flat_at(x, 3) == 4 && flat_at(x, 5) == 12);
  tide_tensor_release(x), tide_tensor_release(t);
}

/* ---- copies ---- */

static double cast_to(double v, tide_dtype d) {
  char kind = tide_dtype_kind(d);
  if (kind == 'B') return v != 0;
  if (kind == 'I') return trunc(v);
  if (kind == 'U') return (double)(uint8_t)(int64_t)v;
  return v;
}

static void test_copy_pairs(void) {
  int64_t size[3] = {2, 3, 4};
  for (int from = 0; from < TIDE_DTYPE_COUNT; from++)
    for (int to = 0; to < TIDE_DTYPE_COUNT; to++)
      for (int layout = 0; layout < LAYOUTS * LAYOUTS; layout++) {
        tide_tensor *a = laid_out(size, 3, (tide_dtype)from, layout % LAYOUTS, 2);
        tide_tensor *b = laid_out(size, 3, (tide_dtype)to, layout / LAYOUTS, 0);
        OK(tide_copy(b, a, false));
        bool same = true;
        for (int64_t i = 0; i < 24; i++) same &= flat_at(b, i) == cast_to(flat_at(a, i), (tide_dtype)to);
        CHECK(same);
        tide_tensor_release(a), tide_tensor_release(b);
      }
}

static void test_copy_more(void) {
  int64_t size[2] = {3, 4}, row = 4;
  tide_tensor *x = laid_out(size, 2, TIDE_FLOAT32, 1, 0), *line = counted(row, TIDE_INT32), *y = NULL, *z = NULL;
  OK(tide_copy(x, line, false));
  for (int64_t i = 0; i < 12; i++) CHECK(flat_at(x, i) == (double)(i % 4));
  OK(tide_clone(&y, x));
  CHECK(!y->contiguous && tide_tensor_stride(y)[0] == 1); /* the layout is kept */
  OK(tide_contiguous(&z, y));
  CHECK(z->contiguous && z != y && flat_at(z, 5) == flat_at(x, 5));
  tide_tensor *same = NULL;
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  OK(tide_to(&same, z, &o, false, false));
  CHECK(same == z);
  float host[12];
  OK(tide_read(host, x));
  CHECK(host[5] == 1 && host[11] == 3);
  host[5] = 42;
  OK(tide_write(x, host));
  CHECK(flat_at(x, 5) == 42);
  tide_scalar s;
  tide_tensor *one = NULL;
  OK(tide_select(&one, line, 0, -1));
  OK(tide_item(&s, one));
  CHECK(s.kind == 'I' && s.i == 3);
  FAILS(TIDE_SHAPE, tide_item(&s, line));
  OK(tide_fill(x, tide_float(-2.5)));
  CHECK(flat_at(x, 0) == -2.5 && flat_at(x, 11) == -2.5);
  FAILS(TIDE_VALUE, tide_fill(line, tide_int(INT64_C(1) << 40)));
  FAILS(TIDE_VALUE, tide_fill(line, tide_float(NAN)));
  FAILS(TIDE_SHAPE, tide_copy(line, x, false));
  tide_tensor *all[] = {x, line, y, z, same, one};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tide_tensor_release(all[i]);
}

static void test_conversions(void) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = tide__from_half((uint16_t)h), b = tide__from_bfloat16((uint16_t)h);
    bool same = isnan(f) ? isnan(tide__from_half(tide__to_half(f))) : tide__to_half(f) == h;
    same = same && (isnan(b) ? isnan(tide__from_bfloat16(tide__to_bfloat16(b))) : tide__to_bfloat16(b) == h);
    if (!same) CHECK(same);
  }
  CHECK(tide__to_half(65519.0f) == 0x7bff && tide__to_half(65520.0f) == 0x7c00);
  CHECK(tide__to_half(0x1p-25f) == 0 && tide__to_half(0x1.8p-25f) == 1 && tide__to_half(0x1.002p0f) == 0x3c00);
  CHECK(tide__to_half(0x1.006p0f) == 0x3c02 && tide__to_bfloat16(3.4e38f) == 0x7f80);
}

/* ---- factories ---- */

static void release_count(void *user) { ++*(int *)user; }

static void test_factories(void) {
  int64_t size[2] = {2, 3}, stride[2] = {1, 2};
  tide_tensor *x = NULL, *y = NULL;
  tide_options o = TIDE_OPTIONS;
  OK(tide_full(&x, size, 2, tide_int(7), &o));
  CHECK(x->dtype == TIDE_INT64 && flat_at(x, 5) == 7);
  tide_tensor_release(x);
  OK(tide_full(&x, size, 2, tide_bool(true), NULL));
  CHECK(x->dtype == TIDE_BOOL);
  tide_tensor_release(x);
  OK(tide_empty_strided(&x, size, stride, 2, &o));
  OK(tide_empty_like(&y, x, NULL));
  CHECK(y->stride[0] == 1 && y->stride[1] == 2 && y->dtype == TIDE_FLOAT32);
  tide_tensor_release(x), tide_tensor_release(y);
  OK(tide_arange(&x, tide_float(0.5), tide_int(-2), 3, NULL));
  CHECK(x->dtype == TIDE_FLOAT32 && flat_at(x, 2) == -3.5);
  tide_tensor_release(x);
  o.dtype = TIDE_FLOAT64;
  OK(tide_linspace(&x, 0, 1, 11, &o));
  CHECK(flat_at(x, 0) == 0 && flat_at(x, 10) == 1 && close_to(flat_at(x, 3), 0.3, 1e-15));
  tide_tensor_release(x);
  o.dtype = TIDE_INT32;
  OK(tide_linspace(&x, 0, 10, 4, &o));
  CHECK(flat_at(x, 1) == 3 && flat_at(x, 3) == 10);
  tide_tensor_release(x);
  OK(tide_eye(&x, 3, 5, NULL));
  for (int64_t i = 0; i < 15; i++) CHECK(flat_at(x, i) == (i / 5 == i % 5));
  tide_tensor_release(x);
  double memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  o.dtype = TIDE_FLOAT64;
  OK(tide_from_ptr(&x, memory, size, stride, 2, &o, release_count, &released));
  OK(tide_select(&y, x, 0, 1));
  tide_tensor_release(x);
  CHECK(released == 0 && flat_at(y, 2) == 5);
  tide_tensor_release(y);
  CHECK(released == 1);
  OK(tide_from_data(&x, memory, size, 2, &o));
  CHECK(flat_at(x, 4) == 4);
  tide_tensor_release(x);
  int64_t bad[2] = {2, -1}, huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 1},
          big[2] = {INT64_C(1) << 30, INT64_C(1) << 30};
  FAILS(TIDE_VALUE, tide_empty(&x, bad, 2, NULL));
  FAILS(TIDE_MEMORY, tide_empty(&x, huge, 3, NULL));
  FAILS(TIDE_MEMORY, tide_empty(&x, big, 2, NULL));
  FAILS(TIDE_SHAPE, tide_empty(&x, huge, TIDE_MAX_DIMS + 1, NULL));
  FAILS(TIDE_VALUE, tide_arange(&x, tide_int(0), tide_int(1), -1, NULL));
  o.dtype = TIDE_BOOL;
  FAILS(TIDE_DTYPE, tide_arange(&x, tide_int(0), tide_int(1), 3, &o));
  o.dtype = TIDE_UINT8;
  FAILS(TIDE_VALUE, tide_full(&x, size, 2, tide_int(300), &o));
}

/* ---- views ---- */

/* The view has this size, and element i of it is values[i] of a counted tensor. */
static void check_view(tide_status status, tide_tensor *v, const int64_t *size, int ndim, const double *values) {
  report(status == TIDE_OK, __FILE__, __LINE__, "a view is made");
  if (status != TIDE_OK) return;
  bool same = v->ndim == ndim && memcmp(v->size, size, (size_t)ndim * sizeof *size) == 0;
  for (int64_t i = 0; same && i < v->numel; i++) same = flat_at(v, i) == values[i];
  CHECK(same);
  tide_tensor_release(v);
}
#define SIZES(...) (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define VALUES(...)                                                                                                    \
  (double[]) { __VA_ARGS__ }
#define VIEW(call, sizes, values)                                                                                      \
  do {                                                                                                                 \
    tide_status status_ = (call);                                                                                      \
    check_view(status_, v, sizes, values);                                                                             \
  } while (0)

static void test_views(void) {
  tide_tensor *x = counted_as(SIZES(2, 3), TIDE_INT32), *v = NULL;
  VIEW(tide_select(&v, x, 0, 1), SIZES(3), VALUES(3, 4, 5));
  VIEW(tide_select(&v, x, -1, -1), SIZES(2), VALUES(2, 5));
  VIEW(tide_narrow(&v, x, 1, 1, 2), SIZES(2, 2), VALUES(1, 2, 4, 5));
  VIEW(tide_narrow(&v, x, 1, 3, 0), SIZES(2, 0), VALUES(0));
  VIEW(tide_slice(&v, x, 1, 0, -1, 2), SIZES(2, 2), VALUES(0, 2, 3, 5));
  VIEW(tide_slice(&v, x, 1, 2, 1, 1), SIZES(2, 0), VALUES(0));
  VIEW(tide_slice(&v, x, 1, 3, 2, 1), SIZES(2, 0), VALUES(0));
  VIEW(tide_slice(&v, x, 1, -2, -1, 1), SIZES(2, 2), VALUES(1, 2, 4, 5));
  VIEW(tide_transpose(&v, x, 0, 1), SIZES(3, 2), VALUES(0, 3, 1, 4, 2, 5));
  VIEW(tide_view(&v, x, SIZES(3, -1)), SIZES(3, 2), VALUES(0, 1, 2, 3, 4, 5));
  VIEW(tide_unsqueeze(&v, x, 1), SIZES(2, 1, 3), VALUES(0, 1, 2, 3, 4, 5));
  VIEW(tide_unsqueeze(&v, x, -1), SIZES(2, 3, 1), VALUES(0, 1, 2, 3, 4, 5));
  VIEW(tide_expand(&v, x, SIZES(2, -1, 3)), SIZES(2, 2, 3), VALUES(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  VIEW(tide_diagonal(&v, x, 1, 0, 1), SIZES(2), VALUES(1, 5));
  VIEW(tide_diagonal(&v, x, -1, 0, 1), SIZES(1), VALUES(3));
  VIEW(tide_diagonal(&v, x, 5, 0, 1), SIZES(0), VALUES(0));
  VIEW(tide_unfold(&v, x, 1, 2, 1), SIZES(2, 2, 2), VALUES(0, 1, 1, 2, 3, 4, 4, 5));
  VIEW(tide_as_strided(&v, x, (int64_t[]){2, 2}, (int64_t[]){1, 2}, 2, 1), SIZES(2, 2), VALUES(1, 3, 2, 4));
  VIEW(tide_unflatten(&v, x, 1, SIZES(-1, 1)), SIZES(2, 3, 1), VALUES(0, 1, 2, 3, 4, 5));
  VIEW(tide_flatten(&v, x, 0, -1), SIZES(6), VALUES(0, 1, 2, 3, 4, 5));
  VIEW(tide_movedim(&v, x, (int[]){0}, (int[]){1}, 1), SIZES(3, 2), VALUES(0, 3, 1, 4, 2, 5));
  VIEW(tide_tile(&v, x, SIZES(2, 1, 2)), SIZES(2, 2, 6),
       VALUES(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  VIEW(tide_repeat_interleave(&v, x, 2, 0), SIZES(4, 3), VALUES(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  VIEW(tide_flip(&v, x, (int[]){0, 1}, 2), SIZES(2, 3), VALUES(5, 4, 3, 2, 1, 0));
  VIEW(tide_flip(&v, x, (int[]){1}, 1), SIZES(2, 3), VALUES(2, 1, 0, 5, 4, 3));
  VIEW(tide_roll(&v, x, (int64_t[]){1}, NULL, 1), SIZES(2, 3), VALUES(5, 0, 1, 2, 3, 4));
  VIEW(tide_roll(&v, x, (int64_t[]){1, -1}, (int[]){0, 1}, 2), SIZES(2, 3), VALUES(4, 5, 3, 1, 2, 0));
  VIEW(tide_rot90(&v, x, 1, 0, 1), SIZES(3, 2), VALUES(2, 5, 1, 4, 0, 3));
  VIEW(tide_rot90(&v, x, 2, 0, 1), SIZES(2, 3), VALUES(5, 4, 3, 2, 1, 0));
  VIEW(tide_rot90(&v, x, -1, 0, 1), SIZES(3, 2), VALUES(3, 0, 4, 1, 5, 2));
  tide_tensor_release(x);
}

static void test_reshape(void) {
  tide_tensor *x = counted_as(SIZES(2, 3, 4), TIDE_INT32), *t = NULL, *v = NULL, *w = NULL;
  OK(tide_transpose(&t, x, 0, 1)); /* [3, 2, 4] */
  FAILS(TIDE_SHAPE, tide_view(&v, t, SIZES(24)));
  OK(tide_view(&v, t, SIZES(3, 2, 2, 2)));
  CHECK(v->storage == x->storage && flat_at(v, 4) == 12);
  OK(tide_reshape(&w, t, SIZES(6, 4)));
  CHECK(w->storage != x->storage && flat_at(w, 4) == 12 && flat_at(w, 8) == 4);
  tide_tensor_release(v), tide_tensor_release(w);
  OK(tide_squeeze(&v, t));
  CHECK(v->ndim == 3);
  tide_tensor_release(v), tide_tensor_release(t), tide_tensor_release(x);
  for (int layout = 0; layout < LAYOUTS;
       layout++) { /* reshape and view agree with row-major order wherever they work */
    x = laid_out((int64_t[]){4, 1, 6}, 3, TIDE_FLOAT32, layout, 3);
    static const int64_t targets[][4] = {{24, 1, 1, 1}, {2, 2, 6, 1}, {4, 2, 3, 1}, {3, 8, 1, 1}, {1, 4, 1, 6}};
    for (int i = 0; i < 5; i++) {
      OK(tide_reshape(&v, x, targets[i], 4));
      bool same = true;
      for (int64_t k = 0; k < 24; k++) same &= flat_at(v, k) == flat_at(x, k);
      CHECK(same);
      tide_tensor_release(v);
    }
    tide_tensor_release(x);
  }
}

static void test_storage_views(void) {
  tide_tensor *x = counted_as(SIZES(2, 4), TIDE_FLOAT32), *v = NULL, *c = NULL, *w = NULL;
  OK(tide_view_as_complex(&v, (c = counted_as(SIZES(3, 2), TIDE_FLOAT64))));
  CHECK(v->dtype == TIDE_COMPLEX128 && v->ndim == 1 && scalar_at(v, (int64_t[]){2}).im == 5);
  OK(tide_imag(&w, v));
  CHECK(w->dtype == TIDE_FLOAT64 && flat_at(w, 1) == 3);
  tide_tensor_release(w);
  OK(tide_view_as_real(&w, v));
  CHECK(w->ndim == 2 && flat_at(w, 4) == 4);
  tide_tensor_release(w), tide_tensor_release(v), tide_tensor_release(c);
  OK(tide_view_dtype(&v, x, TIDE_INT16));
  CHECK(v->size[1] == 8 && v->numel == 16);
  OK(tide_view_dtype(&w, v, TIDE_FLOAT64));
  CHECK(w->size[1] == 2);
  tide_tensor_release(w), tide_tensor_release(v);
  FAILS(TIDE_DTYPE, tide_imag(&v, x));
  int64_t more[2] = {5, 4}, less[1] = {3};
  OK(tide_resize(x, more, 2));
  CHECK(x->numel == 20 && flat_at(x, 7) == 7);
  OK(tide_resize(x, less, 1));
  CHECK(flat_at(x, 2) == 2);
  c = counted(4, TIDE_FLOAT32);
  OK(tide_set(x, c));
  CHECK(tide_tensor_same_view(x, c) && tide_storage_refs(tide_tensor_storage(c)) == 2);
  tide_tensor_release(c), tide_tensor_release(x);
}

static void test_join(void) {
  tide_tensor *a = counted_as(SIZES(2, 3), TIDE_INT32), *b = laid_out((int64_t[]){1, 3}, 2, TIDE_FLOAT32, 1, 0),
              *v = NULL;
  tide_tensor *none = counted(0, TIDE_INT8), *list[3] = {a, none, b};
  OK(tide_cat(&v, list, 3, 0, NULL));
  CHECK(v->dtype == TIDE_FLOAT32 && v->size[0] == 3 && flat_at(v, 5) == 5 && flat_at(v, 7) == flat_at(b, 1));
  tide_tensor *part = NULL;
  OK(tide_narrow(&part, v, 0, 0, 1));
  tide_tensor *again[2] = {part, part}, *top = NULL;
  OK(tide_narrow(&top, v, 0, 0, 2));
  OK(tide_cat(NULL, again, 2, 0, top)); /* the destination overlaps its parts */
  CHECK(flat_at(v, 4) == 1 && flat_at(v, 2) == 2);
  tide_tensor_release(v), tide_tensor_release(part), tide_tensor_release(top);
  tide_tensor *twice[2] = {a, a};
  VIEW(tide_stack(&v, twice, 2, 1, NULL), SIZES(2, 2, 3), VALUES(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  VIEW(tide_cat(&v, twice, 2, -1, NULL), SIZES(2, 6), VALUES(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  FAILS(TIDE_SHAPE, tide_cat(&v, list, 3, 1, NULL));
  FAILS(TIDE_SHAPE, tide_stack(&v, list, 3, 0, NULL));
  FAILS(TIDE_ARGUMENT, tide_cat(&v, list, 0, 0, NULL));
  tide_tensor_release(a), tide_tensor_release(b), tide_tensor_release(none);
}

/* ---- errors ---- */

static void test_errors(void) {
  tide_tensor *x = counted_as(SIZES(2, 3), TIDE_FLOAT32), *y = counted(4, TIDE_FLOAT32),
              *b = made(SIZES(2, 3), TIDE_BOOL);
  tide_tensor *i = counted_as(SIZES(2, 3), TIDE_INT64), *wide = NULL, *v = NULL, *c = made(SIZES(2, 3), TIDE_COMPLEX64);
  FAILS(TIDE_SHAPE, tide_binary(&v, TIDE_OP_add, x, y, NULL));
  FAILS(TIDE_SHAPE, tide_binary(&v, TIDE_OP_add, x, x, y));
  FAILS(TIDE_STATE, tide_binary(&v, TIDE_OP_add, x, NULL, NULL));
  FAILS(TIDE_ARGUMENT, tide_binary(NULL, TIDE_OP_add, x, x, NULL));
  FAILS(TIDE_ARGUMENT, tide_unary(&v, TIDE_OP_clamp, x, NULL));
  FAILS(TIDE_DTYPE, tide_binary(NULL, TIDE_OP_add, i, x, i)); /* float into integers */
  FAILS(TIDE_DTYPE, tide_binary(&v, TIDE_OP_sub, b, b, NULL));
  FAILS(TIDE_DTYPE, tide_unary(&v, TIDE_OP_neg, b, NULL));
  FAILS(TIDE_DTYPE, tide_unary(&v, TIDE_OP_floor, c, NULL));
  FAILS(TIDE_DTYPE, tide_binary(&v, TIDE_OP_bitwise_or, x, x, NULL));
  tide_operand in[2] = {{.tensor = i}, {.tensor = NULL, .number = tide_int(-1)}};
  FAILS(TIDE_VALUE, tide_elementwise(&v, TIDE_OP_pow, in, NULL, NULL));
  in[1].number = tide_int(0);
  FAILS(TIDE_VALUE, tide_elementwise(&v, TIDE_OP_floor_divide, in, NULL, NULL));
  in[0] = in[1];
  FAILS(TIDE_ARGUMENT, tide_elementwise(&v, TIDE_OP_add, in, NULL, NULL));
  OK(tide_expand(&wide, y, SIZES(3, 4)));
  FAILS(TIDE_VALUE, tide_fill(wide, tide_int(0)));
  FAILS(TIDE_VALUE, tide_binary(NULL, TIDE_OP_add, wide, y, wide));
  FAILS(TIDE_INDEX, tide_select(&v, x, 0, 2));
  FAILS(TIDE_INDEX, tide_select(&v, x, 2, 0));
  FAILS(TIDE_INDEX, tide_narrow(&v, x, 0, 1, 2));
  FAILS(TIDE_INDEX, tide_slice(&v, x, 1, 1, 3, 1));
  FAILS(TIDE_VALUE, tide_slice(&v, x, 1, 0, 2, 0));
  FAILS(TIDE_SHAPE, tide_view(&v, x, SIZES(4, 2)));
  FAILS(TIDE_SHAPE, tide_expand(&v, x, SIZES(4, 3)));
  FAILS(TIDE_ARGUMENT, tide_permute(&v, x, (int[]){0, 0}, 2));
  FAILS(TIDE_INDEX, tide_as_strided(&v, x, (int64_t[]){2, 4}, (int64_t[]){3, 1}, 2, 0));
  FAILS(TIDE_DEVICE, tide_full(&v, NULL, 0, tide_int(0), &(tide_options){TIDE_FLOAT32, 0, true}));
  CHECK(v == NULL);
  tide_tensor *all[] = {x, y, b, i, wide, c};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) tide_tensor_release(all[k]);
}

/* Finalisers of two handles of one tensor: each gives back its own reference. */
static void test_deferred(void) {
  size_t before = tide_memory_cpu_allocated();
  tide_tensor *x = counted(100, TIDE_FLOAT32), *y = counted(100, TIDE_FLOAT32);
  tide_tensor_retain(x);
  tide_tensor_release_deferred(x);
  tide_tensor_release_deferred(y);
  tide_tensor_release_deferred(x);
  tide_memory_pump();
  CHECK(tide_memory_cpu_allocated() == before);
}

int main(void) {
  OK(tide_init(NULL));
  size_t before = tide_memory_cpu_allocated();
  test_promotion();
  test_binary_layouts();
  test_numbers_and_into();
  test_overlap();
  test_copy_pairs();
  test_copy_more();
  test_conversions();
  test_factories();
  test_views();
  test_reshape();
  test_storage_views();
  test_join();
  test_errors();
  test_deferred();
  tide_memory_pump();
  CHECK(tide_memory_cpu_allocated() == before);
  tide_tensor *old = counted(3, TIDE_FLOAT32), *v = NULL;
  tide_shutdown();
  FAILS(TIDE_STATE, tide_unary(&v, TIDE_OP_neg, old, NULL));
  FAILS(TIDE_STATE, tide_empty(&v, NULL, 0, NULL));
  tide_tensor_release(old);
  return finish("tensor_test");
}
