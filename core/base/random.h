/* random.h: how the bits of Philox4x32-10 (philox.h) become numbers. The only definition, for C and for CUDA.
 *
 * The key is the seed; the counter is {offset / 4, group}, both 64 bits wide, low words first. A group gives 4 draws of
 * 32 bits or 2 of 64: element i of a call takes draw i % 4 of group i / 4, or, where the dtype needs 64 bits, draw i %
 * 2 of group i / 2. Every call advances the generator's offset by 4. Nothing else enters, so the values depend on seed,
 * offset and i alone. All roundings are explicit (fma), so that integers and uniforms are equal bit for bit on every
 * kind of device. */
#pragma once

#include <stdint.h>
#include <math.h>

#include "base/mathematics/philox.h"

/* The draws of one group. */
TIDE_FN tide_philox tide_random_group(uint64_t seed, uint64_t offset, uint64_t group) {
  uint64_t o = offset / 4;
  return tide_philox4x32_10((uint32_t)o, (uint32_t)(o >> 32), (uint32_t)group, (uint32_t)(group >> 32), (uint32_t)seed,
                            (uint32_t)(seed >> 32));
}

/* Sort key of randperm: 64 bits, lane i % 2 of group i / 2. */
TIDE_FN uint64_t tide_random_key(uint64_t seed, uint64_t offset, uint64_t i) {
  tide_philox p = tide_random_group(seed, offset, i / 2);
  return tide_random_u64(&p, (int)(i & 1));
}

/* [a, a + scale): what would be `end` or more, or be rounded to such a value when it is stored, is a. So the ends of
 * the interval, each with half a step of the stored dtype around it, make one whole step. */
TIDE_FN float tide_uniform_f32(float u, float a, float scale, float end) {
  float v = fmaf(u, scale, a);
  return v < end ? v : a;
}
TIDE_FN double tide_uniform_f64(double u, double a, double scale, double end) {
  double v = fma(u, scale, a);
  return v < end ? v : a;
}

/* A value of a kind that tide__random_limits bounds; NaN passes. */
TIDE_FN float tide_within_f32(float v, float least, float most) { return v < least ? least : v > most ? most : v; }
TIDE_FN double tide_within_f64(double v, double least, double most) { return v < least ? least : v > most ? most : v; }

/* The group of RANDINT's element i whose own draw is one of the last, which do not fill a whole range; tide_bounded
 * makes an integer of it. */
TIDE_FN uint64_t tide_spare_group(uint64_t i) { return i + ((uint64_t)1 << 48); }

/* Normals come in pairs by Box and Muller (1958): of one group of four draws, elements 0 and 1 are
 *   r cos(2 pi u2), r sin(2 pi u2)   with r = sqrt(-2 ln u1), u1 = unit_open(draw 0), u2 = unit(draw 1)
 * and elements 2 and 3 the same from draws 2 and 3; in float64, u1 and u2 are the two 64-bit draws of a group that
 * serves two elements: group i / 2, element i % 2. float16 and bfloat16 are float32 normals rounded. The other kinds:
 *   BERNOULLI    unit < p, unit of float32 (24 bits; float64 probabilities: 53 bits of a 64-bit draw)
 *   EXPONENTIAL  -ln(unit_open) / a; half a step of the unit where that is 1
 *   CAUCHY       a + b tan(pi (unit - 1/2))
 *   LOG_NORMAL   exp(normal)
 *   GEOMETRIC    ceil(ln(unit_open) / ln(1 - a)), at least 1
 *   RANDINT      lo + draw mod range: a 32-bit draw while range <= 2^32 - 1, else a 64-bit draw. A draw that would
 *                favor the lower integers is not used: tide_spare_group
 *   POISSON      tide_poisson_draw, whose element i takes groups i, i + 2^48 and so on
 *   PICK         the first place of the line whose running sum is above unit of float64 times the last one
 * Values of float16, bfloat16 and integer dtypes are computed as float32, those of float64 as float64, those of POISSON
 * always. tide__random_limits says what keeps them inside the support of the kind when they are rounded. */
