/* cpu_test.h: what the tests of the CPU kernels share: numbers of every dtype, strided memory with guarded holes, and a
 * count of failures. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/isa.h"

static int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition) && failures++ < 40) {                                                                             \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                           \
      printf(__VA_ARGS__);                                                                                             \
      printf("\n");                                                                                                    \
    }                                                                                                                  \
  } while (0)

static uint64_t seed_now = 88172645463325252u;
static inline uint64_t next_random(void) {
  seed_now ^= seed_now << 13, seed_now ^= seed_now >> 7, seed_now ^= seed_now << 17;
  return seed_now;
}
static inline int64_t below(int64_t n) { return (int64_t)(next_random() >> 11) % n; }

static inline int item_of(int dtype) { return (int)tide_dtype_size((tide_dtype)dtype); }
static inline char kind_of(int dtype) { return tide_dtype_kind((tide_dtype)dtype); }
static inline bool is_whole(int dtype) { return kind_of(dtype) != 'F' && kind_of(dtype) != 'C'; }

/* ---- numbers: i for integers and bool, re and im else ---- */

static inline tide_value get(int dtype, const void *p) {
  tide_value v = {0, 0, 0};
  uint16_t half;
  float f[2];
  double d[2];
  switch (dtype) {
  case TIDE_BOOL: v.i = *(const uint8_t *)p != 0; break;
  case TIDE_UINT8: v.i = *(const uint8_t *)p; break;
  case TIDE_INT8: v.i = *(const int8_t *)p; break;
  case TIDE_INT16: v.i = *(const int16_t *)p; break;
  case TIDE_INT32: v.i = *(const int32_t *)p; break;
  case TIDE_INT64: v.i = *(const int64_t *)p; break;
  case TIDE_FLOAT16: memcpy(&half, p, 2), v.re = (double)tide__from_half(half); break;
  case TIDE_BFLOAT16: memcpy(&half, p, 2), v.re = (double)tide__from_bfloat16(half); break;
  case TIDE_FLOAT32: memcpy(f, p, 4), v.re = (double)f[0]; break;
  case TIDE_FLOAT64: memcpy(d, p, 8), v.re = d[0]; break;
  case TIDE_COMPLEX64: memcpy(f, p, 8), v.re = (double)f[0], v.im = (double)f[1]; break;
  default: memcpy(d, p, 16), v.re = d[0], v.im = d[1]; break;
  }
  return v;
}

static inline int64_t whole_of(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

/* Stores v, which is of dtype `from`, as dtype `to`. */
static inline void put(int to, void *p, tide_value v, int from) {
  bool whole = is_whole(from);
  int64_t i = whole ? v.i : whole_of(v.re);
  float f[2] = {whole ? (float)v.i : (float)v.re, (float)v.im};
  double d[2] = {whole ? (double)v.i : v.re, v.im};
  uint16_t half;
  switch (to) {
  case TIDE_BOOL: *(uint8_t *)p = whole ? v.i != 0 : v.re != 0 || (kind_of(from) == 'C' && v.im != 0); break;
  case TIDE_UINT8: *(uint8_t *)p = (uint8_t)i; break;
  case TIDE_INT8: *(int8_t *)p = (int8_t)i; break;
  case TIDE_INT16: *(int16_t *)p = (int16_t)i; break;
  case TIDE_INT32: *(int32_t *)p = (int32_t)i; break;
  case TIDE_INT64: *(int64_t *)p = i; break;
  case TIDE_FLOAT16: half = tide__to_half(f[0]), memcpy(p, &half, 2); break;
  case TIDE_BFLOAT16: half = tide__to_bfloat16(f[0]), memcpy(p, &half, 2); break;
  case TIDE_FLOAT32: memcpy(p, f, 4); break;
  case TIDE_FLOAT64: memcpy(p, d, 8); break;
  case TIDE_COMPLEX64: memcpy(p, f, 8); break;
  default: memcpy(p, d, 16); break;
  }
}

static inline bool same_double(double a, double b) { return a == b || (a != a && b != b); }
static inline bool close_double(double a, double b, double tolerance) {
  return same_double(a, b) || fabs(a - b) <= tolerance * (1 + fabs(b));
}
static inline bool same_value(tide_value a, tide_value b, int dtype) {
  return is_whole(dtype) ? a.i == b.i : same_double(a.re, b.re) && same_double(a.im, b.im);
}

static inline tide_value odd_value(int dtype) {
  static const double odd[] = {0,   -0.0,   1,     -1,   0.5,  NAN,  INFINITY, -INFINITY, 1e-40, 65504, 65520,
                               3e9, -3.7e9, 1e300, 1e19, 2.75, -2.5, 127.6,    -129.2,    300.4, 6e-8,  1e5};
  static const int64_t odd_whole[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 255, 256, -128, 3, 7};
  tide_value v = {odd_whole[below(12)], odd[below(22)], odd[below(22)]};
  char room[16];
  put(dtype, room, v, is_whole(dtype) ? TIDE_INT64 : TIDE_COMPLEX128);
  return get(dtype, room);
}
static inline tide_value plain_value(int dtype) {
  tide_value v = {below(21) - 10, (double)(below(4001) - 2000) / 256, (double)(below(4001) - 2000) / 256};
  char room[16];
  put(dtype, room, v, is_whole(dtype) ? TIDE_INT64 : TIDE_COMPLEX128);
  return get(dtype, room);
}

/* ---- strided memory ---- */

typedef struct memory {
  char *all, *first; /* the room, and the element with all indexes 0 */
  size_t bytes;
} memory;

enum { DENSE, PERMUTED, SPREAD, REVERSED, REPEATED, LAYOUTS };

/* Strides for the sizes in one of the layouts, and room that holds just these elements: a stray access is seen by the
 * sanitizers, a stray write in the holes by memory_check. */
static inline memory memory_new(int64_t *stride, const int64_t *size, int ndim, int layout, int item) {
  int order[TIDE_MAX_DIMS];
  int64_t step = layout == SPREAD ? 2 : 1, low = 0, high = 0;
  for (int d = 0; d < ndim; d++) order[d] = d;
  if (layout == PERMUTED)
    for (int d = ndim - 1; d > 0; d--) {
      int other = (int)below(d + 1), was = order[d];
      order[d] = order[other], order[other] = was;
    }
  for (int d = ndim - 1; d >= 0; d--) {
    int at = order[d];
    bool repeated = layout == REPEATED && (below(2) || ndim == 1);
    stride[at] = repeated ? 0 : layout == REVERSED && at % 2 == (ndim - 1) % 2 ? -step : step;
    if (!repeated) step *= size[at] + (layout == SPREAD ? 1 : 0);
    if (stride[at] < 0)
      low += (size[at] - 1) * stride[at];
    else
      high += (size[at] - 1) * stride[at];
  }
  memory m;
  m.bytes = (size_t)((high - low + 1) * item);
  m.all = malloc(m.bytes);
  memset(m.all, 0xA5, m.bytes);
  m.first = m.all - low * item;
  return m;
}

static inline int64_t offset_at(const int64_t *size, const int64_t *stride, int ndim, int64_t position) {
  int64_t offset = 0;
  for (int d = ndim - 1; d >= 0; d--) offset += position % size[d] * stride[d], position /= size[d];
  return offset;
}

static inline int64_t numel_of(const int64_t *size, int ndim) {
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n *= size[d];
  return n;
}

/* Sizes with every kind of row: short, of odd length, longer than a chunk. */
static inline int random_size(int64_t *size) {
  static const int64_t lengths[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 64, 100, 257};
  int ndim = 1 + (int)below(4);
  for (int d = 0; d < ndim; d++) size[d] = lengths[below(ndim == 1 ? 12 : ndim == 2 ? 11 : ndim == 3 ? 8 : 6)];
  if (below(8) == 0) size[ndim - 1] = 3000 + below(3000), ndim = ndim > 2 ? 2 : ndim;
  if (ndim == 2 && size[1] > 2000 && size[0] > 8) size[0] = 3;
  if (ndim == 1 && below(3) == 0) size[0] = 70000;
  if (ndim == 2 && size[0] > 500) size[0] = 7;
  return ndim;
}

static const char *const isa_names[] = {"base", "avx2", "avx512"};
