/* pairs_test.c: cross products and distances as a C host calls them: on the CPU, on a GPU where there is one, and on
 * simulated devices; and whatever allocation fails, nothing is kept or lost. */
#include "tensor_test.h"

#include "backend/cpu/isa.h"

static tide_tensor *x, *y;
static int device;

/* [3, 5, 3] of small integers, as it lies or with its first dims turned, on `device`. */
static tide_tensor *some(int64_t step, int64_t mod, tide_dtype dtype, bool turned) {
  tide_options host = {TIDE_INT64, TIDE_CPU, false}, there = {dtype, device, false};
  tide_tensor *row = NULL, *v = NULL, *out = NULL;
  int64_t number[45];
  for (int64_t i = 0; i < 45; i++) number[i] = i * step % mod - 3;
  OK(tide_from_data(&row, number, turned ? (const int64_t[]){5, 3, 3} : (const int64_t[]){3, 5, 3}, 3, &host));
  OK(tide_permute(&v, row, turned ? (const int[]){1, 0, 2} : (const int[]){0, 1, 2}, 3));
  OK(tide_to(&out, v, &there, false, false));
  tide_tensor_release(row), tide_tensor_release(v);
  return out;
}

static tide_tensor *on_host(const tide_tensor *v) {
  tide_tensor *out = NULL;
  OK(tide_to(&out, v, &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}, false, false));
  return out;
}

static tide_status call(int f, tide_tensor **out, tide_tensor **second) {
  (void)second;
  return f == 0 ? tide_cross(out, x, y) : tide_cdist(out, x, y, (tide_distance)(f - 1));
}

static double expected(int f, const tide_tensor *a, const tide_tensor *b, int64_t i) {
  if (f == 0) {
    const int64_t row = i / 3 * 3, j = (i + 1) % 3, k = (i + 2) % 3;
    return flat_at(a, row + j) * flat_at(b, row + k) - flat_at(a, row + k) * flat_at(b, row + j);
  }
  double sum = 0;
  for (int64_t p = 0; p < 3; p++) {
    const double d = flat_at(a, i / 5 * 3 + p) - flat_at(b, i / 25 * 15 + i % 5 * 3 + p);
    sum += f == 1 ? fabs(d) : d * d;
  }
  return f == 1 ? sum : sqrt(sum);
}

static void test_values(tide_dtype dtype, bool turned) {
  x = some(7, 11, dtype, turned), y = some(5, 13, dtype, !turned);
  tide_tensor *a = on_host(x), *b = on_host(y);
  for (int f = 0; f < 4; f++) {
    tide_tensor *made = NULL;
    OK(call(f, &made, NULL));
    tide_tensor *got = on_host(made);
    CHECK(got->numel == (f == 0 ? 45 : 75) && made->dtype == dtype && made->size[2] == (f == 0 ? 3 : 5));
    for (int64_t i = 0; i < got->numel; i++)
      CHECK(fabs(flat_at(got, i) - expected(f, a, b, i)) <= (f < 2                             ? 0
                                                             : f == 2 || dtype == TIDE_FLOAT64 ? 2e-6
                                                                                               : 4e-3));
    tide_tensor_release(made), tide_tensor_release(got);
  }
  tide_tensor *all[] = {x, y, a, b};
  for (int k = 0; k < 4; k++) tide_tensor_release(all[k]);
}

/* The loops of each instruction set over more points than a tile holds, on one thread and on three. */
static void test_tiles(const char *isa, tide_dtype dtype) {
  enum { N = 37, M = 141, K = 5 };
  tide_tensor *row[2] = {NULL}, *all[6] = {NULL};
  double point[2][M * K];
  if (!tide__isa_set(isa)) return;
  for (int s = 0; s < 2; s++) {
    for (int i = 0; i < M * K; i++) point[s][i] = (i * (37 + 16 * s) % 101 - 50) / 8.0;
    OK(tide_from_data(&row[s], point[s], (const int64_t[]){s ? M : N, K}, 2,
                      &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
    OK(tide_to(&all[s], row[s], &(tide_options){dtype, TIDE_CPU, false}, false, true));
  }
  for (int kind = 0; kind < 3; kind++) {
    tide_set_num_threads(kind ? 3 : 1);
    OK(tide_cdist(&all[2 + kind], all[0], all[1], (tide_distance)kind));
    for (int64_t i = 0; i < N * M; i++) {
      double sum = 0;
      for (int p = 0; p < K; p++) {
        const double d = point[0][i / M * K + p] - point[1][i % M * K + p];
        sum += kind ? d * d : fabs(d);
      }
      CHECK(fabs(flat_at(all[2 + kind], i) - (kind ? sqrt(sum) : sum)) <= (dtype == TIDE_FLOAT64 ? 1e-6 : 5e-3));
    }
  }
  OK(tide_cdist(&all[5], all[0], all[1], TIDE_DISTANCE_EUCLIDEAN));
  tide_set_num_threads(1);
  tide_tensor_release(all[2]);
  OK(tide_cdist(&all[2], all[0], all[1], TIDE_DISTANCE_EUCLIDEAN));
  for (int64_t i = 0; i < N * M; i++) CHECK(flat_at(all[5], i) == flat_at(all[2], i));
  for (int k = 0; k < 6; k++) tide_tensor_release(all[k]);
  for (int s = 0; s < 2; s++) tide_tensor_release(row[s]);
}

static void test_refused(void) {
  tide_tensor *out = NULL, *part = NULL, *flat = NULL, *empty = NULL, *none = NULL;
  x = some(7, 11, TIDE_FLOAT32, false), y = some(7, 11, TIDE_FLOAT64, false);
  tide_tensor *whole = some(7, 11, TIDE_INT32, false);
  OK(tide_narrow(&part, x, 2, 0, 2));
  OK(tide_select(&flat, part, 0, 0));
  FAILS(TIDE_DTYPE, tide_cross(&out, x, y));
  FAILS(TIDE_DTYPE, tide_cdist(&out, whole, whole, TIDE_DISTANCE_SUM));
  FAILS(TIDE_SHAPE, tide_cross(&out, part, part));
  FAILS(TIDE_SHAPE, tide_cdist(&out, x, part, TIDE_DISTANCE_SUM));
  FAILS(TIDE_SHAPE, tide_cdist(&out, part, flat, TIDE_DISTANCE_SUM));
  FAILS(TIDE_ARGUMENT, tide_cdist(&out, x, x, (tide_distance)3));
  FAILS(TIDE_ARGUMENT, tide_cross(NULL, x, x));
  CHECK(out == NULL);
  OK(tide_narrow(&empty, x, 2, 0, 0)); /* no coordinates */
  OK(tide_cdist(&out, empty, empty, TIDE_DISTANCE_BY_PRODUCT));
  OK(tide_cdist(&none, empty, empty, TIDE_DISTANCE_SUM));
  for (int k = 0; k < 2; k++) {
    tide_tensor *got = on_host(k ? none : out);
    for (int64_t i = 0; i < 75; i++) CHECK(flat_at(got, i) == 0);
    tide_tensor_release(got);
  }
  tide_tensor *all[] = {x, y, whole, part, flat, empty, out, none};
  for (int k = 0; k < 8; k++) tide_tensor_release(all[k]);
}

static void test_no_memory(void) {
  x = some(7, 11, TIDE_FLOAT32, true), y = some(5, 13, TIDE_FLOAT32, false);
  each_allocation_fails(4, call);
  tide_tensor_release(x), tide_tensor_release(y);
}

static void test_on(int where) {
  device = where;
  for (int k = 0; k < 4; k++) test_values(k & 1 ? TIDE_FLOAT64 : TIDE_FLOAT32, k & 2);
  test_refused();
  if (device == TIDE_CPU) test_no_memory();
}

int main(void) {
  for (int simulated = 0; simulated < 2; simulated++) {
    tide_config config = {.struct_size = sizeof config, .sim_devices = simulated};
    OK(tide_init(&config));
    test_on(TIDE_CPU);
    for (int k = 0; k < 6 && !simulated; k++)
      test_tiles((const char *[]){"base", "avx2", "avx512"}[k / 2], k & 1 ? TIDE_FLOAT64 : TIDE_FLOAT32);
    tide__isa_set(NULL);
    CHECK(!simulated || tide_device_count() == 1);
    if (tide_device_count() > 0) test_on(0);
    tide_shutdown();
  }
  return finish("pairs_test");
}
