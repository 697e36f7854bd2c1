/* scatter_test.c: the functions of tide/scatter.h as a C host calls them: indexes count from 0, `into` is x or another
 * tensor, and whatever allocation fails, nothing is written, kept or lost. The values are the specs'. */
#include "tensor_test.h"

#include "tide/scatter.h"

static tide_tensor *x, *where, *source, *mask, *strided;

static void make(void) {
  x = LINE(TIDE_FLOAT32, 10, 20, 30, 40);
  where = LINE(TIDE_INT16, 3, 0, 3);
  source = LINE(TIDE_FLOAT32, 1, 2, 4);
  tide_tensor *m = LINE(TIDE_BOOL, 1, 0, 0, 1), *room = LINE(TIDE_FLOAT32, 10, 0, 20, 0, 30, 0, 40, 0);
  mask = m;
  OK(tide_slice(&strided, room, 0, 0, 7, 2));
  tide_tensor_release(room);
}

static void drop(void) {
  tide_tensor *const all[] = {x, where, source, mask, strided};
  for (int i = 0; i < 5; i++) tide_tensor_release(all[i]);
}

/* Each function once, out of place and into a tensor; `f` chooses. */
enum { FUNCTIONS = 15 };
static tide_status call(int f, tide_tensor **out, tide_tensor **second, const tide_tensor *of, tide_tensor *into) {
  tide_operand number = {.number = tide_int(7)}, values = {.tensor = source};
  tide_histogram_options even = {.bins = 3}, edges = {.edges = x, .weights = strided, .density = true};
  switch (f) {
  case 0: return tide_gather(out, of, 0, where, into);
  case 1: return tide_take(out, of, where, into);
  case 2: return tide_take_along_dim(out, of, where, -1, into);
  case 3: return tide_scatter(out, of, 0, where, &number, TIDE_SCATTER_WRITE, true, into);
  case 4: return tide_scatter(out, of, 0, where, &values, TIDE_SCATTER_SUM, true, into);
  case 5: return tide_scatter(out, of, 0, where, &values, TIDE_SCATTER_MEAN, false, into);
  case 6: return tide_index_add(out, of, 0, where, source, tide_float(2), into);
  case 7: return tide_index_copy(out, of, 0, where, source, into);
  case 8: return tide_index_fill(out, of, 0, where, &number, into);
  case 9: return tide_put(out, of, where, source, true, into);
  case 10: return tide_masked_scatter(out, of, mask, source, into);
  case 11: return tide_histc(out, of, 3, 0, 40, into);
  case 12: return tide_one_hot(out, where, -1);
  case 13: return tide_bincount(out, where, source, 6);
  default: return tide_histogram(out, second, of, into ? &even : &edges);
  }
}

static void test_values(void) {
  make();
  tide_tensor *y = NULL, *z = NULL;
#define EACH(f, ...)                                                                                                   \
  OK(call(f, &y, &z, x, NULL));                                                                                        \
  CHECK(IS(y, __VA_ARGS__));                                                                                           \
  tide_tensor_release(y);                                                                                              \
  tide_tensor_release(z);                                                                                              \
  y = z = NULL
  EACH(0, 40, 10, 40);
  EACH(1, 40, 10, 40);
  EACH(2, 40, 10, 40);
  EACH(3, 7, 20, 30, 7);
  EACH(4, 12, 20, 30, 45);
  EACH(5, 2, 20, 30, 2.5);
  EACH(6, 14, 20, 30, 50);
  EACH(7, 2, 20, 30, 4);
  EACH(8, 7, 20, 30, 7);
  EACH(9, 12, 20, 30, 45);
  EACH(10, 1, 20, 30, 2);
  EACH(11, 1, 1, 2);
  EACH(12, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1);
  EACH(13, 2, 0, 0, 5, 0, 0);
  CHECK(IS(x, 10, 20, 30, 40));
  OK(call(4, NULL, NULL, x, x));
  OK(call(4, &y, NULL, strided, strided));
  CHECK(y == strided && IS(x, 12, 20, 30, 45) && IS(strided, 12, 20, 30, 45));
  OK(call(0, NULL, NULL, strided, source));
  CHECK(IS(source, 45, 12, 45));
  drop();
}

static void test_refused(void) {
  make();
  tide_tensor *y = NULL, *far = LINE(TIDE_INT64, 0, 4), *back = LINE(TIDE_INT64, -4, -5),
              *two = LINE(TIDE_FLOAT32, 1, 2);
  tide_operand values = {.tensor = two}, whole = {.tensor = where};
  FAILS(TIDE_INDEX, tide_gather(&y, x, 0, far, NULL));
  FAILS(TIDE_INDEX, tide_scatter(NULL, x, 0, far, &values, TIDE_SCATTER_MAX, false, x));
  FAILS(TIDE_INDEX, tide_index_add(NULL, x, 0, back, two, tide_int(1), x));
  FAILS(TIDE_INDEX, tide_put(NULL, x, far, two, false, x));
  FAILS(TIDE_ARGUMENT, tide_gather(NULL, x, 0, where, NULL));
  FAILS(TIDE_ARGUMENT, tide_scatter(&y, x, 0, where, &values, (tide_scatter_op)9, true, NULL));
  FAILS(TIDE_DTYPE, tide_scatter(&y, x, 0, where, &whole, TIDE_SCATTER_SUM, true, NULL));
  FAILS(TIDE_DTYPE, tide_gather(&y, x, 0, x, NULL));
  FAILS(TIDE_SHAPE, tide_index_copy(&y, x, 0, where, two, NULL));
  FAILS(TIDE_SHAPE, tide_gather(NULL, x, 0, where, two));
  FAILS(TIDE_INDEX, tide_gather(&y, x, 1, where, NULL));
  FAILS(TIDE_VALUE, tide_histc(&y, x, 0, 0, 1, NULL));
  CHECK(y == NULL && IS(x, 10, 20, 30, 40));
  tide_tensor *const all[] = {far, back, two};
  for (int i = 0; i < 3; i++) tide_tensor_release(all[i]);
  drop();
}

/* The nth allocation fails, for every n, until none of them does. */
static void test_no_memory(void) {
  make();
  for (int f = 0; f < FUNCTIONS; f++)
    for (int into = 0; into < 2; into++) {
      size_t before = tide_memory_cpu_allocated();
      tide_status status = TIDE_MEMORY;
      for (int64_t n = 1; status != TIDE_OK && n < 100; n++) {
        tide_tensor *y = NULL, *z = NULL;
        bool in_place = into && f >= 3 && f <= 10;
        tide_tensor *of = NULL;
        OK(tide_clone(&of, strided));
        tide__fault_alloc(n);
        status = call(f, &y, &z, of, in_place ? of : NULL);
        tide__fault_alloc(0);
        CHECK(status == TIDE_OK || (status == TIDE_MEMORY && !y && !z && IS(of, 10, 20, 30, 40)));
        if (y != of) tide_tensor_release(y);
        tide_tensor_release(z);
        tide_tensor_release(of);
        tide_memory_pump();
      }
      CHECK(status == TIDE_OK);
      CHECK(tide_memory_cpu_allocated() == before);
    }
  drop();
}

/* A dim without an index multiplies the values: so many that 16 bits add them in a wider dtype. */
static void test_put_of_dims(void) {
  tide_options half = {TIDE_FLOAT16, TIDE_CPU, false}, whole = {TIDE_INT64, TIDE_CPU, false};
  tide_tensor *rows = NULL, *at = NULL, *one = NULL;
  tide_operand number = {.number = tide_int(1)};
  for (int first = 0; first < 2; first++) {
    int64_t size[2] = {64, 4000}, n = 5000, place[2] = {63, 3};
    tide_scalar sum = tide_float(0);
    if (first) size[0] = 4000, size[1] = 64, place[0] = 3, place[1] = 63;
    OK(tide_full(&rows, size, 2, tide_float(0), &half));
    OK(tide_full(&at, &n, 1, tide_int(3), &whole));
    tide_tensor *index[2] = {first ? at : NULL, first ? NULL : at};
    OK(tide_index_put(rows, index, 2, &number, true));
    tide_tensor *row = NULL;
    OK(tide_select(&row, rows, 0, place[0]));
    OK(tide_select(&one, row, 0, place[1]));
    OK(tide_item(&sum, one));
    CHECK(sum.re == 5000);
    tide_tensor_release(row), tide_tensor_release(one), tide_tensor_release(rows), tide_tensor_release(at);
  }
}

int main(void) {
  OK(tide_init(NULL));
  test_values();
  test_put_of_dims();
  test_refused();
  test_no_memory();
  tide_shutdown();
  return finish("scatter_test");
}
