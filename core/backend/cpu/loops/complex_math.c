/* complex_math.c: what C lacks for complex numbers, or has but not accurate enough: exp2, expm1, log2, log10, log1p,
 * log_add, pow, sgn, nan_to_num and isclose. Numbers of float32 are computed here too, in float64. */
#include "complex_math.h"

#include <math.h>
#include <string.h>

static const double LN_2 = 0.69314718055994530942, LN_10 = 2.30258509299404568402;

/* Its parts as they are: a sum with an imaginary unit would make NaN of infinities. */
static double _Complex of_parts(double re, double im) {
  double _Complex z;
  memcpy(&z, &(double[2]){re, im}, sizeof z);
  return z;
}

double _Complex tide__cexp2(double _Complex z) {
  double re = creal(z), im = cimag(z);
  if (im == 0) return of_parts(exp2(re), im);
  if (!isfinite(re) || !isfinite(im)) return cexp(of_parts(re, im * LN_2));
  double half = exp2(re / 2); /* the whole may be infinite where the product is not */
  return of_parts(half * cos(im * LN_2) * half, half * sin(im * LN_2) * half);
}

double _Complex tide__cexpm1(double _Complex z) {
  double re = creal(z), im = cimag(z);
  if (im == 0) return of_parts(expm1(re), im);
  if (!isfinite(re) || !isfinite(im) || fabs(re) > 40) {
    double _Complex e = cexp(z);
    return of_parts(creal(e) - 1, cimag(e));
  }
  double half = sin(im / 2);
  return of_parts(expm1(re) * cos(im) - 2 * half * half, exp(re) * sin(im));
}

double _Complex tide__clog2(double _Complex z) {
  double _Complex l = clog(z);
  return of_parts(creal(l) / LN_2, cimag(l) / LN_2);
}

double _Complex tide__clog10(double _Complex z) {
  double _Complex l = clog(z);
  return of_parts(creal(l) / LN_10, cimag(l) / LN_10);
}

double _Complex tide__clog1p(double _Complex z) {
  double re = creal(z), im = cimag(z);
  bool small = fabs(re) < 0.5 && fabs(im) < 0.5;
  if (!small) return clog(of_parts(1 + re, im));
  return of_parts(log1p(fma(re, re, fma(im, im, 2 * re))) / 2, atan2(im, 1 + re));
}

double _Complex tide__clog_add(double _Complex a, double _Complex b) {
  bool less = creal(a) < creal(b);
  double _Complex low = less ? a : b, high = less ? b : a;
  if (isnan(creal(a)) || isnan(cimag(a)) || isnan(creal(b)) || isnan(cimag(b))) return of_parts(NAN, NAN);
  if (creal(low) == creal(high) && isinf(creal(high))) return creal(high) < 0 ? high : clog(cexp(a) + cexp(b));
  return high + tide__clog1p(cexp(low - high));
}

/* Small whole powers are products, which are exact where they can be. NaN where one is too large or small. */
static double _Complex whole_power(double _Complex a, int n) {
  double _Complex power = of_parts(1, 0);
  for (int left = n < 0 ? -n : n; left; left >>= 1) {
    double re = creal(a), im = cimag(a);
    if (left & 1) power = of_parts(creal(power) * re - cimag(power) * im, creal(power) * im + cimag(power) * re);
    a = of_parts((re - im) * (re + im), 2 * re * im);
  }
  return n < 0 ? 1 / power : power;
}

double _Complex tide__cpow(double _Complex a, double _Complex b) {
  double n = creal(b);
  bool real = cimag(b) == 0, finite = isfinite(creal(a)) && isfinite(cimag(a));
  if (creal(a) == 0 && cimag(a) == 0 && n > 0) return of_parts(0, 0);
  if (real && n == 0) return of_parts(1, 0);
  if (real && finite && fabs(n) <= 16 && n == floor(n) && (n > 0 || creal(a) != 0 || cimag(a) != 0)) {
    double _Complex power = whole_power(a, (int)n);
    if (!isnan(creal(power)) && !isnan(cimag(power))) return power;
  }
  double _Complex l = clog(a);
  if (real) return cexp(of_parts(creal(l) * n, cimag(l) * n));
  return cexp(of_parts(creal(l) * n - cimag(l) * cimag(b), creal(l) * cimag(b) + cimag(l) * n));
}

/* z / |z|; an infinite or undefined size has no direction. */
double _Complex tide__csgn(double _Complex z) {
  double size = cabs(z), one = size / size;
  return size == 0 ? z : of_parts(creal(z) / size * one, cimag(z) / size * one);
}

static double number_of(double x, double nan, double high, double low) {
  return isnan(x) ? nan : isinf(x) ? (x > 0 ? high : low) : x;
}

double _Complex tide__cnan_to_num(double _Complex z, double nan, double high, double low) {
  return of_parts(number_of(creal(z), nan, high, low), number_of(cimag(z), nan, high, low));
}

/* An infinite distance is not within an infinite tolerance. */
bool tide__cisclose(double _Complex a, double _Complex b, double rtol, double atol, bool equal_nan) {
  if (a == b) return true;
  if (a != a || b != b) return equal_nan && a != a && b != b;
  double distance = cabs(a - b);
  return isfinite(distance) && distance <= atol + rtol * cabs(b);
}
