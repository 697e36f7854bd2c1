/* tide/fft.h: Fourier transforms, and the cache of their plans on accelerators.
 *
 * float32, float64, complex64 and complex128 are accepted; integers and bool become the default float; 16-bit floats
 * are an error. Any length is. */
#ifndef TIDE_FFT_H
#define TIDE_FFT_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* FFT, IFFT: complex to complex. RFFT: real to the n / 2 + 1 elements that say all; IRFFT: back. HFFT: from half of a
 * signal whose transform is real; IHFFT: back. */
typedef enum tide_fft_kind {
  TIDE_FFT_FFT,
  TIDE_FFT_IFFT,
  TIDE_FFT_RFFT,
  TIDE_FFT_IRFFT,
  TIDE_FFT_HFFT,
  TIDE_FFT_IHFFT
} tide_fft_kind;

/* Which direction is divided by the number of elements: the backward one, the forward one, or both by its root. */
typedef enum tide_fft_norm { TIDE_FFT_BACKWARD, TIDE_FFT_ORTHO, TIDE_FFT_FORWARD } tide_fft_norm;

/* Transforms x over ndims different dims; the last one is halved. n: the lengths of the signal, cropped or
 * padded with zeros to; NULL or -1: as x has it, for IRFFT and HFFT 2 (size - 1). `what` names the caller in errors,
 * NULL: the kind's name. */
TIDE_API tide_status tide_fft(tide_tensor **out, tide_fft_kind kind, const tide_tensor *x, const int *dims,
                              const int64_t *n, int ndims, tide_fft_norm norm, tide_tensor *into, const char *what);
/* The frequencies of n samples that lie d apart, in the order of FFT; half: as for RFFT. A floating dtype. */
TIDE_API tide_status tide_fft_freq(tide_tensor **out, int64_t n, double d, bool half, const tide_options *options);
/* Rolls frequency 0 to the middle of the dims; inverse: back from there. */
TIDE_API tide_status tide_fft_shift(tide_tensor **out, const tide_tensor *x, const int *dims, int ndims, bool inverse);

/* How many plans the device's cache may hold; the least recently used one goes first. 0 keeps none. */
TIDE_API tide_status tide_fft_cache_set_max(int device, int64_t most);
TIDE_API tide_status tide_fft_cache_get_max(int64_t *most, int device); /* 4096 at the start */
TIDE_API tide_status tide_fft_cache_size(int64_t *size, int device);    /* how many plans it holds now */
TIDE_API tide_status tide_fft_cache_clear(int device);                  /* drops them all */

TIDE_C_END
#endif
