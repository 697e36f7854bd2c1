/* draws.h: random numbers that take more than a transformation of their bits, for C and for CUDA. */
#pragma once

#include "special.h"

/* Small rates by inversion: one unit, and the chances added up until they are above it. Others by W. Hörmann, "The
 * transformed rejection method for generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993
 * (PTRS): a group for each attempt. NaN where the rate is none. */
TIDE_FN double tide_poisson_draw(double rate, uint64_t seed, uint64_t offset, uint64_t i) {
  if (!(rate >= 0 && rate <= 1.7976931348623157e308)) return NAN;
  tide_philox p = tide_random_group(seed, offset, i);
  if (rate < 10) {
    double unit = tide_unit_f64(tide_random_u64(&p, 0)), chance = exp(-rate), sum = chance, n = 0;
    while (unit >= sum && n < 200) n += 1, chance *= rate / n, sum += chance;
    return n;
  }
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = log(rate);
  double inverse = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2);
  for (uint64_t attempt = 1; attempt < 1000; attempt++) {
    double u = tide_unit_f64(tide_random_u64(&p, 0)) - 0.5, v = tide_unit_open_f64(tide_random_u64(&p, 1));
    double edge = 0.5 - fabs(u), n = floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= inner) return n;
    if (n >= 0 && !(edge < 0.013 && v > edge) &&
        log(v * inverse / (a / (edge * edge) + b)) <= n * log_rate - rate - tide_lgamma_f64(n + 1))
      return n;
    p = tide_random_group(seed, offset, i + (attempt << 48));
  }
  return floor(rate); /* never, but for rates that float64 cannot tell from their neighbours */
}

/* unit times the last running sum, below which it stays: of subnormal ones the product is rounded up to it. */
TIDE_FN double tide_pick_sum(double unit, double last) {
  double at = unit * last;
  return at < last ? at : last - 4.9406564584124654e-324;
}

/* The first of n running sums that is above unit times the last one. */
TIDE_FN int64_t tide_pick_place(const double *sums, int64_t n, double unit) {
  double at = tide_pick_sum(unit, sums[n - 1]);
  int64_t from = 0, to = n - 1;
  while (from < to) {
    int64_t middle = from + (to - from) / 2;
    if (sums[middle] > at)
      to = middle;
    else
      from = middle + 1;
  }
  return from;
}
