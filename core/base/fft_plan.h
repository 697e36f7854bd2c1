/* fft_plan.h: the struct in which core hands Fourier transforms to a backend. */
#pragma once

#include "plan.h"

enum { TIDE_FFT_RANK = 3 };
typedef enum tide_fft_type { TIDE_FFT_C2C, TIDE_FFT_R2C, TIDE_FFT_C2R } tide_fft_type;

/* The geometry of a call: what a plan is made for and found by, so every byte of it is set. `rank` dims of n elements,
 * outermost first, beside `batch` equal transforms. Strides count elements of the side's own dtype; [0] is the output,
 * [1] the input. Each stride is a multiple of the next inner one and covers it. The last dim is the one that R2C and
 * C2R halve: its complex side has n / 2 + 1 elements. A plan serves both directions of C2C. */
typedef struct tide_fft_shape {
  uint8_t type, wide, rank, zeros[5]; /* wide: float64 and complex128 */
  int64_t n[TIDE_FFT_RANK], batch;
  int64_t stride[2][TIDE_FFT_RANK], distance[2];
} tide_fft_shape;

/* ptr[0] output, ptr[1] input, ptr[2] the work area that the plan asked for, or NULL. C2C may be in place, with equal
 * strides; else the two do not overlap. C2R may destroy its input where the backend makes plans or rank is above 1.
 * `plan` is the backend's own, NULL where it makes none; then results are multiplied by `scale`, which is 1 with a
 * plan. */
typedef struct tide_fft_args {
  tide_head head;
  void *plan;
  bool backward; /* R2C is forward, C2R backward */
  double scale;
  tide_fft_shape shape;
} tide_fft_args;
