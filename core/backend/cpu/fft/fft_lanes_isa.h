/* fft_lanes_isa.h: what fft_lanes_template.h needs besides an instruction set; the files fft_lanes_*.c include it after
 * vector.h.
 *
 * EVEN, ODD: the even, or the odd, numbers of two vectors. LOW, HIGH: the first, or the second, halves of two vectors,
 * their numbers in turns. HEAD, TAIL: the first, or the second, of every two groups of h numbers, of one vector and of
 * the other in turns. FIRST, SECOND: as LOW and HIGH, within every four numbers. BACK: in reverse order. */
#pragma once

#include "fft_lanes.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 64")
#endif

#define EACH_2(f)     f(0), f(1)
#define EACH_4(f)     EACH_2(f), f(2), f(3)
#define EACH_8(f)     EACH_4(f), f(4), f(5), f(6), f(7)
#define EACH_16(f)    EACH_8(f), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#define EACH_(n, f)   EACH_##n(f)
#define EACH(n, f)    EACH_(n, f)
#define TAKE(a, b, f) __builtin_shufflevector(a, b, EACH(N, f)) /* number i of the result is number f(i) of both */
#define EVEN(a, b)    TAKE(a, b, EVEN_AT)
#define ODD(a, b)     TAKE(a, b, ODD_AT)
#define LOW(a, b)     TAKE(a, b, LOW_AT)
#define HIGH(a, b)    TAKE(a, b, HIGH_AT)
#define BACK(a)       TAKE(a, a, BACK_AT)
#define FIRST(a, b)   TAKE(a, b, FIRST_AT)
#define SECOND(a, b)  TAKE(a, b, SECOND_AT)
#define HEAD(h, a, b) TAKE(a, b, HEAD_AT_##h)
#define TAIL(h, a, b) TAKE(a, b, TAIL_AT_##h)
#define EVEN_AT(i)    (2 * (i))
#define ODD_AT(i)     (2 * (i) + 1)
#define LOW_AT(i)     ((i) / 2 + ((i)&1) * N)
#define HIGH_AT(i)    (N / 2 + LOW_AT(i))
#define BACK_AT(i)    (N - 1 - (i))
#define FIRST_AT(i)   ((i) / 4 * 4 + (i) % 4 / 2 + ((i)&1) * N)
#define SECOND_AT(i)  (FIRST_AT(i) + 2)
#define HEAD_AT(h, i) ((i) & (h) ? N + (i) - (h) : (i))
#define TAIL_AT(h, i) (((i) & (h) ? N : (h)) + (i))
#define HEAD_AT_1(i)  HEAD_AT(1, i)
#define HEAD_AT_2(i)  HEAD_AT(2, i)
#define HEAD_AT_4(i)  HEAD_AT(4, i)
#define HEAD_AT_8(i)  HEAD_AT(8, i)
#define TAIL_AT_1(i)  TAIL_AT(1, i)
#define TAIL_AT_2(i)  TAIL_AT(2, i)
#define TAIL_AT_4(i)  TAIL_AT(4, i)
#define TAIL_AT_8(i)  TAIL_AT(8, i)

/* Rows r of N numbers become columns by steps such as these: blocks of h numbers change places across the diagonals of
 * blocks of 2 h, or within each four rows those of every four numbers. */
#define EXCHANGE(h)                                                                                                    \
  UNROLL                                                                                                               \
  for (int i = 0; i < N; i++)                                                                                          \
    if (!(i & h)) {                                                                                                    \
      V a = r[i], b = r[i + h];                                                                                        \
      r[i] = HEAD(h, a, b), r[i + h] = TAIL(h, a, b);                                                                  \
    }
#define FOURS                                                                                                          \
  UNROLL                                                                                                               \
  for (int i = 0; i < N; i += 4) {                                                                                     \
    V a = FIRST(r[i], r[i + 1]), b = SECOND(r[i], r[i + 1]), c = FIRST(r[i + 2], r[i + 3]),                            \
      d = SECOND(r[i + 2], r[i + 3]);                                                                                  \
    r[i] = HEAD(2, a, c), r[i + 1] = TAIL(2, a, c), r[i + 2] = HEAD(2, b, d), r[i + 3] = TAIL(2, b, d);                \
  }

#define LANES_TABLE(F)                                                                                                 \
  {                                                                                                                    \
    .lanes = sizeof(F(vector)) / sizeof(((F(single) *)0)->re), .item = sizeof(((F(single) *)0)->re), .run = F(run),    \
    .load = F(load), .store = F(store), .multiply = F(multiply), .clear = F(clear), .twiddle = F(twiddle),             \
    .spread = F(spread), .unzip = F(unzip), .zip = F(zip), .mirror = F(mirror), .unzip_line = F(unzip_line),           \
    .zip_line = F(zip_line), .product = F(product), .fold = F(fold), .unzip_along = F(unzip_along),                    \
    .zip_along = F(zip_along)                                                                                          \
  }
