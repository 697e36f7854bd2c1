/* random.h: Philox4x32-10 and how its bits become numbers. The only definition, for C and for CUDA.
 *
 * Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The key is
 * the seed; the counter is {offset / 4, group}, both 64 bits wide, low words first. A group gives 4 draws of 32 bits or
 * 2 of 64: element i of a call takes draw i % 4 of group i / 4, or, where the dtype needs 64 bits, draw i % 2 of group
 * i / 2. Every call advances the generator's offset by 4. Nothing else enters, so the values depend on seed, offset and
 * i alone. All roundings are explicit (fma), so that integers and uniforms are equal bit for bit on every kind of
 * device. */
#ifndef TIDE_RANDOM_H
#define TIDE_RANDOM_H

#include <stdint.h>
#include <math.h>

#ifdef __CUDACC__
#  define TIDE_FN static __device__ __forceinline__
#else
#  define TIDE_FN static inline
#endif

typedef struct tide_philox {
  uint32_t v[4];
} tide_philox;

TIDE_FN void tide_philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
  uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
  uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
  c[1] = (uint32_t)p1, c[3] = (uint32_t)p0, c[0] = n0, c[2] = n2;
}

/* The ten rounds on a counter of four words and a key of two. */
TIDE_FN tide_philox tide_philox4x32_10(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  tide_philox out = {{c0, c1, c2, c3}};
  for (int r = 0; r < 10; r++) {
    tide_philox_round(out.v, k0, k1);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return out;
}

/* The draws of one group. */
TIDE_FN tide_philox tide_random_group(uint64_t seed, uint64_t offset, uint64_t group) {
  uint64_t o = offset / 4;
  return tide_philox4x32_10((uint32_t)o, (uint32_t)(o >> 32), (uint32_t)group, (uint32_t)(group >> 32), (uint32_t)seed,
                            (uint32_t)(seed >> 32));
}

TIDE_FN uint64_t tide_random_u64(const tide_philox *p, int lane) {
  return (uint64_t)p->v[2 * lane] | (uint64_t)p->v[2 * lane + 1] << 32;
}

/* Sort key of randperm: 64 bits, lane i % 2 of group i / 2. */
TIDE_FN uint64_t tide_random_key(uint64_t seed, uint64_t offset, uint64_t i) {
  tide_philox p = tide_random_group(seed, offset, i / 2);
  return tide_random_u64(&p, (int)(i & 1));
}

/* Uniform in [0, 1) with the bits that the stored dtype can hold (float32 24, float16 11, bfloat16 8), exactly. */
TIDE_FN float tide_unit_f32(uint32_t x, int bits) { return (float)(x >> (32 - bits)) * (1.0f / (float)(1u << bits)); }
TIDE_FN double tide_unit_f64(uint64_t x) { return (double)(x >> 11) * (1.0 / 9007199254740992.0); }
/* Uniform in (0, 1]: the argument of a logarithm. */
TIDE_FN float tide_unit_open_f32(uint32_t x) { return ((float)(x >> 8) + 1.0f) * (1.0f / 16777216.0f); }
TIDE_FN double tide_unit_open_f64(uint64_t x) { return ((double)(x >> 11) + 1.0) * (1.0 / 9007199254740992.0); }

/* [a, b): a rounding up to b falls back to a. */
TIDE_FN float tide_uniform_f32(float u, float a, float b) {
  float v = fmaf(u, b - a, a);
  return v < b || a == b ? v : a;
}
TIDE_FN double tide_uniform_f64(double u, double a, double b) {
  double v = fma(u, b - a, a);
  return v < b || a == b ? v : a;
}

/* Normals come in pairs by Box and Muller (1958): of one group of four draws, elements 0 and 1 are
 *   r cos(2 pi u2), r sin(2 pi u2)   with r = sqrt(-2 ln u1), u1 = unit_open(draw 0), u2 = unit(draw 1)
 * and elements 2 and 3 the same from draws 2 and 3; in float64, u1 and u2 are the two 64-bit draws of a group that
 * serves two elements: group i / 2, element i % 2. float16 and bfloat16 are float32 normals rounded. The other kinds:
 *   BERNOULLI    unit < p, unit of float32 (24 bits; float64 probabilities: 53 bits of a 64-bit draw)
 *   EXPONENTIAL  -ln(unit_open) / a
 *   CAUCHY       a + b tan(pi (unit - 1/2))
 *   LOG_NORMAL   exp(normal)
 *   GEOMETRIC    ceil(ln(unit_open) / ln(1 - a)), at least 1
 *   RANDINT      lo + draw mod range: a 32-bit draw while range <= 2^32 - 1, else a 64-bit draw
 *   POISSON      tide_poisson_draw, whose element i takes groups i, i + 2^48 and so on
 *   PICK         the first place of the line whose running sum is above unit of float64 times the last one
 * Values of float16, bfloat16 and integer dtypes are computed as float32, those of float64 as float64, those of POISSON
 * always. */

#endif
