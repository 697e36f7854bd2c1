/* windows.h: what MinGW's headers lack of C11 and POSIX; the compiler includes it before each file (-include). */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))

/* Those of Windows write no global sign that threads would share. */
static inline double lgamma_r(double x, int *sign) { return *sign = 1, lgamma(x); }
static inline float lgammaf_r(float x, int *sign) { return *sign = 1, lgammaf(x); }

static inline void *memmem(const void *in, size_t n, const void *what, size_t length) {
  for (const char *p = in; length <= n; p++, n--)
    if (!memcmp(p, what, length)) return (void *)(uintptr_t)p;
  return NULL;
}
