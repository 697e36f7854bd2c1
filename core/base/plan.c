/* plan.c: what turns tensors and numbers into the plain structs of plan.h: collapsing dims, 16-bit floats, scalars.
 *
 * A plan's dims are as few and as long as the strides of all operands allow, because loops and kernels are fastest over
 * one long dim. Conversions here are the reference for numbers that a host passes in: round to nearest even, NaN stays
 * NaN.
 *
 * Invariant: collapsing never changes which elements of the operands meet, only the order in which they are visited;
 * with keep_order not even that. */
#include <math.h>
#include <stdlib.h>

#include "base.h"

#define ROUTINE(NAME, name) #name,
const char *const tide__linalg_names[] = {TIDE_LINALG_ROUTINES(ROUTINE)};

/* ---- dims ---- */

/* Should dim a be outside of dim b? The first operand that moves along both decides. */
static bool outside(int64_t (*stride)[TIDE_MAX_DIMS], int operands, int a, int b) {
  for (int k = 0; k < operands; k++) {
    int64_t sa = llabs(stride[k][a]), sb = llabs(stride[k][b]);
    if (sa && sb && sa != sb) return sa > sb;
  }
  return true;
}

static void swap_dims(int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS], int operands, int a, int b) {
  int64_t t = size[a];
  size[a] = size[b], size[b] = t;
  for (int k = 0; k < operands; k++) t = stride[k][a], stride[k][a] = stride[k][b], stride[k][b] = t;
}

static bool mergeable(const int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS], int operands, int outer, int inner) {
  for (int k = 0; k < operands; k++)
    if (stride[k][outer] != size[inner] * stride[k][inner]) return false;
  return true;
}

int tide__collapse(int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS], int operands, int ndim, bool keep_order) {
  int n = 0;
  for (int d = 0; d < ndim; d++) {
    if (size[d] == 1) continue;
    size[n] = size[d];
    for (int k = 0; k < operands; k++) stride[k][n] = stride[k][d];
    n++;
  }
  if (n == 0) {
    size[0] = 1;
    for (int k = 0; k < operands; k++) stride[k][0] = 1;
    return 1;
  }
  if (!keep_order)
    for (int i = 1; i < n; i++)
      for (int j = i; j > 0 && !outside(stride, operands, j - 1, j); j--) swap_dims(size, stride, operands, j - 1, j);
  int last = 0;
  for (int d = 1; d < n; d++) {
    if (mergeable(size, stride, operands, last, d)) {
      size[last] *= size[d];
    } else {
      last++;
      size[last] = size[d];
    }
    for (int k = 0; k < operands; k++) stride[k][last] = stride[k][d];
  }
  return last + 1;
}

/* ---- 16-bit floats ---- */

static uint32_t float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float bits_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

uint16_t tide__to_half(float f) {
  uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  if (rest >= 0x7f800000u) return (uint16_t)(sign | 0x7c00u | (rest > 0x7f800000u ? 0x200u : 0));
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on it rounds to infinity */
  if (rest < 0x38800000u) {
    /* Below the smallest normal: adding 0.5 leaves the value, rounded to multiples of 2^-24, in the low mantissa
     * bits. */
    return (uint16_t)(sign | (float_bits(bits_float(rest) + 0.5f) - 0x3f000000u));
  }
  uint32_t odd = (rest >> 13) & 1u;
  return (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
}

float tide__from_half(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return bits_float(sign | ((rest << 13) + 0x38000000u));
  float small = (float)rest * 0x1p-24f;
  return sign ? -small : small;
}

uint16_t tide__to_bfloat16(float f) {
  uint32_t u = float_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float tide__from_bfloat16(uint16_t h) { return bits_float((uint32_t)h << 16); }

/* ---- scalars ---- */

/* Truncates toward zero; what does not fit in an int64 becomes the smallest one, as hardware does. */
static int64_t double_to_int(double f) {
  if (!(f >= -9223372036854775808.0 && f < 9223372036854775808.0)) return INT64_MIN;
  return (int64_t)f;
}

tide_value tide__value(tide_scalar s) {
  if (s.kind == 'F' || s.kind == 'C') return (tide_value){double_to_int(s.re), s.re, s.kind == 'C' ? s.im : 0};
  return (tide_value){s.i, s.i ? (double)s.i : copysign(0, s.re), 0};
}

void tide__scalar_pack(uint64_t bits[2], tide_scalar s, tide_dtype dtype) {
  tide_value v = tide__value(s);
  bool integer = s.kind != 'F' && s.kind != 'C';
  float f = integer && v.i ? (float)v.i : (float)v.re, pair[2] = {f, (float)v.im};
  double wide[2] = {v.re, v.im};
  uint16_t half;
  bits[0] = bits[1] = 0;
  switch (dtype) {
  case TIDE_BOOL: bits[0] = integer ? v.i != 0 : v.re != 0 || v.im != 0; break;
  case TIDE_UINT8:
  case TIDE_INT8:
  case TIDE_INT16:
  case TIDE_INT32:
  case TIDE_INT64: memcpy(bits, &v.i, (size_t)tide__itemsize(dtype)); break; /* little-endian: the low bytes */
  case TIDE_FLOAT16: half = tide__to_half(f), memcpy(bits, &half, sizeof half); break;
  case TIDE_BFLOAT16: half = tide__to_bfloat16(f), memcpy(bits, &half, sizeof half); break;
  case TIDE_FLOAT32: memcpy(bits, &f, sizeof f); break;
  case TIDE_FLOAT64: memcpy(bits, wide, sizeof wide[0]); break;
  case TIDE_COMPLEX64: memcpy(bits, pair, sizeof pair); break;
  case TIDE_COMPLEX128: memcpy(bits, wide, sizeof wide); break;
  default: break;
  }
}

tide_scalar tide__scalar_unpack(const void *bits, tide_dtype dtype) {
  int64_t i = 0;
  uint16_t half;
  float pair[2];
  double wide[2];
  switch (dtype) {
  case TIDE_BOOL: return tide_bool(*(const uint8_t *)bits != 0);
  case TIDE_UINT8: return tide_int(*(const uint8_t *)bits);
  case TIDE_INT8: return tide_int(*(const int8_t *)bits);
  case TIDE_INT16: memcpy(&i, bits, 2); return tide_int((int16_t)i);
  case TIDE_INT32: memcpy(&i, bits, 4); return tide_int((int32_t)i);
  case TIDE_INT64: memcpy(&i, bits, 8); return tide_int(i);
  case TIDE_FLOAT16: memcpy(&half, bits, 2); return tide_float((double)tide__from_half(half));
  case TIDE_BFLOAT16: memcpy(&half, bits, 2); return tide_float((double)tide__from_bfloat16(half));
  case TIDE_FLOAT32: memcpy(pair, bits, 4); return tide_float((double)pair[0]);
  case TIDE_FLOAT64: memcpy(wide, bits, 8); return tide_float(wide[0]);
  case TIDE_COMPLEX64: memcpy(pair, bits, 8); return (tide_scalar){'C', 0, (double)pair[0], (double)pair[1]};
  default: memcpy(wide, bits, 16); return (tide_scalar){'C', 0, wide[0], wide[1]};
  }
}

/* ---- names ---- */

const char *const tide__random_names[] = {"uniform", "normal",     "random",    "bernoulli", "exponential",
                                          "cauchy",  "log_normal", "geometric", "poisson",   "multinomial"};
