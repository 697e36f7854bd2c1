/* vector.h: what a file compiled for one instruction set includes first.
 *
 * A file isa_*.c names the set (TIDE_ISA_AVX512, TIDE_ISA_AVX2 or neither: what every processor of the kind has), and
 * the templates are compiled with it; isa.c chooses at run time. Nothing is ever built for the machine that builds.
 *
 * Transcendental functions become vector code through glibc's libmvec (4 ulp): declaring the scalar function with its
 * vector variants lets GCC use them in loops. Without a libmvec that has them all the loops call the scalar
 * functions. */
#pragma once

#if defined(TIDE_ISA_AVX512)
#  define TIDE_TARGET                                                                                                  \
    "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,popcnt,prefer-vector-width=512"
#  define TIDE_CLANG_TARGET "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,popcnt"
#elif defined(TIDE_ISA_AVX2)
#  define TIDE_TARGET       "avx2,fma,f16c,bmi,bmi2,popcnt"
#  define TIDE_CLANG_TARGET TIDE_TARGET
#endif

#define TIDE_PRAGMA_(text) _Pragma(#text)
#define TIDE_PRAGMA(text)  TIDE_PRAGMA_(text)
#if defined(__clang__)
#  pragma STDC FP_CONTRACT OFF
#  pragma clang diagnostic ignored "-Wpass-failed" /* loops with calls stay scalar, which is known */
#  define TIDE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#  ifdef TIDE_TARGET
TIDE_PRAGMA(clang attribute push(__attribute__((target(TIDE_CLANG_TARGET))), apply_to = function))
#  endif
#else
/* The iterations are independent even where the output is one of the inputs: element i touches nothing but element
 * i. */
#  define TIDE_IVDEP _Pragma("GCC ivdep")
/* Complex products are the plain formula and quotients are scaled, as on a GPU; neither calls into a library. */
#  pragma GCC optimize("cx-fortran-rules", "fp-contract=off")
#  ifdef TIDE_TARGET
TIDE_PRAGMA(GCC target(TIDE_TARGET))
#  endif
#endif

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#  include <immintrin.h>
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#  if __GLIBC_PREREQ(2, 35)
#    define TIDE_MVEC1(name)                                                                                           \
      extern double name(double) __attribute__((simd("notinbranch")));                                                 \
      extern float name##f(float) __attribute__((simd("notinbranch")));
#    define TIDE_MVEC2(name)                                                                                           \
      extern double name(double, double) __attribute__((simd("notinbranch")));                                         \
      extern float name##f(float, float) __attribute__((simd("notinbranch")));
TIDE_MVEC1(exp)
TIDE_MVEC1(exp2)
TIDE_MVEC1(expm1)
TIDE_MVEC1(log)
TIDE_MVEC1(log2)
TIDE_MVEC1(log10)
TIDE_MVEC1(log1p)
TIDE_MVEC1(sin)
TIDE_MVEC1(cos)
TIDE_MVEC1(tan)
TIDE_MVEC1(asin)
TIDE_MVEC1(acos)
TIDE_MVEC1(atan)
TIDE_MVEC1(sinh)
TIDE_MVEC1(cosh)
TIDE_MVEC1(tanh)
TIDE_MVEC1(asinh)
TIDE_MVEC1(acosh)
TIDE_MVEC1(atanh)
TIDE_MVEC1(erf)
TIDE_MVEC1(erfc)
TIDE_MVEC2(pow)
TIDE_MVEC2(atan2)
TIDE_MVEC2(hypot)
#    undef TIDE_MVEC1
#    undef TIDE_MVEC2
#  endif
#endif

#define TIDE_JOIN_(a, b) a##_##b
#define TIDE_JOIN(a, b)  TIDE_JOIN_(a, b)
