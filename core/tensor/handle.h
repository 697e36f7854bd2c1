/* handle.h: tensors and generators: the structs and what makes them. Private to core. */
#pragma once

#include "memory/memory.h"

/* ---- tensor.c ---- */

struct tide_tensor {
  _Atomic int64_t refs;
  tide_storage *storage;
  int64_t offset, numel;
  int32_t ndim;
  uint8_t dtype;
  bool contiguous;
  uint16_t replay;          /* the replay whose values it stands for; 0: whatever is there */
  struct tide_tensor *next; /* free list */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  tide__deferred deferred;
};
tide_tensor *tide__tensor_header(void); /* from a free list, refs 1, fields unset; NULL without memory (error set) */
/* A view of x's storage with its own size, stride, offset; checks nothing. */
tide_status tide__tensor_view(tide_tensor **out, const tide_tensor *x, const int64_t *size, const int64_t *stride,
                              int ndim, int64_t offset);
void tide__tensor_layout(tide_tensor *x); /* sets numel and contiguous from size and stride */
/* A new contiguous tensor. */
tide_status tide__tensor_new(tide_tensor **out, const int64_t *size, int ndim, tide_dtype dtype, int device);
static inline char *tide__tensor_ptr(const tide_tensor *x) {
  return (char *)x->storage->ptr + x->offset * tide__itemsize(x->dtype);
}
static inline int tide__tensor_device(const tide_tensor *x) { return x->storage->device; }
/* STATE if x is NULL, freed, or its runtime has ended; `what` names the function and `name` the argument. */
tide_status tide__tensor_check(const tide_tensor *x, const char *what, const char *name);
/* 0 <= *dim < ndim after counting negatives from the end; a 0-d tensor accepts 0 and -1. */
tide_status tide__dim_check(int *out, int dim, int ndim, const char *what);

/* ---- generator.c ---- */

/* Where one call's numbers begin, for the fields of these names in plan.h. */
typedef struct tide__draw {
  uint64_t seed, offset;
  const uint64_t *state;
} tide__draw;
/* Takes the place for one call, queued on the stream, and advances the generator by 4: at once, or at each replay of
 * the graph that is being captured there. */
tide_status tide__generator_take(tide__draw *out, tide_generator *g, tide_stream *stream);
/* Where the generator stands, after which it advances by so many calls. */
void tide__generator_advance(uint64_t *seed, uint64_t *offset, tide_generator *g, uint64_t calls);
/* Undo the two for what was not queued after all, unless somebody has drawn since. */
void tide__generator_untake(const tide__draw *draw, tide_generator *g, tide_stream *stream);
bool tide__generator_same(const tide_generator *g, const tide_generator *other); /* at one place? */
void tide__generator_retreat(uint64_t seed, uint64_t offset, tide_generator *g, uint64_t calls);

/* ---- fft_cache.c ---- */

void tide__fft_shutdown(void);
/* What a call with that plan, which a graph has captured, is to hold, since plans serve one call at a time; or NULL. */
pthread_mutex_t *tide__fft_lock(int device, const void *plan);
