/* philox.h: Philox4x32-10, and what is made of its words alone: units and integers below a bound. The only text of
 * these, for C, for CUDA and for kernels, whose compilers have no headers: CMake hands it to kernel/prelude.lua and
 * to lua_bindings/kernel/oracle.c. So it includes nothing and names no type of <stdint.h>.
 *
 * Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 *
 * Invariant: the chances of two integers below a bound differ by less than 2^-32 of either, above 2^32 by less than
 * 2^-64: no count of draws shows it. */
#pragma once

#ifndef TIDE_FN
#  ifdef __CUDACC__
#    define TIDE_FN static __device__ __forceinline__
#  else
#    define TIDE_FN static inline
#  endif
#endif

typedef struct tide_philox {
  unsigned v[4];
} tide_philox;

/* What rounds multiply by, and what the words of the key grow by. */
#define TIDE_PHILOX_M0 0xD2511F53u
#define TIDE_PHILOX_M1 0xCD9E8D57u
#define TIDE_PHILOX_W0 0x9E3779B9u
#define TIDE_PHILOX_W1 0xBB67AE85u

/* The ten rounds on a counter of four words and a key of two. */
TIDE_FN tide_philox tide_philox4x32_10(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
  for (int round = 0; round < 10; round++) {
    unsigned long long p0 = (unsigned long long)TIDE_PHILOX_M0 * c0, p1 = (unsigned long long)TIDE_PHILOX_M1 * c2;
    c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0, c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
    c1 = (unsigned)p1, c3 = (unsigned)p0;
    k0 += TIDE_PHILOX_W0, k1 += TIDE_PHILOX_W1;
  }
  tide_philox out = {{c0, c1, c2, c3}};
  return out;
}

/* One of the two draws of 64 bits. */
TIDE_FN unsigned long long tide_random_u64(const tide_philox *p, int lane) {
  return (unsigned long long)p->v[2 * lane] | (unsigned long long)p->v[2 * lane + 1] << 32;
}

/* Uniform in [0, 1) with the bits that the stored dtype can hold (float32 24, float16 11, bfloat16 8), exactly. */
TIDE_FN float tide_unit_f32(unsigned x, int bits) { return (float)(x >> (32 - bits)) * (1.0f / (float)(1u << bits)); }
TIDE_FN double tide_unit_f64(unsigned long long x) { return (double)(x >> 11) * (1.0 / 9007199254740992.0); }
/* Uniform in (0, 1]: the argument of a logarithm. */
TIDE_FN float tide_unit_open_f32(unsigned x) { return ((float)(x >> 8) + 1.0f) * (1.0f / 16777216.0f); }
TIDE_FN double tide_unit_open_f64(unsigned long long x) {
  return ((double)(x >> 11) + 1.0) * (1.0 / 9007199254740992.0);
}

TIDE_FN unsigned long long tide_high_product(unsigned long long a, unsigned long long b) {
#ifdef __CUDACC__
  return __umul64hi(a, b);
#else
  return (unsigned long long)((unsigned __int128)a * b >> 64);
#endif
}

/* An integer in [0, range): all 128 bits, as a number in [0, 1), times the range. Up to 2^32 the upper 64 bits do. */
TIDE_FN unsigned long long tide_bounded(tide_philox p, unsigned long long range) {
  unsigned long long high = tide_random_u64(&p, 1), low = high * range, carry = 0;
  if (range >> 32) carry = low + tide_high_product(tide_random_u64(&p, 0), range) < low;
  return tide_high_product(high, range) + carry;
}
