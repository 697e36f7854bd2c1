/* fft_test.c: Fourier transforms through the C interface: against the definition on the CPU, the plan cache from
 * several threads on simulated devices, and every allocation failing in turn.
 *
 * Lengths are walked more widely here than in the spec, because C sums faster than Lua. */
#include "tensor_test.h"

#include "tensor/tensor.h"
#include "backend/cpu/isa.h"

#include <complex.h>
#undef I

#include "tide/fft.h"

static const double turn = 6.283185307179586476925286766559;

/* ---- against the definition ---- */

static tide_tensor *noise(int64_t batch, int64_t n, tide_dtype dtype) {
  int64_t size[2] = {batch, n};
  tide_tensor *x = made(size, 2, dtype);
  double *wide = (double *)tide__tensor_ptr(x);
  float *narrow = (float *)(void *)wide;
  bool is_wide = dtype == TIDE_FLOAT64 || dtype == TIDE_COMPLEX128;
  int64_t reals = batch * n * (tide__category(dtype) == 3 ? 2 : 1);
  for (int64_t i = 0; i < reals; i++) {
    double v = sin((double)i * (double)i * 0.37 + 1);
    if (is_wide)
      wide[i] = v;
    else
      narrow[i] = (float)v;
  }
  return x;
}

static double complex element(const tide_tensor *x, int64_t row, int64_t k) {
  const char *p = tide__tensor_ptr(x) + (row * x->stride[0] + k * x->stride[1]) * tide__itemsize(x->dtype);
  switch (x->dtype) {
  case TIDE_FLOAT32: return *(const float *)p;
  case TIDE_FLOAT64: return *(const double *)p;
  case TIDE_COMPLEX64: return CMPLX(((const float *)p)[0], ((const float *)p)[1]);
  default: return CMPLX(((const double *)p)[0], ((const double *)p)[1]);
  }
}

enum { LONGEST = 60000 };
static double complex roots[LONGEST]; /* of the length under test */

static void set_roots(int64_t n) {
  for (int64_t k = 0; k < n; k++)
    roots[k] = CMPLX(cos(turn * (double)k / (double)n), sin(turn * (double)k / (double)n));
}

/* Element k of a line's transform. */
static double complex defined(const tide_tensor *x, int64_t row, int64_t k, int sign) {
  int64_t n = x->size[1];
  double complex sum = 0;
  for (int64_t j = 0, e = 0; j < n; j++, e = (e + k) % n)
    sum += element(x, row, j) * (sign < 0 ? conj(roots[e]) : roots[e]);
  return sum;
}

/* Some elements of some lines, all of short ones. */
static bool is_transform(const tide_tensor *y, const tide_tensor *x, int sign, double tolerance) {
  int64_t rows = x->size[0], count = y->size[1], step = count > 40 ? count / 17 : 1;
  double worst = 0, size = sqrt((double)x->size[1]);
  for (int64_t row = 0; row<rows; row += rows> 3 ? rows - 1 : 1)
    for (int64_t k = 0; k < count; k += step)
      worst = fmax(worst, cabs(element(y, row, k) - defined(x, row, k, sign)) / size);
  return worst <= tolerance;
}

static void test_length(int64_t n, int64_t batch) {
  static const int last = -1;
  set_roots(n);
  for (int wide = 0; wide < 2; wide++) {
    double tolerance = (wide ? 1e-14 : 5e-7) * 3;
    tide_tensor *z = noise(batch, n, wide ? TIDE_COMPLEX128 : TIDE_COMPLEX64), *f = NULL, *b = NULL, *h = NULL,
                *r = NULL;
    tide_tensor *x = noise(batch, n, wide ? TIDE_FLOAT64 : TIDE_FLOAT32);
    OK(tide_fft(&f, TIDE_FFT_FFT, z, &last, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
    CHECK(f && is_transform(f, z, -1, tolerance));
    OK(tide_fft(&b, TIDE_FFT_IFFT, z, &last, NULL, 1, TIDE_FFT_FORWARD, NULL, NULL));
    CHECK(b && is_transform(b, z, 1, tolerance));
    OK(tide_fft(&h, TIDE_FFT_RFFT, x, &last, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
    CHECK(h && h->size[1] == n / 2 + 1 && is_transform(h, x, -1, tolerance));
    OK(tide_fft(&r, TIDE_FFT_IRFFT, h, &last, &n, 1, TIDE_FFT_BACKWARD, NULL, NULL));
    double worst = 0;
    for (int64_t k = 0; r && k < n; k++) worst = fmax(worst, cabs(element(r, batch - 1, k) - element(x, batch - 1, k)));
    CHECK(worst <= tolerance);
    tide_tensor *all[] = {z, f, b, h, r, x};
    for (int k = 0; k < 6; k++) tide_tensor_release(all[k]);
  }
}

/* Lines that lie beside each other, more than a vector has lanes, both ways and in place; any number of threads gives
 * the same bits. */
static void test_columns(int64_t n, int64_t width) {
  static const int first = 0;
  set_roots(n);
  for (int wide = 0; wide < 2; wide++)
    for (int back = 0; back < 2; back++) {
      tide_tensor *lines = noise(width, n, wide ? TIDE_COMPLEX128 : TIDE_COMPLEX64), *t = NULL, *x = NULL, *y = NULL;
      tide_fft_kind kind = back ? TIDE_FFT_IFFT : TIDE_FFT_FFT;
      tide_fft_norm norm = back ? TIDE_FFT_FORWARD : TIDE_FFT_BACKWARD;
      OK(tide_transpose(&t, lines, 0, 1));
      OK(tide_contiguous(&x, t));
      tide_set_num_threads(1);
      OK(tide_fft(&y, kind, x, &first, NULL, 1, norm, NULL, NULL));
      tide_set_num_threads(3);
      OK(tide_fft(NULL, kind, x, &first, NULL, 1, norm, x, NULL));
      CHECK(x && y && !memcmp(tide__tensor_ptr(x), tide__tensor_ptr(y), (size_t)(n * width) * (wide ? 16 : 8)));
      tide_tensor_release(t), t = NULL;
      OK(tide_transpose(&t, y, 0, 1));
      CHECK(t && is_transform(t, lines, back ? 1 : -1, (wide ? 1e-14 : 5e-7) * 3));
      tide_tensor *all[] = {lines, t, x, y};
      for (int k = 0; k < 4; k++) tide_tensor_release(all[k]);
    }
  tide_set_num_threads(2);
}

/* all: every length up to 140, else a few kinds. */
static void test_lengths(bool all) {
  static const int64_t more[] = {243, 256,  289,  361,  512,  529,  625,  841,  961,
                                 997, 1021, 1024, 1369, 1536, 2000, 2048, 2187, 2310};
  for (int64_t n = 1; n <= 140; n += all || n < 14 ? 1 : 9) test_length(n, 3);
  for (size_t i = 0; i < sizeof more / sizeof *more; i += all ? 1 : 3)
    test_length(more[i], 1), test_length(more[i], 17);
  static const int64_t longer[] = {4096, 4099, 5000, 6561, 8192, 9973, 16384, 28629, 59582};
  for (size_t i = 0; i < sizeof longer / sizeof *longer; i += all ? 1 : 4)
    test_length(longer[i], 1), test_length(longer[i], 5);
  static const int64_t columns[] = {2, 6, 8, 14, 16, 22, 32, 60, 77, 100, 512, 729, 1000, 8192};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    test_columns(columns[i], 16), test_columns(columns[i], 37);
}

/* ---- the cache, from several threads ---- */

enum { THREADS = 4, ROUNDS = 40 };

static void *walker(void *arg) {
  int64_t own = (int64_t)(uintptr_t)arg;
  bool good = true;
  static const int last = -1;
  const tide_options there = {TIDE_COMPLEX64, 0, false}, here = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  for (int64_t i = 0; i < ROUNDS; i++) {
    int64_t n = 2 + (i * own) % 7, size[2] = {3, n};
    tide_tensor *x = NULL, *y = NULL, *back = NULL;
    good = good && tide_full(&x, size, 2, tide_int(own), &there) == TIDE_OK;
    good = good && tide_fft(&y, TIDE_FFT_FFT, x, &last, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL) == TIDE_OK;
    good = good && tide_to(&back, y, &here, false, true) == TIDE_OK;
    good = good && cabs(element(back, 2, 0) - (double)(own * n)) < 1e-5 && cabs(element(back, 1, n - 1)) < 1e-5;
    tide_tensor_release(x), tide_tensor_release(y), tide_tensor_release(back);
    if (i % 8 == own) good = good && tide_fft_cache_set_max(0, i % 3) == TIDE_OK;
    if (i % 13 == own) good = good && tide_fft_cache_clear(0) == TIDE_OK;
  }
  return good ? arg : NULL; /* checks are counted on the main thread */
}

static void test_threads(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 2, .sim_memory = 64 << 20};
  OK(tide_init(&config));
  pthread_t t[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, walker, (void *)(i + 1)) == 0);
  for (int i = 0; i < THREADS; i++) {
    void *good = NULL;
    pthread_join(t[i], &good);
    CHECK(good != NULL);
  }
  int64_t size = -1, most = -1;
  OK(tide_fft_cache_set_max(0, 2));
  OK(tide_fft_cache_get_max(&most, 0));
  OK(tide_fft_cache_size(&size, 0));
  CHECK(most == 2 && size <= 2);
  OK(tide_fft_cache_get_max(&most, 1));
  OK(tide_fft_cache_size(&size, 1));
  CHECK(most == 4096 && size == 0);
  FAILS(TIDE_DEVICE, tide_fft_cache_size(&size, 2));
  FAILS(TIDE_DEVICE, tide_fft_cache_size(&size, TIDE_CPU));
  FAILS(TIDE_VALUE, tide_fft_cache_set_max(0, -1));
  OK(tide_device_synchronize(0));
  CHECK(tide_memory_allocated(0) == 0);
  tide_shutdown();
}

/* ---- what a host may get wrong ---- */

static void test_arguments(void) {
  static const int dim = 0;
  const int64_t size = 8;
  tide_tensor *x = made(&size, 1, TIDE_FLOAT32), *y = NULL;
  FAILS(TIDE_VALUE, tide_fft(&y, (tide_fft_kind)6, x, &dim, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
  FAILS(TIDE_VALUE, tide_fft(&y, (tide_fft_kind)-1, x, &dim, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
  FAILS(TIDE_VALUE, tide_fft(&y, TIDE_FFT_FFT, x, &dim, NULL, 1, (tide_fft_norm)3, NULL, NULL));
  FAILS(TIDE_ARGUMENT, tide_fft(&y, TIDE_FFT_FFT, x, NULL, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
  FAILS(TIDE_ARGUMENT, tide_fft(&y, TIDE_FFT_FFT, x, &dim, NULL, -1, TIDE_FFT_BACKWARD, NULL, NULL));
  FAILS(TIDE_ARGUMENT, tide_fft_shift(&y, x, NULL, 1, false));
  FAILS(TIDE_ARGUMENT, tide_fft_shift(&y, x, &dim, -1, false));
  CHECK(!y);
  tide_tensor_release(x);
}

/* ---- every allocation fails once ---- */

static tide_status walk(tide_tensor *x, tide_tensor **held) {
  static const int both[2] = {0, 1};
  int64_t longer[2] = {5, 12};
  TIDE_TRY(tide_fft(&held[0], TIDE_FFT_FFT, x, both, NULL, 2, TIDE_FFT_ORTHO, NULL, NULL));
  TIDE_TRY(tide_fft(&held[1], TIDE_FFT_RFFT, x, both, longer, 2, TIDE_FFT_FORWARD, NULL, NULL));
  TIDE_TRY(tide_fft(&held[2], TIDE_FFT_IRFFT, held[1], both, NULL, 2, TIDE_FFT_BACKWARD, NULL, NULL));
  TIDE_TRY(tide_fft(&held[3], TIDE_FFT_HFFT, held[0], both, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
  TIDE_TRY(tide_fft(NULL, TIDE_FFT_IFFT, held[0], both, NULL, 2, TIDE_FFT_ORTHO, held[0], NULL));
  TIDE_TRY(tide_fft_freq(&held[4], 9, 0.5, false, &(tide_options){TIDE_FLOAT32, x->storage->device, false}));
  return tide_fft_shift(&held[5], x, both, 2, true);
}

static void test_memory(int device) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 1, .sim_memory = 64 << 20};
  OK(tide_init(&config));
  int64_t size[2] = {4, 10};
  tide_tensor *x = NULL;
  OK(tide_full(&x, size, 2, tide_float(1), &(tide_options){TIDE_FLOAT32, device, false}));
  size_t before = device < 0 ? tide_memory_cpu_allocated() : tide_memory_allocated(device);
  tide_status status = TIDE_MEMORY;
  int64_t n = 1;
  for (; status != TIDE_OK && n < 300; n++) {
    tide_tensor *held[6] = {NULL};
    tide__fault_alloc(n);
    status = walk(x, held);
    tide__fault_alloc(0);
    CHECK(status == TIDE_OK || status == TIDE_MEMORY);
    for (int i = 0; i < 6; i++) tide_tensor_release(held[i]);
    CHECK((device < 0 ? tide_memory_cpu_allocated() : tide_memory_allocated(device)) == before);
  }
  CHECK(n > 6 && n < 300);
  tide_tensor_release(x);
  tide_shutdown();
}

int main(void) {
  OK(tide_init(NULL));
  static const char *const isa[] = {"base", "avx2", NULL};
#if defined(__SANITIZE_THREAD__) /* threads do the same with each */
  enum { FIRST = 2 };
#else
  enum { FIRST = 0 };
#endif
  for (int i = FIRST; i < 3; i++)
    if (tide__isa_set(isa[i])) test_lengths(!isa[i]);
  test_arguments();
  tide_shutdown();
  test_threads();
  test_memory(TIDE_CPU);
  test_memory(0);
  return finish("fft_test");
}
