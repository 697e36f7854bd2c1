/* windows_math.c: what MinGW's C library has wrong: its fma and fmaf round twice.
 *
 * The processor's instruction where it has one. Else the exact product and the sum of three parts; the last but
 * one is rounded to an odd number, so that the final rounding is the only one (Boldo and Melquiond, 2008); numbers
 * whose parts leave the range of normal ones are rounded twice there. */
#ifdef _WIN32
#  include <math.h>
#  include <stdbool.h>
#  include <stdint.h>
#  include <string.h>

__attribute__((target("fma"))) static double fast(double x, double y, double z) { return __builtin_fma(x, y, z); }
__attribute__((target("fma"))) static float fast_float(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

static double sum(double *rest, double a, double b) {
  double s = a + b, t = s - a;
  *rest = (a - (s - t)) + (b - t);
  return s;
}

/* x * y is the result and the rest. */
static double product(double *rest, double x, double y) {
  const double split = 0x1p27 + 1;
  double p = x * y, a = split * x, b = split * y, xh = a - (a - x), yh = b - (b - y), xl = x - xh, yl = y - yh;
  *rest = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl;
  return p;
}

static double odd_sum(double a, double b) {
  double rest, s = sum(&rest, a, b);
  uint64_t bits;
  if (rest == 0 || !isfinite(s)) return s;
  memcpy(&bits, &s, sizeof bits);
  if (!(bits & 1)) bits += (rest > 0) == (s > 0) ? 1 : (uint64_t)-1;
  memcpy(&s, &bits, sizeof s);
  return s;
}

double fma(double x, double y, double z) {
  if (__builtin_cpu_supports("fma")) return fast(x, y, z);
  double pl, ul, tl, p = product(&pl, x, y);
  if (!isfinite(p) || !isfinite(pl) || !isfinite(z)) return p + z;
  double u = sum(&ul, z, pl), t = sum(&tl, p, u);
  return t + odd_sum(tl, ul);
}

float fmaf(float x, float y, float z) {
  if (__builtin_cpu_supports("fma")) return fast_float(x, y, z);
  return (float)odd_sum((double)x * y, z);
}
#endif
