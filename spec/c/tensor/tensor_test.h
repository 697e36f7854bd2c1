/* tensor_test.h: what the tests of the tensor half share: checks, reading by index, tensors in adversarial layouts. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/tensor.h"
#include "base/random.h"

static _Atomic int failures, checks; /* the threads that compile check too */

static inline void report(bool ok, const char *file, int line, const char *text) {
  checks++;
  if (ok) return;
  failures++;
  if (failures < 40) fprintf(stderr, "%s:%d: %s (last error: %s)\n", file, line, text, tide_error_get()->message);
}
#define CHECK(expr) report((expr), __FILE__, __LINE__, #expr)
#define OK(expr)    report((expr) == TIDE_OK, __FILE__, __LINE__, #expr)
/* The call fails with this status, says something, and leaves nothing in its result. */
#define FAILS(wanted, expr)                                                                                            \
  do {                                                                                                                 \
    tide_status got_ = (expr);                                                                                         \
    report(got_ == (wanted) && strlen(tide_error_get()->message) > 10, __FILE__, __LINE__,                             \
           #expr " fails with " #wanted);                                                                              \
  } while (0)

/* ---- reading by index ---- */

static inline tide_scalar scalar_at(const tide_tensor *x, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < x->ndim; d++) at += index[d] * x->stride[d];
  return tide__scalar_unpack(tide__tensor_ptr(x) + at * (int64_t)tide_dtype_size((tide_dtype)x->dtype),
                             (tide_dtype)x->dtype);
}

static inline double number(tide_scalar s) { return s.kind == 'F' || s.kind == 'C' ? s.re : (double)s.i; }
static inline double at(const tide_tensor *x, const int64_t *index) { return number(scalar_at(x, index)); }

/* Element `flat` in row-major order. */
static inline void unravel(int64_t *index, const tide_tensor *x, int64_t flat) {
  for (int d = x->ndim - 1; d >= 0; d--) {
    index[d] = flat % x->size[d];
    flat /= x->size[d];
  }
}
static inline double flat_at(const tide_tensor *x, int64_t i) {
  int64_t index[TIDE_MAX_DIMS];
  unravel(index, x, i);
  return at(x, index);
}

/* The element of x that meets `index` of a broadcast result. */
static inline double broadcast_at(const tide_tensor *x, const int64_t *index, int ndim) {
  int64_t own[TIDE_MAX_DIMS];
  for (int d = 0; d < x->ndim; d++) own[d] = x->size[d] == 1 ? 0 : index[d + ndim - x->ndim];
  return at(x, own);
}

static inline bool close_to(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* ---- making ---- */

static inline tide_tensor *made(const int64_t *size, int ndim, tide_dtype dtype) {
  tide_options o = {dtype, TIDE_CPU, false};
  tide_tensor *x = NULL;
  OK(tide_empty(&x, size, ndim, &o));
  return x;
}

/* A line of these values, and whether a tensor holds exactly these. */
static inline tide_tensor *line_of(const double *values, int64_t n, tide_dtype dtype) {
  tide_tensor *wide = NULL, *x = NULL;
  OK(tide_from_data(&wide, values, &n, 1, &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
  OK(tide_to(&x, wide, &(tide_options){dtype, TIDE_CPU, false}, false, false));
  tide_tensor_release(wide);
  return x;
}
#define LINE(dtype, ...)                                                                                               \
  line_of((const double[]){__VA_ARGS__}, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), dtype)

static inline bool is_line(const tide_tensor *x, const double *want, int64_t n) {
  bool same = x && x->numel == n;
  for (int64_t i = 0; same && i < n; i++) same = flat_at(x, i) == want[i];
  return same;
}
#define IS(x, ...)                                                                                                     \
  is_line(x, (const double[]){__VA_ARGS__}, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* Small values, negative ones too where the dtype has them; never 0, so that they may divide. */
static inline double sample(int64_t i, tide_dtype dtype) {
  double v = (double)(i * 7 % 11) - 5;
  if (v == 0) v = 3;
  char kind = tide_dtype_kind(dtype);
  if (kind == 'B') return i % 3 == 0;
  if (kind == 'U') return fabs(v);
  return kind == 'I' ? v : v * 0.5;
}

static inline void fill_samples(tide_tensor *x, int64_t seed) {
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t index[TIDE_MAX_DIMS], offset = 0;
    uint64_t bits[2];
    unravel(index, x, i);
    for (int d = 0; d < x->ndim; d++) offset += index[d] * x->stride[d];
    tide__scalar_pack(bits, tide_float(sample(i + seed, (tide_dtype)x->dtype)), (tide_dtype)x->dtype);
    memcpy(tide__tensor_ptr(x) + offset * (int64_t)tide_dtype_size((tide_dtype)x->dtype), bits,
           tide_dtype_size((tide_dtype)x->dtype));
  }
}

enum { LAYOUTS = 4 };
/* A tensor of this size in one of several layouts: contiguous, dims reversed, with holes, offset. */
static inline tide_tensor *laid_out(const int64_t *size, int ndim, tide_dtype dtype, int layout, int64_t seed) {
  int64_t larger[TIDE_MAX_DIMS];
  tide_tensor *base, *x;
  for (int d = 0; d < ndim; d++) larger[d] = layout == 1 ? size[ndim - 1 - d] : layout >= 2 ? 2 * size[d] + 1 : size[d];
  base = made(larger, ndim, dtype);
  if (base->numel)
    memset(base->storage->ptr, 0x7f, base->storage->nbytes > 0 && dtype != TIDE_BOOL ? base->storage->nbytes : 0);
  if (layout == 1) {
    int order[TIDE_MAX_DIMS];
    for (int d = 0; d < ndim; d++) order[d] = ndim - 1 - d;
    OK(tide_permute(&x, base, order, ndim));
    tide_tensor_release(base);
    base = x;
  }
  for (int d = 0; d < ndim && layout >= 2; d++) {
    int64_t first = layout == 3 && size[d] ? 1 : 0;
    if (layout == 2 && size[d])
      OK(tide_slice(&x, base, d, 0, 2 * size[d] - 1, 2));
    else
      OK(tide_narrow(&x, base, d, first, size[d]));
    tide_tensor_release(base);
    base = x;
  }
  fill_samples(base, seed);
  return base;
}

static inline tide_tensor *counted(int64_t n, tide_dtype dtype) {
  tide_options o = {dtype, TIDE_CPU, false};
  tide_tensor *x = NULL;
  OK(tide_arange(&x, tide_int(0), tide_int(1), n, &o));
  return x;
}

static inline tide_tensor *counted_as(const int64_t *size, int ndim, tide_dtype dtype) {
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n *= size[d];
  tide_tensor *line = counted(n, dtype), *x = NULL;
  OK(tide_view(&x, line, size, ndim));
  tide_tensor_release(line);
  return x;
}

/* For each function f the nth allocation fails, for every n, until none of them does: nothing is kept or lost. */
static inline void each_allocation_fails(int functions,
                                         tide_status (*call)(int f, tide_tensor **first, tide_tensor **second)) {
  for (int f = 0; f < functions; f++) {
    size_t before = tide_memory_cpu_allocated();
    tide_status status = TIDE_MEMORY;
    for (int64_t n = 1; status != TIDE_OK && n < 100; n++) {
      tide_tensor *first = NULL, *second = NULL;
      tide__fault_alloc(n);
      status = call(f, &first, &second);
      tide__fault_alloc(0);
      CHECK(status == TIDE_OK || (status == TIDE_MEMORY && !first && !second));
      tide_tensor_release(first);
      tide_tensor_release(second);
      tide_memory_pump();
    }
    CHECK(status == TIDE_OK);
    CHECK(tide_memory_cpu_allocated() == before);
  }
}

/* Ends a test program. */
static inline int finish(const char *name) {
  fprintf(stderr, "%s: %d checks, %d failed\n", name, checks, failures);
  return failures ? 1 : 0;
}
