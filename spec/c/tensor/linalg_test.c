/* linalg_test.c: the functions of tide/linalg.h as a C host calls them: known values, what is refused, and whatever
 * allocation fails, nothing is written, kept or lost. The specs compare the rest. */
#include "tensor_test.h"

#include "tide/linalg.h"

static tide_tensor *matrix_of(const double *values, int64_t rows, int64_t columns, tide_dtype dtype) {
  const int64_t size[] = {rows, columns};
  tide_tensor *wide = NULL, *x = NULL;
  OK(tide_from_data(&wide, values, size, 2, &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
  OK(tide_to(&x, wide, &(tide_options){dtype, TIDE_CPU, false}, false, false));
  tide_tensor_release(wide);
  return x;
}

/* Are its elements, row by row, these? */
static bool is_near(const tide_tensor *x, const double *want, int64_t n) {
  bool same = x && x->numel == n;
  for (int64_t i = 0; same && i < n; i++) same = fabs(flat_at(x, i) - want[i]) < 1e-12;
  return same;
}
#define NEAR(x, ...)                                                                                                   \
  is_near(x, (const double[]){__VA_ARGS__}, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

static tide_tensor *x, *b, *high, *singular, *whole;

static void make(void) {
  x = matrix_of((const double[]){2, 1, 1, 2}, 2, 2, TIDE_FLOAT64);
  b = matrix_of((const double[]){3, 0}, 2, 1, TIDE_FLOAT64);
  high = matrix_of((const double[]){3, 0, 4, 0, 0, 2}, 3, 2, TIDE_FLOAT64);
  singular = matrix_of((const double[]){1, 2, 2, 4}, 2, 2, TIDE_FLOAT64);
  whole = matrix_of((const double[]){1, 2, 2, 4}, 2, 2, TIDE_INT64);
}

static void drop(void) {
  tide_tensor *const all[] = {x, b, high, singular, whole};
  for (int i = 0; i < 5; i++) tide_tensor_release(all[i]);
}

/* Each function, of which the results are out[0] to out[2]; those that are not given stay NULL. */
enum { FUNCTIONS = 14 };
static tide_status call(int f, tide_tensor **out, const tide_tensor *of) {
  switch (f) {
  case 0: return tide_linalg_cholesky(&out[0], of, false, NULL);
  case 1: return tide_linalg_lu_factor(&out[0], &out[1], of);
  case 2: return tide_linalg_solve(&out[0], of, b);
  case 3: return tide_linalg_solve(&out[0], of, NULL);
  case 4: return tide_linalg_triangular_solve(&out[0], of, b, true, true, false);
  case 5: return tide_linalg_qr(&out[0], &out[1], of, true);
  case 6: return tide_linalg_qr(NULL, &out[0], of, false);
  case 7: return tide_linalg_svd(&out[0], &out[1], &out[2], of, true);
  case 8: return tide_linalg_svd(NULL, &out[0], NULL, of, false);
  case 9: return tide_linalg_eigh(&out[0], &out[1], of, false);
  case 10: return tide_linalg_eigh(&out[0], NULL, of, true);
  case 11: return tide_linalg_det(&out[0], NULL, of);
  case 12: return tide_linalg_det(&out[0], &out[1], of);
  default: return tide_linalg_eig(&out[0], &out[1], of);
  }
}

static void release(tide_tensor **out) {
  for (int i = 0; i < 3; i++) tide_tensor_release(out[i]);
  memset(out, 0, 3 * sizeof *out);
}

static void test_values(void) {
  tide_tensor *out[3] = {NULL};
  OK(call(0, out, x));
  CHECK(NEAR(out[0], sqrt(2), 0, sqrt(0.5), sqrt(1.5)));
  release(out);
  OK(call(1, out, x));
  CHECK(NEAR(out[0], 2, 1, 0.5, 1.5) && NEAR(out[1], 1, 2) && out[1]->dtype == TIDE_INT32);
  release(out);
  OK(call(2, out, x));
  CHECK(NEAR(out[0], 2, -1));
  release(out);
  OK(call(3, out, x));
  CHECK(NEAR(out[0], 2.0 / 3, -1.0 / 3, -1.0 / 3, 2.0 / 3));
  release(out);
  OK(call(4, out, x));
  CHECK(NEAR(out[0], 1.5, 0));
  release(out);
  OK(call(8, out, high));
  CHECK(NEAR(out[0], 5, 2));
  release(out);
  OK(call(10, out, x));
  CHECK(NEAR(out[0], 1, 3));
  release(out);
  OK(call(11, out, x));
  CHECK(NEAR(out[0], 3) && out[0]->ndim == 0);
  release(out);
  OK(call(12, out, x));
  CHECK(NEAR(out[0], 1) && NEAR(out[1], log(3)));
  release(out);
  OK(call(11, out, singular));
  CHECK(NEAR(out[0], 0));
  release(out);
  OK(tide_linalg_qr(&out[0], &out[1], high, false));
  CHECK(out[0]->size[1] == 2 && out[1]->size[0] == 2);
  CHECK(fabs(fabs(flat_at(out[1], 0)) - 5) < 1e-12 && flat_at(out[1], 2) == 0);
  release(out);
}

static void test_refused(void) {
  tide_tensor *out[3] = {NULL};
  for (int f = 0; f < FUNCTIONS; f++) {
    FAILS(TIDE_DTYPE, call(f, out, whole));
    FAILS(TIDE_STATE, call(f, out, NULL));
    if (f < 1 || f > 8 || (f >= 2 && f <= 4)) FAILS(TIDE_SHAPE, call(f, out, high));
  }
  FAILS(TIDE_VALUE, call(0, out, singular));
  FAILS(TIDE_VALUE, call(2, out, singular));
  FAILS(TIDE_VALUE, call(3, out, singular));
  FAILS(TIDE_SHAPE, tide_linalg_solve(&out[0], x, high));
  FAILS(TIDE_DTYPE, tide_linalg_solve(&out[0], x, whole));
  FAILS(TIDE_ARGUMENT, tide_linalg_solve(NULL, x, b));
  FAILS(TIDE_ARGUMENT, tide_linalg_lu_factor(&out[0], NULL, x));
  FAILS(TIDE_ARGUMENT, tide_linalg_svd(&out[0], &out[1], NULL, x, true));
  CHECK(!out[0] && !out[1] && !out[2]);
}

static void test_no_memory(void) {
  for (int f = 0; f < FUNCTIONS; f++) {
    tide_tensor *out[3] = {NULL};
    size_t before = tide_memory_cpu_allocated();
    tide_status status = TIDE_MEMORY;
    for (int64_t n = 1; status != TIDE_OK && n < 100; n++) {
      tide__fault_alloc(n);
      status = call(f, out, x);
      tide__fault_alloc(0);
      CHECK(status == TIDE_OK || (status == TIDE_MEMORY && !out[0] && !out[1] && !out[2]));
      release(out);
      tide_memory_pump();
    }
    CHECK(status == TIDE_OK);
    CHECK(tide_memory_cpu_allocated() == before);
  }
}

int main(void) {
  tide_tensor *out[3] = {NULL};
  OK(tide_init(NULL));
  make();
  if (call(0, out, x) == TIDE_LIBRARY) {
    printf("linalg_test: %s\n", tide_error_get()->message);
    return 77;
  }
  release(out);
  test_values();
  test_refused();
  test_no_memory();
  drop();
  tide_shutdown();
  return finish("linalg_test");
}
