/* limits.c: what keeps random numbers inside the support of their kind.
 *
 * A backend computes in float32 or float64 and rounds to the dtype. Rounding is monotonic, so a value between two
 * numbers that the dtype holds stays between them. The limits are such numbers.
 *
 *   UNIFORM      [a, b): from the first number that is not below a to the last one below b. If the dtype has none
 *                there, all elements are a, rounded.
 *   NORMAL, CAUCHY         finite
 *   EXPONENTIAL, LOG_NORMAL  above 0, finite
 *   GEOMETRIC    from 1, finite
 *   POISSON      finite
 *
 * Invariant: limited says whether any draw can leave the limits, so that usual parameters cost nothing. */
#include <float.h>
#include <math.h>

#include "base.h"

/* The last digit of the numbers around x. */
static double digit_at(int dtype, double x) {
  static const int digits[] = {11, 8, 24, 53}, lowest[] = {-24, -133, -149, -1074};
  int k = dtype - TIDE_FLOAT16, e = 0;
  frexp(x, &e);
  return ldexp(1, x == 0 || e - digits[k] < lowest[k] ? lowest[k] : e - digits[k]);
}

/* The first number of the dtype that is not below x, and the last one below x. */
static double not_below(int dtype, double x) {
  double digit = digit_at(dtype, x);
  return ceil(x / digit) * digit;
}
static double last_below(int dtype, double x) {
  double digit = digit_at(dtype, x), at = floor(x / digit) * digit;
  if (at < x) return at;
  at = x - digit / 2, digit = digit_at(dtype, at);
  return floor(at / digit) * digit;
}

static double largest_of(int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return 65504;
  case TIDE_BFLOAT16: return 0x1.fep127;
  case TIDE_FLOAT32: return (double)FLT_MAX;
  case TIDE_FLOAT64: return DBL_MAX;
  case TIDE_BOOL: return 1;
  case TIDE_UINT8: return UINT8_MAX;
  default: return floor(last_below(TIDE_FLOAT32, ldexp(1, (int)tide__itemsize(dtype) * 8 - 1)));
  }
}

/* b becomes the length, most the first value that is rounded to b or more. */
static void limit_uniform(tide_random_args *a) {
  const double begin = a->a + 0.0, end = a->b; /* -0 becomes 0 */
  const int dtype = a->dtype;
  double first = dtype == TIDE_FLOAT64 ? begin : not_below(dtype, begin);
  a->a = begin, a->b = 0, a->most = INFINITY;
  if (first >= end) return;
  double next = dtype == TIDE_FLOAT64 ? end : not_below(dtype, end);
  a->a = first, a->b = end - first, a->most = next;
  if (dtype < TIDE_FLOAT32) a->most = (last_below(dtype, end) + next) / 2;
}

static double cap(double x, double most) { return isinf(x) || fabs(x) <= most ? x : copysign(most, x); }

void tide__random_limits(tide_random_args *a) {
  const bool wide = a->dtype == TIDE_FLOAT64;
  const double most = largest_of(a->dtype), radius = wide ? 9 : 6, tangent = wide ? 0x1p55 : 0x1p25,
               quarter = wide ? 0x1p-55 : 0x1p-26; /* of a step of the unit */
  const double least = tide__category(a->dtype) == 2 ? digit_at(a->dtype, 0) : 1;
  a->least = -most, a->most = most, a->limited = false;
  if (!wide) a->b = cap(a->b, (double)FLT_MAX);
  double far = a->b * (a->kind == TIDE_CAUCHY ? tangent : radius);
  switch (a->kind) {
  case TIDE_UNIFORM: limit_uniform(a); break;
  case TIDE_NORMAL:
  case TIDE_CAUCHY:
    if (!wide) a->a = cap(a->a, (double)FLT_MAX);
    a->limited = isfinite(a->a) && isfinite(a->b) && !(fabs(a->a) + far <= most);
    break;
  case TIDE_LOG_NORMAL:
    if (!wide) a->a = cap(a->a, (double)FLT_MAX);
    a->least = least;
    a->limited = isfinite(a->a) && isfinite(a->b) && !(a->a - far > log(least) + 1 && a->a + far < log(most) - 1);
    break;
  case TIDE_EXPONENTIAL: a->least = least, a->limited = !(quarter / a->a > least && 40 / a->a < most); break;
  case TIDE_GEOMETRIC: a->least = 1, a->limited = !(-40 / log1p(-a->a) < most); break;
  case TIDE_POISSON: a->least = 0, a->limited = !wide; break;
  default: break;
  }
}
