/* fft_lanes_isa.h: what fft_lanes_template.h needs besides an instruction set; the files fft_lanes_*.c include it after
 * vector.h.
 *
 * EVEN, ODD: the even, or the odd, numbers of two vectors. LOW, HIGH: the first, or the second, halves of two vectors,
 * their numbers in turns. HEAD, TAIL: the first, or the second, of every two groups of h numbers, of one vector and of
 * the other in turns. FIRST, SECOND: as LOW and HIGH, within every four numbers. BACK: in reverse order. */
#ifndef TIDE_CPU_FFT_LANES_ISA_H
#define TIDE_CPU_FFT_LANES_ISA_H

#include "fft_lanes.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#  define UNROLL _Pragma("clang loop unroll(full)")
#else
#  define UNROLL _Pragma("GCC unroll 64")
#endif

#define PASTE_(name, n) name##_##n
#define PASTE(name, n)  PASTE_(name, n)
#define EVEN(a, b)      PASTE(EVEN, N)(a, b)
#define ODD(a, b)       PASTE(ODD, N)(a, b)
#define LOW(a, b)       PASTE(LOW, N)(a, b)
#define HIGH(a, b)      PASTE(HIGH, N)(a, b)
#define BACK(a)         PASTE(BACK, N)(a)
#define FIRST(a, b)     PASTE(FIRST, N)(a, b)
#define SECOND(a, b)    PASTE(SECOND, N)(a, b)
#define HEAD(h, a, b)   PASTE(HEAD_##h, N)(a, b)
#define TAIL(h, a, b)   PASTE(TAIL_##h, N)(a, b)

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

/* clang-format off */
#define EVEN_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define EVEN_4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD_4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define EVEN_8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_16(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_16(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW_16(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_16(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define HEAD_1_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define TAIL_1_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define HEAD_2_4(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define TAIL_2_4(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define HEAD_1_4(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define TAIL_1_4(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define HEAD_4_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define TAIL_4_8(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define HEAD_2_8(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define TAIL_2_8(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define HEAD_1_8(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define TAIL_1_8(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define HEAD_8_16(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define TAIL_8_16(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define HEAD_4_16(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define TAIL_4_16(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define HEAD_2_16(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define TAIL_2_16(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define FIRST_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define SECOND_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define FIRST_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define SECOND_8(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define FIRST_16(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define SECOND_16(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define BACK_2(a) __builtin_shufflevector(a, a, 1, 0)
#define BACK_4(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#define BACK_8(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#define BACK_16(a) __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
/* clang-format on */

#endif
