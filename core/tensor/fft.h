/* fft.h: plans of Fourier transforms as fft.c borrows them from fft_cache.c. */
#pragma once

#include "handle.h"
#include "tide/fft.h"

typedef struct tide__fft_entry {
  tide_fft_shape shape;
  void *plan;  /* the backend's */
  size_t work; /* bytes of device memory that a call needs */
  pthread_mutex_t lock;
  int device, users;
  bool listed;   /* the cache holds it */
  bool captured; /* a graph may hold its kernels: it lives until the runtime ends */
  struct tide__fft_entry *newer, *older, *chain;
} tide__fft_entry;

/* The plan for this shape, locked: plans serve one call at a time. */
tide_status tide__fft_take(tide__fft_entry **out, const tide_backend *backend, const tide_stream *stream,
                           const tide_fft_shape *shape);
void tide__fft_give(tide__fft_entry *entry);

/* fft_real.c: the full transform of a real x as a new tensor of this size; dims count from 0 and only the last one's
 * length changes. */
tide_status tide__fft_of_real(tide_tensor **out, const tide_tensor *x, const int64_t *size, tide_dtype dtype,
                              const int *dims, const int64_t *n, int ndims, tide_fft_norm norm, const char *what);
