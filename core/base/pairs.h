/* pairs.h: the reductions of reduction.def whose fold is PAIR: two numbers, first and second, are what is known of some
 * elements. For C and for CUDA; the only definition of each.
 *
 *   tide_<name>_none_<s>(&first, &second)        of no element
 *   tide_<name>_of_<s>(&first, &second, x)       of one
 *   tide_<name>_join_<s>(&first, &second, f, s)  they become those of their elements and of others together
 *   tide_<name>_end_<s>(first, second)           the result
 * s is f32 or f64. No function branches, so that loops over them become vector code.
 *
 * logsumexp: the largest element m and the sum of exp(x - m). The smaller of two maxima is subtracted from the larger,
 * so that no exponential overflows; equal ones, infinities among them, have the distance 0. A NaN is never the maximum,
 * but makes the sum NaN. */
#pragma once

#include "random.h"

/* TIDE_IF_PAIR(fold, text): the text where the fold is PAIR. */
#define TIDE_IF_PAIR(fold, ...) TIDE_IF_PAIR_(TIDE_SECOND_(TIDE_IS_##fold##_FOLD, 0, 0), __VA_ARGS__)
#define TIDE_IF_PAIR_(is, ...)  TIDE_IF_PAIR__(is, __VA_ARGS__)
#define TIDE_IF_PAIR__(is, ...) TIDE_IF_PAIR_##is(__VA_ARGS__)
#define TIDE_IF_PAIR_0(...)
#define TIDE_IF_PAIR_1(...)             __VA_ARGS__
#define TIDE_IS_PAIR_FOLD               , 1
#define TIDE_SECOND_(...)               TIDE_SECOND(__VA_ARGS__)
#define TIDE_SECOND(first, second, ...) second

#define TIDE_LOGSUMEXP(s, T, f)                                                                                        \
  TIDE_FN void tide_logsumexp_none_##s(T *most, T *sum) { *most = -(T)INFINITY, *sum = 0; }                            \
  TIDE_FN void tide_logsumexp_of_##s(T *most, T *sum, T x) {                                                           \
    *most = x == x ? x : -(T)INFINITY, *sum = x == x ? 1 : x;                                                          \
  }                                                                                                                    \
  TIDE_FN void tide_logsumexp_join_##s(T *most, T *sum, T other, T its) {                                              \
    T apart = other == *most ? (T)0 : other - *most, factor = exp##f(-fabs##f(apart));                                 \
    *sum = apart > 0 ? *sum * factor + its : *sum + its * factor;                                                      \
    *most = apart > 0 ? other : *most;                                                                                 \
  }                                                                                                                    \
  TIDE_FN T tide_logsumexp_end_##s(T most, T sum) { return most + log##f(sum); }
TIDE_LOGSUMEXP(f32, float, f)
TIDE_LOGSUMEXP(f64, double, )
