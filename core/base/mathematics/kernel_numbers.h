/* kernel_numbers.h: numbers as kernels that are written in Lua have them. The only text of these: the block interpreter
 * (backend/cpu/jit/blocks*.c) and plain Lua (lua_bindings/kernel/oracle.c) include it, and kernel/prelude.lua takes
 * each function that a kernel names, by the word behind the @ above it.
 *
 * Integers are Lua's: 64 bits that wrap around, shifts of any distance, exact comparison with floats. Random numbers
 * are functions of a seed and counters: the first two are words of Philox's counter, and each further one draws again.
 *
 * Invariant: it names no type of <stdint.h>, as kernels have no headers. Includers include <math.h> before. */
#pragma once

#include "philox.h"

/*@tk_shl(*/
TIDE_FN long long tk_shl(long long a, long long b) {
  long long up = (long long)((unsigned long long)a << (b & 63)),
            down = (long long)((unsigned long long)a >> ((0 - (unsigned long long)b) & 63));
  return b <= -64 || b >= 64 ? 0 : b >= 0 ? up : down;
}
/*@tk_shr(*/
TIDE_FN long long tk_shr(long long a, long long b) {
  long long up = (long long)((unsigned long long)a << ((0 - (unsigned long long)b) & 63)),
            down = (long long)((unsigned long long)a >> (b & 63));
  return b <= -64 || b >= 64 ? 0 : b >= 0 ? down : up;
}
/* -1, 0 or 1 as a is below, equal to or above b; 2 beside NaN. */
/*@tk_order(*/
TIDE_FN int tk_order(long long a, double b) {
  if (b != b) return 2;
  if (b >= 9223372036854775808.0) return -1;
  if (b < -9223372036854775808.0) return 1;
  long long whole = (long long)b;
  if (a != whole) return a < whole ? -1 : 1;
  double rest = b - (double)whole;
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}
/* Toward zero; the smallest integer if a does not fit. */
/*@TIDE_R(tk_whole)*/
TIDE_FN long long tk_whole_f32(float a) {
  return a >= -9223372036854775808.0f && a < 9223372036854775808.0f ? (long long)a : -9223372036854775807ll - 1;
}
TIDE_FN long long tk_whole_f64(double a) {
  return a >= -9223372036854775808.0 && a < 9223372036854775808.0 ? (long long)a : -9223372036854775807ll - 1;
}

/*@tk_philox(*/
TIDE_FN tide_philox tk_philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned long long key) {
  return tide_philox4x32_10(c0, c1, c2, c3, (unsigned)key, (unsigned)(key >> 32));
}
/*@tk_draw(*/
TIDE_FN tide_philox tk_draw(long long seed, long long i, long long j) {
  return tk_philox((unsigned)i, (unsigned)((unsigned long long)i >> 32), (unsigned)j,
                   (unsigned)((unsigned long long)j >> 32), (unsigned long long)seed);
}
/*@tk_more(*/
TIDE_FN tide_philox tk_more(tide_philox c, long long seed, long long n) {
  return tk_philox(c.v[0], c.v[1], c.v[2], c.v[3], (unsigned long long)seed ^ (unsigned long long)n);
}
/*@TIDE_R(tk_uniform)*/
TIDE_FN float tk_uniform_f32(tide_philox c) { return tide_unit_f32(c.v[0], 24); }
TIDE_FN double tk_uniform_f64(tide_philox c) { return tide_unit_f64(tide_random_u64(&c, 0)); }
/*@TIDE_R(tk_normal)*/
TIDE_FN float tk_normal_f32(tide_philox c) {
  float u = tide_unit_open_f32(c.v[0]), v = tide_unit_f32(c.v[1], 24);
  return sqrtf(-2.0f * logf(u)) * cosf(6.28318530717958647692f * v);
}
TIDE_FN double tk_normal_f64(tide_philox c) {
  double u = tide_unit_open_f64(tide_random_u64(&c, 0)), v = tide_unit_f64(tide_random_u64(&c, 1));
  return sqrt(-2.0 * log(u)) * cos(6.28318530717958647692 * v);
}
/* From low on, below high. */
/*@tk_integer(*/
TIDE_FN long long tk_integer(tide_philox c, long long low, long long high) {
  unsigned long long range = (unsigned long long)high - (unsigned long long)low;
  return high <= low ? low : (long long)((unsigned long long)low + tide_bounded(c, range));
}
