/* pairs.h: the reductions of reduction.def whose fold is PAIR: two numbers, first and second, are what is known of some
 * elements. For C and for CUDA; the only definition of each.
 *
 *   tide_<name>_none_<s>(&first, &second)        of no element
 *   tide_<name>_of_<s>(&first, &second, x)       of one
 *   tide_<name>_join_<s>(&first, &second, f, s)  they become those of their elements and of others together
 *   tide_<name>_end_<s>(first, second)           the result
 * s is f32 or f64. No function branches, so that loops over them become vector code. */
#ifndef TIDE_PAIRS_H
#define TIDE_PAIRS_H

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

#endif
