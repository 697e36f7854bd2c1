/* field_test.c: the functions of tide/field.h as a C host calls them, and whatever allocation fails, nothing is kept or
 * lost. The values are the specs'. */
#include "tensor_test.h"

#include "tide/field.h"

static tide_tensor *x, *w, *bias, *grid;

/* x: [1, 2, 3, 4] of 0, 1, ..., and of other strides; w: ones; the grid: the first and the last place. */
static void make(void) {
  tide_options floats = {TIDE_FLOAT32, TIDE_CPU, false};
  tide_tensor *row = NULL, *turned = NULL;
  OK(tide_arange(&row, tide_int(0), tide_int(1), 24, &floats));
  OK(tide_view(&turned, row, (const int64_t[]){1, 4, 3, 2}, 4));
  OK(tide_permute(&x, turned, (const int[]){0, 3, 2, 1}, 4));
  OK(tide_full(&w, (const int64_t[]){1, 2, 2, 2}, 4, tide_int(1), &floats));
  OK(tide_full(&bias, (const int64_t[]){1}, 1, tide_int(100), &floats));
  OK(tide_from_data(&grid, (const double[]){-1, -1, 1, 1}, (const int64_t[]){1, 1, 2, 2}, 4,
                    &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
  tide_tensor *wide = grid;
  OK(tide_to(&grid, wide, &floats, false, false));
  tide_tensor_release(wide);
  tide_tensor_release(row);
  tide_tensor_release(turned);
}

static void drop(void) {
  tide_tensor *const all[] = {x, w, bias, grid};
  for (int i = 0; i < 4; i++) tide_tensor_release(all[i]);
}

enum { FUNCTIONS = 7 };
static const tide_convolution plain = {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, 1, false};
static const tide_pool twos = {{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, true, 0};

static tide_status call(int f, tide_tensor **out, tide_tensor **second) {
  static const int64_t pads[] = {1, 0}, size[] = {3, 4};
  switch (f) {
  case 0: return tide_pad(out, x, pads, 1, TIDE_PAD_CONSTANT, tide_int(7));
  case 1: return tide_max_pool(out, second, x, 2, &twos);
  case 2: return tide_avg_pool(out, x, 2, &twos);
  case 3: return tide_interpolate(out, x, size, NULL, TIDE_INTERPOLATE_LINEAR, true);
  case 4: return tide_interpolate(out, x, size, NULL, TIDE_INTERPOLATE_NEAREST, false);
  case 5: return tide_conv(out, x, w, bias, 2, &plain);
  default: return tide_grid_sample(out, x, grid, TIDE_SAMPLE_BY_LINEAR, TIDE_SAMPLE_ZEROS, true);
  }
}

/* Element i of the result. x is x[c][y][z] = c + 2 * y + 6 * z. */
static void expect(int f, int64_t i, double want) {
  tide_tensor *y = NULL, *z = NULL;
  OK(call(f, &y, &z));
  CHECK(y && flat_at(y, i) == want);
  CHECK(f != 1 || (z && flat_at(z, i) == (double)tide_get_index_base() + 5));
  tide_tensor_release(y);
  tide_tensor_release(z);
}

static void test_values(void) {
  make();
  expect(0, 0, 7);
  expect(0, 1, 0);
  expect(0, 4, 18);
  expect(1, 0, 8);
  expect(2, 0, 4);
  expect(3, 5, 8);
  expect(4, 5, 8);
  expect(5, 0, 100 + 8 * 4 + 4);
  expect(6, 0, 0);
  expect(6, 3, 23);
  drop();
}

static void test_refused(void) {
  make();
  tide_tensor *y = NULL, *whole = NULL;
  tide_pool wrong = twos;
  tide_convolution odd = plain;
  OK(tide_to(&whole, x, &(tide_options){TIDE_INT32, TIDE_CPU, false}, false, false));
  wrong.stride[1] = 0, odd.groups = 3;
  FAILS(TIDE_STATE, tide_conv_transpose(&y, x, NULL, NULL, 2, &plain));
  FAILS(TIDE_ARGUMENT, tide_pad(NULL, x, NULL, 0, TIDE_PAD_CONSTANT, tide_int(0)));
  FAILS(TIDE_ARGUMENT, tide_pad(&y, x, NULL, 0, (tide_pad_mode)4, tide_int(0)));
  FAILS(TIDE_ARGUMENT, tide_max_pool(&y, NULL, x, 4, &twos));
  FAILS(TIDE_VALUE, tide_max_pool(&y, NULL, x, 2, &wrong));
  FAILS(TIDE_DTYPE, tide_avg_pool(&y, whole, 2, &twos));
  FAILS(TIDE_VALUE, tide_conv(&y, x, w, NULL, 2, &odd));
  FAILS(TIDE_SHAPE, tide_conv(&y, x, w, grid, 2, &plain));
  FAILS(TIDE_SHAPE, tide_grid_sample(&y, x, x, TIDE_SAMPLE_BY_LINEAR, TIDE_SAMPLE_ZEROS, true));
  CHECK(y == NULL);
  tide_tensor_release(whole);
  drop();
}

static void test_no_memory(void) {
  make();
  each_allocation_fails(FUNCTIONS, call);
  drop();
}

int main(void) {
  OK(tide_init(NULL));
  test_values();
  test_refused();
  test_no_memory();
  tide_shutdown();
  return finish("field_test");
}
