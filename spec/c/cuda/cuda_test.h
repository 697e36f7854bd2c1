/* cuda_test.h: what the tests of the CUDA backend share: a small host instead of core, operands that live on both
 * sides, and the comparison of a device's result with that of the CPU's kernels. */
#pragma once

#include <dlfcn.h>
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backend/registry.h"
#include "reductions.h"
#include "tensor/tensor.h"

static const tide_backend *gpu, *cpu;
static int failures, checks;

static void report(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report(bool ok, const char *format, ...) {
  checks++;
  if (ok) return;
  if (failures++ > 200) return;
  va_list list;
  va_start(list, format);
  printf("FAIL ");
  vprintf(format, list);
  printf("\n");
  fflush(stdout);
  va_end(list);
}
#define CHECK(cond) report((cond), "%s:%d: %s", __FILE__, __LINE__, #cond)
#define OK(expr)    CHECK((expr) == TIDE_OK)

/* ---- the host ---- */

static struct {
  char text[600];
  int index_failures;
  int64_t value, length;
  uint32_t site;
  bool quiet;
} told;
static volatile int interrupt_now;

static tide_status host_fail(tide_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(told.text, sizeof told.text, format, list);
  va_end(list);
  if (!told.quiet) printf("error %d: %s\n", (int)status, told.text);
  return status;
}

static tide_status host_fail_driver(int device, const char *what, int code, const char *name, const char *text,
                                    bool sticky) {
  return host_fail(TIDE_ACCELERATOR, "%s: cuda:%d: %s (%d): %s%s", what, device, name, code, text,
                   sticky ? ", sticky" : "");
}

static tide_status host_wait_on(int device, const char *what) {
  (void)device;
  return interrupt_now ? host_fail(TIDE_INTERRUPTED, "%s: interrupted", what) : TIDE_OK;
}

static tide_status host_fail_index(int device, uint32_t site, int64_t value, int64_t length, int index_base) {
  (void)device, (void)index_base;
  told.index_failures++, told.value = value, told.length = length, told.site = site;
  return TIDE_INDEX;
}

/* Scratch memory: blocks that are kept, because all the work is on one stream. */
static struct {
  void *ptr;
  size_t bytes;
  bool used;
} kept[64];

static tide_status host_scratch_get(void **out, tide_stream *stream, size_t bytes) {
  (void)stream;
  int spare = -1;
  for (int i = 0; i < 64; i++) {
    if (kept[i].ptr && !kept[i].used && kept[i].bytes >= bytes) {
      kept[i].used = true, *out = kept[i].ptr;
      return TIDE_OK;
    }
    if (!kept[i].ptr && spare < 0) spare = i;
  }
  if (spare < 0) return host_fail(TIDE_MEMORY, "scratch: no room in the test's table");
  TIDE_TRY(gpu->mem_alloc(&kept[spare].ptr, 0, bytes));
  kept[spare].bytes = bytes, kept[spare].used = true, *out = kept[spare].ptr;
  return TIDE_OK;
}

static void host_scratch_put(tide_stream *stream, void *ptr) {
  (void)stream;
  for (int i = 0; i < 64; i++)
    if (kept[i].ptr == ptr) kept[i].used = false;
}

static const tide_backend_host host = {
    .struct_size = sizeof(tide_backend_host),
    .fail = host_fail,
    .fail_driver = host_fail_driver,
    .wait_on = host_wait_on,
    .scratch_get = host_scratch_get,
    .scratch_try = host_scratch_get,
    .scratch_put = host_scratch_put,
    .fail_index = host_fail_index,
};

/* ---- the device, and time ---- */

static struct tide_stream_head head;
static tide_stream *const stream = (tide_stream *)&head;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The library: named by the first argument with a slash, by TIDE_CUDA_LIBRARY, or where the build puts it. */
static void *open_library(const char *path) {
  char beside[4096];
  ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 64);
  if (n < 0) n = 0;
  while (n > 0 && beside[n - 1] != '/') n--;
  snprintf(beside + n, 64, "../lib/libtide_cuda.so");
  if (!path) path = getenv("TIDE_CUDA_LIBRARY");
  return dlopen(path ? path : beside, RTLD_NOW | RTLD_LOCAL);
}

/* The table of the library; NULL where there is none. */
static const tide_backend *table_open(const char *path) {
  void *library = open_library(path);
  if (!library) return printf("skipped: %s\n", dlerror()), NULL;
  tide_backend_open_fn open = NULL;
  *(void **)&open = dlsym(library, "tide_backend_cuda_open");
  return open ? open(&host, TIDE_BACKEND_VERSION) : NULL;
}

/* False where there is no library or no device. `simulated` tries the cases themselves on a simulated device. */
static bool gpu_open(const char *path, bool simulated) {
  int count = 0;
  const tide_config one = {.sim_devices = 1, .sim_memory = (size_t)2 << 30};
  OK(tide__backend_kind_host()->open(&cpu, &host, &one));
  if (simulated)
    OK(tide__backend_kind_wanted(&one)->open(&gpu, &host, &one));
  else
    gpu = table_open(path);
  if (!gpu || gpu->device_count(&count) != TIDE_OK || count == 0) return printf("skipped: no device\n"), false;
  OK(gpu->device_open(0));
  OK(gpu->stream_new(&head.impl, 0, 0));
  return head.impl != NULL;
}

/* ---- operands on both sides ---- */

typedef struct operand {
  char *host, *device; /* of the whole allocation */
  size_t bytes, at;    /* at: where the first element lies */
  int dtype;
} operand;

static uint64_t seed = 88172645463325252u;
static uint32_t any_bits(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (uint32_t)(seed >> 16);
}
static double any_unit(void) { return any_bits() / 4294967296.0; }

static int size_of(int dtype) { return (int)tide_dtype_size((tide_dtype)dtype); }

/* Floats lie in [-range, range], integers too. */
static void put(void *p, int dtype, double range, bool special) {
  double v = (any_unit() * 2 - 1) * range;
  tide_scalar s = tide_float(v);
  char kind = tide_dtype_kind((tide_dtype)dtype);
  if (kind == 'C') s.kind = 'C', s.im = (any_unit() * 2 - 1) * range;
  if (kind == 'F' && special && any_bits() % 64 == 0) s.re = any_bits() % 2 ? (double)NAN : (double)INFINITY;
  if (kind == 'F' && any_bits() % 64 == 0) s.re = 0;
  if (kind == 'I' || kind == 'U') s = tide_int((int64_t)(kind == 'U' ? fabs(v) : v));
  if (kind == 'B') s = tide_bool(any_bits() & 1);
  uint64_t bits[2];
  tide__scalar_pack(bits, s, (tide_dtype)dtype);
  memcpy(p, bits, (size_t)size_of(dtype));
}

static void upload(operand *x) {
  OK(gpu->copy_to_device(head.impl, x->device, x->host, x->bytes, false));
  OK(gpu->stream_sync(head.impl));
}

/* `count` elements after `at` of them. */
static operand make(int dtype, int64_t count, int64_t at, double range, bool special) {
  operand x = {NULL, NULL, (size_t)(count + at) * (size_t)size_of(dtype), (size_t)at * (size_t)size_of(dtype), dtype};
  x.host = malloc(x.bytes);
  void *device = NULL;
  OK(gpu->mem_alloc(&device, 0, x.bytes));
  x.device = device;
  for (int64_t i = 0; i < count + at; i++) put(x.host + i * size_of(dtype), dtype, range, special);
  upload(&x);
  return x;
}

static void drop(operand *x) {
  free(x->host);
  gpu->mem_free(0, x->device, x->bytes);
}

/* ---- comparison ---- */

static double tolerance_of(int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return 2e-3;
  case TIDE_BFLOAT16: return 1.6e-2;
  case TIDE_FLOAT32:
  case TIDE_COMPLEX64: return 4e-6;
  case TIDE_FLOAT64:
  case TIDE_COMPLEX128: return 1e-12;
  default: return 0;
  }
}

static bool near(double a, double b, double tolerance, double *worst) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  double scale = fmax(1, fmax(fabs(a), fabs(b))), off = fabs(a - b) / scale;
  if (isnan(off) || isinf(scale)) off = 1e300;
  if (off > *worst) *worst = off;
  return off <= tolerance;
}

/* The device's memory of x against the host's, byte for byte or within the tolerance (times `slack`). */
static void compare_with(operand *x, double tolerance, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void compare_with(operand *x, double tolerance, const char *format, ...) {
  char name[300], *got = malloc(x->bytes);
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  bool ok = gpu->copy_to_host(head.impl, got, x->device, x->bytes, false) == TIDE_OK;
  int size = size_of(x->dtype);
  int64_t wrong = 0, first = -1, n = (int64_t)x->bytes / size;
  double worst = 0;
  for (int64_t i = 0; ok && i < n; i++) {
    if (memcmp(got + i * size, x->host + i * size, (size_t)size) == 0) continue;
    tide_scalar a = tide__scalar_unpack(got + i * size, (tide_dtype)x->dtype);
    tide_scalar b = tide__scalar_unpack(x->host + i * size, (tide_dtype)x->dtype);
    bool real = a.kind == 'F' || a.kind == 'C';
    /* The parts of a complex number are as exact as the whole is large. */
    double whole = a.kind == 'C' && isfinite(b.re) && isfinite(b.im) ? fmax(1, hypot(b.re, b.im)) : 1;
    bool fits = real ? near(a.re / whole, b.re / whole, tolerance, &worst) &&
                           near(a.im / whole, b.im / whole, tolerance, &worst)
                     : a.i == b.i;
    if (fits) continue;
    wrong++;
    if (first < 0) first = i;
  }
  char detail[200] = "";
  if (first >= 0) {
    tide_scalar a = tide__scalar_unpack(got + first * size, (tide_dtype)x->dtype);
    tide_scalar b = tide__scalar_unpack(x->host + first * size, (tide_dtype)x->dtype);
    snprintf(detail, sizeof detail, "at %lld: %.9g %lld, expected %.9g %lld", (long long)first, a.re, (long long)a.i,
             b.re, (long long)b.i);
  }
  report(ok && !wrong, "%s: %lld of %lld wrong, worst %.3g, %s", name, (long long)wrong, (long long)n, worst, detail);
  free(got);
}
#define COMPARE(x, ...) compare_with(x, tolerance_of((x)->dtype), __VA_ARGS__)
