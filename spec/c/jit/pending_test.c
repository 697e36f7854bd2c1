/* pending_test.c: values that are pending, from C: who computes them, and threads that drop them meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tide/fuse.h"

#include "tensor/tensor_test.h"

static tide_tensor *full(double value, int64_t n) {
  tide_tensor *x = NULL;
  OK(tide_full(&x, &n, 1, tide_float(value), &(tide_options){TIDE_FLOAT32, TIDE_CPU, false}));
  return x;
}

static double first(const tide_tensor *x) {
  tide_scalar s;
  tide_tensor *one = NULL;
  OK(tide_select(&one, x, 0, 0));
  OK(tide_item(&s, one));
  tide_tensor_release(one);
  return s.re;
}

static tide_tensor *scaled(tide_fuse *f, const tide_tensor *x, double factor, double shift) {
  tide_tensor *y = NULL, *z = NULL;
  OK(tide_fuse_elementwise(&y, f, TIDE_OP_mul, (tide_operand[]){{.tensor = x}, {.number = tide_float(factor)}}, NULL,
                           NULL));
  OK(tide_fuse_elementwise(&z, f, TIDE_OP_add, (tide_operand[]){{.tensor = y}, {.number = tide_float(shift)}}, NULL,
                           NULL));
  tide_tensor_release(y);
  return z;
}

static void computes_when_needed(void) {
  tide_fuse *f = NULL;
  OK(tide_fuse_new(&f, "test"));
  tide_tensor *x = full(3, 100), *y = scaled(f, x, 2, 1), *z = scaled(f, y, 10, 0);
  CHECK(tide_tensor_is_pending(y) && tide_tensor_is_pending(z) && !tide_tensor_is_pending(x));
  CHECK(tide_tensor_numel(z) == 100 && tide_tensor_dtype(z) == TIDE_FLOAT32 && tide_tensor_device(z) == TIDE_CPU);
  CHECK(first(z) == 70 && !tide_tensor_is_pending(z) && tide_tensor_is_pending(y));
  OK(tide_fill(x, tide_float(100))); /* y reads it */
  CHECK(!tide_tensor_is_pending(y) && first(y) == 7 && first(z) == 70);
  tide_tensor *w = scaled(f, x, 1, 1), *list[2] = {w, w};
  ((float *)tide_tensor_data(x))[0] = 5; /* after w was computed */
  CHECK(first(w) == 101);
  OK(tide_fuse_compute(f, list, 2));
  tide_tensor *v = scaled(f, x, 1, 0);
  tide_fuse_free(f); /* what is pending stays so */
  CHECK(first(v) == 5);
  tide_tensor *all[] = {x, y, z, w, v};
  for (int i = 0; i < 5; i++) tide_tensor_release(all[i]);
}

enum { ROUNDS = 3000, SLOTS = 8 };
static _Atomic(tide_tensor *) slot[SLOTS];
static atomic_bool over;

static void *drop(void *unused) {
  (void)unused;
  while (!atomic_load(&over))
    for (int i = 0; i < SLOTS; i++) tide_tensor_release(atomic_exchange(&slot[i], NULL));
  return NULL;
}

/* The owner makes and computes values while another thread drops others of theirs. */
static void others_may_drop(void) {
  tide_fuse *f = NULL;
  pthread_t thread;
  OK(tide_fuse_new(&f, "test"));
  tide_tensor *x = full(1, 64);
  pthread_create(&thread, NULL, drop, NULL);
  for (int i = 0; i < ROUNDS; i++) {
    tide_tensor *y = scaled(f, x, 2, i), *z = scaled(f, y, 3, 0);
    tide_tensor_release(atomic_exchange(&slot[i % SLOTS], y));
    CHECK(first(z) == 3 * (2 + (double)i));
    tide_tensor_release(atomic_exchange(&slot[(i + 3) % SLOTS], z));
    if (i % 16 == 0) OK(tide_fill(x, tide_float(1)));
  }
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  for (int i = 0; i < SLOTS; i++) tide_tensor_release(atomic_exchange(&slot[i], NULL));
  tide_tensor_release(x);
  tide_fuse_free(f);
}

/* Indexes count as when the gather was called: by a read or not, and after a change of the base. */
static int base_now;
static int base_of_caller(void) { return base_now; }

static void gathers_count_as_called(void) {
  tide_fuse *f = NULL;
  OK(tide_fuse_new(&f, "test"));
  tide_index_base_set(base_of_caller);
  for (int made = 0; made < 2; made++)
    for (int read = 0; read < 2; read++)
      for (int places = TIDE_FUSE_SLICES; places <= TIDE_FUSE_LINE; places++) {
        const int64_t values[] = {10, 11, 12, 13}, at[] = {2, 1, 3};
        tide_tensor *x = NULL, *index = NULL, *got = NULL, *sum = NULL;
        bool done = false;
        OK(tide_from_data(&x, values, (int64_t[]){4}, 1, &(tide_options){TIDE_INT64, TIDE_CPU, false}));
        OK(tide_from_data(&index, at, (int64_t[]){3}, 1, &(tide_options){TIDE_INT64, TIDE_CPU, false}));
        base_now = made;
        OK(tide_fuse_gather(&done, &got, f, x, index, 0, places, NULL, 0));
        CHECK(done && tide_tensor_is_pending(got));
        OK(tide_fuse_elementwise(&sum, f, TIDE_OP_add, (tide_operand[]){{.tensor = got}, {.number = tide_int(100)}},
                                 NULL, NULL));
        base_now = read;
        const int64_t *all = tide_tensor_data(sum);
        for (int i = 0; all && i < 3; i++) CHECK(all[i] == 100 + 10 + at[i] - made);
        CHECK(all && base_now == read);
        tide_tensor *used[] = {x, index, got, sum};
        for (int i = 0; i < 4; i++) tide_tensor_release(used[i]);
      }
  tide_index_base_set(NULL);
  tide_fuse_free(f);
}

/* What a gather refuses, with its words. */
static void gathers_refuse(void) {
  static const struct {
    int places, dim, line;
    const char *file, *says;
  } cases[] = {
      {TIDE_FUSE_ALONG, 0, -1, "a.lua", "fuse_gather: line: got -1, expected 0, or a line of a file"},
      {TIDE_FUSE_ALONG, 0, -1, NULL, "fuse_gather: line: got -1 without a file, expected 0, or a line of a file"},
      {TIDE_FUSE_ALONG, 0, 7, NULL, "fuse_gather: line: got 7 without a file, expected 0, or a line of a file"},
  };
  tide_fuse *f = NULL;
  tide_tensor *x = full(1, 8), *out = NULL;
  OK(tide_fuse_new(&f, "test"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool done = false;
    FAILS(TIDE_ARGUMENT,
          tide_fuse_gather(&done, &out, f, x, x, cases[i].dim, cases[i].places, cases[i].file, cases[i].line));
    CHECK(!strcmp(tide_error_get()->message, cases[i].says) && !out);
  }
  tide_tensor_release(x);
  tide_fuse_free(f);
}

int main(void) {
  OK(tide_init(NULL));
  computes_when_needed();
  gathers_count_as_called();
  gathers_refuse();
  others_may_drop();
  tide_shutdown();
  printf("pending_test: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
