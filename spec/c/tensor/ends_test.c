/* ends_test.c: where what core's functions of tensors take ends: the most dims, the last numbers, and results beyond
 * the caches; each with the next call that is refused. */
#include <math.h>

#include "check.h"
#include "lists.h"
#include "tide/fft.h"
#include "tide/field.h"
#include "tide/linalg.h"
#include "tide/scatter.h"

static tide_tensor *x, *v, *e, *i, *d3, *m3, *image;
static tide_tensor *o, *p; /* results */
static const tide_operand one = {.number = {.kind = 'I', .i = 1}};

static tide_tensor *of(tide_dtype dtype, const int64_t *size, int ndim) {
  tide_tensor *t = NULL;
  OK(tide_full(&t, size, ndim, tide_int(1), &(tide_options){dtype, TIDE_CPU, false}));
  return t;
}

/* Results of the most dims there are, and one dim more: what a call with `most` dims makes, the next refuses. */
static void most_dims(void) {
  const int64_t ones[TIDE_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t twos[TIDE_MAX_DIMS] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  tide_tensor *d12 = of(TIDE_INT64, ones, 12), *d11 = of(TIDE_INT64, ones, 11), *c12 = of(TIDE_COMPLEX64, ones, 12);
  tide_tensor *c11 = of(TIDE_COMPLEX64, ones, 11), *two = of(TIDE_FLOAT32, twos, 7), *i2 = of(TIDE_INT64, ones, 2);
  tide_tensor *i3 = of(TIDE_INT64, ones, 3), *f12 = of(TIDE_FLOAT32, ones, 12), *f3 = of(TIDE_FLOAT32, ones, 3);
  tide_tensor *d13[2] = {d12, d12}, *two12 = of(TIDE_UINT8, twos, 12), *two11 = of(TIDE_UINT8, twos, 11);
  tide_tensor *zero = of(TIDE_INT64, ones, 1);
  OK(tide_write(d12, (const int64_t[]){0}));
  OK(tide_write(i2, (const int64_t[]){0}));
  OK(tide_write(i3, (const int64_t[]){0}));
  OK(tide_write(d11, (const int64_t[]){0}));
  OK(tide_write(zero, (const int64_t[]){0}));
#define MAKES(dims, call)                                                                                              \
  do {                                                                                                                 \
    OK(call);                                                                                                          \
    CHECK(o &&tide_tensor_ndim(o) == (dims));                                                                          \
    tide_tensor_release(o), o = NULL;                                                                                  \
  } while (0)
  REFUSES("ShapeError: unfold: too many dims, got 12, expected less than 12", tide_unfold(&o, d12, 0, 1, 1));
  MAKES(12, tide_unfold(&o, d11, 0, 1, 1));
  REFUSES("ShapeError: unsqueeze: too many dims, got 12, expected less than 12", tide_unsqueeze(&o, d12, 0));
  MAKES(12, tide_unsqueeze(&o, d11, 0));
  REFUSES("ShapeError: view_as_real: too many dims, got 12, expected less than 12", tide_view_as_real(&o, c12));
  MAKES(12, tide_view_as_real(&o, c11));
  REFUSES("ShapeError: stack: too many dims, got 12, expected less than 12", tide_stack(&o, d13, 2, 0, NULL));
  MAKES(12, tide_stack(&o, LIST(d11, d11), 2, 0, NULL));
  REFUSES("ShapeError: one_hot: too many dims, got 12, expected at most 11", tide_one_hot(&o, d12, 1));
  MAKES(12, tide_one_hot(&o, d11, 1));
  REFUSES("ShapeError: tile: wrong number of repeats, got 13, expected at most 12",
          tide_tile(&o, d11, SIZE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 13));
  MAKES(12, tide_tile(&o, d11, ones, 12));
  REFUSES("ShapeError: tile: too many dims are repeated, got 14 dims and repeats, expected at most 12 together",
          tide_tile(&o, two, twos, 7));
  MAKES(7, tide_tile(&o, two, (const int64_t[]){1, 1, 2, 2, 2, 2, 2}, 7));
  REFUSES("ShapeError: tile: too many dims are repeated, got 13 dims and repeats, expected at most 12 together",
          tide_tile(&o, two, (const int64_t[]){1, 2, 2, 2, 2, 2, 2}, 7));
  REFUSES("ShapeError: repeat_interleave: too many dims, got 12, expected less than 12",
          tide_repeat_interleave(&o, two12, 2, 3));
  MAKES(11, tide_repeat_interleave(&o, two11, 2, 3));
  REFUSES("ShapeError: index: too many dims in the result, got 13, expected at most 12",
          tide_index_get(&o, f12, 0, i2));
  MAKES(12, tide_index_get(&o, f12, 0, zero));
  REFUSES("ShapeError: index: too many dims in the result, got 13, expected at most 12",
          tide_index_get_many(&o, f12, LIST(i3, i3), 2));
  MAKES(12, tide_index_get_many(&o, f12, LIST(i2, i2), 2));
  REFUSES("ShapeError: index_put: too many dims in the result, got 13, expected at most 12",
          tide_index_put(f12, LIST(i3, i3), 2, &one, false));
  OK(tide_index_put(f12, LIST(i2, i2), 2, &one, false));
  REFUSES("ShapeError: interpolate: x has the wrong number of dims, got 2, expected 3 to 5: batch, channels and up to "
          "three more",
          tide_interpolate(&o, x, SIZE(2, 2), NULL, TIDE_INTERPOLATE_NEAREST, false));
  REFUSES("ShapeError: interpolate: x has the wrong number of dims, got 7, expected 3 to 5: batch, channels and up to "
          "three more",
          tide_interpolate(&o, two, twos, NULL, TIDE_INTERPOLATE_LINEAR, false));
  REFUSES("ShapeError: interpolate: x has the wrong number of dims, got 3, expected 4 for the cubic mode",
          tide_interpolate(&o, f3, twos, NULL, TIDE_INTERPOLATE_CUBIC, false));
  MAKES(3, tide_interpolate(&o, f3, twos, NULL, TIDE_INTERPOLATE_LINEAR, false));
  MAKES(4, tide_interpolate(&o, image, twos, NULL, TIDE_INTERPOLATE_CUBIC, false));
  REFUSES("IndexError: fft: too many dims, got 2 for a tensor of 1",
          tide_fft(&o, TIDE_FFT_FFT, v, DIMS(0, 0), NULL, 2, TIDE_FFT_BACKWARD, NULL, NULL));
  REFUSES("ValueError: rfft: no dims, expected at least one",
          tide_fft(&o, TIDE_FFT_RFFT, v, DIMS(0), NULL, 0, TIDE_FFT_BACKWARD, NULL, NULL));
  for (int k = 0; k < 12; k++)
    tide_tensor_release((tide_tensor *[]){d12, d11, c12, c11, two, i2, i3, f12, f3, two12, two11, zero}[k]);
}

static double at(const tide_tensor *t, int64_t place) {
  tide_tensor *flat = NULL, *element = NULL;
  tide_scalar value = tide_float(NAN);
  const int64_t all = tide_tensor_numel(t);
  OK(tide_reshape(&flat, t, &all, 1));
  OK(tide_select(&element, flat, 0, place));
  OK(tide_item(&value, element));
  tide_tensor_release(flat), tide_tensor_release(element);
  return value.kind == 'F' || value.kind == 'C' ? value.re : (double)value.i;
}

/* The last numbers that a function takes, and what they give; the next ones it refuses. */
static void last_numbers(void) {
  static const tide_operand of_c = {.number = {.kind = 'C', .re = 1}};
  const struct {
    tide_random_kind kind;
    double a, b, value; /* of every element; NAN: any */
  } rows[] = {{TIDE_UNIFORM, 2, 2, 2},      {TIDE_NORMAL, 3, 0, 3},       {TIDE_BERNOULLI, 0, 0, 0},
              {TIDE_BERNOULLI, 1, 0, 1},    {TIDE_RANDINT, 4, 5, 4},      {TIDE_RANDINT, -1, 0, -1},
              {TIDE_LOG_NORMAL, 0, 1, NAN}, {TIDE_EXPONENTIAL, 1, 0, NAN}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    OK(tide_random(x, rows[k].kind, rows[k].a, rows[k].b, NULL));
    for (int64_t n = 0; n < 6; n++) CHECK(isnan(rows[k].value) ? at(x, n) > 0 : at(x, n) == rows[k].value);
  }
  REFUSES("ValueError: uniform: wrong range, got nan to 1, expected finite bounds in order",
          tide_random(x, TIDE_UNIFORM, NAN, 1, NULL));
  REFUSES("ValueError: bernoulli: wrong probability, got -0.5, expected 0 to 1",
          tide_random(x, TIDE_BERNOULLI, -0.5, 0, NULL));
  REFUSES("ValueError: random: wrong bound, got 0.5, expected an integer", tide_random(x, TIDE_RANDINT, 0.5, 3, NULL));
  REFUSES("ValueError: random: wrong bound, got 3.5, expected an integer", tide_random(x, TIDE_RANDINT, 0, 3.5, NULL));
  REFUSES("ValueError: random: wrong bound, got 9.22337e+18, expected an integer",
          tide_random(x, TIDE_RANDINT, 0, 0x1p63, NULL));
  REFUSES("ValueError: random: empty range, got -9223372036854775808 to -9223372036854775808, expected the upper bound "
          "above the lower",
          tide_random(x, TIDE_RANDINT, -0x1p63, -0x1p63, NULL));
  tide_tensor *half = of(TIDE_FLOAT16, SIZE(2), 1); /* holds even numbers alone from 2048 on */
  REFUSES("ValueError: random: float16 holds no number of the range, got 2049 to 2050, expected a longer one",
          tide_random_int(half, 2049, 2050, NULL));
  REFUSES("ValueError: random: float16 holds no number of the range, got -2049 to -2048, expected a longer one",
          tide_random_int(half, -2049, -2048, NULL));
  OK(tide_random_int(half, 2049, 2051, NULL));
  CHECK(at(half, 0) == 2050 && at(half, 1) == 2050);
  tide_tensor_release(half);
  /* The probabilities may be the result, or share a part of it. */
  tide_tensor *line = of(TIDE_FLOAT32, SIZE(4), 1), *low = NULL, *high = NULL;
  OK(tide_write(line, (const float[]){1, 0, 1, 1}));
  OK(tide_bernoulli(line, line, NULL));
  CHECK(at(line, 0) == 1 && at(line, 1) == 0 && at(line, 2) == 1 && at(line, 3) == 1);
  OK(tide_narrow(&low, line, 0, 0, 3));
  OK(tide_narrow(&high, line, 0, 1, 3));
  OK(tide_bernoulli(high, low, NULL));
  CHECK(at(line, 0) == 1 && at(line, 1) == 1 && at(line, 2) == 0 && at(line, 3) == 1);
  tide_tensor_release(line), tide_tensor_release(low), tide_tensor_release(high);
  /* Truth of complex numbers, of either part. */
  tide_tensor *z = of(TIDE_COMPLEX64, SIZE(4), 1);
  OK(tide_write(z, (const float[]){0, 0, 0, 1, 1, 0, 0, 0}));
  const tide_reduction truth[] = {TIDE_COUNT_NONZERO, TIDE_ANY, TIDE_ALL};
  const double wants[] = {2, 1, 0};
  for (int k = 0; k < 3; k++) {
    OK(tide_reduce(&o, truth[k], z, NULL, NULL));
    CHECK(at(o, 0) == wants[k]);
    tide_tensor_release(o), o = NULL;
  }
  tide_tensor_release(z);
  /* Norms of nothing: of order 0 and above they are 0. */
  tide_tensor *nothing = of(TIDE_FLOAT32, SIZE(0), 1);
  for (double order = 0; order < 3; order++) {
    OK(tide_reduce(&o, TIDE_NORM, nothing, &(tide_reduce_options){.dtype = TIDE_DTYPE_NONE, .param = order}, NULL));
    CHECK(at(o, 0) == 0);
    tide_tensor_release(o), o = NULL;
  }
  const double chooses[] = {-1, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++)
    REFUSES("ValueError: norm: nothing to choose from, got size 0 in dim 0 of [0], expected at least one element",
            tide_reduce(&o, TIDE_NORM, nothing, &(tide_reduce_options){.dtype = TIDE_DTYPE_NONE, .param = chooses[k]},
                        NULL));
  tide_tensor_release(nothing);
  /* A complex number beside real tensors. */
  const struct {
    tide_tensor *t;
    tide_dtype single, wide; /* by the default dtype */
  } joins[] = {{v, TIDE_COMPLEX64, TIDE_COMPLEX64},
               {d3, TIDE_COMPLEX128, TIDE_COMPLEX128},
               {i, TIDE_COMPLEX64, TIDE_COMPLEX128},
               {m3, TIDE_COMPLEX64, TIDE_COMPLEX128}};
  for (int wide = 0; wide < 2; wide++) {
    OK(tide_set_default_dtype(wide ? TIDE_FLOAT64 : TIDE_FLOAT32));
    for (int k = 0; k < 4; k++) {
      tide_dtype dtype;
      OK(tide_result_dtype(&dtype, TIDE_OP_add, (tide_operand[]){{.tensor = joins[k].t}, of_c}));
      CHECK(dtype == (wide ? joins[k].wide : joins[k].single));
    }
  }
  OK(tide_set_default_dtype(TIDE_FLOAT32));
  /* No dims, and ranges that begin or end at the last element. */
  OK(tide_fft_shift(&o, x, NULL, 0, false));
  CHECK(tide_tensor_ndim(o) == 2 && at(o, 5) == at(x, 5) && tide_tensor_data(o) != tide_tensor_data(x));
  tide_tensor_release(o), o = NULL;
  const int64_t starts[] = {0, 3, -3, 2, -1}, lengths[] = {3, 0, 3, 1, 1};
  for (int k = 0; k < 5; k++) {
    OK(tide_narrow(&o, x, 1, starts[k], lengths[k]));
    CHECK(tide_tensor_size(o)[1] == lengths[k]);
    tide_tensor_release(o), o = NULL;
  }
  OK(tide_roll(&o, e, SIZE(1), NULL, 1));
  CHECK(tide_tensor_numel(o) == 0 && tide_tensor_size(o)[1] == 3);
  tide_tensor_release(o), o = NULL;
  const int64_t twelve[TIDE_MAX_DIMS] = {1, 2, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1};
  OK(tide_view(&o, x, twelve, 12));
  CHECK(tide_tensor_ndim(o) == 12);
  tide_tensor_release(o), o = NULL;
  OK(tide_unflatten(&o, x, 1, twelve + 2, 10));
  CHECK(tide_tensor_ndim(o) == 11);
  tide_tensor_release(o), o = NULL;
  OK(tide_unflatten(&o, v, 0, (const int64_t[]){1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 12));
  CHECK(tide_tensor_ndim(o) == 12 && tide_tensor_size(o)[2] == 3);
  tide_tensor_release(o), o = NULL;
  REFUSES("StateError: neg: x is missing, got none, expected a tensor", tide_unary(&o, TIDE_OP_neg, NULL, NULL));
  REFUSES("StateError: unary: x is missing, got none, expected a tensor", tide_unary(&o, TIDE_OP_COUNT, NULL, NULL));
  REFUSES("StateError: add: a is missing, got none, expected a tensor", tide_binary(&o, TIDE_OP_add, NULL, x, NULL));
  REFUSES("StateError: binary: b is missing, got none, expected a tensor",
          tide_binary(&o, TIDE_OP_COUNT, x, NULL, NULL));
  const tide_dtype narrow[] = {TIDE_FLOAT16, TIDE_BFLOAT16, TIDE_INT64};
  for (int k = 0; k < 3; k++) {
    char text[160];
    tide_tensor *square = of(narrow[k], SIZE(2, 2), 2);
    snprintf(text, sizeof text,
             "DtypeError: qr: dtype of x not accepted, got %s, expected float32, float64 or a complex dtype",
             tide_dtype_name(narrow[k]));
    REFUSES(text, tide_linalg_qr(&o, &p, square, false));
    tide_tensor_release(square);
  }
}

/* Results beyond the caches are written around them, in pieces, rows and steps that end in the middle of a vector. */
static void large_results(void) {
  enum { N = (16 << 20) / 4 + 37 };
  const int64_t n = N, sizes[2] = {1031, 4099};
  const tide_options wide = {TIDE_FLOAT64, TIDE_CPU, false}, whole = {TIDE_INT32, TIDE_CPU, false};
  tide_tensor *a = NULL, *b = NULL, *other = NULL;
  float *values = malloc(sizeof *values * (N + 1));
  if (!values) return;
  for (int64_t k = 0; k <= N; k++) values[k] = (float)(k % 8191) - 4000;
  OK(tide_empty(&a, &n, 1, NULL));
  OK(tide_write(a, values));
  OK(tide_empty(&b, (const int64_t[]){N + 1}, 1, NULL));
  for (int64_t shift = 0; shift < 2; shift++) { /* aligned for whole lines, and not */
    tide_tensor *into = NULL;
    OK(tide_fill(b, tide_float(7)));
    OK(tide_narrow(&into, b, 0, shift, N));
    const float *got = tide_tensor_data(b);
    const struct {
      tide_op op;
      bool binary;
    } ops[] = {
        {TIDE_OP_neg, false}, {TIDE_OP_abs, false}, {TIDE_OP_add, true}, {TIDE_OP_mul, true}, {TIDE_OP_sub, true}};
    for (int k = 0; k < 5; k++) {
      OK(ops[k].binary ? tide_binary(NULL, ops[k].op, a, a, into) : tide_unary(NULL, ops[k].op, a, into));
      int64_t wrong = 0;
      for (int64_t j = 0; j < N; j++) {
        const float own = values[j], want[] = {-own, fabsf(own), own + own, own * own, 0};
        wrong += got[j + shift] != want[k];
      }
      CHECK(wrong == 0 && got[shift ? 0 : N] == 7);
    }
    OK(tide_copy(into, a, false));
    CHECK(!memcmp(got + shift, values, sizeof *values * N) && got[shift ? 0 : N] == 7);
    OK(tide_fill(into, tide_float(3)));
    int64_t wrong = 0;
    for (int64_t j = 0; j < N; j++) wrong += got[j + shift] != 3;
    CHECK(wrong == 0 && got[shift ? 0 : N] == 7);
    tide_tensor_release(into);
  }
  for (int k = 0; k < 2; k++) { /* conversions on the way */
    int64_t wrong = 0;
    OK(tide_to(&other, a, k ? &whole : &wide, false, true));
    for (int64_t j = 0; j < N; j++)
      wrong += k ? ((const int32_t *)tide_tensor_data(other))[j] != (int32_t)values[j]
                 : ((const double *)tide_tensor_data(other))[j] != (double)values[j];
    CHECK(wrong == 0);
    tide_tensor_release(other), other = NULL;
  }
  tide_tensor_release(b), b = NULL;
  /* Rows with holes, columns, and rows among padding. */
  tide_tensor *field = NULL, *holes = NULL, *turned = NULL, *padded = NULL, *joined = NULL;
  OK(tide_empty(&field, sizes, 2, NULL));
  for (int64_t r = 0; r < sizes[0]; r++)
    for (int64_t k = 0; k < sizes[1]; k++)
      ((float *)tide_tensor_data(field))[r * sizes[1] + k] = values[(r * 7 + k) % N];
  OK(tide_empty(&b, (const int64_t[]){1031, 4101}, 2, NULL));
  OK(tide_fill(b, tide_float(7)));
  OK(tide_narrow(&holes, b, 1, 1, 4099));
  OK(tide_copy(holes, field, false));
  OK(tide_transpose(&turned, field, 0, 1));
  OK(tide_empty(&other, (const int64_t[]){4099, 1031}, 2, NULL));
  OK(tide_copy(other, turned, false));
  OK(tide_pad(&padded, field, SIZE(1, 1), 1, TIDE_PAD_CONSTANT, tide_float(7)));
  OK(tide_cat(&joined, LIST(field, field), 2, 0, NULL));
  const float *in = tide_tensor_data(field), *out = tide_tensor_data(b), *pad = tide_tensor_data(padded);
  const float *columns = tide_tensor_data(other), *twice = tide_tensor_data(joined);
  int64_t wrong = 0;
  for (int64_t r = 0; r < sizes[0]; r++)
    for (int64_t k = -1; k <= sizes[1]; k++) {
      const bool inside = k >= 0 && k < sizes[1];
      const float want = inside ? in[r * sizes[1] + k] : 7;
      wrong += out[r * 4101 + k + 1] != want || pad[r * 4101 + k + 1] != want;
      if (inside) wrong += columns[k * sizes[0] + r] != want;
    }
  CHECK(wrong == 0);
  CHECK(!memcmp(twice, in, sizeof *in * 1031 * 4099) && !memcmp(twice + 1031 * 4099, in, sizeof *in * 1031 * 4099));
  tide_tensor *all[] = {a, b, other, field, holes, turned, padded, joined};
  for (int k = 0; k < 8; k++) tide_tensor_release(all[k]);
  free(values);
}

int main(void) {
  OK(tide_init(NULL));
  x = of(TIDE_FLOAT32, SIZE(2, 3), 2), v = of(TIDE_FLOAT32, SIZE(3), 1), e = of(TIDE_FLOAT32, SIZE(0, 3), 2);
  i = of(TIDE_INT64, SIZE(2), 1), d3 = of(TIDE_FLOAT64, SIZE(3), 1), m3 = of(TIDE_BOOL, SIZE(3), 1);
  image = of(TIDE_FLOAT32, SIZE(1, 1, 4, 4), 4);
  most_dims();
  last_numbers();
  large_results();
  CHECK(!o && !p);
  for (int k = 0; k < 7; k++) tide_tensor_release((tide_tensor *[]){x, v, e, i, d3, m3, image}[k]);
  tide_shutdown();
  return failures != 0;
}
