/* fft_lanes.h: the arithmetic of Fourier transforms on the CPU, several lines at once: one in each lane of a vector.
 *
 * The only C++ of core lies behind this table, with the template library that it wraps. A lane buffer holds for each
 * element the real parts of all lanes, then their imaginary parts. Positions in memory count reals. */
#ifndef TIDE_CPU_FFT_LANES_H
#define TIDE_CPU_FFT_LANES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TIDE_FFT_LANES = 16 }; /* the most lanes of a table */

/* How the elements of one line follow each other: element k has its real part at k * step + re and its imaginary part
 * at k * step + im; im < 0: there is none, it is read as 0 and not written. */
typedef struct tide__fft_access {
  int64_t step, re, im;
} tide__fft_access;

typedef struct tide__fft_lanes {
  int lanes, item; /* bytes of a real */
  /* A forward transform of n elements, n > 1; NULL without memory. A plan is used by one thread at a time. */
  void *(*plan_new)(int n);
  void *(*plan_copy)(const void *plan);
  void (*plan_free)(void *plan);
  void (*run)(void *plan, void *out, const void *in);
  /* Lane l reads n elements from in + at[l], or writes n * scale to out + at[l], for l < used. */
  void (*load)(void *buffer, const void *in, const int64_t *at, tide__fft_access access, int64_t n);
  void (*store)(void *out, const void *buffer, const int64_t *at, tide__fft_access access, int64_t n, double scale,
                int used);
  /* x[k] becomes x[k] * w[k], or conj(x[k]) * w[k]; w has real and imaginary parts in turn. */
  void (*multiply)(void *buffer, const double *w, int64_t n, bool conj);
  void (*clear)(void *buffer, int64_t from, int64_t n);
  /* x[k] *= spread[k] * w[k]: spread is a lane buffer. */
  void (*twiddle)(void *buffer, const void *spread, const double *w, int64_t n);
  /* Lane l of element k becomes w[k * lanes + l]. */
  void (*spread)(void *buffer, const double *w, int64_t n);
  /* z, the transform of h pairs of reals, becomes h + 1 elements of the transform of the 2 h reals; w[k] =
   * exp(-pi i k / h). */
  void (*unzip)(void *out, const void *z, const double *w, int64_t h);
  /* And back: h + 1 elements become what a forward transform of h turns into the reals, imaginary parts first. */
  void (*zip)(void *out, const void *x, const double *w, int64_t h);
  /* n / 2 + 1 elements become n whose forward transform is the real line (n odd). */
  void (*mirror)(void *buffer, int64_t n);
  /* The same for one line alone: arrays of complex numbers. */
  void (*unzip_line)(void *out, const void *z, const double *w, int64_t h);
  void (*zip_line)(void *out, const void *x, const double *w, int64_t h);
  /* One line: out[k] = in[k] * w[k], w NULL for 1; with conj, of conj(in[k]). */
  void (*product)(void *out, tide__fft_access to, const void *in, tide__fft_access from, const double *w, int64_t n,
                  bool conj, double scale);
} tide__fft_lanes;

extern const tide__fft_lanes tide__fft_lanes_f32, tide__fft_lanes_f64;
#if defined(__x86_64__)
extern const tide__fft_lanes tide__fft_lanes_f32_avx2, tide__fft_lanes_f64_avx2;
#endif

#ifdef __cplusplus
}
#endif
#endif
