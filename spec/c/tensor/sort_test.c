/* sort_test.c: the functions of tide/sort.h as a C host calls them: places count from 0, a result that nobody wants is
 * left out, and whatever allocation fails, nothing is kept or lost. The values are the specs'. */
#include "tensor_test.h"

#include "tide/sort.h"

static tide_tensor *x, *matrix, *line, *order;

static void make(void) {
  x = LINE(TIDE_FLOAT32, 30, 10, 20, 10);
  order = LINE(TIDE_INT64, 1, 3, 2, 0);
  line = LINE(TIDE_FLOAT32, 10, 10, 20, 30);
  OK(tide_reshape(&matrix, x, (const int64_t[]){2, 2}, 2));
}

static void drop(void) {
  tide_tensor *const all[] = {x, matrix, line, order};
  for (int i = 0; i < 4; i++) tide_tensor_release(all[i]);
}

enum { FUNCTIONS = 8 };
static tide_status call(int f, tide_tensor **first, tide_tensor **second) {
  switch (f) {
  case 0: return tide_sort(first, second, x, 0, false);
  case 1: return tide_sort(first, second, matrix, 0, true);
  case 2: return tide_topk(first, second, x, 2, -1, true);
  case 3: return tide_kthvalue(first, second, x, 3, 0, true);
  case 4: return tide_median(first, second, x, 0, false);
  case 5: return tide_searchsorted(first, line, x, true, NULL);
  case 6: return tide_searchsorted(first, x, line, false, order);
  default: return tide_topk(first, second, matrix, 1, 0, false);
  }
}

static void test_values(void) {
  make();
  tide_tensor *y = NULL, *z = NULL;
#define EACH(f, is_y, is_z)                                                                                            \
  OK(call(f, &y, &z));                                                                                                 \
  CHECK(is_y);                                                                                                         \
  CHECK(is_z);                                                                                                         \
  tide_tensor_release(y);                                                                                              \
  tide_tensor_release(z);                                                                                              \
  y = z = NULL
  EACH(0, IS(y, 10, 10, 20, 30), IS(z, 1, 3, 2, 0));
  EACH(1, IS(y, 30, 10, 20, 10), IS(z, 0, 0, 1, 1));
  EACH(2, IS(y, 30, 20), IS(z, 0, 2));
  EACH(3, IS(y, 20), IS(z, 2));
  EACH(4, IS(y, 10) && y->ndim == 0, IS(z, 3));
  EACH(5, IS(y, 4, 2, 3, 2), z == NULL);
  EACH(6, IS(y, 0, 0, 2, 3), z == NULL);
  EACH(7, IS(y, 20, 10), IS(z, 1, 0));
  OK(tide_sort(NULL, &z, x, 0, false));
  CHECK(IS(z, 1, 3, 2, 0));
  OK(tide_sort(&y, NULL, x, 0, false));
  CHECK(IS(y, 10, 10, 20, 30));
  tide_tensor_release(y);
  tide_tensor_release(z);
  drop();
}

static void test_extremes(void) {
  int64_t low = 0, high = 0;
  tide_tensor *bytes = LINE(TIDE_INT8, -7, 100, -128, 3), *none, *half;
  tide_tensor *longs = LINE(TIDE_INT64, 5, 5);
  OK(tide_extremes(&low, &high, bytes));
  CHECK(low == -128 && high == 100);
  OK(tide_narrow(&half, bytes, 0, 0, 2));
  OK(tide_extremes(&low, &high, half));
  CHECK(low == -7 && high == 100);
  OK(tide_narrow(&none, bytes, 0, 4, 0));
  CHECK(tide_extremes(&low, &high, none) == TIDE_VALUE && low == -7);
  OK(tide_extremes(&low, &high, longs));
  CHECK(low == 5 && high == 5);
  make();
  CHECK(tide_extremes(&low, &high, x) == TIDE_DTYPE);
  CHECK(tide_extremes(&low, NULL, longs) == TIDE_ARGUMENT);
  drop();
  tide_tensor *const all[] = {bytes, half, none, longs};
  for (int i = 0; i < 4; i++) tide_tensor_release(all[i]);
}

static void test_refused(void) {
  make();
  tide_tensor *y = NULL, *complex = LINE(TIDE_COMPLEX64, 1, 2), *other = LINE(TIDE_FLOAT64, 1, 2);
  CHECK(tide_sort(NULL, NULL, x, 0, false) == TIDE_ARGUMENT);
  CHECK(tide_sort(&y, NULL, x, 1, false) == TIDE_INDEX);
  CHECK(tide_sort(&y, NULL, complex, 0, false) == TIDE_DTYPE);
  CHECK(tide_topk(&y, NULL, x, 5, 0, true) == TIDE_VALUE);
  CHECK(tide_kthvalue(&y, NULL, x, 0, 0, true) == TIDE_VALUE);
  CHECK(tide_searchsorted(&y, line, other, false, NULL) == TIDE_DTYPE);
  CHECK(tide_searchsorted(&y, matrix, x, false, NULL) == TIDE_SHAPE);
  CHECK(tide_searchsorted(&y, line, x, false, line) == TIDE_DTYPE);
  CHECK(y == NULL);
  tide_tensor_release(complex);
  tide_tensor_release(other);
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
  test_extremes();
  test_refused();
  test_no_memory();
  tide_shutdown();
  return finish("sort_test");
}
